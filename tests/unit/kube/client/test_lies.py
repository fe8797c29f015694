"""Servers that lie, on a socket: what both kinds of requests make of them, and how much of it they take."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from extender.kube.client import bounds
from extender.kube.client.api import ApiServer, Interrupted, Request, Response, Unreachable
from extender.kube.client.bounds import Bound
from extender.kube.client.transport import Endpoint, Proxy, Tls
from extender.kube.writes.multiplexer import HttpMultiplexer
from tests.support.apiserver.scripted_server import WAIT, Answer, Closed, Peer, ScriptedServer, garbage, reply, status

ASKED = Request("POST", "/x", body=b"{}")
MADE = b'HTTP/1.1 201 Created\r\nContent-Length: 17\r\n\r\n{"kind":"Status"}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#: What the kernels on both sides take off the server's hands although nobody reads it.
BUFFERED = 12 * bounds.MIB

Ask = Callable[[float], Response | Interrupted]


class Endless:
    """An answer that begins with some bytes and goes on with others until the client hangs up; counts what was sent."""

    def __init__(self, first: bytes, more: bytes) -> None:
        self._first, self._more = first, more
        self.sent = 0

    def __call__(self, peer: Peer, _request: object) -> None:
        piece = self._more * (bounds.MIB // len(self._more))
        peer.send(self._first)
        while not peer.stopped.is_set():
            peer.send(piece)
            self.sent += len(piece)
        raise Closed


def drip(first: bytes, more: bytes = b"") -> Answer:
    """An answer of which a byte comes now and then: no read waits for long, and it does not end."""

    def answer(peer: Peer, _request: object) -> None:
        peer.send(first)
        for byte in iter(lambda: more or b" ", None):
            if peer.stopped.wait(0.02):
                raise Closed
            peer.send(byte[:1])

    return answer


@pytest.fixture(params=["exchange", "wires"])
def ask(request: pytest.FixtureRequest, server: ScriptedServer, api: ApiServer) -> Iterator[Ask]:
    """POST /x, in a thread that waits or over a connection that stands: within so many seconds."""
    if request.param == "exchange":
        yield lambda seconds: _outcome(lambda: api.request("POST", "/x", body=b"{}", timeout=seconds))
        return
    wires, told = HttpMultiplexer(api), list[Response | Interrupted]()
    server.on("GET", "/warm", reply(200))

    def send(seconds: float) -> Response | Interrupted:
        assert api.request("GET", "/warm").ok
        connection = api.idle_connection()
        assert connection is not None
        wires.send(connection, ASKED, seconds, told.append, may_send=lambda: True)
        while not told:
            wires.poll(1.0)
        return told.pop()

    yield send
    wires.close()


def _outcome(call: Callable[[], Response]) -> Response | Interrupted:
    try:
        return call()
    except Interrupted as error:
        return error


@pytest.mark.parametrize("code", [100, 102, 103])
def test_interim_answers_are_not_the_answer(server: ScriptedServer, ask: Ask, code: int) -> None:
    interim = b"HTTP/1.1 %d Interim\r\nLink: <a>\r\n\r\n" % code
    server.on("POST", "/x", garbage(interim * 3 + MADE))
    told = ask(WAIT)
    assert isinstance(told, Response)
    assert (told.status, told.genuine) == (201, True)


ENDLESS: dict[str, tuple[Bound, bytes, bytes]] = {
    "100 Continue": (Bound.HEAD, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 Early Hints": (Bound.HEAD, b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"),
    "header lines": (Bound.HEAD, b"HTTP/1.1 201 Created\r\n", b"A: b\r\n"),
    "one header line": (Bound.HEAD, b"HTTP/1.1 201 Created\r\nA: ", b"b"),
    "body in chunks": (Bound.SIZE, CHUNKED, b"1000\r\n%s\r\n" % (b"x" * 4096)),
    "body without a length": (Bound.SIZE, b"HTTP/1.1 201 Created\r\n\r\n", b"x"),
    "body with a length": (Bound.SIZE, b"HTTP/1.1 201 Created\r\nContent-Length: 1800000000\r\n\r\n", b"x"),
    "extension of a chunk": (Bound.FRAMING, CHUNKED + b"5;a=", b"b"),
    "trailers": (Bound.FRAMING, CHUNKED + b"0\r\n", b"A: b\r\n"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_refused_and_little_of_it_is_taken(
    server: ScriptedServer, api: ApiServer, ask: Ask, name: str
) -> None:
    bound, first, more = ENDLESS[name]
    answer = Endless(first, more)
    server.on("POST", "/x", answer)
    told = ask(WAIT)
    assert isinstance(told, Interrupted)
    assert (told.bound, told.timed_out) == (bound, False)
    assert answer.sent < bounds.OBJECT + BUFFERED
    assert api.refusals.counts()[bound] == 1
    assert len(server.called("POST", "/x")) == 1


@pytest.mark.parametrize(
    "answer",
    [
        drip(b"", b"H"),
        drip(b"HTTP/1.1 201 Created\r\nA: "),
        drip(b"HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n"),
        drip(CHUNKED + b"fff\r\n"),
        drip(b"HTTP/1.1 201 Created\r\n\r\n"),
    ],
)
def test_a_byte_now_and_then_does_not_put_off_the_end(server: ScriptedServer, ask: Ask, answer: Answer) -> None:
    server.on("POST", "/x", answer)
    began = time.monotonic()
    told = ask(0.2)
    assert isinstance(told, Interrupted)
    assert told.timed_out or told.bound is Bound.FRAMING
    assert time.monotonic() - began < WAIT / 2


def test_a_redirect_is_an_answer_and_is_not_followed(server: ScriptedServer, api: ApiServer, ask: Ask) -> None:
    server.on("POST", "/x", status(307, "elsewhere", Location=f"{server.url}/stolen"))
    told = ask(WAIT)
    assert isinstance(told, Response)
    assert told.status == 307
    assert not [request for request in server.requests if request.path == "/stolen"]


def test_a_body_that_nobody_asked_to_be_compressed_is_refused_before_it_is_read(
    server: ScriptedServer, ask: Ask
) -> None:
    server.on("POST", "/x", reply(201, b"\x1f\x8b" + b"x" * 100, Content_Encoding="gzip"))
    told = ask(WAIT)
    assert isinstance(told, Interrupted)
    assert "gzip" in str(told)
    assert server.called("POST", "/x")[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("body", [b'{"a":' * 100_000, b"[" * 1_000_000, b'{"kind":' + b'"x' * 100, b"\xff" * 100])
def test_a_body_that_no_decoder_likes_is_no_object_and_no_failure_of_ours(body: bytes) -> None:
    response = Response(201, body)
    assert not response.genuine
    assert response.causes == []
    assert len(response.message) <= 700


@pytest.mark.parametrize("size", [100 * bounds.KIB, 3 * bounds.MIB])
def test_the_text_of_a_status_is_cut(size: int) -> None:
    body = json.dumps({"kind": "Status", "message": "x" * size}).encode()
    response = Response(409, body)
    assert response.genuine
    assert len(response.message) < 700


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        ("-5", 0.0),
        ("315360000", 315360000.0),
        ("9" * 5000, None),
        ("soon", None),
        ("1e3", None),
        ("", None),
    ],
)
def test_what_retry_after_says_is_a_number_or_nothing(text: str, seconds: float | None) -> None:
    assert Response(429, b"", {"retry-after": text}).retry_after == seconds


@pytest.mark.parametrize("greeting", [b"\x16\x03\x03\x40\x00\x02", b"HTTP/1.1 200 Connection established\r\nA: "])
def test_tls_or_a_proxy_that_drips_is_not_connected_to_in_time_and_nothing_was_sent(greeting: bytes) -> None:
    stopped = threading.Event()

    def dripping(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            for number in itertools.count():
                connection.send(greeting[number : number + 1] or b"\0")
                if stopped.wait(0.02):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=dripping, args=(listener,), daemon=True)
        server.start()
        port = listener.getsockname()[1]
        proxied = greeting.startswith(b"HTTP")
        proxy = Proxy("127.0.0.1", port) if proxied else None
        api = ApiServer(Endpoint("127.0.0.1", port, tls=Tls(verify=False), proxy=proxy), timeout=0.3)
        began = time.monotonic()
        with pytest.raises(Unreachable):
            api.request("POST", "/x", body=b"{}")
        assert time.monotonic() - began < WAIT / 2
        stopped.set()
        server.join(WAIT)
