"""Short ways to make worlds and changes for plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from extender.embedded.kubescheduler.model import SchedNode
from extender.plan.records import Changes, Options, Plan, PlanPod, RawObject, Row, World
from extender.plan.run import make_plan
from tests.support.kubescheduler.objects import a_node, a_pod, pod_json

__all__ = ["CLASSES", "a_node", "an_object", "gang", "new", "plan_of", "row", "running", "signs", "waiting"]


def running(name: str, node: str, *, more: Mapping[str, Any] | None = None, **given: Any) -> PlanPod:
    """A pod that runs on a node and is ready; `more` are fields of the PlanPod."""
    return PlanPod(pod=a_pod(name, node=node, status={"phase": "Running"}, **given), ready=True, **(more or {}))


def waiting(name: str, *, more: Mapping[str, Any] | None = None, **given: Any) -> PlanPod:
    """A pod of the world without a node."""
    return PlanPod(pod=a_pod(name, **given), **(more or {}))


def new(name: str, *, priority: int = 0, **given: Any) -> RawObject:
    """A pod that the changes create; its priority is one of 0 to 9."""
    body = {"apiVersion": "v1", "kind": "Pod", **pod_json(name, **given)}
    del body["spec"]["priority"]
    if priority:
        body["spec"]["priorityClassName"] = f"p{priority}"
    return an_object("Pod", name, body)


def an_object(kind: str, name: str, body: Mapping[str, Any], *, api_version: str = "v1") -> RawObject:
    whole = {"apiVersion": api_version, "kind": kind, **body}
    namespace = whole.get("metadata", {}).get("namespace", "default")
    return RawObject(
        kind=kind,
        api_version=api_version,
        namespace=namespace,
        name=name,
        json=json.dumps(whole).encode(),
        origin=f"{name}.yaml#1",
    )


#: A class for each priority from 1 to 9.
CLASSES = tuple(
    an_object(
        "PriorityClass",
        f"p{value}",
        {"metadata": {"name": f"p{value}"}, "value": value},
        api_version="scheduling.k8s.io/v1",
    )
    for value in range(1, 10)
)


def gang(name: str, size: int, **given: Any) -> list[RawObject]:
    """The pods of a gang that runs as a whole or not at all."""
    declared = {"waggle.dev/gang": name, "waggle.dev/gang-min": str(size)}
    return [new(f"{name}-{index}", metadata={"annotations": declared}, **given) for index in range(size)]


def plan_of(
    nodes: Iterable[SchedNode],
    pods: Iterable[PlanPod] = (),
    create: Iterable[RawObject] = (),
    *,
    options: Options | None = None,
    world: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Plan:
    """The plan of a world with these nodes and pods; `world` are more of its fields, `changes` those of Changes."""
    made = World(nodes=tuple(nodes), pods=tuple(pods), **{"objects": CLASSES, **(world or {})})
    return make_plan(made, Changes(create=tuple(create), **changes), options)


def signs(plan: Plan) -> dict[str, str]:
    """What happens to each pod: "+ n1", "? NoNodeFits"."""
    return {each.name: " ".join(filter(None, (each.sign, each.node, each.code))) for each in plan.rows}


def row(plan: Plan, name: str) -> Row:
    return next(each for each in plan.rows if each.name == name)
