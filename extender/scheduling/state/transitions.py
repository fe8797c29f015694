"""The pod's state machine: one transition table, and what each transition changes in algorithm, cache and ledger.

                        +--+ refused again                      +--+ renewed: filter offers its node again
                        |  v                                    |  v
    (Unknown) -----> Waiting ---------- filter places it ----> Binding ------- shown bound -----> Bound
      seen unbound,   ^  ^  |                                  ^    |                             |  ^
      or asked about  |  |  | preempt                          |    |                             +--+ shown, changed
                      |  |  v                                  |    |
                      |  | Preempting -- filter places it -----+    |
                      |  |  |    |  ^                               |
                      |  +--+    +--+ renewed, or planned anew      |
                      |   it came to nothing                        |
                      |                                             |
                      +---- not bound after all --------------------+

    (Unknown), Waiting, Preempting --> Bound    another client bound it, or a restart found it bound
    (Unknown) --> Binding                       a pod of others that passed a filter is bound through us
    any state --> (Unknown)                     it was deleted, has ended, or does not wait any more

Binding and Bound are the *allocated* states: `add_allocated_pod` is called when a pod enters the first of them, and
`delete_allocated_pod` when it leaves the last. Only the API server makes a pod Bound, and a Bound pod leaves that state
only when it is gone: a pod is never unbound under the same UID.

What each state holds:

    state       ledger                      cache               algorithm
    Waiting     a hold until informed       -                   unallocated
    Preempting  a leased hold               -                   unallocated + preempting
    Binding     a leased hold (committing:  assumed             allocated
                no expiry)
    Bound       a hold until informed       added               allocated
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from algorithm.interface import Victim
from algorithm.model import Pod
from algorithm.reasons import Reason
from extender.core.deadlines import Deadlines
from extender.core.ledger import HoldState, Ledger
from extender.core.wait_index import WaitIndex
from extender.scheduling.driver import AlgorithmDriver
from extender.scheduling.policy import Policy
from extender.scheduling.state.cache import Cache, PodState
from extender.scheduling.state.pod_info import PodIndex, PodInfo, Preemption, State
from extender.scheduling.state.preemption_log import Outcome, PreemptionLog


class IllegalTransitionError(AssertionError):
    """A transition that is not in the table: a bug of the engine. The message contains the pod's history."""


class TransitionContext(msgspec.Struct, frozen=True):
    """The input of a transition besides the PodInfo."""

    why: str
    placed: Pod | None = None
    #: Entering Preempting: the victims, and the node where the pod is to run then ("" if open).
    victims: tuple[Victim, ...] = ()
    nominated_node: str = ""
    reason: Reason | None = None
    #: Leaving Binding: the hold was due, and a live read showed the pod unbound.
    expired: bool = False


class SchedulingState:
    """Moves pods between states, and keeps algorithm, cache, ledger and pod index consistent.

    A move that raises AlgorithmFault leaves the state unchanged.
    """

    def __init__(self, driver: AlgorithmDriver, policy: Policy) -> None:
        self.driver = driver
        self.policy = policy
        self.cache = Cache(remembered=policy.limits.removed_pods, ignored=policy.limits.ignored_pods)
        #: The payload of a hold is the node that the pod is placed on; None without a place.
        self.ledger: Ledger[str] = Ledger()
        self.wait_index = WaitIndex(remembered=policy.limits.touched_keys)
        self.pods = PodIndex()
        #: The current term; None outside any term, 0 without leader election. `terms.py` changes it.
        self.term: int | None = None if policy.elected else 0
        #: The informers have delivered their first lists.
        self.synced = False
        #: The number of the event that is being handled, or was last: the first is 1.
        self.sequence = 0
        #: Writes in flight by the pod's UID, with the time at which the pod is read live to learn the outcome, seconds.
        self.unresolved: Deadlines[str] = Deadlines()
        #: Preemptions of ours that a preemptor has just left: `preemption/executor.py` reviews them.
        self.disturbed: list[Preemption] = []
        #: Pods whose preemption was deferred, and which the informer has just reported: it may begin now.
        self.undeferred: list[PodInfo] = []
        #: Who preempted whom, for people.
        self.preemptions = PreemptionLog(driver)

    @property
    def deciding(self) -> bool:
        """Whether this server decides now (synced, within a term): every bind from now on is then our own."""
        return self.synced and self.term is not None

    def move(self, pod_info: PodInfo, to: State, now: float, context: TransitionContext) -> None:
        """Move the pod to a state, by the transition in TABLE, and record that in its history.

        Raises IllegalTransitionError for a pair of states that is not in TABLE; AlgorithmFault if the algorithm fails.
        """
        start = pod_info.state
        act = TABLE.get((start, to))
        if act is None:
            history = "\n".join(f"{line.at:.3f} {line.text}" for line in pod_info.history)
            raise IllegalTransitionError(f"{pod_info.key}: {start} -> {to} ({context.why})\n{history}")
        act(self, pod_info, now, context)
        pod_info.state = to
        if start is not to:
            pod_info.since = now
        if context.reason is not None:
            pod_info.reason = context.reason
        node = f" on {pod_info.placed.node_name}" if pod_info.placed is not None else ""
        pod_info.record(now, f"{start} -> {to}{node}: {context.why}", self.sequence)

    # -- into Waiting ---------------------------------------------------------------------------------------------

    def appear(self, pod_info: PodInfo, now: float, _context: TransitionContext) -> None:
        self.pods.add(pod_info)
        self._wait(pod_info, now)

    def give_up_preemption(self, pod_info: PodInfo, now: float, _context: TransitionContext) -> None:
        self.driver.stop_preempting(pod_info.pod)
        self._leave_preemption(pod_info, Outcome.GIVEN_UP)
        self._wait(pod_info, now)

    def let_go(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        if context.expired:
            self.cache.expire(pod_info.uid)
        self._leave_binding(pod_info)
        self._wait(pod_info, now)

    def _wait(self, pod_info: PodInfo, now: float) -> None:
        self.release_hold(pod_info)
        self.driver.add_unallocated(pod_info.pod)
        self._hold_until_informed(pod_info, now)

    # -- into Preempting ------------------------------------------------------------------------------------------

    def preempt(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        self.driver.preempt(pod_info.pod, context.victims, context.nominated_node)
        self.release_hold(pod_info)
        self._acquire(pod_info, now)
        self._name_victims(pod_info, context.victims, now)
        self._unpark(pod_info)

    def replan(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        self.driver.preempt(pod_info.pod, context.victims, context.nominated_node)
        self.renew(pod_info, now)
        self._name_victims(pod_info, context.victims, now)

    def _name_victims(self, pod_info: PodInfo, victims: tuple[Victim, ...], now: float) -> None:
        pod_info.victims = victims
        self.preemptions.preempting(pod_info.pod, victims, [self.cache.pod(victim.uid) for victim in victims], now)

    # -- into Binding ---------------------------------------------------------------------------------------------

    def place(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        assert context.placed is not None
        self.driver.allocate(context.placed)
        self.release_hold(pod_info)
        self._acquire(pod_info, now, node=context.placed.node_name)
        self.cache.assume(context.placed)
        pod_info.placed = context.placed
        pod_info.term = self.term or 0
        self._leave_preemption(pod_info, Outcome.PLACED)
        pod_info.reason, pod_info.nodes = None, {}
        self._unpark(pod_info)

    def adopt(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        """Place a pod that is not ours, but whose bind goes through us: it takes room like any other."""
        self.place(pod_info, now, context)
        self.pods.add(pod_info)

    # -- into Bound -----------------------------------------------------------------------------------------------

    def confirm(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        assert context.placed is not None
        assert pod_info.placed is not None
        if context.placed.node_name == pod_info.node:
            self.ledger.confirm(pod_info.token)
            self.drop_token(pod_info)
            self._hear_bound(pod_info, context.placed)
            self._hold_until_informed(pod_info, now)
            return
        self._leave_binding(pod_info)
        self.recover(pod_info, now, context)

    def recover(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        """Record a pod that was found bound, but not through us: after a restart, or bound by another client."""
        assert context.placed is not None
        if pod_info.state is State.UNKNOWN:
            self.pods.add(pod_info)
        self.release_hold(pod_info)
        self._unpark(pod_info)
        self.driver.confirm(context.placed)
        self.cache.put_bound(context.placed)
        pod_info.placed = context.placed
        self._settle(pod_info)
        self._hold_until_informed(pod_info, now)

    def update_bound(self, pod_info: PodInfo, now: float, context: TransitionContext) -> None:
        """Record a changed bound pod. A different node should be impossible; it is accepted all the same."""
        assert context.placed is not None
        if context.placed.node_name == pod_info.node:
            self._hear_bound(pod_info, context.placed)
        else:
            self.recover(pod_info, now, context)

    def _hear_bound(self, pod_info: PodInfo, placed: Pod) -> None:
        self.driver.confirm(placed)
        self.cache.put_bound(placed)
        pod_info.placed = placed
        self._settle(pod_info)

    def _settle(self, pod_info: PodInfo) -> None:
        pod_info.reason, pod_info.nodes, pod_info.unanswered, pod_info.place_pinned = None, {}, 0, False
        self._leave_preemption(pod_info, Outcome.PLACED)

    # -- out ------------------------------------------------------------------------------------------------------

    def remove(self, pod_info: PodInfo, _now: float, _context: TransitionContext) -> None:
        """Remove the pod. The caller decides whether its UID is also gone for good (`cache.remove_pod`)."""
        self.release_hold(pod_info)
        self._unpark(pod_info)
        self.driver.remove(pod_info.uid)
        if self.cache.state(pod_info.uid) is not None:
            self.cache.forget(pod_info.uid)
        pod_info.placed = None
        self._leave_preemption(pod_info, Outcome.GONE)
        self.preemptions.victim_gone(pod_info.uid)
        self.pods.remove(pod_info)
        self._stop_following(pod_info)

    # -- parts ----------------------------------------------------------------------------------------------------

    def _unpark(self, pod_info: PodInfo) -> None:
        if pod_info.requeuable:
            self.wait_index.drop(pod_info.uid)

    def _acquire(self, pod_info: PodInfo, now: float, *, node: str | None = None) -> None:
        hold = self.ledger.acquire(
            f"pod/{pod_info.uid}", str(pod_info.key), now=now, lease=self.policy.lease, payload=node
        )
        self.pods.set_token(pod_info, hold.token)

    def _leave_preemption(self, pod_info: PodInfo, outcome: Outcome) -> None:
        """Detach the pod from its victims and from its preemption, which is then reviewed."""
        if pod_info.state is State.PREEMPTING:
            self.preemptions.ended(pod_info.uid, outcome)
        pod_info.victims = ()
        if pod_info.preemption is not None:
            self.disturbed.append(pod_info.preemption)
            pod_info.preemption = None

    def _hold_until_informed(self, pod_info: PodInfo, now: float) -> None:
        """Hold a pod that the informer has never reported.

        The informer reports the end only of pods that it has reported before, so the hold's deadline makes us verify
        repeatedly that the pod exists.
        """
        if not pod_info.informed:
            self._acquire(pod_info, now)

    def shown(self, pod_info: PodInfo) -> str:
        """The latest resourceVersion of the pod that the API server showed; "" if only callers have named the pod."""
        return self.cache.versions.of(pod_info.key, pod_info.uid)

    def _stop_following(self, pod_info: PodInfo) -> None:
        """Remember the version of a pod that only does not wait any more, so that no late record brings it back."""
        shown = self.shown(pod_info)
        if shown and not pod_info.pod.node_name and not self.policy.should_schedule(pod_info.pod):
            self.cache.versions.ignore(pod_info.key, pod_info.uid, shown)
        else:
            self.cache.versions.drop(pod_info.key, pod_info.uid)

    def renew(self, pod_info: PodInfo, now: float) -> bool:
        """Give the pod's hold a new lease. False if it has no hold."""
        return self.ledger.renew(pod_info.token, now=now, lease=self.policy.lease)

    def release_hold(self, pod_info: PodInfo) -> None:
        if pod_info.token:
            self.ledger.release(pod_info.token)
            self.drop_token(pod_info)

    def drop_token(self, pod_info: PodInfo) -> None:
        """Clear the token of a hold that has ended. Reports that still come for it are late."""
        self.pods.set_token(pod_info, 0)
        self.unresolved.discard(pod_info.uid)
        pod_info.reading = None
        pod_info.lost, pod_info.doubt_until = "", None

    def is_writing(self, pod_info: PodInfo) -> bool:
        """Whether the pod's binding is being written, or is written but not confirmed yet."""
        hold = self.ledger.get(pod_info.token)
        return hold is not None and hold.state is not HoldState.HELD

    def in_flight(self, pod_info: PodInfo) -> bool:
        """Whether the pod's binding is being written, may still arrive, or is not confirmed yet. It keeps its place."""
        return self.is_writing(pod_info) or pod_info.doubt_until is not None

    def _leave_binding(self, pod_info: PodInfo) -> None:
        """Free the pod's proposed place."""
        self.release_hold(pod_info)
        if self.cache.state(pod_info.uid) is PodState.ASSUMED:
            self.cache.forget(pod_info.uid)
        pod_info.placed = None


_Act = Callable[[SchedulingState, PodInfo, float, TransitionContext], None]

#: All transitions. Any other pair of states raises IllegalTransitionError.
TABLE: dict[tuple[State, State], _Act] = {
    (State.UNKNOWN, State.WAITING): SchedulingState.appear,
    (State.UNKNOWN, State.BINDING): SchedulingState.adopt,
    (State.UNKNOWN, State.BOUND): SchedulingState.recover,
    (State.WAITING, State.PREEMPTING): SchedulingState.preempt,
    (State.WAITING, State.BINDING): SchedulingState.place,
    (State.WAITING, State.BOUND): SchedulingState.recover,
    (State.WAITING, State.UNKNOWN): SchedulingState.remove,
    (State.PREEMPTING, State.PREEMPTING): SchedulingState.replan,
    (State.PREEMPTING, State.WAITING): SchedulingState.give_up_preemption,
    (State.PREEMPTING, State.BINDING): SchedulingState.place,
    (State.PREEMPTING, State.BOUND): SchedulingState.recover,
    (State.PREEMPTING, State.UNKNOWN): SchedulingState.remove,
    (State.BINDING, State.WAITING): SchedulingState.let_go,
    (State.BINDING, State.BOUND): SchedulingState.confirm,
    (State.BINDING, State.UNKNOWN): SchedulingState.remove,
    (State.BOUND, State.BOUND): SchedulingState.update_bound,
    (State.BOUND, State.UNKNOWN): SchedulingState.remove,
}
