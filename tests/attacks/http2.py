"""HTTP/2: what one client can do with frames, over mutual TLS."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated

from extender.web.http.connections import raise_descriptor_limit
from tests.attacks.arena import Arena, is_closed
from tests.attacks.registry import attack
from tests.attacks.servers import KUBE_SCHEDULER

_SECONDS = 1.5
_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
_UNKNOWN = 0x77


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


class Http2Client:
    """A connection with its beginning behind it, and the bytes of further requests."""

    def __init__(self, arena: Arena, client: str = KUBE_SCHEDULER) -> None:
        self.socket = arena.connect(alpn=("h2",), client=client)
        self.h2 = H2Connection()
        self.h2.initiate_connection()
        self.socket.sendall(self.h2.data_to_send())
        self.error: int | None = None

    def __enter__(self) -> Http2Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def head(self, path: str, length: int, *, end: bool = False) -> int:
        """Begins a POST, of which the bytes wait in `h2`."""
        number = self.h2.get_next_available_stream_id()
        names = {":method": "POST", ":path": path, ":scheme": "https", ":authority": "127.0.0.1"}
        self.h2.send_headers(number, [*names.items(), ("content-length", str(length))], end_stream=end)
        return number

    def hear(self) -> None:
        """Takes what has come, without waiting."""
        self.socket.setblocking(False)
        with suppress(ssl.SSLWantReadError, BlockingIOError):
            while data := self.socket.recv(1 << 16):
                for event in self.h2.receive_data(data):
                    if isinstance(event, ConnectionTerminated):
                        self.error = event.error_code
        self.socket.settimeout(0.25)


def flood(arena: Arena, piece: bytes, *, on_stream: bool = False, seconds: float = 1.5) -> str:
    """Sends the piece again and again for that many seconds; returns how it ended."""
    sent, began = 0, time.monotonic()
    connections = 0
    errors: set[int] = set()
    while time.monotonic() - began < seconds:
        connections += 1
        with Http2Client(arena) as client, suppress(OSError):
            if on_stream:
                client.head("/filter", 100)
                client.socket.sendall(client.h2.data_to_send())
            client.socket.settimeout(0.25)
            while time.monotonic() - began < seconds:
                sent += client.socket.send(piece)
                client.hear()
                if client.error is not None:
                    errors.add(client.error)
                    break
    named = ", ".join(ErrorCodes(error).name for error in sorted(errors)) or "reset"
    assert connections > 1, "the flood ended no connection"
    return f"{connections} connections ended ({named}) after {sent / (1 << 20):.1f} MiB in all"


def _repeated(piece: bytes) -> bytes:
    return piece * (16_384 // len(piece))


@attack("HTTP/2: PING in a flood", limit="64 frames a turn, then ENHANCE_YOUR_CALM", scheme="https", quick=True)
def pings(arena: Arena) -> str:
    return flood(arena, _repeated(frame(_PING, bytes(8))))


@attack("HTTP/2: SETTINGS in a flood", limit="8 frames a turn, then ENHANCE_YOUR_CALM", scheme="https")
def settings(arena: Arena) -> str:
    return flood(arena, _repeated(frame(_SETTINGS)))


@attack("HTTP/2: empty DATA in a flood", limit="64 frames a turn, then ENHANCE_YOUR_CALM", scheme="https")
def empty_data(arena: Arena) -> str:
    return flood(arena, _repeated(frame(_DATA, stream=1)), on_stream=True)


@attack(
    "HTTP/2: unknown frames, PRIORITY and WINDOW_UPDATE in floods",
    limit="64 frames a turn, then ENHANCE_YOUR_CALM",
    scheme="https",
)
def other_frames(arena: Arena) -> str:
    pieces = frame(_UNKNOWN), frame(_PRIORITY, bytes(5), stream=1), frame(_WINDOW_UPDATE, (1).to_bytes(4))
    return "; ".join(flood(arena, _repeated(piece), on_stream=True, seconds=1.0) for piece in pieces)


@attack("HTTP/2: requests that are taken back at once", limit="1,000, then ENHANCE_YOUR_CALM", scheme="https")
def rapid_reset(arena: Arena) -> str:
    began, ended, sent = time.monotonic(), 0, 0
    while time.monotonic() - began < _SECONDS:
        with Http2Client(arena) as client, suppress(OSError):
            client.socket.settimeout(0.25)
            while client.error is None and time.monotonic() - began < _SECONDS:
                for _ in range(100):
                    number = client.head("/filter", 100)
                    client.h2.reset_stream(number)
                    sent += 1
                client.socket.sendall(client.h2.data_to_send())
                client.hear()
        ended += 1
    assert ended > 1
    return f"{ended} connections ended after {sent} requests"


@attack("HTTP/2: a header block that does not end", limit="64 KiB of header block", scheme="https")
def continuations(arena: Arena) -> str:
    with Http2Client(arena) as client, suppress(OSError):
        client.socket.settimeout(0.2)
        client.socket.sendall(frame(_HEADERS, b"\x00", stream=1))
        for _ in range(1000):
            client.socket.sendall(frame(_CONTINUATION, bytes(16_000), stream=1))
        assert is_closed(client.socket, within=4), "a header block of 16 MB was taken"
    return "the connection ended"


@attack("HTTP/2: frames said to have 16 MB, 20 connections", limit="refused at the header", scheme="https")
def long_frames(arena: Arena) -> str:
    clients = [Http2Client(arena) for _ in range(20)]
    refused = 0
    for client in clients:
        with suppress(OSError):
            client.socket.settimeout(0.2)
            client.socket.sendall(b"\xff\xff\xff\x00\x00" + (1).to_bytes(4))
            for _ in range(16):
                client.socket.sendall(bytes(1 << 20))
    for client in clients:
        refused += is_closed(client.socket, within=2)
        client.socket.close()
    assert refused == len(clients)
    return f"all {refused} connections ended at once"


@attack("HTTP/2: 100 requests begun on each of 20 connections", limit="8 KiB each in the budget; 30 s", scheme="https")
def begun_requests(arena: Arena) -> str:
    clients = [Http2Client(arena) for _ in range(20)]
    try:
        for client in clients:
            for _ in range(100):  # h2's own limit until it has heard ours
                client.head("/filter", 10_000)
            client.socket.sendall(client.h2.data_to_send())
        time.sleep(2)
    finally:
        for client in clients:
            client.socket.close()
    return "they wait, and hold some MiB"


def burst(client: Http2Client, body: bytes, number: int) -> Iterator[bytes]:
    for _ in range(number):
        stream = client.head("/filter", len(body))
        client.h2.send_data(stream, body, end_stream=True)
        yield client.h2.data_to_send()


@attack("HTTP/2: bursts of small verbs", limit="8 requests read, 1 answered a turn", scheme="https")
def bursts(arena: Arena) -> str:
    began, asked = time.monotonic(), 0
    with suppress(OSError):
        while time.monotonic() - began < _SECONDS:
            with Http2Client(arena) as client:
                client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.socket.settimeout(1)
                while time.monotonic() - began < _SECONDS:
                    number = 90 - client.h2.open_outbound_streams
                    client.socket.sendall(b"".join(burst(client, b"{}", number)))
                    asked += number
                    select.select([client.socket], [], [], 0.5)
                    client.hear()
    return f"{asked} requests taken in {_SECONDS:g} s"


@attack(
    "HTTP/2: 8 KB of small requests on each of 250 connections, all at the same moment",
    limit="1 ms of an iteration of the loop; verbs first",
    scheme="https",
)
def same_moment(arena: Arena) -> str:
    raise_descriptor_limit()
    get = frame(_HEADERS, bytes((0x82, 0x87, 0x84, 0x41, 1, ord("a"))), flags=5, stream=0)
    clients = [Http2Client(arena) for _ in range(250)]
    bursts = 0
    began = time.monotonic()
    try:
        while time.monotonic() - began < _SECONDS:
            first = 1 + 180 * bursts
            burst = b"".join(get[:5] + (first + 2 * number).to_bytes(4) + get[9:] for number in range(90))
            for client in clients:
                with suppress(OSError):
                    client.socket.settimeout(1)
                    client.socket.sendall(burst)
            bursts += 1
            time.sleep(0.5)
            for client in clients:
                client.socket.setblocking(False)
                with suppress(OSError):
                    while client.socket.recv(1 << 16):
                        pass
    finally:
        for client in clients:
            client.socket.close()
    return f"{bursts} bursts of {250 * 90} requests"
