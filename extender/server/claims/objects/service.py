"""Runs the Pool and Claim objects: two informers, and one thread that reconciles.

    informers, answers, reports --> queue --> waggle-claim-objects: PoolObjects, ClaimObjects --> committer

Without the CustomResourceDefinitions, or while the API server refuses to list the objects, the pools of the
configuration are served, and readiness says why the others are not.
"""

from __future__ import annotations

import itertools
import queue
import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from extender.claim_settings import ClaimSettings
from extender.claims.engine import ClaimEngine
from extender.claims.records import Pool, PoolKey, WarmPod
from extender.core.deadlines import first_of
from extender.kube.client.api import ApiServer
from extender.kube.client.bounds import MIB
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Timing
from extender.server.claims.objects.claim_objects import ClaimObjects
from extender.server.claims.objects.pool_objects import PoolObjects
from extender.server.claims.objects.pools import PAUSE
from extender.server.claims.objects.records import CLAIMS, POOLS, ClaimObject, PoolObject
from extender.server.claims.objects.tracked import StandingClaims
from extender.server.claims.objects.writes import ClaimWrite, ObjectWritten, WritePoolStatus
from extender.server.claims.pods import PodInformers
from extender.server.claims.runtime import ClaimRuntime
from extender.server.views import Metric

log = structlog.get_logger(__name__)

#: The limit of memory for the objects of each kind, bytes, estimated.
_MOST_MEMORY = 128 * MIB
#: Seconds between two lists of the objects, in case a watch has lost an event. Nothing else waits for this.
_RESYNC = 600.0
#: After changed Pools were handled, the next change waits nine times as long as that took, for 10 s at most. So a user
#: who changes Pools all the time gets a tenth of a core.
_REST, _LONGEST_REST = 9.0, 10.0
_MISSING = "are the CustomResourceDefinitions installed (kubectl apply -k manifests/crds)?"

_Task = Callable[[float], None]


class CustomResources:
    """The Pool and Claim objects of one server.

    `submit` gets the writes. `serve` is called with all pools whenever they change. `went_back` is called if the API
    server was restored from a backup.
    """

    def __init__(
        self,
        api: ApiServer,
        runtime: ClaimRuntime,
        settings: ClaimSettings,
        pods: PodInformers,
        configured: tuple[Pool, ...],
        *,
        submit: Callable[[WritePoolStatus | ClaimWrite], None],
        serve: Callable[[tuple[Pool, ...]], None],
        went_back: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        timing: Timing | None = None,
        in_loop: LoopReader | None = None,
    ) -> None:
        self._runtime = runtime
        self._pods = pods
        self._serve = serve
        self._clock = clock
        self._standing = StandingClaims()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        tokens, epoch = itertools.count(1), time.time() - clock()
        has_score = settings.score is not None
        self.pools = PoolObjects(runtime, configured, has_score=has_score, epoch=epoch, tokens=tokens, send=submit)
        self.claims = ClaimObjects(
            runtime,
            settings,
            self,
            self._standing,
            server=secrets.token_hex(4),
            epoch=epoch,
            tokens=tokens,
            send=submit,
            later=self._tasks.put,
        )
        more: dict[str, Any] = {
            "timing": timing,
            "went_back": went_back,
            "in_loop": in_loop,
            "most": lambda: _MOST_MEMORY,
        }
        self.pool_informer: Reflector[PoolObject] = Reflector(
            api, POOLS, self._pools_changed, on_synced=partial(self._tasks.put, self._look_at_all), **more
        )
        self.claim_informer: Reflector[ClaimObject] = Reflector(
            api, CLAIMS, self._claims_changed, on_synced=partial(self._tasks.put, self._claims_synced), **more
        )
        self._seen: tuple[tuple[str, ...], bool] = ((), False)
        self._namespaces: set[str] = set()
        self._next_status = float("-inf")
        #: It stays so: a Pool that changes later is no reason to say of all others that they are not known.
        self._were_pools_known = False
        #: When changed Pools are taken in again.
        self._next_pools = float("-inf")
        self._next_list = clock() + _RESYNC
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waggle-claim-objects", daemon=True)

    def start(self) -> None:
        """Start the informers and the thread."""
        self.pool_informer.start()
        self.claim_informer.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop them. Idempotent; also works without a start."""
        self._is_stopped.set()
        self._tasks.put(None)
        self.pool_informer.stop()
        self.claim_informer.stop()
        if self._thread.is_alive():
            self._thread.join(5.0)

    # -- for the server -------------------------------------------------------------------------------------------

    def missing(self) -> str:
        """Return why not all objects are served; "" if they are."""
        for each in (self.pool_informer, self.claim_informer):
            if not each.synced.is_set():
                why = each.last_error or "being listed"
                return f"{each.name}: {why}" + (f"; {_MISSING}" if each.last_error else "")
        return ""

    def is_tried(self) -> bool:
        """Whether the API server has answered, even with an error."""
        return all(each.synced.is_set() or each.last_error for each in (self.pool_informer, self.claim_informer))

    def pods_changed(self, changes: list[Change[WarmPod]]) -> None:
        """Handle changes of pods that the engine has handled. Thread-safe."""
        touched = self._standing.changed(changes)
        if touched:
            self._tasks.put(partial(self.claims.touched, touched))

    @property
    def are_pools_known(self) -> bool:
        """Whether the Pool objects have been listed and handled, or the API server has refused to list them."""
        informer = self.pool_informer
        if not self._were_pools_known:
            is_listed = informer.synced.is_set() or bool(informer.last_error)
            self._were_pools_known = is_listed and not self.pools.is_stale
        return self._were_pools_known

    def is_new(self, pool: PoolKey) -> bool:
        """Whether there is a Pool object of this name that has not been handled yet."""
        return pool in self.pools.new

    def namespace_known(self) -> None:
        """Reconcile all objects, because the pods of a namespace have been listed. Thread-safe."""
        self._tasks.put(self._look_at_all)

    def resync(self) -> None:
        """List all objects again, in case a watch has lost an event."""
        for informer in (self.pool_informer, self.claim_informer):
            if informer.synced.is_set():
                informer.relist()

    def written(self, report: ObjectWritten) -> None:
        """Handle the report of a write or a read. Thread-safe."""
        self._tasks.put(partial(self.pools.written, report))
        self._tasks.put(partial(self.claims.written, report))

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        sizes = [
            ({"resource": "pools"}, float(len(self.pool_informer))),
            ({"resource": "claims"}, float(len(self.claim_informer))),
        ]
        wrong: list[tuple[dict[str, str], float]] = [({}, float(self.pools.misconfigured()))]
        return [
            Metric("waggle_claims_objects", "gauge", "Pool and Claim objects of the API server.", sizes),
            Metric("waggle_pools_misconfigured", "gauge", "Pool objects that are not served.", wrong),
        ]

    # -- for the objects ------------------------------------------------------------------------------------------

    def is_known(self, namespace: str, *, may_have_pods: bool) -> bool:
        if not (self.are_pools_known and self._runtime.readiness().ready):
            return False
        return self._pods.is_known(namespace) or not (may_have_pods or self._pods.find(namespace) is not None)

    def version(self, namespace: str) -> str:
        informer = self._pods.find(namespace)
        return informer.version if informer is not None else ""

    def catch_up(self, namespace: str) -> None:
        if (informer := self._pods.find(namespace)) is not None:
            informer.ask_for_bookmark()

    def wait_seconds(self, pool: PoolKey) -> float | None:
        return self._runtime.look(partial(_wait_seconds, pool=pool))

    # -- the thread -----------------------------------------------------------------------------------------------

    def _pools_changed(self, changes: list[Change[PoolObject]]) -> None:
        self._tasks.put(partial(self._take_pools, changes))

    def _claims_changed(self, changes: list[Change[ClaimObject]]) -> None:
        self._tasks.put(partial(self._take_claims, changes))

    def _take_pools(self, changes: list[Change[PoolObject]], _now: float) -> None:
        for change in changes:
            if change.kind is ChangeKind.SEEN:
                self.pools.seen(change.obj)
            else:
                self.pools.gone(change.obj.uid)

    def _take_claims(self, changes: list[Change[ClaimObject]], now: float) -> None:
        for change in changes:
            if change.kind is ChangeKind.SEEN:
                self.claims.seen(change.obj, now)
            else:
                self.claims.gone(change.obj.uid, now)

    def _claims_synced(self, now: float) -> None:
        self.claims.is_complete = True
        self.claims.look_at_all(now)

    def _look_at_all(self, now: float) -> None:
        self._next_status = now
        self.claims.look_at_all(now)

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                if not self._round():
                    return
            except Exception:  # a bug must not stop the other objects
                log.exception("handling a Pool or Claim object failed")
                self._is_stopped.wait(1.0)

    def _round(self) -> bool:
        """Handle the next task, and what is due. Return False after `stop`."""
        now = self._clock()
        due = first_of(self.claims.timers.first(), self._next_status)
        if self.pools.is_stale:
            due = first_of(due, self._next_pools)
        try:
            task = self._tasks.get(timeout=max(0.0, (due or now) - now))
        except queue.Empty:
            task = _nothing
        if task is None:
            return False
        now = self._clock()
        task(now)
        self.claims.on_time(now)
        self._follow(now)
        return True

    def _follow(self, now: float) -> None:
        """Update pools, statuses and watched namespaces after a task."""
        if self._tasks.empty() and now >= self._next_pools and (served := self.pools.pools()) is not None:
            self._serve(served)
            self._look_at_all(now)
            self._next_pools = self._clock() + min(_LONGEST_REST, _REST * (self._clock() - now))
        if now >= self._next_status:
            self._next_status = now + PAUSE
            if (namespaces := self.claims.namespaces()) != self._namespaces:
                self._namespaces = namespaces
                self._pods.watch_also(namespaces)
            seen = (self._runtime.look(_members), self.are_pools_known)
            if seen != self._seen:
                self._seen = seen
                self.claims.look_at_all(now)
            self.pools.write_all(now)
        if now >= self._next_list:
            self._next_list = now + _RESYNC
            self.resync()


def _nothing(_: float) -> None:
    """The task of a round in which only timers are due."""


def _members(engine: ClaimEngine, _: float) -> tuple[str, ...]:
    return engine.members.others


def _wait_seconds(engine: ClaimEngine, _: float, *, pool: PoolKey) -> float | None:
    found = engine.state.pools.get(pool)
    return found.pool.wait_seconds if found is not None else None
