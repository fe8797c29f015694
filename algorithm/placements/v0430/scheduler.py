"""The decision of v0.43.0: keep what is committed, then fill up, or ask predicates and priorities pod by pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from algorithm.placements import head
from algorithm.placements.model import Counts, Placement
from algorithm.placements.v0430 import plugins
from algorithm.placements.v0430.plugins import MOST, PluginUse, RefusedError
from algorithm.placements.v0430.snapshot import Cluster, Committed, Reservations, Snapshot, collect


@dataclass(frozen=True, slots=True)
class Policy:
    """Predicates and priorities for one direction."""

    predicates: Sequence[PluginUse] = ()
    priorities: Sequence[PluginUse] = ()


@dataclass(slots=True)
class PluginScheduler:
    """Decides for one set, and holds its reservations.

    The original draws lots among pods with equal scores. Here a generator does that, which `seed` starts: the same
    calls give the same placements.
    """

    cluster: Cluster
    vpods: dict[str, Committed]
    reserved: Reservations = field(default_factory=dict)
    fills_up: bool = False
    adding: Policy | None = None
    removing: Policy | None = None
    #: Replicas as the set's watch says, which is how far filling up goes.
    watched: int = 0
    seed: int = 1

    def state(self) -> Snapshot:
        return collect(self.cluster, self.vpods.values(), self.reserved)

    def place(self, key: str) -> Placement:
        """Place a vpod and reserve what was decided."""
        vpod = self.vpods[key]
        placement = self._place(vpod)
        counts = dict(sorted(placement.counts.items()))
        if counts or vpod.counts or vpod.wanted:
            self._reserve(key, counts)
        return Placement(counts, placement.left)

    def _reserve(self, key: str, counts: Counts) -> None:
        """Add to a reservation, or empty it if there is nothing to add."""
        if counts:
            self.reserved.setdefault(key, {}).update(counts)
        else:
            self.reserved[key] = {}

    def _place(self, vpod: Committed) -> Placement:
        state = self.state()
        self.reserved = {
            key: counts if state.pending[key] else {} for key, counts in self.reserved.items() if key in state.pending
        }
        kept = self._kept(vpod, state)
        missing = vpod.wanted - sum(kept.values())
        if missing == 0:
            return Placement(kept)
        if self.fills_up:
            if missing < 0:
                head.take_away(kept, -missing)
                return Placement(kept)
            return _fill(kept, missing, state, self.watched)
        if missing < 0 and self.removing is not None:
            return Placement(self._remove(vpod.key, kept, -missing, self.removing))
        if self.adding is None:
            return Placement(kept)
        self._reserve(vpod.key, dict.fromkeys(kept, 0))
        placement = self._add(vpod.key, vpod.wanted, self.adding)
        if not placement.left:
            return placement
        self._reserve(vpod.key, vpod.counts)
        return Placement(vpod.counts, placement.left)

    def _kept(self, vpod: Committed, state: Snapshot) -> dict[int, int]:
        kept = {}
        for ordinal, number in vpod.counts.items():
            if ordinal not in self.cluster.usable:
                continue
            cut = min(number, max(0, -state.free_on(ordinal)))
            state.take(ordinal, -cut)
            if number > cut:
                kept[ordinal] = number - cut
        return kept

    def _remove(self, key: str, counts: dict[int, int], number: int, policy: Policy) -> dict[int, int]:
        """Take vreplicas away one by one, as long as the priorities find a pod."""
        for _ in range(number):
            state = self.state()
            feasible = [o for o in _feasible(state, key, policy) if o in self.vpods[key].counts]
            chosen = self._best(state, key, feasible, policy)
            if chosen is None:
                break
            if chosen in counts:
                counts[chosen] -= 1
                if not counts[chosen]:
                    del counts[chosen]
            self._reserve(key, counts)
        return counts

    def _add(self, key: str, number: int, policy: Policy) -> Placement:
        """Place vreplicas one by one, from none."""
        counts: dict[int, int] = {}
        for placed in range(number):
            if not self.watched:
                return Placement(counts, number - placed)
            state = self.state()
            chosen = self._best(state, key, _feasible(state, key, policy), policy)
            if chosen is None:
                return Placement(counts, number - placed)
            counts[chosen] = counts.get(chosen, 0) + 1
            self._reserve(key, counts)
        return Placement(counts)

    def _best(self, state: Snapshot, key: str, feasible: Sequence[int], policy: Policy) -> int | None:
        """The feasible pod with the highest score; None without one, or if a priority fails."""
        if len(feasible) <= 1:
            return next(iter(feasible), None)
        try:
            scores = {ordinal: _score(state, key, ordinal, policy) for ordinal in feasible}
        except RefusedError:
            return None
        highest = max(scores.values())
        return self._draw([ordinal for ordinal, each in scores.items() if each == highest])

    def _draw(self, ordinals: Sequence[int]) -> int:
        if len(ordinals) > 1:  # the constants are those of C's rand() in the standard's example
            self.seed = (1103515245 * self.seed + 12345) % 2**31
        return ordinals[(self.seed >> 8) % len(ordinals)]


def _feasible(state: Snapshot, key: str, policy: Policy) -> list[int]:
    return [
        ordinal
        for ordinal in state.usable
        if not any(plugins.reason_against(use, state, key, ordinal) for use in policy.predicates)
    ]


def _score(state: Snapshot, key: str, ordinal: int, policy: Policy) -> int:
    return sum(plugins.score(use, state, key, ordinal) * use.weight for use in policy.priorities) & MOST


def _fill(kept: dict[int, int], number: int, state: Snapshot, watched: int) -> Placement:
    """Fill the pods that the vpod has, in the order of its list, then all others from the first, usable or not."""
    for ordinal in (*list(kept), *range(watched)):
        taken = min(number, state.free_on(ordinal))
        if taken > 0:
            kept[ordinal] = kept.get(ordinal, 0) + taken
            state.take(ordinal, taken)
            number -= taken
    return Placement(kept, number)
