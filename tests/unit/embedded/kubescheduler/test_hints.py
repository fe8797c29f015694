"""Queueing hints: which change of a node, or which pod that went, could help which rejected pod."""

from __future__ import annotations

from typing import Any

import pytest

from extender.embedded.kubescheduler.events import ClusterEvent
from extender.embedded.kubescheduler.hints import of_node, of_pod_that_went
from tests.support.kubescheduler.objects import a_node, a_pod

TAINT = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
CORDON = {"unschedulable": True}
ZONE = {"zone": "x"}
ADD, LABEL, TAINTS, ROOM = (
    ClusterEvent.NODE_ADD,
    ClusterEvent.NODE_LABEL,
    ClusterEvent.NODE_TAINT,
    ClusterEvent.NODE_ALLOCATABLE,
)


@pytest.mark.parametrize(
    ("plugin", "event", "before", "after", "helps"),
    [
        ("NodeResourcesFit", ADD, None, {"cpu": "2"}, True),
        ("NodeResourcesFit", ADD, None, {"cpu": "1"}, False),
        ("NodeResourcesFit", ROOM, {"cpu": "2"}, {"cpu": "3"}, True),
        ("NodeResourcesFit", ROOM, {"cpu": "3"}, {"cpu": "2"}, False),
        ("NodeResourcesFit", ROOM, {"cpu": "3"}, {"cpu": "3", "more": {"memory": "9Gi"}}, False),
        ("NodeResourcesFit", ROOM, {"pods": "1"}, {"pods": "2"}, True),
        ("NodeResourcesFit", TAINTS, {"cpu": "1"}, {"cpu": "1", "spec": TAINT}, True),
        ("NodeAffinity", ADD, None, {"labels": ZONE}, True),
        ("NodeAffinity", ADD, None, {}, False),
        ("NodeAffinity", LABEL, {}, {"labels": ZONE}, True),
        ("NodeAffinity", LABEL, {"labels": ZONE}, {"labels": {**ZONE, "a": "b"}}, False),
        ("NodeAffinity", TAINTS, {"spec": TAINT}, {}, True),
        ("TaintToleration", ADD, None, {}, True),
        ("TaintToleration", ADD, None, {"spec": TAINT}, False),
        ("TaintToleration", TAINTS, {"spec": TAINT}, {}, True),
        ("TaintToleration", TAINTS, {}, {"spec": TAINT}, False),
        ("NodeUnschedulable", ADD, None, {"spec": CORDON}, False),
        ("NodeUnschedulable", TAINTS, {"spec": CORDON}, {}, True),
        ("NodeUnschedulable", TAINTS, {"spec": TAINT}, {}, False),
        ("Extender", LABEL, {}, {"labels": ZONE}, True),
    ],
)
def test_nodes(plugin: str, event: ClusterEvent, before: dict[str, Any] | None, after: dict[str, Any], helps: bool):
    pod = a_pod("p", cpu="2", spec={"nodeSelector": ZONE})
    old = None if before is None else a_node("n", **before)
    assert of_node(event, old, a_node("n", **after))(plugin, pod) is helps


@pytest.mark.parametrize(
    ("plugin", "port", "helps"), [("NodePorts", 80, True), ("NodePorts", 81, False), ("Fit", 81, True)]
)
def test_pods_that_went(plugin: str, port: int, helps: bool):
    def using(name: str, port: int) -> Any:
        return a_pod(name, spec={"containers": [{"name": "c", "ports": [{"hostPort": port}]}]})

    assert of_pod_that_went(using("gone", port))(plugin, using("p", 80)) is helps
