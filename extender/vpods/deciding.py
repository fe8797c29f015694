"""Where the vreplicas of a vpod should be, and what its status should say."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from algorithm.placements.model import Placement, VPodState
from algorithm.placements.policy import PolicyFault
from extender.vpods.names import MOST, expected_number, write_placements
from extender.vpods.notices import NoticeReason
from extender.vpods.records import ObjectKey, Reason, VPodRecord
from extender.vpods.scaling import Scaling
from extender.vpods.sets import HostedSet
from extender.vpods.state import EngineState, Tracked, backed_off
from extender.vpods.writing import Writing

#: How many vpods are decided after one event.
DECISIONS = 64
#: So many pods make a decision count for one more.
PODS = 500
#: How many problems of a status are named.
MOST_PROBLEMS = 3
#: How many different faults of the policy of a set are told. All are counted.
MOST_FAULTS = 20


class Deciding:
    """See the module."""

    def __init__(self, state: EngineState, writing: Writing, scaling: Scaling) -> None:
        self._state = state
        self._writing = writing
        self._scaling = scaling

    def settle(self) -> None:
        """Decide about the sets that changed, and some of the vpods that changed. The others follow at once."""
        state = self._state
        for key in list(state.touched):
            del state.touched[key]
            if key in state.sets:
                self._scaling.look(key)
        left = DECISIONS
        for vpod in list(islice(state.lost, left)):
            del state.lost[vpod]
            self._without_set(state.vpods[vpod])
            left -= 1
        for key, hosted in state.sets.items():
            while hosted.dirty and left:
                name = next(iter(hosted.dirty))
                del hosted.dirty[name]
                left = max(0, left - _weight(hosted))
                tracked = state.by_name[name]
                was_written = tracked.hold is None
                self._decide(key, hosted, tracked)
                if was_written:
                    _pass_on(hosted, name)

    def _without_set(self, tracked: Tracked) -> None:
        """A vpod that has no set, or not this one, stays as it is, and its status says why."""
        record, key = tracked.record, tracked.record.set
        if record.deleting or record.key in self._state.retries:
            return  # in the second case it is looked at again when the write is tried again
        if key in self._state.sets:
            reason, message = Reason.NOT_ALLOWED, f"{key} does not admit namespace {record.key.namespace}"
        elif why := self._state.refused.get(key):
            reason, message = Reason.SET_NOT_SERVED, f"{key} is not served: {why}"
        else:
            reason, message = Reason.UNKNOWN_SET, f"there is no VPodSet {key}"
        self._writing.write(tracked, record.placements, reason, _of_set(record, message))

    def _decide(self, key: ObjectKey, hosted: HostedSet, tracked: Tracked) -> None:
        record = tracked.record
        if tracked.hold or record.key in self._state.retries or record.deleting:
            return  # it is looked at again when the write has ended
        if wrong := self._what_is_wrong(key, hosted, tracked):
            self._writing.write(tracked, record.placements, *wrong)
            return
        vpod = hosted.state.vpods[tracked.name]
        placement = self._place(key, hosted, tracked, vpod)
        if placement is None or _waits(tracked, vpod, placement):
            return
        if hosted.draining is not None and key not in self._state.scaling and self._is_hurt(hosted, vpod, placement):
            self._scaling.no_room(key)
            placement = self._place(key, hosted, tracked, vpod)
            if placement is None:
                return
        self._commit(key, hosted, tracked, vpod, placement)

    def _what_is_wrong(self, key: ObjectKey, hosted: HostedSet, tracked: Tracked) -> tuple[Reason, str] | None:
        record = tracked.record
        if hosted.workload is None:
            name = f"{key.namespace}/{hosted.settings.workload}"
            return Reason.NO_STATEFUL_SET, _of_set(record, f"the StatefulSet {name} of VPodSet {key} does not exist")
        if hosted.workload.trouble:
            return Reason.NO_STATEFUL_SET, _of_set(record, f"the StatefulSet {hosted.workload.trouble}")
        if not 0 <= record.wanted <= MOST:
            said = record.bad_wanted or f"{record.source.wanted.name}: {expected_number(record.wanted)}"
            return Reason.BAD_NUMBER, said
        return None

    def _place(self, key: ObjectKey, hosted: HostedSet, tracked: Tracked, vpod: VPodState) -> Placement | None:
        """Ask the policy. A vpod for which it fails stays where it is, and is asked for again, less and less often."""
        try:
            placement = hosted.place(vpod)
        except PolicyFault as fault:
            self._policy_failed(key, hosted, tracked, str(fault))
            return None
        hosted.policy_fault = ""
        if tracked.reason is Reason.POLICY_FAILED:
            tracked.failures = 0
        return placement

    def _policy_failed(self, key: ObjectKey, hosted: HostedSet, tracked: Tracked, fault: str) -> None:
        state, record = self._state, tracked.record
        hosted.policy_failures += 1
        message = f"policy {hosted.settings.policy}: {fault}"
        hosted.policy_fault = fault
        if fault not in hosted.noticed_faults and len(hosted.noticed_faults) < MOST_FAULTS:
            hosted.noticed_faults.add(fault)
            state.notice_set(key, NoticeReason.POLICY_FAILED, f"{record.key}: {message}", is_warning=True)
        tracked.failures += 1
        if hosted.draining is not None and key not in state.scaling:
            self._scaling.no_room(key)
        if not self._writing.write(tracked, record.placements, Reason.POLICY_FAILED, message):
            state.retries.set(record.key, state.now + backed_off(tracked.failures))

    def _commit(
        self, key: ObjectKey, hosted: HostedSet, tracked: Tracked, vpod: VPodState, placement: Placement
    ) -> None:
        """Write a placement, and keep its room until that is seen."""
        counts, reason, message = self._judge(key, hosted, tracked, vpod, placement)
        _remember(hosted, tracked.name, placement)
        if kept := _kept(hosted, vpod, counts):
            counts = {ordinal: counts.get(ordinal, 0) + kept.get(ordinal, 0) for ordinal in {*counts, *kept}}
            if reason is Reason.PLACED:
                reason, message = Reason.MOVING, f"{sum(kept.values())} vreplicas are on two pods until they have moved"
        self._tell_problems(tracked)
        if tracked.problems:
            message = "; ".join(filter(None, [message, *tracked.problems[:MOST_PROBLEMS]]))
        if counts == vpod.committed and not tracked.problems:
            self._writing.write(tracked, tracked.record.placements, reason, message)
            return
        hosted.state.reserve(tracked.name, counts)
        placements = write_placements(counts, hosted.settings.workload)
        if not self._writing.write(tracked, placements, reason, message, counts=counts, moves=placement.moves):
            hosted.state.reserve(tracked.name, None)

    def _judge(
        self, key: ObjectKey, hosted: HostedSet, tracked: Tracked, vpod: VPodState, placement: Placement
    ) -> tuple[dict[int, int], Reason, str]:
        """What a vpod gets, and why. One that lacks room stands in line, and may have to give back what it has."""
        counts = {ordinal: number for ordinal, number in placement.counts.items() if number}
        if not placement.left:
            hosted.capped.discard(tracked.name)
            if hosted.waiting.pop(tracked.name, None) is not None:
                self._state.room_made(key)
            return counts, Reason.PLACED, ""
        if tracked.name not in hosted.waiting:
            self._state.touched[key] = None
        hosted.note_capped(vpod, counts)
        since = hosted.waiting.setdefault(tracked.name, self._waits_since(hosted, tracked))
        stay = _stay(hosted, vpod, placement.left)
        counts |= stay
        if not (left := placement.left - sum(stay.values())):
            hosted.waiting[tracked.name] = self._state.now  # it waits, and has all that it wants
            return counts, Reason.MOVING, f"{sum(stay.values())} vreplicas are on closed pods until others have room"
        message = f"{left} of {vpod.wanted} vreplicas find no room on the pods of {key}"
        return {} if self._gives_back(key, hosted, since) else counts, Reason.NOT_ENOUGH_ROOM, message

    def _waits_since(self, hosted: HostedSet, tracked: Tracked) -> float:
        """When a vpod began to lack room. If it has given back its part, a server that starts tries that no more."""
        record = tracked.record
        was_here = record.reason == Reason.NOT_ENOUGH_ROOM and not record.placements
        return self._state.now - (hosted.settings.partial_seconds or 0.0 if was_here else 0.0)

    def _gives_back(self, key: ObjectKey, hosted: HostedSet, since: float) -> bool:
        """Whether a vpod that lacks room since then keeps no part. If not yet, it is looked at again in time."""
        seconds = hosted.settings.partial_seconds
        if seconds is None:
            return False
        state, ends = self._state, since + seconds
        if state.now >= ends:
            return True
        state.partials.set(key, min(ends, state.partials.get(key) or ends))
        state.scales.set(key, ends)
        return False

    def _is_hurt(self, hosted: HostedSet, vpod: VPodState, placement: Placement) -> bool:
        """Whether a vpod lacks vreplicas that it has, or would get and keep, on the pods that are emptied."""
        if not placement.left:
            return False
        stays = sum(_stay(hosted, vpod, placement.left).values())
        since = hosted.waiting.get(vpod.key)
        if since is None or placement.placed + stays < min(vpod.wanted, sum(vpod.placed.values())):
            return True
        try:
            undrained = hosted.place_undrained(vpod, self._state.nodes, self._state.now)
        except PolicyFault:
            return True
        seconds = hosted.settings.partial_seconds
        gives_back = undrained.left and seconds is not None and self._state.now >= since + seconds
        return not gives_back and undrained.placed > placement.placed

    def _tell_problems(self, tracked: Tracked) -> None:
        if tracked.problems != tracked.noticed_problems:
            tracked.noticed_problems = tracked.problems
            if tracked.problems:
                message = "; ".join(tracked.problems[:MOST_PROBLEMS])
                self._state.notice_vpod(tracked.record, NoticeReason.BAD_PLACEMENTS, message, is_warning=True)

    def on_time(self) -> None:
        state = self._state
        for key in state.partials.due(state.now):
            state.partials.discard(key)
            if key in state.sets:
                state.sets[key].dirty.update(dict.fromkeys(state.sets[key].waiting))


def _weight(hosted: HostedSet) -> int:
    """What a decision counts for: it looks at all usable pods, and closes and opens those that are emptied. `v0.43.0`
    looks at them for each vreplica."""
    closed = 0 if hosted.draining is None else max(0, hosted.replicas - hosted.draining)
    pods = len(hosted.state.usable) + 2 * closed
    return DECISIONS // 2 if hosted.settings.policy == "v0.43.0" else 1 + pods // PODS


def _remember(hosted: HostedSet, name: str, placement: Placement) -> None:
    """Note why the counts are not as even as they could be."""
    if placement.postponed:
        hosted.postponed[name] = None
    if placement.is_uneven:
        hosted.cramped[name] = None
    else:
        hosted.cramped.pop(name, None)


def _pass_on(hosted: HostedSet, name: str) -> None:
    """Let the others in line have the room that the first one cannot use, such as for its own limit on each pod."""
    if next(hosted.line(), "") == name and hosted.free():
        hosted.dirty.update(dict.fromkeys(islice(hosted.line(), 1, None)))


def _waits(tracked: Tracked, vpod: VPodState, placement: Placement) -> bool:
    """Whether vreplicas stay on two pods: that is not over, and nothing is to be added."""
    overlap = tracked.overlap
    if overlap is None or overlap.wanted != vpod.wanted or (tracked.read and tracked.read.problems):
        return False
    return all(number <= vpod.committed.get(ordinal, 0) for ordinal, number in placement.counts.items())


def _stay(hosted: HostedSet, vpod: VPodState, left: int) -> dict[int, int]:
    """Of vreplicas that find no room, return those on closed pods, where they can work until there is some."""
    stay: dict[int, int] = {}
    for ordinal in sorted(hosted.leaving & vpod.committed.keys()):
        number = min(left, vpod.committed[ordinal], hosted.state.most_for(vpod, ordinal))
        if number > 0:
            stay[ordinal] = number
            left -= number
    return stay


def _kept(hosted: HostedSet, vpod: VPodState, counts: Mapping[int, int]) -> dict[int, int]:
    """Of a move, what stays on the old pods for a while: as many vreplicas as are new on others.

    Not on pods that are lost, or hold too much.
    """
    if not hosted.settings.overlap_seconds:
        return {}
    state, committed = hosted.state, vpod.committed
    new = sum(max(0, number - committed.get(ordinal, 0)) for ordinal, number in counts.items())
    kept: dict[int, int] = {}
    for ordinal in sorted(committed):
        if new > 0 and hosted.lives(ordinal) and state.room(ordinal) >= 0:
            number = min(new, committed[ordinal] - counts.get(ordinal, 0))
            if number > 0:
                kept[ordinal] = number
                new -= number
    return kept


def _of_set(record: VPodRecord, message: str) -> str:
    """Return the message with the field that names the set, where the object has one."""
    return message if record.source.set else f"spec.set: {message}"
