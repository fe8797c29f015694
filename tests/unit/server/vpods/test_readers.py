"""Pods, nodes and StatefulSets as the engine sees them: whether a pod may host vreplicas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from algorithm.decoding import DecodeError
from algorithm.model import Node, Taint
from extender.server.vpods.readers import host_node, read_pod, read_workload
from extender.vpods.records import HostNode, HostPod, ObjectKey, Toleration, Workload

Object = dict[str, Any]
RUNNING: Object = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(spec: Object | None = None, status: Any = RUNNING, **metadata: Any) -> HostPod:
    whole = {"name": "s-0", "namespace": "n", "uid": "u", "resourceVersion": "7", **metadata}
    record = read_pod(json.dumps({"metadata": whole, "spec": spec, "status": status}).encode()).record
    assert isinstance(record, HostPod)
    return record


def node(*taints: Taint, **fields: Any) -> HostNode:
    return host_node(Node(name="a", ready=fields.pop("ready", True), taints=taints, **fields))


def test_a_pod_that_runs_and_is_ready_may_host() -> None:
    expected = HostPod(key=ObjectKey("n", "s-0"), uid="u", version="7", node="a", ready=True)
    assert pod({"nodeName": "a", "containers": [{"name": "main"}]}) == expected


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"phase": "Pending", "conditions": [{"type": "Ready", "status": "True"}]},
        {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
        {"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}]},
        {"phase": "Succeeded", "conditions": None},
    ],
)
def test_one_that_is_not_ready_may_not(status: Any) -> None:
    assert not pod({"nodeName": "a"}, status).ready


def test_one_that_is_being_deleted_is_seen_as_such() -> None:
    assert pod(deletionTimestamp="2026-11-23T15:00:00Z").terminating
    assert pod().node == ""


@pytest.mark.parametrize(
    ("value", "is_closed"),
    [
        *((each, True) for each in ("1", "t", "T", "true", "TRUE", "True")),
        *((each, False) for each in ("0", "f", "F", "false", "FALSE", "False", "yes", "tRuE", " true", "", None, 1)),
    ],
)
def test_knatives_annotation_has_the_values_of_gos_parsebool(value: Any, is_closed: bool) -> None:
    assert pod(annotations={"eventing.knative.dev/unschedulable": value}).closed is is_closed


def test_what_is_no_pod_names_its_field() -> None:
    for broken in (b"", b"[]", b'{"metadata":{"name":1}}', b'{"metadata":{"name":"a"},"spec":{"nodeName":3}}'):
        with pytest.raises(DecodeError):
            read_pod(broken)


# -- nodes --------------------------------------------------------------------------------------------------------


def test_a_node_serves_if_it_is_ready_and_not_cordoned() -> None:
    zone = (("topology.kubernetes.io/zone", "z1"),)
    assert node(labels=zone) == HostNode("a", serves=True, zone="z1")
    assert not node(ready=False).serves
    assert not node(unschedulable=True).serves


DEDICATED = Taint("dedicated", "NoExecute", "kafka")


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [
        ([], False),
        ([{"key": "dedicated", "value": "kafka", "effect": "NoExecute"}], True),
        ([{"key": "dedicated", "operator": "Equal", "value": "kafka"}], True),
        ([{"key": "dedicated", "operator": "Exists"}], True),
        ([{"operator": "Exists"}], True),
        ([{"key": "dedicated", "value": "other"}], False),
        ([{"key": "other", "operator": "Exists"}], False),
        ([{"key": "dedicated", "value": "kafka", "effect": "NoSchedule"}], False),
        ([{"key": "dedicated", "operator": "Exists", "tolerationSeconds": 300}], False),
    ],
)
def test_a_taint_drives_away_the_pods_that_do_not_tolerate_it(tolerations: list[Object], stays: bool) -> None:
    hosted = pod({"nodeName": "a", "tolerations": tolerations})
    assert node(DEDICATED).hosts(hosted.tolerates) is stays
    assert node(Taint("dedicated", "NoSchedule", "kafka")).hosts(hosted.tolerates)
    assert not node(DEDICATED, ready=False).hosts(hosted.tolerates)


def test_every_taint_has_to_be_tolerated() -> None:
    one = (Toleration("dedicated", "kafka"),)
    both = (*one, Toleration("gpu"))
    assert not node(DEDICATED, Taint("gpu", "NoExecute")).hosts(one)
    assert node(DEDICATED, Taint("gpu", "NoExecute")).hosts(both)


def test_what_kubernetes_gives_to_every_pod_takes_no_memory() -> None:
    default = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    assert pod({"nodeName": "a", "tolerations": default}).tolerates == ()


# -- StatefulSets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "replicas"), [({"replicas": 3}, 3), ({"replicas": 0}, 0), ({}, 1), (None, 1)])
def test_a_stateful_set_without_replicas_has_one(spec: Any, replicas: int) -> None:
    whole = {"metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7"}, "spec": spec}
    assert read_workload(json.dumps(whole).encode()).record == Workload(ObjectKey("n", "s"), "u", "7", replicas)


@pytest.mark.parametrize(("policy", "in_order"), [(None, True), ("OrderedReady", True), ("Parallel", False)])
def test_pods_of_a_stateful_set_start_in_order_but_for_parallel(policy: str | None, in_order: bool) -> None:
    metadata = {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    whole = {"metadata": metadata, "spec": {"replicas": 3, "podManagementPolicy": policy}}
    assert read_workload(json.dumps(whole).encode()).record.in_order is in_order


@pytest.mark.parametrize(("ordinals", "first"), [(None, 0), ({}, 0), ({"start": 0}, 0), ({"start": 5}, 5)])
def test_the_ordinals_of_a_stateful_set_start_at_zero_mostly(ordinals: Any, first: int) -> None:
    metadata = {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    whole = {"metadata": metadata, "spec": {"replicas": 3, "ordinals": ordinals}}
    assert read_workload(json.dumps(whole).encode()).record.first == first
