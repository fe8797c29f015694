"""Replaces the algorithm at run time by the same algorithm with other settings.

    ReconfigureRequested --> PrepareAlgorithm, with the current state: the new algorithm is created and loaded,
          ^      |           beside the one that decides, for as long as that takes
          +------+           repeated as long as much has changed meanwhile
    AlgorithmPrepared -----> the rest is loaded, and it decides from now on; Reconfigured lists what that changed

Either the new algorithm takes over completely, or nothing changes: it is refused if it raises at state that the current
one accepts. Earlier decisions are treated by how far they are:

    a binding that is written or may have been    goes on; the new algorithm gets it as allocated
    a place that was only proposed                is withdrawn, and kube-scheduler is made to ask again
    a preemption, ours or kube-scheduler's        its room is claimed again; our own are planned again
    a waiting pod                                 is nudged: there may be room now
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from algorithm.interface import SchedulerAlgorithm
from algorithm.reasons import Code, reason
from extender.scheduling.bootstrap import ClusterState, learn
from extender.scheduling.driver import AlgorithmDriver, AlgorithmFault
from extender.scheduling.events import (
    AlgorithmPrepared,
    Event,
    Instruction,
    PrepareAlgorithm,
    Reconfigured,
    ReconfigureRequested,
)
from extender.scheduling.informer_handler import InformerHandler
from extender.scheduling.preemption.executor import PreemptionExecutor
from extender.scheduling.requeue import Requeuer
from extender.scheduling.reservations import Reservations
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class Reconfiguring:
    """Replaces the algorithm. Keeps no state between two events."""

    def __init__(
        self,
        transitions: SchedulingState,
        informed: InformerHandler,
        evictions: PreemptionExecutor,
        waking: Requeuer,
        reservations: Reservations,
    ) -> None:
        self.t = transitions
        self._informed = informed
        self._evictions = evictions
        self._waking = waking
        self._reservations = reservations

    def requested(self, event: ReconfigureRequested) -> list[Instruction]:
        """Handle ReconfigureRequested: return a PrepareAlgorithm with the current state."""
        return [PrepareAlgorithm(event.number, event.algorithm, event.settings, self._truth())]

    def prepared(self, event: AlgorithmPrepared, now: float) -> list[Instruction]:
        """Handle AlgorithmPrepared: let the new algorithm take over, or refuse it. Returns Reconfigured last."""
        new, old = event.teller, self.t.teller
        if new is None:
            return [Reconfigured(event.number, "the new algorithm is not there")]
        learn(new, self._truth())
        if new.owes > old.owes:
            return [Reconfigured(event.number, f"it does not understand what is there: {new.last_fault}")]
        changes = _changes(old.algorithm, new)
        claims = list(old.preempting.values())
        proposed = list(self._proposed())
        old.become(new)
        old.protects(self._evictions.protection.uids)
        self._evictions.lingering.tell_again()
        self._reservations.tell_again()
        for entry in proposed:
            self._informed.let_go(entry, reason(Code.RECONFIGURED), now)
        for pod, victims, node in claims:
            try:
                old.preempts(pod, victims, node)
            except AlgorithmFault as fault:
                self._give_up(pod.uid, fault, now)
        return [*self._go_on(now), Reconfigured(event.number, changes=changes)]

    def _go_on(self, now: float) -> list[Instruction]:
        out = self._evictions.reconsider(now)
        for entry in sorted(self.t.roster, key=lambda entry: -entry.pod.priority):
            if entry.state is State.WAITING:
                self._waking.line_up(entry, now)
        return [*out, *self._waking.nudge(now)]

    def _give_up(self, uid: str, fault: AlgorithmFault, now: float) -> None:
        entry = self.t.roster.get(uid)
        if entry is not None and entry.state is State.PREEMPTING:
            self.t.move(
                entry, State.WAITING, now, TransitionContext(f"its preemption could not be taken over: {fault}")
            )

    def _truth(self) -> ClusterState:
        """Return the state for a new algorithm, including the changes that are owed to the current one."""
        teller = self.t.teller
        truth = ClusterState(dict(teller.nodes), dict(teller.allocated), dict(teller.unallocated))
        nodes, pods = teller.owed()
        for name, node in nodes.items():
            _set(truth.nodes, name, node)
        for uid, pod in pods.items():
            _set(truth.allocated, uid, pod if pod is not None and pod.node_name else None)
            _set(truth.unallocated, uid, pod if pod is not None and not pod.node_name else None)
        for entry in self._proposed():
            truth.allocated.pop(entry.uid, None)
            _set(truth.unallocated, entry.uid, entry.pod if self.t.policy.wants_place(entry.pod) else None)
        return truth

    def _proposed(self) -> Iterator[PodInfo]:
        """The pods in Binding without a write in flight. Found by their holds: these are few, unlike pods."""
        for hold in self.t.ledger.active():
            entry = self.t.roster.holding(hold.token)
            if entry is not None and entry.state is State.BINDING and not self.t.in_flight(entry):
                yield entry


class Preparations:
    """For the I/O layer: creates algorithms as instructed and loads state into them. Slow: not to be called under the
    lock.

    `create` creates an algorithm of this name with these settings. A replay does the same as the server did.
    """

    def __init__(self, create: Callable[[str, Mapping[str, Any]], SchedulerAlgorithm]) -> None:
        self._create = create
        self._made: dict[int, AlgorithmDriver] = {}

    def carry_out(self, instruction: PrepareAlgorithm) -> int:
        """Create the algorithm if needed, and load the state. Returns the number of changes delivered."""
        number = instruction.number
        if number not in self._made:
            self._made[number] = AlgorithmDriver(self._create(instruction.algorithm, instruction.settings))
        return learn(self._made[number], instruction.truth)

    def take(self, number: int) -> AlgorithmDriver | None:
        """Remove and return the driver of the algorithm created for this number; None if there is none."""
        return self._made.pop(number, None)

    def completed(self, event: Event) -> Event:
        """Return a recorded AlgorithmPrepared with its algorithm; any other event unchanged."""
        if isinstance(event, AlgorithmPrepared) and event.teller is None:
            return replace(event, teller=self.take(event.number))
        return event


def _set(known: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _changes(old: SchedulerAlgorithm, new: AlgorithmDriver) -> tuple[str, ...]:
    """What the old algorithm reports about the change to the new one. The call may fail without harm."""
    try:
        return tuple(old.changes_to(new.algorithm))
    except Exception as error:
        return (f"what it changes cannot be said: {type(error).__name__}: {error}",)
