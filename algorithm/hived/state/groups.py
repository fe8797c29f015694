"""Affinity groups: gangs, with the place of every member, whether its pod is there yet or not.

(none) --- first pod allocated --------------------------------> ALLOCATED --- last pod deleted ---> (none)
   |                                                             ^     |  ^
   +--- preemption taken ---> PREEMPTING --- first pod placed ---+     |  | preemptor cancelled
                                  |                    a higher one    v  |
                                  +--- cancelled ---> (none)      BEING_PREEMPTED --- last pod deleted ---> (none)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast

from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.formats.allocation import Allocation, Place, unpromised
from algorithm.hived.formats.podspec import PodSpec

C = TypeVar("C", bound=Cell)


class GroupState(StrEnum):
    ALLOCATED = "Allocated"
    PREEMPTING = "Preempting"
    BEING_PREEMPTED = "BeingPreempted"


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that has a place: its UID, and the node it is on."""

    uid: str
    name: str
    node: str


#: By devices per pod: for each pod its devices, None where a device is no longer configured.
Physical = dict[int, list[list[PhysicalCell | None]]]
Virtual = dict[int, list[list[VirtualCell | None]]]


@dataclass(eq=False, slots=True)
class Group:
    """`pods` maps devices per pod to the number of such pods. Without `virtual` it runs opportunistically."""

    name: str
    tenant: str
    priority: int
    pods: Mapping[int, int]
    pinned_id: str
    lazy: bool
    ignores_offer: bool
    state: GroupState
    physical: Physical
    virtual: Virtual | None
    chain: str
    #: The places that are written on its pods, by devices per pod. They include devices that are no longer configured.
    #: Replaced by every change.
    written: Mapping[int, tuple[Place, ...]] = field(default_factory=dict)
    #: Its pods by place, and those that preempt, by UID. Replaced by every change, too.
    slots: Mapping[int, tuple[Member | None, ...]] = field(default_factory=dict)
    preempting: Mapping[str, None] = field(default_factory=dict)
    #: The preemptor that made it opportunistic; empty if none did.
    lazily_preempted_by: str = ""
    #: When, in seconds since 1970; 0 if that is not known.
    lazily_preempted_at: float = 0.0
    #: The prefix of its name that its author did not write, see `tenancy.py`.
    scope: str = ""
    #: Whether it gives devices back pod by pod, see `release.py`.
    releases: bool = False
    #: The places, as devices per pod and number, that others may use now.
    given_up: frozenset[tuple[int, int]] = frozenset()
    #: The first pod that has ended; empty as long as all of its pods may still be to come.
    ended_by: str = ""
    #: Whether its pods still name its promised cells while it runs without quota, see `promotion.py`.
    keeps_claim: bool = False

    def __post_init__(self) -> None:
        if not self.slots:
            self.slots = {devices: (None,) * len(places) for devices, places in self.physical.items()}

    @classmethod
    def of(
        cls,
        spec: PodSpec,
        chain: str,
        state: GroupState,
        physical: Physical,
        virtual: Virtual | None,
        *,
        keeps_claim: bool,
    ) -> Group:
        """The group that a pod is of, as the pod describes it."""
        return cls(
            name=spec.group,
            tenant=spec.tenant,
            priority=spec.priority,
            pods=dict(spec.pods),
            pinned_id=spec.pinned_id,
            lazy=spec.lazy,
            ignores_offer=spec.ignores_offer,
            state=state,
            physical=physical,
            virtual=virtual,
            chain=chain,
            scope=spec.scope,
            releases=spec.releases,
            keeps_claim=keeps_claim,
        )

    def copy_to(self, twin: Group, twins: Mapping[Cell, Any]) -> None:
        """Make `twin` a copy, which has the twins of the cells."""
        twin.name, twin.tenant, twin.priority, twin.pods = self.name, self.tenant, self.priority, self.pods
        twin.pinned_id, twin.lazy, twin.ignores_offer = self.pinned_id, self.lazy, self.ignores_offer
        twin.state, twin.chain, twin.written = self.state, self.chain, self.written
        twin.physical = _copied(self.physical, twins)
        twin.virtual = None if self.virtual is None else _copied(self.virtual, twins)
        twin.slots, twin.preempting = self.slots, self.preempting
        twin.lazily_preempted_by = self.lazily_preempted_by
        twin.lazily_preempted_at = self.lazily_preempted_at
        twin.scope, twin.releases, twin.given_up = self.scope, self.releases, self.given_up
        twin.ended_by, twin.keeps_claim = self.ended_by, self.keeps_claim

    def seat(self, devices: int, number: int, member: Member | None) -> None:
        """The pod has this place now; None: nobody has."""
        slots = self.slots[devices]
        self.slots = {**self.slots, devices: (*slots[:number], member, *slots[number + 1 :])}

    def touch(self) -> None:
        """Tell that `physical` or `virtual` is about to be changed in place.

        Only copies in pieces hear of it (`fork.py`). They notice by themselves when an attribute is set.
        """

    @property
    def shown(self) -> str:
        """The name that its author wrote."""
        return self.name.removeprefix(self.scope)

    @property
    def places(self) -> Mapping[int, tuple[Place, ...]]:
        """The places of the group, as they are written on its next pod."""
        if not self.written:
            self.written = {
                devices: tuple(self._place(devices, n) for n in range(len(pods)))
                for devices, pods in self.physical.items()
            }
        if self.virtual is not None or self.keeps_claim:
            return self.written
        return {devices: tuple(unpromised(place) for place in places) for devices, places in self.written.items()}

    def join(self, said: Allocation, *, lazy: bool) -> None:
        """Another pod of the group is found bound. A statement of any pod holds for the group."""
        _ = self.places  # filled in from the devices while the group still has them
        self.lazy = self.lazy or lazy
        self.written = with_claim(self.written, said)

    def add_place(self, place: Place) -> None:
        """Add a place of the group that has become known. Its devices are not held for the group yet."""
        devices = len(place.indices)
        _ = self.places  # filled in from the devices while the group still has them
        known = self.written.get(devices, ())
        self.touch()
        self.written = {**self.written, devices: (*known, place)}
        self.physical.setdefault(devices, []).append([None] * devices)
        if self.virtual is not None:
            self.virtual.setdefault(devices, []).append([None] * devices)
        self.slots = {**self.slots, devices: (*self.slots.get(devices, ()), None)}
        self.given_up |= {(devices, len(known))}

    def _place(self, devices: int, number: int) -> Place:
        leafs = [leaf for leaf in self.physical[devices][number] if leaf is not None]
        promised = [] if self.virtual is None else [cell for cell in self.virtual[devices][number] if cell is not None]
        types = tuple(cell.root.type for cell in promised) or ("",) * len(leafs)
        return Place(leafs[0].nodes[0], tuple(leaf.indices[0] for leaf in leafs), types)

    def members(self) -> Iterator[Member]:
        return (member for slots in self.slots.values() for member in slots if member is not None)

    def leafs(self) -> Iterator[tuple[PhysicalCell, VirtualCell | None]]:
        """Every device that is still configured, with its virtual one."""
        for devices, pods in self.physical.items():
            for number, leafs in enumerate(pods):
                for index, leaf in enumerate(leafs):
                    if leaf is not None:
                        yield leaf, None if self.virtual is None else self.virtual[devices][number][index]

    def free_slot(self, devices: int) -> int | None:
        slots = self.slots.get(devices, ())
        return next((index for index, member in enumerate(slots) if member is None), None)


def _copied(levels: dict[int, list[list[C | None]]], twins: Mapping[Cell, Any]) -> dict[int, list[list[C | None]]]:
    """The same with twins. Loops, because there are many groups and most are small."""
    copies: dict[int, list[list[C | None]]] = {}
    for devices, pods in levels.items():
        copies[devices] = rows = []
        for pod in pods:
            row: list[C | None] = []
            rows.append(row)
            for cell in pod:
                row.append(None if cell is None else twins[cell])
    return copies


def user_of(device: PhysicalCell) -> Group | None:
    """The group that uses the device."""
    return cast("Group | None", device.group)


def reserver_of(device: PhysicalCell) -> Group | None:
    """The group that has reserved the device: it preempts the user."""
    return cast("Group | None", device.reserver)


class Held(NamedTuple):
    """A device of a group, and the virtual device that it is for it; None: it is used opportunistically."""

    device: PhysicalCell
    virtual: VirtualCell | None
    group: Group


def with_claim(places: Mapping[int, tuple[Place, ...]], said: Allocation) -> dict[int, tuple[Place, ...]]:
    """The places of a group, with the types of cells that another of its pods names, which was bound with quota."""
    named = {(devices, each.node, each.indices): each for devices, pods in said.places for each in pods}
    return {
        devices: tuple(
            each if any(each.types) else named.get((devices, each.node, each.indices), each) for each in pods
        )
        for devices, pods in places.items()
    }
