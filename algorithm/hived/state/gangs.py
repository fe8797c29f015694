"""Bound pods by gang, as found at a start: the result does not depend on the order of the pods.

Pods are sorted by age (creation time, then namespace, name, UID). The oldest pod of a group says what the gang's plan
is. A statement of any member holds for the gang: if one member agreed to lazy preemption, the gang did; if one was
bound without quota, the gang had lost it. The gang's claim comes from the members that were bound with quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from algorithm.decisions import decision, is_shortened
from algorithm.hived.formats import bindinfo
from algorithm.hived.formats.allocation import Allocation, Place, own_place_of
from algorithm.hived.formats.podspec import PodSpec, UserError
from algorithm.hived.state import lazy_preemption
from algorithm.hived.state.groups import with_claim
from algorithm.hived.state.tenancy import Tenancy
from algorithm.model import Pod


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A bound pod with what stands on it: its wish, and where it runs."""

    pod: Pod
    spec: PodSpec
    allocation: Allocation

    @classmethod
    def read(cls, pod: Pod, spec: PodSpec) -> BoundPod:
        """Raises UserError if the pod's annotations do not say where it runs, or name another node."""
        text = decision(pod, bindinfo.BIND_INFO)
        is_partial = is_shortened(pod, bindinfo.BIND_INFO)
        if not text:
            why = "it is too long" if is_partial else "Annotation does not exist or is empty"
            raise UserError("bind-info", f"Pod annotation {bindinfo.BIND_INFO}: {why}")
        allocation = bindinfo.read(text)
        if is_partial:
            allocation = replace(allocation, is_partial=True)
        if allocation.node != pod.node_name:
            raise UserError("bind-info", f"Pod annotation {bindinfo.BIND_INFO}: it names {allocation.node}")
        return cls(pod, spec, allocation)

    @property
    def lost_quota(self) -> bool:
        """Whether it was bound without the quota that it asked for."""
        return self.spec.priority >= 0 and lazy_preemption.is_without_quota(self.allocation)


class Gang:
    """The pods of one group. `members` are by devices per pod and number of the place."""

    def __init__(self, first: BoundPod) -> None:
        self._first = first
        self._places: dict[int, tuple[Place, ...]] = dict(first.allocation.places)
        self._is_lazy = False
        self.members: dict[tuple[int, int], BoundPod] = {}
        self.lost_quota = False

    @property
    def spec(self) -> PodSpec:
        return replace(self._first.spec, lazy=self._is_lazy)

    @property
    def allocation(self) -> Allocation:
        """That of the oldest pod, with all that the gang was promised."""
        return replace(self._first.allocation, places=tuple(self._places.items()))

    def uids(self) -> list[str]:
        return [each.pod.uid for each in self.members.values()]

    def accepts(self, bound: BoundPod) -> bool:
        """Whether the pod is of the same tenant, and its place is one of the gang's.

        Any place is, of a pod whose record does not have the gang's places any more.
        """
        own = (bound.allocation.node, bound.allocation.indices)
        places = self._places.get(len(bound.allocation.indices), ())
        is_own = bound.allocation.is_partial or any(own == (each.node, each.indices) for each in places)
        return self._first.spec.tenant == bound.spec.tenant and is_own

    def add(self, bound: BoundPod) -> None:
        """Raises UserError if another pod has its place."""
        devices = len(bound.allocation.indices)
        own = (bound.allocation.node, bound.allocation.indices[0])
        places = self._places.get(devices, ())
        if bound.allocation.is_partial and not any((each.node, each.indices[0]) == own for each in places):
            places = self._places[devices] = (*places, own_place_of(bound.allocation))
        number = next(index for index, each in enumerate(places) if (each.node, each.indices[0]) == own)
        if (devices, number) in self.members:
            text = f"affinity group {bound.spec.group} has no free place for the pod on {bound.allocation.node}"
            raise UserError("bind-info", text)
        self.members[devices, number] = bound
        self._is_lazy = self._is_lazy or bound.spec.lazy
        self.lost_quota = self.lost_quota or bound.lost_quota
        self._places = with_claim(self._places, bound.allocation)


@dataclass(slots=True)
class Found:
    """`gangs` in the order in which they get what they claim. `unrecoverable` pods are listed with why.

    Two gangs may have the same name, if the scope of names was changed. The younger one gets a longer name: `scopes`
    has what its pods' names begin with, by UID.
    """

    gangs: list[Gang] = field(default_factory=list)
    scopes: dict[str, str] = field(default_factory=dict)
    unrecoverable: dict[str, tuple[str, str]] = field(default_factory=dict)


def by_age(pod: Pod) -> tuple[str, str, str, str]:
    return pod.created, pod.namespace, pod.name, pod.uid


def by_gang(pods: Mapping[str, BoundPod | str], known: Iterable[Pod], tenancy: Tenancy) -> Found:
    """`pods` by UID, or why a pod cannot be read. `known` has the same pods."""
    found = Found()
    gangs: dict[str, Gang] = {}
    for pod in sorted(known, key=lambda pod: (_is_partial(pods[pod.uid]), by_age(pod))):
        bound = pods[pod.uid]
        if isinstance(bound, str):
            found.unrecoverable[pod.uid] = (str(pod.key), bound)
            continue
        try:
            bound = _set_apart(bound, gangs, found.scopes, tenancy)
            gangs.setdefault(bound.spec.group, Gang(bound)).add(bound)
        except UserError as error:
            found.scopes.pop(pod.uid, None)
            found.unrecoverable[pod.uid] = (str(pod.key), str(error))
    found.gangs = _in_turn(list(gangs.values()))
    return found


def _is_partial(bound: BoundPod | str) -> bool:
    """What a gang's plan is, is said by a pod that has all of it."""
    return isinstance(bound, BoundPod) and bound.allocation.is_partial


def _in_turn(gangs: list[Gang]) -> list[Gang]:
    """From the oldest on; but each virtual cluster's turns go to its more important gangs first.

    Priorities mean something within a virtual cluster only.
    """
    turns: dict[str, Iterator[Gang]] = {}
    for tenant in {gang.spec.tenant for gang in gangs}:
        own = [gang for gang in gangs if gang.spec.tenant == tenant]
        turns[tenant] = iter(sorted(own, key=lambda gang: -gang.spec.priority))
    return [next(turns[gang.spec.tenant]) for gang in gangs]


def _set_apart(bound: BoundPod, gangs: Mapping[str, Gang], scopes: dict[str, str], tenancy: Tenancy) -> BoundPod:
    gang = gangs.get(bound.spec.group)
    if gang is None or gang.accepts(bound):
        return bound
    scopes[bound.pod.uid] = scope = f"{bound.spec.tenant}/{bound.pod.namespace}/"
    apart = replace(bound, spec=tenancy.read(bound.pod, scope=scope))
    gang = gangs.get(apart.spec.group)
    if gang is not None and not gang.accepts(apart):
        text = f"affinity group {apart.spec.group} has no free place for the pod on {bound.allocation.node}"
        raise UserError("bind-info", text)
    return apart
