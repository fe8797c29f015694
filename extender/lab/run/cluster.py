"""The cluster of a simulation: that of a plan, which forgets pods when they have gone.

A pod that leaves is not made again here: the jobs are told (`evicted`), and make another one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from algorithm.model import Pairs, Pod
from algorithm.reasons import Reason
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.lab.run.clock import LabClock
from extender.plan.records import PlanPod
from extender.plan.run.store import Gone, PlanCluster

#: When a simulation begins, for records that have a time.
_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)


class LabCluster(PlanCluster):
    """The present nodes and pods of a simulated cluster."""

    def __init__(self, decisions: frozenset[str], clock: LabClock) -> None:
        super().__init__(decisions)
        self._clock = clock
        #: The pods that others had to make room for, since the list was replaced last.
        self.evicted: list[PlanPod] = []
        self._second = -1
        self._text = ""

    def bring(self, pod: SchedPod, uid: str, name: str, *, again: bool = False) -> None:
        """Create a pod as its controller would. `again`: it replaces a pod that had a node, and gets no node itself."""
        record = replace(pod.pod, uid=uid, name=name, created=self._now(), resource_version=self._next_version())
        if again and record.node_name:
            kept = tuple(pair for pair in record.annotations if pair[0] not in self._decisions)
            record = replace(record, annotations=kept, node_name="", phase="Pending")
        started = self._now() if record.node_name else ""
        self.add(PlanPod(pod=replace(pod, pod=record, started=started), ready=bool(record.node_name)))

    def _now(self) -> str:
        """Return the current time in the format of the API server."""
        second = int(self._clock.moment)
        if second != self._second:
            self._second = second
            self._text = (_BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._text

    def bring_node(self, node: SchedNode) -> None:
        """Add a node, also one that returns after a failure."""
        record = replace(node.node, resource_version=self._next_version())
        self.add_node(replace(node, node=record))

    def bind(self, uid: str, node: str, annotations: Pairs = ()) -> bool:
        pod = self.pods.get(uid)
        if pod is not None and not pod.pod.started:
            self.pods[uid] = replace(pod, pod=replace(pod.pod, started=self._now()))
        return super().bind(uid, node, annotations)

    def delete(self, uid: str, how: Gone, why: Reason | None = None) -> bool:
        pod = self.pods.get(uid)
        if pod is None or not super().delete(uid, how, why):
            return False
        story = self._story.pop(uid)
        del self.stories[story.first]
        if how is Gone.EVICTED:
            self.evicted.append(pod)
        return True

    def record(self, uid: str) -> Pod:
        """Return the current record of a pod."""
        return self.pods[uid].pod.pod
