"""The metrics of claims. accepted = claimed + failed (by code) + pending, at every scrape."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from extender.claims import podreader
from extender.claims.codes import ENDS
from extender.claims.engine import ClaimEngine
from extender.claims.writes.kinds import kinds
from extender.core.outcomes import OutcomeKind
from extender.kube.writes.committer import Committer
from extender.server.claims.runtime import ClaimRuntime
from extender.server.loop import LoopBusy
from extender.server.views import Metric

#: Seconds that a scrape waits for the engine.
_PATIENCE = 1.0
_Samples = list[tuple[dict[str, str], float]]


def claim_metrics(runtime: ClaimRuntime) -> list[Metric]:
    """Return the metrics of the engine of claims. While it hangs, they say that alone."""
    found = [*runtime.watchdog.metrics(), runtime.answer_times.metric()]
    with suppress(LoopBusy):
        found += runtime.look(_read, _PATIENCE)
    return found


def _read(engine: ClaimEngine, _now: float) -> list[Metric]:
    requests, state = engine.requests, engine.state
    ends: _Samples = [({"code": code.value}, float(requests.ends[code])) for code in sorted(ENDS)]
    refused: _Samples = [({"code": code.value}, float(count)) for code, count in sorted(requests.refused.items())]
    claims: Counter[str] = Counter(str(claim.pool) for claim in state.claims.values())
    idle: _Samples = []
    waiting: _Samples = []
    claimed: _Samples = []
    for key, pool in state.pools.items():
        labels = {"namespace": key.namespace, "pool": key.name}
        idle.append((labels, float(len(pool.supply))))
        waiting.append((labels, float(len(pool.queue))))
        claimed.append((labels, float(claims[str(key)])))
    return [
        Metric(
            "waggle_claims_accepted_total", "counter", "Requests for pods that were accepted.", _one(requests.accepted)
        ),
        Metric("waggle_claims_ended_total", "counter", "Accepted requests that ended, by code.", ends),
        Metric("waggle_claims_refused_total", "counter", "Requests refused on arrival, by code.", refused),
        Metric("waggle_claims_pending", "gauge", "Accepted requests without an answer.", _one(len(requests.pending))),
        Metric("waggle_pool_idle_pods", "gauge", "Pods that can be claimed now.", idle),
        Metric("waggle_pool_waiting_requests", "gauge", "Requests that wait for a pod.", waiting),
        Metric("waggle_pool_claims", "gauge", "Claims that have pods.", claimed),
        Metric(
            "waggle_claims_write_window",
            "gauge",
            "Writes that may be in flight at once.",
            _one(engine.window.size),
        ),
        Metric(
            "waggle_claims_lapsed_pods_total",
            "counter",
            "Pods given back because their lease expired.",
            _one(engine.giving.lapsed),
        ),
        Metric(
            "waggle_claims_score_failures_total",
            "counter",
            "Calls of the plug-in that scores pods which raised or gave no finite number.",
            _one(engine.scores.failures),
        ),
        Metric(
            "waggle_claims_missed_total",
            "counter",
            "Idle pods, and pairs of a pod and a request, that only the periodic audit found. Should stay 0.",
            [({"what": what}, float(engine.missed[what])) for what in ("pair", "pod")],
        ),
    ]


def write_metrics(committer: Committer[Any]) -> list[Metric]:
    """Return how the writes of claims ended."""
    known = committer.stats.outcomes
    samples: _Samples = [
        ({"write": command, "outcome": outcome.value}, float(known.get(f"{command} {outcome.value}", 0)))
        for command in sorted(each.command.__name__ for each in kinds(podreader.decode))
        for outcome in OutcomeKind
    ]
    return [
        Metric("waggle_claims_writes_total", "counter", "Writes and reads of claims, by outcome.", samples),
        Metric(
            "waggle_claims_writes_in_flight",
            "gauge",
            "Writes and reads of claims in flight.",
            _one(committer.queue.throttle.in_flight),
        ),
    ]


def _one(value: float) -> _Samples:
    return [({}, float(value))]
