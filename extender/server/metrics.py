"""The engine's metrics for a scrape: counters, cache, pods by reason. Nouns follow kube-scheduler's own metrics.

The engine counts events under names and values; this module gives each counter its metric name, label and help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from algorithm.gauges import Gauge
from extender.core.outcomes import OutcomeKind
from extender.scheduling.faults import FaultKind
from extender.scheduling.state.cache import Counts
from extender.scheduling.state.pod_info import PodInfo, State
from extender.server.views import PENDING, Metric, reason_of

#: The engine's counters by their name in its `counts`: metric name, label, help, and the label values that are exposed
#: from the start, with 0. Prometheus sees no increase in a series that begins with 1.
_COUNTERS = {
    "attempts": (
        "waggle_schedule_attempts_total",
        "result",
        "Filter decisions: scheduled, unschedulable or error.",
        ("scheduled", "unschedulable", "error"),
    ),
    "binds": (
        "waggle_binds_total",
        "outcome",
        "Bindings written, by outcome; refused ones were not written.",
        (*(kind.value for kind in OutcomeKind), "refused"),
    ),
    "holds": (
        "waggle_holds_expired_total",
        "kind",
        "Proposals that no bind followed, preemptions given up, and seats of gangs that nobody came for.",
        ("expired", "preemption_expired", "seat_lapsed"),
    ),
    "force_binds": ("waggle_force_binds_total", "cause", "Bindings that the server wrote by itself.", ()),
    "victims": ("waggle_preemption_victims_total", "how", "Pods named to kube-scheduler as victims, or evicted.", ()),
    "evictions": ("waggle_evictions_total", "outcome", "Evictions written, by outcome.", ()),
    "eviction_checks": ("waggle_eviction_checks_total", "outcome", "Dry runs of evictions, by outcome.", ()),
    "nudges": ("waggle_nudges_total", "result", "Waiting pods that kube-scheduler was made to try again.", ()),
    "unsteady": (
        "waggle_unsteady_refusals_total",
        "result",
        "Refusals that were given as before, since the pod's text changed too often.",
        ("held",),
    ),
    "reads": ("waggle_verifying_reads_total", "result", "Live reads of a pod that failed.", ("failed",)),
    "late_events": ("waggle_late_events_total", "resource", "Informer events older than what was known.", ()),
    "anomalies": (
        "waggle_anomalies_total",
        "kind",
        "Things that should not happen.",
        ("uid_of_another_name", "written_but_unbound"),
    ),
}


class PodStatus(NamedTuple):
    """What metrics say of one pod: its state, and the code of its reason if it has no place ("" for none)."""

    state: State
    code: str


def pod_status(pod_info: PodInfo, message: str) -> PodStatus:
    """`message` is what kube-scheduler wrote on the pod, "" if nothing."""
    why = reason_of(pod_info, message) if pod_info.state in PENDING else None
    return PodStatus(pod_info.state, why.code.value if why else "")


def metrics(
    counts: Mapping[tuple[str, str], int],
    cache: Counts,
    pods: Sequence[PodStatus],
    *,
    algorithm: str,
    faults: Mapping[FaultKind, int],
) -> list[Metric]:
    """Return the engine's metrics. `counts` are SchedulerStateMachine.counts, `faults` those of the algorithm."""
    return [
        *(_counter(name, counts) for name in _COUNTERS),
        _preemptions(counts),
        Metric(
            "waggle_algorithm_faults_total",
            "counter",
            "Times the algorithm raised, broke its contract, kept changing a reason, or was slow.",
            [({"algorithm": algorithm, "kind": kind.value}, float(faults.get(kind, 0))) for kind in FaultKind],
        ),
        Metric(
            "waggle_cache_size",
            "gauge",
            "Objects in the cache; assumed pods are proposed and not confirmed yet.",
            [
                ({"type": "nodes"}, cache.nodes),
                ({"type": "pods"}, cache.pods),
                ({"type": "assumed_pods"}, cache.assumed),
            ],
        ),
        *_pods_by_state_and_reason(pods),
    ]


def _pods_by_state_and_reason(pods: Sequence[PodStatus]) -> list[Metric]:
    states = Counter(each.state for each in pods)
    codes = Counter(each.code for each in pods if each.code)
    return [
        Metric(
            "waggle_pods",
            "gauge",
            "Pods by state.",
            [({"state": state.value}, states[state]) for state in State if state is not State.UNKNOWN],
        ),
        Metric(
            "waggle_pending_pods",
            "gauge",
            "Pods that wait or preempt, by the code of their dominant reason.",
            [({"reason": code}, number) for code, number in sorted(codes.items())],
        ),
    ]


def gauge(algorithm: str, given: Gauge) -> Metric:
    """Return one of the algorithm's own gauges as a metric."""
    samples = [(dict(sample.labels), float(sample.value)) for sample in given.samples]
    return Metric(f"waggle_{algorithm}_{given.name}", "gauge", given.help, samples)


def _preemptions(counts: Mapping[tuple[str, str], int]) -> Metric:
    found = [(value.split(), float(n)) for (kind, value), n in sorted(counts.items()) if kind == "preemptions"]
    samples = [({"mode": mode, "outcome": outcome}, n) for (mode, outcome), n in found]
    return Metric("waggle_preemptions_total", "counter", "Preemptions, by who evicts and what became of them.", samples)


def _counter(key: str, counts: Mapping[tuple[str, str], int]) -> Metric:
    name, label, text, known = _COUNTERS[key]
    numbers = dict.fromkeys(known, 0) | {value: n for (kind, value), n in counts.items() if kind == key}
    return Metric(name, "counter", text, [({label: value}, float(n)) for value, n in sorted(numbers.items())])
