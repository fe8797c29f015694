"""Requests to a server: one try each, whose result is a record or an exception.

A connection that breaks raises ServerUnavailableError. It is `uncertain` unless no connection could be made: then the
request was not sent, and had no effect.

`async with transport` counts users, and the HTTP client stays open while there are any. So a program that makes one
claim need not close anything, and a program that makes thousands reuses connections.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec

from extender.client.errors import ServerUnavailableError, error_of
from extender.client.records import ErrorRecord

#: Time-outs, seconds: of the connection; and of the answer, in addition to the time that the server may wait.
_CONNECT, _ANSWER = 5.0, 10.0
#: Connections at once: each claim that waits for a pod holds one.
_CONNECTIONS = 1000
_LONGEST_TEXT = 500
_T = TypeVar("_T")
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Tls:
    """PEM files. `ca_file`: the CA of the server's certificate, instead of the system's CAs. `cert_file`, `key_file`:
    this client's certificate, for mutual TLS."""

    ca_file: Path | str | None = None
    cert_file: Path | str | None = None
    key_file: Path | str | None = None

    def context(self) -> ssl.SSLContext:
        """Return an SSL context. Raises OSError, of which ssl.SSLError is a subclass, if a file cannot be used."""
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


class Transport:
    """Connects to one server. For one event loop at a time. `http`: a transport of httpx, instead of the network."""

    def __init__(self, url: str, token: str | Callable[[], str] = "", tls: Tls | None = None, http: Any = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url: expected http(s)://host:port, got {url!r}")
        self._url = url.rstrip("/")
        self._token = token
        self._tls = tls.context() if tls is not None else True
        self._http = http
        self._users = 0
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._users += 1
        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=self._url,
                verify=self._tls,
                transport=self._http,
                limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=32),
                follow_redirects=False,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if not self._users and self._client is not None:
            client, self._client = self._client, None
            await asyncio.shield(client.aclose())

    async def ask(
        self,
        kind: type[_T],
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, str] | None = None,
        patience: float = 0.0,
    ) -> _T:
        """Send one request, and return its answer as a record. `patience`: seconds that the server may wait.

        Raises WaggleError: ServerUnavailableError if there is no answer, or one that is not Waggle's.
        """
        answer = await self._send(method, path, body, query, patience)
        if answer.status_code >= 300:
            raise _refusal(answer)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            text = f"{self._url}{path}: the answer is not that of a compatible Waggle: {error}"
            raise ServerUnavailableError(text, code="Unavailable", status=answer.status_code) from error

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        query: Mapping[str, str] | None,
        patience: float,
    ) -> httpx.Response:
        assert self._client is not None, "the transport is not open"
        times = httpx.Timeout(_ANSWER, connect=_CONNECT, read=patience + _ANSWER)
        content = None if body is None else msgspec.json.encode(body)
        token = self._token if isinstance(self._token, str) else self._token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            return await self._client.request(
                method, path, content=content, params=query, headers=headers, timeout=times
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            said = str(error) or type(error).__name__
            lost = ServerUnavailableError(f"{self._url} does not answer: {said[:_LONGEST_TEXT]}", code="Unavailable")
            lost.uncertain = not isinstance(error, _NOT_SENT)
            raise lost from error


def _refusal(answer: httpx.Response) -> Exception:
    after = answer.headers.get("retry-after", "")
    seconds = float(after) if after.isdecimal() else None
    try:
        said = msgspec.json.decode(answer.content, type=ErrorRecord)
    except msgspec.DecodeError:
        text = f"{answer.request.url.path}: status {answer.status_code}, and the answer is not Waggle's"
        found = error_of(answer.status_code if answer.status_code < 500 else 503, text, retry_after=seconds)
        found.status = answer.status_code
        if isinstance(found, ServerUnavailableError):
            found.uncertain = True  # a proxy has answered, and Waggle may have got the request
        return found
    return error_of(answer.status_code, said.error, said.code, said.field, said.retry_after or seconds)
