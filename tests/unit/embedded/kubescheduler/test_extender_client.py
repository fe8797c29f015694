"""HTTP and JSON as Go speaks them: requests byte for byte as captured, every row of the result tables."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.extender_client import Call, HttpExtender
from extender.embedded.kubescheduler.extenders import ExtenderError, FilterResult, MetaVictims, SchedulerPanic, Victims
from extender.embedded.kubescheduler.model import SchedNode, decode_node, decode_pod
from tests.support.kubescheduler.objects import ScriptedServer, a_node, a_pod

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
Reply = tuple[int, bytes, Mapping[str, str]] | None

NODES = [a_node("a"), a_node("b")]


def ok(value: object) -> Reply:
    return 200, value if isinstance(value, bytes) else json.dumps(value).encode(), {}


class Server(ScriptedServer):
    """Answers every request with `answer`."""

    def __init__(self) -> None:
        self.answer: Reply = ok({})
        self.answers: Callable[[str, bytes], Reply] = lambda path, body: self.answer
        super().__init__(self._reply)

    def _reply(self, path: str, body: bytes) -> Reply:
        return self.answers(path, body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., HttpExtender]]:
    made: list[HttpExtender] = []

    def make(on_call: Callable[[Call], None] | None = None, **config: Any) -> HttpExtender:
        verbs = {f"{verb}_verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
        given = {"url_prefix": server.url, "weight": 1, "node_cache_capable": True, **verbs, **config}
        made.append(HttpExtender(ExtenderConfig(**given), on_call=on_call))
        return made[-1]

    yield make
    for extender in made:
        extender.close()


# -- requests ------------------------------------------------------------------------------------------------


def captured(name: str) -> tuple[bytes, dict[str, Any]]:
    raw = (CAPTURES / f"{name}.raw").read_bytes()
    return raw, json.loads(raw)


def in_watch_form(obj: dict[str, Any], kind: str) -> bytes:
    """As an informer gets the object: with kind and apiVersion; a pod also with managedFields."""
    if kind == "Pod":
        obj = {**obj, "metadata": {**obj["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    return json.dumps({"kind": kind, "apiVersion": "v1", **obj}, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", ["filter-nodenames", "filter-nodes", "filter-second-attempt-with-condition"])
def test_a_filter_request_is_byte_for_byte_the_captured_one(name: str, server: Server, connect: Any):
    raw, args = captured(name)
    pod = decode_pod(in_watch_form(args["Pod"], "Pod"))
    if args["Nodes"] is None:
        nodes = [a_node(node) for node in args["NodeNames"]]
    else:
        nodes = [decode_node(in_watch_form(node, "Node")) for node in args["Nodes"]["items"]]
    connect(node_cache_capable=args["Nodes"] is None).filter(pod, nodes)
    method, path, headers, body = server.requests[0]
    assert (method, path, body) == ("POST", "/filter", raw)
    assert headers["User-Agent"] == "Go-http-client/1.1"
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == str(len(raw))
    assert headers["Accept-Encoding"] == "gzip"


def test_a_prioritize_request_is_the_same_as_filter(server: Server, connect: Any):
    raw, args = captured("prioritize-nodes")
    server.answer = ok([])
    nodes = [decode_node(in_watch_form(node, "Node")) for node in args["Nodes"]["items"]]
    connect(node_cache_capable=False).prioritize(decode_pod(in_watch_form(args["Pod"], "Pod")), nodes)
    assert server.requests[0][1::2] == ("/prioritize", raw)


def test_a_bind_request_is_byte_for_byte_the_captured_one(server: Server, connect: Any):
    raw, args = captured("bind")
    pod = a_pod(args["PodName"], uid=args["PodUID"])
    connect().bind(pod, args["Node"])
    assert server.requests[0][1::2] == ("/bind", raw)


def test_a_preempt_request_with_meta_victims_is_the_captured_one(server: Server, connect: Any):
    raw, args = captured("preempt-meta-victims")
    candidates = {
        node: Victims(tuple(a_pod("v", uid=pod["UID"]) for pod in victims["Pods"]), victims["NumPDBViolations"])
        for node, victims in args["NodeNameToMetaVictims"].items()
    }
    connect().preempt(decode_pod(in_watch_form(args["Pod"], "Pod")), candidates)
    assert server.requests[0][1::2] == ("/preempt", raw)


def test_a_preempt_request_with_whole_victims_is_the_captured_one(server: Server, connect: Any):
    raw, args = captured("preempt-victims")
    candidates = {
        node: Victims(
            tuple(decode_pod(in_watch_form(pod, "Pod")) for pod in victims["Pods"]), victims["NumPDBViolations"]
        )
        for node, victims in args["NodeNameToVictims"].items()
    }
    connect(node_cache_capable=False).preempt(decode_pod(in_watch_form(args["Pod"], "Pod")), candidates)
    assert server.requests[0][1::2] == ("/preempt", raw)


def test_connections_are_kept(server: Server, connect: Any):
    extender = connect()
    for _ in range(5):
        extender.filter(a_pod("p"), NODES)
    assert server.connections == 1


def test_a_user_in_the_prefix_becomes_basic_auth_and_slashes_at_its_end_vanish(server: Server, connect: Any):
    connect(url_prefix=server.url.replace("://", "://user:secret@") + "/x//").filter(a_pod("p"), NODES)
    assert server.requests[0][1] == "/x/filter"
    assert server.requests[0][2]["Authorization"] == "Basic dXNlcjpzZWNyZXQ="


def test_a_verb_with_a_slash_doubles_it(server: Server, connect: Any):
    connect(url_prefix=server.url + "/x", filter_verb="/filter?a=b").filter(a_pod("p"), NODES)
    assert server.requests[0][1] == "/x//filter?a=b"


def test_a_prefix_without_a_scheme_fails_each_call(server: Server, connect: Any):
    with pytest.raises(ExtenderError, match="first path segment in URL cannot contain colon"):
        connect(url_prefix=server.url.removeprefix("http://")).filter(a_pod("p"), NODES)
    assert server.requests == []


def test_connections_beyond_the_two_idle_ones_are_opened_and_closed_again(
    server: Server, connect: Any, caplog: pytest.LogCaptureFixture
):
    together = threading.Barrier(4, timeout=30)

    def wait(path: str, body: bytes) -> Reply:
        together.wait()
        return ok({})

    server.answers = wait
    extender = connect()
    for _ in range(2):
        binds = [threading.Thread(target=extender.bind, args=(a_pod(f"p{i}"), "a")) for i in range(4)]
        for bind in binds:
            bind.start()
        for bind in binds:
            bind.join()
    assert server.connections == 6
    assert caplog.records == []


def test_307_is_followed_with_method_and_body_302_becomes_a_get(server: Server, connect: Any):
    for status, method in ((307, "POST"), (302, "GET")):
        server.requests.clear()
        redirect = (status, b"", {"Location": "/filter/"})
        server.answers = lambda path, body, redirect=redirect: ok({}) if path == "/filter/" else redirect
        connect().filter(a_pod("p"), NODES)
        assert [request[0] for request in server.requests] == ["POST", method]
        assert bool(server.requests[1][3]) is (method == "POST")


def test_every_call_is_told_with_its_nodes(server: Server, connect: Any):
    calls: list[Call] = []
    extender = connect(calls.append)
    extender.filter(a_pod("p"), NODES)
    server.answer = (500, b"", {})
    with pytest.raises(ExtenderError):
        extender.bind(a_pod("p"), "a")
    assert [(c.kind, c.pod, c.nodes, bool(c.error)) for c in calls] == [
        ("filter", "default/p", ("a", "b"), False),
        ("bind", "default/p", ("a",), True),
    ]


# -- answers to filter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"NodeNames": ["b"]}, FilterResult(("b",))),
        ({"nodenames": ["b"]}, FilterResult(("b",))),
        ({"nodeNames": ["b"], "unknown": {"x": 1}}, FilterResult(("b",))),
        (b' {"NodeNames": ["b"]} trailing', FilterResult(("b",))),
        ({"NodeNames": ["a", "a", "a"]}, FilterResult(("a", "a", "a"))),
        ({"NodeNames": []}, FilterResult(())),
        ({}, FilterResult((), ())),
        (b"null", FilterResult((), ())),
        ({"node_names": ["b"]}, FilterResult((), ())),
        ({"NodeNames": None, "Error": None, "FailedNodes": None}, FilterResult((), ())),
        (
            {"NodeNames": [], "FailedNodes": {"a": "dead"}, "FailedAndUnresolvableNodes": {"b": "gone"}},
            FilterResult((), None, {"a": "dead"}, {"b": "gone"}),
        ),
        ({"NodeNames": [], "FailedNodes": {"hived": "text"}}, FilterResult((), None, {"hived": "text"})),
        ({"NodeNames": ["a"], "FailedNodes": {"a": "no"}}, FilterResult(("a",), None, {"a": "no"})),
    ],
)
def test_good_answers_to_filter(answer: object, expected: FilterResult, server: Server, connect: Any):
    server.answer = ok(answer)
    assert connect().filter(a_pod("p"), NODES) == expected


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ((500, b"oops", {}), r"failed filter with extender at URL http://127.0.0.1:\d+/filter, code 500"),
        ((201, b'{"NodeNames":["a"]}', {}), "code 201"),
        ((204, b"", {}), "code 204"),
        ((404, b'{"Error":"never seen"}', {}), "code 404"),
        (ok({"Error": "not today", "NodeNames": ["a"]}), "^not today$"),
        (ok(b"hello"), "^invalid character 'h' looking for beginning of value"),
        (ok(b""), "^EOF$"),
        (ok(b'{"NodeNames": ["a"'), "^unexpected EOF$"),
        (ok(b'{"NodeNames": "a"}'), "cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames"),
        (ok(b'{"NodeNames": [1]}'), "cannot unmarshal number into .*NodeNames of type string"),
        (ok(b'{"FailedNodes": {"a": true}}'), "cannot unmarshal bool into"),
        (ok(b'{"FailedNodes": []}'), "cannot unmarshal array into"),
        (ok(b'[]'), "cannot unmarshal array into"),
        (ok(b'{"Error": NaN}'), "invalid character 'N'"),
        (ok(b"[" * 100_000), "."),
        (ok({"NodeNames": ["zzz"]}), 'extender "http://127.0.0.1:[0-9]+" claims a filtered node "zzz" which'),
        (None, '^Post "http://127.0.0.1:[0-9]+/filter": EOF$'),
    ],
)  # fmt: skip
def test_bad_answers_to_filter(reply: Reply, text: str, server: Server, connect: Any):
    server.answer = reply
    with pytest.raises(ExtenderError, match=text):
        connect().filter(a_pod("p"), NODES)


def test_an_answer_of_nodes_is_taken_as_it_is(server: Server, connect: Any):
    """Nothing is checked: a node that was never offered passes. Nodes are used in both modes."""
    server.answer = ok({"Nodes": {"items": [{"metadata": {"name": "zzz"}}]}})
    for capable in (False, True):
        result = connect(node_cache_capable=capable).filter(a_pod("p"), NODES)
        assert result.nodes is not None
        assert [node.name for node in result.nodes] == ["zzz"]


def test_names_alone_are_ignored_if_nodes_were_sent(server: Server, connect: Any):
    server.answer = ok({"NodeNames": ["a"]})
    assert connect(node_cache_capable=False).filter(a_pod("p"), NODES) == FilterResult((), ())


def test_an_extender_that_is_down_is_connection_refused(connect: Any):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(
            ExtenderError, match=f'^Post "http://127.0.0.1:{port}/filter": dial tcp .*connection refused'
        ):
            connect(url_prefix=f"http://127.0.0.1:{port}").filter(a_pod("p"), NODES)


def test_a_slow_extender_times_out(server: Server, connect: Any):
    release = threading.Event()

    def slow(path: str, body: bytes) -> Reply:
        release.wait(30)
        return ok({})

    server.answers = slow
    try:
        with pytest.raises(ExtenderError, match=r"context deadline exceeded \(Client.Timeout exceeded while awaiting"):
            connect(http_timeout="100ms").filter(a_pod("p"), NODES)
    finally:
        release.set()


# -- answers to prioritize -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([{"Host": "a", "Score": 3}, {"host": "zzz", "score": -1000}], [("a", 3), ("zzz", -1000)]),
        ([{"Host": "a", "Score": 1}, {"Host": "a", "Score": 2}], [("a", 1), ("a", 2)]),
        ([{"Host": "a"}, None], [("a", 0), ("", 0)]),
        (None, []),
    ],
)
def test_good_answers_to_prioritize(answer: object, expected: object, server: Server, connect: Any):
    server.answer = ok(answer)
    assert connect().prioritize(a_pod("p"), NODES) == expected


@pytest.mark.parametrize("score", ["3.5", "3.0", '"3"', "true", "9223372036854775808", "1e3"])
def test_scores_must_be_json_integers(score: str, server: Server, connect: Any):
    server.answer = ok(b'[{"Host": "a", "Score": ' + score.encode() + b"}]")
    with pytest.raises(ExtenderError):
        connect().prioritize(a_pod("p"), NODES)


@pytest.mark.parametrize("answer", [ok({"a": 1}), ok(b"x"), (500, b"", {})])
def test_anything_else_than_a_list_fails_prioritize(answer: Reply, server: Server, connect: Any):
    server.answer = answer
    with pytest.raises(ExtenderError):
        connect().prioritize(a_pod("p"), NODES)


# -- answers to bind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [{}, {"Error": ""}, {"error": None}, None])
def test_good_answers_to_bind(answer: object, server: Server, connect: Any):
    server.answer = ok(answer)
    connect().bind(a_pod("p"), "a")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (ok({"Error": "no"}), "^no$"),
        ((500, b"", {}), "failed bind with extender at URL .*, code 500"),
        (ok(b""), "^EOF$"),
        (ok(b"{"), "^unexpected EOF$"),
        (ok({"Error": 5}), "cannot unmarshal number into .*Error of type string"),
        (None, "EOF$"),
    ],
)
def test_bad_answers_to_bind(reply: Reply, text: str, server: Server, connect: Any):
    server.answer = reply
    with pytest.raises(ExtenderError, match=text):
        connect().bind(a_pod("p"), "a")


# -- answers to preempt --------------------------------------------------------------------------------------


CANDIDATES = {"a": Victims((a_pod("v", node="a"),), 0)}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}}},
            {"b": MetaVictims(("1",), 2)},
        ),
        ({"nodeNameToMetaVictims": {"a": {"pods": [{"uid": "1"}]}}}, {"a": MetaVictims(("1",))}),
        ({"NodeNameToMetaVictims": {"a": {"Pods": []}}}, {"a": MetaVictims(())}),
        ({"NodeNameToMetaVictims": {"a": {}}}, {"a": MetaVictims(())}),
        ({"NodeNameToVictims": {"a": {"Pods": [{"metadata": {"uid": "1"}}]}}}, {}),
        ({"NodeNameToMetaVictims": None}, {}),
        ({}, {}),
    ],
)
def test_good_answers_to_preempt(answer: object, expected: object, server: Server, connect: Any):
    server.answer = ok(answer)
    assert connect().preempt(a_pod("p"), CANDIDATES) == expected


@pytest.mark.parametrize("victims", [{"a": None}, {"a": {"Pods": [None]}}])
def test_null_among_the_victims_is_a_panic(victims: object, server: Server, connect: Any):
    server.answer = ok({"NodeNameToMetaVictims": victims})
    with pytest.raises(SchedulerPanic):
        connect().preempt(a_pod("p"), CANDIDATES)


@pytest.mark.parametrize("reply", [(500, b"", {}), ok(b"x"), ok({"NodeNameToMetaVictims": []}), None])
def test_bad_answers_to_preempt(reply: Reply, server: Server, connect: Any):
    server.answer = reply
    with pytest.raises(ExtenderError):
        connect().preempt(a_pod("p"), CANDIDATES)


# -- interest ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "interested"),
    [
        ({}, False),
        ({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "0"}}}]}, True),
        ({"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}]}, True),
        ({"initContainers": [{"name": "i", "resources": {"requests": {"example.com/gpu": "1"}}}]}, True),
        ({"overhead": {"example.com/gpu": "1"}}, False),
        ({"resources": {"requests": {"example.com/gpu": "1"}}}, False),
    ],
)
def test_managed_resources_decide_whose_pods_are_sent(spec: dict[str, Any], interested: bool, connect: Any):
    extender = connect(managed_resources=[{"name": "example.com/gpu"}])
    assert extender.is_interested(a_pod("p", spec=spec)) is interested
    assert connect().is_interested(a_pod("p", spec=spec))


def test_a_node_keeps_its_managed_fields():
    node: SchedNode = decode_node(b'{"kind":"Node","metadata":{"name":"n","managedFields":[{"manager":"m"}]}}')
    assert node.raw == b'{"metadata":{"name":"n","managedFields":[{"manager":"m"}]}}'
