"""The nearest fix: the smallest change that would let a waiting pod run, as one sentence.

    kube-scheduler's filters refuse nodes for what the pod or the node declares (taints, selectors, cordons, ports)
        --> a node that would take it if it were uncordoned; else the fewest pods whose end would make room on a node
            that it accepts; else what its selector or its tolerations lack. Of a gang the same for all its members
            (`gang_fixes.py`)
    otherwise --> the algorithm explains it (`SchedulerAlgorithm.explain`): its last sentence is the nearest remedy
    it waits for others --> what would have to exist, or the dependency to give up

Pods that ask the same have the same answer: a gang, or pods that are alike. If the fix is room for some of several pods
that are alike, it says for how many. Everything is bounded, since an answer may
cost more than the placing of a pod: rows beyond the bounds have no fix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property

from algorithm.model import PODS
from algorithm.packing.gangs import Membership, membership_or_none
from algorithm.reasons import Code, Reason
from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.filters import (
    has_untolerated_taint,
    in_tree_refusal,
    matches_node,
    resources_refusal,
    static_refusal,
)
from extender.embedded.kubescheduler.model import SchedPod
from extender.plan.records import PlanPod
from extender.plan.run.gang_fixes import gang_fix, listed, seats, shown, uncordoning
from extender.plan.run.state import PlanState

#: Different questions that are answered, sentences of one explanation, and its characters.
MOST_QUESTIONS, MOST_SENTENCES, LONGEST = 40, 60, 500
#: An answer of the algorithm looks at every node: fewer are asked for on a large cluster, so that all of them together
#: look at so many nodes. Some are always asked for.
_MOST_LOOKS, _LEAST_QUESTIONS = 40_000, 5
#: Nodes on which the end of pods is tried, and those that are looked at.
_TRIED, _LOOKED_AT = 100, 2000
_STATIC = frozenset({"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts"})


class Fixes:
    """The fixes of one plan that has come to its end."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._answers: dict[Hashable, str] = {}

    def of(self, key: str, pod: PlanPod, why: Reason) -> str:
        """Return the fix for a pod that waits for this reason; "" if none is known, or the bounds are reached."""
        if why.code is Code.WAITS_FOR_DEPENDENCY:
            return self._state.judgement.fixes.get(key, "")
        question = _question(pod, why)
        if question not in self._answers:
            if len(self._answers) >= self._most_questions():
                return ""
            self._answers[question] = self._answer(pod, why)[:LONGEST]
        return self._answers[question]

    def _most_questions(self) -> int:
        affordable = _MOST_LOOKS // max(1, len(self._state.cluster.nodes))
        return min(MOST_QUESTIONS, max(_LEAST_QUESTIONS, affordable))

    def _answer(self, pod: PlanPod, why: Reason) -> str:
        if why.code in _OF_DEPENDENCIES:
            return _OF_DEPENDENCIES[why.code](why)
        if pod.pod.uid not in self._state.scheduling.last:
            return ""
        if not self._state.cluster.nodes:
            return "It would fit if there were a node."
        if why.code is Code.GANG_INCOMPLETE or self._state.scheduling.refusal(pod.pod) is not None:
            return self._explained(pod.pod)
        told = self._by_filters(pod.pod)
        return self._explained(pod.pod) if told is None else told

    # -- by kube-scheduler's own filters --------------------------------------------------------------------------

    def _by_filters(self, pod: SchedPod) -> str | None:
        """What would help against kube-scheduler's own filters; None if the algorithm knows better."""
        attempt = self._state.scheduling.last[pod.uid]
        if attempt.diagnosis is None:
            return None
        plugins = {refusal.plugin for refusal in attempt.diagnosis.refusals.values()}
        nodes = self._nodes()
        if plugins.isdisjoint(_STATIC) and not attempt.diagnosis.absent:
            return None if self._is_managed(pod) else self._by_ending(pod, nodes)
        if self._has_gang(pod):
            needed = self._seats_needed(pod)
            return None if needed is None else gang_fix(pod, needed, nodes)
        number, cordoned = uncordoning(pod, self._waiting[_shape(pod)], nodes)
        if cordoned:
            return f"{self._would_fit(pod, number)} {cordoned}"
        accepted = [info for info in nodes if static_refusal(pod, info) is None]
        return self._by_ending(pod, accepted) or self._by_declaring(pod, nodes)

    @cached_property
    def _waiting(self) -> Counter[Hashable]:
        """How many pods wait, by their shape."""
        pods = (each.pod for each in self._state.cluster.pods.values())
        return Counter(_shape(each) for each in pods if not each.pod.node_name and not each.pod.finished)

    def _would_fit(self, pod: SchedPod, number: int) -> str:
        """The beginning of a sentence about room for so many pods like this one."""
        waiting = self._waiting[_shape(pod)]
        return "It would fit" if number >= waiting else f"{number} of {waiting} such pods would fit"

    def _seats_needed(self, pod: SchedPod) -> int | None:
        """How many more members of its gang need a place at once; None if some of them do not exist yet, or if its
        algorithm divides the cluster otherwise than by amounts."""
        gang = membership_or_none(self._state.scheduling.record(pod))
        if gang is None:
            return None
        members = [each for each in self._state.cluster.pods.values() if _is_member(each, gang)]
        needed = gang.minimum - sum(bool(each.pod.pod.node_name) for each in members)
        return None if len(members) < gang.minimum else max(1, needed)

    def _nodes(self) -> list[NodeInfo]:
        return list(self._state.scheduling.core.cluster.nodes())[:_LOOKED_AT]

    def _is_managed(self, pod: SchedPod) -> bool:
        return self._state.configuration.policy.manages(pod.pod) and bool(self._state.configuration.scheduler.extenders)

    def _has_gang(self, pod: SchedPod) -> bool:
        gang = self._state.configuration.algorithm.gang(self._state.scheduling.record(pod))
        return gang is not None and gang.all_or_nothing

    def _by_ending(self, pod: SchedPod, nodes: Iterable[NodeInfo]) -> str:
        """The fewest pods on one node whose end would make room."""
        best: tuple[int, NodeInfo, list[SchedPod]] | None = None
        for info in sorted(nodes, key=lambda info: (_lack(pod, info), info.name))[:_TRIED]:
            ended = self._ended(pod, info)
            if ended and (best is None or len(ended) < best[0]):
                best = (len(ended), info, ended)
                if len(ended) == 1:
                    break
        if best is None:
            return ""
        number, info, ended = best
        which = "this pod" if number == 1 else f"these {number} pods"
        trial = info.copy()
        for other in ended:
            trial.remove(other)
        fits = self._would_fit(pod, seats(pod, trial, self._waiting[_shape(pod)]))
        return f"{fits} if {which} on {info.name} ended: {listed([str(p.key) for p in ended])}."

    def _ended(self, pod: SchedPod, info: NodeInfo) -> list[SchedPod]:
        """The pods that would have to end; the least important ones first, and none that need not."""
        trial = info.copy()
        order = sorted(info.pods.values(), key=lambda other: (other.priority, other.key))
        ended: list[SchedPod] = []
        while self._refuses(pod, trial) and len(ended) < len(order):
            trial.remove(order[len(ended)])
            ended.append(order[len(ended)])
        if self._refuses(pod, trial):
            return []
        needed = []
        for other in reversed(ended):
            trial.add(other)
            if self._refuses(pod, trial):
                trial.remove(other)
                needed.append(other)
        return needed

    def _refuses(self, pod: SchedPod, info: NodeInfo) -> bool:
        return in_tree_refusal(pod, info) is not None

    def _by_declaring(self, pod: SchedPod, nodes: Sequence[NodeInfo]) -> str:
        """What the pod does not tolerate, or selects, on a node that has room for it."""
        roomy = [info for info in nodes if info.node is not None and not resources_refusal(pod, info)]
        for info in roomy:
            if info.node is not None and matches_node(pod, info) and has_untolerated_taint(pod, info.node):
                taints = ", ".join(_taint(each.key, each.value, each.effect) for each in info.node.node.taints)
                number = seats(pod, info, self._waiting[_shape(pod)])
                who = "it" if number >= self._waiting[_shape(pod)] else "they"
                return f"{self._would_fit(pod, number)} on {info.name} if {who} tolerated the taint {taints}."
        if roomy:
            name = roomy[0].name
            return (
                f"No node that its selector or affinity accepts has room; {name} has room, but they do not accept it."
            )
        return _largest(pod, nodes)

    # -- by the algorithm -----------------------------------------------------------------------------------------

    def _explained(self, pod: SchedPod) -> str:
        """The last sentence of the algorithm, or the only one."""
        scheduling = self._state.scheduling
        if pod.uid not in scheduling.machine.driver.unallocated:
            return ""
        last = ""
        try:
            for number, sentence in enumerate(scheduling.machine.driver.algorithm.explain(scheduling.record(pod))):
                last = sentence or last
                if number >= MOST_SENTENCES:
                    break
        except KeyboardInterrupt:
            raise
        except BaseException:  # a fault of the algorithm, which may call sys.exit(): the plan has its decision
            return ""
        return "" if last.startswith("There is room") else last


def _shape(pod: SchedPod) -> Hashable:
    """Equal for pods of one namespace that kube-scheduler's filters take for the same."""
    asked = (pod.pod.requests, pod.priority, pod.node_selector, pod.affinity, pod.tolerations)
    return *asked, pod.pod.namespace, pod.host_ports


def _question(pod: PlanPod, why: Reason) -> Hashable:
    """Equal for pods whose fix is the same."""
    shape = pod.pod
    asked = (shape.pod.requests, shape.priority, shape.node_selector, shape.affinity, shape.tolerations)
    where = (shape.pod.namespace, shape.host_ports, shape.pod.labels if pod.group is None else ())
    member = membership_or_none(shape.pod)
    if member is None:
        return asked, where, why, shape.pod.annotations, pod.group
    is_named = why.code in (Code.GANG_INCOMPLETE, Code.GANG_INVALID, *_OF_DEPENDENCIES)
    return asked, where, why if is_named else why.code, member.minimum, member.gang if is_named else ""


def _lack(pod: SchedPod, info: NodeInfo) -> float:
    """How much is missing, as the share of what the pod asks for."""
    wanted = [(name, amount) for name, amount in pod.pod.requests if amount > 0]
    return sum(max(0, amount - info.free(name)) / amount for name, amount in wanted)


def _largest(pod: SchedPod, nodes: Sequence[NodeInfo]) -> str:
    """What no node has, even when it is empty."""
    for name, amount in pod.pod.requests:
        most = max((info.allocatable.get(name, 0) for info in nodes), default=0)
        if name != PODS and amount > most:
            return f"It would need a node with {shown(name, amount)}; the largest has {shown(name, most)}."
    return ""


def _taint(key: str, value: str, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _is_member(pod: PlanPod, gang: Membership) -> bool:
    other = membership_or_none(pod.pod.pod)
    return other is not None and other.gang == gang.gang and not pod.pod.pod.finished


def _missing(why: Reason) -> str:
    target = dict(why.params)["dependencies"].rpartition(" ")[2]
    return f"It would start if {target} existed, or if the dependency on it were optional."


_OF_DEPENDENCIES: dict[Code, Callable[[Reason], str]] = {
    Code.WAITS_FOR_DEPENDENCY: lambda _: "",
    Code.DEPENDENCY_NOT_FOUND: _missing,
    Code.DEPENDENCY_FAILED: lambda _: "",
    Code.DEPENDENCY_CYCLE: lambda _: "It would start if one of these dependencies were removed.",
}
