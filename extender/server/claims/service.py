"""Builds the server of claims without its HTTP layer: engine, informers, committer.

    pools of the configuration --> PodInformers --+
                       nodes (informer) ----------+--> ClaimRuntime <--> committer
    HTTP --> ClaimRuntime.ask --------------------+
    Pool and Claim objects (objects/) ------------+

Any number of replicas serve claims side by side. Nothing here is fenced by leadership terms: the API server's
compare-and-swap decides between replicas.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import structlog

from algorithm.model import Node
from extender.claims import podreader
from extender.claims.autoscaler import ScalePolicy
from extender.claims.engine import ClaimEngine
from extender.claims.events import ClaimEvent, NodeGone, NodeSeen, Synced
from extender.claims.records import Pool, PoolKey, WarmPod
from extender.claims.views import PoolSnapshot
from extender.claims.writes.kinds import kinds
from extender.conversions.pools import configured_policies, configured_pools, custom_policies
from extender.core.commands import CommandSet
from extender.kube.client.api import ApiServer
from extender.kube.client.bounds import MIB
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import nodes_read_by
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Timing
from extender.kube.writes.committer import Committer
from extender.resources import PoolSpec
from extender.server.claims import scaling
from extender.server.claims.members import Membership
from extender.server.claims.metrics import claim_metrics, write_metrics
from extender.server.claims.objects.service import CustomResources
from extender.server.claims.objects.writes import KINDS, ObjectWritten
from extender.server.claims.past import PoolPast
from extender.server.claims.pods import PodInformers
from extender.server.claims.pools import configured_workloads, custom_workloads, with_templates
from extender.server.claims.runtime import ClaimRuntime
from extender.server.claims.score_plugins import configured_score
from extender.server.claims.workloads import Workloads
from extender.server.leadership import own_namespace
from extender.server.views import Metric, Readiness
from extender.settings import Settings

log = structlog.get_logger(__name__)

_Report = ClaimEvent | ObjectWritten | scaling.Written
#: Seconds for writes in flight to finish when the server stops.
_LAST_WRITES = 5.0
#: Seconds between two looks whether all pods are given back, when the server stops.
_SETTLE_POLL = 0.01


class ClaimService:
    """One server of claims without its HTTP layer.

    `nodes`: an informer of nodes to share, which has not been started yet; None: the service creates one. `leads`:
    whether this replica scales workloads, which one replica does; None: the first by name of those that share pools.

    Raises SettingsError if the score plug-in of the settings cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiServer,
        *,
        nodes: Reflector[Node] | None = None,
        timing: Timing | None = None,
        leads: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings.claims
        commands: CommandSet[_Report] = CommandSet([*kinds(podreader.decode), *KINDS, *scaling.KINDS])
        self._committer: Committer[_Report] = Committer(
            api, commands, report=self._report, most=settings.claims.concurrent_writes
        )
        engine = ClaimEngine(
            epoch=time.time() - clock(), score=configured_score(settings.claims), shares=settings.claims.share_pools
        )
        hang, slow = settings.server.hang_seconds, settings.server.slow_seconds
        self.runtime = ClaimRuntime(engine, self._committer.submit, clock=clock, hang=hang, slow=slow)
        self._watch_reader = LoopReader()
        self.pods = PodInformers(
            api,
            self.runtime.handle,
            most=settings.claims.cache_mib * MIB,
            went_back=self._went_back,
            timing=timing,
            in_loop=self._watch_reader,
            observe=self._pods_changed,
            on_synced=self._namespace_synced,
        )
        self._configured = configured_pools(settings.claims)
        self._pools = {pool.key: pool for pool in self._configured}
        self.objects = self._make_objects(api, timing, clock) if settings.claims.custom_resources else None
        self.members = self._make_members(settings, api) if settings.claims.share_pools else None
        self._own_nodes = None if nodes is not None else self._reflect_nodes(api, timing)
        self._nodes = nodes if nodes is not None else self._own_nodes  # an informer that knows nothing yet is empty
        assert self._nodes is not None
        self._nodes.add_handler(self._nodes_changed)
        self._compare_seconds = settings.cluster.compare_seconds
        self._configuring = threading.Lock()
        self.workloads = Workloads(api, self._workloads_changed, timing=timing, in_loop=self._watch_reader)
        self.autoscaler = scaling.Autoscaler(
            self.runtime,
            self.workloads,
            self.scale_policies,
            leads or self._comes_first,
            submit=self._committer.submit,
        )
        #: The last minutes, for the page.
        self.past = PoolPast(self.snapshots)
        self._stopped = threading.Event()
        self._starter = threading.Thread(target=self._synchronise, name="waggle-claims-start", daemon=True)
        self.runtime.add_not_ready_reason(self._not_ready_reason)

    def start(self) -> None:
        """Start all threads. Return before the first lists are complete."""
        self.runtime.start()
        if self._own_nodes is not None:
            self._own_nodes.start()
        if self.members is not None:
            self.members.start()
        self._starter.start()
        self.past.start()

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send writes and read watches in this event loop, which must be the running one, until `leave_loop`."""
        self._committer.enter_loop(loop)
        self._watch_reader.enter_loop(loop)

    def leave_loop(self) -> None:
        """Send writes and read watches in threads again. Idempotent."""
        self._watch_reader.leave_loop()
        self._committer.leave_loop()

    def close(self) -> None:
        """Answer every waiting call, and refuse new ones. Idempotent."""
        self.runtime.close()

    def stop(self) -> None:
        """Let writes in flight finish, and stop every thread. Idempotent; also works without a start."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.runtime.close()
        self._settle()
        self.past.stop()
        if self.members is not None:
            self.members.stop()
        if self.objects is not None:
            self.objects.stop()
        self.autoscaler.stop()
        self._committer.stop(_LAST_WRITES)
        self.workloads.stop()
        self.pods.stop()
        if self._own_nodes is not None:
            self._own_nodes.stop()
        self.runtime.stop()

    def _settle(self) -> None:
        """Wait until the pods of the requests that `close` has refused are given back, while the writes still go out.

        A write that was in flight then has claimed a pod for a request that failed. No other server knows that, so the
        pod would stay claimed until its lease expires.
        """
        end = time.monotonic() + _LAST_WRITES
        while not self.runtime.loop.broken and time.monotonic() < end:
            if self.runtime.look(lambda engine, _: engine.is_settled):
                return
            time.sleep(_SETTLE_POLL)

    def _make_members(self, settings: Settings, api: ApiServer) -> Membership:
        return Membership(
            api,
            namespace=settings.leader_election.namespace or own_namespace(),
            group=settings.leader_election.name,
            me=f"{settings.leader_election.name}-claims-{secrets.token_hex(6)}",
            tell=self.runtime.handle,
        )

    def _make_objects(self, api: ApiServer, timing: Timing | None, clock: Callable[[], float]) -> CustomResources:
        return CustomResources(
            api,
            self.runtime,
            self.settings,
            self.pods,
            self._configured,
            submit=self._committer.submit,
            serve=self._serve,
            went_back=self._went_back,
            clock=clock,
            timing=timing,
            in_loop=self._watch_reader,
        )

    # -- pools ----------------------------------------------------------------------------------------------------

    def pools(self) -> tuple[Pool, ...]:
        """Return all pools, including those that are not served yet."""
        return tuple(self._pools.values())

    def find(self, key: PoolKey) -> Pool | None:
        """The pool of this name, also if it is not served yet; None if there is none."""
        return self._pools.get(key)

    def _serve(self, pools: tuple[Pool, ...]) -> None:
        """Replace all pools."""
        self._pools = {pool.key: pool for pool in pools}
        self.workloads.configure(configured_workloads(self.settings) | custom_workloads(self._specs()))
        self._configure()
        self.autoscaler.start()

    def _specs(self) -> Mapping[PoolKey, PoolSpec]:
        return self.objects.pools.specs if self.objects is not None else {}

    def snapshots(self) -> Iterator[PoolSnapshot]:
        """Yield a snapshot of every served pool. They are not taken at the same moment."""
        for pool in self.pools():
            found = self.runtime.look(lambda engine, now, key=pool.key: engine.snapshot(key, now))  # type: ignore[misc]
            if found is not None:
                yield found

    def is_coming(self, pool: PoolKey) -> bool:
        """Whether the pool may be served later: its pods, or the Pool objects, have not been listed yet."""
        if self.objects is not None and not self.objects.are_pools_known:
            return all(each.key != pool for each in self._configured) or self.pods.is_coming(pool.namespace)
        if pool not in self._pools:
            return self.objects is not None and self.objects.is_new(pool)
        return self.pods.is_coming(pool.namespace)

    def scale_policies(self) -> dict[PoolKey, ScalePolicy]:
        """Return the scaling policies of the pools whose workloads are scaled."""
        return configured_policies(self.settings) | custom_policies(self._specs())

    def _comes_first(self) -> bool:
        return self.members is None or self.members.members[:1] == (self.members.me,)

    def _workloads_changed(self) -> None:
        self._configure()
        self.autoscaler.wake()

    def _configure(self) -> None:
        """Update the engine's pools after a change of the pools or of their workloads' templates."""
        with self._configuring:  # the last call must have the newest state
            self.pods.configure(with_templates(self.pools(), self.workloads))

    # -- informers ------------------------------------------------------------------------------------------------

    def _reflect_nodes(self, api: ApiServer, timing: Timing | None) -> Reflector[Node]:
        return Reflector(
            api, nodes_read_by(PodReader()), timing=timing, went_back=self._went_back, in_loop=self._watch_reader
        )

    def _synchronise(self) -> None:
        """List nodes first, then pods: a pod can be claimed only if its node is known."""
        assert self._nodes is not None
        while not self._nodes.wait_synced(0.1):
            if self._stopped.is_set():
                return
        self.workloads.configure(configured_workloads(settings=self.settings))
        self.pods.start()
        self._configure()
        self.autoscaler.start()
        self.runtime.handle(Synced())  # each pool is served as soon as its pods are known
        if self.objects is not None:
            self.objects.start()
        # A namespace that Waggle may not read keeps no other one waiting.
        while self.pods.missing() and not self.pods.is_tried():
            if self._stopped.wait(0.02):
                return
        log.info("claims ready", pools=len(self._pools), pods=sum(len(each) for each in self.pods.informers))
        while self._compare_seconds and not self._stopped.wait(self._compare_seconds):
            self.pods.relist()  # in case a watch has lost an event

    def _nodes_changed(self, changes: list[Change[Node]]) -> None:
        events: list[ClaimEvent] = []
        for change in changes:
            node = change.obj
            if change.kind is ChangeKind.GONE:
                events.append(NodeGone(node.name))
            else:
                events.append(NodeSeen(node.name, serves=node.takes_pods))
        self.runtime.handle(*events)

    def _pods_changed(self, changes: list[Change[WarmPod]]) -> None:
        if self.objects is not None:
            self.objects.pods_changed(changes)

    def _namespace_synced(self) -> None:
        if self.objects is not None:
            self.objects.namespace_known()

    def _report(self, event: _Report) -> None:
        if isinstance(event, scaling.Written):
            self.autoscaler.written(event)
        elif not isinstance(event, ObjectWritten):
            self.runtime.handle(event)
        elif self.objects is not None:
            self.objects.written(event)

    def _went_back(self, why: str) -> None:
        """Fail /livez, because the API server was restored from a backup: versions are no longer comparable."""
        self.runtime.give_up(f"the API server went back in time: {why}")

    # -- for probes and scrapes -----------------------------------------------------------------------------------

    def _not_ready_reason(self) -> str:
        assert self._nodes is not None
        return "" if self._nodes.synced.is_set() else f"nodes: {self._nodes.last_error or 'being listed'}"

    def liveness(self) -> Readiness:
        """Whether the process works; if not, it needs a restart."""
        return self.runtime.liveness()

    def readiness(self) -> Readiness:
        """Whether claims of all pools are served, except in namespaces that the API server refuses to list."""
        found = self.runtime.readiness()
        missing = self.pods.missing() if found.ready else ""
        if missing or not found.ready or self.objects is None:
            return Readiness(self.pods.is_tried(), missing) if missing else found
        missing = self.objects.missing()
        return Readiness(self.objects.is_tried(), missing) if missing else found

    informed = readiness

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        objects = self.objects.metrics() if self.objects is not None else []
        return [
            *claim_metrics(self.runtime),
            *write_metrics(self._committer),
            *self.autoscaler.metrics(),
            *self._informer_metrics(),
            *objects,
        ]

    def _informer_metrics(self) -> list[Metric]:
        informers: list[Any] = [*self.pods.informers]
        return [
            Metric(
                "waggle_claims_cache_bytes",
                "gauge",
                "Memory that the records of pods take, estimated; claims.cache_mib bounds it.",
                [({}, float(sum(each.weight for each in informers)))],
            ),
            Metric(
                "waggle_claims_watch_staleness_seconds",
                "gauge",
                "Seconds since the API server last sent anything about the pods of a namespace.",
                [({"resource": each.name}, each.last_contact_age()) for each in informers],
            ),
            Metric(
                "waggle_claims_members",
                "gauge",
                "Replicas that this one shares pools with, including itself; 0: none is known.",
                [({}, float(len(self.members.members) if self.members is not None else 0))],
            ),
        ]
