"""Preemption: whether evicting pods of lower priority makes room for a pod, or its whole gang, and which pods to evict.

kube-scheduler evicts on one node per pod, so it asks about every member of a gang by itself. The answer names only the
victims on the node of that member's own seat, and only if the whole gang can be made to fit. The victims of other
preemptions count as gone, and their seats as taken. So the members of a gang get different seats one by one:

    member 1 asks   the gang can be made to fit: victims on seat 1     -> add_preempting_pod holds seat 1
    member 2 asks   seat 1 is held for member 1: victims on seat 2     -> ...
    member 3 asks   what is free elsewhere is enough for the rest      -> no victims: it holds a seat, and waits

Member 3's free seat need not be among its suggested nodes (kube-scheduler suggests only nodes where eviction helps),
and kube-scheduler's in-tree plug-ins may refuse that node. That does no harm: once a member of the gang has its place,
the others are placed, and preempt, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

from algorithm.interface import Preempt, Victim
from algorithm.model import Pod
from algorithm.packing.counting import SeatCounts, Seats
from algorithm.packing.demand import Demand, demand_of
from algorithm.packing.gangs import Gang
from algorithm.packing.index import Allowed
from algorithm.packing.nodes import NodeRoom, Schedulable
from algorithm.packing.plan import Member, hardest_first
from algorithm.packing.refusals import some
from algorithm.packing.state import State
from algorithm.packing.trial import TooManyVictimsError, Trial, most_victims
from algorithm.packing.victims import ANY_PRIORITY, Eviction, Evictor
from algorithm.reasons import Code, reason


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search: until `enough` nodes are found where eviction helps, on at most `looks` nodes (None: all)."""

    enough: int
    looks: int | None = None


class Preemptor:
    """Answers one call for one pod, on the present state. Every method leaves the state as it was."""

    def __init__(
        self, state: State, pod: Pod, gang: Gang | None, offered: Allowed, effort: Effort, counts: SeatCounts
    ) -> None:
        self._state = state
        self._counts = counts
        self._pod = pod
        self._gang = gang
        self._offered = offered
        self._effort = effort
        self._gang_members = state.gang_members(pod, gang)
        self._spared = self._gang_members | state.lingering if state.lingering else self._gang_members
        self._anywhere = Schedulable(state.cluster.rooms)

    def make_room(self, gang_members: list[Member], needed: int) -> Preempt | None:
        """The victims for this pod, such that `needed` members in all, itself included, get a place; None if none help.

        Raises TooManyVictimsError.
        """
        seats = self._seats(gang_members, needed, self._pod.priority)
        with Trial(self._state.cluster, most_victims(needed)) as trial:
            self._prepare(trial, self._pod.priority)
            if not self._enough(trial, seats, needed):
                return None
            waiting_for = self._enough_is_on_its_way(trial, gang_members, needed)
            if waiting_for is not None:
                return waiting_for
            return self._one_more(trial, gang_members, needed, self._pod.priority, self._effort.enough)

    def only_priority_forbids(self, gang_members: list[Member], needed: int) -> bool:
        """Whether preemption would help if priorities did not count."""
        seats = self._seats(gang_members, needed, ANY_PRIORITY)
        with Trial(self._state.cluster, most_victims(needed)) as trial:
            self._prepare(trial, ANY_PRIORITY)
            try:
                enough = self._enough(trial, seats, needed)
                return enough and self._one_more(trial, gang_members, needed, ANY_PRIORITY, 1) is not None
            except TooManyVictimsError:
                return False

    def _prepare(self, trial: Trial, below: int) -> None:
        """Bring the trial to the future state: other preemptions are done, lower holds and the pod's own are released.

        A preemptor of lower priority may give up or be deleted. Of its victims, only those being deleted count as gone.
        """
        for uid, preemption in sorted(self._state.preemptions.items()):
            if uid != self._pod.uid:
                lesser = preemption.pod.priority < below and uid not in self._gang_members
                for victim in self._state.pending_victims(preemption):
                    if victim.uid not in self._state.lingering and (victim.terminating or not lesser):
                        trial.evict(victim)
        trial.release(self._state.holds.get(self._pod.uid))
        release_lower(trial, self._state, below, self._gang_members)

    def _seats(self, gang_members: list[Member], needed: int, below: int) -> Seats | None:
        """None for a single pod: searching is as fast as counting."""
        if needed == 1:
            return None
        highest = max(below, *(member.pod.priority for member in gang_members))
        return Seats(self._counts, [Member(self._pod), *gang_members], highest)

    def _enough(self, trial: Trial, seats: Seats | None, needed: int) -> bool:
        """Whether the number of seats can be enough."""
        return seats is None or seats.enough_evictable(trial, self._anywhere_or_offered, needed)

    def _anywhere_or_offered(self, name: str) -> bool:
        return self._anywhere(name) or self._offered(name)

    def _evictor(self, trial: Trial, below: int) -> Evictor:
        return Evictor(trial, self._state.gangs, below=below, spared=self._spared)

    def _enough_is_on_its_way(self, trial: Trial, gang_members: list[Member], needed: int) -> Preempt | None:
        """A plan without victims, if preemptions of mates already leave enough room for all; else None."""
        evicting = [
            self._state.preemptions[member.uid]
            for member in gang_members
            if member.uid in self._state.preemptions and self._state.preemptions[member.uid].evicts
        ]
        if not evicting:
            return None
        start = trial.mark()
        own = self._state.holds.get(self._pod.uid)
        node = trial.best(demand_of(self._pod.requests), self._anywhere, own.node if own is not None else None)
        if node is not None:
            trial.take(node, demand_of(self._pod.requests))
            if self._others_fit(trial, gang_members, needed - 1, None):
                pending = [victim for one in evicting for victim in self._state.pending_victims(one)]
                return Preempt((), reason(Code.WAITING_FOR_VICTIMS, victims=_names(pending) or "none is left"), node)
        trial.back_to(start)
        return None

    def _one_more(
        self, trial: Trial, gang_members: list[Member], needed: int, below: int, enough: int
    ) -> Preempt | None:
        """The plan that evicts for this pod now; its seat is the cheapest of the first `enough` possible ones."""
        evictor = self._evictor(trial, below)
        seated = self._seat_those_that_must_not_preempt(trial, gang_members, needed - 1)
        eviction = self._own_eviction(trial, evictor, enough)
        if eviction is None:
            return None
        trial.evict_all(eviction.victims)
        trial.take(eviction.node, demand_of(self._pod.requests))
        others = [member for member in gang_members if member.uid not in seated]
        if not self._others_fit(trial, others, needed - 1 - len(seated), below):
            return None
        return self._answer(trial, eviction)

    def _seat_those_that_must_not_preempt(self, trial: Trial, gang_members: list[Member], most: int) -> set[str]:
        """Seats on free nodes for mates that have none and no victims, either: others take what they need by eviction.
        Returns who got one; at most `most` of them."""
        seated: set[str] = set()
        for member in hardest_first([each for each in gang_members if not each.pod.may_preempt], ""):
            if len(seated) < most and member.hold is None:
                node = trial.best(member.demand, self._anywhere)
                if node is not None:
                    trial.take(node, member.demand)
                    seated.add(member.uid)
        return seated

    def _own_eviction(self, trial: Trial, evictor: Evictor, enough: int) -> Eviction | None:
        """A suggested node for the pod: its present one, if that still works, else a free one, else the cheapest."""
        demand = demand_of(self._pod.requests)
        own = self._state.holds.get(self._pod.uid)
        if own is not None and self._state.cluster.known(own.node) and self._offered(own.node):
            if trial.room_on(own.node, demand):
                return Eviction.none_needed(own.node)
            kept = evictor.on(self._state.cluster.rooms[own.node], demand)
            if kept is not None:
                return kept
        node = trial.best(demand, self._offered)
        if node is not None:
            return Eviction.none_needed(node)
        rooms = islice(self._rooms(self._offered, evictor), self._effort.looks)
        return evictor.cheapest(demand, rooms, enough=enough)

    def _others_fit(self, trial: Trial, gang_members: list[Member], needed: int, below: int | None) -> bool:
        """Whether `needed` mates have or find a seat on any node; by eviction too, unless `below` is None."""
        hopeless: dict[tuple[Demand, int], int] = {}
        for member in hardest_first(gang_members, ""):
            if needed <= 0:
                break
            if self._stands(trial, member):
                needed -= 1
                continue
            if member.hold is not None:
                hopeless.clear()
            needed -= self._place_member(trial, member, below, hopeless)
        return needed <= 0

    def _stands(self, trial: Trial, member: Member) -> bool:
        """Whether the room held for the mate really exists. If not, it is released in the trial."""
        if member.hold is None:
            return False
        start = trial.mark()
        trial.release(member.hold)
        good = self._state.cluster.known(member.hold.node) is not None and trial.room_on(
            member.hold.node, member.demand
        )
        if good:
            trial.back_to(start)
        return good

    def _place_member(
        self, trial: Trial, member: Member, below: int | None, hopeless: dict[tuple[Demand, int], int]
    ) -> bool:
        node = trial.best(member.demand, self._anywhere)
        if node is None and below is not None and member.pod.may_preempt:
            evictor = self._evictor(trial, below if below == ANY_PRIORITY else member.pod.priority)
            node = self._evict_for_member(trial, member.demand, evictor, hopeless)
        if node is None:
            return False
        trial.take(node, member.demand)
        return True

    def _evict_for_member(
        self, trial: Trial, demand: Demand, evictor: Evictor, hopeless: dict[tuple[Demand, int], int]
    ) -> str | None:
        """The first node where eviction helps; None if there is none.

        `hopeless` counts the nodes at the front of the order where it does not help. That stays true as long as nothing
        is released, so the search for the next mate of this kind continues from there.
        """
        kind = demand, evictor.below
        position = hopeless.get(kind, 0)
        for room in islice(self._state.cluster.with_lower_pods(evictor.below, position), self._effort.looks):
            eviction = evictor.on(room, demand) if self._anywhere(room.name) else None
            if eviction is not None:
                trial.evict_all(eviction.victims)
                hopeless[kind] = position
                return room.name
            position += 1
        hopeless[kind] = position
        return None

    def _rooms(self, allowed: Allowed, evictor: Evictor) -> Iterator[NodeRoom]:
        return (room for room in self._state.cluster.with_lower_pods(evictor.below) if allowed(room.name))

    def _answer(self, trial: Trial, eviction: Eviction) -> Preempt:
        """The seat's victims. If it has none, the text names all pods that have to go."""
        going = eviction.victims or [self._state.allocated[uid] for uid in sorted(trial.gone)]
        victims = tuple(sorted(Victim(pod.node_name, pod.uid) for pod in eviction.victims))
        return Preempt(victims, reason(Code.PREEMPTIBLE, victims=_names(going) or "none is left"), eviction.node)


def _names(pods: Iterable[Pod]) -> str:
    return some(str(pod.key) for pod in pods)


def release_lower(trial: Trial, state: State, below: int, gang_members: AbstractSet[str]) -> bool:
    """Release, in the trial, holds of pods with a priority below `below`, except mates. Whether there were any."""
    lower = [hold for uid, hold in sorted(state.holds.items()) if hold.priority < below and uid not in gang_members]
    for hold in lower:
        trial.release(hold)
    return bool(lower)
