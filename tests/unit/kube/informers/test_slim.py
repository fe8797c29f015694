"""No pod that an honest API server has is left out for what its author wrote on it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import structlog

from algorithm.decoding import DecodeError, decode_pod
from algorithm.model import Pod
from extender.kube.client import bounds
from extender.kube.informers.objects import ObjectDecoder
from extender.kube.informers.reflection import NODES, PODS, ReflectorStats
from extender.kube.informers.slim import slim_pod
from tests.support.apiserver.kube_objects import pod


def running() -> dict[str, Any]:
    made = pod("big")
    made["metadata"]["annotations"] = {"kept": "yes"}
    containers = [{"name": "main", "args": [], "resources": {"requests": {"cpu": "2"}, "limits": {"a.b/gpu": "8"}}}]
    made["spec"] = {**made.get("spec", {}), "nodeName": "n1", "priority": 7, "containers": containers}
    return made


def crowded(what: str) -> dict[str, Any]:
    made = running()
    match what:
        case "commas in a text":
            made["metadata"]["annotations"]["note"] = "," * 262_000
        case "empty arguments":
            made["spec"]["containers"][0]["args"] = [""] * 250_000
        case "labels":
            made["metadata"]["labels"] = {f"k{number}": "" for number in range(110_000)}
        case "commas in arguments":
            made["spec"]["containers"][0]["args"] = ["," * 1_000_000]
    return made


def read(raw: bytes) -> Pod | object:
    return ObjectDecoder(PODS, ReflectorStats(), structlog.get_logger()).read(msgspec.Raw(raw))


@pytest.mark.parametrize("what", ["commas in a text", "empty arguments", "labels", "commas in arguments"])
def test_a_pod_that_runs_is_known_with_what_it_takes_whatever_else_it_has(what: str) -> None:
    raw = json.dumps(crowded(what)).encode()
    assert bounds.oversized(raw)
    found = read(raw)
    assert isinstance(found, Pod), found
    assert found.node_name == "n1"
    assert dict(found.requests) == {"cpu": 2000, "a.b/gpu": 8}
    assert found.annotation("kept") == "yes"


def test_nothing_but_labels_is_lost_of_what_is_read() -> None:
    made = running()
    made["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    made["spec"] |= {
        "schedulingGates": [{"name": "later"}],
        "preemptionPolicy": "Never",
        "schedulingGroup": {"podGroupName": "g"},
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}, None],
        "overhead": {"cpu": "1"},
        "schedulerName": "other",
    }
    made["status"] = {"phase": "Running", "nominatedNodeName": "n2"}
    raw = json.dumps(made).encode()
    assert decode_pod(slim_pod(raw)) == msgspec.structs.replace(decode_pod(raw), labels=())


def test_what_asks_for_more_parts_than_any_pod_has_is_not_decoded() -> None:
    raw = b'{"metadata":{"name":"a","uid":"u"},"spec":{"containers":[%s{}]}}' % (b"{}," * 300_000)
    with pytest.raises(DecodeError, match="parts, expected at most 200000"):
        slim_pod(raw)


def test_a_node_is_not_cut_down() -> None:
    raw = json.dumps({"metadata": {"name": "n", "uid": "u", "labels": {f"k{n}": "" for n in range(110_000)}}}).encode()
    assert not hasattr(ObjectDecoder(NODES, ReflectorStats(), structlog.get_logger()).read(msgspec.Raw(raw)), "labels")


def test_a_pod_of_more_than_four_mib_is_not_read() -> None:
    made = running()
    made["spec"]["containers"][0]["args"] = ["," * (4 * bounds.MIB)]
    assert not isinstance(read(json.dumps(made).encode()), Pod)
