"""The outcomes of preemptions of our own, and what each means for preemptors that were not placed.

placed       one preemptor got its place; the claims of the others last until kube-scheduler asks, or for a lease
unneeded     there is room without it: no more evictions, kube-scheduler is made to try again
given_up     with a reason that the preemptors show; or kube-scheduler did not ask for the cleared room
cancelled    all preemptors are gone, or another replica leads
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from algorithm.reasons import Code, Reason
from extender.core.deadlines import Deadlines
from extender.scheduling.events import Instruction
from extender.scheduling.preemption import eviction_commands
from extender.scheduling.preemption.backoff import EvictionBackoff
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, Preemption, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext

#: After these reasons, a retry without a pause would only fail in the same way.
_HOPELESS = (Code.PREEMPTION_NOT_RECORDED, Code.PREEMPTION_FAILED, Code.ALGORITHM_FAILED)


class Ending(StrEnum):
    """See the module docstring."""

    PLACED = "placed"
    UNNEEDED = "unneeded"
    GIVEN_UP = "given_up"
    CANCELLED = "cancelled"


class PreemptionOutcomes:
    """Ends preemptions. `active` are the preemptions under way, by number; `reviews` are the times at which each is
    looked at if no event comes before."""

    def __init__(
        self,
        state: SchedulingState,
        requeuer: Requeuer,
        backoff: EvictionBackoff,
        counts: Counter[tuple[str, str]],
    ) -> None:
        self.state = state
        self.policy = state.policy
        self.requeuer = requeuer
        self.backoff = backoff
        self.counts = counts
        self.active: dict[int, Preemption] = {}
        self.reviews: Deadlines[int] = Deadlines()

    def drop(self, preemption: Preemption) -> None:
        """Remove the preemption from those under way."""
        self.active.pop(preemption.number, None)
        self.reviews.discard(preemption.number)

    def close(self, preemption: Preemption, ending: Ending) -> list[Instruction]:
        """Close the preemption: nothing more is done for it. Members that still preempt rely on the cleared room."""
        preemption.over = True
        self.drop(preemption)
        for pod_info in preemption.members.values():
            if pod_info.preemption is preemption:
                pod_info.preemption = None
        self.counts["preemptions", f"direct {ending.value}"] += 1
        return []

    def give_up(self, preemption: Preemption, why: Reason, now: float) -> list[Instruction]:
        """Give the preemption up: its preemptors wait again, with this reason."""
        leader = preemption.leader
        members = self._release(preemption, Ending.GIVEN_UP, why, now)
        if why.code in _HOPELESS:
            for pod_info in members:
                self.backoff.back_off(pod_info.uid, why, now)
        out: list[Instruction] = [*leader.announce(why, warning=True), *self.requeuer.room_freed(now)]
        for pod_info in members:  # parked only now, so that the room they gave up themselves does not wake them
            self.requeuer.asked(pod_info)
            self.requeuer.park(pod_info, now)
        return [*out, *eviction_commands.unmark(preemption, members, self.policy)]

    def unneeded(self, preemption: Preemption, now: float) -> list[Instruction]:
        """End a preemption that is not needed any more: there is room, so its preemptors are requeued."""
        members = self._release(preemption, Ending.UNNEEDED, None, now)
        for pod_info in members:
            self.requeuer.enqueue(pod_info, now, at_once=True)
        return [*self.requeuer.room_freed(now), *eviction_commands.unmark(preemption, members, self.policy)]

    def expire(self, preemption: Preemption, now: float) -> list[Instruction]:
        """The room was kept for a lease, and kube-scheduler did not ask for it."""
        self.counts["holds", "preemption_expired"] += 1
        members = self._release(preemption, Ending.GIVEN_UP, None, now)
        for pod_info in members:
            self.requeuer.enqueue(pod_info, now)
        return [*self.requeuer.room_freed(now), *eviction_commands.unmark(preemption, members, self.policy)]

    def _release(self, preemption: Preemption, ending: Ending, why: Reason | None, now: float) -> list[PodInfo]:
        """Close the preemption, and make its preemptors wait again. Returns them."""
        members = [pod_info for pod_info in preemption.members.values() if pod_info.preemption is preemption]
        self.close(preemption, ending)
        for pod_info in members:
            self.let_go(pod_info, why, now)
        return members

    def let_go(self, pod_info: PodInfo, why: Reason | None, now: float) -> None:
        """End the pod's part in its preemption: it waits."""
        pod_info.preemption = None
        if pod_info.state is State.PREEMPTING:
            text = why.text if why is not None else "its preemption is over"
            self.state.move(pod_info, State.WAITING, now, TransitionContext(text, reason=why))
