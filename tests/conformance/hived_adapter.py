"""Drives the HiveD algorithm as recordings of the original were made: `factory` is what a checker of such recordings
calls.

The original changes its books already while it plans (it preempts lazily, it reserves for a preemptor). Here planning
leaves no trace and the engine says what was taken; the adapter says it where the original would have done it.
"""

from __future__ import annotations

from typing import Any

from algorithm.hived.cells.config import parse_config
from algorithm.hived.cells.layout import build
from algorithm.hived.formats.allocation import Allocation
from algorithm.hived.formats.podspec import PodSpec, UserError, parse_spec
from algorithm.hived.planning.planner import Plan, decide
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Member
from algorithm.hived.state.pods import add_pod, delete_pod, stop_waiting


class Adapter:
    def __init__(self, hive: HivedCluster) -> None:
        self.hive = hive

    # -- nodes ------------------------------------------------------------------------------------------------

    def add_node(self, name: str, healthy: bool) -> None:
        self.hive.set_health(name, healthy=healthy)

    def update_node(self, name: str, was: bool, healthy: bool) -> None:
        if was != healthy:
            self.hive.set_health(name, healthy=healthy)

    def delete_node(self, name: str) -> None:
        self.hive.set_health(name, healthy=False)

    # -- pods -------------------------------------------------------------------------------------------------

    def schedule(self, pod: dict[str, Any], suggested: list[str], phase: str) -> dict[str, Any]:
        self.hive.start()
        try:
            spec = _spec(pod)
            decision = decide(self.hive, spec, frozenset(suggested), preempting=phase == "Preempting")
        except UserError as error:
            return {"kind": "error", "code": 400, "class": error.kind, "message": str(error)}
        if not isinstance(decision, Plan):
            self.hive.overtake([decision.ends] if decision.ends else [])
            return {"kind": "wait", "class": decision.kind, "reason": decision.text}
        with self.hive.changing_hands():
            self._take(decision, spec, pod["uid"], preempting=phase == "Preempting")
        if decision.victims:
            victims = {node: [each.uid for each in members] for node, members in decision.victims.items()}
            return {"kind": "preempt", "victims": victims}
        return _bound(decision.allocation)

    def _take(self, plan: Plan, spec: PodSpec, uid: str, *, preempting: bool) -> None:
        self.hive.take_quota(plan.lazily_preempted, spec.group)
        if preempting:
            self.hive.overtake([*plan.overtakes, *([plan.replaces] if plan.replaces else [])])
            if plan.victims or (plan.is_new and plan.group.name in self.hive.groups):
                self.hive.preempt(plan.group, uid)

    def add_allocated(self, pod: dict[str, Any], bind: dict[str, Any]) -> None:
        self.hive.start()
        add_pod(self.hive, Member(pod["uid"], pod["name"], bind["node"]), _spec(pod), bind["bind_info"])

    def delete_allocated(self, pod: dict[str, Any], bind: dict[str, Any]) -> None:
        delete_pod(self.hive, Member(pod["uid"], pod["name"], bind["node"]), _spec(pod))

    def delete_unallocated(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        try:
            spec = _spec(pod)
        except UserError as error:
            return {"kind": "error", "code": 400, "class": error.kind}
        stop_waiting(self.hive, pod["uid"], spec)
        return None


def factory(config_yaml: str, chain_search_order: dict[str, list[str]]) -> Adapter:
    return Adapter(HivedCluster(build(parse_config(config_yaml)), chain_search_order))


def _spec(pod: dict[str, Any]) -> PodSpec:
    return parse_spec(pod["scheduling_spec"], namespace=pod["namespace"], name=pod["name"])


def _bound(allocation: Allocation) -> dict[str, Any]:
    return {
        "kind": "bind",
        "node": allocation.node,
        "leaf": list(allocation.indices),
        "chain": allocation.chain,
        "group": [
            {
                "leaf_number": devices,
                "placements": [
                    {"node": place.node, "leaf": list(place.indices), "types": list(place.types)} for place in places
                ],
            }
            for devices, places in allocation.places
        ],
        "bind_info": allocation,
    }
