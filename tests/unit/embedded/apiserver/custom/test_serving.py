"""Custom resources are served from their definition on until it is gone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from extender.embedded.apiserver import ApiError, EmbeddedCluster
from tests.support.apiserver.api import STRATEGIC, Api, brief, reason
from tests.support.apiserver.custom import CRDS, Object, definition, version, widget

_numbers = itertools.count(1)


@pytest.fixture
def group(api: Api) -> Iterator[str]:
    """A group of its own, with Widgets."""
    name = f"g{next(_numbers)}.test"
    define(api, definition(name, version(subresources={"status": {}})))
    yield name
    api.delete(f"{CRDS}/widgets.{name}")


def define(api: Api, body: Object) -> Object:
    response = api.post(CRDS, body)
    assert response.status_code == 201, response.text
    return response.json()


def path(api: Api, group: str, rest: str = "", at: str = "v1") -> str:
    return api.path(f"widgets{rest}", f"apis/{group}/{at}")


def make(api: Api, group: str, name: str, **more: Any) -> Object:
    response = api.post(path(api, group), widget(group, name, **more))
    assert response.status_code == 201, response.text
    return response.json()


def test_a_watch_sees_the_definition_become_established(api: Api) -> None:
    with api.watch(CRDS, fieldSelector="metadata.name=widgets.seen.test") as events:
        define(api, definition("seen.test"))
        assert brief(next(events)) == ("ADDED", "widgets.seen.test")
        changed = next(events)
        conditions = {each["type"]: each["status"] for each in changed["object"]["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        api.delete(f"{CRDS}/widgets.seen.test")
        assert [brief(next(events))[0] for _ in range(2)] == ["MODIFIED", "DELETED"]


def test_the_end_of_a_definition_takes_its_objects_along_and_ends_watches(api: Api, group: str) -> None:
    make(api, group, "a")
    with api.watch(path(api, group)) as events:
        assert brief(next(events)) == ("ADDED", "a")
        api.delete(f"{CRDS}/widgets.{group}")
        assert brief(next(events)) == ("DELETED", "a")
        assert list(events) == []
    assert reason(api.get(path(api, group))) == (404, "NotFound")
    assert group not in [each["name"] for each in api.get("/apis").json()["groups"]]


def test_a_definition_waits_for_objects_with_finalizers_and_lets_none_be_made(api: Api, group: str) -> None:
    make(api, group, "a", metadata={"finalizers": ["test/f"]})
    api.delete(f"{CRDS}/widgets.{group}")
    going = api.get(f"{CRDS}/widgets.{group}").json()
    assert "deletionTimestamp" in going["metadata"]
    assert reason(api.post(path(api, group), widget(group, "b"))) == (405, "MethodNotAllowed")
    assert "deletionTimestamp" in api.get(path(api, group, "/a")).json()["metadata"]
    api.patch(path(api, group, "/a"), {"metadata": {"finalizers": None}})
    assert reason(api.get(f"{CRDS}/widgets.{group}")) == (404, "NotFound")
    assert reason(api.get(path(api, group, "/a"))) == (404, "NotFound")


def test_a_definition_that_comes_back_does_not_remember(api: Api, group: str) -> None:
    old = make(api, group, "a")["metadata"]["resourceVersion"]
    api.delete(f"{CRDS}/widgets.{group}")
    define(api, definition(group))
    assert api.names(path(api, group)) == []
    with api.watch(path(api, group), resourceVersion=old) as events:
        assert next(events)["object"]["code"] == 410


def test_a_changed_schema_counts_from_now_on_and_watches_go_on(api: Api, group: str) -> None:
    with api.watch(path(api, group)) as events:
        spec = {"n": {"type": "integer", "default": 7}}
        body = {"spec": {"versions": [version(spec=spec, subresources={"status": {}})]}}
        assert api.patch(f"{CRDS}/widgets.{group}", body).status_code == 200
        assert make(api, group, "a", spec={"other": 1})["spec"] == {"n": 7}
        assert brief(next(events)) == ("ADDED", "a")
    assert reason(api.patch(path(api, group, "/a"), {"spec": {"n": "x"}})) == (422, "Invalid")


def test_each_version_shows_the_same_objects_also_to_watches(api: Api) -> None:
    body = definition("two.test", version("v1"), version("v1beta1", storage=False))
    define(api, body)
    with (
        api.watch(path(api, "two.test")) as new,
        api.watch(path(api, "two.test", at="v1beta1")) as old,
    ):
        make(api, "two.test", "a")
        assert next(new)["object"]["apiVersion"] == "two.test/v1"
        assert next(old)["object"]["apiVersion"] == "two.test/v1beta1"
    listed = api.get(path(api, "two.test", at="v1beta1")).json()
    assert [each["apiVersion"] for each in listed["items"]] == ["two.test/v1beta1"]
    api.delete(f"{CRDS}/widgets.two.test")


def test_a_kind_with_the_name_of_a_built_in_one_has_none_of_its_rules(api: Api) -> None:
    define(api, definition("odd.test", kind="Pod"))
    pods = api.path("pods", "apis/odd.test/v1")
    made = api.post(pods, widget("odd.test", "p", kind="Pod", spec={"containers": "none"}))
    assert made.status_code == 201
    assert made.json()["spec"] == {"containers": "none"}
    gone = api.delete(f"{pods}/p").json()
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    api.delete(f"{CRDS}/pods.odd.test")


def test_the_fields_of_selectable_fields_select(api: Api) -> None:
    spec = {"color": {"type": "string"}}
    define(api, definition("select.test", version(spec=spec, selectableFields=[{"jsonPath": ".spec.color"}])))
    for name, color in (("a", "red"), ("b", "blue")):
        make(api, "select.test", name, spec={"color": color})
    assert api.names(path(api, "select.test"), fieldSelector="spec.color=blue") == ["b"]
    api.delete(f"{CRDS}/widgets.select.test")


def test_strategic_merge_is_not_for_custom_kinds(api: Api, group: str) -> None:
    make(api, group, "a")
    assert reason(api.patch(path(api, group, "/a"), {}, STRATEGIC)) == (415, "UnsupportedMediaType")


def test_a_deleted_namespace_takes_custom_objects_along(api: Api, group: str) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": api.namespace}})
    make(api, group, "a")
    api.delete(f"/api/v1/namespaces/{api.namespace}")
    assert api.names(path(api, group)) == []


def test_the_cluster_object_takes_custom_objects_with_their_status(
    api: Api, still_cluster: EmbeddedCluster, group: str
) -> None:
    body = widget(group, "a", spec={"x": 1}, status={"y": 2})
    body["metadata"]["namespace"] = api.namespace
    assert still_cluster.apply(body)["status"] == {"y": 2}
    assert still_cluster.get("widgets", "a", api.namespace) is not None
    assert [each["metadata"]["name"] for each in still_cluster.objects(f"widgets.{group}")] == ["a"]
    still_cluster.delete(f"widgets.{group}", "a", api.namespace)
    with pytest.raises(ApiError):
        still_cluster.create({**body, "kind": "Gadget"})


def test_openapi_has_the_schemas_of_custom_kinds(api: Api) -> None:
    define(api, definition("docs.test", version(spec={"n": {"type": "integer", "description": "How many."}})))
    places = api.get("/openapi/v3").json()["paths"]
    document = api.get(places["apis/docs.test/v1"]["serverRelativeURL"]).json()
    (schema,) = document["components"]["schemas"].values()
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "docs.test", "version": "v1", "kind": "Widget"}]
    assert schema["properties"]["spec"]["properties"]["n"]["description"] == "How many."
    api.delete(f"{CRDS}/widgets.docs.test")
    assert "apis/docs.test/v1" not in api.get("/openapi/v3").json()["paths"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        ({"names": {"plural": "widgets", "kind": "Widget", "shortNames": [1]}}, "spec.names.shortNames"),
        ({"versions": [{"name": "v1", "served": "yes", "storage": True}]}, "spec.versions[0].served"),
        ({"versions": "v1"}, "spec.versions"),
        ({"names": []}, "spec.names"),
        ({"versions": [version(selectableFields=[{"jsonPath": "x"}])]}, "spec.selectableFields[0].jsonPath"),
    ],
)
def test_a_malformed_definition_is_refused_and_its_field_named(api: Api, change: Object, field: str) -> None:
    body = definition("broken.test")
    body["spec"].update(change)
    response = api.post(CRDS, body)
    assert response.status_code in (400, 422)
    assert field in response.json()["message"]
    assert reason(api.get(f"{CRDS}/widgets.broken.test")) == (404, "NotFound")
