"""A right algorithm that has every optional ability of the contract: the twin of most mistakes.

Each node takes a fixed number of pods. A pod gets the first free slot by number, which its binding writes on it. If a
member of a PodGroup runs, each waiting member keeps a slot beside it. A pod preempts pods of lower priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from algorithm.gauges import Gauge, Sample
from algorithm.interface import (
    Bind,
    GangInfo,
    PageNotFound,
    Phase,
    PodDescription,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Victim,
    Wait,
)
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin
from extender.operate.scaffold.slots import Settings

#: The number of the slot, which the binding writes.
SLOT = "example.com/slot"
#: The zone that a pod asks for; no node of another zone will do.
ZONE = "example.com/zone"


class Claim(NamedTuple):
    """Room that a preempting pod keeps."""

    pod: Pod
    node: str


class Everything(SchedulerAlgorithm):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.slots = settings.slots
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.waiting: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.seats: dict[str, str] = {}
        self.protected = self.lingering = self.lapsed = self.reserved = frozenset[str]()
        self.now = 0.0

    # -- changes ----------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.arrange()

    def update_node(self, old: Node, new: Node) -> None:
        self.nodes[new.name] = new
        self.arrange()

    def delete_node(self, node: Node) -> None:
        del self.nodes[node.name]
        self.arrange()

    def add_unallocated_pod(self, pod: Pod) -> None:
        self.waiting[pod.uid] = pod
        self.arrange()

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self.waiting.pop(pod.uid, None)
        self.arrange()

    def add_allocated_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.waiting.pop(pod.uid, None)
        self.claims.pop(pod.uid, None)
        self.arrange()

    def delete_allocated_pod(self, pod: Pod) -> None:
        self.pods.pop(pod.uid, None)
        self.arrange()

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self.pods[new.uid] = new
        self.arrange()

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        self.claims[pod.uid] = Claim(pod, node)
        self.arrange()

    def delete_preempting_pod(self, pod: Pod) -> None:
        self.claims.pop(pod.uid, None)
        self.arrange()

    def set_protected_pods(self, uids: frozenset[str]) -> None:
        self.protected = uids

    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        self.lingering = uids

    def set_lapsed_pods(self, uids: frozenset[str]) -> None:
        self.lapsed = uids
        self.arrange()

    def set_time(self, now: float) -> None:
        self.now = now

    def reserved_pods(self) -> frozenset[str]:
        return self.reserved

    def arrange(self) -> None:
        """Keep a slot for each waiting member of a group that runs, beside its first member by UID."""
        first: dict[str, str] = {}
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            if pod.group:
                first.setdefault(f"{pod.namespace}/{pod.group}", pod.node_name)
        seats: dict[str, str] = {}
        taken = Counter(pod.node_name for pod in self.pods.values())
        for uid in sorted(self.waiting):
            pod = self.waiting[uid]
            node = first.get(f"{pod.namespace}/{pod.group}", "") if pod.group and uid not in self.lapsed else ""
            claimed = sum(
                claim.node == node and other != uid and claim.pod.priority >= pod.priority
                for other, claim in self.claims.items()
            )
            if node in self.nodes and taken[node] + claimed < self.slots:
                seats[uid] = node
                taken[node] += 1
        self.seats = seats
        if seats.keys() != self.reserved:
            self.reserved = frozenset(seats)

    # -- decisions --------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        offered = self.offered(pod, suggested_nodes)
        for name in offered:
            if self.free(name, pod) > 0:
                return Bind(name, self.decision(name))
        if phase is not Phase.FILTERING and pod.may_preempt:
            planned = self.preempt(pod, offered, phase)
            if planned is not None:
                return planned
        return self.refuse(pod)

    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        """The nodes that may be chosen, in order: that of its seat first."""
        zone = pod.annotation(ZONE)
        known = [name for name in suggested_nodes if name in self.nodes and self.fits(self.nodes[name], zone)]
        own = self.seats.get(pod.uid, "")
        return sorted(known, key=lambda name: (name != own, name))

    def fits(self, node: Node, zone: str | None) -> bool:
        return not zone or (("zone", zone) in node.labels)

    def running(self, name: str) -> list[Pod]:
        return [self.pods[uid] for uid in sorted(self.pods) if self.pods[uid].node_name == name]

    def free(self, name: str, pod: Pod) -> int:
        held = sum(1 for uid, claim in self.claims.items() if claim.node == name and uid != pod.uid)
        kept = sum(1 for uid, node in self.seats.items() if node == name and uid != pod.uid and uid not in self.claims)
        return self.slots - len(self.running(name)) - held - kept

    def decision(self, name: str) -> tuple[tuple[str, str], ...]:
        used = {pod.annotation(SLOT) for pod in self.running(name)}
        slot = next(number for number in range(len(used) + 1) if str(number) not in used)
        return ((SLOT, str(slot)),)

    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        is_protected = False
        for name in offered:
            lower = self.lower(name, pod)
            candidates = [each for each in lower if not self.spared(each, phase)]
            needed = 1 - self.free(name, pod)
            unprotected = [each for each in lower if each.uid not in self.lingering]
            is_protected |= len(candidates) < needed <= len(unprotected)
            if len(candidates) >= needed:
                victims = candidates[:needed]
                keys = [str(each.key) for each in victims]
                plan = tuple(Victim(name, each.uid) for each in victims)
                return Preempt(plan, reason(Code.PREEMPTIBLE, victims=keys), name)
        return Wait(reason(Code.VICTIM_PROTECTED, victims="those that run there")) if is_protected else None

    def lower(self, name: str, pod: Pod) -> list[Pod]:
        """Pods that may be victims, the least important first."""
        own = self.priority(pod)
        found = [each for each in self.running(name) if self.priority(each) < own]
        return sorted(found, key=lambda each: (self.priority(each), each.uid))

    def spared(self, pod: Pod, phase: Phase) -> bool:
        return pod.uid in self.lingering or (phase is Phase.EVICTING and pod.uid in self.protected)

    def refuse(self, pod: Pod) -> Wait:
        return Wait(reason(Code.OTHER, detail="every offered node has its number of pods"))

    def gang(self, pod: Pod) -> GangInfo | None:
        return GangInfo(f"{pod.namespace}/{pod.group}", all_or_nothing=False) if pod.group else None

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        return {name: max(0, min(10, 10 * self.free(name, pod) // self.slots)) for name in nodes if name in self.nodes}

    # -- for people -------------------------------------------------------------------------------------------

    def inspect(self) -> Mapping[str, Any]:
        return {
            "nodes": {name: len(self.running(name)) for name in sorted(self.nodes)},
            "pods": sorted(self.pods),
            "waiting": sorted(self.waiting),
            "claims": {uid: self.claims[uid].node for uid in sorted(self.claims)},
        }

    def metrics(self) -> Sequence[Gauge]:
        samples = tuple(Sample(float(len(self.running(name))), (("node", name),)) for name in sorted(self.nodes))
        return (Gauge("used_slots", "Slots in use.", samples),)

    def explain(self, pod: Pod) -> Iterable[str]:
        taken = sum(len(self.running(name)) for name in self.nodes)
        return [f"{taken} of {self.slots * len(self.nodes)} slots are taken.", "It would run if a pod ended."]

    def describe(self, pod: Pod) -> PodDescription:
        return PodDescription(group=pod.group, tenant=pod.namespace, devices=1)

    def page(self, path: str) -> Any:
        if path != "slots":
            raise PageNotFound(path)
        return self.inspect()

    def changes_to(self, other: Self) -> Sequence[str]:
        same = other.slots == self.slots
        return [] if same else [f"Nodes take {other.slots} pods instead of {self.slots}."]

    def fork(self) -> Self:
        twin = type(self)(self.settings)
        for name in ("nodes", "pods", "waiting", "claims", "seats"):
            setattr(twin, name, dict(getattr(self, name)))
        for name in ("protected", "lingering", "lapsed", "reserved", "now"):
            setattr(twin, name, getattr(self, name))
        return twin


PLUGIN = Plugin(settings=Settings, create=Everything, annotations=(ZONE,), decisions=(SLOT,), node_annotations=())
