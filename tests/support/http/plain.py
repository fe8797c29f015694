"""Clients of servers without TLS."""

from __future__ import annotations

import ssl
from typing import Any, Final

import httpx

#: httpx reads all authorities of the system for each client otherwise, which takes 30 ms.
_NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def plain_client(**options: Any) -> httpx.Client:
    """Return a client with these `options` of httpx. It can use `http://` only."""
    return httpx.Client(verify=_NO_AUTHORITIES, **options)
