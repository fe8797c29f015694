"""What became of a pod, live and in a plan, in one form that can be compared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from algorithm.reasons import Code
from extender.embedded.kubescheduler.model import decode_node
from extender.ordering.records import GROUP, Target
from extender.plan.records import Changes, Options, Plan, RawObject, Row, Sign, World
from extender.plan.run import make_plan
from extender.plan.run.milestones import objects_of
from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.state.pod_info import PodInfo
from tests.conformance.plan_truth.states import State

_encode = msgspec.json.Encoder().encode
#: How a plan begins the text of a pod that kube-scheduler's own filters refuse everywhere.
_PREFIX = "0/"
#: What stands before the reason for which an evicted pod that was made again waits.
_AGAIN = "; made again, it waits: "
#: The name of a pod that a workload of `workload_states` has made.
_OWNED = re.compile(r"\b(w\d+)-[a-z0-9-]+")


class Outcome(NamedTuple):
    """Where a pod is, or the one reason why it is nowhere. A pod that is gone has none."""

    node: str = ""
    code: str = ""
    text: str = ""


def live_outcome(pod: dict[str, Any], info: PodInfo | None, *, refused_by_waggle: bool) -> Outcome:
    """Of a pod as the API server has it, and as Waggle knows it; and whether it was Waggle that left no node."""
    node = pod["spec"].get("nodeName", "")
    if node:
        return Outcome(node)
    if refused_by_waggle:
        assert info is not None
        assert info.reason is not None
        return Outcome("", info.reason.code.value, info.reason.text)
    conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
    counts, _, _ = conditions.get("PodScheduled", {}).get("message", "").partition(". ")
    return Outcome("", Code.UNSCHEDULABLE.value, counts.removesuffix("."))


def planned_outcomes(state: State, world: World) -> tuple[Plan, dict[str, Outcome]]:
    """What the plan says of every pod that is there at its end."""
    plan = make_plan(world, _possible(changes_of(state), world), Options(seed=state.seed))
    found = {each.pod.pod.name: Outcome(each.pod.pod.node_name) for each in world.pods}
    for row in plan.rows:
        found[row.name] = planned_outcome(row)
        if row.sign is Sign.EVICTED and _AGAIN not in row.text:
            del found[row.name]
    return plan, found


def _possible(changes: Changes, world: World) -> Changes:
    """Without deletions and priorities of what is not there any more: a plan refuses those."""
    there = {each for pod in world.pods for each in objects_of(pod)}
    there |= {Target("Node", "", each.name) for each in world.nodes} | {each.target for each in world.objects}
    there |= {each.target for each in changes.create} | {gang for each in changes.create if (gang := _gang(each))}
    return msgspec.structs.replace(
        changes,
        delete=tuple(each for each in changes.delete if each in there),
        priorities=tuple(each for each in changes.priorities if each[0] in there),
    )


def _gang(raw: RawObject) -> Target | None:
    name = msgspec.json.decode(raw.json)["metadata"].get("annotations", {}).get(GANG_ANNOTATION)
    return Target(GROUP, raw.namespace, name) if name else None


def planned_outcome(row: Row) -> Outcome:
    if row.node:
        return Outcome(row.node)
    text = row.text.rpartition(_AGAIN)[2]
    if row.code == Code.UNSCHEDULABLE.value or (row.sign is Sign.EVICTED and _PREFIX in text):
        text = text[text.index(_PREFIX) :].removesuffix(".")
    return Outcome("", row.code, text)


def by_owner(outcomes: Mapping[str, Outcome]) -> dict[str, list[Outcome]]:
    """What became of the pods of each workload, which are alike; of other pods one by one.

    Codes are left out where a controller makes a pod again: a plan then has the code of the eviction.
    """
    found: dict[str, list[Outcome]] = {}
    for name, each in outcomes.items():
        if each.code == Code.WAITS_FOR_DEPENDENCY.value:
            continue  # it is behind another pod of its StatefulSet, and not made yet
        owner = _OWNED.match(name)
        text = ", ".join(sorted(_OWNED.sub(r"\1", each.text).split(", ")))
        found.setdefault(owner[1] if owner else name, []).append(
            Outcome(each.node, "" if owner else each.code, text),
        )
    return {name: sorted(each) for name, each in found.items()}


def changes_of(state: State) -> Changes:
    """The steps and the new objects, as a plan takes them."""
    named: dict[str, list[str]] = defaultdict(list)
    for verb, name in state.steps:
        named[verb].append(name)
    kinds = {each["metadata"]["name"]: each["kind"] for each in state.objects if "template" in each["spec"]}
    return Changes(
        settings=state.new_settings,
        algorithm=state.new_algorithm,
        priorities=tuple((Target(kind, "default", name), priority) for kind, name, priority in state.priorities),
        cordon=tuple(named["cordon"]),
        drain=tuple(named["drain"]),
        delete=(
            *(Target("Pod", "default", name) for name in named["delete"]),
            *(Target(kinds[name], "default", name) for name in named["delete-workload"]),
            *(Target(GROUP, "default", name) for name in named["delete-gang"]),
            *(Target("Node", "", name) for name in named["delete-node"]),
        ),
        add_nodes=tuple(decode_node(_encode(node)) for node in state.added),
        create=tuple(_raw(each) for each in state.create),
    )


def _raw(body: dict[str, Any]) -> RawObject:
    metadata = body["metadata"]
    return RawObject(
        kind=body["kind"],
        api_version=body["apiVersion"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        json=_encode(body),
        origin="truth",
    )
