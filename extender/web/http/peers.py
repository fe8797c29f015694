"""The peer of a connection and what it may request: decided once, when the handshake is complete.

A name is the common name in the certificate's subject, or an alternative name (DNS, URI, email, IP address). It is
compared as a whole and exactly: no wildcards, no case folding. IP addresses are compared as addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from extender.settings import TlsSettings
from extender.web.verbs.handler import VerbHandler

_KINDS = ("DNS", "URI", "email", "IP Address")


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """One peer, for as long as its connection lasts."""

    address: str
    #: Handlers that it may post to by the fast path, by path; empty if it may call no verb.
    verbs: Mapping[bytes, VerbHandler]
    #: Called when the connection is lost.
    ended: Callable[[], None]
    may_call_verbs: bool = True
    may_see_pages: bool = True
    #: Whether it has shown a certificate with which it may call verbs.
    trusted: bool = False
    #: The names of its certificate, in order; empty without one.
    names: tuple[str, ...] = ()


class ClientNames:
    """The lists of `server.tls`: whose certificates may call verbs, and whose may see pages. Empty lists allow all."""

    def __init__(self, tls: TlsSettings | None) -> None:
        self._verbs = frozenset(map(_normal, tls.verb_clients if tls else ()))
        self._pages = frozenset(map(_normal, tls.page_clients if tls else ()))

    def may_call_verbs(self, names: Iterable[str]) -> bool:
        return not self._verbs or not self._verbs.isdisjoint(names)

    def may_see_pages(self, names: Iterable[str]) -> bool:
        return not self._pages or not self._pages.isdisjoint(names)


def names_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a certificate, as `ssl.SSLSocket.getpeercert` returns it.

    Several common names are ambiguous, and none of them counts: some programs take the first, others the last.
    """
    common = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    others = [_normal(value) for kind, value in certificate.get("subjectAltName", ()) if kind in _KINDS]
    return (*(common if len(common) == 1 else ()), *others)


def _normal(name: str) -> str:
    """The normal form of an IP address: OpenSSL writes 0:0:0:0:0:0:0:1 for ::1."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name
