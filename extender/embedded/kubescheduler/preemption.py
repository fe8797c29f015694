"""PostFilter: whom to evict for a pod that no node took. In-tree dry run, then the extenders, then one node.

    eligible? --> nodes refused as resolvable --> dry run: without all lower-priority pods, would it fit in-tree?
                                                     | yes: put back as many as fit, the rest are victims
                                                     v
       candidates --> extenders with preemptVerb, one after the other --> the best one: its victims are to be deleted

What extenders answer is hardly checked, as in the real one: victims of higher priority and nodes that were not asked
for are accepted. Nodes that fit in-tree without any eviction are errors ("expected at least one victim pod"), so
shortage that exists only in an extender's books never leads to a preempt call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from extender.embedded.kubescheduler.budgets import Budget, violating
from extender.embedded.kubescheduler.cluster import Cluster, NodeInfo
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.diagnosis import Diagnosis, fit_error
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError, MetaVictims, Victims
from extender.embedded.kubescheduler.filters import Refusal, in_tree_refusal
from extender.embedded.kubescheduler.model import SchedPod
from extender.embedded.kubescheduler.trials import Trials, TrialsOfShapes

_MIN_CANDIDATES = 100
_MIN_CANDIDATES_PERCENTAGE = 10
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = Refusal("DefaultPreemption", ("No preemption victims found for incoming pod",))
#: Makes every priority positive, so that more victims weigh more.
_PRIORITY_OFFSET = 2**31


@dataclass(frozen=True, slots=True)
class Preempted:
    """Delete `victims` on `node`, nominate it, and take the nominations of `demoted` away."""

    node: str
    victims: tuple[SchedPod, ...]
    demoted: tuple[SchedPod, ...] = ()


@dataclass(frozen=True, slots=True)
class NotPreempted:
    """Nobody is evicted. `text` ends the pod's message."""

    text: str
    clear_nomination: bool = False


class _Failed(Exception):  # noqa: N818 - carries a status, as an error code does in Go
    """Preemption ended with an error of its own, whose text alone is shown."""


class Preemption:
    """The DefaultPreemption plugin."""

    def __init__(
        self,
        config: SchedulerConfig,
        cluster: Cluster,
        extenders: Sequence[Extender],
        *,
        random: Random,
        budgets: Mapping[str, Budget] = MappingProxyType({}),
    ) -> None:
        self._cluster = cluster
        self._budgets = budgets
        self._extenders = extenders
        self._random = random
        self._ignored_resources = config.ignored_resources
        self._trials = TrialsOfShapes(cluster, budgets)

    def forget(self) -> None:
        """Drop what is kept only to be quick."""
        self._trials = TrialsOfShapes(self._cluster, self._budgets)

    def post_filter(self, pod: SchedPod, diagnosis: Diagnosis) -> Preempted | NotPreempted:
        """What to do for a rejected pod. Raises SchedulerPanic."""
        ineligible = self._ineligible(pod, diagnosis)
        if ineligible:
            return _unschedulable(ineligible)
        try:
            return self._preempt(pod, diagnosis)
        except _Failed as failure:
            return NotPreempted(f"preemption: {failure}")

    def _ineligible(self, pod: SchedPod, diagnosis: Diagnosis) -> str:
        if not pod.pod.may_preempt:
            return "not eligible due to preemptionPolicy=Never."
        info = self._cluster.node(pod.pod.nominated_node_name)
        if info is None:
            return ""
        refusal = diagnosis.refusals.get(pod.pod.nominated_node_name)
        if refusal is None or not refusal.resolvable:
            return ""
        if any(other.priority < pod.priority and _being_preempted(other) for other in info.pods.values()):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _preempt(self, pod: SchedPod, diagnosis: Diagnosis) -> Preempted | NotPreempted:
        candidates, refusals = self._dry_run(pod, diagnosis.resolvable(self._cluster.order))
        if not candidates:
            text = fit_error(diagnosis.nodes, refusals, _NOT_HELPFUL)
            return _unschedulable(text, clear_nomination=True)
        candidates = self._ask_extenders(pod, candidates)
        if not candidates:
            return _unschedulable("no candidate node for preemption")
        node = pick_one_node(candidates, self._random)
        demoted = [other for other in self._cluster.nominated(node) if other.priority < pod.priority]
        return Preempted(node, candidates[node].pods, tuple(demoted))

    # -- dry run ------------------------------------------------------------------------------------------

    def _dry_run(self, pod: SchedPod, potential: Sequence[int]) -> tuple[dict[str, Victims], Mapping[Refusal, int]]:
        """Nodes with their victims, and why preemption would not help on others. Raises _Failed if only errors came."""
        start = self._random.randrange(len(potential)) if potential else 0
        lowest = self._cluster.lowest_priority
        if lowest is None or lowest >= pod.priority:
            return {}, {_NO_VICTIMS: len(potential)} if potential else {}
        trials = self._trials.of(pod)
        barren = None if self._cluster.nomination_of(pod.uid) else trials.barren(potential)
        if barren is not None:
            return {}, barren
        return self._try_each(pod, trials, potential, start)

    def _try_each(
        self, pod: SchedPod, trials: Trials, potential: Sequence[int], start: int
    ) -> tuple[dict[str, Victims], Mapping[Refusal, int]]:
        wanted = max(len(potential) * _MIN_CANDIDATES_PERCENTAGE // 100, _MIN_CANDIDATES)
        infos, own = trials.order.infos, self._cluster.nomination_of(pod.uid)
        candidates: dict[str, Victims] = {}
        refusals: list[Refusal] = []
        errors: list[str] = []
        for at in (*potential[start:], *potential[:start]):
            if len(candidates) >= wanted:
                break
            found = trials.known[at]
            if found is None or infos[at].name == own:
                found = self._victims_on(pod, infos[at])
                if infos[at].name != own:
                    trials.known[at] = found
            if isinstance(found, Refusal):
                refusals.append(found)
            elif found.pods:
                candidates[infos[at].name] = found
            else:
                errors.append(f'expected at least one victim pod on node "{infos[at].name}"')
        if errors and not candidates:
            raise _Failed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        if candidates:
            return candidates, {}
        return {}, trials.remember_barren(potential, Counter(refusals), is_general=not own)

    def _victims_on(self, pod: SchedPod, info: NodeInfo) -> Victims | Refusal:
        """The fewest and least important pods whose going makes the pod fit in-tree; those that a budget protects are
        the first to be let stay.
        """
        lower = _by_importance(p for p in info.pods.values() if p.priority < pod.priority)
        if not lower:
            return _NO_VICTIMS
        trial = info.copy()
        for victim in lower:
            trial.remove(victim)
        refusal = self._refusal(pod, trial)
        if refusal is not None:
            return refusal
        protected = violating(lower, self._budgets.values())
        victims = []
        for victim in sorted(lower, key=lambda each: each.uid not in protected):
            trial.add(victim)
            if self._refusal(pod, trial) is not None:
                trial.remove(victim)
                victims.append(victim)
        if 0 < len(protected) < len(lower):
            victims = _by_importance(victims)
        return Victims(tuple(victims), sum(victim.uid in protected for victim in victims))

    def _refusal(self, pod: SchedPod, info: NodeInfo) -> Refusal | None:
        nominated = self._cluster.nominated(info.name)
        return in_tree_refusal(pod, info, nominated=nominated, ignored_resources=self._ignored_resources)

    # -- extenders ----------------------------------------------------------------------------------------

    def _ask_extenders(self, pod: SchedPod, candidates: dict[str, Victims]) -> dict[str, Victims]:
        for extender in self._extenders:
            if not candidates:
                break
            if not extender.config.preempt_verb or not extender.is_interested(pod):
                continue
            try:
                answer = self._looked_up(extender, extender.preempt(pod, candidates))
            except ExtenderError as error:
                if extender.config.ignorable:
                    continue
                raise _Failed(str(error)) from error
            candidates = _with_victims(extender, answer)
        return candidates

    def _looked_up(self, extender: Extender, answer: Mapping[str, MetaVictims]) -> dict[str, Victims]:
        """The pods behind the UIDs. Raises ExtenderError for what is not there."""
        return {node: self._victims(extender, node, meta) for node, meta in sorted(answer.items())}

    def _victims(self, extender: Extender, node: str, meta: MetaVictims) -> Victims:
        info = self._cluster.node(node)
        if info is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node}"')
        for uid in meta.uids:
            if uid not in info.pods:
                raise ExtenderError(
                    f"extender: {extender.config.url} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, "
                    "but the pod is not found on that node"
                )
        return Victims(tuple(info.pods[uid] for uid in meta.uids), meta.pdb_violations)


def _with_victims(extender: Extender, answer: Mapping[str, Victims]) -> dict[str, Victims]:
    empty = [node for node, victims in answer.items() if not victims.pods]
    if empty and not extender.config.ignorable:
        raise _Failed(f'expected at least one victim pod on node "{empty[0]}"')
    return {node: victims for node, victims in answer.items() if victims.pods}


def _unschedulable(text: str, *, clear_nomination: bool = False) -> NotPreempted:
    """As DynamicResources, which every profile runs too, adds its word."""
    return NotPreempted(f"no new claims to deallocate, preemption: {text}", clear_nomination)


def _being_preempted(pod: SchedPod) -> bool:
    return pod.pod.terminating and pod.disrupted


def _started(pod: SchedPod) -> str:
    """RFC 3339 in UTC, which sorts by time; a pod that has not started counts as the youngest."""
    return pod.started or "~"


def _by_importance(pods: Iterable[SchedPod]) -> list[SchedPod]:
    """More important pods first: higher priority, then longer running.

    To the real one a pod that has not started started "now", later at each look: its sort turns such pods round.
    """

    def importance(item: tuple[int, SchedPod]) -> tuple[int, str, int]:
        index, pod = item
        return (-pod.priority, _started(pod), index if pod.started else -index)

    return [pod for _, pod in sorted(enumerate(pods), key=importance)]


def pick_one_node(candidates: Mapping[str, Victims], random: Random) -> str:
    """Fewest PDB violations, then lowest highest priority, lowest sum of priorities, fewest pods, latest start."""

    def cost(node: str) -> tuple[int, int, int, int]:
        victims = candidates[node]
        highest = victims.pods[0].priority
        total = sum(pod.priority + _PRIORITY_OFFSET for pod in victims.pods)
        return (victims.pdb_violations, highest, total, len(victims.pods))

    cheapest = min(map(cost, candidates))
    equal = sorted(node for node in candidates if cost(node) == cheapest)
    latest = max(_earliest_start(candidates[node].pods) for node in equal)
    return random.choice([node for node in equal if _earliest_start(candidates[node].pods) == latest])


def _earliest_start(victims: Iterable[SchedPod]) -> str:
    """When the longest running of the most important victims started."""
    pods = list(victims)
    highest = max(pod.priority for pod in pods)
    return min(_started(pod) for pod in pods if pod.priority == highest)
