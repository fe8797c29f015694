"""The default algorithm: resource fit, gangs as a whole, packing, preemption. See docs/algorithm-packing.md.

    schedule(pod)
      in a gang of which no member has a place yet?
        no   the node where room is held for the pod, else the best offered one
        yes  too few members exist -> Wait; else seats for all of them, on the nodes offered to this pod
      no room? once more, as if nothing were held for pods of lower priority
      no room? lower priority in the way -> Preempt (the cheapest victims); else Wait

`State` keeps what the extender reports. A decision changes this state inside a `Trial`, which undoes every change. So
one place keeps the promise that schedule leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self, TypeGuard

import msgspec

from algorithm.interface import (
    Bind,
    GangInfo,
    Phase,
    PodRefused,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Unoffered,
    Victim,
    Wait,
)
from algorithm.model import Node, Pairs, Pod
from algorithm.packing.clearing import Clearing
from algorithm.packing.copying import copied_in_pieces
from algorithm.packing.counting import SeatCounts, Seats, seat_counts
from algorithm.packing.demand import Demand, demand_of, size
from algorithm.packing.explain import explain
from algorithm.packing.gangs import Gang, GangKey, fingerprint_of, membership, membership_or_none, too_large
from algorithm.packing.index import OfferedNodes
from algorithm.packing.memo import GangMembers, Memo, Question
from algorithm.packing.nodes import Hold, NodeRoom
from algorithm.packing.perdemand import PerDemand
from algorithm.packing.plan import Member, Seating, seat, seat_gang
from algorithm.packing.preemption import Effort, Preemptor, release_lower
from algorithm.packing.refusals import NodeReasons, Refusals, few, few_of, some
from algorithm.packing.settings import PackingSettings
from algorithm.packing.state import State
from algorithm.packing.summary import summary
from algorithm.packing.trial import MOST_VICTIMS, TooManyVictimsError, Trial
from algorithm.reasons import Code, Reason, reason

#: In Filtering a preemption is only announced; kube-scheduler calls again before any pod is evicted.
_ANNOUNCE = Effort(enough=8, looks=32)


class PackingAlgorithm(SchedulerAlgorithm):
    """Implements the contract of `algorithm.interface`."""

    def __init__(self, settings: PackingSettings | None = None) -> None:
        self.settings = settings or PackingSettings()
        self._state = State(spread=self.settings.strategy == "spread")
        self._start_memories()

    def _start_memories(self) -> None:
        """Create the caches, which make answers fast and do not change them."""
        self._memo = Memo()
        self._refusals = Refusals(self._state.cluster)
        self._fullness = PerDemand(self._state.cluster, _fullness)

    # A checkpoint of an older release has no such caches, so these are made when they are needed.

    @cached_property
    def _seat_counts(self) -> SeatCounts:
        return seat_counts(self._state.cluster)

    @cached_property
    def _gang_members(self) -> GangMembers:
        return GangMembers()

    # -- the cluster ------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        self._state.put_node(node)

    def update_node(self, old: Node, new: Node) -> None:  # noqa: ARG002 - the name is the same
        self._state.put_node(new)

    def delete_node(self, node: Node) -> None:
        self._state.drop_node(node.name)

    # -- pods -------------------------------------------------------------------------------------------------

    def add_unallocated_pod(self, pod: Pod) -> None:
        self._state.add_waiting(pod)

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self._state.drop_waiting(pod.uid)

    def add_allocated_pod(self, pod: Pod) -> None:
        self._state.allocate(pod)

    def delete_allocated_pod(self, pod: Pod) -> None:
        self._state.free(pod.uid)

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self._state.update(old, new)

    def set_protected_pods(self, uids: frozenset[str]) -> None:
        self._state.protect(uids)

    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        self._state.linger(uids)

    def reserved_pods(self) -> frozenset[str]:
        return self._state.reserved()

    def set_lapsed_pods(self, uids: frozenset[str]) -> None:
        self._state.lapse(uids)

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        self._state.preempt(pod, victims, node)

    def delete_preempting_pod(self, pod: Pod) -> None:
        self._state.stop_preempting(pod.uid)

    # -- decisions --------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        declared = membership(pod)
        if not suggested_nodes:
            return Wait(reason(Code.NOTHING_OFFERED))
        gang = None if declared is None else self._gang(pod, declared.gang, declared.minimum)
        if gang is not None and gang.oversized:
            raise too_large(gang)
        fingerprints = gang.fingerprints() if gang is not None and gang.whole else None
        generation, refused = self._state.generation, None
        if self._memo.generation == generation:
            question = self._question(pod, gang, phase)
            known = self._memo.recall(question, fingerprints, suggested_nodes)
            if known is None and phase is Phase.EVICTING and not question.uid:
                known = self._memo.recall(question._replace(uid=pod.uid), fingerprints, suggested_nodes)
            if known is not None:
                return known
            if phase is Phase.EVICTING and fingerprints is not None:
                filtering = question._replace(phase=Phase.FILTERING)
                refused = self._memo.recall(filtering, fingerprints, suggested_nodes)
        answer = self._decide(pod, gang, OfferedNodes(suggested_nodes), phase, refused)
        if isinstance(answer, Bind):
            return answer
        question = self._question(pod, gang, phase)
        if phase is Phase.EVICTING and isinstance(answer, Preempt):
            question = question._replace(uid=pod.uid)
        return self._memo.keep(generation, question, fingerprints, suggested_nodes, answer)

    def _decide(
        self, pod: Pod, gang: Gang | None, offered: OfferedNodes, phase: Phase, refused: ScheduleResult | None
    ) -> ScheduleResult:
        """`refused`: in the phase Evicting, what was answered in Filtering to the same question in the same state."""
        if gang is None or gang.minimum == 1 or gang.allocated:
            return self._schedule_one(pod, gang, offered, phase)
        return self._schedule_gang(pod, gang, offered, phase, refused)

    def _question(self, pod: Pod, gang: Gang | None, phase: Phase) -> Question:
        own = pod.uid in self._state.holds or pod.uid in self._state.preemptions
        key = None if gang is None else gang.key
        return Question(phase, demand_of(pod.requests), pod.priority, pod.may_preempt, key, pod.uid if own else "")

    def _gang(self, pod: Pod, key: GangKey, minimum: int) -> Gang:
        """The gang with this record of the pod, which may be newer than the reported one."""
        known = self._state.gangs.gangs.get(key)
        reported = known.waiting.get(pod.uid) if known is not None else None
        if (
            known is not None
            and reported is not None
            and fingerprint_of(reported, known.minimums[pod.uid]) == fingerprint_of(pod, minimum)
        ):
            return known
        gang = known.copy() if known is not None else Gang(key)
        gang.leave(pod.uid)
        gang.add(msgspec.structs.replace(pod, node_name=""), minimum)
        return gang

    # -- one pod ----------------------------------------------------------------------------------------------

    def _schedule_one(self, pod: Pod, gang: Gang | None, offered: OfferedNodes, phase: Phase) -> ScheduleResult:
        node = self._place(pod, gang, offered)
        if node is not None:
            return Bind(node, self._annotations(gang, {pod.uid: node}))
        hold = self._state.holds.get(pod.uid)
        if hold is not None and gang is not None and not offered(hold.node) and self._holds_good(pod, hold):
            return Wait(reason(Code.GANG_ELSEWHERE, gang=str(gang.key), node=hold.node))
        return self._make_room(pod, gang, offered, phase, [], 1) or self._refuse(pod, gang, offered, phase)

    def _place(self, pod: Pod, gang: Gang | None, offered: OfferedNodes) -> str | None:
        hold = self._state.holds.get(pod.uid)
        if hold is None:
            node = self._state.cluster.best(demand_of(pod.requests), offered)
            if node is not None or not self._state.holds:
                return node
        elif offered(hold.node) and self._fits_instead(pod, hold):
            return hold.node
        member = Member(pod, hold)
        with Trial(self._state.cluster) as trial:
            node = seat(trial, member, pod.uid, offered)
            if node is None and self._release_lower(trial, pod, gang):
                node = seat(trial, member, pod.uid, offered)
            return node

    def _fits_instead(self, pod: Pod, hold: Hold) -> bool:
        """Whether the pod fits in the seat that is held for it."""
        room = self._state.cluster.known(hold.node)
        return room is not None and room.fits_instead(demand_of(pod.requests), hold)

    def _holds_good(self, pod: Pod, hold: Hold) -> bool:
        """Whether the pod may go to the seat that is held for it, if that is offered."""
        return self._state.cluster.rooms[hold.node].schedulable and self._fits_instead(pod, hold)

    def _refuse(self, pod: Pod, gang: Gang | None, offered: OfferedNodes, phase: Phase) -> Wait:
        reasons = self._refusals.of(demand_of(pod.requests), offered.nodes)
        dominant = self._dominant(pod, gang, offered, phase, [], 1) or reasons.shared or reason(Code.NO_NODE_FITS)
        return _wait(dominant, reasons)

    def _dominant(
        self, pod: Pod, gang: Gang | None, offered: OfferedNodes, phase: Phase, gang_members: list[Member], needed: int
    ) -> Reason | None:
        """A reason that says more than which resources are short; None if there is none."""
        waits_for = None if phase is Phase.EVICTING else self._waits_for_victims(pod)
        if waits_for is not None:
            return waits_for
        if phase is not Phase.PREEMPTING or not pod.may_preempt:
            return None
        preemptor = self._preemptor(pod, gang, offered, phase)
        return reason(Code.PRIORITY_TOO_LOW) if preemptor.only_priority_forbids(gang_members, needed) else None

    # -- a gang -----------------------------------------------------------------------------------------------

    def _schedule_gang(
        self, pod: Pod, gang: Gang, offered: OfferedNodes, phase: Phase, refused: ScheduleResult | None
    ) -> ScheduleResult:
        """Place all members or none. No member has a place yet."""
        if len(gang.waiting) < gang.minimum:
            return Wait(reason(Code.GANG_INCOMPLETE, gang=str(gang.key), minimum=gang.minimum))
        members = self._gang_members.of(gang, self._state.holds)
        # What Filtering has found need not be looked for again: only the evictions are to be found.
        known = refused if _lacks_seats(refused) else None
        found = "" if known is not None else self._seat_all(pod, gang, members, offered)
        if isinstance(found, Seating):
            return Bind(found.seats[pod.uid], self._annotations(gang, found.seats))
        gang_members = [member for member in members if member.uid != pod.uid]
        try:
            room = self._make_room(pod, gang, offered, phase, gang_members, gang.minimum)
        except TooManyVictimsError:
            return self._refuse_gang(pod, gang, offered, phase, gang_members, _too_many_victims())
        return room or known or self._refuse_gang(pod, gang, offered, phase, gang_members, found)

    def _seat_all(self, pod: Pod, gang: Gang, members: Sequence[Member], offered: OfferedNodes) -> Seating | str:
        """Seats for the gang, or a text that says what is missing."""
        seats = Seats(self._seat_counts, members)
        with Trial(self._state.cluster) as trial:
            self._release_lower(trial, pod, gang)
            enough = seats.enough_free(trial, offered, gang.minimum)
        if not enough:
            hardest = max({member.demand for member in members}, key=lambda demand: (size(demand), demand))
            return self._what_is_missing(hardest, offered, self._refusals.when_filled(seats.demand, hardest, offered))
        return self._seat_each(pod, gang, members, offered)

    def _seat_each(self, pod: Pod, gang: Gang, members: Sequence[Member], offered: OfferedNodes) -> Seating | str:
        with Trial(self._state.cluster) as trial:
            seating = seat_gang(trial, members, asking=pod.uid, offered=offered, needed=gang.minimum)
            left_out, full = seating.left_out, trial.changed()
            if left_out is None:
                return seating
            trial.back_to(0)
            if self._release_lower(trial, pod, gang):
                seating = seat_gang(trial, members, asking=pod.uid, offered=offered, needed=gang.minimum)
        if seating.left_out is None:
            return seating
        return self._what_is_missing(left_out.demand, offered, self._refusals.with_free(left_out.demand, full))

    def _what_is_missing(self, demand: Demand, offered: OfferedNodes, full: Mapping[str, Reason | None]) -> str:
        """What one more member of this demand lacks. `full` has the reasons of the nodes that the others fill."""
        kinds = self._refusals.kinds(demand, offered.nodes, full)
        short = {name for kind in kinds for name in _resources(kind)}
        if short:
            return f"insufficient {few(short)}"
        if any(kind.code is Code.HELD_FOR_OTHERS for kind in kinds):
            return "room is held for others"
        return "no offered node is large enough for each member"

    def _refuse_gang(
        self, pod: Pod, gang: Gang, offered: OfferedNodes, phase: Phase, gang_members: list[Member], why: str
    ) -> ScheduleResult:
        reasons = self._refusals.of(demand_of(pod.requests), offered.nodes)
        dominant = self._dominant(pod, gang, offered, phase, gang_members, gang.minimum)
        return _wait(dominant or reason(Code.GANG_DOES_NOT_FIT, gang=str(gang.key), detail=why), reasons)

    # -- preemption -------------------------------------------------------------------------------------------

    def _make_room(
        self, pod: Pod, gang: Gang | None, offered: OfferedNodes, phase: Phase, gang_members: list[Member], needed: int
    ) -> Preempt | Wait | None:
        if not pod.may_preempt:
            return None
        if phase is Phase.PREEMPTING:
            return self._preemptor(pod, gang, offered, phase).make_room(gang_members, needed)
        if phase is Phase.EVICTING:
            return self._clearing(pod, offered, gang_members, needed).plan()
        claims = pod.uid in self._state.preemptions
        if self._waits_for_victims(pod) is not None or not (claims or self._state.cluster.has_lower_pods(pod.priority)):
            return None
        room = self._preemptor(pod, gang, offered, phase).make_room(gang_members, needed)
        if room is None or room.victims:
            return room
        # Its own victims are gone, those of its mates are not: its seat stays held.
        return Wait(reason(Code.WAITING_FOR_VICTIMS, **dict(room.reason.params))) if claims else None

    def _clearing(self, pod: Pod, offered: OfferedNodes, gang_members: list[Member], needed: int) -> Clearing:
        looks = self.settings.preemption_candidates
        return Clearing(
            self._state, self._member(pod), gang_members, needed, offered=offered, looks=looks, counts=self._seat_counts
        )

    def _preemptor(self, pod: Pod, gang: Gang | None, offered: OfferedNodes, phase: Phase) -> Preemptor:
        effort = _ANNOUNCE if phase is Phase.FILTERING else Effort(enough=self.settings.preemption_candidates)
        return Preemptor(self._state, pod, gang, offered, effort, self._seat_counts)

    def _waits_for_victims(self, pod: Pod) -> Reason | None:
        preemption = self._state.preemptions.get(pod.uid)
        pending = [] if preemption is None else self._state.pending_victims(preemption)
        return reason(Code.WAITING_FOR_VICTIMS, victims=some(str(p.key) for p in pending)) if pending else None

    def _annotations(self, gang: Gang | None, seats: Mapping[str, str]) -> Pairs:
        """The plan that is written with the binding. Seats of members that are gone are left out."""
        if gang is None or not gang.whole:
            return ()
        return gang.plan.with_seats(seats, gang.minimums.keys() - self._state.lapsed).annotations()

    def _release_lower(self, trial: Trial, pod: Pod, gang: Gang | None) -> bool:
        return release_lower(trial, self._state, pod.priority, self._state.gang_members(pod, gang))

    def _member(self, pod: Pod) -> Member:
        return Member(pod, self._state.holds.get(pod.uid))

    def unoffered(self, pod: Pod) -> Unoffered:
        """A member may wait on a free node: kube-scheduler offers those where eviction helps (see `preemption.py`)."""
        return Unoffered.NOTHING if membership_or_none(pod) is None else Unoffered.PLANS

    def gang(self, pod: Pod) -> GangInfo | None:
        declared = membership_or_none(pod)
        if declared is None:
            return None
        gang = self._state.gangs.of(pod.uid)
        unplaced = gang is not None and gang.minimum > 1 and not gang.allocated
        return GangInfo(str(declared.gang), all_or_nothing=unplaced)

    # -- optional ---------------------------------------------------------------------------------------------

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        """How full each known node would be with the pod on it, in tenths (with `spread`: how empty)."""
        full = self._fullness.of(demand_of(pod.requests))
        if self.settings.strategy == "pack":
            return {name: full[name] for name in nodes if name in full}
        return {name: 10 - full[name] for name in nodes if name in full}

    def inspect(self) -> Mapping[str, Any]:
        """A summary. It leaves out which pod runs where, because /v1/inspect/nodes shows that."""
        return {"strategy": self.settings.strategy, **summary(self._state)}

    def explain(self, pod: Pod) -> Iterator[str]:
        try:
            declared = membership(pod)
            gang = None if declared is None else self._gang(pod, declared.gang, declared.minimum)
            if gang is not None and gang.oversized:
                raise too_large(gang)
        except PodRefused as refused:
            return iter((f"{refused.reason.text}.",))
        return explain(self._state, pod, gang)

    def fork(self) -> Self:
        return self._with(self._state.copy())

    def forks(self) -> Iterator[Callable[[], Self] | None]:
        for state in copied_in_pieces(self._state):
            yield None if state is None else partial(self._complete, state)

    def _complete(self, state: Callable[[], State]) -> Self:
        return self._with(state())

    def _with(self, state: State) -> Self:
        twin = type(self)(self.settings)
        twin._state = state
        twin._start_memories()
        return twin

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError, which says what differs."""
        self._state.validate()
        self._refusals.validate()
        self._fullness.validate()
        self._seat_counts.validate()


def _lacks_seats(answer: ScheduleResult | None) -> TypeGuard[Wait]:
    """Whether a gang was refused for want of seats, and not for what evictions would have to be."""
    if not isinstance(answer, Wait) or answer.reason.code is not Code.GANG_DOES_NOT_FIT:
        return False
    return dict(answer.reason.params)["detail"] != _too_many_victims()


def _too_many_victims() -> str:
    return f"more than {MOST_VICTIMS} pods would have to go"


def _wait(dominant: Reason, reasons: NodeReasons) -> Wait:
    """The refusal. Single nodes get no reason of their own if all of them have the dominant reason."""
    return Wait(dominant) if dominant == reasons.shared else Wait(dominant, reasons.by_node)


def _resources(kind: Reason) -> list[str]:
    if kind.code is Code.TOO_MANY_PODS:
        return ["pods"]
    return few_of(dict(kind.params)["resources"]) if kind.code is Code.INSUFFICIENT else []


def _fullness(room: NodeRoom, demand: Demand) -> int | None:
    """0..10: the mean used share, over the resources that the pod requests; None if the node is not known."""
    if room.node is None:
        return None
    shares, kinds = 0.0, 0
    for name, amount in demand:
        most = room.allocatable.get(name, 0)
        if most > 0:
            shares += min(1.0, max(0.0, (most - room.free[name] + amount) / most))
            kinds += 1
    return int(10 * shares / kinds) if kinds else 0
