"""A verb call over HTTP/1.1, which takes the place of uvicorn's request cycle; and the flow control of its
connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from extender.web.errors import BadRequest
from extender.web.verbs.body import crowded
from extender.web.verbs.handler import Reply, VerbHandler


class Call:
    """A verb call. uvicorn takes it for a cycle of its own: this class has everything that uvicorn reads and sets of
    one.

    It ends like a cycle: it is complete once it is answered, or once the client has disconnected.
    """

    def __init__(
        self, endpoint: VerbHandler, refuse: Callable[[Call, BadRequest], None], client: str, *, keep_alive: bool
    ) -> None:
        self.client = client
        self.endpoint = endpoint
        self.keep_alive = keep_alive
        self.body: bytes | bytearray = b""
        self.more_body = True
        #: The answer to give whatever the body is.
        self.refusal: Reply | None = None
        self.disconnected = False
        self.response_complete = False
        self.message_event = _NOBODY_WAITS
        #: Bytes counted in the budget for bodies.
        self.held = 0
        self._refuse = refuse

    def receive(self, piece: bytes) -> None:
        if not self.body:
            self.body = piece
        else:
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += piece

    def take(self) -> bytes:
        body, self.body = self.body, b""
        return bytes(body)

    def give_up(self) -> None:
        self._refuse(self, crowded())


#: uvicorn sets this event to wake readers of a body; a call has none.
_NOBODY_WAITS = asyncio.Event()
Cycle = RequestResponseCycle | Call


def soon_in(loop: asyncio.AbstractEventLoop) -> Callable[..., None]:
    """Return a function that calls another one soon in this loop, which is the running one; for any thread.

    In the thread of the loop, where nearly all bindings end, it takes no system call to wake the loop.
    """
    own = threading.get_ident()

    def soon(function: Callable[..., object], *args: object) -> None:
        call = loop.call_soon if threading.get_ident() == own else loop.call_soon_threadsafe
        call(function, *args)

    return soon


class Flow(FlowControl):
    """uvicorn's flow control, with a further reason not to read: received data is not parsed yet."""

    def __init__(self, transport: asyncio.Transport, on_room: Callable[[], None]) -> None:
        super().__init__(transport)
        self._on_room = on_room
        #: Whether uvicorn wants to read no more of a body.
        self.stopped = False
        self._backlog = False

    def pause_reading(self) -> None:
        self.stopped = True
        self._apply()

    def resume_reading(self) -> None:
        if self.stopped:
            self.stopped = False
            self._apply()
            self._on_room()

    def set_backlog(self, *, backlog: bool) -> None:
        if backlog is not self._backlog:
            self._backlog = backlog
            self._apply()

    def _apply(self) -> None:
        if self.stopped or self._backlog:
            super().pause_reading()
        else:
            super().resume_reading()
