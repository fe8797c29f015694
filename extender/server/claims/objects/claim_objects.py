"""Reconciles Claim objects: carries out the steps of `claims.decide` whenever their inputs have changed.

    informer of Claims, pods, answers of the engine, reports of writes --> reconcile the object --> steps

Each object has at most one write in flight. After a write that failed, the object is read, with exponential back-off:
each write has a resourceVersion as its precondition, so it cannot take effect twice. For use by one thread.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import structlog

from extender.claim_settings import ClaimSettings
from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import Answered, ClaimAsked, ReleaseAsked, RenewAsked
from extender.claims.records import Demand, OnEmpty, PoolKey
from extender.claims.views import ClaimView
from extender.core.deadlines import Deadlines
from extender.core.freshness import older
from extender.core.outcomes import OutcomeKind
from extender.server.claims.objects.claims import (
    DEFAULT_WAIT,
    Ask,
    Cancel,
    CatchUp,
    Facts,
    LookAgain,
    Own,
    Release,
    Renew,
    SetFinalizers,
    SetStatus,
    Step,
    decide,
    orphaned,
    pool_of,
)
from extender.server.claims.objects.pool_objects import is_first
from extender.server.claims.objects.records import ClaimObject, claim_name, object_of
from extender.server.claims.objects.tracked import StandingClaims, Tracked
from extender.server.claims.objects.writes import (
    ClaimWrite,
    ObjectWritten,
    ReadClaim,
    WriteClaimStatus,
    WriteFinalizer,
)
from extender.server.claims.runtime import Call, ClaimRuntime

log = structlog.get_logger(__name__)

#: Seconds between tries to write: the first value, doubled each time up to the second.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
#: Seconds after which claims of an unknown object are given back: its informer may be late.
_ORPHAN = 10.0


class Surroundings(Protocol):
    """What Claim objects need from their server."""

    def is_known(self, namespace: str, *, may_have_pods: bool) -> bool:
        """Whether the pools, and the pods of the namespace if they matter, have been listed."""
        ...

    def version(self, namespace: str) -> str:
        """The resourceVersion up to which the pods of the namespace are known."""
        ...

    def catch_up(self, namespace: str) -> None:
        """Have the informer of the namespace's pods update this version."""
        ...

    def wait_seconds(self, pool: PoolKey) -> float | None:
        """The default wait of the pool's claims, seconds; None if no such pool is served."""
        ...


class ClaimObjects:
    """See the module. `send` gets the writes. `later` has a function called in the thread that uses this object."""

    def __init__(
        self,
        runtime: ClaimRuntime,
        settings: ClaimSettings,
        surroundings: Surroundings,
        standing: StandingClaims,
        *,
        server: str,
        epoch: float,
        tokens: itertools.count[int],
        send: Callable[[ClaimWrite], None],
        later: Callable[[Callable[[float], None]], None],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._around = surroundings
        self._standing = standing
        self._server = server
        self._epoch = epoch
        self._tokens = tokens
        self._send = send
        self._later = later
        self._tracked: dict[str, Tracked] = {}
        self._writing: dict[int, Tracked] = {}
        #: When objects are reconciled again, by UID.
        self.timers: Deadlines[str] = Deadlines()
        #: Whether all Claims have been listed, so that an unknown one does not exist.
        self.is_complete = False
        self._trouble: dict[str, str] = {}

    # -- what changes ---------------------------------------------------------------------------------------------

    def seen(self, obj: ClaimObject, now: float) -> None:
        """Store a version of an object, and reconcile it."""
        tracked = self._track(obj.uid, obj.namespace)
        if tracked.obj is None or not older(obj.resource_version, tracked.obj.resource_version):
            tracked.obj = obj
        self.look(obj.uid, now)  # also for an old version: changes during a write have not been handled

    def gone(self, uid: str, now: float) -> None:
        """Handle the deletion of an object."""
        if (tracked := self._tracked.get(uid)) is not None:
            tracked.obj = None
            tracked.is_deleted = True
            self.look(uid, now)

    def touched(self, uids: set[str], now: float) -> None:
        """Reconcile these objects, because pods of their claims have changed."""
        for uid in sorted(uids):
            self.look(uid, now)

    def look_at_all(self, now: float) -> None:
        """Reconcile all objects."""
        for uid, namespace in self._standing.objects().items():
            self._track(uid, namespace)
        for uid in list(self._tracked):
            self.look(uid, now)

    def on_time(self, now: float) -> None:
        """Reconcile the objects that are due."""
        while (uid := self.timers.pop(now)) is not None:
            self.look(uid, now)

    def namespaces(self) -> set[str]:
        """Return the namespaces in which objects may have pods."""
        return {each.namespace for each in self._tracked.values() if each.obj is None or each.obj.has_finalizer}

    def phases(self) -> Counter[str]:
        """Return the number of objects by phase."""
        return Counter(each.obj.status.phase for each in self._tracked.values() if each.obj is not None)

    def _track(self, uid: str, namespace: str) -> Tracked:
        return self._tracked.setdefault(uid, Tracked(uid, namespace))

    # -- looking --------------------------------------------------------------------------------------------------

    def look(self, uid: str, now: float) -> None:
        """Reconcile one object: decide, and carry out the steps."""
        namespace = self._standing.objects().get(uid) if uid not in self._tracked else None
        tracked = self._track(uid, namespace) if namespace is not None else self._tracked.get(uid)
        if tracked is None or tracked.writing is not None or tracked.is_renewing:
            return
        obj = tracked.obj
        may_have_pods = obj is None or obj.has_finalizer or bool(obj.status.claim)
        if not self._around.is_known(tracked.namespace, may_have_pods=may_have_pods):
            return  # it is reconciled when they have been listed
        if now < tracked.paused_until:
            self.timers.set(uid, tracked.paused_until)
            return
        if tracked.since is None:
            tracked.since = now
        facts = self._facts(tracked, now)
        if tracked.obj is None:
            self._look_at_orphan(tracked, facts)
            return
        for step in decide(tracked.obj, facts, self._settings):
            self._do(step, tracked, now)

    def _look_at_orphan(self, tracked: Tracked, facts: Facts) -> None:
        if not facts.standing and tracked.own is None:
            del self._tracked[tracked.uid]
            self.timers.discard(tracked.uid)
            return
        assert tracked.since is not None
        ripe = tracked.since + (0.0 if tracked.is_deleted else _ORPHAN)
        if tracked.own is None and (not self.is_complete or facts.now < ripe):
            self.timers.set(tracked.uid, ripe if facts.now < ripe else facts.now + _ORPHAN)
            return
        for step in orphaned(facts):
            self._do(step, tracked, facts.now)

    def _facts(self, tracked: Tracked, now: float) -> Facts:
        own = tracked.own.claim if tracked.own is not None else ""
        decided = tracked.obj.status.claim if tracked.obj is not None else ""
        # The engine knows the answers to writes before the watch shows them.
        if object_of(decided) != tracked.uid:
            decided = ""  # somebody else has written this status: the claim is another object's, or nobody's
        names = sorted({*self._standing.of(tracked.uid), own, decided} - {""})
        is_ours, standing = self._runtime.look(partial(_read, uid=tracked.uid, names=names))
        standing = [each for each in standing if each.pool.namespace == tracked.namespace]
        tracked.stood.update(each.name for each in standing)
        tracked.leaving &= {each.name for each in standing}
        obj = tracked.obj
        default = None
        wait: float = DEFAULT_WAIT
        is_current = True
        if obj is not None:
            if obj.spec is not None:
                default = self._around.wait_seconds(pool_of(obj.spec, obj.namespace))
                said = obj.spec.wait_seconds
                if said is not None:
                    wait = float(said)
                elif default is not None:
                    wait = min(default, self._settings.max_wait_seconds)
            is_current = (
                not decided
                or decided in tracked.stood
                or not older(self._around.version(obj.namespace), obj.resource_version)
            )
        return Facts(
            now=now,
            epoch=self._epoch,
            is_first=is_ours,
            has_pool=default is not None,
            wait_seconds=wait,
            standing=tuple(standing),
            leaving=frozenset(tracked.leaving),
            own=tracked.own,
            since=now if tracked.since is None else tracked.since,
            written_at=tracked.written_at,
            put_finalizer=tracked.put_finalizer,
            is_current=is_current,
            renewed=tracked.renewed,
        )

    # -- doing ----------------------------------------------------------------------------------------------------

    def _do(self, step: Step, tracked: Tracked, now: float) -> None:
        obj = tracked.obj
        match step:
            case LookAgain(at):
                self.timers.set(tracked.uid, at)
            case CatchUp(at):
                self._around.catch_up(tracked.namespace)
                self.timers.set(tracked.uid, at)
            case Cancel():
                self._cancel(tracked, now)
            case Release(claim):
                self._release(tracked, claim)
            case Ask(tenant, wait_seconds) if obj is not None:
                self._ask(tracked, obj, tenant, wait_seconds, now)
            case Renew() if obj is not None:
                self._renew(tracked, step)
            case SetFinalizers(finalizers) if obj is not None:
                self._write(tracked, WriteFinalizer(**self._version(obj), finalizers=finalizers))
            case SetStatus(status) if obj is not None and tracked.writing is None:
                tracked.written_at = now
                self._write(tracked, WriteClaimStatus(**self._version(obj), status=status))

    def _version(self, obj: ClaimObject) -> dict[str, Any]:
        """The fields of a write that depends on this version of the object."""
        return {
            "token": next(self._tokens),
            "namespace": obj.namespace,
            "name": obj.name,
            "uid": obj.uid,
            "resource_version": obj.resource_version,
        }

    def _ask(self, tracked: Tracked, obj: ClaimObject, tenant: str, wait_seconds: float, now: float) -> None:
        spec = obj.spec
        assert spec is not None
        tracked.tries += 1
        asked = ClaimAsked(
            request=self._runtime.new_request(),
            claim=claim_name(obj.uid, self._server, tracked.tries),
            pool=pool_of(spec, obj.namespace),
            tenant=tenant,
            count=spec.count,
            demand=Demand(_pairs(spec.requires), tuple(sorted(spec.images))),
            priority=spec.priority,
            wait_seconds=wait_seconds,
            lease_seconds=float(spec.lease_seconds or 0),
            labels=_pairs(spec.labels),
            annotations=_pairs(spec.annotations),
            images=_pairs(spec.images),
            on_empty=OnEmpty(spec.on_empty),
        )
        tracked.own = Own(asked.claim, now)
        tracked.request = asked.request
        self.timers.set(obj.uid, now + 1.0)
        self._call(asked, partial(self._answered, tracked, asked.request))

    def _answered(self, tracked: Tracked, request: str, answer: Answered, now: float) -> None:
        if tracked.own is None or tracked.request != request:
            return
        if answer.code is not ClaimCode.CLAIMED:
            tracked.leaving.add(tracked.own.claim)
        tracked.own = Own(tracked.own.claim, tracked.own.asked_at, answer)
        self.look(tracked.uid, now)

    def _cancel(self, tracked: Tracked, now: float) -> None:
        own, tracked.own = tracked.own, None
        assert own is not None
        if own.answer is None:
            if self._runtime.leave(tracked.request):
                tracked.leaving.add(own.claim)
            else:  # it has been answered, and the answer is on its way here
                self._release(tracked, own.claim)
        elif own.answer.code is ClaimCode.CLAIMED and own.claim not in tracked.leaving:
            self._release(tracked, own.claim)
        self.timers.set(tracked.uid, now)

    def _release(self, tracked: Tracked, claim: str) -> None:
        if claim not in tracked.leaving:
            tracked.leaving.add(claim)
            release = ReleaseAsked(self._runtime.new_request(), claim)
            self._call(release, partial(self._released, tracked, claim))

    def _released(self, tracked: Tracked, claim: str, answer: Answered, now: float) -> None:
        if answer.code is not ClaimCode.RELEASED:
            tracked.leaving.discard(claim)
            self.timers.set(tracked.uid, now + 1.0)
        else:
            self.look(tracked.uid, now)

    def _renew(self, tracked: Tracked, step: Renew) -> None:
        tracked.is_renewing = True
        event = RenewAsked(
            self._runtime.new_request(), step.claim, lease_seconds=step.lease_seconds, shorten=step.shorten
        )
        self._call(event, partial(self._renewed, tracked, step.done))

    def _renewed(self, tracked: Tracked, done: tuple[int, str], answer: Answered, now: float) -> None:
        tracked.is_renewing = False
        if answer.code is ClaimCode.RENEWED:
            tracked.renewed = done
            tracked.failures = 0
        else:
            self._pause(tracked, now)
        self.look(tracked.uid, now)

    def _call(self, call: Call, done: Callable[[Answered, float], None]) -> None:
        self._runtime.ask(call, lambda answer: self._later(partial(done, answer)))

    # -- writes ---------------------------------------------------------------------------------------------------

    def _write(self, tracked: Tracked, write: ClaimWrite) -> None:
        tracked.writing = write.token
        self._writing[write.token] = tracked
        self._send(write)

    def written(self, report: ObjectWritten, now: float) -> None:
        """Handle the report of a write or a read."""
        tracked = self._writing.pop(report.token, None)
        if tracked is None:
            return
        tracked.writing = None
        kind, obj = report.outcome.kind, report.obj
        if kind is OutcomeKind.DONE and isinstance(obj, ClaimObject) and obj.uid == tracked.uid:
            if report.what == WriteFinalizer.__name__ and obj.has_finalizer:
                tracked.put_finalizer = True
            if report.what != ReadClaim.__name__:
                tracked.failures = 0
                self._recovered(report.what)
            self._settle(tracked, obj)
            self.seen(obj, now)
        elif kind in (OutcomeKind.GONE, OutcomeKind.STALE, OutcomeKind.DONE):
            self._pause(tracked, now)  # wait for the informer to confirm the deletion before pods are given back
            self.look(tracked.uid, now)
        else:
            self._failed(tracked, report, now)

    @staticmethod
    def _settle(tracked: Tracked, obj: ClaimObject) -> None:
        """Forget this server's request if the object's status has its result."""
        own = tracked.own
        if own is None:
            return
        if obj.status.claim == own.claim or (own.answer is not None and obj.status.phase == "Failed"):
            tracked.own = None

    def _failed(self, tracked: Tracked, report: ObjectWritten, now: float) -> None:
        """Back off, and read the object after a conflict or an error."""
        outcome, obj = report.outcome, tracked.obj
        self._say(report.what, outcome.detail or str(outcome.kind), is_race=outcome.kind is OutcomeKind.LOST)
        if outcome.kind is not OutcomeKind.LOST or tracked.failures:
            self._pause(tracked, now, outcome.retry_after)
        tracked.failures += outcome.kind is OutcomeKind.LOST
        if obj is None or report.what == ReadClaim.__name__ or outcome.kind is OutcomeKind.THROTTLED:
            self.look(tracked.uid, now)
            return
        self._write(tracked, ReadClaim(token=next(self._tokens), namespace=obj.namespace, name=obj.name))

    @staticmethod
    def _pause(tracked: Tracked, now: float, seconds: float = 0.0) -> None:
        tracked.failures += 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tracked.failures - 1, 10))
        tracked.paused_until = now + max(seconds, pause)

    def _say(self, what: str, why: str, *, is_race: bool) -> None:
        """Log a problem once until it is over."""
        if not is_race and what not in self._trouble:
            self._trouble[what] = why
            log.warning("writing a Claim object failed; Waggle retries", write=what, error=why)

    def _recovered(self, what: str) -> None:
        if self._trouble.pop(what, None) is not None:
            log.info("Claim objects can be written again", write=what)


def _read(engine: ClaimEngine, now: float, *, uid: str, names: list[str]) -> tuple[bool, list[ClaimView]]:
    views = [view for view in (engine.claim(name, now) for name in names) if view is not None]
    return is_first(engine, uid), views


def _pairs(texts: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(texts.items()))
