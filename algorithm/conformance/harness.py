"""Drives an algorithm through a cluster's life as the extender does, and checks the promises of `algorithm.interface`.

    submit --> waiting --- schedule answers Bind, allocate -----------------> allocated --- delete --> (gone)
               |  |  ^                                                        ^   |
               |  |  |                                  found_bound (no wait) +   |
               |  |  +--- stop_preempting --- preempting ---- allocate -----> (allocated)
               |  |                               ^                               |
               |  +--- answers Preempt, start_preempting                          |
               |  ^------------------------------ expire -------------------------+
               +--- delete --> (gone)

The harness remembers each record that it has reported, so adds and deletes are paired as the contract says. After every
change it calls `check`, and around every question `observe`: a test of one algorithm overrides these two. It raises
ContractBroken with a sentence that says which promise was broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from algorithm.interface import (
    Bind,
    Phase,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Unoffered,
    Victim,
)
from algorithm.model import Node, Pod

AlgorithmT = TypeVar("AlgorithmT", bound=SchedulerAlgorithm)
RecordT = TypeVar("RecordT", Node, Pod)


class ContractBroken(AssertionError):  # noqa: N818 - a verdict about the algorithm
    """The algorithm broke a promise of `algorithm.interface`."""


class AlgorithmHarness(Generic[AlgorithmT]):
    """One algorithm, and the nodes and pods that were reported to it.

    `create` makes the algorithm, and another one for `restarted`. `nodes` by name, `waiting` and `allocated` by UID are
    the current records; `preempting` has the victims of accepted preemptions by the preemptor's UID.
    """

    #: Ask every question twice (in another order of nodes) and a fork once, and check each answer.
    thorough = True

    def __init__(self, create: Callable[[], AlgorithmT], nodes: Iterable[Node] = ()) -> None:
        self.create = create
        self.algorithm = create()
        self.nodes: dict[str, Node] = {}
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        self.preempting: dict[str, tuple[Victim, ...]] = {}
        self.preempting_nodes: dict[str, str] = {}
        for each in nodes:
            self.add_node(each)

    # -- to override ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the algorithm's own invariants. Called after every change."""

    def observe(self) -> object:
        """Return what a question must leave unchanged: the whole state, comparable by `==`."""
        return self.algorithm.inspect()

    # -- nodes ------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.algorithm.add_node(node)
        self.check()

    def update_node(self, node: Node) -> None:
        old, self.nodes[node.name] = self.nodes[node.name], node
        self.algorithm.update_node(old, node)
        self.check()

    def delete_node(self, name: str) -> None:
        self.algorithm.delete_node(self.nodes.pop(name))
        self.check()

    # -- pods -------------------------------------------------------------------------------------------------

    def submit(self, *pods: Pod) -> None:
        """Pods appear that wait for a place."""
        for pod in pods:
            self.waiting[pod.uid] = pod
            self.algorithm.add_unallocated_pod(pod)
            self.check()

    def found_bound(self, pod: Pod) -> Pod:
        """A pod is found that has a node already: it was never asked about, or somebody else has bound it."""
        self.allocated[pod.uid] = pod
        self.waiting.pop(pod.uid, None)
        self.algorithm.add_allocated_pod(pod)
        self.preempting.pop(pod.uid, None)
        self.check()
        return pod

    def schedule(self, pod: Pod, nodes: Iterable[str] | None = None, phase: Phase = Phase.FILTERING) -> ScheduleResult:
        """Ask where a waiting pod goes; by default every known node is offered. Raises PodRefused if it does.

        The answer takes no effect: pass it to `allocate` or `start_preempting`.
        """
        offered = SuggestedNodes(self.nodes if nodes is None else nodes)
        before = self.observe()
        try:
            answer = self.algorithm.schedule(pod, offered, phase)
        finally:
            if self.observe() != before:
                raise ContractBroken(f"schedule leaves a trace: it was asked about {pod.key}")
        if self.thorough:
            self._check_answer(pod, offered, answer)
            self._ask_again(pod, offered, phase, answer)
        self.check()
        return answer

    def allocate(self, pod: Pod, answer: ScheduleResult) -> Pod:
        """Accept a Bind. Returns the allocated record, with the node and the annotations of the binding."""
        assert isinstance(answer, Bind), answer
        del self.waiting[pod.uid]
        self.preempting.pop(pod.uid, None)
        return self.found_bound(pod.placed(answer.node, answer.annotations))

    def place(self, pod: Pod, nodes: Iterable[str] | None = None) -> str:
        """Submit the pod if it is new, ask, and accept the answer, which must be a Bind. Returns the node."""
        if pod.uid not in self.waiting:
            self.submit(pod)
        return self.allocate(pod, self.schedule(pod, nodes)).node_name

    def expire(self, uid: str, *, without: Iterable[str] = ()) -> Pod:
        """A proposal comes to nothing: the pod waits again, without the annotations that the binding would have added.

        `without` names these annotations. Returns the waiting record.
        """
        gone = self.allocated.pop(uid)
        self.algorithm.delete_allocated_pod(gone)
        lost = frozenset(without)
        kept = tuple(pair for pair in gone.annotations if pair[0] not in lost)
        again = msgspec.structs.replace(gone, node_name="", annotations=kept)
        self.submit(again)
        return again

    def replace(self, pod: Pod) -> Pod:
        """A waiting pod changes: it goes away, and comes back with this record. Its preemption goes on."""
        victims, node = self.preempting.pop(pod.uid, None), self.preempting_nodes.get(pod.uid, "")
        if victims is not None:
            self.algorithm.delete_preempting_pod(self.waiting[pod.uid])
        self.algorithm.delete_unallocated_pod(self.waiting.pop(pod.uid))
        self.submit(pod)
        if victims is not None:
            self.preempting[pod.uid], self.preempting_nodes[pod.uid] = victims, node
            self.algorithm.add_preempting_pod(pod, victims, node)
        self.check()
        return pod

    def update(self, pod: Pod) -> Pod:
        """An allocated pod changes: its labels, or its resources. Its node stays."""
        old, self.allocated[pod.uid] = self.allocated[pod.uid], pod
        self.algorithm.update_allocated_pod(old, pod)
        self.check()
        return pod

    def delete(self, uid: str) -> None:
        """The pod goes away: it is deleted, or has ended."""
        if uid in self.preempting:
            self.stop_preempting(uid)
        if uid in self.waiting:
            self.algorithm.delete_unallocated_pod(self.waiting.pop(uid))
        else:
            self.algorithm.delete_allocated_pod(self.allocated.pop(uid))
        self.check()

    def start_preempting(self, pod: Pod, answer: ScheduleResult) -> tuple[str, ...]:
        """Accept a Preempt. Returns the UIDs of the victims; they still run until `delete`."""
        assert isinstance(answer, Preempt), answer
        self.preempting[pod.uid], self.preempting_nodes[pod.uid] = answer.victims, answer.node
        self.algorithm.add_preempting_pod(pod, answer.victims, answer.node)
        self.check()
        return tuple(victim.uid for victim in answer.victims)

    def stop_preempting(self, uid: str) -> None:
        del self.preempting[uid]
        self.algorithm.delete_preempting_pod(self.waiting[uid])
        self.check()

    # -- restarts ---------------------------------------------------------------------------------------------

    def restarted(self, seed: int = 0, *, nodes_by_name: bool = False) -> AlgorithmT:
        """Return a new algorithm that was told what is there, as after a restart, in an order that the seed chooses.

        All nodes come first, by name or in an order that the seed chooses, then all allocated pods, then the waiting
        ones. Preemptions are not known any more.
        """
        fresh = self.create()
        if nodes_by_name:
            for name in sorted(self.nodes):
                fresh.add_node(self.nodes[name])
        else:
            _report(self.nodes, fresh.add_node, seed)
        _report(self.allocated, fresh.add_allocated_pod, seed)
        _report(self.waiting, fresh.add_unallocated_pod, seed)
        return fresh

    # -- promises ---------------------------------------------------------------------------------------------

    def _check_answer(self, pod: Pod, offered: SuggestedNodes, answer: ScheduleResult) -> None:
        if isinstance(answer, Bind):
            allowed = answer.node in offered or self.algorithm.unoffered(pod) is Unoffered.PLACES
            _promise(allowed, f"{pod.key} goes to node {answer.node}, which was not offered")
        if not isinstance(answer, Preempt):
            return
        own = self.algorithm.priority(pod)
        for victim in answer.victims:
            found = self.allocated.get(victim.uid)
            _promise(found is not None, f"{pod.key} names victim {victim.uid}, which is not allocated")
            assert found is not None
            _promise(found.node_name == victim.node, f"victim {found.key} runs on {found.node_name}, not {victim.node}")
            theirs = self.algorithm.priority(found)
            _promise(theirs < own, f"victim {found.key} has priority {theirs}, {pod.key} has {own}")

    def _ask_again(self, pod: Pod, offered: SuggestedNodes, phase: Phase, answer: ScheduleResult) -> None:
        backwards = self.algorithm.schedule(pod, SuggestedNodes(reversed(offered)), phase)
        _promise(backwards == answer, f"another order of nodes gives {pod.key} another answer: {backwards}, {answer}")
        try:
            fork = self.algorithm.fork()
        except NotImplementedError:
            return
        theirs = fork.schedule(pod, SuggestedNodes(offered), phase)
        _promise(theirs == answer, f"a fork gives {pod.key} another answer: {theirs}, not {answer}")


def _report(records: Mapping[str, RecordT], report: Callable[[RecordT], None], seed: int) -> None:
    for name in sorted(records, key=lambda name: crc32(f"{seed} {name}".encode())):
        report(records[name])


def _promise(kept: bool, broken: str) -> None:
    if not kept:
        raise ContractBroken(broken)
