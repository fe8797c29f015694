"""HTTP/1.1: what one client may make the server do in a turn, keep in memory, and wait for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing

import pytest

from extender.scheduling.events import BindAnswer, FilterAnswer
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.outlet import STEP
from extender.web.http.protocol import WaggleProtocol
from extender.web.http.server import ServerHandle, serve_in_thread
from extender.web.limits.turns import Turns
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture
from tests.support.http.server_connections import connection, connections, held_loop, later, nothing_stays, until
from tests.unit.web.http.test_protocol import Answers, request

FILTER = capture("filter-nodenames")
BIND = capture("bind")
SMALL = request("/filter", b"{}")


class Served:
    def __init__(self, server: ServerHandle, runtime: FixedRuntime) -> None:
        self.server = server
        self.runtime = runtime

    def connect(self) -> socket.socket:
        client = Client(self.server.url)
        opened = socket.create_connection((client.host, client.port), 20)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened


@pytest.fixture(scope="module")
def face() -> Iterator[Served]:
    settings = Settings(server=ServerSettings(port=0, max_body_mib=4))
    runtime = FixedRuntime()
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        yield Served(server, runtime)


@pytest.fixture
def served(face: Served) -> Served:
    face.runtime.__init__()
    until(lambda: not face.server._server.server_state.connections)
    return face


@pytest.fixture
def wire(served: Served) -> Iterator[socket.socket]:
    with closing(served.connect()) as opened:
        yield opened


def is_closed(wire: socket.socket) -> bool:
    """Whether the server ends it without a further byte."""
    try:
        return wire.recv(65536) == b""
    except ConnectionError:
        return True


def statuses(wire: socket.socket, number: int) -> list[int]:
    answers = Answers(wire)
    return [answers.next()[0] for _ in range(number)]


# -- turns --------------------------------------------------------------------------------------------------------


def test_of_a_burst_one_request_is_answered_at_once_and_the_rest_in_turns(
    served: Served, wire: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.web.limits.turns.SLICE", 0.0)
    turns: list[int] = []
    turn, received = WaggleProtocol.turn, WaggleProtocol.data_received
    asked = served.runtime.asked
    served.runtime.failure = None

    def counted(call):
        def run(self, *args):
            before = len(asked)
            result = call(self, *args)
            turns.append(len(asked) - before)
            return result

        return run

    monkeypatch.setattr(WaggleProtocol, "turn", counted(turn))
    monkeypatch.setattr(WaggleProtocol, "data_received", counted(received))
    wire.sendall(request("/filter", FILTER) * 200)
    assert statuses(wire, 200) == [200] * 200
    assert len(asked) == 200
    assert max(turns) == 1


def test_of_pages_sent_ahead_one_is_parsed_beyond_what_is_answered(
    wire: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand connections may each send some kilobytes in one iteration of the loop."""
    waiting: list[int] = []
    parse = WaggleProtocol._parse_piece

    def counted(self: WaggleProtocol) -> None:
        parse(self)
        waiting.append(len(self.pipeline))

    monkeypatch.setattr(WaggleProtocol, "_parse_piece", counted)
    wire.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
    assert statuses(wire, 100) == [200] * 100
    assert max(waiting) == 1


def test_little_is_parsed_and_kept_of_a_burst_that_waits(served: Served, wire: socket.socket) -> None:
    served.runtime.bind_future = Future()
    wire.sendall(request("/bind", BIND))
    found = connection(served.server)
    until(lambda: served.runtime.asked)
    wire.setblocking(False)
    sent = 0
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        try:
            sent += wire.send(SMALL * 1000)
        except BlockingIOError:
            time.sleep(0.01)
    assert len(found.pipeline) <= 2
    assert len(found._unparsed) <= 1 << 20
    wire.setblocking(True)
    served.runtime.bind_future.set_result(BindAnswer(1))
    assert statuses(wire, 500) == [200] * 500


def test_another_client_is_answered_in_the_middle_of_a_burst(
    served: Served, wire: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.web.limits.turns.SLICE", 0.0)
    number = 2_000
    with closing(served.connect()) as other:
        other.sendall(request("/livez", method="HEAD"))
        other.recv(65536)
        wire.sendall(SMALL * number)
        other.sendall(request("/filter", FILTER))
        assert statuses(other, 1) == [200]
        (at,) = [place for place, asked in enumerate(served.runtime.asked) if asked[0] == "filter"][:1] or [0]
    assert at < number
    assert statuses(wire, number) == [200] * number


def test_of_many_connections_that_ask_at_the_same_moment_a_call_is_answered_before_the_pages(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.web.limits.turns.SLICE", 0.0)
    begun: list[str] = []
    start = WaggleProtocol._start
    monkeypatch.setattr(
        WaggleProtocol, "_start", lambda self, *a: (begun.append(self.url.decode()), start(self, *a))[1]
    )
    with ExitStack() as opened:
        pages = [opened.enter_context(closing(served.connect())) for _ in range(40)]
        caller = opened.enter_context(closing(served.connect()))
        for each in (*pages, caller):
            each.sendall(request("/filter", FILTER))
            assert statuses(each, 1) == [200]
        begun.clear()
        monkeypatch.setattr(Turns, "admits", lambda _self, *, call: call is None)  # others came before all of these
        with held_loop(connections(served.server)[0].loop):
            for each in pages:
                each.sendall(request("/nowhere", method="GET"))
            caller.sendall(request("/filter", FILTER))
        assert statuses(caller, 1) == [200]
        assert [statuses(each, 1) for each in pages] == [[404]] * 40
    assert len(begun) == 41
    assert begun.index("/filter") <= 2  # it takes two turns, and so does each page


def test_a_large_body_waits_for_its_turn(served: Served, wire: socket.socket) -> None:
    served.runtime.filter_answer = FilterAnswer(node="n0")
    body = FILTER[:-1] + b" " * 100_000 + FILTER[-1:]
    wire.sendall(request("/filter", body) * 3)
    assert statuses(wire, 3) == [200] * 3


# -- memory -------------------------------------------------------------------------------------------------------


def test_of_unfinished_bodies_the_oldest_large_one_goes_when_all_have_too_much(served: Served) -> None:
    bodies = served.server._server.config.loaded_app.budgets.bodies
    before, bodies.limit = bodies.limit, 3 << 20
    opened = [served.connect() for _ in range(3)]
    try:
        for each, size, held in zip(opened, (1_000_000, 1_500_000, 1_200_000), (1_000_000, 2_500_000, 0), strict=True):
            each.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + bytes(size))
            until(lambda held=held: bodies.used >= held)
        status, body = Answers(opened[0]).next()
        assert status == 200
        assert b"too many requests are being received" in body
        assert bodies.used < 3 << 20
        opened[0].sendall(bytes(1_000_000) + request("/filter", FILTER))
        assert statuses(opened[0], 1) == [200]  # the rest was thrown away, and the connection goes on
    finally:
        bodies.limit = before
        for each in opened:
            each.close()
    until(lambda: bodies.used == 0)


def test_a_body_of_unknown_length_is_counted_too(served: Served, wire: socket.socket) -> None:
    bodies = served.server._server.config.loaded_app.budgets.bodies
    before, bodies.limit = bodies.limit, 1 << 20
    try:
        wire.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.sendall((b"10000\r\n" + bytes(0x10000) + b"\r\n") * 20)
        assert b"too many requests are being received" in Answers(wire).next()[1]
    finally:
        bodies.limit = before
    assert bodies.used == 0


def test_an_announced_length_takes_no_memory(served: Served, wire: socket.socket) -> None:
    bodies = served.server._server.config.loaded_app.budgets.bodies
    wire.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n{")
    until(lambda: connection(served.server)._receiving)
    until(lambda: bodies.used == 1)


def test_a_client_that_takes_no_answer_is_not_answered_any_more(served: Served, wire: socket.socket) -> None:
    served.runtime.filter_answer = FilterAnswer(pass_through=True)
    names = b",".join(b'"node-%06d"' % number for number in range(20_000))
    pod = b'{"metadata":{"name":"p","namespace":"d","uid":"u"},"spec":{"containers":[]}}'
    asked = request("/filter", b'{"Pod":%s,"NodeNames":[%s]}' % (pod, names))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.settimeout(1.0)
    with pytest.raises(TimeoutError):
        wire.sendall(asked * 100)
    answers = served.server._server.config.loaded_app.budgets.answers
    found = connection(served.server)
    until(lambda: found._outlet.is_full)
    assert len(served.runtime.asked) < 40
    assert answers.used < 2 * len(asked)
    assert found._outlet._transport.get_write_buffer_size() < 4 * STEP
    later(found, 31)
    until(lambda: not served.server._server.server_state.connections)
    assert answers.used == 0


def test_header_fields_have_a_number(wire: socket.socket) -> None:
    wire.sendall(b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * 300 + b"\r\n")
    assert statuses(wire, 1) == [400]
    assert is_closed(wire)


@pytest.mark.parametrize(
    "sent",
    [
        b"P",  # before that there is no protocol
        b"POST /fil",
        b"POST /filter HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
        b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        request("/bind", BIND) + SMALL * 20 + request("/livez", method="GET"),
        request("/livez", method="GET") * 3 + b"nonsense\r\n\r\n",
    ],
    ids=["byte", "head", "body", "chunks", "pipeline", "wrong"],
)
def test_nothing_stays_of_a_connection(served: Served, sent: bytes) -> None:
    served.runtime.bind_future = Future()
    with nothing_stays(served.server) as kept:
        with closing(served.connect()) as opened:
            opened.sendall(sent[:1])
            kept.look("_outlet", "flow")
            opened.sendall(sent[1:])
            time.sleep(0.05)
        served.runtime.bind_future.set_result(BindAnswer(1))  # while it waits nothing is read, and no end is seen
        served.runtime.bind_future = None
        until(lambda: not served.server._server.server_state.connections)


# -- deadlines ----------------------------------------------------------------------------------------------------


def test_a_head_has_ten_seconds(served: Served, wire: socket.socket) -> None:
    wire.sendall(b"POST /filter HTTP/1.1\r\nHost:")
    found = connection(served.server)
    until(lambda: found._deadline)
    later(found, 9)
    wire.sendall(b" a\r\n")
    later(found, 11)
    assert is_closed(wire)


def test_a_body_has_thirty_seconds_and_its_caller_is_told(served: Served, wire: socket.socket) -> None:
    wire.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    found = connection(served.server)
    until(lambda: found._receiving)
    later(found, 29)
    later(found, 31)
    status, body = Answers(wire).next()
    assert (status, b"not complete after 30 seconds" in body) == (200, True)
    assert is_closed(wire)


def test_a_body_of_a_page_has_them_too(served: Served, wire: socket.socket) -> None:
    wire.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
    found = connection(served.server)
    until(lambda: found._receiving)
    later(found, 31)
    assert is_closed(wire)


def test_what_is_not_used_ends_and_what_is_answered_does_not(served: Served, wire: socket.socket) -> None:
    served.runtime.bind_future = Future()
    wire.sendall(request("/bind", BIND))
    found = connection(served.server)
    until(lambda: served.runtime.asked)
    assert found.busy
    later(found, 1000)
    served.runtime.bind_future.set_result(BindAnswer(1))
    assert statuses(wire, 1) == [200]
    assert not found.busy
    later(found, 119)
    wire.sendall(SMALL)
    assert statuses(wire, 1) == [200]
    later(found, 121)
    assert is_closed(wire)


def test_what_sends_nothing_but_empty_lines_ends(served: Served, wire: socket.socket) -> None:
    wire.sendall(b"\r\n" * 10)
    found = connection(served.server)
    later(found, 121)
    assert is_closed(wire)


# -- what is another protocol's, or nobody's ----------------------------------------------------------------------

UPGRADE = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"]


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
@pytest.mark.parametrize("upgrade", [UPGRADE, ["Connection: upgrade", "Upgrade: websocket"]], ids=["h2c", "websocket"])
@pytest.mark.parametrize("apart", [False, True])
def test_the_body_of_a_request_with_an_upgrade_is_no_request(
    served: Served, wire: socket.socket, upgrade: list[str], version: bytes, *, apart: bool
) -> None:
    hidden = request("/filter", FILTER)
    sent = request("/filter", hidden, headers=upgrade).replace(b"HTTP/1.1", version, 1)
    head = sent.index(b"\r\n\r\n") + 4 if apart else 0
    wire.sendall(sent[:head])
    time.sleep(0.02 if apart else 0)
    wire.sendall(sent[head:])
    assert statuses(wire, 1) == [400]
    assert is_closed(wire)
    assert served.runtime.asked == []


def test_the_chunks_of_a_request_with_an_upgrade_are_no_requests(served: Served, wire: socket.socket) -> None:
    lines = ["POST /filter HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", *UPGRADE, "", ""]
    wire.sendall("\r\n".join(lines).encode() + request("/filter", FILTER))
    assert statuses(wire, 1) == [400]
    assert served.runtime.asked == []


def test_what_follows_a_connect_is_no_request(served: Served, wire: socket.socket) -> None:
    wire.sendall(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" + request("/filter", FILTER))
    assert statuses(wire, 1) == [400]
    assert is_closed(wire)
    assert served.runtime.asked == []


def test_an_upgrade_without_a_body_is_served_as_if_it_was_not_asked_for(served: Served, wire: socket.socket) -> None:
    upgraded = request("/livez", method="GET", headers=UPGRADE)
    wire.sendall(upgraded + request("/filter", FILTER) + upgraded)
    assert statuses(wire, 3) == [200] * 3


def test_what_came_before_something_wrong_is_answered_first(served: Served, wire: socket.socket) -> None:
    served.runtime.bind_future = Future()
    wire.sendall(request("/bind", BIND) + request("/livez", method="GET") + b"what is this\r\n\r\n")
    until(lambda: served.runtime.asked)
    served.runtime.bind_future.set_result(BindAnswer(1))
    assert statuses(wire, 3) == [200, 200, 400]
    assert is_closed(wire)
