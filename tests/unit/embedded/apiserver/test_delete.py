from __future__ import annotations

from tests.support.apiserver.api import Api, reason
from tests.support.apiserver.cluster_objects import node


def test_an_unbound_pod_goes_at_once(api: Api) -> None:
    api.create_pod("a")
    gone = api.delete("pods/a")
    assert (gone.status_code, gone.json()["kind"]) == (200, "Pod")
    assert reason(api.get("pods/a")) == (404, "NotFound")


def test_a_bound_pod_is_terminating_until_its_kubelet_has_stopped_it(api: Api) -> None:
    api.create_pod("a")
    api.bind("a")
    generation = api.get("pods/a").json()["metadata"]["generation"]
    metadata = api.delete("pods/a").json()["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert metadata["deletionTimestamp"] > metadata["creationTimestamp"]
    assert metadata["generation"] == generation + 1
    assert api.get("pods/a").json()["metadata"] == metadata


def test_deleting_again_changes_nothing_unless_it_is_sooner(api: Api) -> None:
    api.create_pod("a")
    api.bind("a")
    first = api.delete("pods/a").json()
    assert api.delete("pods/a").json() == first
    assert api.delete("pods/a", {"gracePeriodSeconds": 5}).json()["metadata"]["deletionGracePeriodSeconds"] == 5
    assert api.delete("pods/a", gracePeriodSeconds=0).status_code == 200
    assert api.get("pods/a").status_code == 404


def test_a_finished_pod_goes_at_once(api: Api) -> None:
    api.create_pod("a")
    api.bind("a")
    api.patch("pods/a/status", {"status": {"phase": "Succeeded"}})
    api.delete("pods/a")
    assert api.get("pods/a").status_code == 404


def test_other_objects_go_at_once_and_are_answered_by_a_status(api: Api) -> None:
    name = f"{api.namespace}-n"
    uid = api.post("/api/v1/nodes", node(name)).json()["metadata"]["uid"]
    status = api.delete(f"/api/v1/nodes/{name}").json()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": name, "kind": "nodes", "uid": uid}


def test_preconditions_must_hold(api: Api) -> None:
    pod = api.create_pod("a")["metadata"]
    for precondition in ({"uid": "another"}, {"resourceVersion": "1"}):
        assert reason(api.delete("pods/a", {"preconditions": precondition})) == (409, "Conflict")
    right = {"uid": pod["uid"], "resourceVersion": pod["resourceVersion"]}
    assert api.delete("pods/a", {"preconditions": right}).status_code == 200


def test_finalizers_keep_an_object_until_they_are_removed(api: Api) -> None:
    api.create_pod("a", finalizers=["waggle.dev/test"])
    assert "deletionTimestamp" in api.delete("pods/a").json()["metadata"]
    assert api.get("pods/a").status_code == 200
    assert api.patch("pods/a", {"metadata": {"finalizers": None}}).status_code == 200
    assert api.get("pods/a").status_code == 404


def test_deleting_what_is_not_there_is_not_found(api: Api) -> None:
    assert reason(api.delete("pods/a")) == (404, "NotFound")


def test_malformed_options_are_refused(api: Api) -> None:
    api.create_pod("a")
    refused = api.delete("pods/a", {"gracePeriodSeconds": "soon"})
    assert reason(refused) == (400, "BadRequest")
    assert "gracePeriodSeconds" in refused.json()["message"]
    assert api.get("pods/a").status_code == 200


def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        api.create_pod(name, labels={"app": app})
    answer = api.delete("pods", labelSelector="app=x").json()
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    assert api.names("pods") == ["b"]


def test_deleting_a_namespace_deletes_what_is_in_it(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": api.namespace}})
    api.create_pod("a")
    api.delete(f"/api/v1/namespaces/{api.namespace}")
    assert api.names("pods") == []
