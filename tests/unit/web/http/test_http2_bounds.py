"""HTTP/2: what one client may make the server do in a turn, keep in memory, and wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from extender.scheduling.events import BindAnswer, FilterAnswer
from extender.web.http.http2 import Http2
from tests.support.http.server_connections import connection, connections, later, nothing_stays, until
from tests.unit.web.http.test_http2 import BIND, FILTER, Peer, Secure, names

LARGE = names(5_000)


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    secure = Secure(tmp_path_factory.mktemp("tls"), max_body_mib=4)
    with secure.server:
        yield secure


@pytest.fixture
def secure(face: Secure) -> Secure:
    face.runtime.__init__()
    until(lambda: not connections(face.server))
    return face


@pytest.fixture
def peer(secure: Secure) -> Iterator[Peer]:
    with Peer(secure) as made:
        assert made.answer(made.ask("/livez", method="GET"))[0] == 200
        yield made


def ends(peer: Peer, error: ErrorCodes) -> None:
    peer.until(lambda: peer.goaway is not None or peer.closed)
    assert peer.goaway is not None
    assert peer.goaway[1] == error


# -- turns --------------------------------------------------------------------------------------------------------


def test_of_requests_that_came_together_one_is_answered_in_a_turn(
    secure: Secure, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.web.limits.turns.SLICE", 0.0)
    answered: list[int] = []
    asked = secure.runtime.asked

    def counted(call):
        def run(self, *args):
            before = len(asked)
            result = call(self, *args)
            answered.append(len(asked) - before)
            return result

        return run

    for name in ("turn", "data_received"):
        monkeypatch.setattr(Http2, name, counted(getattr(Http2, name)))
    numbers = []
    for _ in range(60):
        number = peer.begin("/filter", more={"content-length": str(len(FILTER))})
        peer.h2.send_data(number, FILTER, end_stream=True)
        numbers.append(number)
        if len(numbers) % 10 == 0:  # as much as fits into the window
            peer.flush()
            peer.until(lambda: peer.h2.outbound_flow_control_window > 20 * len(FILTER))
    assert {peer.answer(number)[0] for number in numbers} == {200}
    assert len(asked) == 60
    assert max(answered) == 1


def test_few_frames_are_handled_in_a_turn(secure: Secure, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = connection(secure.server)
    given: list[int] = []
    receive = found._h2.receive_data
    monkeypatch.setattr(found._h2, "receive_data", lambda data: (given.append(len(data)), receive(data))[1])
    peer.socket.sendall(PingFrame(0, b"12345678").serialize() * 900)
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    assert max(given) <= 64 * 17 + len(FILTER) + 300


def test_not_more_than_some_pages_run_at_once_for_a_connection(secure: Secure, peer: Peer) -> None:
    found = connection(secure.server)
    begun = [peer.begin("/filter/", more={"content-length": "10"}) for _ in range(40)]
    peer.flush()
    until(lambda: len(found._streams) == 40)
    assert found._running == 16
    for number in begun:
        peer.h2.send_data(number, b"{}        ", end_stream=True)
    peer.flush()
    assert {peer.answer(number)[0] for number in begun} == {200}


# -- frames that nobody needs -------------------------------------------------------------------------------------

FLOODS: list[Frame] = [
    PingFrame(0, b"12345678"),
    SettingsFrame(0),
    DataFrame(3, b""),
    DataFrame(3, b" "),
    PriorityFrame(3, depends_on=0),
    WindowUpdateFrame(0, window_increment=1),
]


@pytest.mark.parametrize("frame", FLOODS, ids=lambda frame: f"{type(frame).__name__} {len(frame.serialize())}")
def test_frames_without_a_relation_to_what_is_asked_end_the_connection(
    secure: Secure, peer: Peer, frame: Frame
) -> None:
    peer.begin("/filter", more={"content-length": "1000000"})
    peer.flush()
    piece = frame.serialize() * 500
    try:
        for _ in range(20):
            peer.socket.sendall(piece)
    except OSError:
        pass  # it has ended, which is what is wanted
    ends(peer, ErrorCodes.ENHANCE_YOUR_CALM)
    assert secure.runtime.asked == []


def test_a_frame_beyond_the_limit_is_refused_at_its_header(secure: Secure, peer: Peer) -> None:
    peer.socket.sendall(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01")
    ends(peer, ErrorCodes.FRAME_SIZE_ERROR)


def test_a_header_block_beyond_the_limit_ends_the_connection(secure: Secure, peer: Peer) -> None:
    head = HeadersFrame(3, b"\x00" * 16_000)
    more = ContinuationFrame(3, b"\x00" * 16_000)
    peer.socket.sendall(head.serialize() + more.serialize() * 5)
    ends(peer, ErrorCodes.ENHANCE_YOUR_CALM)


def test_settings_that_nobody_knows_are_not_remembered(secure: Secure, peer: Peer) -> None:
    for start in range(100, 20_100, 100):
        payload = b"".join(code.to_bytes(2) + (1).to_bytes(4) for code in range(start, start + 100))
        peer.socket.sendall(len(payload).to_bytes(3) + bytes((SettingsFrame.type, 0, 0, 0, 0, 0)) + payload)
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    assert len(connection(secure.server)._h2.remote_settings) < 10


# -- memory -------------------------------------------------------------------------------------------------------


def budgets(secure: Secure):
    return secure.server._server.config.loaded_app.budgets


def test_of_unfinished_bodies_the_oldest_large_one_is_refused(
    secure: Secure, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets(secure).bodies, "limit", 700_000)
    older, newer = (peer.begin("/filter", more={"content-length": "900000"}) for _ in range(2))
    for number, size in ((older, 200_000), (newer, 600_000)):
        for _ in range(size // 10_000):
            peer.flush()
            peer.until(
                lambda number=number: number in peer.reset or peer.h2.local_flow_control_window(number) >= 10_000
            )
            if number not in peer.reset:
                peer.h2.send_data(number, bytes(10_000))
    peer.flush()
    peer.until(lambda: older in peer.reset)
    assert newer not in peer.reset
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200


def test_requests_that_have_only_begun_are_counted(secure: Secure, peer: Peer) -> None:
    begun = [peer.begin("/filter", more={"content-length": "10"}) for _ in range(50)]
    peer.flush()
    until(lambda: budgets(secure).bodies.used == 50 * 8 * 1024)
    for number in begun:
        peer.h2.reset_stream(number)
    peer.flush()
    until(lambda: budgets(secure).bodies.used == 0)


def test_of_a_peer_that_takes_no_answer_further_requests_wait(secure: Secure) -> None:
    secure.runtime.filter_answer = FilterAnswer(pass_through=True)
    with Peer(secure, window=0) as deaf:
        numbers = [deaf.ask("/filter", LARGE) for _ in range(40)]
        found = connection(secure.server)
        until(lambda: found._unsent > 1 << 20 and found._calls)
        time.sleep(0.05)
        assert len(secure.runtime.asked) * len(LARGE) < 2 * (1 << 20)
        assert budgets(secure).answers.used == found._unsent < 2 << 20
        assert budgets(secure).bodies.used >= len(found._calls) * len(LARGE)
        deaf.h2.update_settings({4: 1 << 20})
        deaf.flush()
        assert {deaf.answer(number)[0] for number in numbers} == {200}
    until(lambda: budgets(secure) and budgets(secure).answers.used == budgets(secure).bodies.used == 0)


@pytest.mark.parametrize("what", ["nothing", "begun", "page", "bind", "answer", "junk"])
def test_nothing_stays_of_a_connection(secure: Secure, what: str) -> None:
    secure.runtime.bind_future = Future()
    secure.runtime.filter_answer = FilterAnswer(pass_through=True)
    with nothing_stays(secure.server) as kept:
        with Peer(secure, window=0) as peer:
            kept.look("_h2", "_splitter")
            if what == "begun":
                peer.begin("/filter", more={"content-length": "10"})
            if what == "page":
                peer.begin("/filter/", more={"content-length": "10"})
            if what == "bind":
                peer.ask("/bind", BIND)
            if what == "answer":
                peer.ask("/filter", LARGE)
            peer.flush()
            if what == "junk":
                peer.socket.sendall(b"\xff" * 100)
            time.sleep(0.05)
        secure.runtime.bind_future.set_result(BindAnswer(1))
        secure.runtime.bind_future = None
        until(lambda: not connections(secure.server))
    assert budgets(secure).bodies.used == budgets(secure).answers.used == 0


# -- deadlines ----------------------------------------------------------------------------------------------------


def test_a_body_has_thirty_seconds(secure: Secure, peer: Peer) -> None:
    slow = peer.begin("/filter", more={"content-length": "10"})
    peer.flush()
    found = connection(secure.server)
    until(lambda: found._incomplete)
    later(found, 29)
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200
    later(found, 31)
    peer.until(lambda: slow in peer.reset)
    assert peer.answer(peer.ask("/filter", FILTER))[0] == 200


def test_a_header_block_has_ten_seconds(secure: Secure, peer: Peer) -> None:
    peer.socket.sendall(HeadersFrame(3, b"\x00").serialize())
    found = connection(secure.server)
    until(lambda: found._splitter.in_head)
    later(found, 11)
    ends(peer, ErrorCodes.ENHANCE_YOUR_CALM)


def test_who_agrees_on_http_2_and_says_nothing_ends(secure: Secure) -> None:
    with secure.connect() as silent:
        later(connection(secure.server), 11)
        silent.settimeout(5)
        while silent.recv(65536):
            pass


def test_an_answer_of_which_nothing_is_taken_for_thirty_seconds_ends_the_connection(secure: Secure) -> None:
    secure.runtime.filter_answer = FilterAnswer(pass_through=True)
    with Peer(secure, window=0) as deaf:
        deaf.ask("/filter", FILTER)
        found = connection(secure.server)
        until(lambda: found._unsent)
        later(found, 29)
        assert connections(secure.server)
        later(found, 31)
        until(lambda: not connections(secure.server))
