"""HTTP/2: the same answers as over HTTP/1.1, many at once over one connection, and peers that behave badly."""

from __future__ import annotations

import socket
import ssl
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, GoAwayFrame, WindowUpdateFrame
from structlog.testing import capture_logs

from extender.operate.certs import Authority
from extender.scheduling.events import BindAnswer, FilterAnswer
from extender.server.views import Readiness
from extender.settings import ServerSettings, Settings, TlsSettings
from extender.web.app import create_app
from extender.web.http.http2 import Http2
from extender.web.http.server import ServerHandle, serve_in_thread
from tests.support.http.certificates import Files
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture

WAIT = 20.0
FILTER, BIND = capture("filter-nodenames"), capture("bind")


class Secure:
    """A face behind TLS, and how to reach it."""

    def __init__(self, folder: Path, **server: object) -> None:
        self.authority = Authority.new()
        self.files = Files(folder)
        self.renew()
        tls = TlsSettings(cert_file=self.files.certificate, key_file=self.files.key, reload_seconds=0.02)
        # A copy: what no operator may choose may be tried.
        self.settings = Settings(server=ServerSettings(port=0, tls=tls, max_body_mib=1).model_copy(update=server))
        self.runtime = FixedRuntime()
        self.server: ServerHandle = serve_in_thread(create_app(self.runtime, self.settings), self.settings)

    def renew(self) -> None:
        self.files.write(self.authority.server(["127.0.0.1"]), self.authority)

    def connect(self, *protocols: str) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.files.ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(protocols or ["h2"])
        port = Client(self.server.url).port
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), WAIT), server_hostname="127.0.0.1")


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    secure = Secure(tmp_path_factory.mktemp("tls"))
    with secure.server:
        yield secure


@pytest.fixture
def secure(face: Secure) -> Secure:
    face.runtime.__init__()
    return face


class Peer:
    """A client that does what a test says, frame by frame."""

    def __init__(self, secure: Secure, *, window: int | None = None) -> None:
        self.socket = secure.connect()
        assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()
        self.bodies: dict[int, bytes] = {}
        self.statuses: dict[int, str] = {}
        self.ended: list[int] = []
        self.reset: list[int] = []
        #: The last stream and the error of a GOAWAY.
        self.goaway: tuple[int, int] | None = None
        self.closed = False
        self._rest = b""
        self.takes = True

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(
        self, path: str, body: bytes | None = None, *, method: str = "POST", more: Mapping[str, str] | None = None
    ) -> int:
        """Sends a request, and gives the number of its stream."""
        number = self.begin(path, method=method, more={"content-length": str(len(body or b"")), **(more or {})})
        if body:
            for start in range(0, len(body), 16_384):
                self.flush()
                self.until(lambda: self.h2.local_flow_control_window(number) >= 16_384)
                self.h2.send_data(number, body[start : start + 16_384])
        self.h2.end_stream(number)
        self.flush()
        return number

    def begin(self, path: str, *, method: str = "POST", more: Mapping[str, str] | None = None) -> int:
        number = self.h2.get_next_available_stream_id()
        named = {":method": method, ":path": path, ":scheme": "https", ":authority": "waggle", **(more or {})}
        self.h2.send_headers(number, list(named.items()))
        return number

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < end
            self.step()

    def step(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            self.closed = True
            return
        for event in self.h2.receive_data(self._without_goaway(data)):
            self._take(event)
        self.flush()

    def _without_goaway(self, data: bytes) -> bytes:
        """h2 takes it for the end of all streams, which it is not."""
        data, kept = self._rest + data, []
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3]):
            frame, data = data[: 9 + int.from_bytes(data[:3])], data[9 + int.from_bytes(data[:3]) :]
            if frame[3] == GoAwayFrame.type:
                self.goaway = (int.from_bytes(frame[9:13]), int.from_bytes(frame[13:17]))
            else:
                kept.append(frame)
        self._rest = data
        return b"".join(kept)

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived():
                self.statuses[event.stream_id] = dict(event.headers)[":status"]
                self.bodies[event.stream_id] = b""
            case DataReceived():
                self.bodies[event.stream_id] += event.data
                if self.takes:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.ended.append(event.stream_id)
            case StreamReset():
                self.reset.append(event.stream_id)

    def answer(self, number: int) -> tuple[int, bytes]:
        self.until(lambda: number in self.ended)
        return int(self.statuses[number]), self.bodies[number]


@pytest.fixture
def peer(secure: Secure) -> Iterator[Peer]:
    with Peer(secure) as made:
        yield made


# -- the same answers ---------------------------------------------------------------------------------------------

ASKED = [
    ("POST", "/filter", FILTER),
    ("POST", "/v1/extender/filter", FILTER),
    ("POST", "//filter/", FILTER),
    ("POST", "/filter?x=1", FILTER),
    ("POST", "/prioritize", capture("prioritize-nodenames")),
    ("POST", "/preempt", capture("preempt-meta-victims")),
    ("POST", "/bind", BIND),
    ("POST", "/filter", b"{"),
    ("POST", "/filter", b""),
    ("POST", "/filter", b" " * 2_000_000),
    ("POST", "/preempt", b"{"),
    ("POST", "/nothing", b"{}"),
    ("GET", "/filter", b""),
    ("GET", "/", b""),
    ("GET", "/livez", b""),
    ("GET", "/no page", b""),
    ("GET", "/openapi.json", b""),
    ("GET", "/ui", b""),
    ("GET", "/v1/inspect/pods?state=nonsense", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), ASKED, ids=[f"{m} {p} {len(b)}" for m, p, b in ASKED])
def test_every_answer_is_the_one_of_http_1(secure: Secure, method: str, path: str, body: bytes) -> None:
    answers = []
    for http2 in (False, True):
        context = ssl.create_default_context(cafile=str(secure.files.ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        with httpx.Client(http2=http2, verify=context) as client:
            answers.append(client.request(method, secure.server.url + path, content=body))
    one, two = answers
    assert (one.http_version, two.http_version) == ("HTTP/1.1", "HTTP/2")
    assert (two.status_code, two.content) == (one.status_code, one.content)
    without = {"date", "transfer-encoding", "connection"}
    assert {k: v for k, v in two.headers.items() if k not in without} == {
        k: v for k, v in one.headers.items() if k not in without
    }


def test_who_knows_no_http_2_is_served_http_1(secure: Secure) -> None:
    with secure.connect("http/1.1") as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


# -- many at once -------------------------------------------------------------------------------------------------


def test_filters_are_answered_while_binds_are_under_way(secure: Secure, peer: Peer) -> None:
    secure.runtime.bind_future = Future()
    binds = [peer.ask("/bind", BIND) for _ in range(20)]
    for _ in range(5):
        assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    assert not set(binds) & set(peer.ended)
    secure.runtime.bind_future.set_result(BindAnswer(1))
    assert [peer.answer(number) for number in binds] == [(200, b'{"Error":""}')] * 20


def test_requests_in_one_piece_are_all_answered(peer: Peer) -> None:
    numbers = []
    for _ in range(50):
        number = peer.begin("/filter", more={"content-length": str(len(FILTER))})
        peer.h2.send_data(number, FILTER, end_stream=True)
        numbers.append(number)
    data = peer.h2.data_to_send()
    for start in range(0, len(data), 700):
        peer.socket.sendall(data[start : start + 700])
    answers = {peer.answer(number) for number in numbers}
    assert len(answers) == 1
    assert answers.pop()[0] == 200


# -- room for answers ---------------------------------------------------------------------------------------------


def names(number: int) -> bytes:
    listed = b",".join(b'"node-%06d"' % i for i in range(number))
    pod = b'{"metadata":{"name":"p","namespace":"d","uid":"u"},"spec":{"containers":[]}}'
    return b'{"Pod":%s,"NodeNames":[%s]}' % (pod, listed)


def test_an_answer_goes_as_the_peer_has_room_for_it(secure: Secure) -> None:
    secure.runtime.filter_answer = FilterAnswer(pass_through=True)
    with Peer(secure, window=1_000) as narrow:
        status, body = narrow.answer(narrow.ask("/filter", names(5_000)))
    assert status == 200
    assert body.count(b"node-") == 5_000


def test_an_answer_that_nobody_takes_holds_up_no_other(secure: Secure) -> None:
    secure.runtime.filter_answer = FilterAnswer(pass_through=True)
    with Peer(secure, window=1_000) as narrow:
        narrow.takes = False
        stuck = narrow.ask("/filter", names(5_000))
        narrow.until(lambda: stuck in narrow.statuses)
        secure.runtime.filter_answer = FilterAnswer(node="n0")
        assert narrow.answer(narrow.ask("/filter", FILTER))[0] == 200
        assert stuck not in narrow.ended


def test_how_much_is_remembered_for_a_peer_is_not_its_choice(secure: Secure, peer: Peer) -> None:
    peer.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**31})
    peer.flush()
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    (ours,) = [each for each in secure.server._server.server_state.connections if each._streams is not None]
    assert ours._h2.encoder.header_table_size == 4096


# -- bodies -------------------------------------------------------------------------------------------------------


def test_a_body_of_unknown_length_is_served(secure: Secure, peer: Peer) -> None:
    number = peer.begin("/filter")
    peer.h2.send_data(number, FILTER[:100])
    peer.flush()
    time.sleep(0.02)
    peer.h2.send_data(number, FILTER[100:], end_stream=True)
    peer.flush()
    assert peer.answer(number)[0] == 200
    assert len(secure.runtime.asked) == 1


def test_a_body_that_is_taken_back_reaches_nobody_and_harms_nobody(secure: Secure, peer: Peer) -> None:
    for path, length in (("/filter", len(FILTER)), ("/filter/", len(FILTER)), ("/bind", len(BIND))):
        number = peer.begin(path, more={"content-length": str(length)})
        peer.h2.send_data(number, FILTER[:50] if "filter" in path else BIND[:10])
        peer.h2.reset_stream(number, ErrorCodes.CANCEL)
        peer.flush()
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    assert len(secure.runtime.asked) == 1


def test_a_bind_that_its_caller_gave_up_is_answered_to_nobody(secure: Secure, peer: Peer) -> None:
    secure.runtime.bind_future = Future()
    number = peer.ask("/bind", BIND)
    while not secure.runtime.asked:
        time.sleep(0.01)
    peer.h2.reset_stream(number, ErrorCodes.CANCEL)
    peer.flush()
    assert peer.answer(peer.ask("/livez", method="GET"))[0] == 200
    secure.runtime.bind_future.set_result(BindAnswer(1))
    assert peer.answer(peer.ask("/livez", method="GET"))[0] == 200
    assert number not in peer.statuses


def test_more_than_was_declared_ends_the_connection_and_reaches_nobody(secure: Secure, peer: Peer) -> None:
    number = peer.begin("/filter", more={"content-length": "5"})
    peer.h2.send_data(number, b"{}        ", end_stream=True)
    peer.flush()
    peer.until(lambda: peer.closed)
    assert peer.goaway is not None
    assert secure.runtime.asked == []


# -- the end ------------------------------------------------------------------------------------------------------


def test_who_is_not_ready_answers_and_lets_its_callers_go_to_another(secure: Secure, peer: Peer) -> None:
    secure.runtime.bind_future = Future()
    bind = peer.ask("/bind", BIND)
    while not secure.runtime.asked:
        time.sleep(0.01)
    secure.runtime.ready = Readiness(False, "another replica leads")
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    peer.until(lambda: peer.goaway is not None)
    assert peer.goaway == (bind + 2, ErrorCodes.NO_ERROR)
    assert not peer.closed
    secure.runtime.bind_future.set_result(BindAnswer(1))
    peer.until(lambda: peer.closed)
    assert peer.bodies[bind] == b'{"Error":""}'


def test_after_a_renewal_callers_connect_anew_and_no_call_is_lost(tmp_path: Path) -> None:
    secure = Secure(tmp_path)
    secure.runtime.bind_future = Future()
    with secure.server, Peer(secure) as idle, Peer(secure) as peer:
        bind = peer.ask("/bind", BIND)
        while not secure.runtime.asked:
            time.sleep(0.01)
        secure.renew()
        idle.until(lambda: idle.closed)
        peer.until(lambda: peer.goaway is not None)
        secure.runtime.bind_future.set_result(BindAnswer(1))
        assert peer.answer(bind) == (200, b'{"Error":""}')
        peer.until(lambda: peer.closed)


def test_the_server_lets_streams_end_before_it_stops(tmp_path: Path) -> None:
    secure = Secure(tmp_path)
    secure.runtime.bind_future = Future()
    with secure.server, Peer(secure) as idle, Peer(secure) as peer:
        idle.flush()
        bind = peer.ask("/bind", BIND)
        while not secure.runtime.asked:
            time.sleep(0.01)
        secure.server._server.should_exit = True
        idle.until(lambda: idle.closed)
        secure.runtime.bind_future.set_result(BindAnswer(1))
        assert peer.answer(bind) == (200, b'{"Error":""}')
        peer.until(lambda: peer.closed)


def test_an_idle_connection_ends(tmp_path: Path) -> None:
    secure = Secure(tmp_path, keep_alive_seconds=1)
    with secure.server, Peer(secure) as peer:
        assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
        peer.until(lambda: peer.closed)
        assert peer.goaway is not None


def test_who_speaks_no_http_2_is_named_in_the_log(secure: Secure) -> None:
    with capture_logs() as logs, secure.connect() as connection:
        host, port = connection.getsockname()
        connection.sendall(b"\0" * 100)
        while connection.recv(1 << 16):
            pass
    (line,) = [line for line in logs if line["event"] == "bad_http2"]
    assert line["client"] == (host, port)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\xff" * 20_000])
def test_what_is_no_http_2_ends_its_connection_only(secure: Secure, sent: bytes) -> None:
    with secure.connect() as stranger:
        stranger.sendall(sent)
        stranger.settimeout(WAIT)
        while stranger.recv(65536):
            pass
    with Peer(secure) as peer:
        assert peer.answer(peer.ask("/livez", method="GET"))[0] == 200


def test_who_does_nothing_but_take_back_is_shown_the_door(secure: Secure, peer: Peer) -> None:
    with pytest.raises((OSError, AssertionError)):  # noqa: PT012 - it may be noticed at any of these
        for _ in range(3_000):
            number = peer.begin("/filter", more={"content-length": "10"})
            peer.h2.reset_stream(number, ErrorCodes.CANCEL)
            peer.flush()
        peer.until(lambda: peer.closed)
        raise AssertionError
    assert secure.runtime.asked == []
    with Peer(secure) as other:
        assert other.answer(other.ask("/filter", FILTER))[0] == 200


def test_who_says_goodbye_still_gets_its_answers(secure: Secure, peer: Peer) -> None:
    secure.runtime.bind_future = Future()
    bind = peer.ask("/bind", BIND)
    while not secure.runtime.asked:
        time.sleep(0.01)
    peer.socket.sendall(GoAwayFrame(0, last_stream_id=0).serialize())
    peer.h2.ping(b"after it")
    peer.flush()
    time.sleep(0.05)
    secure.runtime.bind_future.set_result(BindAnswer(1))
    assert peer.answer(bind) == (200, b'{"Error":""}')
    peer.until(lambda: peer.closed)


def test_after_junk_nothing_is_answered_and_nothing_fails(
    secure: Secure, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    secure.runtime.bind_future = Future()
    peer.ask("/bind", BIND)
    while not secure.runtime.asked:
        time.sleep(0.01)
    peer.socket.sendall(b"\0\0\1\4\0\0\0\0\0\0")  # settings of one byte
    peer.until(lambda: peer.goaway is not None)
    secure.runtime.bind_future.set_result(BindAnswer(1))
    peer.until(lambda: peer.closed)
    with Peer(secure) as other:
        assert other.answer(other.ask("/livez", method="GET"))[0] == 200
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize(("method", "path"), [(b"GET", b"/\xff"), (b"G\xffT", b"/livez")])
def test_bytes_beyond_ascii_are_answered_and_harm_no_other_stream(
    secure: Secure, peer: Peer, method: bytes, path: bytes
) -> None:
    secure.runtime.bind_future = Future()
    bind = peer.ask("/bind", BIND)
    number = peer.h2.get_next_available_stream_id()
    named = {b":method": method, b":path": path, b":scheme": b"https", b":authority": b"waggle"}
    peer.h2.send_headers(number, list(named.items()), end_stream=True)
    peer.flush()
    assert peer.answer(number)[0] in (404, 405)
    secure.runtime.bind_future.set_result(BindAnswer(1))
    assert peer.answer(bind)[0] == 200


def test_pieces_without_bytes_are_not_kept(secure: Secure, peer: Peer) -> None:
    """Each is nine bytes for its sender; kept, it would be sixty-four."""
    number = peer.begin("/filter", more={"content-length": str(len(FILTER))})
    peer.flush()
    tracemalloc.start()
    try:
        peer.socket.sendall(DataFrame(number, b"").serialize() * 900)
        assert peer.answer(peer.ask("/livez", method="GET"))[0] == 200
        kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/extender/web/*")])
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in kept.traces) < 50_000
    peer.h2.send_data(number, FILTER, end_stream=True)
    peer.flush()
    assert peer.answer(number)[0] == 200


def test_room_that_comes_in_crumbs_costs_one_look_at_each_stream(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    send_pending = Http2._send_pending
    monkeypatch.setattr(
        Http2, "_send_pending", lambda self, stream: (looks.append(stream.number), send_pending(self, stream))
    )
    with Peer(secure, window=0) as narrow:
        numbers = [narrow.ask("/filter", FILTER) for _ in range(20)]
        narrow.until(lambda: len(narrow.statuses) == len(numbers))
        looks.clear()
        narrow.socket.sendall(WindowUpdateFrame(0, window_increment=1).serialize() * 1_000)
        assert narrow.answer(narrow.ask("/livez", method="HEAD"))[0] == 405
    assert 0 < len(looks) < 1_000
