"""Builds the server of vpods without its HTTP layer: engine, informers, committer, election.

    nodes (shared with the extender) ---+
    StatefulSets and their pods (hosts) +--> VPodRuntime <--> committer
    vpods of every kind (sources) ------+        ^
    sets: configuration, VPodSet objects         +--- terms: the extender's election, or one of its own

The leader decides. The other replicas follow every change, so that they can take over at once. The placements are in
the status of each vpod, so a restart or a change of leader moves nothing.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

from algorithm.model import Node
from algorithm.placements import registry
from algorithm.placements.policy import PolicyError
from extender.conversions.vpod_sets import configured_sets, sources
from extender.core.commands import CommandSet
from extender.kube.client.api import ApiServer
from extender.kube.client.bounds import MIB
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import nodes_read_by
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Timing
from extender.kube.lease.elector import no_fence
from extender.kube.writes.committer import Committer
from extender.server.engine_metrics import informer_metrics, write_metrics
from extender.server.informers import Informers
from extender.server.leadership import Leadership
from extender.server.terms import EngineTerms
from extender.server.views import Metric, Readiness
from extender.server.vpods import set_objects
from extender.server.vpods.metrics import engine_metrics
from extender.server.vpods.notices import NoticeBoard, events
from extender.server.vpods.readers import host_node
from extender.server.vpods.runtime import VPodRuntime
from extender.server.vpods.serving import ServedSets
from extender.server.vpods.set_objects import SetStatusWritten
from extender.server.vpods.sources import SourceInformers
from extender.settings import Settings
from extender.vpods.engine import VPodEngine
from extender.vpods.events import (
    HostNodeGone,
    HostNodeSeen,
    TermBegun,
    TermEnded,
    VPodEvent,
    VPodInstruction,
)
from extender.vpods.notices import Notice
from extender.vpods.records import HostNode, SetSettings
from extender.vpods.writes import kinds

#: Seconds for writes in flight to finish when the server stops.
_LAST_WRITES = 5.0
#: New objects after which the garbage collector looks at them, as for the engine of pods.
_COLLECT_AFTER = 5000
#: The kinds of writes and reads of the engine.
KINDS = (*kinds.KINDS, set_objects.KIND)
_Report = VPodEvent | SetStatusWritten


class VPodService:
    """One server of vpods without its HTTP layer.

    `nodes`: an informer of nodes to share, which has not been started yet; None: the service creates one.
    `leadership`: the election to take part in, which its owner starts and stops; None: an election of its own, or none
    if the settings want none.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiServer,
        *,
        nodes: Reflector[Node] | None = None,
        leadership: Leadership | None = None,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings.vpods
        self._own_leadership = self._elect(settings, api) if leadership is None else None
        leads = leadership or self._own_leadership
        self.terms = EngineTerms(api, leads.remaining, engine="vpods") if leads is not None else None
        if leads is not None and self.terms is not None:
            leads.add(self.terms)
        self.leadership = leads
        fence = leads.remaining if leads is not None else no_fence
        commands: CommandSet[_Report] = CommandSet(KINDS, (events(),))
        self._committer: Committer[_Report] = Committer(
            api, commands, report=self._report, most=settings.vpods.concurrent_writes, fence=fence
        )
        self.runtime = VPodRuntime(
            VPodEngine(epoch=time.time() - clock()),
            self._carry_out,
            clock=clock,
            fence=fence,
            hang=settings.server.hang_seconds,
            slow=settings.server.slow_seconds,
        )
        self._watch_reader = LoopReader()
        self.informers = Informers(
            api,
            most=settings.vpods.cache_mib * MIB,
            went_back=self._went_back,
            timing=timing,
            in_loop=self._watch_reader,
        )
        self._is_shared = nodes is not None
        # An informer that knows nothing yet is empty.
        self._nodes = nodes if nodes is not None else self._reflect_nodes(api, timing)
        self._nodes.add_handler(self._nodes_changed)
        self._known_nodes: dict[str, HostNode] = {}
        self.sources = SourceInformers(sources(settings.vpods), self.informers, self.runtime.handle)
        self.sets = ServedSets(
            self.runtime,
            self.informers,
            self.sources,
            self._nodes,
            configured_sets(settings.vpods),
            has_objects=settings.vpods.custom_resources,
            policy_fault=policy_fault,
            submit=self._committer.submit,
            ready=self._synchronised,
            relist_seconds=settings.cluster.compare_seconds,
            clock=clock,
        )
        self._notices = NoticeBoard(
            self._committer.submit,
            kind_of=lambda source: self.sources.kinds.get(source, ""),
            set_uid=self.sets.objects.uid,
            sources=self.sources.sources,
            look=self.runtime.look,
        )
        self._is_stopped = False
        self.runtime.add_not_ready_reason(self._not_ready_reason)
        self.runtime.add_readiness_warning(self._readiness_warning)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads. Return before the first lists are complete."""
        self.runtime.start()
        if not self._is_shared:
            self._nodes.start()
        self.sources.start()
        self.sets.start()
        if self.terms is not None:
            self.terms.start(
                lambda term: self.runtime.handle(TermBegun(term)),
                lambda _: self.runtime.handle(TermEnded()),
                self._catching_up,
            )
        if self._own_leadership is not None:
            self._own_leadership.compete()

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send writes and read watches in this event loop, which must be the running one, until `leave_loop`."""
        self._committer.enter_loop(loop)
        self._watch_reader.enter_loop(loop)

    def leave_loop(self) -> None:
        """Send writes and read watches in threads again. Idempotent."""
        self._watch_reader.leave_loop()
        self._committer.leave_loop()

    def close(self) -> None:
        """Do nothing: no call waits for anything when the server goes down."""

    def stop(self) -> None:
        """Decide nothing more, let writes in flight finish, and stop every thread. Idempotent; works without a start.

        Call it before the owner of the election releases the Lease.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        if self.terms is not None:
            self.terms.stop()
        else:
            self.runtime.handle(TermEnded())
        self._committer.stop(_LAST_WRITES)
        if self._own_leadership is not None:
            self._own_leadership.stop()
        self.sets.stop()
        self.informers.stop()
        if not self._is_shared:
            self._nodes.stop()
        self.runtime.stop()

    @staticmethod
    def _elect(settings: Settings, api: ApiServer) -> Leadership | None:
        """An election of its own. Its Lease has a name of its own, too: one replica may serve vpods, and another one
        kube-scheduler."""
        election = settings.leader_election
        if not election.enabled:
            return None
        return Leadership(api, election.model_copy(update={"name": f"{election.name}-vpods"}))

    def _synchronised(self) -> None:
        # What was just built lives as long as the process: the garbage collector need not scan it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        if self.terms is None:
            self.runtime.handle(TermBegun(0))
        else:
            self.terms.informers_ready()

    def _catching_up(self) -> tuple[Reflector[Any], ...]:
        """The informers that must be as new as the API server when a term begins.

        A namespace that Waggle may not read any more keeps no other one waiting: its pods are as old as they are.
        """
        failing = {id(each) for each in self.sets.hosts.all if each.failing}
        return (self._nodes, *(each for each in self.informers.synced if id(each) not in failing))

    # -- informers ------------------------------------------------------------------------------------------------

    def _reflect_nodes(self, api: ApiServer, timing: Timing | None) -> Reflector[Node]:
        return Reflector(
            api, nodes_read_by(PodReader()), timing=timing, went_back=self._went_back, in_loop=self._watch_reader
        )

    def _nodes_changed(self, changes: list[Change[Node]]) -> None:
        """Tell the engine only relevant changes: a node reports its state several times a minute."""
        events: list[VPodEvent] = []
        for change in changes:
            name = change.obj.name
            if change.kind is ChangeKind.GONE:
                self._known_nodes.pop(name, None)
                events.append(HostNodeGone(name))
            elif (node := host_node(change.obj)) != self._known_nodes.get(name):
                self._known_nodes[name] = node
                events.append(HostNodeSeen(node))
        if events:
            self.runtime.handle(*events)

    def _carry_out(self, instruction: VPodInstruction) -> None:
        if isinstance(instruction, Notice):
            self._notices.show(instruction, self.runtime.term or 0)
        else:
            self._committer.submit(instruction)

    def _report(self, event: _Report) -> None:
        if isinstance(event, SetStatusWritten):
            self.sets.written(event)
        else:
            self.runtime.handle(event)

    def _went_back(self, why: str) -> None:
        """Fail /livez, because the API server was restored from a backup: versions are no longer comparable."""
        self.runtime.give_up(f"the API server went back in time: {why}")

    # -- for probes and scrapes -----------------------------------------------------------------------------------

    def _not_ready_reason(self) -> str:
        return self.sets.missing()

    def _readiness_warning(self) -> str:
        """Return why a ready replica decides nothing, and which sets are not served."""
        waits = self.leadership is not None and not self.runtime.places
        leader = self.leadership.why_not_leading() if self.leadership is not None and waits else ""
        return "; ".join(text for text in (leader, self.sets.warning()) if text)

    def liveness(self) -> Readiness:
        """Whether the process works; if not, it needs a restart."""
        return self.runtime.liveness()

    def readiness(self) -> Readiness:
        """Whether this replica places vpods, or could if it led: any such replica answers callers."""
        return self.runtime.readiness()

    informed = readiness

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        own = self._own_leadership.metrics() if self._own_leadership is not None else []
        return [
            *engine_metrics(self.runtime),
            *self.sources.progress.metrics(),
            *write_metrics("vpods", self._committer, KINDS),
            *informer_metrics("vpods", self.informers, records="vpods and pods"),
            *own,
        ]


def policy_fault(settings: SetSettings) -> str:
    """Why the policy of a set cannot be used, with its field; "" if it can."""
    try:
        registry.create(settings.policy, settings.policy_settings)
    except PolicyError as error:
        return str(error)
    return ""
