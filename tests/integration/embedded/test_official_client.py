"""The official Python client against the embedded API server: what Waggle and its users do with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import binding, node, pod


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(stop_delay=0.05) as cluster:
        cluster.apply(node("n1", capacity={"cpu": 8, "nvidia.com/gpu": 4}))
        yield cluster


@pytest.fixture(scope="module")
def connection(cluster: EmbeddedCluster) -> Iterator[client.ApiClient]:
    configuration = client.Configuration()
    configuration.host = cluster.url
    with client.ApiClient(configuration) as connection:
        yield connection
        connection.rest_client.pool_manager.clear()


@pytest.fixture
def core(connection: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(connection)


def test_typed_lists_of_nodes_and_pods(core: client.CoreV1Api, cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("typed", limits={"cpu": 1, "memory": "0.5Gi"}))
    assert core.list_node().items[0].status.allocatable["nvidia.com/gpu"] == "4"
    found = next(each for each in core.list_namespaced_pod("default").items if each.metadata.name == "typed")
    assert found.spec.containers[0].resources.requests == {"cpu": "1", "memory": "512Mi"}


def test_pages(core: client.CoreV1Api) -> None:
    for index in range(5):
        core.create_namespaced_pod("paged", pod(f"p{index}", "paged"))
    names: list[str] = []
    token: str | None = ""
    while token is not None:
        page = core.list_namespaced_pod("paged", limit=2, _continue=token or None)
        names += [each.metadata.name for each in page.items]
        token = page.metadata._continue or None
    assert names == ["p0", "p1", "p2", "p3", "p4"]


def test_watch(core: client.CoreV1Api, cluster: EmbeddedCluster) -> None:
    version = core.list_namespaced_pod("watched").metadata.resource_version
    cluster.apply(pod("a", "watched"))
    cluster.delete("pods", "a", "watched")
    stream = watch.Watch().stream(core.list_namespaced_pod, "watched", resource_version=version, timeout_seconds=1)
    assert [event["type"] for event in stream] == ["ADDED", "MODIFIED", "DELETED"]


def test_bind_run_and_evict(core: client.CoreV1Api, cluster: EmbeddedCluster) -> None:
    created = core.create_namespaced_pod("default", pod("bound"))
    body = binding("bound", "n1", uid=created.metadata.uid, annotations={"waggle.dev/x": "1"})
    answer = core.create_namespaced_pod_binding("bound", "default", body, _preload_content=False)
    assert (answer.status, json.loads(answer.data)["status"]) == (201, "Success")

    running: Any = eventually(
        lambda: (p := core.read_namespaced_pod("bound", "default")).status.phase == "Running" and p
    )
    assert running.spec.node_name == "n1"
    assert running.metadata.annotations == {"waggle.dev/x": "1"}

    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_binding("bound", "default", body, _preload_content=False)
    assert refused.value.status == 409

    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="bound", namespace="default"))
    core.create_namespaced_pod_eviction("bound", "default", eviction, _preload_content=False)
    eventually(lambda: cluster.get("pods", "bound") is None)


def test_patches(core: client.CoreV1Api) -> None:
    core.create_namespaced_pod("default", pod("patched"))
    core.patch_namespaced_pod("patched", "default", {"metadata": {"annotations": {"a": "1"}}})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    patched = core.patch_namespaced_pod_status("patched", "default", {"status": {"conditions": [condition]}})
    assert patched.metadata.annotations == {"a": "1"}
    assert patched.status.conditions[0].reason == "Unschedulable"
    core.patch_node("n1", {"spec": {"unschedulable": True}})
    assert core.list_node(field_selector="spec.unschedulable=true").items[0].metadata.name == "n1"
    core.patch_node("n1", {"spec": {"unschedulable": None}})


def test_two_candidates_replace_one_lease(connection: client.ApiClient) -> None:
    leases = client.CoordinationV1Api(connection)
    spec = client.V1LeaseSpec(holder_identity="a", lease_duration_seconds=15)
    meta = client.V1ObjectMeta(name="leader", namespace="default")
    first = leases.create_namespaced_lease("default", client.V1Lease(metadata=meta, spec=spec))
    second = leases.read_namespaced_lease("leader", "default")
    first.spec.holder_identity = "b"
    leases.replace_namespaced_lease("leader", "default", first)
    second.spec.holder_identity = "c"
    with pytest.raises(ApiException) as refused:
        leases.replace_namespaced_lease("leader", "default", second)
    assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (409, "Conflict")
    assert leases.read_namespaced_lease("leader", "default").spec.holder_identity == "b"


def test_events(connection: client.ApiClient, core: client.CoreV1Api) -> None:
    about = client.V1ObjectReference(kind="Pod", name="p", namespace="default")
    meta = client.V1ObjectMeta(generate_name="p.", namespace="default")
    core.create_namespaced_event(
        "default", client.CoreV1Event(metadata=meta, involved_object=about, reason="Waiting", message="no room")
    )
    found = core.list_namespaced_event("default", field_selector="involvedObject.name=p").items
    assert [(each.reason, each.message) for each in found] == [("Waiting", "no room")]


def test_refusals_arrive_as_status_objects(core: client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_pod("nobody", "default")
    assert refused.value.status == 404
    assert json.loads(refused.value.body)["message"] == 'pods "nobody" not found'
