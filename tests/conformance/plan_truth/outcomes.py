"""What became of a pod, live and in a plan, in one form that can be compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from algorithm.reasons import Code
from extender.ordering.records import Target
from extender.plan.records import Changes, Options, Plan, RawObject, Row, Sign, World
from extender.plan.run import make_plan
from extender.scheduling.state.pod_info import PodInfo
from tests.conformance.plan_truth.states import State

_encode = msgspec.json.Encoder().encode
#: How a plan begins the text of a pod that kube-scheduler's own filters refuse everywhere.
_PREFIX = "0/"


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
    plan = make_plan(world, changes_of(state), Options(seed=state.seed))
    found = {each.pod.pod.name: Outcome(each.pod.pod.node_name) for each in world.pods}
    for row in plan.rows:
        found[row.name] = planned_outcome(row)
        if row.sign is Sign.EVICTED:
            del found[row.name]
    return plan, found


def planned_outcome(row: Row) -> Outcome:
    if row.node:
        return Outcome(row.node)
    if row.code == Code.UNSCHEDULABLE.value:
        return Outcome("", row.code, row.text[row.text.index(_PREFIX) :].removesuffix("."))
    return Outcome("", row.code, row.text)


def changes_of(state: State) -> Changes:
    """The steps and the new objects, as a plan takes them."""
    named: dict[str, list[str]] = {"cordon": [], "drain": [], "delete": []}
    for verb, name in state.steps:
        named[verb].append(name)
    return Changes(
        cordon=tuple(named["cordon"]),
        drain=tuple(named["drain"]),
        delete=tuple(Target("Pod", "default", name) for name in named["delete"]),
        create=tuple(_raw(pod) for pod in state.create),
    )


def _raw(pod: dict[str, Any]) -> RawObject:
    metadata = pod["metadata"]
    return RawObject(
        kind="Pod",
        api_version="v1",
        namespace=metadata["namespace"],
        name=metadata["name"],
        json=_encode(pod),
        origin="truth",
    )
