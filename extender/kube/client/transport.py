"""Opens sockets to the API server: TLS, proxy, keep-alive, authorization.

The module uses plain sockets, and not urllib3: a request costs a fraction of the CPU, and that CPU delays the next
filter (tests/bench/bench_transport.py). It also separates "nothing happened" from "it may have happened" exactly: if
anything fails before `open` returns, nothing was sent.

Everything has a deadline, and not a time-out for each read: a server that sends a byte a second is as slow as one that
sends nothing. Deadlines are in seconds of `time.monotonic`.

Certificate files are checked for every new connection, so renewed ones come into use without a restart.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from extender.kube.client.answer import Answer, AnswerError

#: What a socket raises that would have to wait.
NOT_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
#: Bytes of one read.
PIECE = 64 * 1024
#: Seconds for connecting. Shorter than any request's time-out: an unreachable server is soon known.
CONNECT_TIMEOUT = 5.0

#: A dead peer is noticed within a minute, even without a FIN or RST (Linux names; other systems keep their defaults).
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))


class Tls:
    """How to speak TLS with the API server. Files are paths; `verify=False` trusts any server."""

    def __init__(
        self,
        *,
        ca_file: str | None = None,
        ca_data: str | bytes | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        verify: bool = True,
        server_name: str | None = None,
    ) -> None:
        self.server_name = server_name
        self._ca_file = ca_file
        self._ca_data = ca_data
        self._cert_file = cert_file
        self._key_file = key_file
        self._verify = verify
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._context: ssl.SSLContext | None = None

    @property
    def client_certificate(self) -> Path | None:
        return Path(self._cert_file) if self._cert_file else None

    def context(self) -> ssl.SSLContext:
        """The TLS context, made anew when a file has changed. Raises OSError (ssl.SSLError is one) on bad files."""
        with self._lock:
            files = [self._ca_file, self._cert_file, self._key_file]
            stamp = tuple(Path(file).stat().st_mtime_ns for file in files if file)
            if self._context is None or stamp != self._stamp:
                self._context = self._make()
                self._stamp = stamp
            return self._context

    def _make(self) -> ssl.SSLContext:
        # Not create_default_context: from Python 3.13 on it refuses the CA certificates of many clusters
        # (VERIFY_X509_STRICT asks for extensions that older kubeadm did not write).
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self._ca_file or self._ca_data:
            context.load_verify_locations(cafile=self._ca_file, cadata=self._ca_data)
        else:
            context.load_default_certs()
        if self._cert_file:
            context.load_cert_chain(self._cert_file, self._key_file)
        return context


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy in front of the API server."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict)


def no_authorization() -> str | None:
    """Anonymous: no Authorization header."""
    return None


def _no() -> bool:
    """Credentials are not at hand."""
    return False


def _ignore() -> None:
    """Do nothing about refused credentials."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server: its address, and the authorization of requests to it.

    `authorization` returns the header's value for each single request, since tokens rotate; it may raise anything, and
    may block unless `at_hand` is true. `refused` is called for every 401, so that credentials can be read anew.
    """

    host: str
    port: int
    prefix: str = ""
    tls: Tls | None = None
    proxy: Proxy | None = None
    authorization: Callable[[], str | None] = no_authorization
    at_hand: Callable[[], bool] = _no
    refused: Callable[[], None] = _ignore

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def target(self, path: str) -> str:
        """The target in the request line for `path`: a proxy of plain HTTP wants the whole URL."""
        return self.url + path if self.proxy and not self.tls else self.prefix + path

    def open(self, timeout: float) -> Connection:
        """Open a connection, handshake included. Raises OSError (also for a proxy that refuses) or ValueError."""
        return Connection(self, time.monotonic() + min(timeout, CONNECT_TIMEOUT))


class Connection:
    """One connection to the API server, open from construction. `shut` may be called from any thread, everything else
    only by its user."""

    def __init__(self, endpoint: Endpoint, deadline: float) -> None:
        peer = endpoint.proxy or endpoint
        self._socket = _connected(peer.host, peer.port, deadline)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(self._socket)
            if endpoint.proxy and endpoint.tls:
                self._tunnel(endpoint, endpoint.proxy, deadline)
            if tls := endpoint.tls:
                self._socket.settimeout(_left(deadline))
                # One call with a deadline; the socket's own handshake on connect has a time-out for each read.
                wrapped = tls.context().wrap_socket(
                    self._socket, server_hostname=tls.server_name or endpoint.host, do_handshake_on_connect=False
                )
                self._socket = wrapped
                wrapped.do_handshake()
        except BaseException:
            self.close()
            raise

    def _tunnel(self, endpoint: Endpoint, proxy: Proxy, deadline: float) -> None:
        """Have the proxy connect us. Raises OSError."""
        lines = [f"CONNECT {endpoint.authority} HTTP/1.1", f"Host: {endpoint.authority}"]
        lines += [f"{name}: {value}" for name, value in proxy.headers.items()]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n", deadline)
        answer = Answer()
        try:
            while not answer.status:
                answer.feed(self._received_head(deadline))
        except AnswerError as error:
            raise ConnectionError(f"proxy: {error}") from error
        finally:
            answer.close()
        if not 200 <= answer.status < 300:
            raise ConnectionError(f"proxy: {answer.status} to CONNECT")

    def _received_head(self, deadline: float) -> bytes:
        """Read the next byte of a head. What follows the head is not ours to read yet."""
        piece = self.receive(deadline, 1)
        if not piece:
            raise ConnectionError("proxy: connection closed")
        return piece

    def send(self, data: bytes, deadline: float) -> None:
        """Send data. Raises OSError; TimeoutError if the peer has not taken all of it by the deadline."""
        unsent = memoryview(data)
        while unsent:
            self._socket.settimeout(_left(deadline))
            unsent = unsent[self._socket.send(unsent) :]

    def receive(self, deadline: float, most: int = PIECE) -> bytes:
        """Read what has arrived, up to a limit; b"" if the peer has closed. Raises OSError, TimeoutError included."""
        while True:
            self._wait_at_most(_left(deadline))
            try:
                return self._socket.recv(most)
            except TimeoutError as error:
                if error.errno is not None:  # the kernel's: the peer does not acknowledge
                    raise

    def arrived(self) -> bytes | None:
        """What has arrived, without waiting for more: b"" if the peer has closed, None if it is nothing. Raises
        OSError."""
        try:
            return self.unblocked().recv(PIECE)
        except NOT_YET:
            return None

    @property
    def has_more(self) -> bool:
        """Whether there is data that the socket does not show: TLS decrypts more than was asked for."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def _wait_at_most(self, seconds: float) -> None:
        """Have the socket wait for so long, or for less. A watch moves its deadline with every event, and each change
        of a socket's time-out is a system call, during which another thread takes the interpreter away."""
        given = self._socket.gettimeout() or 0.0
        if given > seconds or given < seconds / 2:
            self._socket.settimeout(seconds if seconds < 1 else seconds * 0.9)

    def close(self) -> None:
        self._socket.close()

    def unblocked(self) -> socket.socket:
        """The socket in non-blocking mode; `send` and `receive` make it block again."""
        if self._socket.gettimeout() != 0.0:
            self._socket.setblocking(False)
        return self._socket

    def shut(self) -> None:
        """Shut the connection down, so that a thread that waits for the peer returns at once."""
        with suppress(OSError):  # already gone
            # The plain socket's method: SSLSocket's own would change the state that the other thread is using.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def abort(self) -> None:
        """Close, and discard what the kernel has not sent yet: it must not arrive later, when a network heals."""
        with suppress(OSError):  # already gone
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    @property
    def stale(self) -> bool:
        """Whether data arrived without a request: the peer has closed, or is out of step. Not to be reused."""
        if self._socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))


def _left(deadline: float) -> float:
    """Seconds until the deadline. Raises TimeoutError if there are none left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _connected(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address of the host that answers. Raises OSError."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(deadline))
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = failure or error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError(f"{host} has no address")


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
