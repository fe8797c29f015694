"""Metrics for Prometheus at /metrics: how long the verbs take, and the counters of the runtime.

The runtime's numbers are read at each scrape, not copied as they change. Every app has a registry of its own, so that
several servers can run in one process (tests, `waggle demo`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from extender.logs.setup import suppressed_lines
from extender.server.runtime import Runtime
from extender.server.views import Metric

#: Upper bounds in seconds. A verb should take about a millisecond; kube-scheduler gives up after 5 s.
_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_DURATIONS = "waggle_extender_duration_seconds"
#: How the samples of a metric are named, by its kind.
_SUFFIXES = {"counter": "_total", "histogram": "_bucket"}


Source = Callable[[], list[Metric]]


class _Collector(Collector):
    """Collects the metrics of the runtime and other sources at the moment of the scrape."""

    def __init__(self, runtime: Runtime | None, sources: list[Source]) -> None:
        self._runtime = runtime
        self._sources = sources

    def collect(self) -> Iterable[Family]:
        shown = {_DURATIONS}
        for metric in (
            *(each for source in self._sources for each in source()),
            _suppressed_lines(),
            *(self._runtime.model.stats() if self._runtime is not None else ()),
        ):
            if metric.name in shown:
                continue  # an algorithm's metric with the name of one of ours; a duplicate would spoil the whole scrape
            shown.add(metric.name)
            name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
            suffix = _SUFFIXES.get(metric.kind, "")
            family = Family(name, metric.help, metric.kind)
            for labels, value in metric.samples:
                family.add_sample(name + suffix, labels, value)
                if labels.get("le") == "+Inf":
                    family.add_sample(f"{name}_count", {k: v for k, v in labels.items() if k != "le"}, value)
            for labels, value in metric.sums:
                family.add_sample(f"{name}_sum", labels, value)
            yield family

    def describe(self) -> Iterable[Family]:
        """Describe nothing: registering must not ask a runtime that has not started."""
        return ()


def _suppressed_lines() -> Metric:
    return Metric(
        "waggle_log_lines_suppressed_total",
        "counter",
        "Log lines that were not written because there were too many of their event.",
        [({"event": name}, float(count)) for name, count in suppressed_lines().items()],
    )


class Metrics:
    """The registry of one app. `sources` are read at each scrape, in the thread pool, and `runtime` after them."""

    def __init__(self, runtime: Runtime | None, *sources: Source) -> None:
        #: The app's server adds its own.
        self.sources = list(sources)
        self.registry = CollectorRegistry()
        self.registry.register(_Collector(runtime, self.sources))
        ProcessCollector(registry=self.registry)
        self._durations = Histogram(
            _DURATIONS,
            "Time from the arrival of a verb's request to its answer.",
            ("verb", "code"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        #: By verb and status: to find one by its labels takes longer than to count.
        self._observers: dict[tuple[str, int], Callable[[float], None]] = {}

    def observe(self, verb: str, code: int, seconds: float) -> None:
        """Count one answered verb; `code` is the HTTP status."""
        observe = self._observers.get((verb, code))
        if observe is None:
            observe = self._observers[verb, code] = self._durations.labels(verb, str(code)).observe
        observe(seconds)


def encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """The encoder of the requested format, and its content type; the usual one if the requested version is invalid."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
