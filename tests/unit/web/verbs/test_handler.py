"""The verbs over a socket: what goes to the runtime, and how every kind of failure is told."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import Future
from contextlib import closing

import pytest

from algorithm.reasons import Code, reason
from extender.scheduling.events import BindAnswer, FilterAnswer, PreemptAnswer
from extender.server.views import Readiness
from extender.web.verbs.handler import VERBS
from tests.support.http.fixed_runtime import CAPTURES, Client, FixedRuntime, capture, exchange

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u-1"}, "spec": {"containers": [{"name": "c"}]}}
IN_BAND = ("filter", "bind")
OTHERS = ("prioritize", "preempt")
ALL = IN_BAND + OTHERS


def body_of(verb: str) -> bytes:
    names = {"filter": "filter-nodenames", "prioritize": "prioritize-nodenames", "preempt": "preempt-meta-victims"}
    return capture(names.get(verb, verb))


@pytest.mark.parametrize("captured", sorted(path.stem for path in CAPTURES.glob("*.raw")))
@pytest.mark.parametrize("prefix", ["", "/v1/extender"])
def test_every_captured_request_is_served(client: Client, runtime: FixedRuntime, captured: str, prefix: str):
    verb = captured.split("-", 1)[0]

    answer = client.post(f"{prefix}/{verb}", capture(captured))

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert runtime.asked[0][0] == verb
    assert "Error" not in answer.json or answer.json["Error"] == ""


def test_filter_hands_pod_and_names_to_the_runtime(client: Client, runtime: FixedRuntime):
    runtime.filter_answer = FilterAnswer(node="n0")

    answer = client.post("/filter", capture("filter-nodenames"))

    [(_, pod, nodes)] = runtime.asked
    assert (pod.name, nodes) == ("p-names", ("n2", "n0", "n1"))
    assert answer.json["NodeNames"] == ["n0"]


def test_bind_answers_once_the_outcome_is_known(client: Client, runtime: FixedRuntime):
    runtime.bind_future = Future()
    with closing(client.connect()) as connection:
        connection.request("POST", "/bind", capture("bind"))
        assert client.get("/livez").status == 200

        runtime.bind_future.set_result(BindAnswer(1, reason(Code.BIND_LOST, node="n7")))

        assert json.loads(connection.getresponse().read()) == {"Error": "pod was bound to n7 by somebody else"}


def test_a_bind_that_fails_unexpectedly_is_no_success(client: Client, runtime: FixedRuntime):
    runtime.bind_answer = RuntimeError("boom")

    answer = client.post("/bind", capture("bind"))

    assert answer.status == 200
    assert "RuntimeError" in answer.json["Error"]


@pytest.mark.parametrize("verb", IN_BAND)
def test_a_defect_behind_filter_and_bind_is_told_in_the_answer(client: Client, runtime: FixedRuntime, verb: str):
    runtime.failure = KeyError("secret detail")

    answer = client.post(f"/{verb}", body_of(verb))

    assert answer.status == 200
    assert answer.json["Error"] == f"extender failed to serve {verb}: KeyError; its log says more"


@pytest.mark.parametrize("verb", OTHERS)
def test_a_defect_behind_the_others_is_a_500(client: Client, runtime: FixedRuntime, verb: str):
    runtime.failure = KeyError("secret detail")

    answer = client.post(f"/{verb}", body_of(verb))

    assert answer.status == 500
    assert answer.json == {
        "error": f"extender failed to serve {verb}: KeyError; its log says more",
        "field": None,
        "code": "InternalError",
        "retry_after": None,
    }


BAD = {
    "empty": (b"", "body"),
    "truncated": (b'{"Pod": {"metadata"', "body"),
    "not JSON": (b"<html>", "body"),
    "not UTF-8": (b"\xff\xfe\x00", "body"),
    "a list": (b"[]", "body"),
    "null": (b"null", "body"),
    "deeply nested": (b'{"Pod":' * 50_000, "body"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("verb", ALL)
def test_a_bad_body_is_named_and_reaches_nobody(client: Client, runtime: FixedRuntime, verb: str, kind: str):
    sent, field = BAD[kind]

    answer = client.post(f"/{verb}", sent)

    assert runtime.asked == []
    if verb in IN_BAND:
        assert answer.status == 200
        assert answer.json["Error"].startswith(f"{field}: ")
    else:
        assert answer.status == 400
        assert answer.json["field"] == field


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_a_pod_without_uid_is_refused_by_field(client: Client, runtime: FixedRuntime, verb: str):
    answer = client.post(f"/{verb}", {"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["a"]})

    assert "Pod.metadata.uid must not be empty" in answer.text
    assert runtime.asked == []


@pytest.mark.parametrize("verb", IN_BAND)
def test_a_body_over_the_limit_is_told_in_the_answer_and_the_connection_goes_on(
    client: Client, runtime: FixedRuntime, verb: str
):
    with closing(client.connect()) as connection:
        answer = exchange(connection, "POST", f"/{verb}", b" " * (50 << 20))
        again = exchange(connection, "POST", f"/{verb}", body_of(verb))

    assert answer.status == 200
    assert answer.json["Error"].startswith("body: larger than 1 MiB")
    assert again.json["Error"] == ""
    assert len(runtime.asked) == 1


@pytest.mark.parametrize("verb", OTHERS)
def test_a_body_over_the_limit_is_413_for_the_others(client: Client, runtime: FixedRuntime, verb: str):
    answer = client.post(f"/{verb}", b" " * (2 << 20))

    assert (answer.status, answer.json["field"]) == (413, "body")
    assert runtime.asked == []


def test_a_body_of_unknown_length_is_read_up_to_the_limit_only(client: Client, runtime: FixedRuntime):
    with closing(client.connect()) as connection:
        connection.request(
            "POST", "/filter", iter([b" " * 65536] * 64), {"Transfer-Encoding": "chunked"}, encode_chunked=True
        )
        answer = json.loads(connection.getresponse().read())

    assert answer["Error"].startswith("body: larger than 1 MiB")


def test_a_caller_that_goes_away_amid_its_body_harms_nobody(client: Client, runtime: FixedRuntime):
    with socket.create_connection((client.host, client.port)) as gone:
        gone.sendall(b'POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"Pod"')

    assert client.get("/livez").status == 200
    assert runtime.asked == []


@pytest.mark.parametrize("path", ["//filter", "/filter/", "/v1/extender//filter", "//v1/extender/filter//"])
def test_stray_slashes_are_served_without_a_redirect(client: Client, path: str):
    assert client.post(path, capture("filter-nodenames")).json["NodeNames"] == ["n2", "n0", "n1"]


@pytest.mark.parametrize("path", ["/fliter", "/v1/extender", "/v1/extender/score", "/"])
def test_an_unknown_verb_is_told_the_known_ones(client: Client, path: str):
    answer = client.post(path, b"{}")

    if path == "/":
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
    else:
        assert answer.status == 404
        assert all(f"/{verb}" in answer.json["error"] for verb in ALL)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_a_verb_is_posted(client: Client, method: str):
    answer = client.request(method, "/filter")

    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json["error"] == f"/filter does not take {method}; it takes POST"


def test_what_is_no_http_is_answered_400(client: Client):
    with socket.create_connection((client.host, client.port), timeout=60) as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS or so\r\n\r\n")
        response = http.client.HTTPResponse(raw)
        response.begin()
        response.read()
        response.close()

    assert response.status == 400


def test_a_preempt_that_cannot_be_served_is_a_503_since_its_answer_has_no_error_field(
    client: Client, runtime: FixedRuntime
):
    runtime.preempt_answer = PreemptAnswer(reason=reason(Code.NOT_READY, detail="pods"), error=True)

    answer = client.post("/preempt", capture("preempt-meta-victims"))

    assert answer.status == 503
    assert answer.json["error"] == "extender is not ready: pods"


@pytest.mark.parametrize("verb", ALL)
def test_a_replica_that_is_not_ready_lets_its_callers_go_to_another(client: Client, runtime: FixedRuntime, verb: str):
    with closing(client.connect()) as connection:
        assert "connection" not in exchange(connection, "POST", f"/{verb}", body_of(verb)).headers
        runtime.ready = Readiness(False, "another replica leads")
        assert exchange(connection, "POST", f"/{verb}", body_of(verb)).headers["connection"] == "close"


def test_a_verb_takes_no_larger_body_than_it_needs() -> None:
    mib = 1 << 20
    for max_body, largest in ((32 * mib, [32, 32, 8, 1]), (2 * mib, [2, 2, 1, 1]), (mib, [1, 1, 1, 1])):
        assert [verb.largest(max_body) // mib for verb in VERBS] == largest
