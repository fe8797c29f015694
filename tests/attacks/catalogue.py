"""All attacks. A new family has its line here."""

from __future__ import annotations

from tests.attacks import apiserver, claims, clients, doors, hived, http1, http2, logs, memory, pages, pods
from tests.attacks.registry import ATTACKS

__all__ = [
    "ATTACKS",
    "apiserver",
    "claims",
    "clients",
    "doors",
    "hived",
    "http1",
    "http2",
    "logs",
    "memory",
    "pages",
    "pods",
]
