"""A copy of what the engine knows about one set, made under the engine's lock, and read without it.

All records of the engine are immutable, and are replaced, never changed. A copy therefore consists of references: its
cost grows with the vpods and pods of the set, not with their placements. Pages and plans are computed from the copy,
after the lock is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from algorithm.placements.model import Counts, VPodState
from extender.vpods.engine import VPodEngine
from extender.vpods.records import HostNode, HostPod, ObjectKey, Reason, SetSettings, VPodRecord, Workload
from extender.vpods.sets import Drains
from extender.vpods.state import Tracked


class VPodCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A vpod at one moment."""

    record: VPodRecord
    #: Its key, as a text.
    name: str
    #: Where its vreplicas are, as its status says, and where they are meant to be: by ordinal.
    committed: Counts = {}
    placed: Counts = {}
    #: Whether a write of its status is under way.
    is_writing: bool = False
    reason: Reason
    message: str = ""
    #: Since when it has lacked room, seconds of the engine's clock; None: it has all.
    waits_since: float | None = None
    #: Whether it is in the set. A vpod that the set does not admit is not.
    is_admitted: bool = True

    @property
    def wanted(self) -> int:
        return max(0, self.record.wanted)

    @property
    def scheduled(self) -> int:
        """How many of its vreplicas are placed, as its status says. One that is on two pods counts once."""
        placed = sum(self.committed.values())
        return placed if self.record.deleting else min(placed, self.wanted)

    @property
    def pending(self) -> int:
        """How many vreplicas have no pod."""
        return max(0, self.wanted - sum(self.placed.values())) if not self.record.deleting else 0


class SetCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A set at one moment. Times are seconds of the engine's clock; `now` is that moment."""

    key: ObjectKey
    now: float
    settings: SetSettings
    workload: Workload | None
    pods: Mapping[int, HostPod]
    #: All nodes that are known.
    nodes: Mapping[str, HostNode]
    #: Ordinals that may get vreplicas, and those of them that keep what they have and get no more.
    usable: tuple[int, ...]
    resting: frozenset[int]
    #: Ordinals that are no capacity: closed, or away for too long.
    out: frozenset[int]
    proven: frozenset[int]
    rests_until: Mapping[int, float]
    zones: Mapping[int, str]
    #: Vreplicas by ordinal. A vreplica that moves counts on both pods.
    held: Mapping[int, int]
    vpods: tuple[VPodCopy, ...]
    moves_open: int = 0
    draining: int | None = None
    low_since: float | None = None
    #: Drains that found no room, one after the other; those that began of late; when the set may grow again.
    drain_failures: int = 0
    drains: Drains | None = None
    grows_after: float = 0.0
    #: VPods that would be more even if some pod had room, in the order in which they are asked about again.
    cramped: tuple[str, ...] = ()
    #: The replicas that were ordered and are not seen yet.
    ordered: int | None = None
    #: Why nothing is decided at this server; "" if it decides.
    idle: str = ""

    @property
    def replicas(self) -> int:
        return self.workload.replicas if self.workload else 0

    def ordinals(self) -> list[int]:
        """Ordinals that are shown: of all replicas, of pods that are there, and of those that hold something."""
        return sorted({*range(self.replicas), *self.pods, *self.held})


def copy_set(engine: VPodEngine, key: ObjectKey, now: float) -> SetCopy | None:
    """Return the set at this moment; None if there is no such set. It takes O(vpods + pods + nodes), and changes
    nothing."""
    return next(iter(copy_sets(engine, (key,), now)), None)


def copy_sets(engine: VPodEngine, keys: Iterable[ObjectKey], now: float) -> list[SetCopy]:
    """Return those of these sets that are there, at this moment. All of them take one look at all vpods."""
    found: dict[ObjectKey, list[Tracked]] = {key: [] for key in keys if key in engine.sets}
    if found:
        for tracked in engine.vpods.values():
            if (vpods := found.get(tracked.record.set)) is not None:
                vpods.append(tracked)
    nodes = dict(engine.nodes)
    return [_copied(engine, key, vpods, nodes, now) for key, vpods in found.items()]


def _copied(
    engine: VPodEngine, key: ObjectKey, vpods: Iterable[Tracked], nodes: Mapping[str, HostNode], now: float
) -> SetCopy:
    hosted = engine.sets[key]
    state = hosted.state
    proven, rests_until = hosted.rested()
    known, waiting = state.vpods, hosted.waiting
    return SetCopy(
        key=key,
        now=now,
        settings=hosted.settings,
        workload=hosted.workload,
        pods=dict(hosted.pods),
        nodes=nodes,
        usable=tuple(state.usable),
        resting=frozenset(state.resting),
        out=frozenset(hosted.out),
        proven=proven,
        rests_until=rests_until,
        zones=dict(state.zones),
        held=dict(state.held),
        vpods=tuple(_vpod(each, known.get(each.name), waiting.get(each.name)) for each in vpods),
        moves_open=hosted.moves_open,
        draining=hosted.draining,
        low_since=hosted.low_since,
        drain_failures=hosted.drain_failures,
        drains=hosted.drains,
        grows_after=hosted.grows_after,
        cramped=tuple(hosted.cramped),
        ordered=engine.ordered(key),
        idle=engine.missing(),
    )


def _vpod(tracked: Tracked, state: VPodState | None, since: float | None) -> VPodCopy:
    return VPodCopy(
        record=tracked.record,
        name=tracked.name,
        committed=state.committed if state else {},
        placed=state.placed if state else {},
        is_writing=tracked.hold is not None,
        reason=tracked.reason,
        message=tracked.message,
        waits_since=since,
        is_admitted=state is not None,
    )
