from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.apiserver.api import Api, reason
from tests.support.apiserver.cluster_objects import node, pod


def test_a_created_object_gets_identity_time_and_version(api: Api) -> None:
    first, second = api.create_pod("a")["metadata"], api.create_pod("b")["metadata"]
    assert uuid.UUID(first["uid"]) != uuid.UUID(second["uid"])
    assert first["creationTimestamp"].endswith("Z")
    assert first["generation"] == 1
    assert int(first["resourceVersion"]) < int(second["resourceVersion"])


def test_what_only_the_server_may_say_is_ignored(api: Api) -> None:
    body = pod("a", api.namespace)
    body["metadata"] |= {"uid": "mine", "generation": 7, "deletionTimestamp": "2020-01-01T00:00:00Z"}
    body["status"] = {"phase": "Running"}
    created = api.post("pods", body).json()
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert "deletionTimestamp" not in created["metadata"]
    assert created["status"]["phase"] == "Pending"


def test_pods_get_the_defaults_that_scheduling_reads(api: Api) -> None:
    spec = api.create_pod("a", limits={"cpu": 1, "memory": "1024Mi"})["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    assert {(t["key"], t["effect"], t["tolerationSeconds"]) for t in spec["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }


def test_own_tolerations_replace_the_default_ones(api: Api) -> None:
    assert len(api.create_pod("a", tolerations=[{"operator": "Exists"}])["spec"]["tolerations"]) == 1


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_qos_class_follows_from_requests_and_limits(api: Api, resources: dict[str, Any], qos: str) -> None:
    assert api.create_pod("a", **resources)["status"]["qosClass"] == qos


@pytest.mark.parametrize(
    ("image", "policy"), [("a", "Always"), ("a:latest", "Always"), ("h:5000/a", "Always"), ("a:1", "IfNotPresent")]
)
def test_the_pull_policy_follows_from_the_tag(api: Api, image: str, policy: str) -> None:
    body = pod("a", api.namespace)
    body["spec"]["containers"][0]["image"] = image
    assert api.post("pods", body).json()["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_nodes_are_allocatable_up_to_their_capacity_unless_they_say_otherwise(api: Api) -> None:
    created = api.post("/api/v1/nodes", node(f"{api.namespace}-n", capacity={"cpu": 4, "memory": "2048Mi"})).json()
    assert created["status"]["allocatable"] == {"cpu": "4", "memory": "2Gi", "pods": "110"}
    assert created["metadata"].get("namespace") is None


def test_generated_names_begin_as_asked_and_differ(api: Api) -> None:
    body = {"metadata": {"generateName": "worker-"}, "data": {}}
    names = {api.post("configmaps", body).json()["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("worker-") and len(name) == len("worker-") + 5 for name in names)


def test_a_taken_name_is_refused(api: Api) -> None:
    api.create_pod("a")
    refused = api.post("pods", pod("a", api.namespace))
    assert reason(refused) == (409, "AlreadyExists")
    assert refused.json()["message"] == 'pods "a" already exists'


def test_the_same_name_may_be_taken_in_another_namespace(api: Api) -> None:
    api.create_pod("a")
    other = f"/api/v1/namespaces/{api.namespace}-other/pods"
    assert api.post(other, pod("a", f"{api.namespace}-other")).status_code == 201


@pytest.mark.parametrize(
    ("field", "value", "path", "text"),
    [
        ("name", "Big", "metadata.name", "a lowercase RFC 1123 subdomain"),
        ("name", "x" * 254, "metadata.name", "must be no more than 253 characters"),
        ("name", "", "metadata.name", "name or generateName is required"),
        ("containers", [], "spec.containers", "Required value"),
        ("containers", [{"image": "x"}], "spec.containers[0].name", "Required value"),
        ("containers", [{"name": "c"}], "spec.containers[0].image", "Required value"),
        ("containers", [{"name": "c", "image": "x"}] * 2, "spec.containers[1].name", 'Duplicate value: "c"'),
        ("restartPolicy", "Sometimes", "spec.restartPolicy", 'supported values: "Always", "OnFailure", "Never"'),
    ],
)
def test_an_invalid_pod_is_refused_with_the_field_at_fault(
    api: Api, field: str, value: Any, path: str, text: str
) -> None:
    body = pod("a", api.namespace)
    body["metadata" if field == "name" else "spec"][field] = value
    refused = api.post("pods", body)
    assert reason(refused) == (422, "Invalid")
    cause = refused.json()["details"]["causes"][0]
    assert cause["field"] == path
    assert text in cause["message"]
    assert f"{path}: " in refused.json()["message"]
    assert api.names("pods") == []


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        ({"requests": {"cpu": "-1"}}, "spec.containers[0].resources.requests[cpu]"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "spec.containers[0].resources.requests"),
        ({"requests": {"example.com/gpu": "1"}}, "spec.containers[0].resources.limits"),
        ({"limits": {"example.com/gpu": "500m"}}, "spec.containers[0].resources.limits[example.com/gpu]"),
    ],
)
def test_impossible_resources_are_refused(api: Api, resources: dict[str, Any], field: str) -> None:
    refused = api.post("pods", pod("a", api.namespace, **resources))
    assert reason(refused) == (422, "Invalid")
    assert refused.json()["details"]["causes"][0]["field"] == field


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"spec": 5}, "spec must be an object"),
        ({"metadata": {"name": "a", "labels": {"x": 1}}}, "metadata.labels[x] must be a string"),
        ({"metadata": {"name": 3}}, "metadata.name must be a string"),
        ({"kind": "Node"}, "must be of type v1, Kind=Pod"),
        ({"metadata": {"name": "a", "namespace": "elsewhere"}}, "does not match the namespace sent on the request"),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, "resourceVersion should not be set"),
        ({"spec": {"containers": ["c"]}}, "spec.containers[0] must be an object"),
        (
            {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "lots"}}}]}},
            "spec.containers[0].resources.limits[cpu]: quantity 'lots'",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_field_at_fault(api: Api, change: dict[str, Any], text: str) -> None:
    refused = api.post("pods", {**pod("a", api.namespace), **change})
    assert reason(refused) == (400, "BadRequest")
    assert text in refused.json()["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b'"\xff"', b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(api: Api, body: bytes) -> None:
    refused = api.http.post(api.path("pods"), content=body, headers={"content-type": "application/json"})
    assert reason(refused) == (400, "BadRequest")


def test_a_huge_body_is_refused(api: Api) -> None:
    refused = api.http.post(api.path("pods"), content=b" " * (3 * 1024 * 1024 + 1))
    assert reason(refused) == (413, "RequestEntityTooLarge")


def test_protobuf_is_refused(api: Api) -> None:
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    refused = api.http.post(api.path("pods"), content=b"k8s\0", headers=headers)
    assert reason(refused) == (415, "UnsupportedMediaType")


def test_a_dry_run_of_a_creation_says_what_would_be_made_and_makes_nothing(api: Api) -> None:
    made = api.post("pods?dryRun=All", pod("a", api.namespace))
    assert made.status_code == 201
    assert made.json()["spec"]["schedulerName"] == "default-scheduler"
    assert reason(api.post("pods?dryRun=All", pod("A!", api.namespace))) == (422, "Invalid")
    assert reason(api.post("pods?dryRun=some", pod("a", api.namespace))) == (422, "Invalid")
    assert api.names("pods") == []
    api.create_pod("a")
    assert reason(api.post("pods?dryRun=All", pod("a", api.namespace))) == (409, "AlreadyExists")


def test_other_dry_runs_are_refused_rather_than_done(api: Api) -> None:
    api.create_pod("b")
    assert reason(api.http.put(api.path("pods/b?dryRun=All"), json=pod("b", api.namespace))) == (400, "BadRequest")
    assert reason(api.delete("pods/b", dryRun="All")) == (400, "BadRequest")
    assert reason(api.delete("pods/b", {"dryRun": ["All"]})) == (400, "BadRequest")
    assert api.names("pods") == ["b"]


def test_nulls_are_dropped(api: Api) -> None:
    body = pod("a", api.namespace)
    body["metadata"] |= {"labels": None, "creationTimestamp": None}
    body["spec"] |= {"nodeSelector": None, "schedulerName": None}
    created = api.post("pods", body).json()
    assert "nodeSelector" not in created["spec"]
    assert created["spec"]["schedulerName"] == "default-scheduler"


def test_unknown_resources_and_paths_are_not_found(api: Api) -> None:
    assert reason(api.get("/api/v1/namespaces/default/bindings")) == (404, "NotFound")
    assert reason(api.get("/apis/nothing/v1/things")) == (404, "NotFound")
    assert reason(api.get("pods/a/log")) == (404, "NotFound")
    assert reason(api.get("/nothing")) == (404, "NotFound")


def test_methods_that_make_no_sense_are_refused(api: Api) -> None:
    assert reason(api.post("/api/v1/pods", pod("a"))) == (405, "MethodNotAllowed")
    assert reason(api.get("pods/a/binding")) == (405, "MethodNotAllowed")
    assert reason(api.put("pods", pod("a"))) == (405, "MethodNotAllowed")


def test_the_priority_class_decides_the_priority(api: Api) -> None:
    name = f"high-{api.namespace}"
    class_ = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"}
    assert api.post("/apis/scheduling.k8s.io/v1/priorityclasses", class_).status_code == 201
    spec = api.create_pod("a", priorityClassName=name)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    assert api.create_pod("b", priorityClassName="system-node-critical")["spec"]["priority"] == 2_000_001_000


def test_an_unknown_priority_class_is_refused(api: Api) -> None:
    refused = api.post("pods", pod("a", api.namespace, priorityClassName="none"))
    assert reason(refused) == (403, "Forbidden")
    assert refused.json()["message"] == 'pods "a" is forbidden: no PriorityClass with name none was found'


def test_a_priority_by_hand_must_agree_with_the_class(api: Api) -> None:
    refused = api.post("pods", pod("a", api.namespace, priority=5))
    assert reason(refused) == (403, "Forbidden")
    assert "must not be provided in pod spec" in refused.json()["message"]


def test_events_of_both_groups_are_the_same_objects(api: Api) -> None:
    event = {
        "metadata": {"name": "e1"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "p1"},
        "reason": "Scheduled",
        "note": "placed",
        "reportingController": "waggle",
    }
    group = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    created = api.post(group, event).json()
    assert (created["apiVersion"], created["note"]) == ("events.k8s.io/v1", "placed")
    core = api.get("events/e1").json()
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "placed", "p1")
    assert "note" not in core
    assert api.names("events", fieldSelector="involvedObject.name=p1") == ["e1"]
    assert api.names(group, fieldSelector="regarding.name=p1,reportingController=waggle") == ["e1"]
    assert api.get(group).json()["items"][0]["note"] == "placed"
