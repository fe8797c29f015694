"""The metrics of the engine of start-up ordering."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from extender.ordering.engine import OrderingEngine
from extender.server.loop import LoopBusy
from extender.server.ordering.runtime import OrderingRuntime
from extender.server.views import Metric

#: Seconds that a scrape waits for the engine.
PATIENCE = 1.0


def engine_metrics(runtime: OrderingRuntime) -> list[Metric]:
    """Return the metrics of the engine. While it hangs, they say that alone."""
    found = runtime.watchdog.metrics()
    with suppress(LoopBusy):
        found += runtime.look(_read, PATIENCE)
    return found


def _read(engine: OrderingEngine, _now: float) -> list[Metric]:
    reasons: Counter[str] = Counter(
        str(waiting.held.code) for waiting in engine.state.waiting.values() if waiting.held is not None
    )
    return [
        Metric(
            "waggle_ordering_pods",
            "gauge",
            "Pods that are held back, by the code of their reason.",
            [({"reason": code}, float(number)) for code, number in sorted(reasons.items())],
        ),
        Metric(
            "waggle_ordering_released_total",
            "counter",
            "Pods that were let go.",
            [({}, float(engine.state.released))],
        ),
    ]
