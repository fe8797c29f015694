"""`waggle ui`: Waggle's pages on this machine, for the browser of the user who started it.

A server on the loopback interface passes requests on to the leader (reach.py), with the certificate that
a browser would otherwise need. Anybody with an account on this machine can connect to it. Therefore:

    the printed address has a key, which is exchanged for a cookie; every other request needs the cookie
    the browser is started with a key of its own that works once, because all users can see its arguments
    Host has to be this server's: no other site can have its name resolved to here and read the pages
    GET and HEAD only, and POST for plans, from this server's own page; Waggle would refuse verbs, too
    connections have a number that they do not exceed; further ones are closed
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from extender.operate.reach import Connection, ReachError

_LOOPBACK: Final = "127.0.0.1"
#: What a browser may say to Waggle, and what Waggle may say to the browser.
_TO_WAGGLE: Final = ("Accept", "Accept-Encoding", "Accept-Language", "If-None-Match")
_TO_BROWSER: Final = (
    "Content-Type",
    "Content-Encoding",
    "Content-Security-Policy",
    "Cache-Control",
    "ETag",
    "Referrer-Policy",
    "Vary",
    "X-Content-Type-Options",
)
_PIECE: Final = 64 << 10
_IDLE_SECONDS: Final = 60
#: The page that is asked with POST, and bytes of its body.
_PLAN: Final = "/v1/plan"
_LARGEST_PLAN: Final = 8 << 20
#: Connections at once, each with a thread: anybody on this machine can open them. A browser has six.
_MOST_CONNECTIONS: Final = 100


class LocalPages(ThreadingHTTPServer):
    """Serves the pages of `connection` on 127.0.0.1. `port` 0 is any free one. Raises OSError if it is taken."""

    daemon_threads = True
    #: Connections that wait to be accepted. With the five of the library, some of a browser's wait for a second.
    request_queue_size = 128

    def __init__(self, connection: Connection, port: int = 0) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        self.connection = connection
        self._secret = secrets.token_urlsafe(32)
        self._key, self._key_once = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._lock = Lock()
        self._room = BoundedSemaphore(_MOST_CONNECTIONS)
        self.cookie = f"waggle-{self.server_port}"

    @property
    def url(self) -> str:
        """An address that lets a browser in, as long as this server runs. It is for the user's eyes only."""
        return self._address(self._key)

    @property
    def url_once(self) -> str:
        """An address that lets one browser in, once."""
        return self._address(self._key_once)

    def _address(self, key: str) -> str:
        return f"http://{_LOOPBACK}:{self.server_port}/?key={key}"

    def exchange(self, key: str) -> str:
        """The cookie's value for a key; "" for a wrong one, or one that is used up."""
        with self._lock:
            once = bool(self._key_once) and _same(key, self._key_once)
            if once:
                self._key_once = ""
        return self._secret if once or _same(key, self._key) else ""

    def knows(self, cookie: str) -> bool:
        return _same(cookie, self._secret)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there is room for it."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: LocalPages
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        if not self._is_ours():
            self._say(421, "this server is for the browser of the user who started `waggle ui`")
        elif (given := parse_qs(urlsplit(self.path).query).get("key")) and urlsplit(self.path).path == "/":
            self._let_in(given[0])
        elif not self._is_known():
            self._say(403, "open the address that `waggle ui` printed")
        else:
            self._hand_on()

    def do_POST(self) -> None:
        """A plan: it changes nothing, but what was typed is too long for an address."""
        length = self.headers.get("Content-Length", "")
        self.close_connection = True  # a body that is not read would be taken for a request
        if self.path != _PLAN:
            self._say(501, f"the only POST is that of {_PLAN}")
        elif not self._is_ours() or self.headers.get("Origin") != f"http://{self.headers['Host']}":
            self._say(421, "this server is for the browser of the user who started `waggle ui`")
        elif not self._is_known():
            self._say(403, "open the address that `waggle ui` printed")
        elif not length.isdecimal() or int(length) > _LARGEST_PLAN:
            self._say(413, f"expected a body of at most {_LARGEST_PLAN >> 20} MiB, with its length")
        else:
            self._hand_on(self.rfile.read(int(length)))

    do_HEAD = do_GET  # noqa: N815 - as the library calls it

    def _is_ours(self) -> bool:
        names = {f"{name}:{self.server.server_port}" for name in (_LOOPBACK, "localhost")}
        return self.headers.get_all("Host") in [[name] for name in names]

    def _is_known(self) -> bool:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return False
        return found is not None and self.server.knows(found.value)

    def _let_in(self, key: str) -> None:
        value = self.server.exchange(key)
        if not value:
            self._say(403, "this address is used up, or of an earlier `waggle ui`; open the one that was printed last")
            return
        self.send_response(303)
        self.send_header("Location", "/ui")
        # Not sent along by pages of other sites, and not to be read by any script.
        self.send_header("Set-Cookie", f"{self.server.cookie}={value}; HttpOnly; SameSite=Strict; Path=/")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _hand_on(self, body: bytes | None = None) -> None:
        headers = {name: value for name in _TO_WAGGLE if (value := self.headers.get(name))}
        connection = self.server.connection
        try:
            answer = connection.get(self.path, headers) if body is None else connection.post(self.path, body, headers)
        except ReachError as error:
            self._say(502, str(error))
            return
        try:
            length = answer.headers.get("Content-Length")
            self.send_response(answer.status)
            for name in _TO_BROWSER:
                if (value := answer.headers.get(name)) is not None:
                    self.send_header(name, value)
            self.send_header(*(("Content-Length", length) if length is not None else ("Connection", "close")))
            self.end_headers()
            if self.command != "HEAD":
                for piece in answer.stream(_PIECE, decode_content=False):
                    self.wfile.write(piece)
        finally:
            answer.release_conn()

    def _say(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "waggle"

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - as the library calls it
        """Nobody reads a log of who looked at which page on his own machine."""


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


def serve_ui(connection: Connection, port: int, opened: Callable[[LocalPages], None]) -> None:
    """Serve until KeyboardInterrupt. `opened` is called once pages can be asked for. Raises OSError."""
    with LocalPages(connection, port) as pages:
        opened(pages)
        pages.serve_forever(poll_interval=0.2)
