"""The arguments and the result of a placement policy: a vpod, the state of its set, and a placement.

A *set* is a StatefulSet whose pods host vreplicas. Its pods have ordinals 0, 1, 2 ... and one capacity: how many
vreplicas one pod may hold. A *vpod* wants a number of vreplicas, all alike, on pods of one set. For each vpod:

    committed   what its status says: vreplicas by ordinal, written by somebody and seen by an informer
    reserved    what this server has decided and the informer has not shown yet; None if there is no such decision

`SetState` keeps the sums that a decision needs up to date, so that a decision costs as much as the pods of the set and
the vpod's own placements, however many vpods there are. A policy reads it and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: Vreplicas by ordinal.
Counts = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Placement:
    """What a policy decided for one vpod: vreplicas by ordinal, and how many found no place.

    `moves` were made only to make the counts even; `postponed` would have been, but for the bound on moves.
    `is_uneven`: for lack of room the counts are not as even as they could be.
    """

    counts: Counts
    left: int = 0
    moves: int = 0
    postponed: int = 0
    is_uneven: bool = False

    @property
    def placed(self) -> int:
        return sum(self.counts.values())


@dataclass(slots=True)
class VPodState:
    """One vpod. `spread`: the wanted minimum of distinct pods; `max_per_pod`: the most on one pod; 0 for no bound."""

    key: str
    wanted: int
    committed: Counts = field(default_factory=dict)
    reserved: Counts | None = None
    spread: int = 0
    max_per_pod: int = 0
    deleting: bool = False

    @property
    def placed(self) -> Counts:
        """Where its vreplicas are meant to be: the reservation if there is one, else what is committed."""
        return self.committed if self.reserved is None else self.reserved

    def on(self, ordinal: int) -> int:
        """How much room it takes on a pod: until a move has been seen, on both of its ends."""
        committed = self.committed.get(ordinal, 0)
        return committed if self.reserved is None else max(committed, self.reserved.get(ordinal, 0))

    def taken(self) -> Counts:
        """How much room it takes on each pod, as `on` says."""
        if self.reserved is None:
            return self.committed
        found = dict(self.committed)
        for ordinal, number in self.reserved.items():
            if number > found.get(ordinal, 0):
                found[ordinal] = number
        return found


class SetState:
    """The pods of one set and the vpods on them.

    `held` is vreplicas by ordinal over all vpods; an ordinal without an entry holds none. With `seeded` False only
    reservations count, as in the original scheduler, which fills its reservations from what is committed when it
    becomes leader. With `seeded` True what is committed counts wherever there is no reservation.
    """

    def __init__(self, *, capacity: int, replicas: int = 0, seeded: bool = True) -> None:
        self.capacity = capacity
        self.replicas = replicas
        self.seeded = seeded
        self.vpods: dict[str, VPodState] = {}
        self.held: dict[int, int] = {}
        #: Whether some pod has come to hold less. The engine resets it after it has looked.
        self.freed = False
        #: Ordinals on which vreplicas may be placed, ascending.
        self.usable: list[int] = []
        self._usable: set[int] = set()
        #: Usable ordinals that keep what they have and get nothing more, since their pods are away for a moment.
        self.resting: set[int] = set()
        #: Zones by ordinal; `set_zone` changes them. Ordinals without an entry are in the zone "".
        self.zones: dict[int, str] = {}
        #: The nodes of pods that have one, by ordinal.
        self.nodes: dict[int, str] = {}
        #: How many usable pods there are in each zone that has one.
        self.zone_sizes: dict[str, int] = {}
        self.total_wanted = 0
        #: Of what is committed: vreplicas by ordinal, and how many placements say so.
        self.committed: dict[int, int] = {}
        #: Vreplicas by ordinal that are committed there, and reserved elsewhere: they still take room.
        self.leaving: dict[int, int] = {}
        self._committed_by: dict[int, int] = {}

    # -- pods

    def is_usable(self, ordinal: int) -> bool:
        return ordinal in self._usable

    def set_usable(self, ordinal: int, usable: bool) -> bool:
        """Whether this changed anything."""
        if usable == (ordinal in self._usable):
            return False
        if usable:
            self._usable.add(ordinal)
            insort(self.usable, ordinal)
        else:
            self._usable.discard(ordinal)
            del self.usable[bisect_left(self.usable, ordinal)]
        self._count_zone(ordinal, 1 if usable else -1)
        return True

    def set_zone(self, ordinal: int, zone: str) -> bool:
        """Whether this changed anything."""
        if zone == self.zones.get(ordinal, ""):
            return False
        usable = self.is_usable(ordinal)
        if usable:
            self._count_zone(ordinal, -1)
        if zone:
            self.zones[ordinal] = zone
        else:
            del self.zones[ordinal]
        if usable:
            self._count_zone(ordinal, 1)
        return True

    def _count_zone(self, ordinal: int, number: int) -> None:
        zone = self.zones.get(ordinal, "")
        self.zone_sizes[zone] = size = self.zone_sizes.get(zone, 0) + number
        if not size:
            del self.zone_sizes[zone]

    def room(self, ordinal: int) -> int:
        """How many more vreplicas the pod can hold; negative if it holds too many."""
        return self.capacity - self.held.get(ordinal, 0)

    def most_for(self, vpod: VPodState, ordinal: int) -> int:
        """The most vreplicas of a vpod that a usable pod may have."""
        held = self.held.get(ordinal, 0)
        has = vpod.placed.get(ordinal, 0)
        most = max(0, self.capacity - held + vpod.on(ordinal))
        if most < has and held:
            # All vpods on a pod that holds too much pay in proportion, whichever of them is placed first, until the
            # vreplicas that are meant to leave it are enough.
            stays = held - self.leaving.get(ordinal, 0)
            over = max(0, stays - self.capacity)
            most = max(0, has - -(-over * has // stays)) if stays else has
        if vpod.max_per_pod:
            most = min(most, vpod.max_per_pod)
        return min(most, has) if ordinal in self.resting else most

    # -- vpods

    def put(
        self,
        key: str,
        wanted: int,
        committed: Counts,
        *,
        spread: int = 0,
        max_per_pod: int = 0,
        deleting: bool = False,
    ) -> VPodState:
        """Enter or replace what is known of a vpod. A reservation stays."""
        vpod = self.vpods.get(key)
        if vpod is None:
            vpod = self.vpods[key] = VPodState(key, 0)
        before = vpod.taken()
        self._count_leaving(vpod, -1)
        self._note_committed(vpod.committed, committed)
        self.total_wanted += wanted - vpod.wanted
        vpod.wanted, vpod.committed, vpod.deleting = wanted, committed, deleting
        vpod.spread, vpod.max_per_pod = spread, max_per_pod
        self._count_leaving(vpod, 1)
        if self.seeded:
            self._hold_instead(before, vpod.taken())
        return vpod

    def remove(self, key: str) -> None:
        """Forget a vpod that is gone, with its reservation. A vpod that is not known is no error."""
        if vpod := self.vpods.get(key):
            self.reserve(key, None)
            if self.seeded:
                for ordinal, number in vpod.committed.items():
                    self._hold(ordinal, -number)
            self._note_committed(vpod.committed, {})
            self.total_wanted -= vpod.wanted
            del self.vpods[key]

    def reserve(self, key: str, counts: Counts | None) -> None:
        """Replace the reservation of a vpod that is known; None: it has none any more."""
        vpod = self.vpods[key]
        if self.seeded:
            before = vpod.taken()
            self._count_leaving(vpod, -1)
            vpod.reserved = counts
            self._count_leaving(vpod, 1)
            self._hold_instead(before, vpod.taken())
            return
        for ordinal, number in (vpod.reserved or {}).items():
            self._hold(ordinal, -number)
        vpod.reserved = counts
        for ordinal, number in (counts or {}).items():
            self._hold(ordinal, number)

    def reserved(self) -> Iterator[tuple[str, Counts]]:
        """The vpods with a reservation."""
        return ((key, vpod.reserved) for key, vpod in self.vpods.items() if vpod.reserved is not None)

    def _count_leaving(self, vpod: VPodState, sign: int) -> None:
        if vpod.reserved is None or not self.seeded:
            return
        for ordinal, number in vpod.committed.items():
            if (left := number - vpod.reserved.get(ordinal, 0)) > 0:
                self.leaving[ordinal] = leaving = self.leaving.get(ordinal, 0) + sign * left
                if not leaving:
                    del self.leaving[ordinal]

    def _hold_instead(self, before: Counts, after: Counts) -> None:
        """Hold what a vpod takes now instead of what it took before."""
        if before is after or before == after:
            return
        for ordinal, number in after.items():
            if more := number - before.get(ordinal, 0):
                self._hold(ordinal, more)
        for ordinal, number in before.items():
            if ordinal not in after:
                self._hold(ordinal, -number)

    def _hold(self, ordinal: int, number: int) -> None:
        if number:
            self.freed |= number < 0
            self.held[ordinal] = held = self.held.get(ordinal, 0) + number
            if not held:
                del self.held[ordinal]

    def _note_committed(self, old: Counts, new: Counts) -> None:
        if old == new:
            return
        for counts, sign in ((new, 1), (old, -1)):
            for ordinal, number in counts.items():
                self.committed[ordinal] = self.committed.get(ordinal, 0) + sign * number
                self._committed_by[ordinal] = by = self._committed_by.get(ordinal, 0) + sign
                if not by:
                    del self.committed[ordinal], self._committed_by[ordinal]

    def validate(self) -> None:
        """Derive the sums again. Raises AssertionError that names what differs."""
        held: dict[int, int] = {}
        for vpod in self.vpods.values():
            counted = {*vpod.committed, *(vpod.reserved or ())} if self.seeded else {*(vpod.reserved or ())}
            for ordinal in counted:
                number = vpod.on(ordinal) if self.seeded else (vpod.reserved or {})[ordinal]
                held[ordinal] = held.get(ordinal, 0) + number
        assert {o: n for o, n in held.items() if n} == self.held, f"held: {self.held} instead of {held}"
        committed: dict[int, int] = {}
        for vpod in self.vpods.values():
            for ordinal, number in vpod.committed.items():
                committed[ordinal] = committed.get(ordinal, 0) + number
        assert committed == self.committed, f"committed: {self.committed} instead of {committed}"
        leaving: Counter[int] = Counter()
        for vpod in self.vpods.values():
            if self.seeded and vpod.reserved is not None:
                leaving.update(Counter(vpod.committed) - Counter(vpod.reserved))
        assert leaving == self.leaving, f"leaving: {self.leaving} instead of {leaving}"
        assert self.usable == sorted(self._usable)
        sizes = Counter(self.zones.get(ordinal, "") for ordinal in self.usable)
        assert sizes == self.zone_sizes, f"zones: {self.zone_sizes} instead of {sizes}"
        assert self.total_wanted == sum(vpod.wanted for vpod in self.vpods.values())
