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
from dataclasses import dataclass

from algorithm.interface import Victim
from algorithm.model import Pod
from algorithm.reasons import Reason
from extender.core.deadlines import Deadlines
from extender.core.ledger import HoldState, Ledger
from extender.core.wait_index import WaitIndex
from extender.scheduling.driver import AlgorithmDriver
from extender.scheduling.policy import Policy
from extender.scheduling.state.cache import Cache, PodState
from extender.scheduling.state.pod_info import PodIndex, PodInfo, State
from extender.scheduling.state.preemption_log import Outcome, PreemptionLog
from extender.scheduling.state.preemption_record import Preemption


class IllegalTransitionError(AssertionError):
    """A transition that is not in the table: a bug of the engine. The message contains the pod's history."""


@dataclass(frozen=True, slots=True)
class TransitionContext:
    """The input of a transition besides the pod's entry."""

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
        #: Who preempted whom, for people.
        self.preemptions = PreemptionLog(driver)

    @property
    def deciding(self) -> bool:
        """Whether this server decides now (synced, within a term): every bind from now on is then our own."""
        return self.synced and self.term is not None

    def move(self, entry: PodInfo, to: State, now: float, context: TransitionContext) -> None:
        """Move the pod to a state, by the transition in TABLE, and record that in its history.

        Raises IllegalTransitionError for a pair of states that is not in TABLE; AlgorithmFault if the algorithm fails.
        """
        start = entry.state
        act = TABLE.get((start, to))
        if act is None:
            history = "\n".join(f"{line.at:.3f} {line.text}" for line in entry.history)
            raise IllegalTransitionError(f"{entry.key}: {start} -> {to} ({context.why})\n{history}")
        act(self, entry, now, context)
        entry.state = to
        if start is not to:
            entry.since = now
        if context.reason is not None:
            entry.reason = context.reason
        node = f" on {entry.placed.node_name}" if entry.placed is not None else ""
        entry.record(now, f"{start} -> {to}{node}: {context.why}", self.sequence)

    # -- into Waiting ---------------------------------------------------------------------------------------------

    def appear(self, entry: PodInfo, now: float, _context: TransitionContext) -> None:
        self.pods.add(entry)
        self._wait(entry, now)

    def give_up_preemption(self, entry: PodInfo, now: float, _context: TransitionContext) -> None:
        self.driver.stop_preempting(entry.pod)
        self._leave_preemption(entry, Outcome.GIVEN_UP)
        self._wait(entry, now)

    def let_go(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        if context.expired:
            self.cache.expire(entry.uid)
        self._leave_binding(entry)
        self._wait(entry, now)

    def _wait(self, entry: PodInfo, now: float) -> None:
        self.release_hold(entry)
        self.driver.add_unallocated(entry.pod)
        self._hold_until_informed(entry, now)

    # -- into Preempting ------------------------------------------------------------------------------------------

    def preempt(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        self.driver.preempt(entry.pod, context.victims, context.nominated_node)
        self.release_hold(entry)
        self._acquire(entry, now)
        self._name_victims(entry, context.victims, now)
        self.wait_index.drop(entry.uid)

    def replan(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        self.driver.preempt(entry.pod, context.victims, context.nominated_node)
        self.renew(entry, now)
        self._name_victims(entry, context.victims, now)

    def _name_victims(self, entry: PodInfo, victims: tuple[Victim, ...], now: float) -> None:
        entry.victims = victims
        self.preemptions.preempting(entry.pod, victims, [self.cache.pod(victim.uid) for victim in victims], now)

    # -- into Binding ---------------------------------------------------------------------------------------------

    def place(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        assert context.placed is not None
        self.driver.allocate(context.placed)
        self.release_hold(entry)
        self._acquire(entry, now, node=context.placed.node_name)
        self.cache.assume(context.placed)
        entry.placed = context.placed
        entry.term = self.term or 0
        self._leave_preemption(entry, Outcome.PLACED)
        entry.reason, entry.nodes = None, {}
        self.wait_index.drop(entry.uid)

    def adopt(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        """Place a pod that is not ours, but whose bind goes through us: it takes room like any other."""
        self.place(entry, now, context)
        self.pods.add(entry)

    # -- into Bound -----------------------------------------------------------------------------------------------

    def confirm(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        assert context.placed is not None
        assert entry.placed is not None
        if context.placed.node_name == entry.node:
            self.ledger.confirm(entry.token)
            self.drop_token(entry)
            self._hear_bound(entry, context.placed)
            self._hold_until_informed(entry, now)
            return
        self._leave_binding(entry)
        self.recover(entry, now, context)

    def recover(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        """Record a pod that was found bound, but not through us: after a restart, or bound by another client."""
        assert context.placed is not None
        if entry.state is State.UNKNOWN:
            self.pods.add(entry)
        self.release_hold(entry)
        self.wait_index.drop(entry.uid)
        self.driver.confirm(context.placed)
        self.cache.put_bound(context.placed)
        entry.placed = context.placed
        self._settle(entry)
        self._hold_until_informed(entry, now)

    def update_bound(self, entry: PodInfo, now: float, context: TransitionContext) -> None:
        """Record a changed bound pod. A different node should be impossible; it is accepted all the same."""
        assert context.placed is not None
        if context.placed.node_name == entry.node:
            self._hear_bound(entry, context.placed)
        else:
            self.recover(entry, now, context)

    def _hear_bound(self, entry: PodInfo, placed: Pod) -> None:
        self.driver.confirm(placed)
        self.cache.put_bound(placed)
        entry.placed = placed
        self._settle(entry)

    def _settle(self, entry: PodInfo) -> None:
        entry.reason, entry.nodes, entry.unanswered, entry.place_pinned = None, {}, 0, False
        self._leave_preemption(entry, Outcome.PLACED)

    # -- out ------------------------------------------------------------------------------------------------------

    def remove(self, entry: PodInfo, _now: float, _context: TransitionContext) -> None:
        """Remove the pod. The caller decides whether its UID is also gone for good (`cache.remove_pod`)."""
        self.release_hold(entry)
        self.wait_index.drop(entry.uid)
        self.driver.remove(entry.uid)
        if self.cache.state(entry.uid) is not None:
            self.cache.forget(entry.uid)
        entry.placed = None
        self._leave_preemption(entry, Outcome.GONE)
        self.preemptions.victim_gone(entry.uid)
        self.pods.remove(entry)
        self._stop_following(entry)

    # -- parts ----------------------------------------------------------------------------------------------------

    def _acquire(self, entry: PodInfo, now: float, *, node: str | None = None) -> None:
        hold = self.ledger.acquire(f"pod/{entry.uid}", str(entry.key), now=now, lease=self.policy.lease, payload=node)
        self.pods.set_token(entry, hold.token)

    def _leave_preemption(self, entry: PodInfo, outcome: Outcome) -> None:
        """Detach the pod from its victims and from its preemption, which is then reviewed."""
        if entry.state is State.PREEMPTING:
            self.preemptions.ended(entry.uid, outcome)
        entry.victims = ()
        if entry.preemption is not None:
            self.disturbed.append(entry.preemption)
            entry.preemption = None

    def _hold_until_informed(self, entry: PodInfo, now: float) -> None:
        """Hold a pod that the informer has never reported.

        The informer reports the end only of pods that it has reported before, so the hold's deadline makes us verify
        repeatedly that the pod exists.
        """
        if not entry.informed:
            self._acquire(entry, now)

    def shown(self, entry: PodInfo) -> str:
        """The latest resourceVersion of the pod that the API server showed; "" if only callers have named the pod."""
        return self.cache.versions.of(entry.key, entry.uid)

    def _stop_following(self, entry: PodInfo) -> None:
        """Remember the version of a pod that only does not wait any more, so that no late record brings it back."""
        shown = self.shown(entry)
        if shown and not entry.pod.node_name and not self.policy.should_schedule(entry.pod):
            self.cache.versions.ignore(entry.key, entry.uid, shown)
        else:
            self.cache.versions.drop(entry.key, entry.uid)

    def renew(self, entry: PodInfo, now: float) -> bool:
        """Give the pod's hold a new lease. False if it has no hold."""
        return self.ledger.renew(entry.token, now=now, lease=self.policy.lease)

    def release_hold(self, entry: PodInfo) -> None:
        if entry.token:
            self.ledger.release(entry.token)
            self.drop_token(entry)

    def drop_token(self, entry: PodInfo) -> None:
        """Clear the token of a hold that has ended. Reports that still come for it are late."""
        self.pods.set_token(entry, 0)
        self.unresolved.discard(entry.uid)
        entry.reading = None
        entry.lost, entry.doubt_until = "", None

    def is_writing(self, entry: PodInfo) -> bool:
        """Whether the pod's binding is being written, or is written but not confirmed yet."""
        hold = self.ledger.get(entry.token)
        return hold is not None and hold.state is not HoldState.HELD

    def in_flight(self, entry: PodInfo) -> bool:
        """Whether the pod's binding is being written, may still arrive, or is not confirmed yet. It keeps its place."""
        return self.is_writing(entry) or entry.doubt_until is not None

    def _leave_binding(self, entry: PodInfo) -> None:
        """Free the pod's proposed place."""
        self.release_hold(entry)
        if self.cache.state(entry.uid) is PodState.ASSUMED:
            self.cache.forget(entry.uid)
        entry.placed = None


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
