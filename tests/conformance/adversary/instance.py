"""One instance of the algorithm, what it was told, and what its pages and the pods' annotations say."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from algorithm.decisions import shortened
from algorithm.interface import Bind, Phase, PodRefused, Preempt, SchedulerAlgorithm, ScheduleResult, SuggestedNodes
from algorithm.model import Pod, pairs
from tests.conformance.adversary.cluster import Cluster, hived

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MARK = "hivedscheduler.microsoft.com/"
SPEC = MARK + "pod-scheduling-spec"

Answer = ScheduleResult | PodRefused
#: The status of a group, as its page shows it.
Status = dict[str, Any]


class Instance:
    """Tells the algorithm what the extender would tell it. Pods are by UID; `claims`: preemptions that were taken."""

    def __init__(self, cluster: Cluster, algorithm: SchedulerAlgorithm | None = None) -> None:
        self.cluster = cluster
        self.algorithm = algorithm or cluster.algorithm()
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        self.claims: dict[str, Preempt] = {}

    def fork(self) -> Instance:
        other = Instance(self.cluster, self.algorithm.fork())
        other.waiting, other.allocated, other.claims = dict(self.waiting), dict(self.allocated), dict(self.claims)
        return other

    def wants(self, pod: Pod) -> None:
        self.algorithm.add_unallocated_pod(pod)
        self.waiting[pod.uid] = pod

    def take(self, pod: Pod, bind: Bind) -> None:
        self.found(pod.placed(bind.node, bind.annotations))

    def found(self, placed: Pod) -> None:
        self.algorithm.add_allocated_pod(placed)
        self.waiting.pop(placed.uid, None)
        self.claims.pop(placed.uid, None)
        self.allocated[placed.uid] = placed

    def give_up(self, uid: str) -> None:
        if self.claims.pop(uid, None) is not None:
            self.algorithm.delete_preempting_pod(self.waiting[uid])

    def drop(self, uid: str) -> None:
        self.give_up(uid)
        if uid in self.allocated:
            self.algorithm.delete_allocated_pod(self.allocated.pop(uid))
        elif uid in self.waiting:
            self.algorithm.delete_unallocated_pod(self.waiting.pop(uid))

    def claim(self, pod: Pod, plan: Preempt) -> None:
        assert not plan.gang_members, "HiveD plans for a gang as a whole"
        self.algorithm.add_preempting_pod(self.waiting[pod.uid], plan.victims, plan.node)
        self.claims[pod.uid] = plan

    def ask(self, pod: Pod, offered: Collection[str], phase: Phase, *, is_looked_at: bool = True) -> Answer:
        """The answer; asserts that asking changes no page."""
        before = snapshot(self.algorithm) if is_looked_at else None
        answer: Answer
        try:
            answer = self.algorithm.schedule(pod, SuggestedNodes(offered), phase)
        except PodRefused as refused:
            answer = refused
        if before is not None:
            after = snapshot(self.algorithm)
            assert after == before, f"asking about {pod.name} changed {[k for k in after if after[k] != before[k]]}"
        return answer


# -- pages ------------------------------------------------------------------------------------------------------------


def _page(algorithm: SchedulerAlgorithm, path: str) -> bytes:
    pieces = algorithm.page(path)
    return pieces if isinstance(pieces, bytes) else b"".join(pieces)


def snapshot(algorithm: SchedulerAlgorithm) -> dict[str, Any]:
    """All that people see; the pages within `clusterstatus` are parts of it."""
    shown: dict[str, Any] = {path: _page(algorithm, path) for path in ("clusterstatus", "affinitygroups/")}
    return {**shown, "algorithm": algorithm.inspect(), "metrics": algorithm.metrics()}


def difference(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two pages differ."""
    if isinstance(one, bytes) and isinstance(other, bytes):
        one, other = msgspec.json.decode(one), msgspec.json.decode(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return [t for k in sorted({*one, *other}) for t in difference(one.get(k), other.get(k), f"{path}.{k}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [t for k, pair in enumerate(zip(one, other, strict=True)) for t in difference(*pair, f"{path}[{k}]")]
    return [] if one == other else [f"{path}: {one} / {other}"]


def groups(algorithm: SchedulerAlgorithm) -> dict[str, Status]:
    """By name."""
    items = msgspec.json.decode(_page(algorithm, "affinitygroups/"))["items"] or []
    return {item["metadata"]["name"]: item["status"] for item in items}


def is_guaranteed(status: Status) -> bool:
    return status["priority"] >= 0 and bool(status.get("virtualPlacement")) and "lazyPreemptionStatus" not in status


# -- pods -------------------------------------------------------------------------------------------------------------


def gang_of(uid: str) -> str:
    """Each pod's UID begins with the name of its gang."""
    return uid.split("-", 1)[0]


def wish_of(pod: Pod) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dict(pod.annotations)[SPEC])
    return found


def plan_of(placed: Pod) -> list[tuple[str, tuple[int, ...]]]:
    """Machine and device numbers of every pod of its gang."""
    return _plan(dict(placed.annotations)[MARK + "pod-bind-info"])


def short_record(placed: Pod) -> Pod:
    """The record of the pod where there is no room for what its annotation says about the rest of its gang."""
    annotations = dict(placed.annotations)
    for name, text in hived().gang_texts.items():
        annotations |= shortened(name, text.own(annotations[name]))
    return msgspec.structs.replace(placed, annotations=pairs(annotations))


@lru_cache(maxsize=1000)
def _plan(text: str) -> list[tuple[str, tuple[int, ...]]]:
    members = yaml.load(text, LOADER)["affinityGroupBindInfo"]
    places = [place for member in members for place in member["podPlacements"]]
    return [(place["physicalNode"], tuple(place["physicalLeafCellIndices"])) for place in places]


def devices_of(placed: Pod) -> list[tuple[str, int]]:
    """Its own devices."""
    text = dict(placed.annotations)[MARK + "pod-leaf-cell-isolation"]
    return [(placed.node_name, int(index)) for index in text.split(",")]
