"""Access control of verbs and pages: refuses browsers that do not belong here, and clients whose names are not listed.

    a verb:   has it an Origin? --yes--> 403        is its client one of verb_clients? --no--> 403
    a page:   is Host one of ours? --no--> 421      sent by another site's page? --> 403      page_clients? --no--> 403
              not GET, and its Origin is not Host? --> 403
    a probe, /metrics: never refused here
    then: a few pages and probes begin in each turn of the event loop, or are answered

Any web page can make a browser send a POST with text, without asking. The browser always adds an Origin, and
kube-scheduler never does. A page whose own name now resolves to this server (DNS rebinding) may read the answer to a
GET; Host is then that name. The fast paths of protocol.py and http2.py leave requests with an Origin to this module.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.settings import ServerSettings
from extender.web.error_answers import error_response
from extender.web.http.peers import Peer
from extender.web.http.refusals import Refusals
from extender.web.limits.turnstile import Turnstile
from extender.web.pages.probes import ProbesOnly

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

    def __init__(
        self,
        app: ASGIApp,
        *,
        verbs: Iterable[str],
        hosts: Hosts,
        refusals: Refusals,
        turnstile: Turnstile | None = None,
    ) -> None:
        self._app = app
        self._verbs = frozenset(verbs)
        self._hosts = hosts
        self._refusals = refusals
        self._turnstile = turnstile or Turnstile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request that is not allowed, or pass it on. Pages and probes take turns first."""
        if scope["type"] == "http" and scope["path"] not in self._verbs:
            who = (_address(scope), scope["path"] if scope["path"] in ProbesOnly.OPEN_PATHS else "")
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
        if path in ProbesOnly.OPEN_PATHS:
            return None
        peer: Peer | None = scope.get("state", {}).get("peer")
        if path in self._verbs:
            return _origin(scope) or _client(peer, path, "verb_clients")
        return self._host(scope) or _other_site(scope) or _other_origin(scope) or _client(peer, path, "page_clients")

    def _host(self, scope: Scope) -> _Refusal | None:
        """Refuse an unknown Host. A missing Host is accepted: HTTP/1.0 has none, and browsers always send one."""
        for host in _values(scope, b"host"):
            if not self._hosts.has(host):
                text = f"Host: {host[:100]!r} is no name of this server; server.allowed_hosts adds names"
                return _Refusal(421, text, "Host", "host", host[:100])
        return None


def _origin(scope: Scope) -> _Refusal | None:
    for origin in _values(scope, b"origin"):
        text = f"verbs are not for browsers, and this request has an Origin: {origin[:100]!r}"
        return _Refusal(403, text, "Origin", "origin", origin[:100])
    return None


def _other_origin(scope: Scope) -> _Refusal | None:
    """Refuse a request that changes something, a claim for example, from a page of another server. Browsers send such a
    page's POST without asking, and over plain HTTP they do not say that it comes from another site."""
    if scope["method"] in ("GET", "HEAD"):
        return None
    hosts = _values(scope, b"host")
    for origin in _values(scope, b"origin"):
        if [origin.partition("://")[2].lower()] != [host.strip().lower() for host in hosts]:
            text = f"this is not for pages of other servers, and the request has the Origin {origin[:100]!r}"
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
