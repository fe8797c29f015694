"""A histogram for Prometheus: durations are counted by the bounds that they do not exceed."""

from __future__ import annotations

from bisect import bisect_left

from extender.server.views import Metric


class Histogram:
    """`bounds` are upper bounds in seconds, in ascending order. Not thread-safe: its owner has a lock."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        #: Of all durations, seconds.
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def samples(self, **labels: str) -> list[tuple[dict[str, str], float]]:
        """The samples of a `Metric`: each bucket counts all durations up to its bound, as Prometheus expects."""
        reached, samples = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            reached += count
            samples.append(({**labels, "le": bound}, float(reached)))
        return samples

    def metric(self, name: str, help_text: str) -> Metric:
        """The metric of this histogram alone, without labels."""
        return Metric(name, "histogram", help_text, self.samples(), [({}, self.sum)])
