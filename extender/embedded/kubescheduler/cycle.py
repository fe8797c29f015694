"""One scheduling cycle: in-tree filters over a sample of the nodes, the extenders' filters, scores, a choice.

    nominated node, if any --> [ its in-tree filters --> extenders' filters with that one node ] -- left? --> chosen
             | refused                                                                                           ^
             v                                                                                                   |
    nodes --> in-tree filters, until enough are feasible --> extenders' filters, one after the other             |
                                                                 | none left           | one left ---------------+
                                                                 v                     | several                 |
                                                             Rejected                  +--> prioritize, best ----+

No I/O of its own: extenders are called through their port, and whatever they raise as an ExtenderError ends the
cycle, unless they are ignorable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from extender.embedded.kubescheduler.cluster import Cluster, NodeInfo
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.events import EXTENDER
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError
from extender.embedded.kubescheduler.filters import Refusal, in_tree_refusal, named_nodes
from extender.embedded.kubescheduler.model import SchedNode, SchedPod

#: Fewer nodes than this are all looked at, and at least this many feasible ones are wanted.
MIN_FEASIBLE_NODES = 100
_MIN_PERCENTAGE = 5
#: MaxNodeScore / MaxExtenderPriority: what a point of an extender weighs in the total.
EXTENDER_SCORE_FACTOR = 10

_FILTERED_OUT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"

Scores = list[tuple[str, int]]
#: Runs prioritize calls; the real one runs them at the same time.
RunAll = Callable[[Sequence[Callable[[], Scores]]], list[Scores]]


class NoNodes(Exception):  # noqa: N818 - a finding
    """The cluster has no nodes at all."""

    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


@dataclass(slots=True)
class Diagnosis:
    """Why no node was left. Nodes without a refusal were not looked at, or dropped by an extender without a word."""

    nodes: int
    refusals: dict[str, Refusal] = field(default_factory=dict)
    #: What is said of nodes without a refusal; "" is nothing.
    absent: str = ""
    rejecters: set[str] = field(default_factory=set)

    def refuse(self, node: str, refusal: Refusal) -> None:
        self.refusals[node] = refusal
        if refusal.plugin != EXTENDER:
            self.rejecters.add(refusal.plugin)

    def text(self) -> str:
        return fit_error(self.nodes, self.refusals.values(), self.absent)


def fit_error(nodes: int, refusals: Iterable[Refusal], absent: str = "") -> str:
    """ "0/4 nodes are available: 1 dead, 2 busy.": equal texts are counted, and sorted as texts."""
    counts: dict[str, int] = {}
    known = 0
    for refusal in refusals:
        known += 1
        for text in refusal.reasons:
            counts[text] = counts.get(text, 0) + 1
    if absent and known < nodes:
        counts[absent] = counts.get(absent, 0) + nodes - known
    found = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"0/{nodes} nodes are available:" + (f" {found}." if found else "")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pod goes to this node."""

    node: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """No node is left."""

    diagnosis: Diagnosis


def feasible_nodes_to_find(nodes: int, percentage: int) -> int:
    """How many feasible nodes are enough. `percentage` 0 is adaptive: 50 - nodes/125, at least 5."""
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    share = percentage or max(50 - nodes // 125, _MIN_PERCENTAGE)
    return max(nodes * share // 100, MIN_FEASIBLE_NODES)


def one_after_the_other(calls: Sequence[Callable[[], Scores]]) -> list[Scores]:
    return [call() for call in calls]


class SchedulingCycle:
    """Finds nodes for pods, one at a time. `extenders` are in calling order."""

    def __init__(
        self,
        config: SchedulerConfig,
        cluster: Cluster,
        extenders: Sequence[Extender],
        *,
        random: Random,
        run_all: RunAll = one_after_the_other,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._extenders = extenders
        self._random = random
        self._run_all = run_all
        self._ignored_resources = config.ignored_resources
        self._next_start = 0

    def schedule(self, pod: SchedPod) -> Chosen | Rejected:
        """Where the pod goes. Raises ExtenderError, NoNodes, SchedulerPanic."""
        nodes = self._cluster.nodes()
        if not nodes:
            raise NoNodes
        diagnosis = Diagnosis(len(nodes))
        feasible = self._nominated(pod, diagnosis) or self._feasible(pod, nodes, diagnosis)
        if not feasible:
            return Rejected(diagnosis)
        if len(feasible) == 1:
            return Chosen(feasible[0].name)
        return Chosen(self._best(pod, feasible))

    # -- filter -------------------------------------------------------------------------------------------

    def _nominated(self, pod: SchedPod, diagnosis: Diagnosis) -> list[NodeInfo]:
        """The nominated node, if it takes the pod; an extender's failure here only means that it does not."""
        info = self._cluster.node(pod.pod.nominated_node_name)
        if info is None:
            return []
        try:
            return self._filter_extenders(pod, self._in_tree(pod, [info], 1, diagnosis), diagnosis)
        except ExtenderError:
            return []

    def _feasible(self, pod: SchedPod, nodes: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        total = len(nodes)
        names = named_nodes(pod)
        if names is not None:
            nodes = [info for info in nodes if info.name in names]
            diagnosis.absent = _FILTERED_OUT
            diagnosis.rejecters.add("NodeAffinity")
        start = self._next_start % len(nodes) if nodes else 0
        wanted = feasible_nodes_to_find(len(nodes), self._config.percentage(pod.pod.scheduler_name))
        found = self._in_tree(pod, nodes[start:] + nodes[:start], wanted, diagnosis)
        self._next_start = (self._next_start + len(found) + len(diagnosis.refusals)) % total
        left = self._filter_extenders(pod, found, diagnosis)
        if len(left) < len(found):
            diagnosis.rejecters.add(EXTENDER)
        return left

    def _in_tree(self, pod: SchedPod, nodes: Iterable[NodeInfo], wanted: int, diagnosis: Diagnosis) -> list[NodeInfo]:
        found: list[NodeInfo] = []
        for info in nodes:
            if len(found) >= wanted:
                break
            refusal = in_tree_refusal(
                pod,
                info,
                nominated=self._cluster.nominated(info.name),
                ignored_resources=self._ignored_resources,
            )
            if refusal is None:
                found.append(info)
            else:
                diagnosis.refuse(info.name, refusal)
        return found

    def _filter_extenders(self, pod: SchedPod, feasible: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        for extender in self._extenders:
            if not feasible:
                break
            if not extender.config.filter_verb or not extender.is_interested(pod):
                continue
            try:
                feasible = self._filter_extender(extender, pod, feasible, diagnosis)
            except ExtenderError:
                if not extender.config.ignorable:
                    raise
        return feasible

    def _filter_extender(
        self, extender: Extender, pod: SchedPod, feasible: list[NodeInfo], diagnosis: Diagnosis
    ) -> list[NodeInfo]:
        result = extender.filter(pod, _nodes(feasible))
        for node, text in result.failed_and_unresolvable.items():
            diagnosis.refuse(node, Refusal(EXTENDER, (text,)))
        for node, text in result.failed.items():
            if node not in result.failed_and_unresolvable:
                diagnosis.refuse(node, Refusal(EXTENDER, (text,), resolvable=True))
        if result.nodes is not None:
            # As the answer says they are, and without the pods on them: what follows sees them empty (1.34 - 1.36).
            return [NodeInfo(node) for node in result.nodes]
        offered = {info.name: info for info in feasible}
        return [offered[name] for name in result.names]

    # -- score --------------------------------------------------------------------------------------------

    def _best(self, pod: SchedPod, feasible: list[NodeInfo]) -> str:
        scores = {info.name: info.least_allocated(pod) for info in feasible}
        for name, score in self._extender_scores(pod, feasible):
            if name in scores:
                scores[name] += score
        best = max(scores.values())
        return self._random.choice([name for name, score in scores.items() if score == best])

    def _extender_scores(self, pod: SchedPod, feasible: list[NodeInfo]) -> Scores:
        nodes = _nodes(feasible)
        askers = [
            _asker(extender, pod, nodes)
            for extender in self._extenders
            if extender.config.prioritize_verb and extender.is_interested(pod)
        ]
        return [score for scores in self._run_all(askers) for score in scores]


def _nodes(infos: Iterable[NodeInfo]) -> list[SchedNode]:
    return [info.node for info in infos if info.node is not None]


def _asker(extender: Extender, pod: SchedPod, nodes: list[SchedNode]) -> Callable[[], Scores]:
    """A prioritize call whose failure drops its scores without a word."""

    def ask() -> Scores:
        factor = extender.config.weight * EXTENDER_SCORE_FACTOR
        try:
            return [(name, score * factor) for name, score in extender.prioritize(pod, nodes)]
        except ExtenderError:
            return []

    return ask
