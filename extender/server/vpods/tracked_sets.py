"""Tracks the VPodSet objects: which of them are served, and what their status says. For use by one thread.

informer --> seen, gone --> sets(): those to serve
leader, when something has changed: write_all --> WriteSetStatus --> written
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from extender.core.freshness import older
from extender.server.conditions import moment
from extender.server.status_writes import StatusWrite, StatusWrites
from extender.server.vpods.set_objects import SetObject, SetStatusWritten, WriteSetStatus
from extender.server.vpods.set_status import PAUSE, SETTLED, SetNumbers, is_news, set_status
from extender.server.vpods.verdicts import Verdict, judge
from extender.vpods.records import ObjectKey, SetSettings

log = structlog.get_logger(__name__)

#: Writes of statuses in flight: placements, which share the queue of writes, must not wait behind those of 1000 sets.
_MOST_WRITES = 16


@dataclass(slots=True)
class _Tracked:
    obj: SetObject
    verdict: Verdict = field(default_factory=lambda: Verdict(None, "New"))
    status: StatusWrite = field(default_factory=StatusWrite)


class SetObjects:
    """All VPodSet objects. `send` gets the writes; `policy_fault` returns why a set's policy cannot be used, or ""."""

    def __init__(
        self,
        configured: tuple[SetSettings, ...],
        *,
        policy_fault: Callable[[SetSettings], str],
        send: Callable[[WriteSetStatus], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = configured
        self._policy_fault = policy_fault
        self._send = send
        self._epoch = time.time() - clock()
        self._tracked: dict[str, _Tracked] = {}
        self._writes = StatusWrites("VPodSet", itertools.count(1), pause=PAUSE, settled=SETTLED, most=_MOST_WRITES)
        self._uids: dict[ObjectKey, str] = {}
        #: Whether `sets` may return another result than before.
        self.is_stale = True

    def __len__(self) -> int:
        return len(self._tracked)

    # -- what there is --------------------------------------------------------------------------------------------

    def seen(self, obj: SetObject) -> None:
        """Store a version of a VPodSet."""
        tracked = self._tracked.get(obj.uid)
        if tracked is None:
            self._tracked[obj.uid] = _Tracked(obj)
            self._uids[obj.key] = obj.uid
            self.is_stale = True
        elif not older(obj.resource_version, tracked.obj.resource_version):
            self.is_stale |= (obj.settings, obj.fault) != (tracked.obj.settings, tracked.obj.fault)
            tracked.obj = obj

    def gone(self, uid: str) -> None:
        """Forget a VPodSet that was deleted."""
        tracked = self._tracked.pop(uid, None)
        if tracked is not None:
            self.is_stale = True
            if self._uids.get(tracked.obj.key) == uid:
                del self._uids[tracked.obj.key]

    def sets(self) -> tuple[SetSettings, ...]:
        """Return the sets to serve, those of the configuration first."""
        self.is_stale = False
        verdicts = judge(
            self._configured, (each.obj for each in self._tracked.values()), policy_fault=self._policy_fault
        )
        for uid, verdict in verdicts.items():
            tracked = self._tracked[uid]
            if verdict.settings is None and verdict != tracked.verdict:
                log.warning(
                    "a VPodSet is not served", set=str(tracked.obj.key), reason=verdict.reason, error=verdict.message
                )
            tracked.verdict = verdict
        return (*self._configured, *(each.settings for each in verdicts.values() if each.settings is not None))

    def refused(self) -> dict[ObjectKey, str]:
        """Return the objects that are not served, and why."""
        return {each.obj.key: each.verdict.message for each in self._tracked.values() if each.verdict.settings is None}

    def uid(self, key: ObjectKey) -> str:
        """Return the UID of the object with this key; "" if there is none. Thread-safe."""
        return self._uids.get(key, "")

    # -- status ---------------------------------------------------------------------------------------------------

    def write_all(
        self, term: int, found: Mapping[ObjectKey, SetNumbers], trouble: Callable[[str], str], now: float
    ) -> None:
        """Write the statuses that have changed enough. `found`: the numbers of the sets that the engine serves;
        `trouble` returns why nothing is known of a namespace."""
        for tracked in self._tracked.values():
            if self._writes.may_begin(tracked.status, now):
                self._write(tracked, term, found.get(tracked.obj.key), trouble, now)

    def _write(
        self, tracked: _Tracked, term: int, found: SetNumbers | None, trouble: Callable[[str], str], now: float
    ) -> None:
        obj = tracked.obj
        numbers = found if tracked.verdict.settings is not None else None
        why = trouble(obj.key.namespace) if numbers is None else ""
        status = set_status(obj, tracked.verdict, numbers, trouble=why, now=moment(now + self._epoch))
        if not is_news(obj.status, status, is_settled=self._writes.is_settled(tracked.status, now)):
            return
        token = self._writes.begin(tracked.status, now)
        self._send(WriteSetStatus(token=token, key=obj.key, uid=obj.uid, status=status, term=term))

    def written(self, report: SetStatusWritten, now: float) -> None:
        """Handle the report of a write."""
        is_done = self._writes.ended(report.token, report.outcome, now)
        if is_done and report.obj is not None and report.obj.uid in self._tracked:
            self.seen(report.obj)
