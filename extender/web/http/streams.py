"""One HTTP/2 request and its answer, and the frames of a connection as h2 handles them for this server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, Event
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame, SettingsFrame

from extender.web.verbs.handler import VerbHandler

#: Streams of one connection at once: rarely more pods are being bound, and Go then opens another connection.
STREAMS: Final = 250
#: Bytes that may be on their way to us: of one stream, and of all.
_STREAM_WINDOW: Final = 1 << 20
_WINDOW: Final = 1 << 24
#: Bytes of memory that an open stream takes without its body: here and in h2.
STREAM_BYTES: Final = 8 * 1024
#: The settings that exist; a peer may name 65,536, and h2 would remember each.
_SETTINGS: Final = frozenset(SettingCodes)


class Stream:
    """One request and its answer."""

    def __init__(
        self,
        number: int,
        method: bytes,
        endpoint: VerbHandler | None,
        began: float,
        refuse: Callable[[Stream], None],
        client: str,
    ) -> None:
        self.number = number
        self.client = client
        self.method = method
        #: The handler of the verb, on the fast path; None: run the application with `scope`.
        self.endpoint = endpoint
        self.scope: dict[str, Any] = {}
        self.began = began
        self._refuse = refuse
        #: Of the body: what has arrived and was not read yet, and how much of the peer's window that has used. Not as a
        #: list of pieces: they may be empty, and as many as the peer likes.
        self.received = bytearray()
        self.used = 0
        self.complete = False
        self.handed_over = False
        self.gone = False
        #: Bytes counted in the budget for bodies.
        self.held = 0
        #: Set when something has arrived, or the peer has gone.
        self.news = asyncio.Event()
        #: Of the answer: what could not be sent yet, and whether that is all of it.
        self.unsent = bytearray()
        self.answered = False
        self.room = asyncio.Event()
        self.room.set()

    def leave(self) -> None:
        self.gone = True
        self.news.set()
        self.room.set()

    def give_up(self) -> None:
        self._refuse(self)


class Frames(H2Connection):
    """The frames of one connection.

    A peer that sends GOAWAY opens no further streams, and still waits for the answers to those it has. h2 takes a
    GOAWAY for the end of everything: it discards what it was to send, and sends nothing any more.
    """

    def __init__(self) -> None:
        # Incoming headers are checked; outgoing ones are our own, in lower case already.
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS,
                SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: 1 << 16,
                SettingCodes.ENABLE_CONNECT_PROTOCOL: 0,
            },
        )

    def begin(self) -> None:
        """Return what is sent first."""
        self.initiate_connection()
        self.increment_flow_control_window(_WINDOW)

    def dismantle(self) -> None:
        """Break the reference cycles, after which nothing is received or sent: only the garbage collector would find
        them."""
        self._frame_dispatch_table.clear()
        self.streams.clear()
        self.clear_outbound_data_buffer()

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:  # noqa: ARG002 - h2's form
        return [], [ConnectionTerminated()]

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Frame], list[Event]]:
        frame.settings = {code: value for code, value in frame.settings.items() if code in _SETTINGS}
        return super()._receive_settings_frame(frame)
