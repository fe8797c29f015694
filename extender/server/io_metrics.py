"""Metrics of what surrounds the engine: the informers, the answers of the API server, the writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extender.core.kube_events import COUNTED, CREATED, SUPPRESSED
from extender.kube.client.bounds import Refusals
from extender.kube.informers.decisions import Decisions
from extender.kube.informers.reflector import Reflector
from extender.kube.writes.committer import Committer
from extender.server.views import Metric


def io_metrics(
    informers: Sequence[Reflector[Any]], decisions: Decisions, refusals: Refusals, committer: Committer[Any]
) -> list[Metric]:
    """Return the metrics of all of these."""
    reflectors = [(each.name, each) for each in informers]
    return [
        Metric(
            "waggle_watch_staleness_seconds",
            "gauge",
            "Seconds since the API server was last heard of this resource (events and bookmarks).",
            [({"resource": name}, r.last_contact_age()) for name, r in reflectors],
        ),
        Metric(
            "waggle_informer_relists_total",
            "counter",
            "Complete lists that an informer has read.",
            [({"resource": name}, float(r.stats.lists)) for name, r in reflectors],
        ),
        Metric(
            "waggle_informer_undecodable_total",
            "counter",
            "Objects that could not be read, and were left out.",
            [({"resource": name}, float(r.stats.decode_errors)) for name, r in reflectors],
        ),
        Metric(
            "waggle_cache_bytes",
            "gauge",
            "Memory that the informer's records take, estimated; cluster.cache_mib bounds it.",
            [({"resource": name}, float(r.weight)) for name, r in reflectors],
        ),
        Metric(
            "waggle_decisions_bytes",
            "gauge",
            "Memory that long decisions on pods take beside waggle_cache_bytes, estimated.",
            [({}, float(decisions.weight))],
        ),
        Metric(
            "waggle_decisions_shortened",
            "gauge",
            "Pods whose decisions are longer than there is room for in their namespace, and were shortened.",
            [({}, float(decisions.shortened))],
        ),
        Metric(
            "waggle_api_answers_refused_total",
            "counter",
            "Answers of the API server that broke a bound, and were not read on; should stay 0.",
            [({"bound": bound.value}, float(count)) for bound, count in refusals.counts().items()],
        ),
        *_write_metrics(committer),
    ]


def _write_metrics(committer: Committer[Any]) -> list[Metric]:
    queue, hints, stats = committer.queue, committer.best_effort, committer.stats
    throttle = queue.throttle
    urgent, hint = {"queue": "urgent"}, {"queue": "hints"}
    return [
        Metric(
            "waggle_write_limit",
            "gauge",
            "Bindings, evictions and reads that may be under way at once; adapts to the API server.",
            [({}, throttle.limit)],
        ),
        Metric(
            "waggle_writes_in_flight",
            "gauge",
            "Requests under way.",
            [(urgent, throttle.in_flight), (hint, hints.in_flight)],
        ),
        Metric(
            "waggle_write_queue_length",
            "gauge",
            "Requests that wait for their turn.",
            [(urgent, queue.depth), (hint, hints.depth)],
        ),
        Metric(
            "waggle_write_queue_oldest_seconds",
            "gauge",
            "How long the first in the queue has waited.",
            [(urgent, queue.oldest), (hint, hints.oldest)],
        ),
        Metric(
            "waggle_write_pauses_total",
            "counter",
            "Times the API server asked for patience, or could not be reached; nothing is sent until that is over.",
            [({}, throttle.pauses)],
        ),
        Metric(
            "waggle_write_retries_total",
            "counter",
            "Requests that were certainly not carried out, and had another turn.",
            [({}, stats.retries)],
        ),
        Metric(
            "waggle_events_total",
            "counter",
            "Happenings written as new Events, by higher counts of known ones, or not since a pod has had too many.",
            [
                ({"result": "created"}, stats.hints.counts[CREATED]),
                ({"result": "counted"}, stats.hints.counts[COUNTED]),
                ({"result": "suppressed"}, stats.hints.counts[SUPPRESSED]),
            ],
        ),
        Metric(
            "waggle_hints_dropped_total",
            "counter",
            "Events and nudges not written because too many waited.",
            [({}, stats.hints.dropped)],
        ),
    ]
