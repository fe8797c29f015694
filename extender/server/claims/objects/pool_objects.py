"""Tracks the Pool objects, and writes their status. For use by one thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from extender.claims.engine import ClaimEngine
from extender.claims.records import Pool, PoolKey
from extender.claims.views import PoolSnapshot
from extender.core.freshness import older
from extender.resources import PoolSpec
from extender.server.claims.objects.pools import PAUSE, SETTLED, Verdict, is_news, judge, pool_status
from extender.server.claims.objects.records import PoolObject
from extender.server.claims.objects.writes import ObjectWritten, WritePoolStatus
from extender.server.claims.runtime import ClaimRuntime
from extender.server.conditions import moment
from extender.server.status_writes import StatusWrite, StatusWrites

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Tracked:
    obj: PoolObject
    verdict: Verdict = field(default_factory=lambda: Verdict(None, "New"))
    status: StatusWrite = field(default_factory=StatusWrite)
    #: The version and the verdict of a Pool that is not served, whose status says so already.
    said: tuple[str, Verdict] | None = None


class PoolObjects:
    """All Pool objects. `send` gets the writes."""

    def __init__(
        self,
        runtime: ClaimRuntime,
        configured: tuple[Pool, ...],
        *,
        has_score: bool,
        epoch: float,
        tokens: itertools.count[int],
        send: Callable[[WritePoolStatus], None],
    ) -> None:
        self._runtime = runtime
        self._configured = configured
        self._has_score = has_score
        self._epoch = epoch
        self._send = send
        self._tracked: dict[str, _Tracked] = {}
        self._writes = StatusWrites("Pool", tokens, pause=PAUSE, settled=SETTLED)
        #: The specifications of the served Pools, as of the last call of `pools`. Replaced, never changed in place.
        self.specs: dict[PoolKey, PoolSpec] = {}
        #: Whether a call of `pools` may return another result.
        self.is_stale = False
        #: The Pools that `pools` has not been asked about yet.
        self.new: set[PoolKey] = set()

    # -- what there is --------------------------------------------------------------------------------------------

    def seen(self, obj: PoolObject) -> None:
        """Store a version of a Pool."""
        tracked = self._tracked.get(obj.uid)
        if tracked is None:
            self._tracked[obj.uid] = _Tracked(obj)
            self.is_stale = True
            self.new.add(obj.key)
        elif not older(obj.resource_version, tracked.obj.resource_version):
            self.is_stale |= obj.generation != tracked.obj.generation or obj.fault != tracked.obj.fault
            tracked.obj = obj

    def gone(self, uid: str) -> None:
        """Forget a Pool that was deleted."""
        self.is_stale |= self._tracked.pop(uid, None) is not None

    def pools(self) -> tuple[Pool, ...] | None:
        """Return the pools to serve, those of the configuration first; None if nothing changed since the last call."""
        if not self.is_stale:
            return None
        self.is_stale = False
        objects = [each.obj for each in self._tracked.values()]
        verdicts = judge(self._configured, objects, has_score=self._has_score)
        served, specs = list(self._configured), {}
        for uid, verdict in verdicts.items():
            tracked = self._tracked[uid]
            if verdict.pool is None and verdict != tracked.verdict:
                log.warning(
                    "a Pool is not served", pool=str(tracked.obj.key), reason=verdict.reason, error=verdict.message
                )
            tracked.verdict = verdict
            if verdict.pool is not None and tracked.obj.spec is not None:
                served.append(verdict.pool)
                specs[verdict.pool.key] = tracked.obj.spec
        self.specs = specs
        self.new = set()  # a reader may have the other one
        return tuple(served)

    def misconfigured(self) -> int:
        """Return how many Pools are Misconfigured."""
        return sum(each.verdict.pool is None for each in self._tracked.values())

    def __len__(self) -> int:
        return len(self._tracked)

    # -- status ---------------------------------------------------------------------------------------------------

    def write_all(self, now: float) -> None:
        """Write the statuses that have changed enough, of the Pools for which this server has rank 0."""
        for tracked in list(self._tracked.values()):
            if self._writes.may_begin(tracked.status, now):
                self._write(tracked, now)

    def _write(self, tracked: _Tracked, now: float) -> None:
        obj = tracked.obj
        if tracked.said == (obj.resource_version, tracked.verdict):
            return
        is_ours, found = self._runtime.look(partial(_read, uid=obj.uid, key=obj.key))
        if not is_ours:
            return
        status = pool_status(obj, tracked.verdict, found, now=moment(now + self._epoch))
        if not is_news(obj.status, status, is_settled=self._writes.is_settled(tracked.status, now)):
            if tracked.verdict.pool is None:
                tracked.said = obj.resource_version, tracked.verdict
            return
        token = self._writes.begin(tracked.status, now)
        self._send(WritePoolStatus(token=token, key=obj.key, uid=obj.uid, status=status))

    def written(self, report: ObjectWritten, now: float) -> None:
        """Handle the report of a write."""
        is_done = self._writes.ended(report.token, report.outcome, now)
        if is_done and isinstance(report.obj, PoolObject) and report.obj.uid in self._tracked:
            self.seen(report.obj)


def _read(engine: ClaimEngine, now: float, *, uid: str, key: PoolKey) -> tuple[bool, PoolSnapshot | None]:
    return is_first(engine, uid), engine.snapshot(key, now)


def is_first(engine: ClaimEngine, uid: str) -> bool:
    """Whether this server has rank 0 for an object."""
    rank = engine.members.rank(uid)
    engine.members.forget(uid)  # only the ranks for pods are cached
    return rank == 0
