"""Fragmentation gradient descent: each pod goes to the node, and the GPUs there, where free GPU time stays most useful.

From "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023).
A pod asks for whole GPUs, or for a part of one (`needs.py`); the binding names the GPUs in an annotation, from which
the state is rebuilt after a restart. `fragmentation.py` has the measure, `policies.py` the scores, this one's and those
of the policies that the paper compares it with, `ranking.py` keeps the scores.

`fits` counts everything that was reported as allocated, so a decision needs no more than the numbers of `Ranking`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self
from zlib import crc32

from algorithm.fgd.needs import INDEX, WHOLE, Need, need_of
from algorithm.fgd.preemption import find_victims
from algorithm.fgd.ranking import Found, fits
from algorithm.fgd.settings import FgdSettings
from algorithm.fgd.state import State
from algorithm.gauges import Gauge, Sample
from algorithm.interface import (
    Bind,
    Phase,
    PodRefused,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Victim,
    Wait,
)
from algorithm.model import Node, Pairs, Pod
from algorithm.reasons import Code, FixedReasons, Reason, reason

#: Names that `inspect` shows.
_SHOWN = 100
#: Victims that a reason names.
_NAMED = 10


class FgdAlgorithm(SchedulerAlgorithm):
    """Implements the contract of `algorithm.interface`. Pods are placed one at a time; there are no gangs."""

    def __init__(self, settings: FgdSettings | None = None) -> None:
        self.settings = settings or FgdSettings()
        self._state = State(self.settings)
        self._refused: dict[tuple[Need, frozenset[str]], Wait] = {}
        self._refused_at = -1

    # -- the cluster ------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        self._state.put_node(node)

    def update_node(self, old: Node, new: Node) -> None:  # noqa: ARG002 - the name is the same
        self._state.put_node(new)

    def delete_node(self, node: Node) -> None:
        self._state.drop_node(node.name)

    # -- pods -------------------------------------------------------------------------------------------------

    def add_unallocated_pod(self, pod: Pod) -> None:
        self._state.wait(pod)

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self._state.stop_waiting(pod.uid)

    def add_allocated_pod(self, pod: Pod) -> None:
        self._state.allocate(pod)

    def delete_allocated_pod(self, pod: Pod) -> None:
        self._state.free(pod.uid)

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self._state.replace(old, new)

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        self._state.preempting[pod.uid] = pod, node, frozenset(victim.uid for victim in victims)
        self._state.generation += 1

    def delete_preempting_pod(self, pod: Pod) -> None:
        self._state.preempting.pop(pod.uid, None)
        self._state.generation += 1

    def set_protected_pods(self, uids: frozenset[str]) -> None:
        self._state.protected = uids

    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        self._state.lingering = uids

    # -- decisions --------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        need = need_of(pod, self.settings.resource)
        if not suggested_nodes:
            return Wait(reason(Code.NOTHING_OFFERED))
        found = self._place(pod, need, suggested_nodes)
        if found is not None:
            return Bind(found.node.name, _annotation(found.gpus))
        if phase is not Phase.FILTERING and pod.may_preempt:
            planned = self._make_room(pod, need, suggested_nodes, phase)
            if planned is not None:
                return planned
        return self._refuse(need, suggested_nodes)

    def _place(self, pod: Pod, need: Need, offered: SuggestedNodes) -> Found | None:
        state = self._state
        kept = state.preempting.get(pod.uid)
        others = self._kept_from(pod)
        names = offered.as_set() - others if others else offered.as_set()
        if kept is not None and kept[1] in names:
            names = frozenset({kept[1]})
        if self.settings.policy == "random":
            return self._any(pod, need, names)
        are_all = not others and kept is None and offered.are(state.ranking.names())
        return state.ranking.best(need, state.fragmentation(), None if are_all else names)

    def _kept_from(self, pod: Pod) -> frozenset[str]:
        """Nodes where room is being made for pods of the same or higher priority."""
        if not self._state.preempting:
            return frozenset()
        return frozenset(
            node
            for other, node, _ in self._state.preempting.values()
            if node and other.uid != pod.uid and other.priority >= pod.priority
        )

    def _any(self, pod: Pod, need: Need, names: frozenset[str]) -> Found | None:
        """A fitting node, and a fitting GPU there, that the pod's UID and the seed decide: the same each time."""
        state = self._state
        numbers = state.ranking.numbers(need, state.fragmentation())
        fit = [
            each
            for each, number in zip(state.ranking.row(), numbers, strict=True)
            if number >= 0 and each.name in names
        ]
        if not fit:
            return None
        drawn = crc32(f"{self.settings.seed}/{pod.uid}/{pod.namespace}/{pod.name}".encode())
        node = fit[drawn % len(fit)]
        if need.is_shared:
            enough = [index for index, left in enumerate(node.free) if left >= need.milli]
        else:
            enough = [index for index, left in enumerate(node.free) if left >= WHOLE]
        if need.is_shared:
            return Found(node, (enough[drawn // len(fit) % len(enough)],))
        return Found(node, tuple(enough[: need.gpus]))

    def _make_room(self, pod: Pod, need: Need, offered: SuggestedNodes, phase: Phase) -> Preempt | Wait | None:
        """The plan; None if eviction makes no room; in EVICTING, Wait if every plan needs a protected pod."""
        state = self._state
        protected = state.protected if phase is Phase.EVICTING else frozenset()
        spared = state.lingering | protected
        kept = state.preempting.get(pod.uid)
        if kept is not None and kept[1] in offered:
            left = [uid for uid in kept[2] if uid in state.allocated]
            if left and spared.isdisjoint(left):
                return _preempt(tuple(sorted(Victim(kept[1], uid) for uid in left)), kept[1])
        names = offered.as_set() - self._kept_from(pod)
        victims = find_victims(state, pod, need, names, spared)
        if victims:
            return _preempt(tuple(victims), victims[0].node)
        forbidden = find_victims(state, pod, need, names, state.lingering) if protected else []
        keys = [str(state.allocated[each.uid].key) for each in forbidden if each.uid in protected]
        return Wait(reason(Code.VICTIM_PROTECTED, victims=keys[:_NAMED])) if keys else None

    def _refuse(self, need: Need, offered: SuggestedNodes) -> Wait:
        state = self._state
        if self._refused_at != state.generation:
            self._refused.clear()
            self._refused_at = state.generation
        names = offered.as_set()
        known = self._refused.get((need, names))
        if known is None:
            known = self._refused[need, names] = self._refusal(need, names)
        return known

    def _refusal(self, need: Need, names: frozenset[str]) -> Wait:
        state = self._state
        reasons = state.ranking.refusals(need, state.fragmentation())
        if reasons.keys() != names:
            reasons = {name: self._why(name, reasons) for name in sorted(names)}
        short = {why for why in reasons.values() if why.code is Code.INSUFFICIENT}
        texts = sorted({part for why in short for _, value in why.params for part in value.split(", ")})
        dominant = reason(Code.INSUFFICIENT, resources=texts) if texts else reason(Code.NO_NODE_FITS)
        return Wait(dominant, FixedReasons(reasons))

    def _why(self, name: str, reasons: Mapping[str, Reason]) -> Reason:
        """Why an offered node is not taken: without a reason, it has room that is kept for another pod."""
        if name in reasons:
            return reasons[name]
        known = self._state.nodes.get(name)
        if known is None or known.node is None:
            return reason(Code.NODE_UNKNOWN)
        return reason(Code.HELD_FOR_OTHERS, holder="a pod that preempts")

    # -- for people -------------------------------------------------------------------------------------------

    def explain(self, pod: Pod) -> Iterator[str]:
        try:
            need = need_of(pod, self.settings.resource)
        except PodRefused as refused:
            yield f"{refused.reason.text}."
            return
        row = self._state.ranking.row()
        usable = [each for each in row if not need.gpus or not need.models or each.model in need.models]
        if need.gpus and not usable:
            yield f"No node has GPUs of model {' or '.join(sorted(need.models))}."
            yield "A node with such GPUs would have to be added."
            return
        room = sum(fits(need, need.models, each) for each in usable)
        if room:
            yield f"{room} of {len(row)} nodes have room for the pod."
            return
        asked = f"{need.milli} thousandths of a GPU" if need.is_shared else f"{need.gpus} whole GPUs"
        free = sum(sum(each.free) for each in usable)
        if need.gpus:
            yield f"No node has {asked} and {need.cpu / 1000:g} cores left together."
            most = max((sum(1 for left in each.free if left >= need.milli) for each in usable), default=0)
            yield f"{free / WHOLE:g} GPUs are free in all; the most with enough left on one node are {most}."
        else:
            yield f"No node has {need.cpu / 1000:g} cores and the memory left."
        yield "The pod runs as soon as enough ends on one node."

    def inspect(self) -> Mapping[str, Any]:
        nodes = {
            name: {"model": each.model, "free": list(each.free), "cpuMilli": each.cpu, "pods": len(each.taken)}
            for name, each in sorted(self._state.nodes.items())[:_SHOWN]
        }
        return {
            "policy": self.settings.policy,
            "nodes": nodes,
            "waiting": sorted(str(pod.key) for pod in self._state.waiting.values())[:_SHOWN],
            "preempting": sorted(str(pod.key) for pod, _, _ in self._state.preempting.values())[:_SHOWN],
        }

    def metrics(self) -> Sequence[Gauge]:
        free = total = 0
        for each in self._state.nodes.values():
            free += sum(each.free)
            total += each.gpu_milli
        return (
            Gauge("gpu_milli", "Thousandths of all GPUs.", (Sample(total),)),
            Gauge("gpu_milli_free", "Thousandths of GPUs that are not allocated.", (Sample(free),)),
        )

    def fragmented_milli(self) -> float:
        """The fragmentation of all nodes, in thousandths of a GPU."""
        return self._state.ranking.fragmented(self._state.fragmentation())

    def allocated_milli(self) -> int:
        """Thousandths of GPUs that are allocated."""
        return sum(each.gpu_milli - sum(each.free) for each in self._state.ranking.row())

    # -- copies -----------------------------------------------------------------------------------------------

    def fork(self) -> Self:
        twin = type(self)(self.settings)
        twin._state = self._state.copy()
        return twin


def _annotation(gpus: tuple[int, ...]) -> Pairs:
    return ((INDEX, ",".join(map(str, gpus))),) if gpus else ()


def _preempt(victims: tuple[Victim, ...], node: str) -> Preempt:
    return Preempt(victims, reason(Code.PREEMPTIBLE, victims=[each.uid for each in victims[:_NAMED]]), node)
