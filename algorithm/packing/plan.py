"""Places a gang as a whole: each member gets a node, or, if too few members find one, none does.

Members are placed one after the other, each where it packs best: first those for which room is held, then the hardest
to place. If this is not enough and members differ in size, other orders are tried: the easiest first, and those that
need most of one resource first. For members of different sizes this is a heuristic (the exact problem is bin packing,
NP-hard). For members of one size it is exact.

If every member must have a place, the order of sizes does not depend on which member is asked about. Otherwise a gang
that is refused for one member, which then evicts others, could fit for the next. If members may be left out, the asking
one may not be: it comes first of its equals in every order, and first of all when the easiest come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from algorithm.model import Pod
from algorithm.packing.demand import Demand, demand_of, size
from algorithm.packing.index import Allowed
from algorithm.packing.nodes import Hold
from algorithm.packing.trial import Trial

#: The most orders of its members that are tried for a gang. Each costs a search.
_MOST_ORDERS = 6


class Member:
    """A pod to be placed, and its hold. Not to be changed."""

    __slots__ = ("demand", "hold", "pod", "uid")

    def __init__(self, pod: Pod, hold: Hold | None = None) -> None:
        self.pod = pod
        self.hold = hold
        self.uid = pod.uid
        self.demand = demand_of(pod.requests)


@dataclass(slots=True)
class Seating:
    """Nodes by UID. `left_out`: on failure the first member that found no node; on success None, even if members that
    can be spared found none."""

    seats: dict[str, str] = field(default_factory=dict)
    left_out: Member | None = None


def hardest_first(members: Sequence[Member], asking: str) -> list[Member]:
    """Members with a hold first, then the hardest. Of equal ones: the asking one first, then those of higher priority,
    those that must not preempt, and the older ones."""
    return _in_order(members, _by_size(members), asking)


def orders(members: Sequence[Member], asking: str, *, spare: bool) -> Iterator[list[Member]]:
    """The orders that are tried for a gang, at most _MOST_ORDERS, no order of demands twice.

    `spare`: whether some members may be left out, but not the asking one.
    """
    hardest = _by_size(members)
    yield _in_order(members, hardest, asking)
    if len(hardest) == 1:
        return
    easiest = sorted(hardest, key=lambda demand: (size(demand), demand))
    tried = [hardest]
    for demands in (easiest, *_most_of_one_resource_first(hardest)):
        if demands not in tried and len(tried) < _MOST_ORDERS:
            tried.append(demands)
            order = _in_order(members, demands, asking)
            yield sorted(order, key=lambda member: member.uid != asking) if spare and demands is easiest else order


def _by_size(members: Sequence[Member]) -> list[Demand]:
    """The different demands, the hardest first."""
    return sorted({m.demand for m in members}, key=lambda demand: ([-part for part in size(demand)], demand))


def _most_of_one_resource_first(demands: Sequence[Demand]) -> Iterator[list[Demand]]:
    amounts = {demand: dict(demand) for demand in demands}
    for name in sorted({name for demand in demands for name, _ in demand}):
        yield sorted(demands, key=lambda demand: -amounts[demand].get(name, 0))


def _in_order(members: Sequence[Member], demands: Sequence[Demand], asking: str) -> list[Member]:
    """Members with a hold first, then in this order of their demands.

    Equal members come together: a gang's answer does not depend on which of them is asked about.
    """
    rank = {demand: number for number, demand in enumerate(demands)}

    def key(member: Member) -> tuple[object, ...]:
        pod = member.pod
        is_mate = member.uid != asking
        where = member.hold is None, rank[member.demand]
        return (*where, is_mate, -pod.priority, pod.may_preempt, pod.created, pod.name, pod.uid)

    return sorted(members, key=key)


def seat_gang(trial: Trial, members: Sequence[Member], *, asking: str, offered: Allowed, needed: int) -> Seating:
    """Seats for the pod `asking` and as many others as there is room for, at least `needed` in all: by the first of the
    `orders` that seats enough.

    The asking pod gets an offered node; its mates get an offered node or the one where room is held for them. On
    failure, `left_out` is set, and no other field may be used. The trial keeps the partial result, to show why it
    failed.
    """
    start = trial.mark()
    seating = Seating()
    for order in orders(members, asking, spare=needed < len(members)):
        trial.back_to(start)
        seating = _seat_in_order(trial, order, asking, offered, needed)
        if seating.left_out is None:
            break
    return seating


def _seat_in_order(trial: Trial, members: Sequence[Member], asking: str, offered: Allowed, needed: int) -> Seating:
    seating = Seating()
    spare = len(members) - needed
    hopeless: set[Demand] = set()
    first_out: Member | None = None
    for alike in _alike(members):
        skipped = alike[0].demand in hopeless and alike[0].hold is None
        last = alike[-1] is members[-1]
        nodes = [] if skipped else _seats(trial, alike, asking, offered, last=last)
        seating.seats.update((member.uid, node) for member, node in zip(alike, nodes, strict=False))
        for member in alike[len(nodes) :]:
            hopeless.add(member.demand)
            first_out = first_out or member
            spare -= 1
            if spare < 0 or member.uid == asking:
                seating.left_out = first_out
                return seating
    return seating


def _alike(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Groups of members that are placed together: equal demands without holds. A member with a hold is alone."""
    for (held, _), row in groupby(members, key=lambda member: (member.hold is not None, member.demand)):
        if held:
            yield from ([member] for member in row)
        else:
            yield list(row)


def _seats(trial: Trial, alike: Sequence[Member], asking: str, offered: Allowed, *, last: bool) -> list[str]:
    """Take nodes for these members, in this order; for fewer if there is no room for more."""
    if len(alike) > 1:
        return trial.take_best(len(alike), alike[0].demand, offered, last=last)
    node = seat(trial, alike[0], asking, offered)
    return [] if node is None else [node]


def seat(trial: Trial, member: Member, asking: str, offered: Allowed) -> str | None:
    """Take a node for one member in the trial: where room is held for it, else the best offered one; None if none.

    If there is none, its hold stays: its victims may still run.
    """
    hold = member.hold
    demand = member.demand
    before = trial.mark()
    trial.release(hold)
    if hold is not None and trial.room_on(hold.node, demand) and _may_use(trial, hold.node, member, asking, offered):
        node: str | None = hold.node
    else:
        node = trial.cluster.best(demand, offered)
    if node is None:
        trial.back_to(before)
    else:
        trial.take(node, demand)
    return node


def _may_use(trial: Trial, node: str, member: Member, asking: str, offered: Allowed) -> bool:
    room = trial.cluster.known(node)
    if room is None:
        return False
    return offered(node) if member.uid == asking else room.schedulable
