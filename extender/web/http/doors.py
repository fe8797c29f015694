"""Access control of verbs and pages: refuses browsers that do not belong here, and clients whose names are not listed.

    a verb:   has it an Origin? --yes--> 403        is its client one of verb_clients? --no--> 403
    a page:   is Host one of ours? --no--> 421      sent by another site's page? --> 403      page_clients? --no--> 403
    a probe, /metrics: never refused here
    then: a few pages and probes begin in each turn of the event loop, or are answered

Any web page can make a browser send a POST with text, without asking. The browser always adds an Origin, and
kube-scheduler never does. A page whose own name now resolves to this server (DNS rebinding) may read the answer to a
GET; Host is then that name. The fast paths of protocol.py and http2.py leave requests with an Origin to this module.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.server.views import Metric
from extender.settings import ServerSettings
from extender.web.errors import error_response
from extender.web.http.peers import Peer
from extender.web.limits.rounds import Rounds
from extender.web.pages.health import ProbesOnly

_log = structlog.get_logger(__name__)

#: Seconds between two log lines about the same refusal.
_LOG_SECONDS: Final = 600.0
#: Refused clients that are remembered as logged; the log as a whole has limits of its own.
_MOST_TOLD: Final = 256
#: Pages and probes that begin in one turn of the event loop, and answers that do.
_A_TURN: Final = 3
_REASONS: Final = ("host", "origin", "page_clients", "site", "verb_clients")
_PORT: Final = re.compile(r":\d*$")


class _Refusal(NamedTuple):
    status: int
    text: str
    field: str | None
    #: The reason as the metric names it.
    reason: str
    #: The client, origin or host at fault, for the log.
    who: str


class Hosts:
    """The names under which browsers may request pages. `certificate` returns the names in the presented
    certificate."""

    def __init__(self, settings: ServerSettings, certificate: Callable[[], Iterable[str]] = tuple) -> None:
        own = (settings.host, socket.gethostname(), *settings.allowed_hosts)
        self._own = frozenset(name.lower() for name in own)
        self._certificate = certificate

    def has(self, header: str) -> bool:
        """Whether `host`, apart from a port, is one of the names.

        An IP address always is: no other site can have it as its name. A single word and *.svc are names that only a
        cluster's or a network's own DNS can give.
        """
        name = _PORT.sub("", header.strip()).lower().removesuffix(".")
        if name.startswith("["):
            return name.endswith("]") and _is_address(name[1:-1])
        if "." not in name or name.endswith((".localhost", ".svc", ".svc.cluster.local")) or _is_address(name):
            return True
        wildcards = {f"*.{parent}" for parent in _parents(name)}
        if not self._own.isdisjoint({"*", name} | wildcards):
            return True
        certified = frozenset(self._certificate())
        return name in certified or f"*.{name.partition('.')[2]}" in certified


class Doors:
    """Middleware for access control. `verbs` are the paths of kube-scheduler's verbs."""

    def __init__(self, app: ASGIApp, *, verbs: Iterable[str], hosts: Hosts, refusals: Refusals) -> None:
        self._app = app
        self._verbs = frozenset(verbs)
        self._hosts = hosts
        self._refusals = refusals
        self._turnstile = Turnstile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request that is not allowed, or pass it on. Pages and probes take turns first."""
        if scope["type"] == "http" and scope["path"] not in self._verbs:
            who = (_address(scope), scope["path"] if scope["path"] in ProbesOnly.PATHS else "")
            await self._turnstile.enter(who)
            send = self._paced(send, who)
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        self._refusals.add(refusal.reason, refusal.who, _address(scope))
        await error_response(refusal.status, refusal.text, refusal.field)(scope, receive, send)

    def _paced(self, send: Send, who: Hashable) -> Send:
        """Make answers take turns, too: one computation may have answered hundreds of equal requests (pool.py)."""

        async def paced(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._turnstile.enter(who)
            await send(message)

        return paced

    def _refusal(self, scope: Scope) -> _Refusal | None:
        path = scope["path"]
        if path in ProbesOnly.PATHS:
            return None
        peer: Peer | None = scope.get("state", {}).get("peer")
        if path in self._verbs:
            return _origin(scope) or _client(peer, path, "verb_clients")
        return self._host(scope) or _other_site(scope) or _client(peer, path, "page_clients")

    def _host(self, scope: Scope) -> _Refusal | None:
        """Refuse an unknown Host. A missing Host is accepted: HTTP/1.0 has none, and browsers always send one."""
        for host in _values(scope, b"host"):
            if not self._hosts.has(host):
                text = f"Host: {host[:100]!r} is no name of this server; server.allowed_hosts adds names"
                return _Refusal(421, text, "Host", "host", host[:100])
        return None


class Turnstile:
    """Admits `a_turn` requests in a turn of the event loop; the others wait. Turns go round among the values of `who`.

    A page or a probe costs the loop some tenths of a millisecond, and so does its answer; each of a thousand
    connections may ask for one. Calls of verbs that arrive meanwhile have their share of each turn. `who` is an address
    and a probe's path: a kubelet's probe does not wait for a thousand pages of another client.
    """

    def __init__(self, a_turn: int = _A_TURN) -> None:
        self._a_turn = self._left = a_turn
        self._waiting: Rounds[Hashable, asyncio.Future[None]] = Rounds()
        self._turn: asyncio.Handle | None = None

    async def enter(self, who: Hashable = None) -> None:
        loop = asyncio.get_running_loop()
        if self._turn is None:
            self._turn = loop.call_soon(self._next_turn, loop)
        if self._left:
            self._left -= 1
            return
        passed = loop.create_future()
        self._waiting.add(who, passed)
        await passed

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._a_turn
        while self._waiting and self._left:
            passed = self._waiting.pop()
            if not passed.done():  # it may have been cancelled
                passed.set_result(None)
                self._left -= 1
        self._turn = loop.call_soon(self._next_turn, loop) if self._waiting or not self._left else None


class Refusals:
    """Counts refused requests, and logs each kind of each client once in a while."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        self._told: dict[tuple[str, str], float] = {}

    def add(self, reason: str, who: str, address: str) -> None:
        self._counts[reason] += 1
        now, told = time.monotonic(), self._told.get((reason, who), float("-inf"))
        if now - told >= _LOG_SECONDS:
            if len(self._told) >= _MOST_TOLD:
                del self._told[next(iter(self._told))]
            self._told[reason, who] = now
            _log.warning("a request was refused", reason=reason, who=who, address=address)

    def metrics(self) -> list[Metric]:
        samples = [({"reason": reason}, float(count)) for reason, count in sorted(self._counts.items())]
        what = "Requests that were refused because of who sent them, by what was wrong."
        return [Metric("waggle_requests_refused_total", "counter", what, samples)]


def _origin(scope: Scope) -> _Refusal | None:
    for origin in _values(scope, b"origin"):
        text = f"verbs are not for browsers, and this request has an Origin: {origin[:100]!r}"
        return _Refusal(403, text, "Origin", "origin", origin[:100])
    return None


def _other_site(scope: Scope) -> _Refusal | None:
    """Refuse a request from another site's page, as for an image. That page cannot read the answer, but it could make
    the server compute it."""
    if "cross-site" in _values(scope, b"sec-fetch-site") and "navigate" not in _values(scope, b"sec-fetch-mode"):
        return _Refusal(403, "this page is not for pages of other sites", "Sec-Fetch-Site", "site", "")
    return None


def _client(peer: Peer | None, path: str, setting: str) -> _Refusal | None:
    if peer is None or (peer.may_call_verbs if setting == "verb_clients" else peer.may_see_pages):
        return None
    who = ", ".join(peer.names)[:200] or "(a certificate without a name)"
    text = f"{path}: the certificate's names ({who}) are not in server.tls.{setting}"
    return _Refusal(403, text, None, setting, who)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parents(name: str) -> Iterable[str]:
    while "." in name:
        _, _, name = name.partition(".")
        yield name
