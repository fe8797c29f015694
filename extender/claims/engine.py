"""The engine of claims: see the package for the diagram and the promises.

    informers   PodSeen PodGone NodeSeen NodeGone --+
    callers     ClaimAsked CallerGone ReleaseAsked --+--> handle --> Answered
    reports     PodTaken PodLooked PodGivenBack -----+               TakePod LookAtPod GivePodBack
    timer       Ticked -----------------------------+

After every event: pods are paired with those that wait, in every pool in which that may have become possible, and what
there is room for is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.claims.codes import ClaimCode
from extender.claims.events import (
    Answered,
    CallerGone,
    ClaimAsked,
    ClaimEvent,
    ClaimInstruction,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PoolsConfigured,
    ReleaseAsked,
    ShutdownAsked,
    Synced,
    Ticked,
)
from extender.claims.giving import GivingPods
from extender.claims.pairing import pair
from extender.claims.records import Demand
from extender.claims.requests import Pending, Requests
from extender.claims.state import Claim, ClaimState, PoolState
from extender.claims.taking import End, Refused, Taken, TakingPods
from extender.claims.window import Window
from extender.claims.writes.give import PodGivenBack
from extender.claims.writes.look import PodLooked
from extender.claims.writes.take import PodTaken
from extender.core.deadlines import Deadlines, earliest, first_of

#: Seconds that a request whose pods are chosen may still wait for their writes after its own deadline.
PATIENCE = 5.0
#: Different demands for which a pool's pods are kept ready, and with which requests may wait.
MOST_DEMANDS = 64
#: Seconds after which a claim is looked at again whose pod is held by somebody else's write.
_SOON = 1.0
#: Seconds after which a claim is looked at again whose lease is over and whose pods still are there.
_AGAIN = 30.0


class ClaimEngine:
    """An `Engine` of `extender.core.engine`. `epoch`: seconds since 1970 when the engine's clock was 0."""

    def __init__(self, *, epoch: float = 0.0, window: float = 64.0) -> None:
        self.sequence = 0
        self.term: int | None = 0
        self.state = ClaimState()
        self.requests = Requests()
        self.window = Window(window)
        self.taking = TakingPods(self.state, self.window)
        self.giving = GivingPods(self.state, self._given)
        self._epoch = epoch
        self._is_synced = False
        self._is_stopping = False
        #: When requests stop waiting, by claim.
        self._waits: Deadlines[str] = Deadlines()
        self._leases: Deadlines[str] = Deadlines()
        self._timers = (self._waits, self._leases, self.taking.timers, self.giving.timers)
        #: The pods of the claims that this engine granted. Any other pod with their mark is one too many.
        self._granted: dict[str, frozenset[str]] = {}
        #: Who asked for a claim's release, and the pods that are not given back yet.
        self._releases: dict[str, tuple[dict[str, None], set[str]]] = {}
        self._out: list[ClaimInstruction] = []
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            NodeSeen: lambda event, _: self.state.serve(event.name, event.serves),
            NodeGone: lambda event, _: self.state.serve(event.name, None),
            PoolsConfigured: self._configured,
            Synced: self._synced,
            ClaimAsked: self._asked,
            CallerGone: self._caller_gone,
            ReleaseAsked: self._release_asked,
            ShutdownAsked: self._shutdown,
            PodTaken: self._taken,
            PodLooked: self._looked,
            PodGivenBack: self.giving.given,
            Ticked: lambda _, __: None,
        }

    # -- the engine protocol --------------------------------------------------------------------------------------

    def handle(self, event: ClaimEvent, now: float) -> list[ClaimInstruction]:
        """Return the instructions that this event causes."""
        self.sequence += 1
        self._out = []
        self._handlers[type(event)](event, now)
        self._on_time(now)
        self._settle(now)
        return self._out

    def next_due(self) -> float | None:
        """When there is work without an event, seconds; None if there is none."""
        return first_of(earliest(self._timers), self.taking.is_due())

    def missing(self) -> str:
        """Why requests cannot be served now; "" if they can."""
        if self._is_stopping:
            return "the server is going down"
        return "" if self._is_synced else "the pods of the cluster are not known yet"

    # -- the cluster ----------------------------------------------------------------------------------------------

    def _pod_seen(self, event: PodSeen, _now: float) -> None:
        if self.state.see(event.pod):
            self._observed(event.pod.uid)

    def _pod_gone(self, event: PodGone, _now: float) -> None:
        self.state.lose(event.uid)
        self._observed(event.uid)

    def _observed(self, uid: str) -> None:
        self._settle_taking(self.taking.seen(uid))
        self.giving.seen(uid)

    def _configured(self, event: PoolsConfigured, _now: float) -> None:
        for left in self.state.configure(event.pools):
            for waiter in left.line.waiters():
                left.line.remove(waiter.request)
        for pending in list(self.requests.pending.values()):
            if pending.asked.pool not in self.state.pools:
                self._fail(pending, ClaimCode.UNKNOWN_POOL, "the pool was removed")

    def _synced(self, _: Synced, _now: float) -> None:
        self._is_synced = True
        for key in self.state.pools:
            self.state.dirty[key] = None

    # -- requests for pods ----------------------------------------------------------------------------------------

    def _asked(self, asked: ClaimAsked, now: float) -> None:
        if self._repeats(asked):
            return
        refusal = self._refusal(asked)
        if refusal is not None:
            code, detail = refusal
            self._out.append(self.requests.refuse(asked.request, code, detail, 1.0 if code.status == 429 else 0.0))
            return
        pool = self.state.pools[asked.pool]
        pending = self.requests.accept(asked, now)
        self._track(pool, asked.demand)
        pool.line.add(pending.waiter())
        self.state.dirty[asked.pool] = None
        self._waits.set(asked.claim, pending.deadline)
        # Somebody who does not wait is served now or never: before the deadline, which is now, is looked at.
        self._pair(now)

    def _repeats(self, asked: ClaimAsked) -> bool:
        """Whether the key belongs to a request that was asked before: then this call gets the same answer."""
        if not asked.key:
            return False
        pending = self.requests.with_key(asked)
        claim = None if pending is not None else self._claim_with_key(asked)
        if pending is None and claim is None:
            return False
        digest = pending.asked.digest if pending is not None else claim.digest if claim is not None else ""
        if digest != asked.digest:
            detail = "key: expected the same request as when it was first used"
            self._out.append(self.requests.refuse(asked.request, ClaimCode.KEY_REUSED, detail))
        elif pending is not None:
            self.requests.join(pending, asked.request)
        elif claim is not None:
            pods = tuple(self.state.pods[uid] for uid in sorted(claim.uids))
            self._out.append(
                Answered(
                    request=asked.request, code=ClaimCode.CLAIMED, claim=claim.name, pods=pods, expires=claim.expires
                )
            )
        return True

    def _claim_with_key(self, asked: ClaimAsked) -> Claim | None:
        name = self.state.keys.get((asked.pool, asked.tenant, asked.key))
        claim = None if name is None else self.state.claims.get(name)
        return None if claim is None or claim.is_ending else claim

    def _refusal(self, asked: ClaimAsked) -> tuple[ClaimCode, str] | None:
        if self._is_stopping:
            return ClaimCode.SHUTTING_DOWN, self.missing()
        if not self._is_synced:
            return ClaimCode.NOT_READY, self.missing()
        state = self.state.pools.get(asked.pool)
        if state is None:
            return ClaimCode.UNKNOWN_POOL, f"there is no pool {asked.pool}"
        pool, line = state.pool, state.line
        if not 1 <= asked.count <= pool.most_pods_of_claim:
            return ClaimCode.TOO_MANY_PODS, f"count: expected 1 to {pool.most_pods_of_claim}, got {asked.count}"
        if pool.most_pods_of_tenant and asked.count > pool.most_pods_of_tenant:
            limit = pool.most_pods_of_tenant
            return ClaimCode.TOO_MANY_PODS, f"count: a tenant may have {limit} pods of this pool, got {asked.count}"
        if asked.claim in self.requests.pending or asked.claim in self.state.claims:
            return ClaimCode.KEY_REUSED, f"claim: {asked.claim} exists"
        if len(line) >= pool.most_waiting:
            return ClaimCode.QUEUE_FULL, f"{pool.most_waiting} requests wait for {asked.pool}"
        if line.of_tenant(asked.tenant) >= pool.most_waiting_of_tenant:
            return ClaimCode.TENANT_QUEUE_FULL, f"{pool.most_waiting_of_tenant} requests of this tenant wait"
        demands = line.demands()
        if len(demands) >= MOST_DEMANDS and asked.demand not in demands:
            return ClaimCode.TOO_MANY_DEMANDS, f"requests with {MOST_DEMANDS} different requirements wait"
        return None

    @staticmethod
    def _track(pool: PoolState, demand: Demand) -> None:
        """Keep the pods ready that fit this demand; those of a demand that nobody waits with make room for it."""
        tracked = pool.supply.tracked()
        if demand not in tracked and len(tracked) >= MOST_DEMANDS:
            waiting = set(pool.line.demands())
            pool.supply.untrack(next(each for each in tracked if each not in waiting))
        pool.supply.track(demand)

    def _caller_gone(self, event: CallerGone, _now: float) -> None:
        pending = self.requests.leave(event.request)
        if pending is not None:
            self._fail(pending, ClaimCode.CANCELLED)

    def _shutdown(self, _: ShutdownAsked, _now: float) -> None:
        self._is_stopping = True
        for pending in list(self.requests.pending.values()):
            self._fail(pending, ClaimCode.SHUTTING_DOWN)

    def _fail(self, pending: Pending, code: ClaimCode, detail: str = "") -> None:
        """The request gets no pods. What it has is given back, and what is being written will be."""
        self._waits.discard(pending.claim)
        pool = self.state.pools.get(pending.asked.pool)
        if pool is not None:
            pool.line.remove(pending.claim)
            if pending.writing or pending.pods:
                pool.line.charge(pending.asked.tenant, -len(pending.writing) - len(pending.pods))
            self.state.dirty[pending.asked.pool] = None
        self.state.ended.add(pending.claim)
        self.state.changed[pending.claim] = None
        self._out += self.requests.end(pending, code, detail=detail)
        for token in list(pending.writing):
            self.taking.abandon(token)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def _taken(self, report: PodTaken, now: float) -> None:
        end, commands = self.taking.taken(report, now)
        self._out += commands
        self._settle_taking(end)

    def _looked(self, report: PodLooked, now: float) -> None:
        end, commands = self.taking.looked(report, now)
        self._out += commands
        self._settle_taking(end)
        self._out += self.giving.looked(report, now)

    def _settle_taking(self, end: End | None) -> None:
        if end is None:
            return
        taking = end.taking
        pending = self.requests.pending.get(taking.claim)
        if pending is None or taking.token not in pending.writing:
            return
        del pending.writing[taking.token]
        if isinstance(end, Taken):
            pending.pods[end.pod.uid] = end.pod
            if len(pending.pods) == pending.asked.count:
                self._claimed(pending)
            return
        if isinstance(end, Refused):
            self._out_of(pending, 1)
            self._fail(pending, ClaimCode.WRITE_REFUSED, end.detail)
            return
        self._out_of(pending, 1)
        self._line_up(pending)

    def _out_of(self, pending: Pending, pods: int) -> None:
        """The request has lost pods that it was charged for."""
        pool = self.state.pools.get(pending.asked.pool)
        if pool is not None:
            pool.line.charge(pending.asked.tenant, -pods)

    def _line_up(self, pending: Pending) -> None:
        """The request waits again, at its old place."""
        pool = self.state.pools[pending.asked.pool]
        pool.line.remove(pending.claim)
        self._track(pool, pending.asked.demand)
        pool.line.add(pending.waiter())
        self.state.dirty[pending.asked.pool] = None
        self._waits.set(pending.claim, pending.deadline)

    def _claimed(self, pending: Pending) -> None:
        self._waits.discard(pending.claim)
        self._granted[pending.claim] = frozenset(pending.pods)
        expires = min(pod.mark.expires for pod in pending.pods.values() if pod.mark is not None)
        self.state.changed[pending.claim] = None
        pods = tuple(pending.pods.values())
        self._out += self.requests.end(pending, ClaimCode.CLAIMED, pods=pods, expires=expires)

    # -- claims that exist ----------------------------------------------------------------------------------------

    def _release_asked(self, event: ReleaseAsked, _now: float) -> None:
        claim = self.state.claims.get(event.claim)
        ended = event.claim in self.state.ended  # one that failed may have a pod for a moment still
        if claim is None or ended or event.claim in self.requests.pending:
            code = ClaimCode.CLAIM_ENDED if ended else ClaimCode.UNKNOWN_CLAIM
            self._out.append(Answered(request=event.request, code=code, claim=event.claim))
        elif event.tenant is not None and event.tenant != claim.tenant:
            self._out.append(Answered(request=event.request, code=ClaimCode.NOT_YOURS, claim=event.claim))
        else:
            callers, _ = self._releases.setdefault(claim.name, ({}, set(claim.uids)))
            callers[event.request] = None
            claim.is_ending = True
            self.state.changed[claim.name] = None

    def _given(self, claim: str, uid: str) -> None:
        self.state.changed[claim] = None
        release = self._releases.get(claim)
        if release is None:
            return
        callers, left = release
        left.discard(uid)
        if not left:
            del self._releases[claim]
            self._out += [Answered(request=each, code=ClaimCode.RELEASED, claim=claim) for each in callers]

    def _look_after(self, name: str, now: float) -> None:
        """A claim's pods have changed: give back what is too much, or over."""
        claim = self.state.claims.get(name)
        if claim is None:
            self._leases.discard(name)
            self._granted.pop(name, None)
            self._finish_release(name)
            return
        pending = self.requests.pending.get(name)
        if pending is not None:
            self._adopt(pending, claim)
            surplus = claim.uids - set(pending.pods) - set(pending.writing.values())
            pending = self.requests.pending.get(name)
        elif name in self._granted:
            surplus = claim.uids - self._granted[name]
        else:
            # A claim of another server, or of our own past; or one that failed while its write was on its way.
            surplus = set(claim.uids) if name in self.state.ended else set()
        ends = claim.expires - self._epoch
        if pending is None and (ends > now or name not in self._leases):
            self._leases.set(name, max(ends, now))
        for uid in sorted(claim.uids if claim.is_ending else surplus):
            self._give(uid, name, now)

    def _adopt(self, pending: Pending, claim: Claim) -> None:
        """A write that was given up on has happened after all: the request has one pod more."""
        for uid in sorted(claim.uids - set(pending.pods) - set(pending.writing.values())):
            pod = self.state.pods[uid]
            if pending.missing and not pod.is_terminating:
                pending.pods[uid] = pod
                self._out_of(pending, -1)
                self.state.pools[pending.asked.pool].line.remove(pending.claim)
                if pending.missing:
                    self._line_up(pending)
        if len(pending.pods) == pending.asked.count:
            self._claimed(pending)

    def _finish_release(self, name: str) -> None:
        callers, _ = self._releases.pop(name, ({}, set()))
        self._out += [Answered(request=each, code=ClaimCode.RELEASED, claim=name) for each in callers]

    def _give(self, uid: str, claim: str, now: float, *, epoch: float | None = None) -> None:
        pod = self.state.pods[uid]
        if pod.is_terminating:
            return
        if self.state.ledger.holder(uid) is not None and not self.giving.is_giving(uid):
            self._leases.set(claim, now + _SOON)
            return
        self._out += self.giving.give(pod, claim, now, epoch=epoch)

    # -- time and what follows ------------------------------------------------------------------------------------

    def _on_time(self, now: float) -> None:
        due = earliest(self._timers)
        if due is None or due > now:
            return
        while (name := self._waits.pop(now)) is not None:
            self._overdue(self.requests.pending[name], now)
        while (name := self._leases.pop(now)) is not None:
            claim = self.state.claims.get(name)
            if claim is None:
                continue
            self._leases.set(name, max(claim.expires - self._epoch, now + _AGAIN))
            if now + self._epoch >= claim.expires:
                for uid in sorted(claim.uids):
                    self._give(uid, name, now, epoch=now + self._epoch)
        self._out += self.taking.look_again(now)
        self._out += self.giving.again(now)

    def _overdue(self, pending: Pending, now: float) -> None:
        if pending.missing == 0 and now < pending.deadline + PATIENCE:
            self._waits.set(pending.claim, pending.deadline + PATIENCE)
            return
        if pending.missing == 0:
            self._fail(pending, ClaimCode.WRITE_UNKNOWN, "the API server has not answered in time")
            return
        code = ClaimCode.DEADLINE_EXCEEDED if pending.asked.wait_seconds > 0 else ClaimCode.NO_IDLE_POD
        self._fail(pending, code)

    def _settle(self, now: float) -> None:
        while self.state.changed or self.state.dirty:
            for name in list(self.state.changed):
                del self.state.changed[name]
                self._look_after(name, now)
            self._pair(now)
        self._out += self.taking.send(now)

    def _pair(self, now: float) -> None:
        while self.state.dirty:
            key = next(iter(self.state.dirty))
            del self.state.dirty[key]
            pool = self.state.pools.get(key)
            if pool is not None and len(pool.line) and len(pool.supply) and not self._is_stopping:
                self._pair_pool(pool, now)

    def _pair_pool(self, pool: PoolState, now: float) -> None:
        for waiter, pods in pair(pool):
            pending = self.requests.pending[waiter.request]
            lease = pending.asked.lease_seconds or pool.pool.lease_seconds
            self.taking.pair(pending, pods, now + self._epoch + lease, now)

    # -- proof ----------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError that names the violation."""
        self.state.validate()
        self.requests.validate()
        self.taking.validate()
        assert not self.state.changed
        assert not self.state.dirty, f"not settled: {list(self.state.dirty)}"
        for name, pending in self.requests.pending.items():
            line = self.state.pools[pending.asked.pool].line
            assert (name in line) == (pending.missing > 0), f"{name} lacks {pending.missing} pods"
            assert name in self._waits, f"{name} will wait for ever"
        for key, pool in self.state.pools.items():
            found = next(pair(pool), None)
            assert found is None or self._is_stopping, f"{key}: {found} could be served"
        for name in self.state.claims:
            assert name in self.requests.pending or name in self._leases, f"{name} will never end"
