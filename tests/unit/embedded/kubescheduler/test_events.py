"""Which changes of nodes and pods are events at all: what was seen to trigger a retry, and what was not."""

from typing import Any

import pytest

from extender.embedded.kubescheduler.events import ClusterEvent, node_events, own_events
from tests.support.kubescheduler.objects import a_node, a_pod


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        ({}, {"labels": {"a": "b"}}, [ClusterEvent.NODE_LABEL]),
        ({}, {"annotations": {"a": "b"}}, [ClusterEvent.NODE_ANNOTATION]),
        ({}, {"cpu": "8"}, [ClusterEvent.NODE_ALLOCATABLE]),
        ({}, {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, [ClusterEvent.NODE_TAINT]),
        ({"spec": {"unschedulable": True}}, {}, [ClusterEvent.NODE_TAINT]),
        ({}, {"spec": {"unschedulable": True}}, []),
        (
            {"conditions": [{"type": "Ready", "status": "False"}]},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            [ClusterEvent.NODE_CONDITION],
        ),
        (
            {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}]},
            {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2"}]},
            [],
        ),
        ({}, {}, []),
    ],
)
def test_node_updates(before: dict[str, Any], after: dict[str, Any], events: list[ClusterEvent]):
    assert node_events(a_node("n", **before), a_node("n", **after)) == events


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        ({}, {"labels": {"a": "b"}}, [ClusterEvent.POD_LABEL]),
        ({"cpu": "2"}, {"cpu": "1"}, [ClusterEvent.POD_SCALE_DOWN]),
        ({"cpu": "1"}, {"cpu": "2"}, [ClusterEvent.POD_OTHER]),
        ({}, {"spec": {"tolerations": [{"operator": "Exists"}]}}, [ClusterEvent.POD_TOLERATION]),
        ({"status": {"nominatedNodeName": "n"}}, {}, [ClusterEvent.POD_OTHER]),
        ({}, {"metadata": {"annotations": {"a": "b"}}}, [ClusterEvent.POD_OTHER]),
    ],
)
def test_updates_of_the_waiting_pod_itself(before: dict[str, Any], after: dict[str, Any], events: list[ClusterEvent]):
    assert own_events(a_pod("p", **before), a_pod("p", **after)) == events
