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
    a waiting pod                                 is requeued: there may be room now
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from algorithm.interface import SchedulerAlgorithm
from algorithm.reasons import Code, reason
from extender.scheduling.bootstrap import ClusterState, bootstrap
from extender.scheduling.driver import AlgorithmDriver, AlgorithmFault
from extender.scheduling.events import (
    AlgorithmPrepared,
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

#: Creates an algorithm of this name with these settings.
Create = Callable[[str, Mapping[str, Any]], SchedulerAlgorithm]


class Reconfiguring:
    """Replaces the algorithm. Keeps no state between two events."""

    def __init__(
        self,
        state: SchedulingState,
        informer_handler: InformerHandler,
        executor: PreemptionExecutor,
        requeuer: Requeuer,
        reservations: Reservations,
        preparations: Preparations,
    ) -> None:
        self.state = state
        self._preparations = preparations
        self._informer_handler = informer_handler
        self._executor = executor
        self._requeuer = requeuer
        self._reservations = reservations

    def requested(self, event: ReconfigureRequested) -> list[Instruction]:
        """Handle ReconfigureRequested: return a PrepareAlgorithm, and put the current state into the table."""
        self._preparations.offer(event.number, self._cluster_state())
        return [PrepareAlgorithm(event.number, event.algorithm, event.settings)]

    def prepared(self, event: AlgorithmPrepared, now: float) -> list[Instruction]:
        """Handle AlgorithmPrepared: let the new algorithm take over, or refuse it. Returns Reconfigured last."""
        new, old = self._preparations.take(event.number), self.state.driver
        if new is None:
            return [Reconfigured(event.number, "the new algorithm is not there")]
        bootstrap(new, self._cluster_state())
        if new.pending_count > old.pending_count:
            old.fault_log.absorb(new.fault_log)
            return [Reconfigured(event.number, f"it does not understand what is there: {new.last_fault}")]
        changes = old.changes_to(new.algorithm)
        claims = list(old.preempting.values())
        proposed = list(self._proposed())
        old.take_over(new)
        old.set_protected(self._executor.backoff.uids)
        self._executor.lingering.tell_again()
        self._reservations.tell_again()
        for pod_info in proposed:
            self._informer_handler.let_go(pod_info, reason(Code.RECONFIGURED), now)
        for pod, victims, node in claims:
            try:
                old.preempt(pod, victims, node)
            except AlgorithmFault as fault:
                self._give_up(pod.uid, fault, now)
        return [*self._go_on(now), Reconfigured(event.number, changes=changes)]

    def _go_on(self, now: float) -> list[Instruction]:
        out = self._executor.reconsider(now)
        for pod_info in sorted(self.state.pods, key=lambda pod_info: -pod_info.pod.priority):
            if pod_info.state is State.WAITING:
                self._requeuer.enqueue(pod_info, now)
        return [*out, *self._requeuer.requeue_due(now)]

    def _give_up(self, uid: str, fault: AlgorithmFault, now: float) -> None:
        pod_info = self.state.pods.get(uid)
        if pod_info is not None and pod_info.state is State.PREEMPTING:
            self.state.move(
                pod_info, State.WAITING, now, TransitionContext(f"its preemption could not be taken over: {fault}")
            )

    def _cluster_state(self) -> ClusterState:
        """Return the state for a new algorithm, including the changes that are pending for the current one."""
        driver = self.state.driver
        cluster = ClusterState(dict(driver.nodes), dict(driver.allocated), dict(driver.unallocated))
        nodes, pods = driver.pending()
        for name, node in nodes.items():
            _set(cluster.nodes, name, node)
        for uid, pod in pods.items():
            _set(cluster.allocated, uid, pod if pod is not None and pod.node_name else None)
            _set(cluster.unallocated, uid, pod if pod is not None and not pod.node_name else None)
        for pod_info in self._proposed():
            cluster.allocated.pop(pod_info.uid, None)
            _set(
                cluster.unallocated,
                pod_info.uid,
                pod_info.pod if self.state.policy.should_schedule(pod_info.pod) else None,
            )
        return cluster

    def _proposed(self) -> Iterator[PodInfo]:
        """The pods in Binding without a write in flight. Found by their holds: these are few, unlike pods."""
        for hold in self.state.ledger.active():
            pod_info = self.state.pods.holding(hold.token)
            if pod_info is not None and pod_info.state is State.BINDING and not self.state.in_flight(pod_info):
                yield pod_info


class Preparations:
    """The table of the algorithms that are being prepared, by number, between an engine and its I/O layer.

        engine     ReconfigureRequested --> offer: the state that is to be loaded --> PrepareAlgorithm
        I/O layer  PrepareAlgorithm ------> carry_out: creates the algorithm and loads that state
        engine     AlgorithmPrepared -----> take: it takes over, or is dropped

    So events and instructions hold only the number. The engine's calls are quick; `carry_out` is slow, and is not to be
    called under the lock. A replay carries out the same instructions, and finds the same here.
    """

    def __init__(self) -> None:
        self._states: dict[int, ClusterState] = {}
        self._made: dict[int, AlgorithmDriver] = {}

    @property
    def has_any(self) -> bool:
        """Whether an algorithm is being prepared; also True for one that the I/O layer has given up."""
        return bool(self._states or self._made)

    def offer(self, number: int, state: ClusterState) -> None:
        """Keep the state that is to be loaded into the algorithm of this number; it replaces an earlier one."""
        self._states[number] = state

    def carry_out(self, instruction: PrepareAlgorithm, create: Create) -> int:
        """Create the algorithm if needed, and load the state. Returns the number of changes delivered.

        `create` creates an algorithm of this name with these settings; its exceptions pass.
        """
        number = instruction.number
        if number not in self._made:
            self._made[number] = AlgorithmDriver(create(instruction.algorithm, instruction.settings))
        state = self._states.pop(number, None)
        return bootstrap(self._made[number], state) if state is not None else 0

    def take(self, number: int) -> AlgorithmDriver | None:
        """Remove and return the driver of the algorithm created for this number; None if there is none."""
        self._states.pop(number, None)
        return self._made.pop(number, None)


def _set(known: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value
