"""Views of the engine for display: plain records, made from snapshots, outside the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from algorithm.interface import SuggestedNodes
from algorithm.model import CPU, PODS, Pairs, Pod, Resources
from algorithm.quantity import format_quantity
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.faults import Fault, FaultKind
from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.state.cache import Snapshot
from extender.scheduling.state.pod_info import PodInfo, State
from extender.server.replay_hint import not_recorded

#: The states in which a pod has no place.
PENDING = (State.WAITING, State.PREEMPTING)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a probe passes, and if not, why; a ready server may have warnings in `detail`."""

    ready: bool
    detail: str = ""


class Served(Protocol):
    """What probes ask of something that is served."""

    def liveness(self) -> Readiness:
        """Whether the process can go on; if not, it needs a restart."""
        ...

    def readiness(self) -> Readiness:
        """Whether calls are served."""
        ...

    def informed(self) -> Readiness:
        """Whether calls are served, or could be if this replica led."""
        ...


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod. `since_seconds` is its time in this state, `attempts` the number of its filter calls.

    `kube_scheduler` is the message that kube-scheduler wrote when it last found no node for the pod, "" if none.
    `offered` are the nodes that it offered last, None if it never asked. `summary` is one sentence about a pod that
    waits. `gang`, `tenant`, `priority` and `devices` are what the algorithm says that they are.
    """

    namespace: str
    name: str
    uid: str
    state: str
    node: str = ""
    reason: Reason | None = None
    attempts: int = 0
    gang: str = ""
    since_seconds: float = 0.0
    priority: int = 0
    kube_scheduler: str = ""
    offered: SuggestedNodes | None = None
    summary: str = ""
    tenant: str = ""
    devices: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node: its allocatable resources, and the total requests of pods that are bound or assumed there."""

    name: str
    labels: Pairs = ()
    allocatable: Resources = ()
    requested: Resources = ()
    pods: int = 0
    ready: bool = True
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class FaultsView:
    """What the algorithm did wrong: how often, the last time, and the nodes that it was not told of.

    `total` and `last` are about exceptions and breaches of the contract; `counts` and `last_of` about each kind.
    `now` and `last.at` are seconds of the same clock. `replay` returns how an event is replayed, by its number.
    """

    total: int
    last: Fault | None
    now: float
    unknown_nodes: tuple[str, ...]
    counts: Mapping[FaultKind, int] = field(default_factory=dict)
    last_of: Mapping[FaultKind, Fault] = field(default_factory=dict)
    replay: Callable[[int], str] = not_recorded


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod is where it is: the dominant reason, the reasons of single nodes, the nodes that lack least.

    `story` is its history, `advice` the algorithm's own explanation. `node_if_asked` and `reason_if_asked` are what the
    algorithm would answer now; both are empty if that is unknown.
    """

    pod: PodView
    reason: Reason | None = None
    nodes: dict[str, Reason] = field(default_factory=dict)
    nearest: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    node_if_asked: str = ""
    reason_if_asked: Reason | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The pods with a scheduling gate at one moment of a recording, by namespace and name: why each is held back.

    `unknown` is a sentence about those that cannot be known; "" if all are.
    """

    explanations: tuple[Explanation, ...] = ()
    unknown: str = ""

    @property
    def pods(self) -> tuple[PodView, ...]:
        return tuple(each.pod for each in self.explanations)

    def find(self, namespace: str, name: str) -> Explanation | None:
        """Return why this pod is held back; None if it is not known to be."""
        same = (each for each in self.explanations if (each.pod.namespace, each.pod.name) == (namespace, name))
        return next(same, None)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a scrape, with labels and value of each sample. Those of a histogram are its cumulative buckets,
    each with the label `le`, and `sums` has the sums of what it observed."""

    name: str
    kind: str
    help: str
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)
    sums: list[tuple[dict[str, str], float]] = field(default_factory=list)


def pod_view(pod_info: PodInfo, now: float, message: str = "") -> PodView:
    """Return the view of a pod. `message` is what kube-scheduler wrote on it; it counts while the pod has no place."""
    pod = pod_info.pod
    message = message if pod_info.state in PENDING else ""
    why = reason_of(pod_info, message)
    return PodView(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        state=pod_info.state.value,
        node=pod_info.node,
        reason=why,
        attempts=pod_info.attempts,
        gang=pod.annotation(GANG_ANNOTATION) or pod.group,
        since_seconds=max(0.0, now - pod_info.since),
        priority=pod.priority,
        kube_scheduler=message,
        offered=pod_info.offered if pod_info.attempts else None,
        summary=why.text if why is not None else "",
    )


def reason_of(pod_info: PodInfo, message: str) -> Reason | None:
    """Return why the pod waits. A waiting pod always has a reason.

    If Waggle was never asked about it, that is what kube-scheduler wrote, whose own plug-ins accept no node; or that it
    has written nothing yet.
    """
    if pod_info.reason is None and pod_info.state is State.WAITING:
        return _refused_before(message) if message else _NOT_ASKED
    return pod_info.reason


_NOT_ASKED = reason(Code.NOT_ASKED)


@lru_cache(maxsize=256)
def _refused_before(message: str) -> Reason:
    return reason(Code.REFUSED_BEFORE, detail=message)


def node_views(snapshot: Snapshot) -> list[NodeView]:
    """Return all known nodes, sorted by name."""
    return [
        NodeView(
            name=name,
            labels=info.node.labels,
            allocatable=info.node.allocatable,
            requested=info.requested,
            pods=len(info.pods),
            ready=info.node.ready,
            unschedulable=info.node.unschedulable,
        )
        for name, info in snapshot.nodes.items()
        if info.node is not None
    ]


def nearest(pod: Pod, nodes: Iterable[NodeView], limit: int = 3) -> list[str]:
    """Return the nodes that lack least for this pod, best first, each as a text with what it lacks.

    None if a node lacks nothing: then it is not for amounts that the pod waits.
    """
    ranked = []
    for node in nodes:
        if node.unschedulable or not node.ready:
            continue
        lacks = shortfall(pod, node)
        if not lacks:
            return []
        share = sum(missing / wanted for missing, wanted in lacks.values())
        ranked.append((len(lacks), share, node.name, lacks))
    return [_sentence(name, lacks) for _, _, name, lacks in sorted(ranked, key=lambda item: item[:3])[:limit]]


def shortfall(pod: Pod, node: NodeView) -> dict[str, tuple[int, int]]:
    """Return by resource how much the node lacks for this pod, and how much the pod requests."""
    allocatable, requested = dict(node.allocatable), dict(node.requested)
    missing = {}
    for name, wanted in pod.requests:
        lack = wanted - (allocatable.get(name, 0) - requested.get(name, 0))
        if wanted > 0 and lack > 0:
            missing[name] = (lack, wanted)
    if PODS in allocatable and node.pods >= allocatable[PODS]:
        missing[PODS] = (1, 1)
    return missing


def _sentence(name: str, lacks: Mapping[str, tuple[int, int]]) -> str:
    parts = [f"{format_quantity(lack, milli=key == CPU)} {key}" for key, (lack, _) in sorted(lacks.items())]
    return f"{name}: lacks {', '.join(parts)}"
