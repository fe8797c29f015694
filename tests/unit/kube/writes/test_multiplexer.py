"""Requests over connections that stand: the same answers as those of an exchange that waits, and none twice."""

from __future__ import annotations

import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.kube.client.api import ApiServer, Interrupted, Request, Response, Unreachable
from extender.kube.client.kubeconfig import connect
from extender.kube.client.transport import PIECE, Connection, Endpoint, Tls
from extender.kube.writes.multiplexer import HttpMultiplexer
from extender.operate.certs import Authority
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import (
    WAIT,
    Answer,
    Closed,
    Peer,
    ScriptedServer,
    drop,
    garbage,
    hang,
    lines,
    reply,
    reset,
    status,
    truncated,
)
from tests.support.http.certificates import Files

ASKED = Request("POST", "/x", {"a": "1", "b": "x y"}, b'{"n":1}')


class Driver:
    """Sends over standing connections, and polls until all is told."""

    def __init__(self, server: ScriptedServer, api: ApiServer) -> None:
        self.server, self.api = server, api
        self.multiplexer = HttpMultiplexer(api)
        self.told: list[Response | Interrupted] = []
        server.on("GET", "/warm", reply(200))

    def standing(self) -> Connection:
        if (connection := self.api.idle_connection()) is None:
            assert self.api.request("GET", "/warm").status == 200
            connection = self.api.idle_connection()
        assert connection is not None
        return connection

    def send(self, request: Request = ASKED, *, timeout: float = WAIT) -> None:
        self.multiplexer.send(self.standing(), request, timeout, self.told.append, may_send=lambda: True)

    def ask(self, request: Request = ASKED, *, timeout: float = WAIT) -> Response | Interrupted:
        self.send(request, timeout=timeout)
        return self.wait(1)[-1]

    def wait(self, number: int) -> list[Response | Interrupted]:
        until = time.monotonic() + WAIT
        while len(self.told) < number:
            assert time.monotonic() < until, self.told
            self.multiplexer.poll(1.0)
        return self.told


@pytest.fixture
def driver(server: ScriptedServer, api: ApiServer) -> Iterator[Driver]:
    made = Driver(server, api)
    yield made
    made.multiplexer.close()


def no_length(body: bytes) -> Answer:
    return garbage(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)


ANSWERS: dict[str, Answer] = {
    "whole": reply(201, {"made": True}, X_Kind="y"),
    "empty": reply(204),
    "409": status(409, "no", "Conflict"),
    "429": status(429, "busy", Retry_After="3"),
    "500": status(500, "etcd"),
    "chunked": lines({"a": 1}, {"b": 2}),
    "until the end": no_length(b'{"kind":"Status"}'),
    "after a 100": garbage(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "closing": reply(200, {"x": 1}, Connection="close"),
    "dropped": drop(),
    "reset": reset(),
    "cut short": truncated(b'{"a":'),
    "cut within a chunk": lines(b"x" * 10, then="drop"),
    "no HTTP": garbage(b"SSH-2.0-OpenSSH_9.2\r\n"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_it_is_told_what_an_exchange_is_told(driver: Driver, name: str) -> None:
    driver.server.on("POST", "/x", ANSWERS[name])
    told = driver.ask()

    fresh = connect(ClusterSettings(server=driver.server.url))  # some answers close without having said so
    try:
        expected: Response | Interrupted = fresh.request("POST", "/x", query=ASKED.query, body=ASKED.body)
    except Interrupted as error:
        expected = error
    fresh.close()
    if isinstance(expected, Interrupted):
        assert isinstance(told, Interrupted)
        assert told.timed_out == expected.timed_out
    else:
        assert told == expected


def test_a_head_that_is_cut_is_no_answer(driver: Driver) -> None:
    """`http.client` takes it for one without headers."""
    driver.server.on("POST", "/x", garbage(b"HTTP/1.1 200 OK\r\nContent-Le"))
    assert isinstance(driver.ask(), Interrupted)


def test_the_request_is_what_an_exchange_sends(driver: Driver) -> None:
    driver.server.on("POST", "/x", reply(200))
    driver.ask()
    driver.api.request("POST", "/x", query=ASKED.query, body=ASKED.body)

    one, other = driver.server.called("POST", "/x")
    assert (one.method, one.path, one.query, one.body) == (other.method, other.path, other.query, other.body)
    assert one.headers == other.headers


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=12), chunked=st.booleans())
def test_an_answer_in_any_pieces_is_the_same(cuts: list[int], chunked: bool) -> None:
    body = json.dumps({"kind": "Status", "message": "x" * 200}).encode()
    if chunked:
        whole = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    else:
        whole = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    ends = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})

    def in_pieces(peer: Peer, _request: object) -> None:
        for begin, end in zip(ends, ends[1:], strict=False):  # noqa: RUF007 - pairs
            peer.send(whole[begin:end])
            time.sleep(0.001)

    with ScriptedServer() as server:
        api = connect(ClusterSettings(server=server.url))
        driver = Driver(server, api)
        server.on("POST", "/x", in_pieces)
        told = [driver.ask(), driver.ask()]
        driver.multiplexer.close()
        api.close()
    assert [(each.status, each.body) for each in told if isinstance(each, Response)] == [(201, body)] * 2
    assert server.connections == 1


def test_a_connection_is_used_again_if_its_answer_came_whole_and_alone(driver: Driver) -> None:
    whole, closing = ANSWERS["whole"], ANSWERS["closing"]
    more = garbage(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    used = []
    for number, answer in enumerate((whole, whole, closing, whole, more, whole)):
        driver.server.on("POST", f"/{number}", answer)
        response = driver.ask(Request("POST", f"/{number}"))
        assert isinstance(response, Response)
        assert response.ok
        used.append(driver.server.connections)
        driver.told.clear()
    assert used == [1, 1, 1, 2, 2, 3]


def test_many_are_under_way_at_once_and_end_in_any_order(driver: Driver) -> None:
    first_may_end = threading.Event()

    def slow(peer: Peer, request: object) -> None:
        first_may_end.wait(WAIT)
        ANSWERS["whole"](peer, request)  # type: ignore[arg-type]

    driver.server.on("POST", "/slow", slow)
    driver.server.on("POST", "/x", status(409))
    driver.send(Request("POST", "/slow"))
    for _ in range(5):
        driver.send()
    assert [each.status for each in driver.wait(5) if isinstance(each, Response)] == [409] * 5
    assert driver.multiplexer.busy
    first_may_end.set()
    last = driver.wait(6)[-1]
    assert isinstance(last, Response)
    assert last.status == 201
    assert not driver.multiplexer.busy


def test_what_is_not_answered_in_time_is_interrupted_and_hurts_no_other(driver: Driver) -> None:
    driver.server.on("POST", "/x", hang())
    driver.server.on("POST", "/y", reply(200))
    driver.send(timeout=0.1)
    assert isinstance(driver.ask(Request("POST", "/y")), Response)
    late = driver.wait(2)[-1]
    assert isinstance(late, Interrupted)
    assert late.timed_out
    assert len(driver.server.called("POST", "/x")) == 1


def test_a_drip_of_bytes_does_not_put_off_the_end(driver: Driver) -> None:
    begun: list[int] = []

    def drip(peer: Peer, _request: object) -> None:
        while not peer.stopped.is_set():
            peer.send(b"HTTP/1.1 200 OK\r\nX: y\r\n" if not begun else b"y: z\r\n")
            begun.append(1)
            time.sleep(0.02)
        raise Closed

    driver.server.on("POST", "/x", drip)
    began = time.monotonic()
    assert isinstance(driver.ask(timeout=0.3), Interrupted)
    assert time.monotonic() - began < WAIT / 2


def test_a_long_request_leaves_whole_though_the_peer_reads_slowly(driver: Driver) -> None:
    body = bytes(range(256)) * 40_000
    driver.server.on("POST", "/x", reply(200))
    assert isinstance(driver.ask(Request("POST", "/x", body=body)), Response)
    assert driver.server.called("POST", "/x")[0].body == body


def test_what_is_not_permitted_at_the_last_moment_never_leaves(driver: Driver) -> None:
    connection = driver.standing()
    with pytest.raises(Unreachable, match="not permitted"):
        driver.multiplexer.send(connection, ASKED, WAIT, driver.told.append, may_send=lambda: False)
    connection.close()
    assert (driver.told, driver.multiplexer.busy) == ([], False)
    assert driver.server.called("POST", "/x") == []


@pytest.mark.parametrize("header", ["Bearer a\r\nX: y", "Bearer a\nX: y"])
def test_a_header_of_two_lines_never_leaves(server: ScriptedServer, api: ApiServer, header: str) -> None:
    bad = ApiServer(Endpoint(api.endpoint.host, api.endpoint.port, authorization=lambda: header))
    with pytest.raises(ValueError, match="more than one line"):
        bad.encoded(ASKED)


def test_breaking_off_tells_all_and_a_wake_ends_the_waiting(driver: Driver) -> None:
    driver.server.on("POST", "/x", hang())
    driver.send()
    driver.send()
    waker = threading.Timer(0.05, driver.multiplexer.wake)
    driver.multiplexer.sleeps = True
    waker.start()
    began = time.monotonic()
    driver.multiplexer.poll(WAIT)
    assert time.monotonic() - began < WAIT / 2
    assert driver.told == []
    driver.multiplexer.break_off()
    assert [type(each) for each in driver.told] == [Interrupted, Interrupted]


def test_whoever_is_told_may_send_the_next(driver: Driver) -> None:
    driver.server.on("POST", "/x", ANSWERS["whole"])
    left = [3]

    def again(result: Response | Interrupted) -> None:
        driver.told.append(result)
        left[0] -= 1
        if left[0]:
            driver.multiplexer.send(driver.standing(), ASKED, WAIT, again, may_send=lambda: True)

    driver.multiplexer.send(driver.standing(), ASKED, WAIT, again, may_send=lambda: True)
    driver.wait(3)
    assert len(driver.server.called("POST", "/x")) == 3


def test_it_works_over_tls(tmp_path: Path) -> None:
    authority = Authority.new()
    files = Files(tmp_path).write(authority.server(["127.0.0.1"]), authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with ScriptedServer(tls=context) as server:
        host, port = server.url.removeprefix("https://").split(":")
        api = ApiServer(Endpoint(host, int(port), tls=Tls(ca_file=str(files.ca))))
        driver = Driver(server, api)
        for name in ("whole", "chunked", "409", "dropped"):
            server.on("POST", "/x", ANSWERS[name])
            assert isinstance(driver.ask(), Interrupted if name == "dropped" else Response)
            driver.told.clear()
        server.on("POST", "/x", reply(200))
        body = b"y" * 3_000_000
        assert isinstance(driver.ask(Request("POST", "/x", body=body)), Response)
        assert server.called("POST", "/x")[-1].body == body
        driver.multiplexer.close()
        api.close()


def test_credentials_are_at_hand_where_there_are_none_or_where_their_source_says_so(api: ApiServer) -> None:
    there: Callable[[], bool] = lambda: True  # noqa: E731
    host, port = api.endpoint.host, api.endpoint.port
    assert api.at_hand
    assert not ApiServer(Endpoint(host, port, authorization=lambda: "Bearer x")).at_hand
    assert ApiServer(Endpoint(host, port, authorization=lambda: "Bearer x", at_hand=there)).at_hand


def test_an_answer_takes_one_turn_at_a_time(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of it has come: others are told meanwhile, and deadlines are looked at."""
    monkeypatch.setattr("extender.kube.writes.multiplexer._TURN", 1)
    sent = threading.Event()

    def much(peer: Peer, _request: object) -> None:
        peer.head(200, {"Content-Length": "200000"})
        peer.send(b" " * 200_000)
        sent.set()

    driver.server.on("POST", "/x", much)
    driver.send()
    assert sent.wait(WAIT)
    taken, whole = [], driver.told
    while not whole:
        driver.multiplexer.poll(1.0)
        taken += [len(wire.answer.body) for wire in driver.multiplexer._exchanges]
    assert len(taken) >= 200_000 // PIECE
    assert max(after - before for before, after in itertools.pairwise([0, *taken])) <= PIECE
