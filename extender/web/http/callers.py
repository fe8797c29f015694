"""What a listener knows of a connection before HTTP begins: TLS records, the peer, the protocol that stands in."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from extender.web.http.connections import Served

#: Bytes of a TLS record, with its header of five.
LARGEST_RECORD: Final = 5 + (1 << 14) + 256
_HANDSHAKE: Final = 22


def bytes_until_whole(seen: bytes) -> int:
    """How many bytes of the TLS record are missing, given its beginning; 0 also for other data, which OpenSSL
    refuses."""
    if not seen or seen[0] != _HANDSHAKE:
        return 0
    if len(seen) < 5:
        return 5 - len(seen)
    whole = 5 + int.from_bytes(seen[3:5])
    return max(0, whole - len(seen)) if whole <= LARGEST_RECORD else 0


class Caller(NamedTuple):
    """The peer of a connection, as the socket and TLS know it."""

    address: str
    #: Whether HTTP/2 was agreed on.
    http2: bool = False
    #: The peer's certificate, as `ssl.SSLSocket.getpeercert` returns it; empty without one.
    certificate: Mapping[str, Any] = MappingProxyType({})


class ServedProtocol(Served, Protocol):
    """An HTTP connection, which is also a protocol of the event loop."""

    def connection_made(self, transport: asyncio.Transport) -> None: ...


class Tls(Protocol):
    """The source of TLS contexts, which is also told of failed handshakes: certificates.py."""

    @property
    def current(self) -> ssl.SSLContext: ...

    def refused(self, reason: str, why: str, address: str) -> None: ...

    def withdrawn(self, certificates: Iterable[bytes]) -> set[bytes]: ...


#: Makes the protocol of a connection; the function that it is given is called when the connection is lost.
Serve = Callable[[Caller, Callable[[], None]], ServedProtocol]


def peer_name(transport: asyncio.Transport) -> str:
    """The peer's IP address; empty if it has gone."""
    return str((transport.get_extra_info("peername") or ("",))[0])


def acknowledge(accepted: socket.socket) -> None:
    """Acknowledge the last message of a handshake at once. It has no answer, and some clients wait 40 ms for the
    acknowledgement."""
    if sys.platform == "linux":
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class Unserved(asyncio.Protocol):
    """Stands in for the protocol that the handshake has yet to agree on."""

    def __init__(self, made: Callable[[asyncio.Transport], None]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        with suppress(ConnectionError):
            self._made(transport)  # type: ignore[arg-type]
