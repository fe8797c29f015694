"""The views of a set for pages and the HTTP API: its pods, its vpods, and its sums, computed from a copy.

The caller bounds the lists: a page of vpods, all pods. The sums always count everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest

from algorithm.placements.model import Counts
from extender.vpods.copies import SetCopy, VPodCopy
from extender.vpods.records import HostNode, HostPod, ObjectKey


class PodStage(StrEnum):
    """Whether a pod may host vreplicas."""

    USABLE = "usable"
    #: It was ready and has been missing or not ready for a short time: it keeps its vreplicas and gets no more.
    RESTING = "resting"
    #: It gets no vreplicas: an annotation closes it, or its node is cordoned or does not serve.
    CLOSED = "closed"
    #: The set is about to shrink below it.
    LEAVING = "leaving"
    #: It has not started, has been missing or not ready for too long, or does not exist.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A pod of the set. `free` is what it can still take: 0 unless it is usable."""

    ordinal: int
    name: str
    node: str
    zone: str
    stage: PodStage
    #: Why it is not usable; "" if it is.
    why: str
    held: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveView:
    """Vreplicas on their way from one pod to another. A `source` of None: new; a `target` of None: given up."""

    vpod: str
    source: int | None
    target: int | None
    vreplicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """A set in numbers."""

    replicas: int
    usable: int
    #: Vreplicas that all vpods want, that are placed, and that have no pod.
    expected: int
    placed: int
    pending: int
    #: Vreplicas that usable pods can still take.
    free: int
    vpods: int
    #: VPods with vreplicas that have no pod.
    waiting: int
    #: The difference between the fullest and the emptiest usable pod; the same of zones, per pod of the zone.
    spread: int
    zone_spread: float
    #: Vreplicas by zone.
    zones: Mapping[str, int]


def pods(copy: SetCopy) -> list[PodView]:
    """Return all pods of the set, by ordinal."""
    usable = frozenset(copy.usable)
    return [_pod(copy, ordinal, usable) for ordinal in copy.ordinals()]


def _pod(copy: SetCopy, ordinal: int, usable: frozenset[int]) -> PodView:
    pod = copy.pods.get(ordinal)
    stage, why = stage_of(copy, ordinal, usable)
    held = copy.held.get(ordinal, 0)
    return PodView(
        ordinal=ordinal,
        name=pod.key.name if pod else f"{copy.settings.workload}-{ordinal}",
        node=pod.node if pod else "",
        zone=_zone(copy, pod),
        stage=stage,
        why=why,
        held=held,
        free=max(0, copy.settings.capacity - held) if stage is PodStage.USABLE else 0,
    )


def _zone(copy: SetCopy, pod: HostPod | None) -> str:
    """The zone of a pod's node, whether or not the set minds zones."""
    node = copy.nodes.get(pod.node) if pod else None
    return node.zone if node else ""


def stage_of(copy: SetCopy, ordinal: int, usable: frozenset[int]) -> tuple[PodStage, str]:
    """Return whether a pod may host vreplicas, and if not, why."""
    pod = copy.pods.get(ordinal)
    node = copy.nodes.get(pod.node) if pod else None
    if ordinal in copy.resting:
        seconds = max(0.0, copy.rests_until.get(ordinal, copy.now) - copy.now)
        return PodStage.RESTING, f"{_away(pod, node)}; it keeps its vreplicas for {seconds:.0f} s more"
    if ordinal in usable:
        return PodStage.USABLE, ""
    if ordinal >= copy.replicas:
        return PodStage.LEAVING, f"the set has {copy.replicas} replicas"
    if pod is not None and pod.closed:
        return PodStage.CLOSED, "an annotation closes the pod"
    if pod is not None and node is not None and not node.hosts(pod.tolerates):
        return PodStage.CLOSED, f"node {node.name} is cordoned, not ready, or has a taint that evicts the pod"
    if copy.draining is not None and ordinal >= copy.draining:
        return PodStage.LEAVING, f"the set is drained to {copy.draining} replicas"
    return PodStage.ABSENT, _away(pod, node)


def _away(pod: HostPod | None, node: HostNode | None) -> str:
    if pod is None:
        return "the pod does not exist"
    if pod.terminating:
        return "the pod is being deleted"
    if not pod.node:
        return "the pod has no node"
    if node is None:
        return f"node {pod.node} is not known"
    return "the pod is not ready"


def sums(copy: SetCopy, shown: Iterable[PodView] | None = None) -> Sums:
    """Return the set in numbers."""
    views = list(pods(copy) if shown is None else shown)
    usable = [pod for pod in views if pod.stage in (PodStage.USABLE, PodStage.RESTING)]
    held = [pod.held for pod in usable]
    zones: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for pod in usable:
        zones[pod.zone] += pod.held
        sizes[pod.zone] += 1
    shares = [zones[zone] / size for zone, size in sizes.items()]
    admitted = [vpod for vpod in copy.vpods if vpod.is_admitted]
    lacking = [vpod.pending for vpod in admitted]
    return Sums(
        replicas=copy.replicas,
        usable=len(usable),
        expected=sum(vpod.wanted for vpod in admitted if not vpod.record.deleting),
        placed=sum(vpod.scheduled for vpod in admitted),
        pending=sum(lacking),
        free=sum(pod.free for pod in views),
        vpods=len(copy.vpods),
        waiting=sum(1 for number in lacking if number),
        spread=max(held, default=0) - min(held, default=0),
        zone_spread=round(max(shares, default=0.0) - min(shares, default=0.0), 2),
        zones=dict(sorted(zones.items())),
    )


def moves(vpod: VPodCopy) -> list[MoveView]:
    """Return what is on its way of a vpod, by ordinal."""
    if not vpod.is_admitted or vpod.placed == vpod.committed:
        return []
    return paired(vpod.name, vpod.committed, vpod.placed)


def paired(name: str, before: Counts, after: Counts) -> list[MoveView]:
    """Return the moves that lead from one placement to another: lost vreplicas are paired with new ones by ordinal.

    What is left over is new (`source` None) or given up (`target` None).
    """
    sources = [[o, n - after.get(o, 0)] for o, n in sorted(before.items()) if n > after.get(o, 0)]
    targets = [[o, n - before.get(o, 0)] for o, n in sorted(after.items()) if n > before.get(o, 0)]
    found = []
    while sources and targets:
        source, target = sources[0], targets[0]
        number = min(source[1], target[1])
        found.append(MoveView(vpod=name, source=source[0], target=target[0], vreplicas=number))
        for side, side_list in ((source, sources), (target, targets)):
            side[1] -= number
            if not side[1]:
                side_list.pop(0)
    found += [MoveView(vpod=name, source=o, target=None, vreplicas=n) for o, n in sources]
    found += [MoveView(vpod=name, source=None, target=o, vreplicas=n) for o, n in targets]
    return found


def page(copy: SetCopy, *, after: str = "", limit: int = 100, waiting: bool = False) -> list[VPodCopy]:
    """Return the first `limit` vpods by name after this one. `waiting`: only those that lack room or are refused."""
    found = (vpod for vpod in copy.vpods if vpod.name > after and (not waiting or vpod.pending or vpod.message))
    return nsmallest(limit, found, key=_name)


def _name(vpod: VPodCopy) -> str:
    return vpod.name


def find(copy: SetCopy, name: str) -> VPodCopy | None:
    """Return the vpod of this name, as `VPodKey` writes it; a name alone is one in the set's namespace."""
    wanted = name if "/" in name else str(ObjectKey(copy.key.namespace, name))
    return next((vpod for vpod in copy.vpods if vpod.name == wanted), None)
