from __future__ import annotations

import pytest

from extender.embedded.apiserver import EmbeddedCluster
from tests.support.apiserver.api import Api, reason


def test_lists_are_sorted_and_carry_the_version_of_the_whole_cluster(api: Api) -> None:
    last = [api.create_pod(name) for name in ("c", "a", "b")][-1]
    answer = api.get("pods").json()
    assert (answer["kind"], answer["apiVersion"]) == ("PodList", "v1")
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b", "c"]
    assert answer["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]
    assert "kind" not in answer["items"][0]


def test_a_list_is_of_one_namespace_or_of_all(api: Api) -> None:
    api.create_pod("a")
    assert api.names("pods") == ["a"]
    assert api.names("/api/v1/namespaces/empty/pods") == []
    everywhere = api.get("/api/v1/pods").json()["items"]
    assert (api.namespace, "a") in [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in everywhere]


def test_lists_are_selected_by_labels_and_fields(api: Api) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        api.create_pod(name, labels={"app": app})
    api.bind("c", "n1")
    assert api.names("pods", labelSelector="app=x") == ["a", "c"]
    assert api.names("pods", fieldSelector="spec.nodeName=") == ["a", "b"]
    assert api.names("pods", fieldSelector="spec.nodeName=n1,status.phase=Pending") == ["c"]
    assert api.names("pods", fieldSelector="metadata.name!=a", labelSelector="app in (x,y)") == ["b", "c"]


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": "app in"},
        {"fieldSelector": "spec.color=red"},
        {"limit": "-1"},
        {"limit": "many"},
        {"continue": "nonsense"},
        {"resourceVersion": "new"},
    ],
)
def test_malformed_parameters_are_refused(api: Api, query: dict[str, str]) -> None:
    assert reason(api.get("pods", **query)) == (400, "BadRequest")


@pytest.mark.parametrize(
    "query", [{"resourceVersion": "1", "resourceVersionMatch": "About"}, {"resourceVersionMatch": "Exact"}]
)
def test_parameters_that_make_no_sense_together_are_refused(api: Api, query: dict[str, str]) -> None:
    assert reason(api.get("pods", **query)) == (422, "Invalid")


def test_pages_together_are_one_moments_list(api: Api) -> None:
    for name in "abcde":
        api.create_pod(name)
    page = api.get("pods", limit=2).json()
    assert page["metadata"]["remainingItemCount"] == 3
    api.create_pod("aa")
    api.delete("pods/c")
    api.patch("pods/d", {"metadata": {"labels": {"late": "1"}}})
    rest = api.get("pods", limit=3, **{"continue": page["metadata"]["continue"]}).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert "labels" not in rest["items"][1]["metadata"]
    assert rest["metadata"] == {"resourceVersion": page["metadata"]["resourceVersion"]}


def test_pages_are_cut_after_selecting(api: Api) -> None:
    for name in "abcd":
        api.create_pod(name, labels={"odd": str(name in "ac")})
    page = api.get("pods", limit=1, labelSelector="odd=True").json()
    query = {"continue": page["metadata"]["continue"]}
    assert api.names("pods", limit=1, labelSelector="odd=True", **query) == ["c"]


def test_an_expired_page_is_410_with_a_token_to_go_on_inconsistently(api: Api, still_cluster: EmbeddedCluster) -> None:
    for name in "abc":
        api.create_pod(name)
    page = api.get("pods", limit=1).json()
    api.delete("pods/b")
    still_cluster.compact()
    refused = api.get("pods", limit=1, **{"continue": page["metadata"]["continue"]})
    assert reason(refused) == (410, "Expired")
    assert "The provided continue parameter is too old" in refused.json()["message"]
    assert api.names("pods", **{"continue": refused.json()["metadata"]["continue"]}) == ["c"]


def test_a_list_may_be_of_an_exact_earlier_version(api: Api, still_cluster: EmbeddedCluster) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    api.create_pod("b")
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert api.names("pods", **exact) == ["a"]
    assert api.names("pods", resourceVersion=version) == ["a", "b"]
    still_cluster.compact()
    assert reason(api.get("pods", **exact)) == (410, "Expired")


def test_a_version_from_the_future_is_refused(api: Api) -> None:
    refused = api.get("pods", resourceVersion="999999999")
    assert reason(refused) == (504, "Timeout")
    assert "Too large resource version" in refused.json()["message"]


def test_discovery_tells_what_is_served(api: Api) -> None:
    assert api.get("/version").json()["gitVersion"] == "v1.36.0+embedded"
    assert api.get("/api").json()["versions"] == ["v1"]
    groups = {group["name"] for group in api.get("/apis").json()["groups"]}
    assert groups >= {"apps", "coordination.k8s.io", "events.k8s.io", "policy", "scheduling.k8s.io", "storage.k8s.io"}
    resources = {entry["name"]: entry for entry in api.get("/api/v1").json()["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/eviction"]["group"] == "policy"
    assert not resources["nodes"]["namespaced"]
    assert api.get("/apis/policy").json()["kind"] == "APIGroup"
    assert api.get("/apis/policy/v1").json()["groupVersion"] == "policy/v1"
    sets = {entry["name"]: entry for entry in api.get("/apis/apps/v1").json()["resources"]}
    assert (sets["statefulsets/scale"]["group"], sets["statefulsets/scale"]["kind"]) == ("autoscaling", "Scale")
    assert sets["statefulsets"]["categories"] == ["all"]
    alpha = {entry["name"] for entry in api.get("/apis/scheduling.k8s.io/v1alpha2").json()["resources"]}
    assert alpha >= {"podgroups", "workloads"}
    assert api.get("/readyz").text == "ok"
