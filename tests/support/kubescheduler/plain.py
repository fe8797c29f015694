"""The scheduling cycle and preemption's dry run without any memory: every filter is asked of every node, every time.

Slow and simple: the oracle of what the stand-in remembers between attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from extender.embedded.kubescheduler import preemption as real
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.cluster import Cluster, NodeInfo
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.cycle import EXTENDER_SCORE_FACTOR, feasible_nodes_to_find
from extender.embedded.kubescheduler.diagnosis import fit_error
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError, Victims
from extender.embedded.kubescheduler.filters import Refusal, in_tree_refusal, named_nodes
from extender.embedded.kubescheduler.model import SchedPod


@dataclass
class PlainDiagnosis:
    nodes: int
    refusals: dict[str, Refusal] = field(default_factory=dict)
    absent: str = ""
    rejecters: set[str] = field(default_factory=set)

    def refuse(self, node: str, refusal: Refusal) -> None:
        self.refusals[node] = refusal
        if refusal.plugin != "Extender":
            self.rejecters.add(refusal.plugin)

    def text(self) -> str:
        return fit_error(self.nodes, Counter(self.refusals.values()), self.absent)


class PlainCycle:
    """As SchedulingCycle, with extenders that answer by name."""

    def __init__(
        self, config: SchedulerConfig, cluster: Cluster, extenders: Sequence[Extender], random: Random
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._extenders = extenders
        self._random = random
        self._next_start = 0

    def schedule(self, pod: SchedPod) -> str | PlainDiagnosis:
        """The chosen node, or why there is none."""
        nodes = self._cluster.nodes()
        diagnosis = PlainDiagnosis(len(nodes))
        feasible = self._nominated(pod, diagnosis) or self._feasible(pod, nodes, diagnosis)
        if not feasible:
            return diagnosis
        return feasible[0].name if len(feasible) == 1 else self._best(pod, feasible)

    def _nominated(self, pod: SchedPod, diagnosis: PlainDiagnosis) -> list[NodeInfo]:
        info = self._cluster.node(pod.pod.nominated_node_name)
        try:
            return self._filter(pod, self._in_tree(pod, [info], 1, diagnosis), diagnosis) if info else []
        except ExtenderError:
            return []

    def _feasible(self, pod: SchedPod, nodes: list[NodeInfo], diagnosis: PlainDiagnosis) -> list[NodeInfo]:
        total, names = len(nodes), named_nodes(pod)
        if names is not None:
            nodes = [info for info in nodes if info.name in names]
            diagnosis.absent = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
            diagnosis.rejecters.add("NodeAffinity")
        start = self._next_start % len(nodes) if nodes else 0
        wanted = feasible_nodes_to_find(len(nodes), self._config.percentage(pod.pod.scheduler_name))
        found = self._in_tree(pod, nodes[start:] + nodes[:start], wanted, diagnosis)
        self._next_start = (self._next_start + len(found) + len(diagnosis.refusals)) % total
        left = self._filter(pod, found, diagnosis)
        if len(left) < len(found):
            diagnosis.rejecters.add("Extender")
        return left

    def _in_tree(
        self, pod: SchedPod, nodes: Iterable[NodeInfo], wanted: int, diagnosis: PlainDiagnosis
    ) -> list[NodeInfo]:
        found: list[NodeInfo] = []
        for info in nodes:
            if len(found) >= wanted:
                break
            refusal = _refusal(self._config, self._cluster, pod, info)
            if refusal is None:
                found.append(info)
            else:
                diagnosis.refuse(info.name, refusal)
        return found

    def _filter(self, pod: SchedPod, feasible: list[NodeInfo], diagnosis: PlainDiagnosis) -> list[NodeInfo]:
        for extender in self._extenders:
            if not feasible:
                break
            if not extender.config.filter_verb or not extender.is_interested(pod):
                continue
            result = extender.filter(pod, [info.node for info in feasible if info.node])
            for node, text in result.failed_and_unresolvable.items():
                diagnosis.refuse(node, Refusal("Extender", (text,)))
            for node, text in result.failed.items():
                if node not in result.failed_and_unresolvable:
                    diagnosis.refuse(node, Refusal("Extender", (text,), resolvable=True))
            offered = {info.name: info for info in feasible}
            feasible = [offered[name] for name in result.names]
        return feasible

    def _best(self, pod: SchedPod, feasible: list[NodeInfo]) -> str:
        scores = {info.name: info.least_allocated(pod) for info in feasible}
        nodes = [info.node for info in feasible if info.node]
        for extender in self._extenders:
            if extender.config.prioritize_verb and extender.is_interested(pod):
                for name, score in extender.prioritize(pod, nodes):
                    scores[name] += score * extender.config.weight * EXTENDER_SCORE_FACTOR
        best = max(scores.values())
        return self._random.choice([name for name, score in scores.items() if score == best])


class PlainPreemption(real.Preemption):
    """As Preemption, with a dry run of its own."""

    def __init__(
        self,
        config: SchedulerConfig,
        cluster: Cluster,
        extenders: Sequence[Extender],
        *,
        random: Random,
        budgets: Mapping[str, Budget],
    ) -> None:
        super().__init__(config, cluster, extenders, random=random, budgets=budgets)
        self._config = config

    def _dry_run(self, pod: SchedPod, potential: Sequence[int]) -> tuple[dict[str, Victims], Mapping[Refusal, int]]:
        infos = [self._cluster.nodes()[at] for at in potential]
        start = self._random.randrange(len(infos)) if infos else 0
        wanted = max(len(infos) * real._MIN_CANDIDATES_PERCENTAGE // 100, real._MIN_CANDIDATES)
        candidates: dict[str, Victims] = {}
        refusals: list[Refusal] = []
        errors: list[str] = []
        for info in infos[start:] + infos[:start]:
            if len(candidates) >= wanted:
                break
            found = self._victims_on(pod, info)
            if isinstance(found, Refusal):
                refusals.append(found)
            elif found.pods:
                candidates[info.name] = found
            else:
                errors.append(f'expected at least one victim pod on node "{info.name}"')
        if errors and not candidates:
            raise real._Failed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return candidates, Counter(refusals)

    def decide(self, pod: SchedPod, diagnosis: PlainDiagnosis) -> real.Preempted | real.NotPreempted:
        """As post_filter, for the plain diagnosis."""
        return self.post_filter(pod, _Positions(diagnosis, self._cluster))  # type: ignore[arg-type]


class _Positions:
    """What Preemption asks of a diagnosis."""

    def __init__(self, diagnosis: PlainDiagnosis, cluster: Cluster) -> None:
        self.nodes = diagnosis.nodes
        self.refusals = diagnosis.refusals
        self._cluster = cluster

    def resolvable(self, order: object) -> list[int]:
        refusals = [self.refusals.get(info.name) for info in self._cluster.nodes()]
        return [at for at, refusal in enumerate(refusals) if refusal is not None and refusal.resolvable]


def _refusal(config: SchedulerConfig, cluster: Cluster, pod: SchedPod, info: NodeInfo) -> Refusal | None:
    nominated = cluster.nominated(info.name)
    return in_tree_refusal(pod, info, nominated=nominated, ignored_resources=config.ignored_resources)
