"""The way from a terminal to Waggle's pages for people: over HTTP(S) to a server, or through kubectl into a cluster.

    --server URL      that server: Waggle on this machine, or where its port can be reached
    otherwise         the Waggle of a cluster, through kubectl with its own context (reach.py)

Only GET is sent. A server's answer has a bound, and is data: the callers print it escaped (output.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

from extender.operate.reach import Connection, ReachError, Target

_SECONDS: Final = 30.0
#: Bytes of one answer: a list of 100,000 pods has some 60 MiB.
_MOST: Final = 256 << 20
_PIECE: Final = 1 << 20


class NotFoundError(RuntimeError):
    """The requested thing does not exist; the message is the server's."""


@dataclass(frozen=True)
class Server:
    """A Waggle that can be reached directly: certificates and token only where it wants them."""

    url: str
    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    token: str = ""


class Pages:
    """Reads pages as JSON. `get` returns an open answer, whatever its status."""

    def __init__(self, get: Callable[[str], urllib3.BaseHTTPResponse]) -> None:
        self._get = get

    def read(self, path: str, **query: str) -> Any:
        """Return the page. Raises NotFoundError, and ReachError for everything else that is no page."""
        asked = urlencode({name: value for name, value in query.items() if value})
        answer = self._get(f"{path}?{asked}" if asked else path)
        try:
            body = _body(answer)
        except urllib3.exceptions.HTTPError as error:
            raise ReachError(f"the answer to {path} broke off: {str(error)[:300]}") from error
        finally:
            answer.release_conn()
        found = _decoded(body)
        if answer.status == 200 and found is not None:
            return found
        said = found.get("error") if isinstance(found, dict) else None
        text = said if isinstance(said, str) else f"{path}: status {answer.status}, and no page of Waggle's"
        if answer.status == 404 and said:
            raise NotFoundError(text)
        raise ReachError(text)

    def explain(self, namespace: str, pod: str) -> Any:
        return self.read(f"/v1/explain/{quote(namespace, safe='')}/{quote(pod, safe='')}")


def _body(answer: urllib3.BaseHTTPResponse) -> bytes:
    body = bytearray()
    for piece in answer.stream(_PIECE, decode_content=True):
        body += piece
        if len(body) > _MOST:
            raise ReachError(f"the answer has more than {_MOST >> 20} MiB")
    return bytes(body)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


@contextmanager
def pages_of(server: Server | None, target: Target) -> Iterator[Pages]:
    """The pages of `server`, or of the Waggle in a cluster that `target` names. Raises ReachError."""
    if server is not None:
        with _manager(server) as manager:
            yield Pages(_direct(server, manager))
    else:
        with Connection(target) as connection:
            yield Pages(connection.get)


def _manager(server: Server) -> urllib3.PoolManager:
    if not server.url.startswith(("http://", "https://")):
        raise ReachError(f"--server: expected http(s)://host:port, got {server.url!r}")
    if server.token and server.url.startswith("http://"):
        raise ReachError("--token-file: a token is sent over https only")
    files = {"ca_certs": server.ca_file, "cert_file": server.cert, "key_file": server.key}
    for path in files.values():
        if path is not None and not path.is_file():
            raise ReachError(f"{path}: there is no such file")
    given: dict[str, Any] = {name: str(path) for name, path in files.items() if path is not None}
    return urllib3.PoolManager(timeout=_SECONDS, retries=False, **given)


def _direct(server: Server, manager: urllib3.PoolManager) -> Callable[[str], urllib3.BaseHTTPResponse]:
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}

    def get(path: str) -> urllib3.BaseHTTPResponse:
        url = f"{server.url.rstrip('/')}{path}"
        try:
            return manager.request("GET", url, headers=headers, preload_content=False, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            hint = "`waggle serve` and `waggle demo --stay` print their address"
            raise ReachError(f"{server.url} does not answer: {str(error)[:300]}; {hint}") from error
        except (OSError, ValueError) as error:
            raise ReachError(f"{server.url}: {error}") from error

    return get
