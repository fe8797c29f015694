"""VPods and the sets that they are in."""

from __future__ import annotations

from extender.core.outcomes import OutcomeKind
from extender.vpods.events import VPodGone
from extender.vpods.names import MOST, read_placements
from extender.vpods.records import Reason, VPodRecord
from extender.vpods.sets import HostedSet
from extender.vpods.state import EngineState, Overlap, ReadPlacements, Tracked
from extender.vpods.writes.read import VPodRead
from extender.vpods.writing import Writing

#: Reasons that a status may have.
_REASONS = frozenset(Reason)


class Members:
    """See the module."""

    def __init__(self, state: EngineState, writing: Writing) -> None:
        self._state = state
        self._writing = writing

    def seen(self, record: VPodRecord) -> None:
        state = self._state
        if state.shown.is_late(record.key, record.uid, record.version):
            return
        state.shown.show(record.key, record.uid, record.version)
        tracked = state.vpods.get(record.key)
        if tracked and tracked.record.uid != record.uid:
            self._forget(tracked)
            tracked = None
        asks_anew = tracked is None or _asks(tracked.record) != _asks(record)
        if tracked is None:
            tracked = Tracked(record, str(record.key), noticed=_said(record))
            state.vpods[record.key] = state.by_name[tracked.name] = tracked
        elif tracked.record == record:
            return
        elif tracked.record.set != record.set:
            self._leave(tracked)
        elif tracked.hold is None and tracked.record.wanted != record.wanted:
            state.retries.discard(record.key)  # what was refused was something else
        tracked.record = record
        if state.term is None and (said := _said(record)) in _REASONS:
            tracked.reason, tracked.message = Reason(said), ""  # what the leader says
        self.enter(tracked)
        if asks_anew and (hosted := state.set_of(record)):
            hosted.drains = None
        self._writing.confirm(tracked)

    def enter(self, tracked: Tracked) -> None:
        """Tell the set of a vpod what it wants and where it is."""
        state, record = self._state, tracked.record
        hosted = state.set_of(record)
        if hosted is None:
            state.lost[record.key] = None
            return
        state.lost.pop(record.key, None)
        tracked.read = _placements(tracked, hosted.settings.workload)
        counts = tracked.read.counts
        known = hosted.state.vpods.get(tracked.name)
        if known:
            hosted.count_pods_of(known, -1)
        wanted = record.wanted if 0 <= record.wanted <= MOST else sum(counts.values())
        if record.deleting:
            wanted = 0
        moved = known is None or known.committed != counts
        vpod = hosted.state.put(
            tracked.name,
            wanted,
            counts,
            spread=record.spread,
            max_per_pod=record.max_per_pod,
            deleting=record.deleting,
        )
        hosted.count_pods_of(vpod, 1)
        if moved or tracked.overlap:
            self._look_for_overlap(tracked, hosted, sum(counts.values()) - wanted, wanted, moved=moved)
        if hosted.trust(counts):
            state.refresh(record.set)
        hosted.dirty[tracked.name] = None
        state.touched[record.set] = None

    def hold_again(self, tracked: Tracked) -> None:
        """Keep the room of a write that is under way, in a set that was made anew."""
        hold, hosted = tracked.hold, self._state.set_of(tracked.record)
        if hold is None or hosted is None:
            return
        hosted.begin_moves(hold.moves)
        if hold.counts is not None and hold.workload == hosted.settings.workload:
            hosted.state.reserve(tracked.name, hold.counts)

    def _look_for_overlap(self, tracked: Tracked, hosted: HostedSet, surplus: int, wanted: int, *, moved: bool) -> None:
        """More than is wanted, and not because less is wanted than before: vreplicas are on their way."""
        state, seconds = self._state, hosted.settings.overlap_seconds
        if surplus <= 0 or not seconds or tracked.record.deleting:
            self.end_overlap(tracked)
        elif moved:
            moves = tracked.overlap.moves if tracked.overlap else 0
            tracked.overlap = Overlap(state.now + seconds, wanted, moves)
            state.overlaps.set(tracked.record.key, tracked.overlap.until)

    def end_overlap(self, tracked: Tracked) -> None:
        """The old places of a vpod may be left now."""
        overlap, tracked.overlap = tracked.overlap, None
        if overlap is None:
            return
        self._state.overlaps.discard(tracked.record.key)
        if hosted := self._state.set_of(tracked.record):
            hosted.end_moves(overlap.moves)
            hosted.dirty[tracked.name] = None

    def on_time(self) -> None:
        state = self._state
        for key in state.overlaps.due(state.now):
            self.end_overlap(state.vpods[key])
        for key in state.retries.due(state.now):
            state.retries.discard(key)
            tracked = state.vpods[key]
            if tracked.hold is None:
                self.enter(tracked)
            else:
                self._writing.repeat(tracked)

    def read(self, event: VPodRead) -> None:
        self._writing.reading.discard(event.key)
        if event.outcome.kind is OutcomeKind.GONE:
            self.gone(VPodGone(event.key, event.uid))
        elif event.outcome.kind is OutcomeKind.DONE:
            if event.vpod is not None:
                self.seen(event.vpod)
                if tracked := self._state.vpods.get(event.key):
                    self._writing.read_again(tracked)
            else:
                self.gone(VPodGone(event.key, event.uid, exists=True))

    def gone(self, event: VPodGone) -> None:
        state = self._state
        if not event.exists:
            state.shown.add_tombstone(event.uid)
        state.shown.drop(event.key, event.uid)
        tracked = state.vpods.get(event.key)
        if tracked and tracked.record.uid == event.uid:
            self._forget(tracked)

    def _forget(self, tracked: Tracked) -> None:
        self._leave(tracked)
        del self._state.vpods[tracked.record.key], self._state.by_name[tracked.name]

    def _leave(self, tracked: Tracked) -> None:
        """Take a vpod out of its set."""
        state, key = self._state, tracked.record.key
        self._writing.release(tracked)
        self.end_overlap(tracked)
        for timers in (state.retries, state.reads):
            timers.discard(key)
        state.lost.pop(key, None)
        hosted = state.sets.get(tracked.record.set)
        if hosted and (vpod := hosted.state.vpods.get(tracked.name)):
            hosted.count_pods_of(vpod, -1)
            hosted.remove(tracked.name)
            state.look_for_room(tracked.record.set)


def _placements(tracked: Tracked, workload: str) -> ReadPlacements:
    """Read where a vpod is, unless that is as before, or what this server wrote."""
    placements, read, hold = tracked.record.placements, tracked.read, tracked.hold
    if read and read.workload == workload and read.placements == placements:
        return read
    if hold and hold.counts is not None and hold.workload == workload and hold.write.placements == placements:
        return ReadPlacements(workload, placements, hold.counts)
    counts, problems = read_placements(placements, workload, tracked.record.source.placements.name)
    return ReadPlacements(workload, placements, counts, tuple(problems))


def _asks(record: VPodRecord) -> tuple[object, ...]:
    """What a vpod demands of a set."""
    return record.set, record.wanted, record.spread, record.max_per_pod, record.deleting


def _said(record: VPodRecord) -> str:
    """The reason that people know of a vpod that this server has not decided about."""
    if record.source.has_conditions:
        return record.reason
    return Reason.PLACED if sum(number for _, number in record.placements) == record.wanted else ""
