"""The pools of warm pods, for the page: a piece with their number, then one piece for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

import msgspec

from extender.claims.codes import ClaimCode
from extender.claims.views import PoolSnapshot, TenantView
from extender.server.claims.answers import Latency
from extender.server.claims.past import PoolSample, coming
from extender.server.claims.service import ClaimService

#: How many pools are shown, the busiest first; and how many tenants of each: first those that wait longest, then those
#: with most pods.
SHOWN, TENANTS = 200, 20


def pool_pieces(service: ClaimService) -> Iterator[bytes]:
    """Yield the pieces of a server of claims."""
    found = list(service.snapshots())
    busiest = nlargest(SHOWN, found, key=lambda each: (each.pending, each.claimed, each.key))
    totals = [sum(each) for each in zip(*((p.idle, p.claimed, coming(p), p.pending) for p in found), strict=True)]
    waiting = len(service.pools()) - len(found)
    yield msgspec.json.encode(
        {"poolCount": len(found), "poolsUnknown": max(0, waiting), "poolTotals": totals or [0] * 4}
    )
    for each in sorted(busiest, key=lambda each: each.key):
        latency, past = service.runtime.answer_times.latency(each.key), service.past.of(each.key)
        yield msgspec.json.encode({"pool": _pool(each, latency, past)})


def _pool(found: PoolSnapshot, latency: Latency, past: Sequence[PoolSample]) -> dict[str, Any]:
    return {
        "namespace": found.key.namespace,
        "name": found.key.name,
        "mode": found.mode.value,
        "idle": found.idle,
        "inFlight": found.in_flight,
        "claimed": found.claimed,
        "coming": coming(found),
        "leaving": found.surplus + found.terminating,
        "pending": found.pending,
        "accepted": found.accepted,
        "succeeded": found.succeeded,
        "failed": _by_code(found.failed),
        "refused": _by_code(found.refused),
        "waits": found.first_waits,
        "tenants": [_tenant(each) for each in nlargest(TENANTS, found.tenants, key=_rank)],
        "tenantCount": len(found.tenants),
        "answers": latency.answers,
        "p50": _milliseconds(latency.p50),
        "p99": _milliseconds(latency.p99),
        "past": [(int(each.at), *each[1:]) for each in past],
    }


def _rank(tenant: TenantView) -> tuple[Any, ...]:
    return tenant.waiting > 0, tenant.oldest, tenant.waiting, tenant.pods, tenant.tenant


def _tenant(each: TenantView) -> tuple[Any, ...]:
    """Return name, waiting requests, seconds that the oldest has waited, pods."""
    return each.tenant, each.waiting, int(each.oldest), each.pods


def _by_code(counts: Mapping[ClaimCode, int]) -> dict[str, int]:
    return {code.value: count for code, count in sorted(counts.items()) if count}


def _milliseconds(seconds: float) -> float:
    """Return milliseconds with two digits, so that the page is not sent again for each small change."""
    return float(f"{seconds * 1000:.2g}")
