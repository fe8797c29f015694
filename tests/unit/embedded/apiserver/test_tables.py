"""Tables for kubectl, reviews, apply and the OpenAPI documents: what clients ask beside objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.apiserver.api import Api, reason

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def table(api: Api, path: str, **query: str) -> dict[str, Any]:
    response = api.http.get(api.path(path), params=query, headers={"accept": TABLE})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_list_as_a_table_has_columns_cells_and_metadata(api: Api) -> None:
    api.create_pod("a", labels={"x": "y"})
    shown = table(api, "pods")
    assert shown["kind"] == "Table"
    assert [each["name"] for each in shown["columnDefinitions"] if not each["priority"]] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    (row,) = shown["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["labels"] == {"x": "y"}


def test_whole_objects_or_none_come_with_the_rows_on_demand(api: Api) -> None:
    api.create_pod("a")
    assert table(api, "pods", includeObject="Object")["rows"][0]["object"]["kind"] == "Pod"
    assert "object" not in table(api, "pods", includeObject="None")["rows"][0]


def test_pages_of_tables_go_on(api: Api) -> None:
    for name in "abc":
        api.create_pod(name)
    first = table(api, "pods", limit="2")
    rest = table(api, "pods", limit="2", **{"continue": first["metadata"]["continue"]})
    assert [row["cells"][0] for row in (*first["rows"], *rest["rows"])] == ["a", "b", "c"]


def test_a_watch_as_a_table_names_its_columns_once(api: Api) -> None:
    api.create_pod("a")
    api.create_pod("b")
    events = []
    query = {"watch": "true"}
    with api.http.stream("GET", api.path("pods"), params=query, headers={"accept": TABLE}) as response:
        for line in response.iter_lines():
            events.append(json.loads(line))
            if len(events) == 2:
                break
    assert [event["object"]["rows"][0]["cells"][0] for event in events] == ["a", "b"]
    assert [bool(event["object"]["columnDefinitions"]) for event in events] == [True, False]


def test_an_error_is_no_table(api: Api) -> None:
    response = api.http.get(api.path("pods/absent"), headers={"accept": TABLE})
    assert reason(response) == (404, "NotFound")


def test_a_strange_object_does_not_spoil_the_table(api: Api) -> None:
    api.create_pod("a")
    api.patch("pods/a/status", {"status": {"containerStatuses": [1], "conditions": [{}]}})
    assert table(api, "pods")["rows"][0]["cells"][:2] == ["a", "<unknown>"]


def test_every_served_kind_can_be_shown(api: Api) -> None:
    groups = ["/api/v1", *(f"/apis/{g['versions'][0]['groupVersion']}" for g in api.get("/apis").json()["groups"])]
    for group in groups:
        for entry in api.get(group).json()["resources"]:
            if "list" in entry["verbs"]:
                assert table(api, f"{group}/{entry['name']}")["columnDefinitions"]


def test_everybody_may_do_everything(api: Api) -> None:
    asked = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}}
    answered = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked)
    assert (answered.status_code, answered.json()["status"]) == (201, {"allowed": True})
    token = api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}}).json()
    assert token["status"]["authenticated"]
    assert api.get("/apis/authentication.k8s.io/v1/tokenreviews").status_code == 405
    assert api.post("/apis/authentication.k8s.io/v1/tokenreviews", [1]).status_code == 400


def test_apply_creates_then_merges_and_wants_to_know_who_applies(api: Api) -> None:
    manifest = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}"
    headers = {"content-type": "application/apply-patch+yaml"}
    where = api.path("configmaps/c")
    assert reason(api.http.patch(where, content=manifest, headers=headers)) == (422, "Invalid")
    query = {"fieldManager": "me"}
    assert api.http.patch(where, content=manifest, headers=headers, params=query).status_code == 201
    changed = api.http.patch(where, content=manifest.replace(b"{a:", b"{b:"), headers=headers, params=query)
    assert (changed.status_code, changed.json()["data"]) == (200, {"a": "1", "b": "1"})
    for wrong in (b"a: [", b"- 1", b"\xff"):
        response = api.http.patch(where, content=wrong, headers=headers, params=query)
        assert reason(response) == (400, "BadRequest")


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_openapi_documents_have_no_schemas(api: Api, version: str) -> None:
    assert not api.get(f"/openapi/{version}").json()["paths"]
    protobuf = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    assert api.http.get("/openapi/v2", headers=protobuf).content == b""


def test_secrets_may_be_written_in_plain_text(api: Api) -> None:
    made = api.post("secrets", {"metadata": {"name": "s"}, "stringData": {"key": "value"}}).json()
    assert (made["data"], made["type"]) == ({"key": "dmFsdWU="}, "Opaque")
    assert "stringData" not in made
