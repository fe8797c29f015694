"""The state of the engine of vpods. Its parts share one `EngineState`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TypeAlias

import msgspec

from extender.core.deadlines import Deadlines
from extender.core.freshness import ShownVersions
from extender.core.scale import ScaleWorkload
from extender.vpods.events import VPodInstruction
from extender.vpods.notices import MOST_MESSAGE, Notice
from extender.vpods.records import HostNode, HostPod, ObjectKey, Reason, VPodKey, VPodRecord, Workload
from extender.vpods.sets import HostedSet
from extender.vpods.writes.placements import WritePlacements

#: How many vpods that are gone are remembered, so that no late event brings one back.
GONE = 1000
#: Seconds before the first repetition of what failed; twice as long each time, up to the last.
AGAIN, SELDOM = 1.0, 300.0

#: Vreplicas by ordinal.
Counts: TypeAlias = Mapping[int, int]


def backed_off(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(SELDOM, AGAIN * 2.0 ** min(failures - 1, 10))


class Hold(msgspec.Struct):
    """A write that is under way. `version`: of the vpod for which it was decided, then what the write returned."""

    write: WritePlacements
    #: The StatefulSet, and what is written by ordinal; None: what is committed stays.
    workload: str
    counts: Counts | None
    version: str
    moves: int
    is_written: bool = False


class ReadPlacements(msgspec.Struct, frozen=True):
    """Placements as a status has them, and what they mean for the pods of a StatefulSet."""

    workload: str
    placements: tuple[tuple[str, int], ...]
    counts: Counts
    problems: tuple[str, ...] = ()


class Overlap(msgspec.Struct):
    """Vreplicas of a vpod are on two pods: `until` then they stay on the old ones as well, if it wants `wanted`."""

    until: float
    wanted: int
    #: Moves for evenness among them, whose round is open until it ends.
    moves: int = 0


class Tracked(msgspec.Struct):
    """A vpod and its work in progress. `name`: its key as a text, its name in the state of its set."""

    record: VPodRecord
    name: str
    hold: Hold | None = None
    overlap: Overlap | None = None
    #: Where it is; None: it has not been in a set.
    read: ReadPlacements | None = None
    #: Writes that failed, one after the other.
    failures: int = 0
    #: Writes that succeeded, one after the other, and of which the status shows nothing.
    unkept: int = 0
    #: Why, and in full.
    reason: Reason = Reason.PLACED
    message: str = ""
    #: Of what people were told last.
    noticed: str = ""
    noticed_problems: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """The errors of its object, and of the placements in its status."""
        return (*self.record.problems, *self.read.problems) if self.read else self.record.problems


class EngineState:
    """The state. Times are seconds of the engine's clock; `epoch`: seconds since 1970 when it was 0."""

    def __init__(self, epoch: float) -> None:
        self.epoch = epoch
        self.now = 0.0
        self.term: int | None = None
        self.is_synced = False
        self.sets: dict[ObjectKey, HostedSet] = {}
        #: Sets that are not served, and why.
        self.refused: dict[ObjectKey, str] = {}
        self.vpods: dict[VPodKey, Tracked] = {}
        self.by_name: dict[str, Tracked] = {}
        self.shown: ShownVersions[VPodKey] = ShownVersions(gone=GONE, ignored=0)
        self.nodes: dict[str, HostNode] = {}
        self.pods: dict[ObjectKey, HostPod] = {}
        self.workloads: dict[ObjectKey, Workload] = {}
        #: The sets of each StatefulSet: the first one has it.
        self.by_workload: dict[ObjectKey, ObjectKey] = {}
        #: Sets whose replicas are to be looked at.
        self.touched: dict[ObjectKey, None] = {}
        #: VPods without a set, to decide about.
        self.lost: dict[VPodKey, None] = {}
        #: When a write is tried again, and when a vpod is read since no watch has shown it.
        self.retries: Deadlines[VPodKey] = Deadlines()
        self.reads: Deadlines[VPodKey] = Deadlines()
        #: When the replicas of a set are looked at, and when a vpod of it gives back a part.
        #: When the old places of a vpod are left.
        self.overlaps: Deadlines[VPodKey] = Deadlines()
        self.scales: Deadlines[ObjectKey] = Deadlines()
        self.partials: Deadlines[ObjectKey] = Deadlines()
        #: Writes of replicas that are under way.
        self.scaling: dict[ObjectKey, ScaleWorkload] = {}
        #: How often somebody else changed the replicas of a set.
        self.foreign_scales = 0
        self.out: list[VPodInstruction] = []
        self._token = 0

    def next_token(self) -> int:
        self._token += 1
        return self._token

    def set_of(self, record: VPodRecord) -> HostedSet | None:
        """The set that a vpod names, if it may use it."""
        hosted = self.sets.get(record.set)
        return hosted if hosted and hosted.settings.admits(record.key.namespace) else None

    # -- what is to be looked at

    def refresh(self, key: ObjectKey) -> None:
        """Derive anew which pods of a set can be used."""
        hosted = self.sets[key]
        ordinals = {*hosted.pods, *hosted.state.usable, *range(hosted.replicas)}
        changed = [hosted.refresh(ordinal, self.nodes, self.now) for ordinal in sorted(ordinals)]
        self.touched[key] = None
        if any(changed):
            self.dirty_all(key)

    def dirty_all(self, key: ObjectKey) -> None:
        """Look again at the replicas and all vpods of a set, those first that wait."""
        self.touched[key] = None
        hosted = self.sets[key]
        hosted.dirty.update(dict.fromkeys(hosted.waiting))
        hosted.dirty.update(dict.fromkeys(hosted.state.vpods))

    def room_made(self, key: ObjectKey) -> None:
        """Look again at the vpod that has lacked room for longest, and at those that lack room only to be even.

        Once the first one has all, the next one follows. Where vpods give back what is no whole, the first one may take
        nothing, so all are looked at.
        """
        hosted = self.sets[key]
        self.touched[key] = None
        if (hosted.waiting or hosted.cramped) and hosted.free():
            first = 1 if hosted.settings.partial_seconds is None else len(hosted.waiting)
            hosted.dirty.update(dict.fromkeys(islice(hosted.line(), first)))
            hosted.dirty.update(hosted.cramped)

    def look_for_room(self, key: ObjectKey) -> None:
        """Look whether some pod has come to hold less. Most writes add, and make no room for anybody."""
        self.touched[key] = None
        state = self.sets[key].state
        if state.freed:
            state.freed = False
            self.room_made(key)

    def has_work(self) -> bool:
        if self.term is None or not self.is_synced:
            return False
        return bool(self.lost or self.touched or any(hosted.dirty for hosted in self.sets.values()))

    # -- what people are told

    def notice_set(self, key: ObjectKey, reason: str, message: str, *, is_warning: bool = False) -> None:
        self._notice(Notice(about=key, reason=reason, message=message[:MOST_MESSAGE], is_warning=is_warning))

    def notice_vpod(self, record: VPodRecord, reason: str, message: str, *, is_warning: bool = False) -> None:
        self._notice(
            Notice(
                about=record.key, uid=record.uid, reason=reason, message=message[:MOST_MESSAGE], is_warning=is_warning
            )
        )

    def _notice(self, notice: Notice) -> None:
        """Add a notice, at the leader only: followers publish none."""
        if self.term is not None:
            self.out.append(notice)
