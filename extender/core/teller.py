"""Tells the algorithm what happens, and keeps its guarantees: each thing once, in order, and symmetrical.

What was told is remembered here, so a delete always names the very record that the add had, and nothing is told twice.
An algorithm that raises has not been told (its promise is that an exception changes nothing): the heart goes on, the
failure is counted, and what it does not know it is not told the end of either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from algorithm.interface import (
    Bind,
    Phase,
    PodRefused,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Victim,
    Wait,
)
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason


class AlgorithmFault(Exception):  # noqa: N818
    """The algorithm raised, or answered something that its contract rules out. Nothing has changed."""


class Teller:
    """The only one who speaks to the algorithm."""

    def __init__(self, algorithm: SchedulerAlgorithm) -> None:
        self.algorithm = algorithm
        self.nodes: dict[str, Node] = {}
        self.unallocated: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        self.preempting: dict[str, tuple[Pod, tuple[Victim, ...]]] = {}
        #: How often the algorithm raised, and the last time's text.
        self.faults = 0
        self.last_fault = ""

    # -- nodes ----------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """A node appeared or changed; another UID under the same name is another node."""
        old = self.nodes.get(node.name)
        if old is not None and old.uid != node.uid:
            self.drop_node(node.name)
            old = None
        if old == node:
            return
        told = (
            self._told(self.algorithm.add_node, node)
            if old is None
            else self._told(self.algorithm.update_node, old, node)
        )
        if told:
            self.nodes[node.name] = node

    def drop_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is not None:
            self._told(self.algorithm.delete_node, node)

    # -- pods -----------------------------------------------------------------------------------------------------

    def wants_place(self, pod: Pod) -> None:
        """The pod waits: it is unallocated now, whatever it was before. A changed record replaces the old one."""
        self.end_allocation(pod.uid)
        known = self.unallocated.get(pod.uid)
        if known is not None:
            if not _differs(known, pod):
                return
            self._replace_unallocated(pod)
        elif self._told(self.algorithm.add_unallocated_pod, pod):
            self.unallocated[pod.uid] = pod

    def _replace_unallocated(self, pod: Pod) -> None:
        """The pod changed while it waits. A preemption it has under way goes on with the new record."""
        claim = self.preempting.get(pod.uid)
        self.end_preemption(pod.uid)
        self._told(self.algorithm.delete_unallocated_pod, self.unallocated.pop(pod.uid))
        if self._told(self.algorithm.add_unallocated_pod, pod):
            self.unallocated[pod.uid] = pod
            if claim is not None:
                self.preempts(pod, claim[1])

    def takes_room(self, placed: Pod) -> None:
        """The pod, not allocated so far, is on `placed.node_name`. Raises AlgorithmFault if the algorithm does."""
        if not self._told(self.algorithm.add_allocated_pod, placed):
            raise AlgorithmFault(self.last_fault)
        self.allocated[placed.uid] = placed
        self.unallocated.pop(placed.uid, None)
        self.preempting.pop(placed.uid, None)

    def found_bound(self, placed: Pod) -> None:
        """The pod is bound, whatever the algorithm thinks of it: what it knew otherwise ends."""
        self.end_allocation(placed.uid)
        try:
            self.takes_room(placed)
        except AlgorithmFault:
            self.forget(placed.uid)

    def changed_in_place(self, placed: Pod) -> None:
        """An allocated pod changed where it is."""
        old = self.allocated.get(placed.uid)
        if old is None:
            self.found_bound(placed)
        elif _differs(old, placed) and self._told(self.algorithm.update_allocated_pod, old, placed):
            self.allocated[placed.uid] = placed

    def end_allocation(self, uid: str) -> None:
        """The pod takes no room any more."""
        placed = self.allocated.pop(uid, None)
        if placed is not None:
            self._told(self.algorithm.delete_allocated_pod, placed)

    def preempts(self, pod: Pod, victims: tuple[Victim, ...]) -> None:
        if self._told(self.algorithm.add_preempting_pod, pod, victims):
            self.preempting[pod.uid] = (pod, victims)

    def end_preemption(self, uid: str) -> None:
        claim = self.preempting.pop(uid, None)
        if claim is not None:
            self._told(self.algorithm.delete_preempting_pod, claim[0])

    def forget(self, uid: str) -> None:
        """The pod is gone: whatever the algorithm knows of it ends."""
        self.end_preemption(uid)
        self.end_allocation(uid)
        pod = self.unallocated.pop(uid, None)
        if pod is not None:
            self._told(self.algorithm.delete_unallocated_pod, pod)

    # -- questions ------------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        """The algorithm's decision. A pod that it refuses is a pod that waits. Raises AlgorithmFault."""
        if not nodes:
            return Wait(reason(Code.NOTHING_OFFERED))
        try:
            result = self.algorithm.schedule(pod, nodes, phase)
        except PodRefused as refused:
            return Wait(refused.reason)
        except Exception as error:
            self._failed(error)
            raise AlgorithmFault(self.last_fault) from error
        if not isinstance(result, Bind | Preempt | Wait):
            raise AlgorithmFault(f"schedule returned {type(result).__name__}, not Bind, Preempt or Wait")
        return result

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        """Scores by node name, 0..10; empty if the algorithm fails.

        kube-scheduler multiplies whatever it gets, and drops the whole list if one score is not an integer.
        """
        try:
            scores = self.algorithm.prioritize(pod, nodes)
            return {name: max(0, min(10, int(score))) for name, score in scores.items()}
        except Exception as error:
            self._failed(error)
            return {}

    def _told(self, call: Callable[..., None], *args: object) -> bool:
        try:
            call(*args)
        except Exception as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self.faults += 1
        self.last_fault = f"{type(error).__name__}: {error}"


def _differs(known: Pod, pod: Pod) -> bool:
    """Whether an algorithm could care: everything but the bookkeeping of the API server."""
    if known.resource_version and known.resource_version == pod.resource_version:
        return False
    return _substance(known) != _substance(pod)


def _substance(pod: Pod) -> tuple[object, ...]:
    return (pod.requests, pod.limits, pod.priority, pod.may_preempt, pod.labels, pod.annotations, pod.group)
