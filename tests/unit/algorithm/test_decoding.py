"""Records from Kubernetes JSON: what is read, what is forgiven, what is refused and how that is said."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from algorithm.decoding import DecodeError, decode_node, decode_nodes, decode_pod, decode_pods
from algorithm.model import Node, Pod, PodKey, Taint, lookup, pairs

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"


def pod(spec: dict[str, Any] | None = None, **fields: Any) -> Pod:
    return decode_pod(json.dumps({"metadata": {"name": "a", "namespace": "ns"}, "spec": spec, **fields}).encode())


def node(status: dict[str, Any] | None = None, **fields: Any) -> Node:
    return decode_node(json.dumps({"metadata": {"name": "n"}, "status": status, **fields}).encode())


def container(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **fields: Any) -> Any:
    return {"resources": {"requests": requests, "limits": limits}, **fields}


def sidecar(**requests: str) -> Any:
    return container(requests, restartPolicy="Always")


# -- what is read -------------------------------------------------------------------------------------------


def test_a_pod_is_read_field_by_field() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "worker-3",
            "namespace": "train",
            "uid": "6f6c",
            "resourceVersion": "42",
            "labels": {"b": "2", "a": "1"},
            "annotations": {"waggle.dev/gang": "g"},
            "creationTimestamp": "2026-11-21T00:20:13Z",
            "deletionTimestamp": "2026-11-21T00:30:00Z",
        },
        "spec": {
            "nodeName": "n1",
            "schedulerName": "mine",
            "priority": 1000,
            "preemptionPolicy": "Never",
            "schedulingGroup": {"podGroupName": "pg"},
            "schedulingGates": [{"name": "quota"}],
            "containers": [container({"cpu": "1500m", "memory": "1Gi"}, {"example.com/gpu": "4"})],
        },
        "status": {"phase": "Running", "nominatedNodeName": "n2"},
    }
    assert decode_pod(json.dumps(raw).encode()) == Pod(
        namespace="train",
        name="worker-3",
        uid="6f6c",
        resource_version="42",
        labels=(("a", "1"), ("b", "2")),
        annotations=(("waggle.dev/gang", "g"),),
        created="2026-11-21T00:20:13Z",
        terminating=True,
        node_name="n1",
        nominated_node_name="n2",
        phase="Running",
        priority=1000,
        may_preempt=False,
        scheduler_name="mine",
        group="pg",
        gated=True,
        requests=(("cpu", 1500), ("example.com/gpu", 4), ("memory", 2**30)),
        limits=(("example.com/gpu", 4),),
    )


def test_a_node_is_read_field_by_field() -> None:
    raw = {
        "metadata": {"name": "n1", "uid": "9a", "resourceVersion": "7", "labels": {"zone": "a"}, "annotations": {}},
        "spec": {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule", "value": "yes"}]},
        "status": {
            "capacity": {"cpu": "64"},
            "allocatable": {"cpu": "63500m", "memory": "512Gi", "pods": "110", "example.com/gpu": "8"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}],
        },
    }
    assert decode_node(json.dumps(raw).encode()) == Node(
        name="n1",
        uid="9a",
        resource_version="7",
        labels=(("zone", "a"),),
        allocatable=(("cpu", 63500), ("example.com/gpu", 8), ("memory", 512 * 2**30), ("pods", 110)),
        taints=(Taint("gpu", "NoSchedule", "yes"),),
        unschedulable=True,
        ready=False,
    )


def test_a_pod_with_nothing_but_a_name_has_the_defaults_of_kubernetes() -> None:
    bare = decode_pod(b'{"metadata":{"name":"a"}}')
    assert bare == Pod(namespace="default", name="a")
    assert (bare.phase, bare.priority, bare.may_preempt, bare.scheduler_name) == (
        "Pending",
        0,
        True,
        "default-scheduler",
    )


def test_allocatable_falls_back_to_capacity_as_the_api_server_does() -> None:
    assert node({"capacity": {"cpu": "2"}}).allocatable == (("cpu", 2000),)


def test_a_node_without_a_ready_condition_counts_as_ready() -> None:
    assert node({"conditions": []}).ready
    assert node({"conditions": [{"type": "DiskPressure", "status": "True"}]}).ready


@pytest.mark.parametrize(
    ("phase", "finished"),
    [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True), ("Unknown", False)],
)
def test_a_pod_is_finished_when_it_ran_to_its_end(phase: str, finished: bool) -> None:
    assert pod(status={"phase": phase}).finished is finished


def test_a_key_reads_like_kubectl() -> None:
    assert str(pod().key) == "ns/a"
    assert pod().key == PodKey("ns", "a")


def test_annotations_are_looked_up_by_key() -> None:
    record = decode_pod(b'{"metadata":{"name":"a","annotations":{"x":"1","y":""}}}')
    assert [record.annotation(key) for key in ("x", "y", "z")] == ["1", "", None]
    assert lookup(pairs({"b": "2", "a": "1"}), "a") == "1"
    assert pairs(None) == ()


# -- what a pod asks for: resource.PodRequests of k8s.io/component-helpers -------------------------------------


def test_containers_add_up() -> None:
    record = pod({"containers": [container({"cpu": "1"}), container({"cpu": "500m", "memory": "1Ki"})]})
    assert record.requests == (("cpu", 1500), ("memory", 1024))


def test_an_init_container_counts_where_it_is_larger_resource_by_resource() -> None:
    spec = {
        "initContainers": [container({"cpu": "3", "memory": "1"}), container({"cpu": "1", "memory": "4"})],
        "containers": [container({"cpu": "2", "memory": "2"})],
    }
    assert pod(spec).requests == (("cpu", 3000), ("memory", 4))


def test_sidecars_add_to_the_containers() -> None:
    spec = {"initContainers": [sidecar(cpu="1"), sidecar(cpu="2")], "containers": [container({"cpu": "4"})]}
    assert pod(spec).requests == (("cpu", 7000),)


def test_an_init_container_runs_beside_the_sidecars_started_before_it_only() -> None:
    before = {"initContainers": [sidecar(cpu="1"), container({"cpu": "5"})], "containers": [container({"cpu": "2"})]}
    after = {"initContainers": [container({"cpu": "5"}), sidecar(cpu="1")], "containers": [container({"cpu": "2"})]}
    assert pod(before).requests == (("cpu", 6000),)
    assert pod(after).requests == (("cpu", 5000),)


def test_the_example_of_the_sidecar_proposal_comes_to_the_published_figure() -> None:
    """KEP-753: max(max over i of (init[i] + sidecars before it), containers + all sidecars)."""
    spec = {
        "initContainers": [
            container({"memory": "10"}),
            sidecar(memory="3"),
            container({"memory": "9"}),
            sidecar(memory="4"),
            container({"memory": "2"}),
        ],
        "containers": [container({"memory": "1"}), container({"memory": "5"})],
    }
    assert pod(spec).requests == (("memory", max(10, 3, 9 + 3, 3 + 4, 2 + 3 + 4, 1 + 5 + 3 + 4)),)


def test_overhead_comes_on_top_of_everything() -> None:
    spec = {
        "initContainers": [container({"cpu": "3"})],
        "containers": [container({"cpu": "1"})],
        "overhead": {"cpu": "250m", "memory": "1Ki"},
    }
    assert pod(spec).requests == (("cpu", 3250), ("memory", 1024))


def test_pod_level_requests_replace_those_of_the_containers_resource_by_resource() -> None:
    spec = {
        "containers": [container({"cpu": "4", "memory": "1Ki", "example.com/gpu": "1"})],
        "resources": {"requests": {"cpu": "2"}},
        "overhead": {"cpu": "100m"},
    }
    assert pod(spec).requests == (("cpu", 2100), ("example.com/gpu", 1), ("memory", 1024))


def test_a_pod_level_limit_stands_for_a_request_that_neither_pod_nor_containers_have() -> None:
    spec = {
        "containers": [container({"cpu": "1"})],
        "resources": {"limits": {"cpu": "4", "memory": "1Ki"}},
    }
    assert pod(spec).requests == (("cpu", 1000), ("memory", 1024))


def test_a_limit_stands_for_a_request_that_is_absent() -> None:
    spec = {"containers": [container({"cpu": "1"}, {"cpu": "2", "example.com/gpu": "8"})]}
    assert pod(spec).requests == (("cpu", 1000), ("example.com/gpu", 8))


def test_limits_name_every_limit_of_containers_and_init_containers() -> None:
    spec = {
        "initContainers": [container(None, {"example.com/fpga": "0"})],
        "containers": [container(None, {"cpu": "1"}), container(None, {"cpu": "1"})],
    }
    assert pod(spec).limits == (("cpu", 2000), ("example.com/fpga", 0))


def test_a_resource_of_quantity_zero_is_still_named() -> None:
    """kube-scheduler's managedResources look at the key alone."""
    assert pod({"containers": [container({"example.com/gpu": "0"})]}).requests == (("example.com/gpu", 0),)


def test_each_container_is_rounded_up_by_itself() -> None:
    spec = {"containers": [container({"memory": "100m"}), container({"memory": "100m"})]}
    assert pod(spec).requests == (("memory", 2),)


# -- what is forgiven ----------------------------------------------------------------------------------------

ALL_FIELDS = {
    "metadata": {
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"a": "b"},
        "annotations": {"a": "b"},
        "creationTimestamp": "t",
        "deletionTimestamp": "t",
    },
    "spec": {
        "nodeName": "n",
        "schedulerName": "s",
        "priority": 1,
        "preemptionPolicy": "Never",
        "schedulingGroup": {"podGroupName": "g"},
        "schedulingGates": [{"name": "x"}],
        "containers": [container({"cpu": "1"}, {"cpu": "1"})],
        "initContainers": [container({"cpu": "1"}, {"cpu": "1"}, restartPolicy="Always")],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        "overhead": {"cpu": "1"},
        "unschedulable": True,
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    },
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n",
        "allocatable": {"cpu": "1"},
        "capacity": {"cpu": "1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def with_each_value_null(value: Any) -> list[Any]:
    """The value with one of its parts replaced by null, for every part at every depth."""
    if isinstance(value, dict):
        return [{**value, key: other} for key in value for other in [None, *with_each_value_null(value[key])]]
    if isinstance(value, list):
        changed = [[None, *value[1:]]]
        return changed + [[other, *value[1:]] for other in with_each_value_null(value[0])]
    return []


def test_null_stands_for_absent_wherever_it_is() -> None:
    variants = with_each_value_null(ALL_FIELDS)
    assert len(variants) > 50
    for variant in variants:
        named = {**variant, "metadata": {**(variant["metadata"] or {}), "name": "a"}}
        raw = json.dumps(named).encode()
        assert decode_pod(raw).name == "a"
        assert decode_node(raw).name == "a"


def test_unknown_fields_are_ignored_at_every_depth() -> None:
    more = {"x": {"y": [1, 2.5, None, True, {"z": "\u00fc"}]}}
    raw = {
        "metadata": {"name": "a", "namespace": "ns", "managedFields": [more], **more},
        "spec": {"containers": [{"image": "x", "resources": {"claims": [more], **more}, **more}], **more},
        **more,
    }
    assert decode_pod(json.dumps(raw).encode()) == Pod(namespace="ns", name="a")


def test_a_pod_without_containers_asks_for_nothing() -> None:
    assert pod({"containers": []}).requests == ()
    assert pod({}).requests == ()


def test_quantities_may_be_json_numbers() -> None:
    assert pod({"containers": [container({"cpu": 0.5, "example.com/gpu": 2})]}).requests == (
        ("cpu", 500),
        ("example.com/gpu", 2),
    )


def test_huge_amounts_saturate_instead_of_failing() -> None:
    assert node({"allocatable": {"memory": "100Ei"}}).allocatable == (("memory", 2**63 - 1),)


def test_text_of_any_language_survives() -> None:
    raw = '{"metadata":{"name":"a","labels":{"k":"\u00fc\u4e2d\U0001f41d","e":"\\ud83d\\udc1d"}}}'.encode()
    assert decode_pod(raw).labels == (("e", "\U0001f41d"), ("k", "\u00fc\u4e2d\U0001f41d"))


# -- what is refused, and how that is said -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"metadata": {"name": 7}}, "$.metadata.name"),
        ({"metadata": []}, "$.metadata"),
        ({"metadata": {"name": "a", "labels": {"x": 1}}}, "$.metadata.labels"),
        ({"metadata": {"name": "a"}, "spec": {"priority": "high"}}, "$.spec.priority"),
        ({"metadata": {"name": "a"}, "spec": {"priority": 1.5}}, "$.spec.priority"),
        ({"metadata": {"name": "a"}, "spec": {"containers": {}}}, "$.spec.containers"),
        ({"metadata": {"name": "a"}, "spec": {"containers": [{}, 1]}}, "$.spec.containers[1]"),
        ({"metadata": {"name": "a"}, "spec": {"containers": [container({"cpu": True})]}}, "resources.requests"),
    ],
)
def test_a_wrong_type_is_refused_by_the_path_of_its_field(raw: Any, said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_pod(json.dumps(raw).encode())
    assert said in str(caught.value)


@pytest.mark.parametrize("metadata", [None, {}, {"name": None}, {"name": ""}])
def test_an_object_without_a_name_is_refused(metadata: Any) -> None:
    for decode in (decode_pod, decode_node):
        with pytest.raises(DecodeError, match=r"metadata\.name must not be empty"):
            decode(json.dumps({"metadata": metadata}).encode())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"containers": [{}, container({"cpu": "1 core"})]}, "spec.containers[1].resources.requests[cpu]: "),
        ({"containers": [container(None, {"memory": "1gb"})]}, "spec.containers[0].resources.limits[memory]: "),
        ({"initContainers": [container({"cpu": "x"})]}, "spec.initContainers[0].resources.requests[cpu]: "),
        ({"overhead": {"cpu": ""}}, "spec.overhead[cpu]: "),
        ({"resources": {"requests": {"cpu": "?"}}}, "spec.resources.requests[cpu]: "),
        ({"resources": {"limits": {"cpu": "?"}}}, "spec.resources.limits[cpu]: "),
    ],
)
def test_a_bad_quantity_is_refused_by_the_path_of_its_field(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        pod(spec)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", ["-1", "-0.1", "-1m", "-1n"])
def test_a_negative_amount_is_refused_however_small(text: str) -> None:
    with pytest.raises(DecodeError, match=r"status\.allocatable\[memory\]: .* must not be negative"):
        node({"allocatable": {"memory": text}})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b'{"metadata":{"name":"a"}',
        b'{"metadata":{"name":"a"}}}',
        b"[]",
        b"null",
        b"1",
        b'"pod"',
        b"\xff\xfe",
        b'{"metadata":{"name":"\xff"}}',
        b'{"metadata":{"name":"\\ud800"}}',
        b'{"metadata":{"name":"a","labels":{"\xc3\x28":"x"}}}',
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"resources":{"requests":{"cpu":1e999}}}]}}',
        b"{'metadata':{}}",
        b'{"metadata":NaN}',
    ],
)
def test_what_is_no_json_object_of_that_kind_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_pod(raw)
    assert str(caught.value)


@pytest.mark.parametrize("depth", [100, 5_000, 200_000])
@pytest.mark.parametrize("field", ["spec", "unknown"])
def test_deep_nesting_never_breaks_the_process(depth: int, field: str) -> None:
    raw = b'{"metadata":{"name":"a"},"%s":{"x":%s%s}}' % (field.encode(), b"[" * depth, b"]" * depth)
    read = decode_pods([msgspec.Raw(raw)])
    assert len(read.records) + len(read.errors) == 1
    assert read.records or depth > 100


def test_one_object_that_cannot_be_read_spoils_nothing_else_in_a_list() -> None:
    items = [
        b'{"metadata":{"name":"a"}}',
        b'{"metadata":{"name":"b"},"spec":{"priority":"high"}}',
        b'{"metadata":{"name":"c"},"spec":{"overhead":{"cpu":"much"}}}',
        b'{"metadata":{}}',
        b'"\xff"',
        b'{"metadata":{"name":"f"}}',
    ]
    decoded = decode_pods(msgspec.Raw(item) for item in items)
    assert [record.name for record in decoded.records] == ["a", "f"]
    assert [str(error)[:20] for error in decoded.errors][1:3] == ["spec.overhead[cpu]: ", "metadata.name must n"]
    assert len(decoded.errors) == 4
    assert [record.name for record in decode_nodes(msgspec.Raw(item) for item in items).records] == ["a", "b", "c", "f"]


# -- what records promise ------------------------------------------------------------------------------------


def test_records_cannot_be_changed() -> None:
    for record in (pod(), node(), Taint("k", "NoSchedule")):
        with pytest.raises(AttributeError):
            record.name = "other"  # type: ignore[union-attr]


def test_records_and_what_they_hold_are_invisible_to_the_garbage_collector() -> None:
    record = pod({"containers": [container({"cpu": "1"}, {"cpu": "2"})]}, metadata={"name": "a", "labels": {"x": "y"}})
    assert not gc.is_tracked(record)
    gc.collect()
    gc.collect()  # a tuple is let go once those that it holds were
    assert not any(gc.is_tracked(field) for field in (record.labels, record.requests, record.limits))


def test_equal_objects_make_equal_records_whatever_the_order_of_their_keys() -> None:
    one = decode_pod(b'{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"overhead":{"cpu":"1","a":"1"}}}')
    two = decode_pod(b'{"spec":{"overhead":{"a":1,"cpu":"1000m"}},"metadata":{"labels":{"y":"2","x":"1"},"name":"a"}}')
    assert one == two
    assert hash(one) == hash(two)


# -- what a real kube-scheduler 1.36 sent --------------------------------------------------------------------


class Call(msgspec.Struct):
    """The Kubernetes objects of a captured body, undecoded."""

    Pod: msgspec.Raw
    Nodes: dict[str, msgspec.Raw] | None = None
    NodeNameToVictims: dict[str, dict[str, msgspec.Raw]] | None = None


def captured(name: str) -> Call:
    return msgspec.json.decode((CAPTURES / name).read_bytes(), type=Call)


CAPTURED = sorted(path.name for path in CAPTURES.iterdir() if not path.name.startswith("bind"))


@pytest.mark.parametrize("name", CAPTURED)
def test_every_captured_pod_is_read(name: str) -> None:
    record = decode_pod(captured(name).Pod)
    assert record.uid
    assert record.created
    assert dict(record.requests)["cpu"] > 0


@pytest.mark.parametrize("name", ["filter-nodes.raw", "prioritize-nodes.raw"])
def test_every_captured_node_is_read(name: str) -> None:
    nodes = captured(name).Nodes
    assert nodes is not None
    decoded = decode_nodes(msgspec.json.decode(nodes["items"], type=list[msgspec.Raw]))
    assert not decoded.errors
    assert decoded.records
    for record in decoded.records:
        assert record.ready
        assert {"cpu", "memory", "pods"} <= {resource for resource, _ in record.allocatable}


def test_every_captured_victim_is_read() -> None:
    victims = captured("preempt-victims.raw").NodeNameToVictims
    assert victims
    for name, entry in victims.items():
        decoded = decode_pods(msgspec.json.decode(entry["Pods"], type=list[msgspec.Raw]))
        assert not decoded.errors
        assert {record.node_name for record in decoded.records} == {name}
        assert {record.priority for record in decoded.records} == {1}


def test_the_captured_gang_member_names_its_pod_group() -> None:
    assert decode_pod(captured("filter-gang-member.raw").Pod).group == "g"


def test_the_captured_gpu_pod_asks_for_what_its_manifest_said() -> None:
    record = decode_pod(captured("filter-nodenames.raw").Pod)
    assert (dict(record.requests)["cpu"], dict(record.requests)["example.com/gpu"]) == (2000, 1)
