"""The engine of claims. The package's docstring has the states of a claim and the promises.

    informers   PodSeen PodGone NodeSeen NodeGone --+
    callers     ClaimAsked CallerGone ReleaseAsked --+--> handle --> Answered
    reports     PodTaken PodLooked PodGivenBack -----+               TakePod LookAtPod GivePodBack
    timer       Ticked -----------------------------+

After each event, the engine pairs idle pods with waiting requests in every pool that has changed, and sends as many
writes as the window allows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from extender.claims import images, views
from extender.claims.admission import MOST_DEMANDS, refusal
from extender.claims.advancing import AdvancingPods
from extender.claims.codes import ClaimCode
from extender.claims.creating import CreatingPods, NotCreated, Result
from extender.claims.events import (
    Answered,
    CallerGone,
    ClaimAsked,
    ClaimEvent,
    ClaimInstruction,
    MembersSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PodsListed,
    PoolsConfigured,
    ReleaseAsked,
    RenewAsked,
    ShutdownAsked,
    Synced,
    Ticked,
)
from extender.claims.giving import GivingPods
from extender.claims.keyed import KeyedRequests, Step
from extender.claims.keys import Key
from extender.claims.orphans import Orphans
from extender.claims.pairing import Choose, at_once, pair
from extender.claims.records import Demand, OnEmpty, Order, Phase, PoolKey, WarmPod
from extender.claims.renewing import RenewingClaims
from extender.claims.requests import Pending, Requests
from extender.claims.scores import Score, Scores
from extender.claims.state import Claim, ClaimState, PoolState, Recent
from extender.claims.taking import End, Refused, Taken, TakingPods
from extender.claims.views import ClaimView, PoolSnapshot
from extender.claims.window import Window
from extender.claims.writes.advance import PodAdvanced
from extender.claims.writes.create import PodCreated
from extender.claims.writes.give import PodGivenBack
from extender.claims.writes.look import PodLooked
from extender.claims.writes.renew import PodRenewed
from extender.claims.writes.take import PodTaken
from extender.core.deadlines import Deadlines, first_of

#: Seconds that a request whose pods are being written may outlast its deadline.
PATIENCE = 5.0
#: Seconds between two audits, which run while requests wait.
AUDIT = 30.0
#: Seconds by which a server acts later on another server's claim for each server that ranks before it: at the end of a
#: lease, and when a pod has not started in time.
_LATE = 10.0
#: The lease of a renewal, in seconds, if the caller gives none and the claim's pool was removed.
_LEASE = 3600.0
#: Seconds between two tries to give back the pods of a claim whose lease has expired, or that have not started.
_AGAIN = 30.0
#: Every claim needs these, and Python 3.11 takes as long for an attribute of an enum as for a call.
_FAIL, _COLD, _SCORE, _CLAIMED = OnEmpty.FAIL, OnEmpty.COLD, Order.SCORE, ClaimCode.CLAIMED


class ClaimEngine:
    """An `Engine` of `extender.core.engine`. `epoch`: seconds since 1970 when the engine's clock was 0. `window`: how
    many writes may be in flight at first. `score`: see `Scores`; `orphan_seconds`: see `Orphans`; `shares`: other
    servers may serve the same pools, and have claims with the same keys: see `keyed`."""

    def __init__(
        self,
        *,
        epoch: float = 0.0,
        window: float = 64.0,
        score: Score | None = None,
        orphan_seconds: float = 3600.0,
        shares: bool = False,
    ) -> None:
        self.sequence = 0
        self.term: int | None = 0
        self.state = ClaimState()
        self.requests = Requests()
        self.window = Window(window)
        self.scores = Scores(score)
        self.taking = TakingPods(self.state, self.window, epoch)
        self.giving = GivingPods(self.state, self._given)
        self.renewing = RenewingClaims(self.state, epoch, shares=shares)
        self.members = self.state.members
        self.advancing = AdvancingPods(self.state, self.members, self._is_ours)
        self.creating = CreatingPods(self.state)
        self.orphans = Orphans(self.state, orphan_seconds)
        self.keyed = KeyedRequests(self.state, self.requests, self, epoch) if shares else None
        #: The safety net: when the next audit runs, and what audits have found. Tests require that to be nothing.
        self._audits: Deadlines[str] = Deadlines(self.state.alarm)
        self.missed: Counter[str] = Counter()
        #: When pods that have not started by then are given back, by UID.
        self._starts: Deadlines[str] = Deadlines(self.state.alarm)
        self._epoch = epoch
        self._is_synced = False
        self._is_stopping = False
        #: When requests stop waiting, by claim.
        self._waits: Deadlines[str] = Deadlines(self.state.alarm)
        #: When leases expire, by claim.
        self._leases: Deadlines[str] = Deadlines(self.state.alarm)
        #: The namespaces whose pods are known.
        self._listed: set[str] = set()
        #: The UIDs of the pods of each claim that this engine granted. Other pods with its mark are given back.
        self._granted: dict[str, frozenset[str]] = {}
        #: This server's claims that failed or have ended: a late write must not restore them.
        self._over = Recent()
        #: How many claims ended because a container restarted.
        self.restarted = 0
        #: For each claim that is being released: the calls that wait, and the pods that are not given back yet.
        self._releases: dict[str, tuple[dict[str, None], set[str]]] = {}
        self._out: list[ClaimInstruction] = []
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            PodsListed: self._pods_listed,
            NodeSeen: lambda event, _: self.state.serve(event.name, event.serves),
            NodeGone: lambda event, _: self.state.serve(event.name, None),
            PoolsConfigured: self._configured,
            MembersSeen: self._members_seen,
            Synced: self._synced,
            ClaimAsked: self._asked,
            CallerGone: self._caller_gone,
            ReleaseAsked: self._release_asked,
            RenewAsked: self._renew_asked,
            ShutdownAsked: self._shutdown,
            PodTaken: self._taken,
            PodLooked: self._looked,
            PodGivenBack: self._given_back,
            PodRenewed: self._renewed,
            PodAdvanced: self._advanced,
            PodCreated: self._created,
            Ticked: lambda _, __: None,
        }

    # -- the engine protocol --------------------------------------------------------------------------------------

    def handle(self, event: ClaimEvent, now: float) -> list[ClaimInstruction]:
        """Return the instructions that this event causes."""
        self.sequence += 1
        state = self.state
        state.now = now
        self._out = []
        self._handlers[type(event)](event, now)
        if state.alarm.at <= now:
            if state.alarm.reset() <= now:
                self._on_time(now)
            state.alarm.reset()
        if state.changed or state.dirty or state.between or state.orphans or state.keys_changed:
            self._settle(now)
        if self.taking.outbox:
            self._out += self.taking.send(now)
        return self._out

    def next_due(self) -> float | None:
        """When the next timer is due, or earlier, seconds of the engine's clock; None if there is none."""
        at = self.state.alarm.at
        return first_of(None if at == math.inf else at, self.taking.is_due())

    def missing(self) -> str:
        """Return why requests cannot be served now; "" if they can."""
        if self._is_stopping:
            return "the server is shutting down"
        return "" if self._is_synced else "the pods of the cluster are not known yet"

    # -- reading, under the lock that guards `handle` -------------------------------------------------------------

    def snapshot(self, pool: PoolKey, now: float) -> PoolSnapshot | None:
        """Return the pool at this moment; None if there is none."""
        return views.snapshot(self.state, self.requests, pool, now)

    def claim(self, name: str, now: float) -> ClaimView | None:
        """Return the claim at this moment; None if it does not exist, or has ended."""
        return views.claim(self.state, self.requests, name, now)

    def idle_rate(self, pool: PoolKey, now: float) -> float:
        """Return how many pods of the pool became idle per second, over the last five minutes."""
        found = self.state.pools.get(pool)
        return found.becoming_idle.rate(now) if found is not None else 0.0

    def claim_with_key(self, pool: PoolKey, tenant: str, key: str) -> str:
        """Return the name of the claim with this key, pending ones included; "" if there is none."""
        return next(iter(self.claims_with_key(pool, tenant, key)), "")

    def claims_with_key(self, pool: PoolKey, tenant: str, key: str) -> list[str]:
        """Return the names of all claims with this key: a pending one first. Several, while servers decide between
        them."""
        pending = self.requests.claim_with_key(pool, tenant, key)
        names = dict.fromkeys([pending] if pending else [])
        names.update(dict.fromkeys(reversed(self.state.keys.get((pool, tenant, key), {}))))
        return list(names)

    def claims(self, pool: PoolKey, after: str = "", most: int = 100) -> list[str]:
        """Return the names of the pool's claims in order, pending ones included: the first `most` after this name."""
        return views.claims(self.state, self.requests, pool, after, most)

    # -- the cluster ----------------------------------------------------------------------------------------------

    def _pod_seen(self, event: PodSeen, now: float) -> None:
        if self.keyed is not None:
            self.keyed.order.seen(event.pod, is_listed=event.is_listed)
        if self.state.see(event.pod):
            self._observed(event.pod.uid, now)

    def _pods_listed(self, event: PodsListed, _now: float) -> None:
        if event.namespace not in self._listed:
            self._listed.add(event.namespace)
            for name, claim in self.state.claims.items():
                if claim.pool.namespace == event.namespace:
                    self._leases.discard(name)
                    self.state.changed[name] = None
        if self.keyed is not None:
            self.keyed.order.listed(event.namespace)

    def _pod_gone(self, event: PodGone, now: float) -> None:
        if self.keyed is not None:
            self.keyed.order.gone(event.uid)
        self.state.lose(event.uid)
        self._observed(event.uid, now)

    def _observed(self, uid: str, now: float) -> None:
        if self.state.ledger.holder(uid) is not None:
            self._settle_taking(self.taking.seen(uid))
            self.giving.seen(uid)
        self._out += self.renewing.seen(uid, now)
        if self.keyed is not None:
            self.keyed.acknowledging.seen(uid, now)

    def _configured(self, event: PoolsConfigured, _now: float) -> None:
        for left in self.state.configure(event.pools):
            for waiter in left.queue.waiters():
                left.queue.remove(waiter.request)
        for pending in list(self.requests.pending.values()):
            if pending.asked.pool not in self.state.pools:
                self._fail(pending, ClaimCode.UNKNOWN_POOL, "the pool was removed")

    def _synced(self, _: Synced, _now: float) -> None:
        self._is_synced = True
        for pool in self.state.pools.values():
            pool.becoming_idle.clear()  # pods of the first list did not become idle just now
        for key in self.state.pools:
            self.state.dirty[key] = None

    # -- requests for pods ----------------------------------------------------------------------------------------

    def _asked(self, asked: ClaimAsked, now: float) -> None:
        if asked.key and self._repeats(asked, now):
            return
        unfinished = self._claim_with_key(asked, now) if asked.key and self.keyed is None else None
        if unfinished is not None:
            asked = msgspec.structs.replace(asked, claim=unfinished.name)
        if asked.on_empty is _FAIL:
            asked = msgspec.structs.replace(asked, wait_seconds=0.0)
        if asked.images:
            needed = Demand(asked.demand.labels, tuple(name for name, _ in asked.images))
            asked = msgspec.structs.replace(asked, demand=needed)
        refused = self._refusal(asked, is_resumed=unfinished is not None)
        if refused is not None:
            code, detail = refused
            after = 1.0 if code.status == 429 else 0.0
            known = asked.pool if asked.pool in self.state.pools else None
            self._out.append(self.requests.refuse(asked.request, code, detail, after, known))
            return
        pool = self.state.pools[asked.pool]
        pending = self.requests.accept(asked, now)
        self._waits.set(asked.claim, pending.deadline)
        if self.keyed is not None and asked.key and self.keyed.is_taken(_key(asked)):
            pending.is_parked = True
            self._out += self.keyed.look(_key(asked), now)
            return
        self._track(pool, asked.demand)
        passes = unfinished is None and self._choose(pool) is None
        if passes and (pods := at_once(pool, asked.tenant, asked.demand, asked.count)):
            self._take(pool, pending, pods, now)
            return
        self._serve(pending, pool, now, is_resumed=unfinished is not None)

    def _serve(self, pending: Pending, pool: PoolState, now: float, *, is_resumed: bool = False) -> None:
        """Put a request in the queue, and give it what there is."""
        asked = pending.asked
        pool.queue.add(pending.waiter())
        self.state.dirty[asked.pool] = None
        self._begin_audits(now)
        # If wait_seconds is 0, the deadline is now: pair before deadlines are checked.
        if is_resumed:
            self._look_after(asked.claim, now)
        self._pair(now)
        if asked.on_empty is _COLD and asked.claim in self.requests.pending and pending.missing:
            self._create(pending, pool, now)

    def _create(self, pending: Pending, pool: PoolState, now: float) -> None:
        """Create the pods that the request lacks, if its tenant's limit allows them."""
        asked, limit = pending.asked, pool.pool.max_pods_per_tenant
        if limit and pool.pods_of_tenant.get(asked.tenant, 0) + pending.missing > limit:
            return
        pending.is_cold = True
        pending.deadline = now + max(asked.wait_seconds, pool.pool.start_seconds)
        self._waits.set(asked.claim, pending.deadline)
        lease = asked.lease_seconds or pool.pool.lease_seconds
        expires = now + self._epoch + pool.pool.start_seconds + lease
        self._out += self.creating.create(pending, pool, expires, now)

    def _repeats(self, asked: ClaimAsked, now: float) -> bool:
        """Whether the key belongs to an earlier request. If so, this call gets the same answer, or KEY_REUSED."""
        pending = self.requests.with_key(_key(asked))
        claim = None if pending is not None else self._claim_with_key(asked, now)
        if pending is None and claim is None:
            return False
        if self.keyed is None and claim is not None and claim.digest == asked.digest and not self._is_complete(claim):
            return False  # its server died before it had all pods: this call continues the claim
        digest = pending.asked.digest if pending is not None else claim.digest if claim is not None else ""
        if digest != asked.digest:
            detail = "key: expected the same body as when this key was first used"
            known = asked.pool if asked.pool in self.state.pools else None
            self._out.append(self.requests.refuse(asked.request, ClaimCode.KEY_REUSED, detail, pool=known))
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

    def _claim_with_key(self, asked: ClaimAsked, now: float) -> Claim | None:
        """Return the claim with the key, if this call can be answered from it, or continues it."""
        if self.keyed is not None:
            step, claim = self.keyed.decide(_key(asked), asked.digest, now)
            return claim if step in (Step.ANSWER, Step.REUSED) else None
        for name in reversed(self.state.keys.get(_key(asked), {})):
            claim = self.state.claims[name]
            # The pods of a claim that failed, or whose lease has expired, are being given back.
            if not claim.is_ending and name not in self._over and claim.expires > now + self._epoch:
                return claim
        return None

    def _is_complete(self, claim: Claim) -> bool:
        pods = [self.state.pods[uid] for uid in claim.uids]
        if claim.name in self._granted:
            return True
        return claim.was_whole and not any(images.is_between(pod) or pod.is_coming for pod in pods)

    def _refusal(self, asked: ClaimAsked, *, is_resumed: bool) -> tuple[ClaimCode, str] | None:
        if self._is_stopping:
            return ClaimCode.SHUTTING_DOWN, self.missing()
        if not self._is_synced:
            return ClaimCode.NOT_READY, self.missing()
        state = self.state.pools.get(asked.pool)
        if state is None:
            return ClaimCode.UNKNOWN_POOL, f"there is no pool {asked.pool}"
        if not is_resumed and (asked.claim in self.requests.pending or asked.claim in self.state.claims):
            return ClaimCode.KEY_REUSED, f"claim: {asked.claim} exists"
        return refusal(asked, state, self.creating, self.requests.bytes)

    @staticmethod
    def _track(pool: PoolState, demand: Demand) -> None:
        """Index the pods that fit this demand. At the limit, it replaces a demand that no waiting request has."""
        if pool.supply.is_tracked(demand):
            return
        tracked = pool.supply.tracked()
        if len(tracked) >= MOST_DEMANDS:
            # Requests that return to the queue were not checked against the limit, so it may be exceeded.
            unused = (each for each in tracked if not pool.queue.has(each))
            for each in islice(unused, len(tracked) - MOST_DEMANDS + 1):
                pool.supply.untrack(each)
        pool.supply.track(demand)

    @property
    def is_settled(self) -> bool:
        """Whether no pod is being claimed or given back, as far as this server's own writes go."""
        return not self.taking.in_flight and not self.giving.has_unsent

    def _caller_gone(self, event: CallerGone, _now: float) -> None:
        self.renewing.leave(event.request)
        pending = self.requests.leave(event.request)
        if pending is not None:
            self._fail(pending, ClaimCode.CANCELLED)

    def _shutdown(self, _: ShutdownAsked, _now: float) -> None:
        self._is_stopping = True
        for pending in list(self.requests.pending.values()):
            self._fail(pending, ClaimCode.SHUTTING_DOWN)

    def _fail(self, pending: Pending, code: ClaimCode, detail: str = "") -> None:
        """End the request without pods. The pods that it has are given back, and those being written later."""
        self._waits.discard(pending.claim)
        self._out += self.requests.end(pending, code, detail=detail)
        self._let_go(pending)

    def _let_go(self, pending: Pending) -> None:
        """Give back the pods that a request has, and those that are being written for it."""
        pool = self.state.pools.get(pending.asked.pool)
        if pool is not None:
            pool.queue.remove(pending.claim)
            if pending.writing or pending.pods:
                pool.queue.charge(pending.asked.tenant, -len(pending.writing) - len(pending.pods))
            self.state.dirty[pending.asked.pool] = None
        self.state.ended.add(pending.claim)
        self._over.add(pending.claim)
        self.state.changed[pending.claim] = None
        self.creating.abandon(pending.claim)
        for token in list(pending.writing):
            self.taking.abandon(token)

    # -- what requests with keys need (keyed.Host) ----------------------------------------------------------------

    def park(self, pending: Pending) -> None:
        if pending.pods or pending.writing or pending.is_cold:
            self._let_go(pending)
            pending.pods.clear()
            pending.writing.clear()
            pending.is_cold = False
        else:
            self.state.pools[pending.asked.pool].queue.remove(pending.claim)
            self.state.dirty[pending.asked.pool] = None  # pods may have been kept for it
        pending.is_parked = True
        self._waits.set(pending.claim, pending.deadline)

    def begin(self, pending: Pending, claim: str, now: float) -> None:
        pending.is_parked = False
        self._waits.discard(pending.claim)
        self.requests.rename(pending, claim)
        self._waits.set(claim, pending.deadline)
        pool = self.state.pools[pending.asked.pool]
        self._track(pool, pending.asked.demand)
        self._serve(pending, pool, now)

    def fail(self, pending: Pending, code: ClaimCode, detail: str) -> None:
        self._fail(pending, code, detail)

    def answer_from(self, pending: Pending, claim: Claim, pods: tuple[WarmPod, ...]) -> None:
        self._waits.discard(pending.claim)
        self._out += self.requests.end(pending, ClaimCode.CLAIMED, claim.name, pods=pods, expires=claim.expires)

    def answer_if_complete(self, pending: Pending) -> None:
        self._claimed_if_complete(pending)

    def end_lease(self, claim: Claim, now: float) -> None:
        self._leases.set(claim.name, now)

    def has_granted(self, claim: str) -> bool:
        return claim in self._granted

    def is_over(self, claim: str) -> bool:
        return claim in self._over

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
        self._out += self.renewing.looked(report, now)
        self._out += self.advancing.looked(report, now)
        if self.keyed is not None:
            self._out += self.keyed.acknowledging.looked(report, now)
        self._settle_creating(self.creating.looked(report, now))

    def _created(self, report: PodCreated, now: float) -> None:
        self._settle_creating(self.creating.created(report, now))

    def _settle_creating(self, results: list[Result]) -> None:
        for each in results:
            if not isinstance(each, NotCreated):
                self._out.append(each)
            elif (pending := self.requests.pending.get(each.claim)) is not None:
                self._fail(pending, ClaimCode.WRITE_REFUSED, f"a pod could not be created: {each.detail}")

    def _advanced(self, report: PodAdvanced, now: float) -> None:
        self._out += self.advancing.advanced(report, now)

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
            self._claimed_if_complete(pending)
            return
        if isinstance(end, Refused):
            self._out_of(pending, 1)
            self._fail(pending, ClaimCode.WRITE_REFUSED, end.detail)
            return
        self._out_of(pending, 1)
        self._line_up(pending)

    def _out_of(self, pending: Pending, pods: int) -> None:
        """Refund the tenant for pods that the request has lost."""
        pool = self.state.pools.get(pending.asked.pool)
        if pool is not None:
            pool.queue.charge(pending.asked.tenant, -pods)

    def _line_up(self, pending: Pending) -> None:
        """Queue the request again, at the position of its seniority."""
        pool = self.state.pools[pending.asked.pool]
        pool.queue.remove(pending.claim)
        self._track(pool, pending.asked.demand)
        self._begin_audits(self.state.now)
        pool.queue.add(pending.waiter())
        self.state.dirty[pending.asked.pool] = None
        self._waits.set(pending.claim, pending.deadline)

    def _claimed_if_complete(self, pending: Pending) -> None:
        """Answer the request if it has all its pods, no pod's images are still changing, and no other has its key."""
        if len(pending.pods) != pending.asked.count or any(map(images.is_between, pending.pods.values())):
            return
        if self.keyed is None or not pending.asked.key or self.keyed.is_first(pending):
            self._claimed(pending)

    def _claimed(self, pending: Pending) -> None:
        claim, pods = pending.asked.claim, tuple(pending.pods.values())
        self._waits.discard(claim)
        self._granted[claim] = frozenset(pending.pods)
        self.state.changed[claim] = None
        expires = min([pod.mark.expires for pod in pods if pod.mark is not None])
        if pending.is_cold:
            self.creating.abandon(claim)
        self._out += self.requests.end(pending, _CLAIMED, pods=pods, expires=expires)

    # -- claims that exist ----------------------------------------------------------------------------------------

    def _claim_for(self, event: ReleaseAsked | RenewAsked) -> Claim | None:
        """Return the claim of this call; None if the call could be answered without it."""
        claim = self.state.claims.get(event.claim)
        # A claim that failed may still have a pod that is being given back.
        if claim is None or event.claim in self._over or event.claim in self.requests.pending:
            ended = event.claim in self.state.ended
            code = ClaimCode.CLAIM_ENDED if ended else ClaimCode.UNKNOWN_CLAIM
            self._out.append(Answered(request=event.request, code=code, claim=event.claim))
            return None
        if event.tenant is not None and event.tenant != claim.tenant:
            self._out.append(Answered(request=event.request, code=ClaimCode.NOT_YOURS, claim=event.claim))
            return None
        return claim

    def _release_asked(self, event: ReleaseAsked, _now: float) -> None:
        pending = self.requests.find(event.claim)
        if pending is not None and event.tenant in (None, pending.asked.tenant):
            self._fail(pending, ClaimCode.CANCELLED, "the claim was released while its request waited")
            self._out.append(Answered(request=event.request, code=ClaimCode.RELEASED, claim=event.claim))
            return
        claim = self._claim_for(event)
        if claim is not None:
            callers, _ = self._releases.setdefault(claim.name, ({}, set(claim.uids)))
            callers[event.request] = None
            claim.is_ending = True
            self.state.changed[claim.name] = None

    def _renew_asked(self, event: RenewAsked, now: float) -> None:
        claim = self._claim_for(event)
        if claim is None:
            return
        if claim.is_ending or now + self._epoch >= claim.expires:
            self._out.append(Answered(request=event.request, code=ClaimCode.CLAIM_ENDED, claim=claim.name))
            return
        pool = self.state.pools.get(claim.pool)
        seconds = event.lease_seconds or (pool.pool.lease_seconds if pool is not None else _LEASE)
        self._out += self.renewing.ask(claim, event.request, seconds, now, may_shorten=event.shorten)

    def _renewed(self, report: PodRenewed, now: float) -> None:
        self._out += self.renewing.written(report, now)
        if self.keyed is not None:
            self._out += self.keyed.acknowledging.written(report, now)

    def _given_back(self, report: PodGivenBack, now: float) -> None:
        self.giving.given(report, now)
        self.orphans.given(report)

    def _given(self, claim: str, uid: str) -> None:
        self.state.changed[claim] = None
        if claim in self.giving.unknown:
            self._over.add(claim)
        release = self._releases.get(claim)
        if release is None:
            return
        callers, left = release
        left.discard(uid)
        if not left:
            del self._releases[claim]
            self._out += [Answered(request=each, code=ClaimCode.RELEASED, claim=claim) for each in callers]

    def _look_after(self, name: str, now: float) -> None:
        """Check a claim whose pods have changed: give back pods beyond its size, and all of them if it has ended."""
        claim = self.state.claims.get(name)
        pending = self._collecting(name)
        if pending is not None:
            self._drop_lost(pending)
        if claim is None:
            self._claim_is_gone(name)
            return
        if name in self._over and self._is_known_elsewhere(claim):
            self._over.discard(name)
            self.state.ended.discard(name)
        if pending is not None:
            self._adopt(pending, claim)
            surplus = self._beyond(pending, claim)
            pending = self._collecting(name)
        elif name in self._granted:
            surplus = claim.uids - self._granted[name]
        else:
            # A claim of another server, or from before a restart; or one that failed while a write was in flight.
            surplus = set(claim.uids) if name in self._over else set()
        if pending is None:
            if not claim.is_ending:
                self._end_if_restarted(claim)
            self._set_lease(claim, now)
        leaving = claim.uids if claim.is_ending else surplus
        if leaving:
            # Nobody was answered with the claim of a request that failed: another server may be about to.
            is_guarded = self.keyed is not None and bool(claim.key) and not claim.is_ending and name in self._over
            for uid in sorted(leaving):
                self._give(uid, name, now, unless_known=is_guarded and name not in self.giving.unknown)

    def _claim_is_gone(self, name: str) -> None:
        """Finish a claim without pods."""
        if not any(self.state.is_orphan(uid) for uid in self._granted.get(name, ())):
            self._leases.discard(name)
            if self._granted.pop(name, None) is not None:
                self._over.add(name)
        # else: the mark of a pod cannot be decoded, but may be repaired
        self._finish_release(name)

    def _beyond(self, pending: Pending, claim: Claim) -> set[str]:
        """Return the pods of the claim that its request does not want."""
        surplus = claim.uids - set(pending.pods) - set(pending.writing.values())
        if pending.asked.on_empty is _COLD:  # created pods are kept until the other pods are written
            surplus -= {uid for uid in surplus if (mark := self.state.pods[uid].mark) is not None and mark.is_cold}
        return surplus

    def _set_lease(self, claim: Claim, now: float) -> None:
        """Set the timer for the end of the claim's lease."""
        name, ends = claim.name, claim.expires - self._epoch
        if name not in self._granted:  # the server that granted the claim ends it; the others act later, by rank
            ends += _LATE * self.members.rank(min(claim.uids))
        if ends > now or name not in self._leases:
            # Before all pods are known, a pod that is not known yet may keep the claim: `_pods_listed` sets this again.
            is_known = claim.pool.namespace in self._listed
            self._leases.set(name, max(ends, now if is_known else now + _AGAIN))

    def _collecting(self, name: str) -> Pending | None:
        """The pending request that wants this claim's pods."""
        pending = self.requests.pending.get(name)
        return None if pending is None or pending.is_parked else pending

    def _is_known_elsewhere(self, claim: Claim) -> bool:
        """Whether another server answers from the claim, whose request failed here."""
        if self.keyed is None or claim.is_ending or claim.name in self.giving.unknown:
            return False
        return any(mark is not None and mark.is_known for uid in claim.uids if (mark := self.state.pods[uid].mark))

    def _end_if_restarted(self, claim: Claim) -> None:
        """End the claim if a container whose image it chose has restarted, because the work in it is lost."""
        for uid in claim.uids:
            pod = self.state.pods[uid]
            if pod.mark is None or not pod.mark.running or not images.was_restarted(pod, pod.mark):
                continue
            pool = self.state.pools.get(claim.pool)
            is_first = claim.name in self._granted or not self.members.rank(uid)
            if is_first and pool is not None and pool.pool.ends_on_restart:
                claim.is_ending = True
                self.restarted += 1
                return

    def _drop_lost(self, pending: Pending) -> None:
        """Remove deleted and lost pods from a pending request, and queue it again for others."""
        for uid in list(pending.pods):
            pod = self.state.pods.get(uid)
            if pod is None or pod.is_terminating or pod.mark is None or pod.mark.claim != pending.claim:
                del pending.pods[uid]
                self._out_of(pending, 1)
                self._line_up(pending)

    def _adopt(self, pending: Pending, claim: Claim) -> None:
        """Add pods to the request that bear its mark although their writes were given up: they succeeded late."""
        for uid in sorted(claim.uids - set(pending.pods) - set(pending.writing.values())):
            pod = self.state.pods[uid]
            if pending.missing and not pod.is_terminating and not pod.is_coming:
                pending.pods[uid] = pod
                self._out_of(pending, -1)
                self.state.pools[pending.asked.pool].queue.remove(pending.claim)
                if pending.missing:
                    self._line_up(pending)
        for uid in pending.pods:
            pending.pods[uid] = self.state.pods.get(uid, pending.pods[uid])
        self._claimed_if_complete(pending)

    def _finish_release(self, name: str) -> None:
        _, left = self._releases.get(name, ({}, set()))
        if any(self.giving.is_giving(uid) and self.state.is_orphan(uid) for uid in left):
            return  # its mark cannot be decoded, and it is still being given back
        callers, _ = self._releases.pop(name, ({}, set()))
        self._out += [Answered(request=each, code=ClaimCode.RELEASED, claim=name) for each in callers]

    def _give(
        self,
        uid: str,
        claim: str,
        now: float,
        *,
        epoch: float | None = None,
        must_start: bool = False,
        unless_known: bool = False,
    ) -> None:
        pod = self.state.pods[uid]
        if pod.is_terminating:
            return
        if self.state.ledger.holder(uid) is not None and not self.giving.is_giving(uid):
            return  # it is being written for another claim; when that ends, this claim is looked at again
        self._out += self.giving.give(pod, claim, now, epoch=epoch, must_start=must_start, unless_known=unless_known)

    # -- time and what follows ------------------------------------------------------------------------------------

    def _on_time(self, now: float) -> None:
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
        self._out += self.renewing.again(now)
        if self.keyed is not None:
            self._out += self.keyed.acknowledging.again(now)
        self._out += self.advancing.again(now)
        self._settle_creating(self.creating.again(now))
        self.state.ripen()
        self._out += self.orphans.due(now)
        if self._audits.pop(now) is not None:
            self._audit(now)
        while (late := self._starts.pop(now)) is not None:
            self._not_started(late, now)

    def _begin_audits(self, now: float) -> None:
        if "audit" not in self._audits:
            self._audits.set("audit", now + AUDIT)

    def _audit(self, now: float) -> None:
        """Find and repair what an earlier event should have done. Counts it in `missed`."""
        waiting = [pool for pool in self.state.pools.values() if len(pool.queue) and not self._is_stopping]
        for pool in waiting:
            for uid in self.state.missed(pool):
                self.missed["pod"] += 1
                self.state.offer(uid)
            if pool.pool.key not in self.state.dirty and next(pair(pool, None), None) is not None:
                self.missed["pair"] += 1
                self.state.dirty[pool.pool.key] = None
        if waiting:
            self._audits.set("audit", now + AUDIT)

    def _overdue(self, pending: Pending, now: float) -> None:
        starting = [pod.mark.starts_by for pod in pending.pods.values() if pod.mark is not None]
        starts_by = max(starting, default=0.0) - self._epoch
        patience = max(pending.deadline + PATIENCE, starts_by)
        if pending.missing == 0 and now < patience:
            self._waits.set(pending.claim, patience)
            return
        if pending.is_parked:
            self._fail(pending, ClaimCode.KEY_BUSY, "another claim with this key is not decided yet")
            return
        if self._waits_for_watch(pending):
            self._fail(pending, ClaimCode.KEY_BUSY, "the watch of the pods has not shown the claim in time")
            return
        if pending.missing == 0 and not pending.writing:
            detail = "a pod did not run the claim's images in time: " + images.describe_missing(pending.pods.values())
            self._fail(pending, ClaimCode.START_TIMEOUT, detail)
            return
        if pending.missing == 0:
            self._fail(pending, ClaimCode.WRITE_UNKNOWN, "the API server did not answer in time")
            return
        if pending.is_cold:
            detail = "no pod that was created for the claim became ready in time, and no other pod became idle"
            self._fail(pending, ClaimCode.START_TIMEOUT, detail)
            return
        waited = pending.asked.wait_seconds > 0
        code = ClaimCode.DEADLINE_EXCEEDED if waited else ClaimCode.NO_IDLE_POD
        pool = self.state.pools.get(pending.asked.pool)
        why = f": {views.why_waits(pool, pending)}" if pool is not None else ""
        self._fail(
            pending, code, ("the request waited until its deadline" if waited else "the request does not wait") + why
        )

    def _waits_for_watch(self, pending: Pending) -> bool:
        """Whether all that is missing is that the watch shows the claim."""
        is_complete = len(pending.pods) == pending.asked.count
        return is_complete and not any(map(images.is_between, pending.pods.values()))

    def _is_ours(self, claim: str) -> bool:
        return self._collecting(claim) is not None

    def _watch_start(self, uid: str, now: float) -> None:
        """Set the timer after which a pod that has not started is given back, later by this server's rank."""
        pod = self.state.pods.get(uid)
        if pod is None or pod.mark is None or pod.phase != Phase.STARTING or pod.is_terminating:
            self._starts.discard(uid)
        elif uid not in self._starts:
            late = _LATE * (1 + self.members.rank(uid))
            self._starts.set(uid, max(pod.mark.starts_by - self._epoch + late, now))

    def _not_started(self, uid: str, now: float) -> None:
        pod = self.state.pods.get(uid)
        if pod is None or pod.mark is None or pod.phase != Phase.STARTING:
            return  # that is the news of this very event
        if self._collecting(pod.mark.claim) is None:
            self._give(uid, pod.mark.claim, now, must_start=True)
        self._starts.set(uid, now + _AGAIN)

    def _members_seen(self, event: MembersSeen, now: float) -> None:
        if self.members.set(event.names, event.me):
            self.state.rank_again()
            self._out += self.advancing.members_changed(now)

    def _settle(self, now: float) -> None:
        if self.state.orphans:
            self.orphans.seen(now)
        state = self.state
        while state.changed or state.dirty or state.between or state.keys_changed:
            if state.between:
                for uid in list(state.between):
                    del state.between[uid]
                    self._out += self.advancing.seen(uid, now)
                    self._watch_start(uid, now)
            if state.changed:
                for name in list(state.changed):
                    del state.changed[name]
                    self._look_after(name, now)
            if state.keys_changed:
                for key in list(state.keys_changed):
                    del state.keys_changed[key]
                    if self.keyed is not None:
                        self._out += self.keyed.look(key, now)
            if state.dirty:
                self._pair(now)

    def _pair(self, now: float) -> None:
        while self.state.dirty:
            key = next(iter(self.state.dirty))
            del self.state.dirty[key]
            pool = self.state.pools.get(key)
            if pool is not None and len(pool.queue) and len(pool.supply) and not self._is_stopping:
                self._pair_pool(pool, now)

    def _choose(self, pool: PoolState) -> Choose | None:
        if pool.pool.order is not _SCORE or not self.scores:
            return None
        return lambda waiter, kept: self.scores.choose(
            pool.supply, self.requests.pending[waiter.request].asked, waiter.pods, kept
        )

    def _pair_pool(self, pool: PoolState, now: float) -> None:
        for waiter, pods in pair(pool, self._choose(pool)):
            self._take(pool, self.requests.pending[waiter.request], pods, now)

    def _take(self, pool: PoolState, pending: Pending, pods: list[WarmPod], now: float) -> None:
        lease = pending.asked.lease_seconds or pool.pool.lease_seconds
        pool.last_dispatch = now
        self.taking.pair(pool, pending, pods, now + self._epoch + lease, now)

    # -- proof ----------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check every invariant. Raise AssertionError, which names the violation."""
        self.state.validate()
        self.requests.validate()
        self.taking.validate()
        self.giving.validate()
        self.renewing.validate()
        self.advancing.validate()
        if self.keyed is not None:
            self.keyed.order.validate()
            self.keyed.acknowledging.validate()
        assert not self.state.keys_changed
        assert not self.state.changed
        assert not self.state.between
        assert not self.state.dirty, f"not settled: {list(self.state.dirty)}"
        for name, pending in self.requests.pending.items():
            queue = self.state.pools[pending.asked.pool].queue
            assert (name in queue) == (pending.missing > 0), f"{name} lacks {pending.missing} pods"
            assert name in self._waits, f"{name} has no deadline"
        for key, pool in self.state.pools.items():
            found = next(pair(pool, None), None)
            assert found is None or self._is_stopping, f"{key}: {found} could be served"
        for name in self.state.claims:
            assert self._collecting(name) is not None or name in self._leases, f"{name} will never end"


def _key(asked: ClaimAsked) -> Key:
    return asked.pool, asked.tenant, asked.key
