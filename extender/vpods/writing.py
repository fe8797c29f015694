"""Writes of placements: from the decision until a watch, or a read, shows the outcome."""

from __future__ import annotations

from extender.core.freshness import older
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.timestamps import timestamp
from extender.vpods.notices import NoticeReason
from extender.vpods.records import Reason, VPodKey, VPodRecord
from extender.vpods.state import Counts, EngineState, Hold, Tracked, backed_off
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements
from extender.vpods.writes.read import ReadVPod

#: Seconds after a write, or its failure, in which a watch should show the vpod. Then it is read.
PATIENCE = 5.0
#: The reasons of vpods that have all that they want.
FINE = (Reason.PLACED, Reason.MOVING)

Placements = tuple[tuple[str, int], ...]


class Writing:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        #: VPods that are being read.
        self.reading: set[VPodKey] = set()

    def write(
        self,
        tracked: Tracked,
        placements: Placements,
        reason: Reason,
        message: str,
        *,
        counts: Counts | None = None,
        moves: int = 0,
    ) -> bool:
        """Write the status of a vpod, unless it says this already. Return whether it is written.

        `counts`: the placements by ordinal of the pods of its set; None: they stay as they are.
        """
        record, state = tracked.record, self._state
        tracked.reason, tracked.message = reason, message
        if tracked.hold or (placements == record.placements and _says_it(record, reason)):
            self._tell(tracked)
            return False
        assert state.term is not None
        condition = "True" if reason in FINE else "False"
        is_new = not record.since or condition != record.condition
        write = WritePlacements(
            token=state.next_token(),
            key=record.key,
            source=record.source,
            uid=record.uid,
            version=record.version,
            generation=record.generation,
            placements=placements,
            scheduled=max(0, min(record.wanted, sum(number for _, number in placements))),
            reason=reason.value,
            message=message,
            condition=condition,
            since=timestamp(state.epoch + state.now) if is_new else record.since,
            term=state.term,
        )
        hosted = state.set_of(record)
        workload = hosted.settings.workload if hosted else ""
        tracked.hold = Hold(write, workload, counts, record.version, moves)
        if hosted:
            hosted.begin_moves(moves)
        state.out.append(write)
        return True

    def confirm(self, tracked: Tracked) -> None:
        """End the write of a vpod if what was just seen shows that it happened, or that it never will.

        A write names the version for which it was decided, so it can no longer happen once another version is seen.
        """
        hold, record = tracked.hold, tracked.record
        if hold is None:
            return
        if not hold.is_written:
            if record.version != hold.version:
                self.release(tracked)
        elif not older(record.version, than=hold.version):
            self.release(tracked)
            if record.version == hold.version or older(hold.version, than=record.version):
                self._see_kept(tracked, hold.write)

    def _see_kept(self, tracked: Tracked, write: WritePlacements) -> None:
        """Wait, longer and longer, if a status does not show what was written there: its schema lacks the field, so
        that the API server takes it away, or another controller writes the field, too."""
        record = tracked.record
        is_kept = record.placements == write.placements
        if record.source.has_conditions:
            is_kept = is_kept and record.reason == write.reason
        if is_kept:
            tracked.unkept = 0
            return
        tracked.unkept += 1
        self._state.retries.set(record.key, self._state.now + backed_off(tracked.unkept))
        if tracked.unkept == 1:
            message = f"{record.source.placements}: what was written there is not kept, or somebody else writes it"
            self._state.notice_vpod(record, NoticeReason.NOT_KEPT, message, is_warning=True)

    def release(self, tracked: Tracked) -> None:
        """End a write: where the vpod is stands in its status."""
        hold, tracked.hold = tracked.hold, None
        if hold is None:
            return
        state, record = self._state, tracked.record
        state.reads.discard(record.key)
        state.retries.discard(record.key)
        hosted = state.set_of(record)
        if hosted is None:
            state.lost[record.key] = None
            return
        if tracked.overlap:
            tracked.overlap.moves += hold.moves  # its round is open until the old places are left
        else:
            hosted.end_moves(hold.moves)
        if tracked.name in hosted.state.vpods:
            hosted.state.reserve(tracked.name, None)
            hosted.dirty[tracked.name] = None
        state.look_for_room(record.set)

    # -- reports

    def written(self, event: PlacementsWritten) -> None:
        tracked = self._state.vpods.get(event.key)
        if tracked is None or tracked.hold is None or tracked.hold.write.token != event.token:
            return
        outcome = event.outcome
        if outcome.kind is OutcomeKind.DONE:
            tracked.failures = 0
            tracked.hold.is_written = True
            tracked.hold.version = outcome.resource_version
            self._tell(tracked, is_written=True)
            self._state.reads.set(event.key, self._state.now + PATIENCE)
            self.confirm(tracked)
            return
        self._failed(tracked, outcome)

    def _failed(self, tracked: Tracked, outcome: Outcome) -> None:
        state, key = self._state, tracked.record.key
        tracked.failures += 1
        again = state.now + (outcome.retry_after or backed_off(tracked.failures))
        if outcome.kind is OutcomeKind.UNKNOWN:
            # It may have happened, or may still happen. The same write again can do no harm: one of the two is LOST.
            state.retries.set(key, again)
        elif outcome.kind in (OutcomeKind.THROTTLED, OutcomeKind.REJECTED):
            self.release(tracked)
            state.retries.set(key, again)
        else:  # another write was first, or the same one before: a watch shows it soon, or else it is read
            state.reads.set(key, state.now + PATIENCE)

    def read_again(self, tracked: Tracked) -> None:
        """A live read came. If it shows the version that a lost write names, nothing else was first: write it again.

        It stays the same write, since an earlier copy of it may still be on its way.
        """
        hold = tracked.hold
        if hold and not hold.is_written and tracked.record.version == hold.version:
            self._state.reads.discard(tracked.record.key)
            self._state.retries.set(tracked.record.key, self._state.now + backed_off(tracked.failures))

    # -- time

    def repeat(self, tracked: Tracked) -> None:
        """Send a write again."""
        if tracked.hold and self._state.term is not None:
            self._state.out.append(tracked.hold.write)

    def on_time(self) -> None:
        """Read the vpods whose writes no watch has shown."""
        state = self._state
        for key in state.reads.due(state.now):
            if state.vpods[key].hold is None:
                state.reads.discard(key)
                continue
            state.reads.set(key, state.now + PATIENCE)
            if key not in self.reading:
                self.reading.add(key)
                record = state.vpods[key].record
                state.out.append(ReadVPod(token=state.next_token(), key=key, source=record.source, uid=record.uid))

    # -- what people are told

    def _tell(self, tracked: Tracked, *, is_written: bool = False) -> None:
        """Tell a new reason, or new placements once they are written."""
        record, reason = tracked.record, tracked.reason
        placements = tracked.hold.write.placements if tracked.hold else record.placements
        if tracked.noticed == reason and not (is_written and placements != record.placements):
            return
        tracked.noticed = reason
        total = sum(number for _, number in placements)
        text = tracked.message or f"{total} vreplicas on {len(placements)} pods"
        self._state.notice_vpod(record, reason, text, is_warning=reason not in FINE)


def _says_it(record: VPodRecord, reason: Reason) -> bool:
    """Whether the status says this reason already, or has no place for one."""
    if not record.source.has_conditions:
        return True
    return reason.value == record.reason and record.observed in (0, record.generation)
