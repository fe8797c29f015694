"""A plain algorithm that checks what it is promised: cpu only, first offered node by name that has room.

It keeps the contract of `algorithm.interface` on its own side, and raises ContractBroken where the extender does not on
the other: told twice, out of order, asymmetrically, about a pod in both sets. Tests of the engine and the server use it
as the party that would be harmed.
"""

from __future__ import annotations

from typing import Self

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
from algorithm.model import CPU, Node, Pod
from algorithm.reasons import Code, reason


class ContractBroken(AssertionError):
    """The extender did not keep a guarantee of the interface."""


class PlainAlgorithm(SchedulerAlgorithm):
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.unallocated: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        self.preempting: dict[str, Pod] = {}
        self.broken: list[str] = []
        self.protected: frozenset[str] = frozenset()
        self.lingering: frozenset[str] = frozenset()
        #: A node that is chosen if it has room, whether it is offered or not.
        self.choose = ""
        #: Set to raise at the next call of that name.
        self.fail: set[str] = set()

    def _expect(self, condition: bool, text: str) -> None:
        if not condition:
            self.broken.append(text)
            raise ContractBroken(text)

    def _maybe_fail(self, name: str) -> None:
        if name in self.fail:
            self.fail.discard(name)
            raise RuntimeError(f"{name} was made to fail")

    def add_node(self, node: Node) -> None:
        self._expect(node.name not in self.nodes, f"node {node.name} added twice")
        self._maybe_fail("add_node")
        self.nodes[node.name] = node

    def update_node(self, old: Node, new: Node) -> None:
        self._expect(self.nodes.get(new.name) == old, f"node {new.name}: old record is not the one given before")
        self._maybe_fail("update_node")
        self.nodes[new.name] = new

    def delete_node(self, node: Node) -> None:
        self._expect(self.nodes.get(node.name) == node, f"node {node.name} deleted, but was never added so")
        self._maybe_fail("delete_node")
        del self.nodes[node.name]

    def add_unallocated_pod(self, pod: Pod) -> None:
        self._expect(pod.uid not in self.unallocated, f"{pod.key} is unallocated already")
        self._expect(pod.uid not in self.allocated, f"{pod.key} is allocated")
        self._expect(not pod.node_name, f"{pod.key} is unallocated, but on {pod.node_name}")
        self._maybe_fail("add_unallocated_pod")
        self.unallocated[pod.uid] = pod

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self._expect(self.unallocated.get(pod.uid) == pod, f"{pod.key} deleted, but was not unallocated so")
        self._expect(pod.uid not in self.preempting, f"{pod.key} deleted while it preempts")
        self._maybe_fail("delete_unallocated_pod")
        del self.unallocated[pod.uid]

    def add_allocated_pod(self, pod: Pod) -> None:
        self._expect(pod.uid not in self.allocated, f"{pod.key} is allocated already")
        self._expect(bool(pod.node_name), f"{pod.key} is allocated nowhere")
        self._maybe_fail("add_allocated_pod")
        self.allocated[pod.uid] = pod
        self.unallocated.pop(pod.uid, None)
        self.preempting.pop(pod.uid, None)

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self._expect(self.allocated.get(new.uid) == old, f"{new.key}: old record is not the one given before")
        self._expect(old.node_name == new.node_name, f"{new.key} moved")
        self._maybe_fail("update_allocated_pod")
        self.allocated[new.uid] = new

    def delete_allocated_pod(self, pod: Pod) -> None:
        self._expect(self.allocated.get(pod.uid) == pod, f"{pod.key} deleted, but was not allocated so")
        self._maybe_fail("delete_allocated_pod")
        del self.allocated[pod.uid]

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        self._expect(pod.uid in self.unallocated, f"{pod.key} preempts, but does not wait")
        self._maybe_fail("add_preempting_pod")
        self.preempting[pod.uid] = pod

    def delete_preempting_pod(self, pod: Pod) -> None:
        self._expect(self.preempting.get(pod.uid) == pod, f"{pod.key} does not preempt")
        self._maybe_fail("delete_preempting_pod")
        del self.preempting[pod.uid]

    def set_protected_pods(self, uids: frozenset[str]) -> None:
        self.protected = uids

    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        self.lingering = uids

    # -- deciding -------------------------------------------------------------------------------------------------

    def free(self, name: str) -> int:
        used = sum(dict(pod.requests).get(CPU, 0) for pod in self.allocated.values() if pod.node_name == name)
        return dict(self.nodes[name].allocatable).get(CPU, 0) - used

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        self._expect(pod.uid in self.unallocated, f"schedule of {pod.key}, which was never added as unallocated")
        self._maybe_fail("schedule")
        if pod.annotation("refuse"):
            raise PodRefused(reason(Code.POD_INVALID, detail="it says so"))
        wanted = dict(pod.requests).get(CPU, 0)
        known = [name for name in sorted(set(suggested_nodes)) if name in self.nodes]
        first = [self.choose] if self.choose in self.nodes and phase is Phase.FILTERING else []
        for name in first + known:
            if self.free(name) >= wanted:
                return Bind(name, (("plain/place", name),))
        for name in known:
            victims = self._victims(pod, name, wanted - self.free(name), phase)
            if victims:
                return Preempt(victims, reason(Code.PREEMPTIBLE, victims=[victim.uid for victim in victims]), name)
        return Wait(reason(Code.NO_NODE_FITS), {name: reason(Code.INSUFFICIENT, resources=[CPU]) for name in known})

    def _victims(self, pod: Pod, name: str, missing: int, phase: Phase) -> tuple[Victim, ...]:
        spared = self.lingering | (self.protected if phase is Phase.EVICTING else frozenset())
        here = [p for p in self.allocated.values() if p.node_name == name and p.uid not in spared]
        lower = [p for p in here if p.priority < pod.priority]
        chosen = []
        for victim in sorted(lower, key=lambda p: (p.priority, p.uid)):
            if missing <= 0:
                break
            chosen.append(Victim(name, victim.uid))
            missing -= dict(victim.requests).get(CPU, 0)
        return tuple(chosen) if missing <= 0 and pod.may_preempt else ()

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> dict[str, int]:
        return {name: 5 for name in nodes if name in self.nodes}

    def inspect(self) -> dict[str, object]:
        return {"allocated": sorted(self.allocated), "unallocated": sorted(self.unallocated)}

    def fork(self) -> Self:
        copy = type(self)()
        copy.nodes, copy.unallocated = dict(self.nodes), dict(self.unallocated)
        copy.allocated, copy.preempting = dict(self.allocated), dict(self.preempting)
        return copy
