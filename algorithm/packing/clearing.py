"""A whole plan at once: seats for a pod and for as many of its gang as are needed, and all victims.

This is for the phase EVICTING, in which the extender evicts by itself. In PREEMPTING, kube-scheduler asks about one
member after the other, and victims of other preemptions count as gone. Here, pods count as running until they are gone.
So a seat is listed with every victim that it needs, and the plan is valid whatever becomes of other preemptions.
Seats are found one by one; at the end, one moves if the victims of others leave room for it, and its own can stay. That
is not done if the plan would become another one while it is carried out.

Each member keeps its held seat if that is still possible, else takes a free node, else the cheapest eviction. So the
same call gives the same plan while the plan is carried out. All seats are on offered nodes: on other nodes,
kube-scheduler may refuse the pods, and the evictions would be in vain.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from copy import copy
from functools import cached_property

from algorithm.interface import MemberPlan, Preempt, Victim, Wait
from algorithm.model import Pod
from algorithm.packing.counting import SeatCounts, Seats
from algorithm.packing.demand import Demand, demand_of
from algorithm.packing.index import Allowed
from algorithm.packing.nodes import Hold, NodeRoom
from algorithm.packing.plan import Member, hardest_first
from algorithm.packing.preemption import release_lower
from algorithm.packing.refusals import some
from algorithm.packing.state import State
from algorithm.packing.trial import Trial, most_victims
from algorithm.packing.victims import Eviction, Evictor
from algorithm.reasons import Code, reason

#: How often all seats are looked at that might move: one that has moved may leave room for others.
_ROUNDS = 3


class Clearing:
    """Makes the plan for one pod and its gang, on the present state. Every method leaves the state as it was.

    `needed` members in all, the asking one included, must get a seat. For each of them, up to `looks` nodes where
    eviction helps are compared.
    """

    def __init__(
        self,
        state: State,
        asking: Member,
        gang_members: list[Member],
        needed: int,
        *,
        offered: Allowed,
        looks: int,
        counts: SeatCounts,
    ) -> None:
        self._state = state
        self._asking = asking
        self._members = [asking, *gang_members]
        self._needed = needed
        self._seats: Seats | None = None
        if needed > 1:  # for one pod, searching is as fast as counting
            highest = max([member.pod.priority for member in self._members])
            self._seats = Seats(counts, self._members, highest, homes=False)
        self._offered = offered
        self._looks = max(1, looks // needed)
        self._holds = [member.hold for member in self._members if member.hold is not None]

    def plan(self) -> Preempt | Wait | None:
        """The plan; None if eviction does not help; Wait if every plan needs a protected pod.

        Raises TooManyVictimsError.
        """
        protected = self._state.protected
        evictions = self._place_all(protected)
        if evictions is not None:
            return _answer(evictions)
        unprotected = self._place_all(frozenset()) if protected else None
        if unprotected is None:
            return None
        spared = [pod for _, eviction in unprotected for pod in eviction.victims if pod.uid in protected]
        return Wait(reason(Code.VICTIM_PROTECTED, victims=_names(spared)))

    def _place_all(self, protected: AbstractSet[str]) -> list[tuple[Member, Eviction]] | None:
        """Seats by the first order in which all seats that there are stay; else by the first order that finds any."""
        if not self._enough():
            return None
        held = min(self._needed, sum([member.hold is not None for member in self._members]))
        other = None
        for prohibited_first in self._orders():
            found = self._place_in(prohibited_first, protected, may_move=not held)
            if found is not None and sum(_keeps_seat(*each) for each in found) == held:
                return found
            other = other or found
        return other

    def _enough(self) -> bool:
        """Whether the number of seats can be enough."""
        if self._seats is None:
            return True
        with Trial(self._state.cluster) as trial:
            self._release(trial)
            return self._seats.enough_evictable(trial, self._offered, self._needed)

    def _release(self, trial: Trial) -> None:
        for hold in self._holds:
            trial.release(hold)
        if self._state.holds:
            release_lower(trial, self._state, self._asking.pod.priority, self._gang)

    @cached_property
    def _gang(self) -> AbstractSet[str]:
        """UIDs of all members."""
        members = self._state.gang_members(self._asking.pod, self._state.gangs.of(self._asking.uid))
        return members | {member.uid for member in self._members}

    def _orders(self) -> Iterator[bool]:
        """Whether mates that must not preempt come first. Others evict if these take free nodes."""
        yield False
        if not all(member.pod.may_preempt for member in self._members):
            yield True

    def _in_order(self, prohibited_first: bool) -> list[Member]:
        """The asking pod first, or the mates that must not preempt."""
        members = [self._asking, *hardest_first(self._members[1:], "")]
        if prohibited_first:
            members.sort(key=lambda member: (member.hold is None, member.pod.may_preempt))
        return members

    def _place_in(
        self, prohibited_first: bool, protected: AbstractSet[str], *, may_move: bool
    ) -> list[tuple[Member, Eviction]] | None:
        """Seats for as many members as are needed, in one of the orders; the asking one comes first in the answer."""
        rounds = 0
        with Trial(self._state.cluster, most_victims(self._needed)) as trial:
            self._release(trial)
            evictions = self._place_each(trial, self._in_order(prohibited_first), protected)
            if evictions is None:
                return None
            while may_move and rounds < _ROUNDS and self._move(trial, evictions):
                rounds += 1
            plan = sorted(_spare(trial, evictions), key=lambda each: each[0] is not self._asking)
        if rounds and not self._is_made_again(plan, protected):
            return self._place_in(prohibited_first, protected, may_move=False)
        return plan

    def _is_made_again(self, plan: list[tuple[Member, Eviction]], protected: AbstractSet[str]) -> bool:
        """Whether the same plan is made once its seats are held: it must not change while it is carried out."""
        seats = {
            member.uid: Hold(member.uid, eviction.node, member.demand, member.pod.priority, "")
            for member, eviction in plan
        }
        again = copy(self)
        again._members = [Member(member.pod, seats.get(member.uid)) for member in self._members]
        again._asking = again._members[0]
        made = again._place_all(protected)
        return made is not None and _summary(made) == _summary(plan)

    def _move(self, trial: Trial, evictions: list[tuple[Member, Eviction]]) -> bool:
        """Move seats to where the victims of others leave room for them, each if all of its own can stay then, the most
        expensive ones first. Whether there were any."""
        hopeless: set[Demand] = set()
        moved = False
        costly = [number for number, (_, each) in enumerate(evictions) if each.victims]
        for number in sorted(costly, key=lambda number: evictions[number][1].rank, reverse=True):
            member, eviction = evictions[number]
            node = None if member.demand in hopeless else trial.best(member.demand, self._offered)
            if node is None:
                hopeless.add(member.demand)
                continue
            start = trial.mark()
            trial.take(node, member.demand)
            trial.give(eviction.node, member.demand)
            if all(_stays(trial, pod) for pod in eviction.victims):
                evictions[number] = member, Eviction.none_needed(node)
                moved = True
                hopeless.clear()
            else:
                trial.back_to(start)
        return moved

    def _place_each(
        self, trial: Trial, members: list[Member], protected: AbstractSet[str]
    ) -> list[tuple[Member, Eviction]] | None:
        evictions: list[tuple[Member, Eviction]] = []
        looked, asking_is_seated = _Looked(), False
        spare = len(members) - self._needed
        spared = self._gang | protected | self._state.lingering
        for member in members:
            if len(evictions) == self._needed - 1 and member is not self._asking and not asking_is_seated:
                continue  # the last seat is for the asking one
            evictor = Evictor(trial, self._state.gangs, below=_below(member.pod), spared=spared)
            eviction = self._eviction_for(trial, member, evictor, looked)
            if eviction is None:
                spare -= 1
                if spare < 0 or member is self._asking:
                    return None
                continue
            trial.evict_all(eviction.victims)
            trial.take(eviction.node, member.demand)
            evictions.append((member, eviction))
            asking_is_seated = asking_is_seated or member is self._asking
            # A gang that has lost a member makes evictions dearer or cheaper wherever it runs.
            breaks = any(self._state.gangs.of(pod.uid) is not None for pod in eviction.victims)
            looked.forget(None if breaks else eviction.node)
            if len(evictions) == self._needed:
                return evictions
        return None

    def _eviction_for(self, trial: Trial, member: Member, evictor: Evictor, looked: _Looked) -> Eviction | None:
        own = self._state.cluster.known(member.hold.node) if member.hold is not None else None
        if own is not None and self._offered(own.name):
            if trial.room_on(own.name, member.demand):
                return Eviction.none_needed(own.name)
            kept = evictor.on(own, member.demand)
            if kept is not None:
                return kept
        node = trial.best(member.demand, self._offered)
        return Eviction.none_needed(node) if node is not None else self._cheapest(member.demand, evictor, looked)

    def _cheapest(self, demand: Demand, evictor: Evictor, looked: _Looked) -> Eviction | None:
        """The cheapest eviction for this demand; None if none helps."""
        kind, found = (demand, evictor.below), list[Eviction]()
        hopeless = looked.hopeless.get(kind, 0)
        for room in self._state.cluster.with_lower_pods(evictor.below, hopeless):
            eviction = looked.on(room, demand, evictor) if self._offered(room.name) else None
            if eviction is not None:
                found.append(eviction)
            elif not found:
                hopeless += 1
            if len(found) == self._looks:
                break
        looked.hopeless[kind] = hopeless
        return min(found, key=lambda eviction: eviction.rank, default=None)


class _Looked:
    """What eviction can do on each node, while a gang is seated. It is found again where something has changed."""

    def __init__(self) -> None:
        #: By demand and priority, the number of nodes at the front of the order where eviction does not help. It will
        #: not help there later either, because each member that is seated meanwhile only takes more room.
        self.hopeless: dict[tuple[Demand, int], int] = {}
        self._found: dict[tuple[Demand, int, str], tuple[int, Eviction | None]] = {}
        #: The number of changes; of the last one that counts everywhere, and of the last one of a node.
        self._changes = self._everywhere = 0
        self._changed: dict[str, int] = {}

    def on(self, room: NodeRoom, demand: Demand, evictor: Evictor) -> Eviction | None:
        """As `Evictor.on`."""
        key = demand, evictor.below, room.name
        at, eviction = self._found.get(key, (-1, None))
        if at < max(self._everywhere, self._changed.get(room.name, 0)):
            eviction = evictor.on(room, demand)
            self._found[key] = self._changes, eviction
        return eviction

    def forget(self, node: str | None) -> None:
        """This node has changed; None: what victims cost has changed everywhere."""
        self._changes += 1
        if node is None:
            self._everywhere = self._changes
        else:
            self._changed[node] = self._changes


def _stays(trial: Trial, pod: Pod) -> bool:
    """Whether there is room for this victim, too. Takes it in the trial."""
    demand = demand_of(pod.requests)
    if not trial.room_on(pod.node_name, demand):
        return False
    trial.take(pod.node_name, demand)
    return True


def _spare(trial: Trial, evictions: list[tuple[Member, Eviction]]) -> list[tuple[Member, Eviction]]:
    """The seats without victims that other victims have made unnecessary; the most valuable pod is spared first."""
    spared: set[str] = set()
    victims = [pod for _, eviction in evictions for pod in eviction.victims]
    for pod in sorted(victims, key=lambda pod: (-pod.priority, pod.key, pod.uid)):
        if _stays(trial, pod):
            spared.add(pod.uid)
    return [
        (member, eviction._replace(victims=tuple(pod for pod in eviction.victims if pod.uid not in spared)))
        for member, eviction in evictions
    ]


def _summary(evictions: list[tuple[Member, Eviction]]) -> tuple[dict[str, str], set[str]]:
    """Who sits where, and who goes."""
    nodes = {member.uid: eviction.node for member, eviction in evictions}
    return nodes, {pod.uid for _, eviction in evictions for pod in eviction.victims}


def _keeps_seat(member: Member, eviction: Eviction) -> bool:
    return member.hold is not None and member.hold.node == eviction.node


def _below(pod: Pod) -> int:
    """The priority below which pods are evictable for this pod. A pod that must not preempt has no victims."""
    return pod.priority if pod.may_preempt else -(1 << 40)


def _answer(evictions: list[tuple[Member, Eviction]]) -> Preempt:
    plans = [MemberPlan(member.uid, eviction.node, _victims(eviction)) for member, eviction in evictions]
    going = [pod for _, eviction in evictions for pod in eviction.victims]
    why = reason(Code.PREEMPTIBLE, victims=_names(going) or "none is left")
    return Preempt(plans[0].victims, why, plans[0].node, tuple(plans[1:]))


def _victims(eviction: Eviction) -> tuple[Victim, ...]:
    return tuple(sorted(Victim(pod.node_name, pod.uid) for pod in eviction.victims))


def _names(pods: list[Pod]) -> str:
    return some(str(pod.key) for pod in pods)
