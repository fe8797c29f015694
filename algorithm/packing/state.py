"""The state of the algorithm: nodes, pods, gangs, preemptions, and the holds that follow from these.

One rule decides what is held. Each pod that is not allocated has at most one hold:

1. on the node where it preempts, if its preemption was accepted after its gang had got its places;
2. else on its seat in the plan of its gang, if a member of the gang is allocated. A seat that kube-scheduler did not
   ask about in time has lapsed, and is not held;
3. else on the node where it preempts.

Holds are derived. After each event, `_settle` compares the wanted holds with the present ones, for the pods that the
event concerns: the pod itself, and all waiting members of its gang if the gang's plan has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

from algorithm.interface import Victim
from algorithm.model import Node, Pod, fits
from algorithm.packing.demand import demand_of
from algorithm.packing.gangs import Gang, GangIndex, GangKey, Membership, membership_or_none, plan_text
from algorithm.packing.nodes import Cluster, Hold, NodeRoom
from algorithm.tables import Followers, Table


@dataclass(frozen=True, slots=True)
class Preemption:
    """An accepted preemption: `pod` waits for `victims` to go and has its seat on `node` ("" if it has none)."""

    pod: Pod
    node: str
    victims: tuple[Victim, ...]
    #: It has or had victims, so kube-scheduler offers it the node on which they ran.
    evicts: bool
    #: Its gang had places before: this seat is newer than the plan's.
    overrides_plan: bool


class State:
    """The reported records and what follows from them. Methods take events; decisions read the attributes."""

    def __init__(self, *, spread: bool) -> None:
        self.cluster = Cluster(spread=spread)
        self.gangs = GangIndex()
        self.waiting: Table[str, Pod] = Table()
        self.allocated: Table[str, Pod] = Table()
        self.preemptions: Table[str, Preemption] = Table()
        self.holds: Table[str, Hold] = Table()
        #: UIDs of pods that cannot be evicted now.
        self.protected: frozenset[str] = frozenset()
        #: UIDs of pods that were evicted and do not go.
        self.lingering: frozenset[str] = frozenset()
        #: UIDs of pods whose seat has lapsed.
        self.lapsed: frozenset[str] = frozenset()
        self._reserved: frozenset[str] | None = frozenset()
        self._changes = 0

    @property
    def generation(self) -> int:
        """A number that rises with every change that decisions depend on, except changes of a gang's waiting members.

        `Gang.fingerprints` tracks those. So all verdicts stay valid when the record of a waiting pod changes only in
        fields that do not count. kube-scheduler causes such changes: it writes the refusal on every pod that it could
        not place.
        """
        return self._changes + self.cluster.generation

    def copy(self) -> Self:
        """An independent copy."""
        twin = self.taken(Followers())
        rooms = {name: room.copy() for name, room in self.cluster.rooms.items()}
        twin.link(rooms, {key: gang.copy() for key, gang in self.gangs.gangs.items()})
        return twin

    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All that may be large."""
        own = (self.waiting, self.allocated, self.preemptions, self.holds)
        return (*own, *self.cluster.tables(), *self.gangs.tables())

    def taken(self, followers: Followers) -> Self:
        """A copy that still refers to the rooms and gangs of this one: `link` puts copies in their place."""
        twin = type(self)(spread=self.cluster.spread)
        twin.cluster, twin.gangs = self.cluster.taken(followers), self.gangs.taken(followers)
        twin.waiting, twin.allocated = followers.taken(self.waiting), followers.taken(self.allocated)
        twin.preemptions, twin.holds = followers.taken(self.preemptions), followers.taken(self.holds)
        twin.lingering = self.lingering
        twin.protected, twin.lapsed, twin._reserved = self.protected, self.lapsed, self._reserved
        return twin

    def link(self, rooms: Mapping[str, NodeRoom], gangs: Mapping[GangKey, Gang]) -> None:
        """Put these copies in the place of rooms and gangs; there may be more of them."""
        self.cluster.rooms = Table((name, rooms[name]) for name in self.cluster.rooms)
        self.gangs.gangs = Table((key, gangs[key]) for key in self.gangs.gangs)

    # -- events -----------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        before = self._allocatable(node.name)
        self.cluster.put_node(node)
        after = self._allocatable(node.name)
        if after is not before and after != before:
            self._settle_seats(node.name)

    def drop_node(self, name: str) -> None:
        self.cluster.drop_node(name)
        self._settle_seats(name)

    def add_waiting(self, pod: Pod) -> None:
        declared = _read(pod)
        self.waiting[pod.uid] = pod
        self._join(pod, declared)

    def drop_waiting(self, uid: str) -> None:
        """The pod waits no more. An unknown pod is no error."""
        pod = self.waiting.pop(uid, None)
        if pod is not None:
            self._leave(pod)

    def allocate(self, pod: Pod) -> None:
        self._allocate(pod, _read(pod))

    def _allocate(self, pod: Pod, declared: Membership | None) -> None:
        self.preemptions.pop(pod.uid, None)
        # Mostly the pod goes where its seat was held: one change of that node.
        with self.cluster.batch() if pod.uid in self.holds else nullcontext():
            self.drop_waiting(pod.uid)
            self.allocated[pod.uid] = pod
            self.cluster.place(pod)
            self._join(pod, declared)

    def free(self, uid: str) -> None:
        pod = self.allocated.pop(uid)
        self.cluster.displace(pod)
        self._leave(pod)

    def update(self, old: Pod, new: Pod) -> None:
        """Replace the record of an allocated pod, which stays on its node."""
        if _counts(old) != _counts(new):
            declared = _read(new)
            self.free(old.uid)
            self._allocate(new, declared)
            return
        self.allocated[new.uid] = new
        self.cluster.replace(new)
        gang = self.gangs.of(new.uid)
        if gang is not None:
            gang.allocated[new.uid] = new
            self.gangs.changed(gang)

    def preempt(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        """The pod waits for the victims, then goes to `node`; if that is "", to the node of the first victim."""
        before = self.preemptions.get(pod.uid)
        gang = self.gangs.of(pod.uid)
        self._changes += 1
        self.preemptions[pod.uid] = Preemption(
            pod=pod,
            node=node or (victims[0].node if victims else ""),
            victims=victims,
            evicts=bool(victims) or (before is not None and before.evicts),
            overrides_plan=gang is not None and bool(gang.allocated),
        )
        self._settle(gang, pod.uid, _plan_of(gang))

    def stop_preempting(self, uid: str) -> None:
        if self.preemptions.pop(uid, None) is not None:
            self._changes += 1
            gang = self.gangs.of(uid)
            self._settle(gang, uid, _plan_of(gang))

    def protect(self, uids: frozenset[str]) -> None:
        self._changes += uids != self.protected
        self.protected = uids

    def linger(self, uids: frozenset[str]) -> None:
        self._changes += uids != self.lingering
        self.lingering = uids

    def lapse(self, uids: frozenset[str]) -> None:
        """Release the seats of these pods: kube-scheduler did not ask about them in time."""
        changed, self.lapsed = uids ^ self.lapsed, uids
        for uid in sorted(changed):
            gang = self.gangs.of(uid)
            self._settle_one(uid, gang, gang.plan.seats.get(uid) if gang is not None else None)

    # -- looking ----------------------------------------------------------------------------------------------

    def pending_victims(self, preemption: Preemption) -> list[Pod]:
        """The victims that still exist."""
        return [self.allocated[victim.uid] for victim in preemption.victims if victim.uid in self.allocated]

    def reserved(self) -> frozenset[str]:
        """UIDs of the pods with a held seat; the same object while the set is unchanged."""
        if self._reserved is None:
            self._reserved = frozenset(uid for uid, hold in self.holds.items() if hold.planned)
        return self._reserved

    def gang_members(self, pod: Pod, gang: Gang | None) -> AbstractSet[str]:
        """UIDs of all members of the pod's gang, and its own."""
        if gang is None or pod.uid not in gang.minimums:
            return frozenset([pod.uid, *(gang.minimums if gang is not None else ())])
        return gang.minimums.keys()

    # -- gangs ------------------------------------------------------------------------------------------------

    def _join(self, pod: Pod, declared: Membership | None) -> None:
        if declared is None:
            self._settle_one(pod.uid, None, None)
            return
        before = _plan_of(self.gangs.gangs.get(declared.gang))
        gang = self.gangs.add(pod, declared)
        self._note_minimum(gang, pod.uid)
        self._settle(gang, pod.uid, before)

    def _leave(self, pod: Pod) -> None:
        gang = self.gangs.of(pod.uid) if pod.annotations or pod.group else None
        if gang is None:
            self._settle_one(pod.uid, None, None)
            return
        before = _plan_of(gang)
        self._note_minimum(gang, pod.uid)
        self._settle(self.gangs.remove(pod), pod.uid, before)

    def _note_minimum(self, gang: Gang, uid: str) -> None:
        """Count a change of a running gang's minimum: victims depend on it, and a single member may decide it."""
        if gang.allocated:
            self._changes += gang.alone_asks_for_most(uid)

    # -- holds ------------------------------------------------------------------------------------------------

    def _settle(self, gang: Gang | None, uid: str, before: _PlanOf) -> None:
        """Correct the hold of this pod, and those of its gang's waiting members if the plan has changed."""
        if gang is None:
            self._settle_one(uid, None, None)
            return
        if _plan_of(gang) == before:
            self._settle_one(uid, gang, gang.plan.seats.get(uid))
            return
        seats = gang.seats()
        with self.cluster.batch():
            for member in {uid: None, **gang.waiting}:
                self._settle_one(member, gang, seats.get(member))

    def _settle_one(self, uid: str, gang: Gang | None, seat: str | None) -> None:
        present = self.holds.get(uid)
        if seat is None and present is None and uid not in self.preemptions:
            return
        wanted = self._wanted(uid, gang, seat)
        if wanted == present:
            return
        if present is not None:
            self.cluster.unhold(self.holds.pop(uid))
            self._reserved = None if present.planned else self._reserved
        if wanted is not None:
            self.holds[uid] = wanted
            self.cluster.hold(wanted)
            self._reserved = None if wanted.planned else self._reserved

    def _allocatable(self, name: str) -> dict[str, int] | None:
        room = self.cluster.known(name)
        return None if room is None else room.allocatable

    def _settle_seats(self, name: str) -> None:
        """Correct the holds of seats on this node: whether one may be held depends on what the node has."""
        for gang in self.gangs.gangs.values():
            if not gang.plan_text:
                continue
            seats = gang.seats()
            for uid in gang.waiting:
                if seats.get(uid) == name:
                    self._settle_one(uid, gang, name)

    def _may_hold(self, uid: str, gang: Gang | None, seat: str) -> bool:
        """Whether the seat may be held. Owners of pods can write plans too, so seats are bounded by allocatable."""
        room, pod = self.cluster.known(seat), self.waiting.get(uid)
        if pod is None or gang is None or not gang.whole or gang.oversized or uid in self.lapsed:
            return False
        return room is None or fits(demand_of(pod.requests), room.allocatable)

    def _wanted(self, uid: str, gang: Gang | None, seat: str | None) -> Hold | None:
        preemption = self.preemptions.get(uid)
        if preemption is not None and preemption.node and (seat is None or preemption.overrides_plan):
            pod, node, planned = preemption.pod, preemption.node, False
        elif seat is not None and self._may_hold(uid, gang, seat):
            pod, node, planned = self.waiting[uid], seat, True
        else:
            return None
        of_gang = gang is not None and uid in gang.minimums
        holder = f"gang {gang.key}" if gang is not None and of_gang else f"pod {pod.key}"
        return Hold(uid, node, demand_of(pod.requests), pod.priority, holder, planned)

    # -- checking ---------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError, which says what differs."""
        self.cluster.validate()
        self.gangs.validate(self.waiting.values(), self.allocated.values())
        assert not self.waiting.keys() & self.allocated.keys(), "a pod is waiting and allocated"
        assert not self.preemptions.keys() & self.allocated.keys(), "an allocated pod preempts"
        placed = {uid: pod for room in self.cluster.rooms.values() for uid, pod in room.pods.items()}
        assert placed == self.allocated, "pods on nodes differ from the allocated pods"
        held = {uid: hold for room in self.cluster.rooms.values() for uid, hold in room.holds.items()}
        assert held == self.holds, "holds on nodes differ from the holds"
        assert self.holds == self._derived_holds(), "holds differ from what gangs and preemptions call for"
        seated = {uid for uid, hold in self.holds.items() if hold.planned}
        assert self.reserved() == seated, "who has a seat differs from the holds"

    def _derived_holds(self) -> dict[str, Hold]:
        derived = {}
        for uid in self.waiting.keys() | self.preemptions.keys():
            gang = self.gangs.of(uid)
            hold = self._wanted(uid, gang, gang.seats().get(uid) if gang is not None else None)
            if hold is not None:
                derived[uid] = hold
        return derived


#: All that the seats of a gang depend on, except its waiting members.
_PlanOf = tuple[str, bool, bool] | None


def _plan_of(gang: Gang | None) -> _PlanOf:
    return None if gang is None else (gang.plan_text, gang.whole, gang.oversized)


def _read(pod: Pod) -> Membership | None:
    """What the pod declares. All of its record is read here, before anything changes: what raises changes nothing."""
    demand_of(pod.requests)
    if pod.node_name and pod.annotations:
        plan_text(pod.annotations)
    return membership_or_none(pod)


def _counts(pod: Pod) -> tuple[object, ...]:
    """The fields of an allocated pod that decisions or texts depend on."""
    return pod.key, pod.node_name, pod.priority, pod.requests, pod.annotations, pod.group, pod.terminating
