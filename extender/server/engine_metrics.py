"""Metrics that each engine with a committer and several informers has: how writes ended, and what informers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extender.core.commands import CommandKind
from extender.core.kube_events import COUNTED, CREATED, SUPPRESSED
from extender.core.outcomes import OutcomeKind
from extender.kube.writes.committer import Committer
from extender.server.informers import Informers
from extender.server.views import Metric

_Samples = list[tuple[dict[str, str], float]]


def write_metrics(engine: str, committer: Committer[Any], kinds: Sequence[CommandKind[Any, Any, Any]]) -> list[Metric]:
    """Return how the writes of the engine of this name ended."""
    stats = committer.stats
    samples: _Samples = [
        ({"write": command, "outcome": outcome.value}, float(stats.outcomes.get(f"{command} {outcome.value}", 0)))
        for command in sorted(each.command.__name__ for each in kinds)
        for outcome in OutcomeKind
    ]
    results = (("created", CREATED), ("counted", COUNTED), ("suppressed", SUPPRESSED))
    return [
        Metric(f"waggle_{engine}_writes_total", "counter", f"Writes and reads of {engine}, by outcome.", samples),
        Metric(
            f"waggle_{engine}_writes_in_flight",
            "gauge",
            f"Writes and reads of {engine} in flight.",
            [({}, float(committer.queue.throttle.in_flight))],
        ),
        Metric(
            f"waggle_{engine}_events_total",
            "counter",
            "Happenings written as new Events, by higher counts of known ones, or not since there were too many.",
            [({"result": result}, float(stats.hints.counts[count])) for result, count in results],
        ),
    ]


def informer_metrics(engine: str, informers: Informers, *, records: str) -> list[Metric]:
    """Return what the informers of an engine take and how old they are. `records`: what they keep, for people."""
    return [
        Metric(
            f"waggle_{engine}_cache_bytes",
            "gauge",
            f"Memory that the records of {records} take, estimated; {engine}.cache_mib bounds it.",
            [({}, float(sum(each.weight for each in informers.all)))],
        ),
        Metric(
            f"waggle_{engine}_watch_staleness_seconds",
            "gauge",
            "Seconds since the API server last sent anything about a resource.",
            [({"resource": each.name}, each.last_contact_age()) for each in informers.all],
        ),
        Metric(
            f"waggle_{engine}_undecodable_total",
            "counter",
            "Objects that could not be read, and were left out.",
            [({"resource": each.name}, float(each.stats.decode_errors)) for each in informers.all],
        ),
    ]
