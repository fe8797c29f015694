"""The metrics of vpods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extender.core.commands import CommandKind
from extender.core.outcomes import OutcomeKind
from extender.kube.writes.committer import Committer
from extender.server.views import Metric
from extender.server.vpods.informers import Informers

_Samples = list[tuple[dict[str, str], float]]


def write_metrics(committer: Committer[Any], kinds: Sequence[CommandKind[Any, Any, Any]]) -> list[Metric]:
    """Return how the writes of vpods ended."""
    known = committer.stats.outcomes
    samples: _Samples = [
        ({"write": command, "outcome": outcome.value}, float(known.get(f"{command} {outcome.value}", 0)))
        for command in sorted(each.command.__name__ for each in kinds)
        for outcome in OutcomeKind
    ]
    return [
        Metric("waggle_vpods_writes_total", "counter", "Writes and reads of vpods, by outcome.", samples),
        Metric(
            "waggle_vpods_writes_in_flight",
            "gauge",
            "Writes and reads of vpods in flight.",
            [({}, float(committer.gate.throttle.in_flight))],
        ),
    ]


def informer_metrics(informers: Informers) -> list[Metric]:
    """Return what the informers of vpods take and how old they are."""
    return [
        Metric(
            "waggle_vpods_cache_bytes",
            "gauge",
            "Memory that the records of vpods and pods take, estimated; vpods.cache_mib bounds it.",
            [({}, float(sum(each.weight for each in informers.all)))],
        ),
        Metric(
            "waggle_vpods_watch_staleness_seconds",
            "gauge",
            "Seconds since the API server last sent anything about a resource.",
            [({"resource": each.name}, each.last_contact_age()) for each in informers.all],
        ),
    ]
