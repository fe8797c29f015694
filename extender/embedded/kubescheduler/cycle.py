"""One scheduling cycle: in-tree filters over a sample of the nodes, the extenders' filters, scores, a choice.

    nominated node, if any --> [ its in-tree filters --> extenders' filters with that one node ] -- left? --> chosen
             | refused                                                                                           ^
             v                                                                                                   |
    nodes --> in-tree filters, until enough are feasible --> extenders' filters, one after the other             |
                                                                 | none left           | one left ---------------+
                                                                 v                     | several                 |
                                                             Rejected                  +--> prioritize, best ----+

What the in-tree filters and scores said to pods of the same shape is not worked out again (`views`).

No I/O of its own: extenders are called through their port, and whatever they raise as an ExtenderError ends the
cycle, unless they are ignorable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from extender.embedded.kubescheduler.cluster import Cluster, NodeInfo
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.diagnosis import Diagnosis
from extender.embedded.kubescheduler.events import EXTENDER
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError
from extender.embedded.kubescheduler.filters import Refusal, in_tree_refusal, named_nodes
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.embedded.kubescheduler.offers import Offer, SurveyOffer, offer_of
from extender.embedded.kubescheduler.views import Survey, Views

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
        self._views = Views(cluster, config.ignored_resources)
        self._next_start = 0

    def forget(self) -> None:
        """Drop what is kept only to be quick."""
        self._views = Views(self._cluster, self._ignored_resources)

    def schedule(self, pod: SchedPod) -> Chosen | Rejected:
        """Where the pod goes. Raises ExtenderError, NoNodes, SchedulerPanic."""
        total = len(self._cluster.order.infos)
        if not total:
            raise NoNodes
        diagnosis = Diagnosis(total)
        feasible = self._nominated(pod, diagnosis)
        if feasible:
            return Chosen(self._best(pod, feasible))
        names = named_nodes(pod)
        feasible = self._of_all(pod, diagnosis) if names is None else self._of_named(pod, names, diagnosis)
        if feasible:
            return Chosen(self._best(pod, feasible))
        diagnosis.keep()
        return Rejected(diagnosis)

    # -- filter -------------------------------------------------------------------------------------------

    def _nominated(self, pod: SchedPod, diagnosis: Diagnosis) -> Offer:
        """The nominated node, if it takes the pod; an extender's failure here only means that it does not."""
        info = self._cluster.node(pod.pod.nominated_node_name)
        if info is None:
            return Offer(())
        try:
            return self._filter_extenders(pod, self._in_tree(pod, [info], 1, diagnosis), diagnosis)
        except ExtenderError:
            return Offer(())

    def _of_named(self, pod: SchedPod, names: Iterable[str], diagnosis: Diagnosis) -> Offer:
        """Of the only nodes that can match."""
        order = self._cluster.order
        nodes = [order.infos[at] for at in sorted(order.position[name] for name in names if name in order.position)]
        diagnosis.absent = _FILTERED_OUT
        diagnosis.rejected_by("NodeAffinity")
        start = self._next_start % len(nodes) if nodes else 0
        found = self._in_tree(pod, nodes[start:] + nodes[:start], self._wanted(pod, len(nodes)), diagnosis)
        return self._left(pod, found, diagnosis)

    def _of_all(self, pod: SchedPod, diagnosis: Diagnosis) -> Offer:
        survey = self._at_its_own_nomination(pod, self._views.of(pod).survey())
        start = self._next_start % diagnosis.nodes
        found = offer_of(survey, start, self._wanted(pod, diagnosis.nodes))
        diagnosis.surveyed(survey, start, found.looked_at, len(found))
        return self._left(pod, found, diagnosis)

    def _at_its_own_nomination(self, pod: SchedPod, survey: Survey) -> Survey:
        """The pod does not take room from itself on the node that is kept for it."""
        at = survey.order.position.get(self._cluster.nomination_of(pod.uid))
        return survey if at is None else survey.patched(at, self._refusal(pod, survey.order.infos[at]))

    def _left(self, pod: SchedPod, found: Offer, diagnosis: Diagnosis) -> Offer:
        """What the extenders leave. The next attempt starts after the nodes that this one has looked at."""
        self._next_start = (self._next_start + len(found) + diagnosis.refused) % diagnosis.nodes
        left = self._filter_extenders(pod, found, diagnosis)
        if len(left) < len(found):
            diagnosis.rejected_by(EXTENDER)
        return left

    def _wanted(self, pod: SchedPod, nodes: int) -> int:
        return feasible_nodes_to_find(nodes, self._config.percentage(pod.pod.scheduler_name))

    def _in_tree(self, pod: SchedPod, nodes: Iterable[NodeInfo], wanted: int, diagnosis: Diagnosis) -> Offer:
        found: list[NodeInfo] = []
        for info in nodes:
            if len(found) >= wanted:
                break
            refusal = self._refusal(pod, info)
            if refusal is None:
                found.append(info)
            else:
                diagnosis.refuse(info.name, refusal)
        return Offer(found)

    def _refusal(self, pod: SchedPod, info: NodeInfo) -> Refusal | None:
        nominated = self._cluster.nominated(info.name)
        return in_tree_refusal(pod, info, nominated=nominated, ignored_resources=self._ignored_resources)

    def _filter_extenders(self, pod: SchedPod, feasible: Offer, diagnosis: Diagnosis) -> Offer:
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

    def _filter_extender(self, extender: Extender, pod: SchedPod, feasible: Offer, diagnosis: Diagnosis) -> Offer:
        result = extender.filter(pod, feasible)
        diagnosis.answered(result.failed, result.failed_and_unresolvable)
        if result.nodes is not None:
            # As the answer says they are, and without the pods on them: what follows sees them empty (1.34 - 1.36).
            return Offer([NodeInfo(node) for node in result.nodes])
        return feasible.chosen(result.names)

    # -- score --------------------------------------------------------------------------------------------

    def _best(self, pod: SchedPod, feasible: Offer) -> str:
        if len(feasible) == 1:
            return feasible.infos[0].name
        scorers = [each for each in self._extenders if each.config.prioritize_verb and each.is_interested(pod)]
        view = self._views.of(pod)
        view.survey()
        if not scorers and isinstance(feasible, SurveyOffer) and feasible.is_of_all and view.is_of(feasible.survey):
            return self._any_best(view.best(), feasible.start)
        scores = {info.name: view.score(pod, info) for info in feasible.infos}
        for name, score in self._extender_scores(scorers, pod, feasible):
            if name in scores:
                scores[name] += score
        best = max(scores.values())
        return self._random.choice([name for name, score in scores.items() if score == best])

    def _any_best(self, best: Sequence[int], start: int) -> str:
        """As `_best` chooses where only the view's scores count: one of the best, which are counted from `start` on."""
        chosen = self._random.choice(range(len(best)))
        at = best[(bisect_left(best, start) + chosen) % len(best)]
        return self._cluster.order.names[at]

    def _extender_scores(self, scorers: Sequence[Extender], pod: SchedPod, feasible: Offer) -> Scores:
        askers = [_asker(extender, pod, feasible) for extender in scorers]
        return [score for scores in self._run_all(askers) for score in scores]


def _asker(extender: Extender, pod: SchedPod, nodes: Sequence[SchedNode]) -> Callable[[], Scores]:
    """A prioritize call whose failure drops its scores without a word."""

    def ask() -> Scores:
        factor = extender.config.weight * EXTENDER_SCORE_FACTOR
        try:
            return [(name, score * factor) for name, score in extender.prioritize(pod, nodes)]
        except ExtenderError:
            return []

    return ask
