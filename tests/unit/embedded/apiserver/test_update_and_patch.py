from __future__ import annotations

from typing import Any

import pytest

from tests.support.apiserver.api import JSON_PATCH, MERGE, STRATEGIC, Api, reason
from tests.support.apiserver.cluster_objects import node

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


def test_an_update_replaces_and_counts_generations_of_the_spec(api: Api) -> None:
    pod = api.create_pod("a")
    pod["metadata"]["labels"] = {"app": "x"}
    labelled = api.put("pods/a", pod).json()
    assert labelled["metadata"]["generation"] == 1
    labelled["spec"]["containers"][0]["image"] = "other:2"
    changed = api.put("pods/a", labelled).json()
    assert changed["metadata"]["generation"] == 2
    assert api.get("pods/a").json() == changed


def test_an_update_of_an_old_version_conflicts(api: Api) -> None:
    pod = api.create_pod("a")
    api.patch("pods/a", {"metadata": {"labels": {"x": "y"}}})
    refused = api.put("pods/a", pod)
    assert reason(refused) == (409, "Conflict")
    assert refused.json()["message"] == (
        'Operation cannot be fulfilled on pods "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_an_update_without_a_version_overwrites_where_the_kind_allows_it(api: Api) -> None:
    api.post("configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    assert api.put("configmaps/c", {"metadata": {"name": "c"}, "data": {"b": "2"}}).json()["data"] == {"b": "2"}


def test_a_lease_is_only_updated_at_a_known_version(api: Api) -> None:
    path = LEASES.format(api.namespace)
    lease = api.post(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}).json()
    blind = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}
    refused = api.put(f"{path}/l", blind)
    assert reason(refused) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in refused.json()["message"]
    lease["spec"]["holderIdentity"] = "b"
    assert api.put(f"{path}/l", lease).status_code == 200
    assert reason(api.put(f"{path}/l", lease)) == (409, "Conflict")


def test_an_update_of_another_object_of_the_same_name_conflicts(api: Api) -> None:
    pod = api.create_pod("a")
    api.delete("pods/a")
    api.create_pod("a")
    del pod["metadata"]["resourceVersion"]
    refused = api.put("pods/a", pod)
    assert reason(refused) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in refused.json()["message"]


def test_an_update_that_changes_nothing_is_no_write(api: Api) -> None:
    pod = api.create_pod("a")
    assert api.put("pods/a", pod).json()["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]
    patched = api.patch("pods/a", {"spec": {"priority": 0}}).json()
    assert patched["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_an_update_leaves_the_status_alone_and_a_status_update_the_rest(api: Api) -> None:
    pod = api.create_pod("a")
    pod["status"]["phase"] = "Failed"
    pod["metadata"]["labels"] = {"x": "y"}
    assert api.put("pods/a", pod).json()["status"]["phase"] == "Pending"
    fresh = api.get("pods/a").json()
    fresh["status"]["nominatedNodeName"] = "n1"
    fresh["spec"]["containers"][0]["image"] = "changed"
    updated = api.put("pods/a/status", fresh).json()
    assert updated["status"]["nominatedNodeName"] == "n1"
    assert updated["spec"]["containers"][0]["image"] == "registry.test/app:1"


def test_node_status_is_patched_through_its_subresource(api: Api) -> None:
    name = f"{api.namespace}-n"
    api.post("/api/v1/nodes", node(name))
    condition = {"type": "Ready", "status": "False"}
    path = f"/api/v1/nodes/{name}/status"
    patched = api.patch(path, {"status": {"conditions": [condition], "capacity": {"cpu": 16}}}, STRATEGIC).json()
    assert patched["status"]["conditions"] == [condition]
    assert patched["status"]["capacity"]["cpu"] == "16"
    assert patched["status"]["allocatable"]["cpu"] == "8"


@pytest.mark.parametrize(
    ("media_type", "patch"),
    [
        (MERGE, {"metadata": {"annotations": {"a": "1"}}}),
        (STRATEGIC, {"metadata": {"annotations": {"a": "1"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}]),
    ],
)
def test_three_kinds_of_patch(api: Api, media_type: str, patch: Any) -> None:
    api.create_pod("a")
    patched = api.patch("pods/a", patch, media_type)
    assert patched.status_code == 200
    assert patched.json()["metadata"]["annotations"] == {"a": "1"}


def test_other_kinds_of_patch_are_refused(api: Api) -> None:
    api.create_pod("a")
    refused = api.patch("pods/a", {}, "application/unheard-of+json")
    assert reason(refused) == (415, "UnsupportedMediaType")
    assert "application/strategic-merge-patch+json" in refused.json()["message"]


def test_a_strategic_patch_of_a_condition_keeps_the_others(api: Api) -> None:
    api.create_pod("a")
    for kind in ("PodScheduled", "DisruptionTarget", "PodScheduled"):
        api.patch("pods/a/status", {"status": {"conditions": [{"type": kind, "status": "False"}]}}, STRATEGIC)
    conditions = api.get("pods/a").json()["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["DisruptionTarget", "PodScheduled"]


def test_a_patch_may_insist_on_a_version(api: Api) -> None:
    pod = api.create_pod("a")
    version = pod["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "labels": {"x": "1"}}}
    assert api.patch("pods/a", patch).status_code == 200
    assert reason(api.patch("pods/a", patch)) == (409, "Conflict")


def test_patching_what_is_not_there_is_not_found(api: Api) -> None:
    assert reason(api.patch("pods/a", {})) == (404, "NotFound")
    assert reason(api.put("pods/a", {"metadata": {"name": "a"}})) == (404, "NotFound")


def test_names_cannot_be_changed(api: Api) -> None:
    api.create_pod("a")
    refused = api.patch("pods/a", {"metadata": {"name": "b"}})
    assert reason(refused) == (400, "BadRequest")
    assert "does not match the name on the URL (a)" in refused.json()["message"]


@pytest.mark.parametrize(
    "spec", [{"nodeName": "n1"}, {"schedulerName": "other"}, {"priority": 7}, {"schedulingGates": [{"name": "new"}]}]
)
def test_most_of_a_pods_spec_cannot_be_changed(api: Api, spec: dict[str, Any]) -> None:
    api.create_pod("a")
    refused = api.patch("pods/a", {"spec": spec})
    assert reason(refused) == (422, "Invalid")
    assert "Forbidden" in refused.json()["message"]


def test_gates_may_be_removed_and_a_gated_pod_may_be_redirected(api: Api) -> None:
    api.create_pod("a", schedulingGates=[{"name": "wait"}])
    assert api.patch("pods/a", {"spec": {"nodeSelector": {"zone": "a"}}}).status_code == 200
    assert api.patch("pods/a", {"spec": {"schedulingGates": []}}).status_code == 200
    assert reason(api.patch("pods/a", {"spec": {"nodeSelector": {"zone": "b"}}})) == (422, "Invalid")


@pytest.mark.parametrize(
    ("taints", "text"),
    [
        ([{"key": "a", "effect": "Never"}], "spec.taints[0].effect: Unsupported value"),
        ([{"effect": "NoSchedule"}], "spec.taints[0].key: Required value"),
        ([{"key": "a", "effect": "NoSchedule"}] * 2, "spec.taints[1]: Duplicate value"),
    ],
)
def test_malformed_taints_are_refused(api: Api, taints: list[Any], text: str) -> None:
    name = f"{api.namespace}-n"
    api.post("/api/v1/nodes", node(name))
    refused = api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
    assert reason(refused) == (422, "Invalid")
    assert text in refused.json()["message"]


def test_cordoning_is_a_patch(api: Api) -> None:
    name = f"{api.namespace}-n"
    api.post("/api/v1/nodes", node(name))
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, STRATEGIC)
    assert name in api.names("/api/v1/nodes", fieldSelector="spec.unschedulable=true")
