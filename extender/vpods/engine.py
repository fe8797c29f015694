"""The engine of vpods: see the package for the diagrams and the promises.

After every event: the replicas of sets of which something changed are decided, then vpods of which something changed, a
bounded number of them. The others follow at once, after other events had their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender.core.deadlines import Deadlines, earliest
from extender.core.freshness import ShownVersions, older
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.timestamps import timestamp
from extender.vpods import autoscaler
from extender.vpods.events import (
    HostNodeGone,
    HostNodeSeen,
    HostPodGone,
    HostPodSeen,
    SetsConfigured,
    Synced,
    TermBegun,
    TermEnded,
    Ticked,
    VPodEvent,
    VPodGone,
    VPodInstruction,
    VPodSeen,
    WorkloadGone,
    WorkloadSeen,
)
from extender.vpods.names import MOST, read_placements, split, write_placements
from extender.vpods.records import HostNode, HostPod, ObjectKey, Reason, VPodKey, VPodRecord, Workload
from extender.vpods.sets import HostedSet
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements
from extender.vpods.writes.read import ReadVPod, VPodRead
from extender.vpods.writes.scale import ScaleSet, SetScaled

#: How many vpods are decided after one event.
DECISIONS = 64
#: Seconds after a write, or its failure, in which a watch should show the vpod. Then it is read.
PATIENCE = 5.0
#: Seconds before the first repetition of a write that was refused; twice as long each time, up to the last.
AGAIN, SELDOM = 1.0, 300.0


#: How many vpods that are gone are remembered, so that no late event brings one back.
GONE = 1000


class Hold(msgspec.Struct):
    """A write that is under way. `version`: of the vpod for which it was decided, then what the write returned."""

    write: WritePlacements
    version: str
    moves: int
    is_written: bool = False


class Tracked(msgspec.Struct):
    """A vpod and what is being done about it."""

    record: VPodRecord
    hold: Hold | None = None
    problems: tuple[str, ...] = ()
    failures: int = 0
    #: Why, and in full.
    reason: Reason = Reason.PLACED
    message: str = ""
    left: int = 0


class VPodEngine:
    """An `Engine` of `extender.core.engine`. `epoch`: seconds since 1970 when the engine's clock was 0."""

    def __init__(self, *, epoch: float = 0.0) -> None:
        self.sequence = 0
        self._epoch = epoch
        self.term: int | None = None
        self.sets: dict[ObjectKey, HostedSet] = {}
        self.vpods: dict[VPodKey, Tracked] = {}
        #: How often somebody else changed the replicas of a set.
        self.foreign_scales = 0
        self._shown: ShownVersions[VPodKey] = ShownVersions(gone=GONE, ignored=0)
        self._nodes: dict[str, HostNode] = {}
        self._pods: dict[ObjectKey, HostPod] = {}
        self._workloads: dict[ObjectKey, Workload] = {}
        #: The sets of each StatefulSet: the first one has it.
        self._by_workload: dict[ObjectKey, ObjectKey] = {}
        #: Sets whose replicas are to be looked at.
        self._touched: dict[ObjectKey, None] = {}
        #: VPods without a set, to decide about.
        self._lost: dict[VPodKey, None] = {}
        #: When something is done again for a vpod, and for a set.
        self._retries: Deadlines[VPodKey] = Deadlines()
        self._reads: Deadlines[VPodKey] = Deadlines()
        #: VPods that are being read.
        self._reading: set[VPodKey] = set()
        self._scales: Deadlines[ObjectKey] = Deadlines()
        #: When a vpod of a set gives back a part that does not become a whole.
        self._partials: Deadlines[ObjectKey] = Deadlines()
        #: Writes of replicas that are under way, and when those that failed may be tried again, by set.
        self._scaling: dict[ObjectKey, ScaleSet] = {}
        self._scale_after: dict[ObjectKey, float] = {}
        self._token = 0
        self._is_synced = False
        self._now = 0.0
        self._out: list[VPodInstruction] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            SetsConfigured: self._configured,
            WorkloadSeen: self._workload_seen,
            WorkloadGone: self._workload_gone,
            HostPodSeen: self._pod_seen,
            HostPodGone: self._pod_gone,
            HostNodeSeen: self._node_seen,
            HostNodeGone: self._node_gone,
            VPodSeen: lambda event: self._vpod_seen(event.vpod),
            VPodGone: self._vpod_gone,
            Synced: self._synced,
            TermBegun: self._term_begun,
            TermEnded: self._term_ended,
            PlacementsWritten: self._written,
            VPodRead: self._read,
            SetScaled: self._scaled,
            Ticked: lambda _: None,
        }

    # -- the engine protocol

    def handle(self, event: VPodEvent, now: float) -> list[VPodInstruction]:
        """Return the instructions that this event causes."""
        self.sequence += 1
        self._now = now
        self._out = []
        self._handlers[type(event)](event)
        self._on_time()
        if self.term is not None and self._is_synced:
            self._settle()
        return self._out

    def next_due(self) -> float | None:
        """When the next timer is due, seconds of the engine's clock; None if there is none."""
        if self._has_work():
            return self._now
        rests = (hosted.rests for hosted in self.sets.values())
        return earliest((self._retries, self._reads, self._scales, self._partials, *rests))

    @property
    def is_synced(self) -> bool:
        """Whether all informers have delivered their first lists."""
        return self._is_synced

    def missing(self) -> str:
        """Return why nothing is decided now; "" if it is."""
        if not self._is_synced:
            return "the vpods of the cluster are not known yet"
        return "another replica leads" if self.term is None else ""

    @property
    def nodes(self) -> Mapping[str, HostNode]:
        """All nodes that are known."""
        return self._nodes

    def ordered(self, key: ObjectKey) -> int | None:
        """How many replicas of a set were ordered and are not seen yet; None if none were."""
        order = self._scaling.get(key)
        return order.replicas if order else None

    def _has_work(self) -> bool:
        if self.term is None or not self._is_synced:
            return False
        return bool(self._lost or self._touched or any(hosted.dirty for hosted in self.sets.values()))

    # -- the cluster

    def _configured(self, event: SetsConfigured) -> None:
        self.sets, old = {}, self.sets
        self._by_workload = {}
        for settings in sorted(event.sets, key=lambda each: each.key):
            self.sets[settings.key] = HostedSet(settings)
            workload = ObjectKey(settings.key.namespace, settings.workload)
            if self._by_workload.setdefault(workload, settings.key) == settings.key:
                self._attach(settings.key, workload)
        for tracked in self.vpods.values():
            tracked.hold = None
            self._enter(tracked)
        for key in old.keys() - self.sets.keys():
            self._scaling.pop(key, None)
            self._scales.discard(key)
            self._scale_after.pop(key, None)

    def _attach(self, key: ObjectKey, workload: ObjectKey) -> None:
        """Tell a new set what is known of its StatefulSet and pods."""
        hosted = self.sets[key]
        hosted.workload = self._workloads.get(workload)
        hosted.state.replicas = hosted.replicas
        for pod in self._pods.values():
            found = split(pod.key.name)
            if found and ObjectKey(pod.key.namespace, found[0]) == workload:
                hosted.pods[found[1]] = pod
        self._refresh(key, hosted)

    def _workload_seen(self, event: WorkloadSeen) -> None:
        seen = event.workload
        known = self._workloads.get(seen.key)
        if known and older(seen.version, than=known.version):
            return
        self._workloads[seen.key] = seen
        if (key := self._by_workload.get(seen.key)) is None:
            return
        hosted = self.sets[key]
        ordered = self._scaling.get(key)
        if ordered and seen.version != ordered.version:
            # It has happened, or it never will: it names the version for which it was decided.
            del self._scaling[key]
            self._scale_after.pop(key, None)
        if known and known.replicas != seen.replicas:
            hosted.low_since = None
            if not ordered or seen.replicas != ordered.replicas:
                self.foreign_scales += 1
        hosted.workload = seen
        if hosted.draining is not None and seen.replicas <= hosted.draining:
            hosted.draining = None
        hosted.state.replicas = seen.replicas
        if known is None:
            self._dirty_all(key)
        for vpod in hosted.state.vpods.values():
            hosted.trust(vpod.committed)
        self._refresh(key, hosted)

    def _workload_gone(self, event: WorkloadGone) -> None:
        self._workloads.pop(event.key, None)
        if key := self._by_workload.get(event.key):
            hosted = self.sets[key]
            hosted.workload = None
            hosted.state.replicas = 0
            self._refresh(key, hosted)
            self._dirty_all(key)

    def _pod_seen(self, event: HostPodSeen) -> None:
        pod = event.pod
        known = self._pods.get(pod.key)
        if known and older(pod.version, than=known.version):
            return
        self._pods[pod.key] = pod
        self._pod_changed(pod.key, pod)

    def _pod_gone(self, event: HostPodGone) -> None:
        known = self._pods.get(event.key)
        if known and known.uid == event.uid:
            del self._pods[event.key]
            self._pod_changed(event.key, None)

    def _pod_changed(self, name: ObjectKey, pod: HostPod | None) -> None:
        found = split(name.name)
        if found is None or (key := self._by_workload.get(ObjectKey(name.namespace, found[0]))) is None:
            return
        hosted = self.sets[key]
        if pod is None:
            hosted.pods.pop(found[1], None)
        else:
            hosted.pods[found[1]] = pod
        if hosted.refresh(found[1], self._nodes, self._now):
            self._pods_changed(key)

    def _node_seen(self, event: HostNodeSeen) -> None:
        if self._nodes.get(event.node.name) != event.node:
            self._nodes[event.node.name] = event.node
            self._node_changed(event.node.name)

    def _node_gone(self, event: HostNodeGone) -> None:
        if self._nodes.pop(event.name, None):
            self._node_changed(event.name)

    def _node_changed(self, name: str) -> None:
        for key, hosted in self.sets.items():
            on_it = [ordinal for ordinal, pod in hosted.pods.items() if pod.node == name]
            changed = [hosted.refresh(ordinal, self._nodes, self._now) for ordinal in on_it]
            if any(changed):
                self._pods_changed(key)

    def _refresh(self, key: ObjectKey, hosted: HostedSet) -> None:
        ordinals = {*hosted.pods, *hosted.state.usable, *range(hosted.replicas)}
        changed = [hosted.refresh(ordinal, self._nodes, self._now) for ordinal in sorted(ordinals)]
        self._touched[key] = None
        if any(changed):
            self._pods_changed(key)

    def _pods_changed(self, key: ObjectKey) -> None:
        self._touched[key] = None
        self._dirty_all(key)

    def _dirty_all(self, key: ObjectKey) -> None:
        hosted = self.sets[key]
        hosted.dirty.update(dict.fromkeys(hosted.waiting))
        hosted.dirty.update(dict.fromkeys(hosted.state.vpods))

    # -- vpods

    def _vpod_seen(self, record: VPodRecord) -> None:
        if self._shown.is_late(record.key, record.uid, record.version):
            return
        self._shown.show(record.key, record.uid, record.version)
        tracked = self.vpods.get(record.key)
        if tracked and tracked.record.uid != record.uid:
            self._leave(tracked)
            tracked = None
        if tracked is None:
            tracked = self.vpods[record.key] = Tracked(record)
        elif tracked.record == record:
            return
        elif tracked.record.set != record.set:
            self._leave(tracked)
        tracked.record = record
        self._enter(tracked)
        self._confirm(tracked)

    def _enter(self, tracked: Tracked) -> None:
        """Tell the set of a vpod what it wants and where it is."""
        record = tracked.record
        hosted = self._set_of(record)
        if hosted is None:
            self._lost[record.key] = None
            return
        self._lost.pop(record.key, None)
        counts, problems = read_placements(record.placements, hosted.settings.workload)
        tracked.problems = tuple(problems)
        name = str(record.key)
        known = hosted.state.vpods.get(name)
        if known:
            hosted.spreads[min(known.spread, known.wanted)] -= 1
        wanted = record.wanted if 0 <= record.wanted <= MOST else sum(counts.values())
        if record.deleting:
            wanted = 0
        vpod = hosted.state.put(name, wanted, counts, spread=record.spread, deleting=record.deleting)
        hosted.spreads[min(vpod.spread, vpod.wanted)] += 1
        if not known and not hosted.state.seeded:
            hosted.state.reserve(name, counts)
        if hosted.trust(counts):
            self._refresh(record.set, hosted)
        hosted.dirty[name] = None
        self._touched[record.set] = None

    def _set_of(self, record: VPodRecord) -> HostedSet | None:
        hosted = self.sets.get(record.set)
        return hosted if hosted and hosted.settings.admits(record.key.namespace) else None

    def _vpod_gone(self, event: VPodGone) -> None:
        if not event.exists:
            self._shown.add_tombstone(event.uid)
        self._shown.drop(event.key, event.uid)
        tracked = self.vpods.get(event.key)
        if tracked and tracked.record.uid == event.uid:
            self._leave(tracked)
            del self.vpods[event.key]

    def _leave(self, tracked: Tracked) -> None:
        """Take a vpod out of its set."""
        key = tracked.record.key
        self._release(tracked)
        self._retries.discard(key)
        self._reads.discard(key)
        self._lost.pop(key, None)
        hosted = self.sets.get(tracked.record.set)
        name = str(key)
        if hosted and (vpod := hosted.state.vpods.get(name)):
            hosted.spreads[min(vpod.spread, vpod.wanted)] -= 1
            hosted.state.remove(name)
            for each in (hosted.dirty, hosted.waiting, hosted.postponed, hosted.cramped):
                each.pop(name, None)
            self._room_made(tracked.record.set)

    def _room_made(self, key: ObjectKey) -> None:
        """Look again at the vpod that has lacked room for longest, and at those that lack room only to be even.

        Once the first one has all, the next one follows.
        """
        hosted = self.sets[key]
        self._touched[key] = None
        if hosted.free():
            hosted.dirty.update(dict.fromkeys([*hosted.waiting][:1]))
            hosted.dirty.update(hosted.cramped)

    # -- leadership

    def _synced(self, _: Synced) -> None:
        self._is_synced = True
        for key, hosted in self.sets.items():
            self._refresh(key, hosted)

    def _term_begun(self, event: TermBegun) -> None:
        self._drop_holds()
        self.term = event.term
        for key, hosted in self.sets.items():
            for vpod in hosted.state.vpods.values():
                if not hosted.state.seeded:
                    hosted.state.reserve(vpod.key, vpod.committed)
                hosted.trust(vpod.committed)
            self._refresh(key, hosted)
            self._dirty_all(key)
        self._lost.update(dict.fromkeys(key for key, each in self.vpods.items() if self._set_of(each.record) is None))

    def _term_ended(self, _: TermEnded) -> None:
        self._drop_holds()
        self.term = None

    def _drop_holds(self) -> None:
        """Forget what is under way. What stands in each status is true again."""
        for tracked in self.vpods.values():
            self._release(tracked)
        self._scaling.clear()
        for hosted in self.sets.values():
            hosted.draining = hosted.low_since = None

    # -- decisions

    def _settle(self) -> None:
        left = DECISIONS
        for key in list(self._touched):
            del self._touched[key]
            self._scale(key)
        for lost in list(self._lost)[:left]:
            del self._lost[lost]
            self._say_lost(self.vpods[lost])
        for key, hosted in self.sets.items():
            while hosted.dirty and left:
                name = next(iter(hosted.dirty))
                del hosted.dirty[name]
                left -= 1
                self._decide(key, hosted, self.vpods[_key(name)])

    def _say_lost(self, tracked: Tracked) -> None:
        """A vpod that has no set, or not this one, stays as it is, and its status says why."""
        record = tracked.record
        if record.set in self.sets:
            reason, message = (
                Reason.NOT_ALLOWED,
                f"spec.set: {record.set} does not admit namespace {record.key.namespace}",
            )
        else:
            reason, message = Reason.UNKNOWN_SET, f"spec.set: there is no VPodSet {record.set}"
        self._write(tracked, record.placements, reason, message)

    def _decide(self, key: ObjectKey, hosted: HostedSet, tracked: Tracked) -> None:
        record = tracked.record
        if tracked.hold or record.key in self._retries or record.deleting:
            return  # it is looked at again when the write has ended
        vpod = hosted.state.vpods[str(record.key)]
        if hosted.workload is None:
            message = (
                f"spec.set: the StatefulSet {key.namespace}/{hosted.settings.workload} of VPodSet {key} is not there"
            )
            self._write(tracked, record.placements, Reason.NO_STATEFUL_SET, message)
            return
        if not 0 <= record.wanted <= MOST:
            message = f"spec.vreplicas: expected a number from 0 to {MOST}, not {record.wanted}"
            self._write(tracked, record.placements, Reason.BAD_NUMBER, message)
            return
        placement = hosted.place(vpod)
        if placement.left and hosted.draining is not None and key not in self._scaling:
            self._stop_draining(key, hosted)
            placement = hosted.place(vpod)
        tracked.left = placement.left
        counts = dict(placement.counts)
        reason, message = Reason.PLACED, ""
        name = str(record.key)
        if placement.left:
            since = hosted.waiting.setdefault(name, self._now)
            reason = Reason.NOT_ENOUGH_ROOM
            message = f"{placement.left} of {vpod.wanted} vreplicas find no room on the pods of {key}"
            if self._gives_back(hosted, since):
                counts = {}
        elif hosted.waiting.pop(name, None) is not None:
            self._room_made(key)
        if placement.postponed:
            hosted.postponed[name] = None
        if placement.is_uneven:
            hosted.cramped[name] = None
        else:
            hosted.cramped.pop(name, None)
        if tracked.problems:
            message = "; ".join(filter(None, [message, *tracked.problems[:3]]))
        placements = record.placements
        moves = 0
        if counts != vpod.committed or tracked.problems:
            placements = write_placements(counts, hosted.settings.workload)
            moves = placement.moves
        hosted.state.reserve(name, None if counts == vpod.committed and hosted.state.seeded else counts)
        if self._write(tracked, placements, reason, message, moves):
            hosted.begin_moves(moves)

    def _gives_back(self, hosted: HostedSet, since: float) -> bool:
        seconds = hosted.settings.partial_seconds
        if seconds is None:
            return False
        if self._now >= since + seconds:
            return True
        self._partials.set(
            hosted.settings.key, min(since + seconds, self._partials.get(hosted.settings.key) or since + seconds)
        )
        self._scales.set(hosted.settings.key, since + seconds)
        return False

    def _write(
        self, tracked: Tracked, placements: tuple[tuple[str, int], ...], reason: Reason, message: str, moves: int = 0
    ) -> bool:
        """Write the status of a vpod, unless it says this already. Return whether it is written."""
        record = tracked.record
        tracked.reason, tracked.message = reason, message
        if tracked.hold or (placements == record.placements and self._says_it(record, reason)):
            return False
        assert self.term is not None
        self._token += 1
        scheduled = "True" if reason in (Reason.PLACED, Reason.MOVING) else "False"
        write = WritePlacements(
            token=self._token,
            key=record.key,
            source=record.source,
            uid=record.uid,
            version=record.version,
            generation=record.generation,
            placements=placements,
            reason=reason.value,
            message=message,
            scheduled=scheduled,
            since=record.since
            if record.since and scheduled == record.scheduled
            else timestamp(self._epoch + self._now),
            term=self.term,
        )
        tracked.hold = Hold(write, record.version, moves)
        self._out.append(write)
        return True

    @staticmethod
    def _says_it(record: VPodRecord, reason: Reason) -> bool:
        """Whether the status says this reason already, or has no place for one."""
        if not record.source.has_conditions:
            return True
        return reason.value == record.reason and record.observed in (0, record.generation)

    # -- reports

    def _confirm(self, tracked: Tracked) -> None:
        """End the write of a vpod if what was just seen shows that it happened, or that it never will.

        A write names the version for which it was decided, so it can no longer happen once another version is seen.
        """
        hold, record = tracked.hold, tracked.record
        if hold is None:
            return
        if not older(record.version, than=hold.version) if hold.is_written else record.version != hold.version:
            self._release(tracked)

    def _release(self, tracked: Tracked) -> None:
        """End a write: where the vpod is stands in its status."""
        hold, tracked.hold = tracked.hold, None
        if hold is None:
            return
        key = tracked.record.key
        self._reads.discard(key)
        self._retries.discard(key)
        hosted = self._set_of(tracked.record)
        if hosted is None:
            self._lost[key] = None
            return
        name = str(key)
        hosted.end_moves(hold.moves)
        if name in hosted.state.vpods:
            if hosted.state.seeded:
                hosted.state.reserve(name, None)
            hosted.dirty[name] = None
        self._room_made(tracked.record.set)

    def _written(self, event: PlacementsWritten) -> None:
        tracked = self.vpods.get(event.key)
        if tracked is None or tracked.hold is None or tracked.hold.write.token != event.token:
            return
        outcome = event.outcome
        if outcome.kind is OutcomeKind.DONE:
            tracked.failures = 0
            tracked.hold.is_written = True
            tracked.hold.version = outcome.resource_version
            self._reads.set(event.key, self._now + PATIENCE)
            self._confirm(tracked)
            return
        self._failed(tracked, outcome)

    def _failed(self, tracked: Tracked, outcome: Outcome) -> None:
        key = tracked.record.key
        tracked.failures += 1
        wait = outcome.retry_after or min(SELDOM, AGAIN * 2 ** min(tracked.failures - 1, 10))
        if outcome.kind is OutcomeKind.UNKNOWN:
            # It may have happened, or may still happen. The same write again can do no harm: one of the two is LOST.
            self._retries.set(key, self._now + wait)
        elif outcome.kind in (OutcomeKind.THROTTLED, OutcomeKind.REJECTED):
            self._release(tracked)
            self._retries.set(key, self._now + wait)
        else:  # another write was first, or the same one before: a watch shows it soon, or else it is read
            self._reads.set(key, self._now + PATIENCE)

    def _read(self, event: VPodRead) -> None:
        self._reading.discard(event.key)
        if event.outcome.kind is OutcomeKind.GONE:
            self._vpod_gone(VPodGone(event.key, event.uid))
        elif event.outcome.kind is OutcomeKind.DONE:
            if event.vpod is not None:
                self._vpod_seen(event.vpod)
            else:
                self._vpod_gone(VPodGone(event.key, event.uid, exists=True))

    def _read_request(self, record: VPodRecord) -> ReadVPod:
        self._token += 1
        return ReadVPod(token=self._token, key=record.key, source=record.source, uid=record.uid)

    # -- replicas

    def _scale(self, key: ObjectKey) -> None:
        hosted = self.sets[key]
        settings = hosted.settings
        if hosted.workload is None or not settings.scales or self._now < self._scale_after.get(key, 0.0):
            return
        if order := self._scaling.get(key):
            if self._scale_after.pop(key, None) is not None:
                self._out.append(order)  # its outcome is unknown: the same again can do no harm
            return
        spreads = (spread for spread, number in hosted.spreads.items() if number)
        needed = autoscaler.needed(settings, hosted.state.total_wanted, spreads, hosted.out)
        target = autoscaler.target(settings, hosted.replicas, needed)
        if target >= hosted.replicas:
            hosted.low_since = None
            if hosted.draining is not None:
                self._reopen(key, hosted, None)
            if target > hosted.replicas:
                self._order(key, hosted, target)
            return
        if hosted.low_since is None:
            hosted.low_since = self._now
        if self._now < hosted.low_since + settings.scale_down_seconds:
            self._scales.set(key, hosted.low_since + settings.scale_down_seconds)
            return
        if hosted.draining is None or hosted.draining < target:
            self._reopen(key, hosted, target)
        if hosted.draining is not None and hosted.is_empty_from(hosted.draining):
            self._order(key, hosted, hosted.draining)

    def _reopen(self, key: ObjectKey, hosted: HostedSet, draining: int | None) -> None:
        """Drain to this number of replicas, or to none: some pods are closed, others open again."""
        hosted.draining = draining
        for ordinal in range(hosted.replicas):
            hosted.refresh(ordinal, self._nodes, self._now)
        self._dirty_all(key)

    def _stop_draining(self, key: ObjectKey, hosted: HostedSet) -> None:
        """What is on the last pods fits nowhere else: they stay, for as long as it takes until the next try."""
        hosted.low_since = self._now
        self._reopen(key, hosted, None)

    def _order(self, key: ObjectKey, hosted: HostedSet, replicas: int) -> None:
        assert self.term is not None
        assert hosted.workload is not None
        self._token += 1
        order = ScaleSet(
            token=self._token,
            key=hosted.workload.key,
            replicas=replicas,
            version=hosted.workload.version,
            term=self.term,
        )
        self._scaling[key] = order
        self._out.append(order)

    def _scaled(self, event: SetScaled) -> None:
        found = next((key for key, order in self._scaling.items() if order.token == event.token), None)
        if found is None or event.outcome.kind is OutcomeKind.DONE:
            return
        if event.outcome.kind is not OutcomeKind.UNKNOWN:
            del self._scaling[found]
        self._scale_after[found] = again = self._now + max(AGAIN, event.outcome.retry_after)
        self._scales.set(found, again)

    # -- time

    def _on_time(self) -> None:
        for vpod in self._retries.due(self._now):
            self._retries.discard(vpod)
            tracked = self.vpods[vpod]
            if tracked.hold is None:
                self._enter(tracked)
            elif self.term is not None:
                self._out.append(tracked.hold.write)
        for vpod in self._reads.due(self._now):
            if self.vpods[vpod].hold is None:
                self._reads.discard(vpod)
                continue
            self._reads.set(vpod, self._now + PATIENCE)
            if vpod not in self._reading:
                self._reading.add(vpod)
                self._out.append(self._read_request(self.vpods[vpod].record))
        for key in self._scales.due(self._now):
            self._scales.discard(key)
            if key in self.sets:
                self._touched[key] = None
        for key in self._partials.due(self._now):
            self._partials.discard(key)
            if key in self.sets:
                self.sets[key].dirty.update(dict.fromkeys(self.sets[key].waiting))
        for key, hosted in self.sets.items():
            for ordinal in hosted.rests.due(self._now):
                changed = hosted.refresh(ordinal, self._nodes, self._now)
                hosted.rests.discard(ordinal)
                if changed:
                    self._pods_changed(key)

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError that names the violation."""
        for key, hosted in self.sets.items():
            hosted.state.validate()
            holds = [each.hold for each in self.vpods.values() if each.record.set == key and each.hold]
            assert hosted.moves_open == sum(hold.moves for hold in holds), f"{key}: {hosted.moves_open} moves"


def _key(name: str) -> VPodKey:
    source, _colon, rest = name.rpartition(":")
    namespace, _, rest = rest.partition("/")
    return VPodKey(namespace, rest, source)
