"""Runs the application (ASGI) for one HTTP/2 stream: everything but the verbs, which are answered without it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import unquote

import structlog
from uvicorn._types import ASGI3Application

from extender.web.http.streams import Stream

_log = structlog.get_logger(__name__)

#: Header names that HTTP/2 does not have.
_OF_HTTP_1: Final = (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"proxy-connection")


class Connection(Protocol):
    """The connection of the stream, as the application needs it."""

    def take(self, stream: Stream) -> bytes:
        """Take the received part of the body, and give the peer room for as much again."""

    def answer(self, stream: Stream, status: int, headers: list[tuple[bytes, bytes]], *, last_one: bool) -> None:
        """Send the head of the answer. `last_one`: the connection accepts no further streams."""

    def send(self, stream: Stream, data: bytes, *, last: bool) -> None:
        """Send a part of the answer's body as soon as there is room for it; `last` ends the answer."""

    def page_ended(self, stream: Stream, *, cancelled: bool = False) -> None:
        """The application has returned, with or without an answer, or was cancelled: the server stops."""


def scope_of(method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Return the ASGI scope of a request, without the addresses and the state of its connection."""
    path, _, query = target.partition(b"?")
    named = [(name, value) for name, value in headers if not name.startswith(b":")]
    host = [(b"host", value) for name, value in headers if name == b":authority"]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "2",
        "scheme": "https",
        "method": method.decode("latin-1"),  # h2 accepts any byte, here and in the path
        "root_path": "",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "headers": host + named,
    }


async def run_page(app: ASGI3Application, connection: Connection, stream: Stream) -> None:
    """Run the application with the stream's scope. Its exception is logged, and ends the stream."""

    async def receive() -> Any:
        """Return the next part of the body; once all of it was returned, wait for the end of the stream."""
        while not (stream.used or stream.gone or (stream.complete and not stream.handed_over)):
            stream.news.clear()
            await stream.news.wait()
        if stream.gone:
            return {"type": "http.disconnect"}
        stream.handed_over = stream.complete
        return {"type": "http.request", "body": connection.take(stream), "more_body": not stream.complete}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            of_http_2 = [each for each in headers if each[0] not in _OF_HTTP_1]
            last_one = (b"connection", b"close") in headers
            connection.answer(stream, message["status"], of_http_2, last_one=last_one)
            return
        body = b"" if stream.method == b"HEAD" else message.get("body", b"")
        connection.send(stream, body, last=not message.get("more_body", False))
        await stream.room.wait()

    path = stream.scope["path"]
    try:
        await app(stream.scope, receive, send)  # type: ignore[arg-type]  # uvicorn's own types of messages are closed
    except asyncio.CancelledError:
        connection.page_ended(stream, cancelled=True)
        raise
    except Exception:
        _log.exception("page_failed", path=path)
    connection.page_ended(stream)
