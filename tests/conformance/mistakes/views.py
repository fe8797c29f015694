"""Mistakes in what is shown to people and to Prometheus, and in what describes pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from algorithm.gauges import Gauge, Sample
from algorithm.interface import GangInfo, PodDescription, SuggestedNodes
from algorithm.model import Pod
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import of_everything


@of_everything("explain-sound", "explains without end")
class ExplainsWithoutEnd(Everything):
    def explain(self, pod: Pod) -> Iterable[str]:
        for number in itertools.count():
            yield f"Node {number} has no room."


@of_everything("explain-sound", "explains to pods that run, and looks for what only waiting pods have")
class ExplainsByIndex(Everything):
    def explain(self, pod: Pod) -> Iterable[str]:
        return [f"It is number {sorted(self.pods).index(pod.uid)} in the queue."]


@of_everything("explain-sound", "yields numbers in place of texts")
class ExplainsWithNumbers(Everything):
    def explain(self, pod: Pod) -> Iterable[str]:
        return ["Slots that are free:", self.slots - len(self.pods)]  # type: ignore[list-item]


@of_everything("page-sound", "shows a set, which JSON does not have, by a made-up name")
class ShowsAnObject(Everything):
    def page(self, path: str) -> Any:
        return {"claims": list(self.claims.values()), "self": self}


@of_everything("page-sound", "looks the path up in a dict")
class RaisesKeyError(Everything):
    def page(self, path: str) -> Any:
        return {"slots": self.inspect()}[path]


@of_everything("inspect-sound", "shows a ratio that is not a number while there are no nodes of it")
class ShowsNaN(Everything):
    def inspect(self) -> Mapping[str, Any]:
        return {"free": float("nan") if not self.pods else 1.0}


@of_everything("inspect-sound", "shows how often it was looked at")
class CountsLooks(Everything):
    def inspect(self) -> Mapping[str, Any]:
        self.looks = getattr(self, "looks", 0) + 1
        return {"looks": self.looks}


@of_everything("inspect-sound", "keys of pages are tuples")
class ShowsTuplesAsKeys(Everything):
    def inspect(self) -> Mapping[str, Any]:
        return {(pod.namespace, pod.name): pod.node_name for pod in self.pods.values()}  # type: ignore[misc]


@of_everything("metrics-sound", "divides by the number of nodes: NaN while there are none")
class GaugeOfNaN(Everything):
    def metrics(self) -> Sequence[Gauge]:
        share = len(self.pods) / len(self.nodes) if len(self.nodes) > 1 else float("nan")
        return (Gauge("share", "Pods for each node.", (Sample(share),)),)


@of_everything("metrics-sound", "names a gauge as a counter")
class GaugeNamedTotal(Everything):
    def metrics(self) -> Sequence[Gauge]:
        return (Gauge("pods_total", "Pods.", (Sample(float(len(self.pods))),)),)


@of_everything("metrics-sound", "has a sample for each pod with the node as its only label")
class GaugeOfTwins(Everything):
    def metrics(self) -> Sequence[Gauge]:
        samples = tuple(Sample(1.0, (("node", pod.node_name),)) for pod in self.pods.values())
        return (Gauge("pods", "Pods.", samples),)


@of_everything("changes-to-sound", "compares with a pod that the other one does not have")
class ChangesRaise(Everything):
    def changes_to(self, other: Self) -> Sequence[str]:
        return [f"{uid} moves" for uid in self.waiting if other.pods[uid].node_name]


@of_everything("changes-to-sound", "tells changes where there are none")
class ChangesWithoutChange(Everything):
    def changes_to(self, other: Self) -> Sequence[str]:
        return [f"Nodes take {other.slots} pods."]


@of_everything("describe-sound", "describes a pod by where it runs now, although its record is the same")
class DescriptionMoves(Everything):
    def describe(self, pod: Pod) -> PodDescription:
        self.described = getattr(self, "described", 0) + 1
        return PodDescription(group=f"batch {self.described}")


@of_everything("describe-sound", "returns a dict")
class DescribesWithADict(Everything):
    def describe(self, pod: Pod) -> PodDescription:
        return {"group": pod.group}  # type: ignore[return-value]


@of_everything("gang-sound", "looks up a pod that may be unknown")
class GangOfUnknownPod(Everything):
    def gang(self, pod: Pod) -> GangInfo | None:
        known = self.pods.get(pod.uid) or self.waiting[pod.uid]
        return GangInfo(known.group, all_or_nothing=False) if known.group else None


@of_everything("gang-sound", "returns the name alone")
class GangAsText(Everything):
    def gang(self, pod: Pod) -> GangInfo | None:
        return pod.group or None  # type: ignore[return-value]


@of_everything("priority-sound", "has a priority that grows with each look")
class PriorityGrows(Everything):
    def priority(self, pod: Pod) -> int:
        self.asked = getattr(self, "asked", 0) + 1
        return pod.priority + self.asked // 7


@of_everything("priority-sound", "divides priorities")
class PriorityIsAFraction(Everything):
    def priority(self, pod: Pod) -> int:
        return pod.priority / 2  # type: ignore[return-value]


@of_everything("priority-sound", "knows the priorities of pods that it was told of")
class PriorityOfKnownPods(Everything):
    def priority(self, pod: Pod) -> int:
        return (self.pods.get(pod.uid) or self.waiting[pod.uid]).priority


@of_everything("prioritize-sound", "gives 11 points to an empty node")
class ElevenPoints(Everything):
    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        return {name: 10 * self.free(name, pod) // self.slots + 1 for name in nodes if name in self.nodes}


@of_everything("prioritize-sound", "gives points to all nodes that it knows")
class PointsForAllNodes(Everything):
    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        return dict.fromkeys(self.nodes, 5)


@of_everything("prioritize-sound", "gives fractions of points")
class FractionsOfPoints(Everything):
    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        return dict.fromkeys(nodes, 2.5)  # type: ignore[arg-type]
