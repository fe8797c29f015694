"""Nodes and pods of a plan as the engine of vpods reads them, and the pods that a StatefulSet gets."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.model import Node, lookup
from extender.plan.reading.expanding import expand
from extender.plan.records import PlanPod, RawObject, World
from extender.vpods.records import HostNode, HostPod, ObjectKey, Toleration

_ZONE = "topology.kubernetes.io/zone"


def host_node(node: Node) -> HostNode:
    taints = tuple((taint.key, taint.value) for taint in node.taints if taint.effect == "NoExecute")
    return HostNode(node.name, node.takes_pods, lookup(node.labels, _ZONE) or "", taints)


def host_pod(pod: PlanPod) -> HostPod:
    tolerates = tuple(
        Toleration(each.key, None if each.operator == "Exists" else each.value)
        for each in pod.pod.tolerations
        if each.effect in ("", "NoExecute")
    )
    return HostPod(
        key=ObjectKey(*pod.pod.key),
        uid=pod.pod.uid,
        version=pod.pod.resource_version,
        node=pod.pod.pod.node_name,
        ready=pod.ready,
        terminating=pod.pod.pod.terminating,
        tolerates=tolerates,
    )


def replicas_of(raw: RawObject) -> tuple[int, int]:
    """Return the replicas of a StatefulSet, and the ordinal of its first pod."""
    spec = _spec(msgspec.json.decode(raw.json))
    ordinals = spec.get("ordinals")
    first = ordinals.get("start", 0) if isinstance(ordinals, dict) else 0
    return _number(spec.get("replicas", 1), 1), _number(first, 0)


def stateful_set_pods(raw: RawObject, replicas: int, world: World) -> tuple[PlanPod, ...]:
    """Return the pods of a StatefulSet with so many replicas, by ordinal."""
    obj = msgspec.json.decode(raw.json)
    obj["spec"] = _spec(obj) | {"replicas": replicas}
    scaled = msgspec.structs.replace(raw, json=msgspec.json.encode(obj))
    return expand((scaled,), world).pods


def _spec(obj: Any) -> dict[str, Any]:
    spec = obj.get("spec") if isinstance(obj, dict) else None
    return spec if isinstance(spec, dict) else {}


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
