"""Why a pod waits, in sentences with numbers: what it needs, what is free, and which pods would have to end.

The first sentence is the verdict, and stands by itself: lists show it alone. The last one is the nearest remedy. Every
statement was counted or tried out (`Trial`), for all nodes that are ready and not cordoned, whether kube-scheduler
offers them or not:

    a gang without all its pods               what is still to be created
    too large for the cluster when empty      "can never run", and what would have to be added
    too large without cordoned nodes          which ones
    there is room                             where
    otherwise                                 what is free, and the fewest pods that would have to end

"Can never run" is said only if it is certain. For pods of different sizes that is a matter of bin packing: then the sum
of free amounts is all that is counted, and the last sentence may be missing.

An empty sentence is a step that says nothing: other threads may go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from algorithm.model import Pod, fits
from algorithm.packing import explain_text as text
from algorithm.packing.demand import Demand, demand_of, least_of, pods_that_fit, size
from algorithm.packing.gangs import Gang
from algorithm.packing.nodes import NodeRoom, Schedulable
from algorithm.packing.plan import Member, seat_gang
from algorithm.packing.preemption import release_lower
from algorithm.packing.state import State
from algorithm.packing.trial import Trial
from algorithm.packing.victims import ANY_PRIORITY, Eviction, Evictor

#: Nodes that are searched for pods whose end would help: those with the fewest pods.
LOOKS = 500
#: Pods whose end is proposed at most. More are no remedy that a person could use.
MOST_ENDED = 200
#: Rounds in which pods are added to the proposal.
_ROUNDS = 8
#: Nodes of a proposal for which it is tried whether they can be spared.
_SPARED = 20


@dataclass(frozen=True)
class Question:
    """The waiting pods: `members`, of which `needed` must have a place together. One pod alone is one member."""

    state: State
    pod: Pod
    gang: Gang | None
    members: Sequence[Member]
    needed: int

    @property
    def subject(self) -> str:
        return "It" if self.gang is None or self.needed == 1 else f"Gang {self.gang.key}"

    @cached_property
    def demands(self) -> list[Demand]:
        """The different demands, the largest first."""
        return sorted({member.demand for member in self.members}, key=lambda each: (size(each), each), reverse=True)

    @property
    def demand(self) -> Demand:
        """The amounts that every member needs at least."""
        return least_of(self.demands)

    @cached_property
    def known(self) -> list[NodeRoom]:
        return [room for _, room in sorted(self.state.cluster.rooms.items()) if room.node is not None]

    @cached_property
    def usable(self) -> list[NodeRoom]:
        return [room for room in self.known if room.schedulable]

    @property
    def gang_members(self) -> frozenset[str]:
        return frozenset(self.state.gang_members(self.pod, self.gang))


def explain(state: State, pod: Pod, gang: Gang | None) -> Iterator[str]:
    """The sentences. Changes nothing. `gang` is that of the pod, with the pod's present record in it."""
    whole = gang is not None and gang.whole and not gang.allocated
    if gang is not None and whole and len(gang.waiting) < gang.minimum:
        yield text.incomplete(gang)
        return
    pods = list(gang.waiting.values()) if gang is not None and whole else [pod]
    members = [Member(each, state.holds.get(each.uid)) for each in pods]
    asked = Question(state, pod, gang, members, gang.minimum if gang is not None and whole else 1)
    if not asked.known:
        yield "No node is known."
        return
    too_large = list(_too_large(asked))
    if too_large:
        yield from too_large
        return
    yield ""
    yield from _for_now(asked)


# -- for ever ---------------------------------------------------------------------------------------------------------


def _too_large(asked: Question) -> Iterator[str]:
    """Sentences about a question that even an empty cluster cannot answer; none if it may."""
    for demand in asked.demands:
        if not any(fits(demand, room.allocatable) for room in asked.known):
            yield text.no_node_is_large_enough(asked.subject, demand, [room.allocatable for room in asked.known])
            return
    for name, wanted in _sums(asked):
        there = sum(room.allocatable.get(name, 0) for room in asked.known)
        if there < wanted:
            yield text.too_little_in_all(asked.subject, name, wanted, there)
            return
    for demand, wanted in _wanted(asked):
        ever, usable = _fitting_when_empty(asked.known, demand), _fitting_when_empty(asked.usable, demand)
        if sum(ever) < wanted:
            yield text.too_few_nodes(asked.subject, demand, wanted, ever)
            yield text.more_nodes(demand, wanted, ever, in_gang=asked.needed > 1)
            return
        if sum(usable) < wanted:
            away = [room.name for room in asked.known if not room.schedulable and fits(demand, room.allocatable)]
            yield text.nodes_are_away(asked.subject, demand, wanted, usable, away)
            return


def _wanted(asked: Question) -> Iterator[tuple[Demand, int]]:
    """For each demand, the largest first, how many places of at least that size the pods that must run take."""
    spare = len(asked.members) - asked.needed
    for demand in asked.demands:
        amounts = dict(demand)
        larger = sum(
            all(dict(member.demand).get(name, 0) >= amount for name, amount in amounts.items())
            for member in asked.members
        )
        if larger > spare:
            yield demand, larger - spare
    if len(asked.demands) > 1:
        yield asked.demand, asked.needed


def _sums(asked: Question) -> Iterator[tuple[str, int]]:
    """For pods of different sizes: of each resource, what as many pods as must run take at least, devices first."""
    if len(asked.demands) == 1:
        return
    taken = [dict(member.demand) for member in asked.members]
    names = sorted({name for each in taken for name in each}, key=lambda name: ("/" not in name, name))
    for name in names:
        yield name, sum(sorted(each.get(name, 0) for each in taken)[: asked.needed])


def _fitting_when_empty(rooms: Iterable[NodeRoom], demand: Demand) -> list[int]:
    """The number of places on each of these nodes if nothing ran there, without nodes that have none."""
    return [number for room in rooms if (number := pods_that_fit(room.allocatable, demand))]


# -- now --------------------------------------------------------------------------------------------------------------


def _for_now(asked: Question) -> Iterator[str]:
    with Trial(asked.state.cluster) as trial:
        release_lower(trial, asked.state, asked.pod.priority, asked.gang_members)
        start = trial.mark()
        seats = _seat(trial, asked)
        trial.back_to(start)
        if seats is not None:
            yield text.there_is_room(asked.subject, asked.needed, sorted(set(seats.values())))
            return
        for member in asked.members:
            trial.release(member.hold)
        said = _shortage(asked)
    yield from said
    yield from _remedy(asked)


def _seat(trial: Trial, asked: Question) -> dict[str, str] | None:
    anywhere = Schedulable(asked.state.cluster.rooms)
    seating = seat_gang(trial, asked.members, asking=asked.pod.uid, offered=anywhere, needed=asked.needed)
    return seating.seats if seating.left_out is None else None


def _shortage(asked: Question) -> list[str]:
    """The free amounts, as of the current trial."""
    for name, wanted in _sums(asked):
        free = sum(max(0, room.free.get(name, 0)) for room in asked.usable)
        if free < wanted:
            return [text.too_little_free_in_all(asked.subject, name, wanted, free)]
    for demand, wanted in _wanted(asked):
        fitting = [number for room in asked.usable if (number := room.pods_that_fit(demand))]
        if sum(fitting) < wanted:
            break
    else:
        return [text.do_not_combine(asked.subject, asked.demands)]
    large = [room for room in asked.usable if fits(demand, room.allocatable)]
    said = [text.too_little_free(asked.subject, demand, wanted, sum(fitting), large)]
    held = [
        room
        for room in large
        if room.holds and pods_that_fit(_without_holds(room), demand) > room.pods_that_fit(demand)
    ]
    if held:
        said.append(text.held(sorted({hold.holder for room in held for hold in room.holds.values()}), len(held)))
    return said


def _without_holds(room: NodeRoom) -> dict[str, int]:
    return {name: amount + room.held.get(name, 0) for name, amount in room.free.items()}


# -- whose end would help ---------------------------------------------------------------------------------------------


def _remedy(asked: Question) -> Iterator[str]:
    """Which pods would have to end: if they can be evicted for this pod, only such pods."""
    if asked.pod.may_preempt and asked.state.cluster.has_lower_pods(asked.pod.priority):
        found = _victims(asked, asked.pod.priority)
        if found:
            yield text.lower(found)
            return
        yield ""
    found = _victims(asked, ANY_PRIORITY)
    if found:
        yield text.ended(found)


def _victims(asked: Question, below: int) -> list[Pod]:
    """Pods of a priority below `below` whose end makes room, few of them; [] if none were found."""
    found: list[Eviction] = []
    with Trial(asked.state.cluster) as trial:
        release_lower(trial, asked.state, asked.pod.priority, asked.gang_members)
        evictor = Evictor(trial, asked.state.gangs, below=below, spared=asked.gang_members | asked.state.lingering)
        start = trial.mark()
        for _ in range(_ROUNDS):
            if _fits_without(trial, asked, ()):
                trial.back_to(start)
                return _pods(_needed(trial, asked, found))
            more = _nearest(trial, evictor, asked)
            found += more
            if not more or len(_pods(found)) > MOST_ENDED:
                break
            trial.evict_all(_pods(more))
    return []


def _pods(evictions: Iterable[Eviction]) -> list[Pod]:
    return [pod for each in evictions for pod in each.victims]


def _fits_without(trial: Trial, asked: Question, pods: Iterable[Pod]) -> bool:
    start = trial.mark()
    trial.evict_all(pods)
    fits = _seat(trial, asked) is not None
    trial.back_to(start)
    return fits


def _needed(trial: Trial, asked: Question, found: list[Eviction]) -> list[Eviction]:
    """Those without which it does not fit: the last ones found, which cost most, are tried first."""
    for each in list(reversed(found))[:_SPARED]:
        rest = [other for other in found if other is not each]
        if _fits_without(trial, asked, _pods(rest)):
            found = rest
    return found


def _nearest(trial: Trial, evictor: Evictor, asked: Question) -> list[Eviction]:
    """Evictions for the places that are missing, one on each node: those that cost the fewest pods for each place."""
    start = trial.mark()
    for member in asked.members:
        trial.release(member.hold)
    demand, missing = _missing(asked)
    rooms = sorted((room for room in asked.usable if room.pods), key=lambda room: (len(room.pods), room.name))[:LOOKS]
    for room in rooms:
        if number := room.pods_that_fit(demand):
            trial.take(room.name, tuple((name, number * amount) for name, amount in demand))
    found = [(_gain(room, demand, each), each) for room in rooms if (each := evictor.on(room, demand)) is not None]
    trial.back_to(start)
    chosen: list[Eviction] = []
    for gain, each in sorted(found, key=lambda item: (len(item[1].victims) / min(item[0], missing), item[1].rank)):
        if missing <= 0:
            break
        chosen.append(each)
        missing -= gain
    return chosen


def _gain(room: NodeRoom, demand: Demand, eviction: Eviction) -> int:
    """How many places become free."""
    free = dict(room.free)
    for pod in eviction.victims:
        for name, amount in demand_of(pod.requests):
            free[name] = free.get(name, 0) + amount
    return max(1, pods_that_fit(free, demand))


def _missing(asked: Question) -> tuple[Demand, int]:
    """The largest demand for which there are too few places now, and how many more it takes."""
    for demand, wanted in _wanted(asked):
        fitting = sum(room.pods_that_fit(demand) for room in asked.usable)
        if fitting < wanted:
            return demand, wanted - fitting
    return asked.demands[0], 1
