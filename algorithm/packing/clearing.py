"""A whole plan at once: seats for a pod and for as many of its gang as are needed, and all victims.

This is for the phase EVICTING, in which the extender evicts by itself. In PREEMPTING, kube-scheduler asks about one
member after the other, and victims of other preemptions count as gone. Here, pods count as running until they are gone.
So a seat is listed with every victim that it needs, and the plan is valid whatever becomes of other preemptions.

Each member keeps its held seat if that is still possible, else takes a free node, else the cheapest eviction. So the
same call gives the same plan while the plan is carried out. All seats are on offered nodes: on other nodes,
kube-scheduler may refuse the pods, and the evictions would be in vain.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from algorithm.interface import MemberPlan, Preempt, Victim, Wait
from algorithm.model import Pod
from algorithm.packing.counting import enough_evictable
from algorithm.packing.demand import Demand, demand_of
from algorithm.packing.index import Allowed
from algorithm.packing.plan import Member, hardest_first
from algorithm.packing.preemption import release_lower
from algorithm.packing.refusals import some
from algorithm.packing.state import State
from algorithm.packing.trial import Trial, most_victims
from algorithm.packing.victims import Eviction, Evictor
from algorithm.reasons import Code, reason


class Clearing:
    """Makes the plan for one pod and its gang, on the present state. Every method leaves the state as it was.

    `needed` members in all, the asking one included, must get a seat. For each of them, up to `looks` nodes where
    eviction helps are compared.
    """

    def __init__(
        self, state: State, asking: Member, mates: list[Member], needed: int, *, offered: Allowed, looks: int
    ) -> None:
        self._state = state
        self._asking = asking
        self._members = [asking, *hardest_first(mates, "")]
        self._needed = needed
        self._offered = offered
        self._looks = max(1, looks // needed)
        self._gang = state.mates(asking.pod, state.gangs.of(asking.uid)) | {member.uid for member in self._members}

    def plan(self) -> Preempt | Wait | None:
        """The plan; None if eviction does not help; Wait if every plan needs a protected pod.

        Raises TooManyVictimsError.
        """
        protected = self._state.protected
        seats = self._seat_all(protected)
        if seats is not None:
            return _answer(seats)
        unprotected = self._seat_all(frozenset()) if protected else None
        if unprotected is None:
            return None
        spared = [pod for _, seat in unprotected for pod in seat.victims if pod.uid in protected]
        return Wait(reason(Code.VICTIM_PROTECTED, victims=_names(spared)))

    def _seat_all(self, protected: AbstractSet[str]) -> list[tuple[Member, Eviction]] | None:
        with Trial(self._state.cluster, most_victims(self._needed)) as trial:
            for member in self._members:
                trial.release(member.hold)
            release_lower(trial, self._state, self._asking.pod.priority, self._gang)
            seats = self._seat_each(trial, protected) if self._enough(trial) else None
            return None if seats is None else _spare(trial, seats)

    def _enough(self, trial: Trial) -> bool:
        """Whether the number of seats can be enough."""
        if self._needed == 1:
            return True
        highest = max(member.pod.priority for member in self._members)
        bare = [Member(member.pod) for member in self._members]
        return enough_evictable(trial, bare, self._offered, self._needed, highest)

    def _seat_each(self, trial: Trial, protected: AbstractSet[str]) -> list[tuple[Member, Eviction]] | None:
        seats: list[tuple[Member, Eviction]] = []
        hopeless: dict[tuple[Demand, int], int] = {}
        spare = len(self._members) - self._needed
        spared = self._gang | protected | self._state.lingering
        for member in self._members:
            evictor = Evictor(trial, self._state.gangs, below=_below(member.pod), spared=spared)
            seat = self._seat(trial, member, evictor, hopeless)
            if seat is None:
                spare -= 1
                if spare < 0 or member is self._asking:
                    return None
                continue
            trial.evict_all(seat.victims)
            trial.take(seat.node, member.demand)
            seats.append((member, seat))
            if len(seats) == self._needed:
                return seats
        return None

    def _seat(
        self, trial: Trial, member: Member, evictor: Evictor, hopeless: dict[tuple[Demand, int], int]
    ) -> Eviction | None:
        own = self._state.cluster.known(member.hold.node) if member.hold is not None else None
        if own is not None and self._offered(own.name):
            if trial.room_on(own.name, member.demand):
                return Eviction.none_needed(own.name)
            kept = evictor.on(own, member.demand)
            if kept is not None:
                return kept
        node = trial.best(member.demand, self._offered)
        return Eviction.none_needed(node) if node is not None else self._cheapest(member.demand, evictor, hopeless)

    def _cheapest(self, demand: Demand, evictor: Evictor, hopeless: dict[tuple[Demand, int], int]) -> Eviction | None:
        """The cheapest eviction for this demand; None if none helps.

        `hopeless` counts the nodes at the front of the order where eviction does not help. It will not help later
        either, because each member that is seated meanwhile only takes more room.
        """
        kind = demand, evictor.below
        position, found = hopeless.get(kind, 0), list[Eviction]()
        for room in self._state.cluster.with_lower_pods(evictor.below, position):
            eviction = evictor.on(room, demand) if self._offered(room.name) else None
            if eviction is not None:
                found.append(eviction)
            elif not found:
                position += 1
            if len(found) == self._looks:
                break
        hopeless[kind] = position
        return min(found, key=lambda eviction: eviction.rank, default=None)


def _spare(trial: Trial, seats: list[tuple[Member, Eviction]]) -> list[tuple[Member, Eviction]]:
    """The seats without victims that later victims have made unnecessary; the most valuable pod is spared first."""
    spared: set[str] = set()
    victims = [pod for _, seat in seats for pod in seat.victims]
    for pod in sorted(victims, key=lambda pod: (-pod.priority, pod.key, pod.uid)):
        demand = demand_of(pod.requests)
        if trial.room_on(pod.node_name, demand):
            trial.take(pod.node_name, demand)
            spared.add(pod.uid)
    return [
        (member, seat._replace(victims=tuple(pod for pod in seat.victims if pod.uid not in spared)))
        for member, seat in seats
    ]


def _below(pod: Pod) -> int:
    """The priority below which pods are evictable for this pod. A pod that must not preempt has no victims."""
    return pod.priority if pod.may_preempt else -(1 << 40)


def _answer(seats: list[tuple[Member, Eviction]]) -> Preempt:
    shares = [MemberPlan(member.uid, seat.node, _victims(seat)) for member, seat in seats]
    going = [pod for _, seat in seats for pod in seat.victims]
    why = reason(Code.PREEMPTIBLE, victims=_names(going) or "none is left")
    return Preempt(shares[0].victims, why, shares[0].node, tuple(shares[1:]))


def _victims(seat: Eviction) -> tuple[Victim, ...]:
    return tuple(sorted(Victim(pod.node_name, pod.uid) for pod in seat.victims))


def _names(pods: list[Pod]) -> str:
    return some(str(pod.key) for pod in pods)
