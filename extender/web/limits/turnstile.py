"""Pages and probes take turns of the event loop, so that calls of verbs have their share of each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from extender.web.limits.rounds import Rounds

#: Pages and probes that begin in one turn of the event loop, and answers that do.
_A_TURN: Final = 3


class Turnstile:
    """Admits `a_turn` requests in a turn of the event loop; the others wait. Turns go round among the values of `who`.

    A page or a probe costs the loop some tenths of a millisecond, and so does its answer; each of a thousand
    connections may ask for one. Calls of verbs that arrive meanwhile have their share of each turn. `who` is an address
    and a probe's path: a kubelet's probe does not wait for a thousand pages of another client.
    """

    def __init__(self, a_turn: int = _A_TURN) -> None:
        self._a_turn = self._left = a_turn
        self._waiting: Rounds[Hashable, asyncio.Future[None]] = Rounds()
        self._turn: asyncio.Handle | None = None

    async def enter(self, who: Hashable = None) -> None:
        loop = asyncio.get_running_loop()
        if self._turn is None:
            self._turn = loop.call_soon(self._next_turn, loop)
        if self._left:
            self._left -= 1
            return
        passed = loop.create_future()
        self._waiting.add(who, passed)
        await passed

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._a_turn
        while self._waiting and self._left:
            passed = self._waiting.pop()
            if not passed.done():  # it may have been cancelled
                passed.set_result(None)
                self._left -= 1
        self._turn = loop.call_soon(self._next_turn, loop) if self._waiting or not self._left else None
