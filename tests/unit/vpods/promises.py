"""What a write of placements must keep, whatever has led to it. Counted anew from records, not by the engine's sums."""

from __future__ import annotations

from typing import Any

from extender.vpods.engine import VPodEngine
from extender.vpods.names import read_placements
from extender.vpods.records import VPodRecord
from extender.vpods.writes.placements import WritePlacements


def check_write(engine: VPodEngine, write: WritePlacements) -> None:
    """Check a write at the moment at which the engine decides it."""
    record = engine.vpods[write.key].record
    hosted = engine.sets.get(record.set)
    names = [name for name, _ in write.placements]
    assert len(set(names)) == len(names), f"{write.key}: a pod is named twice: {names}"
    assert all(number > 0 for _, number in write.placements) or write.placements == record.placements
    if hosted is None or write.placements == record.placements:
        return
    settings = hosted.settings
    before, _ = read_placements(record.placements, settings.workload)
    after, wrong = read_placements(write.placements, settings.workload)
    assert not wrong
    most = record.max_per_pod
    total, new = sum(after.values()), sum(max(0, n - before.get(o, 0)) for o, n in after.items())
    assert write.scheduled == min(total, record.wanted)
    if not settings.overlap_seconds:
        assert total <= record.wanted, f"{write.key}: {total} placed of {record.wanted}"
        assert not most or max(after.values(), default=0) <= most, f"{write.key}: {after}, at most {most} on a pod"
        return
    assert total <= record.wanted + new, f"{write.key}: {total} placed of {record.wanted}, {new} of them new"
    check_overlap(hosted, record, before, after)


def check_overlap(hosted: Any, record: VPodRecord, before: dict[int, int], after: dict[int, int]) -> None:
    """No vreplica leaves a pod that works before another one has been somewhere else for a while."""
    if sum(after.values()) < record.wanted or any(hosted.state.room(ordinal) < 0 for ordinal in before):
        return  # some have to go
    works = sum(number for ordinal, number in before.items() if hosted.lives(ordinal))
    stays = sum(min(number, after.get(ordinal, 0)) for ordinal, number in before.items())
    assert stays >= min(works, record.wanted), f"{record.key}: {before} -> {after}: only {stays} of {works} stay"
