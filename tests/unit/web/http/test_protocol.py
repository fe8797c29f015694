"""The short cut for verbs: whatever way a request takes, it is answered the same, once, and in order."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPResponse
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.reasons import Code, reason
from extender.scheduling.events import BindAnswer, FilterAnswer
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture

_FILTERED = b'{"Nodes":null,"NodeNames":["n2","n0","n1"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
_BOUND = b'{"Error":""}'


def request(path: str, body: bytes = b"", *, method: str = "POST", headers: Sequence[str] = ()) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: waggle", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: waggle\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.fixture
def wire(client: Client) -> Iterator[socket.socket]:
    with closing(client.connect()) as connection:
        connection.connect()
        yield connection.sock


class Answers:
    """The answers on a socket, one after the other."""

    def __init__(self, wire: socket.socket) -> None:
        self._file = wire.makefile("rb")

    def next(self) -> tuple[int, bytes]:
        response = HTTPResponse(_Shared(self._file))
        response.begin()
        return response.status, response.read()

    def end(self) -> bool:
        return self._file.read() == b""


class _Shared:
    """What HTTPResponse takes for a socket: all answers are read from one file, which none of them closes."""

    def __init__(self, file) -> None:
        self._file = file

    def makefile(self, _mode: str):
        return _Open(self._file)


class _Open:
    def __init__(self, file) -> None:
        self._file = file

    def __getattr__(self, name: str):
        return getattr(self._file, name)

    def close(self) -> None:
        pass


#: Ways to ask the same: by the short cut, and past it.
_WAYS = {
    "short": request("/filter", capture("filter-nodenames")),
    "prefixed": request("/v1/extender/filter", capture("filter-nodenames")),
    "slashes": request("//filter/", capture("filter-nodenames")),
    "query": request("/filter?x=1", capture("filter-nodenames")),
    "chunked": chunked("/filter", capture("filter-nodenames")),
    "expecting": request("/filter", capture("filter-nodenames"), headers=["Expect: 100-continue"]),
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_verb_is_answered_the_same_whatever_way_it_takes(wire: socket.socket, way: str):
    wire.sendall(_WAYS[way])
    answers = Answers(wire)
    status, body = answers.next()
    if status == 100:
        status, body = answers.next()
    assert (status, body) == (200, _FILTERED)


@given(
    ways=st.lists(st.sampled_from(["short", "prefixed", "slashes", "chunked"]), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 20_000), max_size=5),
)
def test_requests_in_any_pieces_are_answered_in_order(server, ways: list[str], cuts: list[int]):
    current, url = server
    current.runtime = FixedRuntime()
    sent = b"".join(_WAYS[way] for way in ways)
    ends = sorted({*(cut % len(sent) for cut in cuts), 0, len(sent)})
    with closing(Client(url).connect()) as connection:
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin, end in pairwise(ends):
            connection.sock.sendall(sent[begin:end])
        answers = Answers(connection.sock)
        assert [answers.next() for _ in ways] == [(200, _FILTERED)] * len(ways)
    assert len(current.runtime.asked) == len(ways)


def test_what_comes_while_a_bind_is_under_way_is_answered_after_it(wire: socket.socket, runtime: FixedRuntime):
    runtime.bind_future = Future()
    wire.sendall(request("/bind", capture("bind")) + request("/filter", capture("filter-nodenames")))
    wire.sendall(request("/livez", method="GET"))
    time.sleep(0.05)
    runtime.bind_future.set_result(BindAnswer(1))

    answers = Answers(wire)

    assert [answers.next() for _ in range(2)] == [(200, _BOUND), (200, _FILTERED)]
    assert answers.next()[0] == 200


def test_a_bind_nobody_waits_for_any_more_harms_nobody(client: Client, runtime: FixedRuntime):
    runtime.bind_future = Future()
    with closing(client.connect()) as gone:
        gone.request("POST", "/bind", capture("bind"))
        while not runtime.asked:
            time.sleep(0.01)
    time.sleep(0.05)
    runtime.bind_future.set_result(BindAnswer(1))

    assert client.get("/livez").status == 200


def test_a_caller_that_wants_to_close_is_answered_before(wire: socket.socket):
    wire.sendall(request("/filter", capture("filter-nodenames"), headers=["Connection: close"]))
    answers = Answers(wire)
    assert answers.next() == (200, _FILTERED)
    assert answers.end()


def test_http_1_0_is_answered_and_closed(wire: socket.socket):
    wire.sendall(request("/filter", capture("filter-nodenames")).replace(b"HTTP/1.1", b"HTTP/1.0"))
    answers = Answers(wire)
    assert answers.next() == (200, _FILTERED)
    assert answers.end()


def test_an_answer_that_cannot_be_encoded_is_told_as_one(client: Client, runtime: FixedRuntime):
    runtime.bind_answer = BindAnswer(1, reason(Code.BAD_REQUEST, detail="\ud800"))
    runtime.filter_answer = FilterAnswer(reason=reason(Code.BAD_REQUEST, detail="\ud800"), error=True)

    for verb in ("bind", "filter"):
        answer = client.post(f"/{verb}", capture({"bind": "bind", "filter": "filter-nodenames"}[verb]))
        assert answer.status == 200
        assert answer.json["Error"].startswith(f"extender failed to serve {verb}")


def test_a_caller_that_does_not_read_is_not_read_from_for_ever(client: Client, runtime: FixedRuntime):
    """Its answers would pile up in memory."""
    names = [f"node-{i:06}" for i in range(5_000)]
    runtime.filter_answer = FilterAnswer(pass_through=True)
    pod = b'{"metadata":{"name":"p","namespace":"d","uid":"u"},"spec":{"containers":[]}}'
    body = b'{"Pod":%s,"NodeNames":[%s]}' % (pod, b",".join(b'"%s"' % name.encode() for name in names))
    asked = request("/filter", body)
    with closing(client.connect()) as deaf:
        deaf.connect()
        deaf.sock.settimeout(0.5)
        with pytest.raises(TimeoutError):  # noqa: PT012 - which of them it is depends on buffers
            for _ in range(1_000):
                deaf.sock.sendall(asked)
    assert client.get("/livez").status == 200


def test_trailers_that_do_not_end_end_the_connection(wire: socket.socket) -> None:
    wire.sendall(b"POST /filter HTTP/1.1\r\nHost: waggle\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
    with pytest.raises(OSError, match="reset|Broken"):  # noqa: PT012 - whichever of them is the one
        for _ in range(100):
            wire.sendall(b"a: b\r\n" * 10_000)


def test_trailers_are_received_and_the_connection_goes_on(runtime: FixedRuntime, wire: socket.socket) -> None:
    body = capture("filter-nodenames")
    request_with_trailers = chunked("/filter", body)[:-2] + b"X-Sum: 1\r\n\r\n"
    answers = Answers(wire)
    for _ in range(2):
        wire.sendall(request_with_trailers)
        assert answers.next() == (200, _FILTERED)
