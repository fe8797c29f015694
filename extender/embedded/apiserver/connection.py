"""One HTTP exchange over ASGI: read the request, send the answer or a stream of lines, or cut the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from extender.embedded.apiserver.errors import body_too_large
from extender.embedded.apiserver.objects import encode
from extender.embedded.apiserver.requests import Answer, Request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Bytes; what the real API server takes.
MAX_BODY = 3 * 1024 * 1024
#: Key of scope["extensions"] under which the HTTP server offers a function that cuts the connection.
ABORT = "waggle.abort"
#: The same for one that writes to it, past HTTP.
WRITE = "waggle.write"
_EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </openapi/v3>; rel=preload\r\n\r\n"


class Connection:
    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send

    async def read(self) -> Request:
        """The whole request. Raises 413 if its body is too large."""
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await self._receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > MAX_BODY:
                raise body_too_large(MAX_BODY)
        headers = dict(self._scope["headers"])
        query = self._scope["query_string"].decode("latin-1")
        return Request(
            method=self._scope["method"],
            path=self._scope["path"],
            full_path=self._scope["path"] + (f"?{query}" if query else ""),
            query=dict(parse_qsl(query, keep_blank_values=True)),
            media_type=headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower(),
            body=b"".join(parts),
            accept=headers.get(b"accept", b"").decode("latin-1"),
            agent=headers.get(b"user-agent", b"").decode("latin-1"),
            user=headers.get(b"impersonate-user", b"").decode("latin-1"),
        )

    async def reply(self, answer: Answer) -> None:
        await self._start(answer)
        await self._send({"type": "http.response.body", "body": answer.body})

    async def reply_in_part(self, answer: Answer) -> None:
        """Promise the whole answer, send half of it, and cut the connection."""
        await self._start(answer)
        half = answer.body[: len(answer.body) // 2]
        await self._send({"type": "http.response.body", "body": half, "more_body": True})
        await self.abort()

    async def _start(self, answer: Answer) -> None:
        headers = [
            (b"content-type", answer.media_type),
            (b"content-length", str(len(answer.body)).encode()),
            *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
            *((b"warning", f"299 - {encode(text).decode()}".encode()) for text in answer.warnings),
        ]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})

    async def start_stream(self) -> None:
        headers = [(b"content-type", b"application/json")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        # An empty body sends the headers: the client must know that the watch stands before the first event.
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def send_lines(self, lines: list[bytes]) -> None:
        await self._send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})

    async def end_stream(self, lines: list[bytes]) -> None:
        await self._send({"type": "http.response.body", "body": b"".join(lines)})

    async def when_gone(self, then: Callable[[], None]) -> None:
        """Call `then` once the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        then()

    def hint_early(self) -> None:
        """Send interim answers, which say nothing about the request."""
        self._scope["extensions"][WRITE](_EARLY_HINTS * 2)

    async def abort(self) -> None:
        """Cut the connection, whatever was sent already. Raises RuntimeError under a server that cannot do it."""
        cut = self._scope.get("extensions", {}).get(ABORT)
        if cut is None:
            raise RuntimeError("dropping connections needs the server of extender.embedded.apiserver.server")
        cut()
        # The server learns of the cut in the loop's next turns; returning earlier would make it answer 500.
        while (await self._receive())["type"] != "http.disconnect":
            await asyncio.sleep(0)
