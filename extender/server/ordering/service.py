"""Builds the server of start-up ordering: engine, informers, committer, election.

    pods, Jobs, PodGroups ... (sources) --> OrderingRuntime <--> committer: gates, what is met, Events
                                               |    ^
                        the engine of pods <---+    +--- terms: the extender's election, or one of its own

The leader removes gates. The other replicas follow every change, so that they can take over at once. Everything that
the engine knows stands in the cluster, so a restart or a change of leader loses nothing.

A pod with a gate needs no extender: start-up ordering can run in a process of its own. Pods without a gate are held
back by filter, so for these it must run in the extender's process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from extender.core.commands import CommandSet
from extender.kube.client.api import ApiServer
from extender.kube.client.bounds import MIB
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.reflector import Reflector, Timing
from extender.kube.lease.elector import no_fence
from extender.kube.writes.committer import Committer
from extender.ordering.engine import OrderingEngine
from extender.ordering.events import (
    Configured,
    Forget,
    HoldBack,
    LetGo,
    OrderingEvent,
    OrderingInstruction,
    Synced,
    TellPod,
    TermBegun,
    TermEnded,
)
from extender.ordering.records import POD
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.ordering.writes.kinds import KINDS
from extender.server.engine_metrics import informer_metrics, write_metrics
from extender.server.informers import Informers
from extender.server.leadership import Leadership
from extender.server.ordering.gates import GateTimes
from extender.server.ordering.metrics import engine_metrics
from extender.server.ordering.pods import PodTeller, ToldPods, events
from extender.server.ordering.resources import target_kind
from extender.server.ordering.runtime import OrderingRuntime
from extender.server.ordering.sources import Sources
from extender.server.ordering.views import OrderingViews
from extender.server.terms import EngineTerms
from extender.server.views import Metric, Readiness
from extender.settings import Settings

#: Seconds for writes in flight to finish when the server stops.
_LAST_WRITES = 5.0


class OrderingService:
    """One server of start-up ordering without its HTTP layer.

    `pods` handles what the engine of pods is told; None: kube-scheduler's verbs are not served in this process.
    `leadership`: the extender's election; None: an election of its own, if the settings have one. `timing` has the
    informers' time-outs, their defaults if not given.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiServer,
        *,
        pods: Callable[[ToldPods], None] | None = None,
        leadership: Leadership | None = None,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings.ordering
        self._own_leadership = self._elect(settings, api) if leadership is None else None
        leads = leadership or self._own_leadership
        self.terms = EngineTerms(api, leads.remaining, engine="ordering") if leads is not None else None
        if leads is not None and self.terms is not None:
            leads.add(self.terms)
        self.leadership = leads
        fence = leads.remaining if leads is not None else no_fence
        commands: CommandSet[OrderingEvent] = CommandSet(KINDS, (events(),))
        self._committer: Committer[OrderingEvent] = Committer(
            api, commands, report=self._report, most=settings.ordering.concurrent_writes, fence=fence
        )
        self.gates = GateTimes(clock)
        self._teller = PodTeller(pods, self._committer.submit)
        self.runtime = OrderingRuntime(
            OrderingEngine(),
            self._carry_out,
            clock=clock,
            fence=fence,
            hang=settings.server.hang_seconds,
            slow=settings.server.slow_seconds,
        )
        self._watch_reader = LoopReader()
        self.informers = Informers(
            api,
            most=settings.ordering.cache_mib * MIB,
            went_back=self._went_back,
            timing=timing,
            in_loop=self._watch_reader,
        )
        self.sources = Sources(
            api,
            settings.ordering.kinds,
            self.informers,
            self.runtime.handle,
            synced=self._synchronised,
            relist_seconds=settings.cluster.compare_seconds,
        )
        self.views = OrderingViews(self.runtime)
        self._is_stopped = False
        self.runtime.add_not_ready_reason(self.sources.missing)
        self.runtime.add_readiness_warning(self._readiness_warning)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads. Return before the first lists are complete."""
        self.runtime.start()
        kinds = frozenset({POD, *map(target_kind, self.settings.kinds)})
        self.runtime.handle(Configured(self.settings.grace_seconds, kinds))
        self.sources.start()
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
        self.sources.stop()
        self.informers.stop()
        self.runtime.stop()

    @staticmethod
    def _elect(settings: Settings, api: ApiServer) -> Leadership | None:
        """An election of its own, whose Lease has a name of its own."""
        election = settings.leader_election
        if not election.enabled:
            return None
        return Leadership(api, election.model_copy(update={"name": f"{election.name}-ordering"}))

    def _synchronised(self) -> None:
        self.runtime.handle(Synced())
        if self.terms is None:
            self.runtime.handle(TermBegun(0))
        else:
            self.terms.informers_ready()

    def _catching_up(self) -> tuple[Reflector[Any], ...]:
        """The informers that must be as new as the API server when a term begins."""
        return self.informers.synced

    # -- what goes in and out -------------------------------------------------------------------------------------

    def _carry_out(self, instruction: OrderingInstruction) -> None:
        if isinstance(instruction, HoldBack | LetGo):
            self._teller.judged(instruction)
        elif isinstance(instruction, Forget):
            self.gates.over(instruction.uid)
            self._teller.over(instruction)
        elif isinstance(instruction, TellPod):
            self._teller.tell(instruction)
        else:
            if isinstance(instruction, RemoveGate):
                self.gates.began(instruction)
            self._committer.submit(instruction)

    def _report(self, event: OrderingEvent) -> None:
        if isinstance(event, GateRemoved):
            self.gates.ended(event)
        self.runtime.handle(event)

    def _went_back(self, why: str) -> None:
        """Fail /livez, because the API server was restored from a backup: versions are no longer comparable."""
        self.runtime.give_up(f"the API server went back in time: {why}")

    # -- for probes and scrapes -----------------------------------------------------------------------------------

    def _readiness_warning(self) -> str:
        """Return why a ready replica decides nothing, and what is not heard of."""
        waits = self.leadership is not None and not self.runtime.places
        leader = self.leadership.why_not_leading() if self.leadership is not None and waits else ""
        return "; ".join(text for text in (leader, self.sources.warning()) if text)

    def liveness(self) -> Readiness:
        """Whether the process works; if not, it needs a restart."""
        return self.runtime.liveness()

    def readiness(self) -> Readiness:
        """Whether this replica knows all: it removes gates, or could if it led."""
        return self.runtime.readiness()

    informed = readiness

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        own = self._own_leadership.metrics() if self._own_leadership is not None else []
        return [
            *engine_metrics(self.runtime),
            *self.gates.metrics(),
            *write_metrics("ordering", self._committer, KINDS),
            *informer_metrics("ordering", self.informers, records="pods and of objects that make pods"),
            *own,
        ]
