"""Immutable records of the engine's pools and claims, made under the engine's lock.

A pool's snapshot takes O(waiting requests).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest
from operator import attrgetter

from extender.claims.codes import ClaimCode
from extender.claims.records import Mode, Phase, PoolKey, WarmPod
from extender.claims.requests import Counts, Pending, Requests
from extender.claims.state import ClaimState, PoolState, Presence

_SENIORITY = attrgetter("sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """One tenant of a pool: its waiting requests, for how many seconds the oldest has waited, and its pods."""

    tenant: str
    waiting: int = 0
    oldest: float = 0.0
    pods: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSnapshot:
    """A pool at one moment. Each pod is counted in one field only."""

    key: PoolKey
    mode: Mode
    #: Pods that can be claimed now.
    idle: int
    #: Pods that are being written for a request of this server.
    in_flight: int
    claimed: int
    starting: int
    stopping: int
    #: Pods that the autoscaler has marked for deletion.
    surplus: int
    terminating: int
    #: Pods that are not ready, are on a node that is not ready or is cordoned, or are reserved for other servers.
    unready: int
    #: Requests without an answer: the queued ones, and those whose pods are being written.
    pending: int
    tenants: tuple[TenantView, ...]
    #: Pods that the queued requests lack, beyond `idle` and `unready`; never below 0.
    unmet: int
    #: accepted = succeeded + failed + pending, always.
    accepted: int
    succeeded: int
    failed: Mapping[ClaimCode, int]
    #: Requests that were refused on arrival; they do not count as accepted.
    refused: Mapping[ClaimCode, int]
    #: When pods were last chosen for a request, seconds of the engine's clock; None: never.
    last_dispatch: float | None
    #: How many pods became idle per second, over the last five minutes.
    idle_rate: float
    #: Why the oldest queued request waits; "" if none waits.
    first_waits: str


class ClaimStage(StrEnum):
    """The state of a claim."""

    #: It lacks pods.
    WAITING = "waiting"
    #: Its pods are chosen, and are being written or started.
    CLAIMING = "claiming"
    CLAIMED = "claimed"
    #: Its pods are being given back.
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A claim at one moment."""

    name: str
    pool: PoolKey
    tenant: str
    stage: ClaimStage
    count: int
    #: The pods that it has so far.
    pods: tuple[WarmPod, ...] = ()
    #: When the lease ends, seconds since 1970; 0: it has not begun.
    expires: float = 0.0
    #: Its position in the queue, 1 is next; 0: it is not queued.
    position: int = 0
    #: Seconds until it is served if pods go on to become idle at the present rate; None: unknown.
    estimate: float | None = None
    #: Seconds since the request arrived; 0 for a claim that has its pods.
    age: float = 0.0


def snapshot(state: ClaimState, requests: Requests, key: PoolKey, now: float) -> PoolSnapshot | None:
    """Return the pool at this moment; None if there is none."""
    pool = state.pools.get(key)
    if pool is None:
        return None
    present, counts = state.present(key), requests.counts.get(key, Counts())
    idle, held = len(pool.supply), pool.holds
    free = present[Presence.FREE] - idle - held
    waiting = [requests.pending[each] for each in pool.queue.requests()]
    coming = present[Presence.UNREADY] + max(free, 0)
    lacking = sum(pending.missing for pending in waiting)
    return PoolSnapshot(
        key=key,
        mode=pool.pool.mode,
        idle=idle,
        in_flight=held,
        claimed=present[Presence.CLAIMED],
        starting=present[Presence.STARTING],
        stopping=present[Presence.STOPPING],
        surplus=present[Presence.SURPLUS],
        terminating=present[Presence.TERMINATING],
        unready=coming,
        pending=counts.pending,
        tenants=_tenants(pool, waiting, now),
        unmet=max(0, lacking - idle - coming),
        accepted=counts.accepted,
        succeeded=counts.ends[ClaimCode.CLAIMED],
        failed={code: number for code, number in counts.ends.items() if code is not ClaimCode.CLAIMED},
        refused=dict(counts.refused),
        last_dispatch=pool.last_dispatch,
        idle_rate=pool.becoming_idle.rate(now),
        first_waits=why_waits(pool, min(waiting, key=_SENIORITY), coming) if waiting else "",
    )


def _tenants(pool: PoolState, waiting: list[Pending], now: float) -> tuple[TenantView, ...]:
    oldest: dict[str, float] = {}
    for pending in waiting:
        tenant, asked_at = pending.asked.tenant, pending.asked_at
        if asked_at < oldest.get(tenant, math.inf):
            oldest[tenant] = asked_at
    number = pool.queue.tenants()
    return tuple(
        TenantView(
            tenant=tenant,
            waiting=number.get(tenant, 0),
            oldest=now - oldest.get(tenant, now),
            pods=pool.pods_of_tenant.get(tenant, 0),
        )
        for tenant in sorted({*number, *pool.pods_of_tenant})
    )


def why_waits(pool: PoolState, pending: Pending, coming: int | None = None) -> str:
    """Return why a queued request waits, as a sentence without a full stop. `coming`: pods that are not ready yet, if
    the sentence is to say that."""
    asked, limit = pending.asked, pool.pool.max_pods_per_tenant
    have = pool.pods_of_tenant.get(asked.tenant, 0)
    if limit and have + pending.missing > limit:
        return f"tenant {asked.tenant or '(none)'} has {have} of the {limit} pods that it may have"
    fitting = pool.supply.count(asked.demand)
    if fitting < pending.missing:
        idle = "no pod is idle" if not len(pool.supply) else f"{fitting} of {len(pool.supply)} idle pods fit"
        more = "" if coming is None else f"; {coming} more are not ready yet"
        return f"{idle}, it lacks {pending.missing}{more}"
    return "other requests in the queue come first"


def claim(state: ClaimState, requests: Requests, name: str, now: float) -> ClaimView | None:
    """Return the claim at this moment; None if it does not exist, or has ended."""
    pending = requests.find(name)
    if pending is not None:
        return _pending(state, pending, now)
    known = state.claims.get(name)
    if known is None:
        return None
    pods = tuple(state.pods[uid] for uid in sorted(known.uids))
    is_starting = any(pod.phase == Phase.STARTING for pod in pods)
    stage = ClaimStage.CLAIMING if is_starting or not known.was_whole else ClaimStage.CLAIMED
    if known.is_ending or all(pod.is_terminating for pod in pods):
        stage = ClaimStage.ENDING
    return ClaimView(
        name=name,
        pool=known.pool,
        tenant=known.tenant,
        stage=stage,
        count=known.size,
        pods=pods,
        expires=known.expires,
    )


def _pending(state: ClaimState, pending: Pending, now: float) -> ClaimView:
    asked, pool = pending.asked, state.pools[pending.asked.pool]
    position, ahead = pool.queue.place(pending.claim, now) if pending.missing else (0, 0)
    rate = pool.becoming_idle.rate(now)
    return ClaimView(
        name=pending.claim,
        pool=asked.pool,
        tenant=asked.tenant,
        stage=ClaimStage.WAITING if pending.missing else ClaimStage.CLAIMING,
        count=asked.count,
        pods=tuple(pending.pods.values()),
        position=position,
        estimate=(ahead + pending.missing) / rate if pending.missing and rate else None,
        age=now - pending.asked_at,
    )


def claims(state: ClaimState, requests: Requests, pool: PoolKey, after: str, most: int) -> list[str]:
    """Return the names of the pool's claims in order, pending ones included: the first `most` after this name."""
    names = {name for name, known in state.claims.items() if known.pool == pool and name > after}
    names.update(name for name, each in requests.pending.items() if each.asked.pool == pool and name > after)
    return nsmallest(most, names)
