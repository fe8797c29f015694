"""Says that pods declare dependencies which have no effect, because start-up ordering is switched off.

The first such pod is logged; a metric counts all. A pod is counted once, as long as it is remembered.
"""

from __future__ import annotations

import structlog

from algorithm.model import Pod
from extender.core.freshness import remember
from extender.core.ordering_names import AFTER
from extender.kube.informers.reflector import Change, ChangeKind
from extender.scheduling.dependencies import declares
from extender.server.views import Metric

log = structlog.get_logger(__name__)

_REMEMBERED = 10_000


class IgnoredDependencies:
    """Add `look` to the handlers of the informer of pods."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}
        self.count = 0

    def look(self, changes: list[Change[Pod]]) -> None:
        """Look at changed pods. One thread at a time."""
        for change in changes:
            if change.kind is ChangeKind.SEEN and not change.obj.node_name and declares(change.obj):
                self._note(change.obj)

    def _note(self, pod: Pod) -> None:
        if pod.uid in self._seen:
            return
        remember(self._seen, pod.uid, None, most=_REMEMBERED)
        self.count += 1
        if self.count == 1:
            log.warning(
                f"pods declare dependencies ({AFTER}) and do not wait for them: ordering.enabled is false",
                pod=str(pod.key),
            )

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        return [
            Metric(
                "waggle_ordering_ignored_pods_total",
                "counter",
                "Pods that declare dependencies, seen while start-up ordering was switched off.",
                [({}, float(self.count))],
            )
        ]
