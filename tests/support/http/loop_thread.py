"""An event loop in a thread: the one of `waggle serve`, for what runs in it beside HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import uvloop

T = TypeVar("T")


class LoopThread:
    """Runs from entering until leaving; then the loop is closed."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)

    def call(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in the loop, and return its result."""

        async def called() -> T:
            return function(*args)

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(10)

    def end(self) -> None:
        """Close the loop. Idempotent."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
