"""The way in, on real sockets: silent connections, floods, no descriptors left, clients that are no longer trusted."""

from __future__ import annotations

import os
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from extender.operate.certs import Authority
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http import listener
from extender.web.http.callers import bytes_until_whole
from extender.web.http.certificates import Certificates
from extender.web.http.server import ServerHandle, serve_in_thread
from tests.support.apiserver.api import eventually
from tests.support.http.certificates import Files, https, replace
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture, exchange

FILTER = capture("filter-mtls")


class Place:
    """A server with mutual TLS and a health port, and its client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.new()
        self.files = Files(folder / "server").write(self.authority.server(["127.0.0.1"]), self.authority)
        self.client = Files(folder / "client").write(self.authority.client("kube-scheduler"), self.authority)
        #: Of the server, whatever happens to the files.
        self.trusted = folder / "trusted.crt"
        self.trusted.write_bytes(self.authority.pair.certificate)
        self.certificates = Certificates(self.files.tls())

    @contextmanager
    def serving(self, *, verb_clients: tuple[str, ...] = (), **fields: object) -> Iterator[ServerHandle]:
        tls = self.files.tls().model_copy(update={"verb_clients": verb_clients})
        self.certificates = Certificates(tls)
        server = ServerSettings(port=0, health_port=0, tls=tls, **fields)
        app = create_app(FixedRuntime(), Settings(server=server), certificates=self.certificates)
        with serve_in_thread(app, Settings(server=server), certificates=self.certificates) as handle:
            yield handle

    def connect(self, server: ServerHandle, client: Files | None = None) -> closing:
        return closing(https(server.url, self.trusted, client or self.client))

    def refusals(self, reason: str) -> float:
        (found,) = [each for each in self.certificates.metrics() if each.name == "waggle_tls_handshakes_refused_total"]
        return sum(value for labels, value in found.samples if labels == {"reason": reason})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def tcp(url: str) -> socket.socket:
    client = Client(url)
    return socket.create_connection((client.host, client.port), timeout=20)


def is_ended(wire: socket.socket | None) -> bool:
    """Whether the server ends it, in whatever way."""
    assert wire is not None
    try:
        return wire.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def connections(server: ServerHandle, **labels: str) -> float:
    [now, _] = server.metrics()
    return sum(value for found, value in now.samples if labels.items() <= found.items())


# -- handshakes -------------------------------------------------------------------------------------------------------


def nothing() -> bytes:
    return b""


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def half_a_hello() -> bytes:
    return client_hello()[:50]


@pytest.mark.parametrize("sent", [nothing, half_a_hello])
def test_a_handshake_that_does_not_end_is_ended_and_that_is_said_with_the_address(
    place: Place, sent: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listener, "BEGIN_SECONDS", 0.2)
    monkeypatch.setattr(listener, "_SWEEP_SECONDS", 0.05)
    with place.serving() as server, capture_logs() as logs, tcp(server.url) as silent:
        silent.sendall(sent())
        assert is_ended(silent)
        eventually(lambda: place.refusals("timeout") == 1)
        eventually(lambda: connections(server) == 0)
    assert [(line["address"], "within 0.2 s" in line["why"]) for line in logs] == [("127.0.0.1", True)]


def test_a_connection_that_ends_without_a_word_is_forgotten(place: Place):
    with place.serving() as server:
        tcp(server.url).close()
        with place.connect(server) as client:
            assert exchange(client, "POST", "/filter", FILTER).status == 200
        eventually(lambda: connections(server) == 0)


def test_a_refused_client_is_said_with_its_address(place: Place):
    other = Authority.new()
    stranger = Files(place.folder / "stranger").write(other.client("kube-scheduler"), other)
    with place.serving() as server, capture_logs() as logs:
        for _ in range(2):
            with place.connect(server, stranger) as client, pytest.raises(OSError):
                exchange(client, "GET", "/livez")
        eventually(lambda: place.refusals("certificate_verify_failed") == 2)
    assert [line["address"] for line in logs] == ["127.0.0.1"]


def test_silent_connections_have_no_tls_object_and_keep_nobody_out(place: Place, monkeypatch: pytest.MonkeyPatch):
    wrapped: list[object] = []
    wrap = ssl.SSLContext.wrap_bio
    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", lambda *a, **n: wrapped.append(a) or wrap(*a, **n))
    with place.serving() as server, ExitStack() as silent:
        for _ in range(300):
            silent.enter_context(tcp(server.url))
        eventually(lambda: connections(server, state="beginning") == 256)
        assert wrapped == []
        with place.connect(server) as client:
            assert exchange(client, "POST", "/filter", FILTER).status == 200
        assert len(wrapped) == 1
    eventually(lambda: connections(server) == 0)


def test_a_standing_client_outlives_a_flood_of_connections(place: Place):
    with place.serving(max_connections=16) as server, place.connect(server) as standing, ExitStack() as flood:
        assert exchange(standing, "POST", "/filter", FILTER).status == 200
        wire = standing.sock
        for _ in range(40):
            flood.enter_context(tcp(server.url))
        with place.connect(server) as newcomer:
            assert exchange(newcomer, "POST", "/filter", FILTER).status == 200
        assert exchange(standing, "POST", "/filter", FILTER).status == 200
        assert standing.sock is wire


def test_the_bytes_that_a_first_record_lacks():
    hello = client_hello()
    assert [bytes_until_whole(hello[:size]) for size in (1, 4, 5)] == [4, 1, len(hello) - 5]
    assert bytes_until_whole(hello) == bytes_until_whole(hello + b"more") == 0
    assert bytes_until_whole(b"GET / HTTP/1.1") == bytes_until_whole(b"\x16\x03\x01\xff\xff") == 0


def test_half_a_first_record_has_no_tls_object_and_is_served_once_it_is_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    wrapped: list[object] = []
    wrap = ssl.SSLContext.wrap_bio
    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", lambda *a, **n: wrapped.append(a) or wrap(*a, **n))
    hello = client_hello()
    wrapped.clear()
    with place.serving() as server, tcp(server.url) as slow:
        for piece in (hello[:1], hello[1:4], hello[4:100], hello[100:-1]):
            slow.sendall(piece)
            eventually(lambda: connections(server, state="beginning") == 1)
            assert wrapped == []
        slow.sendall(hello[-1:])
        assert slow.recv(1) == b"\x16"
        assert len(wrapped) == 1


@pytest.mark.parametrize("size", [3, 50])
def test_a_client_that_ends_in_the_middle_of_its_first_record_is_forgotten(place: Place, size: int):
    with place.serving() as server, tcp(server.url) as client:
        client.sendall(client_hello()[:size])
        eventually(lambda: connections(server) == 1)
        client.shutdown(socket.SHUT_WR)
        assert is_ended(client)
        eventually(lambda: connections(server) == 0)


def test_an_allowed_client_outlives_a_flood_of_others_at_its_own_address(place: Place):
    other = Files(place.folder / "other").write(place.authority.client("system:node:a"), place.authority)
    with place.serving(max_connections=16, verb_clients=("kube-scheduler",)) as server, ExitStack() as flood:
        standing, unused = (flood.enter_context(place.connect(server)) for _ in range(2))
        assert exchange(standing, "POST", "/filter", FILTER).status == 200
        unused.connect()
        eventually(lambda: connections(server, state="open") == 2)
        for _ in range(30):
            attacker = flood.enter_context(place.connect(server, other))
            assert exchange(attacker, "POST", "/filter", FILTER).status == 403  # it has completed a request
        for client in (standing, unused):
            wire = client.sock
            assert exchange(client, "POST", "/filter", FILTER).status == 200
            assert client.sock is wire


# -- room and descriptors ---------------------------------------------------------------------------------------------


def test_idle_connections_to_the_health_port_refuse_no_probe_and_no_client(place: Place):
    with place.serving() as server, ExitStack() as flood:
        for _ in range(250):
            flood.enter_context(tcp(server.health_url))
        assert Client(server.health_url).get("/livez").status == 200
        assert connections(server, port="health") <= 200
        with place.connect(server) as client:
            assert exchange(client, "POST", "/filter", FILTER).status == 200


def test_a_lack_of_descriptors_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("extender.web.http.connections._GRACE_SECONDS", 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with place.serving() as server, tcp(server.health_url) as idle:
        eventually(lambda: connections(server, port="health") == 1)
        waiting = socket.socket()
        waiting.settimeout(20)
        spare = os.dup(0)  # the lowest number from here on, so that no descriptor below is free
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
            with capture_logs() as logs:
                waiting.connect(("127.0.0.1", Client(server.health_url).port))
                eventually(lambda: any(line["event"] == "connections cannot be accepted" for line in logs))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(spare)
        with closing(waiting):
            waiting.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            assert waiting.recv(15) == b"HTTP/1.1 200 OK"
        assert is_ended(idle)  # it was of no use, and made room


# -- other certificates -----------------------------------------------------------------------------------------------


def withdraw(place: Place) -> Files:
    """Trust another authority; returns the files of a client of it."""
    new = Authority.new()
    replace(place.files.ca, new.pair.certificate)
    return Files(place.folder / "new").write(new.client("kube-scheduler"), new)


def test_a_client_whose_authority_was_withdrawn_is_out_whatever_it_does(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "WITHDRAWN_SECONDS", 0.3)
    with place.serving() as server, place.connect(server) as idle, capture_logs() as logs:
        assert exchange(idle, "POST", "/filter", FILTER).status == 200
        new = withdraw(place)
        assert is_ended(idle.sock)
        with place.connect(server, new) as client:
            assert exchange(client, "POST", "/filter", FILTER).status == 200
    assert any("not trusted any more" in line["event"] and line["addresses"] == ["127.0.0.1"] for line in logs)


@pytest.mark.parametrize("how", ["another certificate", "a further authority"])
def test_a_client_that_is_still_trusted_keeps_its_idle_connection(
    place: Place, how: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listener, "WITHDRAWN_SECONDS", 0.05)
    with place.serving() as server, place.connect(server) as idle:
        assert exchange(idle, "POST", "/filter", FILTER).status == 200
        if how == "another certificate":
            place.files.write(place.authority.server(["127.0.0.1"]), place.authority)
        else:
            replace(place.files.ca, place.authority.pair.certificate + Authority.new().pair.certificate)
        eventually(lambda: place.certificates.metrics()[1].samples[0][1] == 1.0)
        assert idle.sock is not None
        idle.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            idle.sock.recv(1)


def test_of_two_authorities_only_the_clients_of_the_withdrawn_one_are_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listener, "WITHDRAWN_SECONDS", 0.2)
    new = Authority.new()
    kept = Files(place.folder / "kept").write(new.client("kube-scheduler"), new)
    replace(place.files.ca, place.authority.pair.certificate + new.pair.certificate)
    with place.serving() as server, place.connect(server) as old, place.connect(server, kept) as stays:
        for client in (old, stays):
            assert exchange(client, "POST", "/filter", FILTER).status == 200
        replace(place.files.ca, new.pair.certificate)
        assert is_ended(old.sock)
        answer = exchange(stays, "POST", "/filter", FILTER)
        assert (answer.status, answer.headers.get("connection")) == (200, "close")
