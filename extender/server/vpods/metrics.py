"""The metrics of vpods, with the nouns of Knative's: expected and ready replicas, scheduled and pending vreplicas."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from extender.server.loop import LoopBusy
from extender.server.views import Metric
from extender.server.vpods.runtime import VPodRuntime
from extender.server.vpods.set_status import numbers
from extender.vpods.engine import VPodEngine

#: Seconds that a scrape waits for the engine.
_PATIENCE = 1.0
_Samples = list[tuple[dict[str, str], float]]
#: The gauges of each set: metric, help, and the name of the number.
_SET_GAUGES = (
    ("waggle_vpods_expected_replicas", "Pods that the StatefulSet of the set should have.", "replicas"),
    ("waggle_vpods_ready_replicas", "Pods of the set that can host vreplicas now.", "usable"),
    ("waggle_vpods_scheduled_vreplicas", "Vreplicas that have a pod.", "placed"),
    ("waggle_vpods_pending_vreplicas", "Vreplicas that are wanted and have no pod.", "pending"),
    ("waggle_vpods_free_vreplicas", "How many more vreplicas the usable pods can take.", "free"),
    ("waggle_vpods_draining_replicas", "Pods that are being drained because the set is about to shrink.", "draining"),
)


def engine_metrics(runtime: VPodRuntime) -> list[Metric]:
    """Return the metrics of the engine. While it hangs, they say that alone."""
    found = runtime.watchdog.metrics()
    with suppress(LoopBusy):
        found += runtime.look(_read, _PATIENCE)
    return found


def _read(engine: VPodEngine, _now: float) -> list[Metric]:
    gauges: dict[str, _Samples] = {name: [] for name, _, _ in _SET_GAUGES}
    for key, hosted in engine.sets.items():
        labels, found = {"namespace": key.namespace, "set": key.name}, numbers(hosted)
        for name, _, field in _SET_GAUGES:
            gauges[name].append((labels, float(getattr(found, field))))
    reasons: Counter[str] = Counter()
    problems = unkept = 0
    for tracked in engine.vpods.values():
        reasons[tracked.reason.value] += 1
        problems += bool(tracked.problems)
        unkept += bool(tracked.unkept)
    return [
        *(Metric(name, "gauge", text, gauges[name]) for name, text, _ in _SET_GAUGES),
        Metric(
            "waggle_vpods_vpods",
            "gauge",
            "VPods of this server, by the reason of their condition.",
            [({"reason": reason}, float(number)) for reason, number in sorted(reasons.items())],
        ),
        Metric(
            "waggle_vpods_bad_placements",
            "gauge",
            "VPods whose status has invalid placements: foreign, malformed or duplicate pod names, or wrong numbers.",
            [({}, float(problems))],
        ),
        Metric(
            "waggle_vpods_unkept_placements",
            "gauge",
            "VPods whose status does not show what was written there: its schema lacks it, or somebody else writes it.",
            [({}, float(unkept))],
        ),
        Metric(
            "waggle_vpods_foreign_scales_total",
            "counter",
            "Times that somebody else changed the replicas of a set that Waggle scales.",
            [({}, float(engine.state.foreign_scales))],
        ),
        Metric(
            "waggle_vpods_policy_faults",
            "gauge",
            "Sets whose policy cannot be used, or failed.",
            [({}, float(sum(bool(hosted.policy_fault) for hosted in engine.sets.values())))],
        ),
    ]
