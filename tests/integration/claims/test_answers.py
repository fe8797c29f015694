"""What a caller reads: errors that name what is wrong, and the OpenAPI document that says beforehand what may come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from extender.web.error_answers import ErrorBody
from tests.support.cluster.claim_world import ClaimWorld, claim_world

CLAIMS = "/v1/pools/default/warm/claims"


@pytest.fixture(scope="module")
def shared() -> Iterator[ClaimWorld]:
    with claim_world(pods=3) as world:
        yield world


def test_nothing_in_the_openapi_document_refers_to_nothing(shared: ClaimWorld) -> None:
    document = shared.server.http.get("/openapi.json").json()
    found = list(references(document))
    assert found
    for reference in found:
        place: Any = document
        for name in reference.removeprefix("#/").split("/"):
            assert name in place, reference
            place = place[name]


def test_the_openapi_document_says_what_a_claim_takes_and_how_it_ends(shared: ClaimWorld) -> None:
    claim = shared.server.http.get("/openapi.json").json()["paths"]["/v1/pools/{namespace}/{pool}/claims"]["post"]
    fields = claim["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert fields["on_empty"]["enum"] == ["wait", "fail", "cold"]
    assert all(field.get("description") for field in fields.values())
    assert "Prefer" in {each["name"] for each in claim["parameters"]}
    answers = claim["responses"]
    assert "Location" in answers["201"]["headers"]
    assert "Retry-After" in answers["429"]["headers"]
    assert "NoIdlePod" in answers["429"]["description"]
    assert "KeyReused" in answers["409"]["description"]
    assert {"202", "400", "404", "413", "502", "503", "504"} <= set(answers)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", CLAIMS, {"requires": {"gpu": "h100"}, "wait_seconds": 0}, 429, "NoIdlePod"),
        ("POST", CLAIMS, {"requires": {"gpu": "h100"}, "wait_seconds": 0.05}, 504, "DeadlineExceeded"),
        ("POST", CLAIMS, {"count": 99}, 400, "TooManyPods"),
        ("POST", CLAIMS, {"count": "x"}, 400, "BadRequest"),
        ("POST", CLAIMS, {"annotations": {"a": "a" * 600_000}}, 413, "RequestEntityTooLarge"),
        ("POST", "/v1/pools/default/other/claims", {}, 404, "UnknownPool"),
        ("GET", "/v1/pools/default/other", None, 404, "UnknownPool"),
        ("GET", "/v1/pools?nmspace=default", None, 400, "BadRequest"),
        ("GET", CLAIMS + "?limit=0", None, 400, "BadRequest"),
        ("DELETE", CLAIMS + "?key=none", None, 404, "UnknownClaim"),
        ("GET", "/v1/claims/none", None, 404, "UnknownClaim"),
        ("DELETE", "/v1/claims/none", None, 404, "UnknownClaim"),
        ("POST", "/v1/claims/none/release", None, 404, "UnknownClaim"),
        ("POST", "/v1/claims/none/renew", {}, 404, "UnknownClaim"),
        ("POST", "/v1/claims/none/renew", {"lease": 1}, 400, "BadRequest"),
    ],
)
def test_a_refusal_has_the_documented_status_shape_and_code(
    shared: ClaimWorld, method: str, path: str, body: dict[str, Any] | None, status: int, code: str
) -> None:
    answer = shared.server.http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    read = ErrorBody.model_validate_json(answer.text)
    assert read.code == code
    assert set(answer.json()) == set(ErrorBody.model_fields)

    paths = shared.server.http.get("/openapi.json").json()["paths"]
    wanted = path.partition("?")[0]
    described = next(known for known in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), wanted))
    documented = paths[described][method.lower()]["responses"][str(status)]
    assert f"`{code}`" in documented["description"]


def test_an_answer_that_no_pod_came_says_why(shared: ClaimWorld) -> None:
    shared.idle(3)
    unfit = shared.claim(requires={"gpu": "h100"}, wait_seconds=0).json()["error"]
    assert unfit == "the request does not wait: 0 of 3 idle pods fit, it lacks 1"
    many = shared.claim(count=4, wait_seconds=0.05).json()["error"]
    assert many == "the request waited until its deadline: 3 of 3 idle pods fit, it lacks 4"


def test_a_gang_has_its_pods_in_the_same_order_in_each_answer(shared: ClaimWorld) -> None:
    shared.idle(3)
    first = shared.claim(count=3, key="order").json()
    again = shared.claim(count=3, key="order").json()
    assert [pod["name"] for pod in first["pods"]] == sorted(pod["name"] for pod in first["pods"])
    assert first == again
    assert shared.server.http.get(f"/v1/claims/{first['id']}").json()["pods"] == first["pods"]
    released = shared.server.http.delete(f"/v1/claims/{first['id']}").json()
    assert (released["namespace"], released["pool"]) == ("default", "warm")


@pytest.mark.parametrize("field", ["tenant", "key"])
def test_a_name_that_is_shown_to_people_has_printable_characters(shared: ClaimWorld, field: str) -> None:
    answer = shared.claim(**{field: "a\x1b[2Jb"})
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert "printable" in answer.json()["error"]


def test_a_wrong_method_and_a_wrong_path_are_told_the_right_ones(shared: ClaimWorld) -> None:
    http = shared.server.http
    wrong = http.put("/v1/claims/c-1")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "DELETE, GET")
    assert http.put(CLAIMS).headers["allow"] == "DELETE, GET, POST"
    missing = http.post("/v1/pools/default/warm/claim")
    assert missing.status_code == 404
    assert "/v1/pools/{namespace}/{pool}/claims" in said(missing)
    assert "kube-scheduler" not in said(missing)
    assert "/openapi.json" in said(http.get("/docs"))


def test_the_index_of_a_server_of_claims_promises_no_verb(shared: ClaimWorld) -> None:
    index = shared.server.http.get("/").json()
    assert (index["verbs"], "claims" in index["about"], "scheduler extender" in index["about"]) == ([], True, False)


def test_a_body_that_is_too_large_is_not_told_about_nodes(shared: ClaimWorld) -> None:
    assert said(shared.claim(annotations={"a": "a" * 600_000})) == "body: larger than 524288 bytes"


def said(answer: httpx.Response) -> str:
    return str(answer.json()["error"])


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)
