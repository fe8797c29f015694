"""The engine of vpods: see the package for the diagrams and the promises.

After every event the engine decides the replicas of the sets that changed, then a bounded number of the vpods that
changed. It decides the others right afterwards, once other events have had their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from algorithm.placements import registry
from extender.core.deadlines import earliest
from extender.core.scale import WorkloadScaled
from extender.vpods.cluster import Cluster, MakePolicy
from extender.vpods.deciding import Deciding
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
from extender.vpods.members import Members
from extender.vpods.records import HostNode, ObjectKey, VPodKey
from extender.vpods.scaling import Scaling
from extender.vpods.sets import HostedSet
from extender.vpods.state import EngineState, Tracked
from extender.vpods.writes.placements import PlacementsWritten
from extender.vpods.writes.read import VPodRead
from extender.vpods.writing import Writing


class VPodEngine:
    """An `Engine` of `extender.core.engine`.

    `epoch`: seconds since 1970 when the engine's clock was 0. `policies` makes a policy from its name and settings.
    """

    def __init__(self, *, epoch: float = 0.0, policies: MakePolicy = registry.create) -> None:
        self.sequence = 0
        self.state = EngineState(epoch)
        self._writing = Writing(self.state)
        self._members = Members(self.state, self._writing)
        self._scaling = Scaling(self.state)
        self._deciding = Deciding(self.state, self._writing, self._scaling)
        self._cluster = Cluster(self.state, self._members, policies)
        self._handlers: dict[type, Callable[[Any], None]] = {
            SetsConfigured: self._cluster.configured,
            WorkloadSeen: lambda event: self._scaling.workload_seen(event.workload),
            WorkloadGone: self._cluster.workload_gone,
            HostPodSeen: self._cluster.pod_seen,
            HostPodGone: self._cluster.pod_gone,
            HostNodeSeen: self._cluster.node_seen,
            HostNodeGone: self._cluster.node_gone,
            VPodSeen: lambda event: self._members.seen(event.vpod),
            VPodGone: self._members.gone,
            Synced: self._synced,
            TermBegun: self._term_begun,
            TermEnded: self._term_ended,
            PlacementsWritten: self._writing.written,
            VPodRead: self._members.read,
            WorkloadScaled: self._scaling.scaled,
            Ticked: lambda _: None,
        }

    @property
    def sets(self) -> dict[ObjectKey, HostedSet]:
        return self.state.sets

    @property
    def vpods(self) -> dict[VPodKey, Tracked]:
        return self.state.vpods

    @property
    def term(self) -> int | None:
        """The term in which this server decides; None: another one does."""
        return self.state.term

    # -- the engine protocol

    def handle(self, event: VPodEvent, now: float) -> list[VPodInstruction]:
        """Return the instructions that this event causes."""
        self.sequence += 1
        state = self.state
        state.now = now
        state.out = []
        self._handlers[type(event)](event)
        for part in (self._members, self._writing, self._scaling, self._deciding, self._cluster):
            part.on_time()
        if state.term is not None and state.is_synced:
            self._deciding.settle()
        return state.out

    def next_due(self) -> float | None:
        """When the next timer is due, seconds of the engine's clock; None if there is none."""
        state = self.state
        if state.has_work():
            return state.now
        rests = (hosted.rests for hosted in state.sets.values())
        return earliest((state.retries, state.reads, state.overlaps, state.scales, state.partials, *rests))

    @property
    def is_synced(self) -> bool:
        """Whether all informers have delivered their first lists."""
        return self.state.is_synced

    def missing(self) -> str:
        """Return why nothing is decided now; "" if it is."""
        if not self.state.is_synced:
            return "the vpods of the cluster are not known yet"
        return "another replica leads" if self.state.term is None else ""

    @property
    def nodes(self) -> Mapping[str, HostNode]:
        """All nodes that are known."""
        return self.state.nodes

    def ordered(self, key: ObjectKey) -> int | None:
        """How many replicas of a set were ordered and are not seen yet; None if none were."""
        order = self.state.scaling.get(key)
        return order.replicas if order else None

    # -- leadership

    def _synced(self, _: Synced) -> None:
        self.state.is_synced = True
        for key in self.state.sets:
            self.state.refresh(key)

    def _term_begun(self, event: TermBegun) -> None:
        state = self.state
        self._drop_holds()
        state.term = event.term
        for key, hosted in state.sets.items():
            for vpod in hosted.state.vpods.values():
                hosted.trust(vpod.committed)
            state.refresh(key)
            state.dirty_all(key)
        state.lost.update(dict.fromkeys(key for key, each in state.vpods.items() if state.set_of(each.record) is None))

    def _term_ended(self, _: TermEnded) -> None:
        self._drop_holds()
        self.state.term = None

    def _drop_holds(self) -> None:
        """Forget the writes under way: the placements in each status count again."""
        for tracked in self.state.vpods.values():
            self._writing.release(tracked)
        self.state.scaling.clear()
        for hosted in self.state.sets.values():
            hosted.draining = hosted.low_since = hosted.drains = None
            hosted.must_repeat = False

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError that names the violation."""
        for key, hosted in self.state.sets.items():
            hosted.state.validate()
            of_it = [each for each in self.vpods.values() if self.state.set_of(each.record) is hosted]
            moves = sum(each.hold.moves for each in of_it if each.hold)
            moves += sum(each.overlap.moves for each in of_it if each.overlap)
            assert hosted.moves_open == moves, f"{key}: {hosted.moves_open} moves instead of {moves}"
            assert hosted.state.vpods.keys() == {each.name for each in of_it}, f"{key} has other vpods"
