"""Calls to the engine of claims as coroutines, and requests that are answered later (`Prefer: respond-async`).

answered(event) --> the answer --> is_lost(): the last look at the connection before the answer is sent
     |  the caller disconnects              |
     +--> CallerGone, or a release: nothing stays claimed for the request

queued(event)   --> returns at once            the caller asks for the result later, by the claim's id
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.types import Message

from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import Answered, ClaimAsked, ReleaseAsked, RenewAsked
from extender.claims.records import PoolKey
from extender.server.claims.runtime import Call, ClaimRuntime
from extender.web.http.departure import has_peer_left

#: How many requests without a connection are remembered, and for how many seconds after their end.
MOST_QUEUED = 10_000
_KEPT_SECONDS = 600.0


class CallerDisconnected(Exception):  # noqa: N818 - what happened, as Starlette names it
    """The caller disconnected before it had its answer."""


@dataclass(slots=True)
class Queued:
    """A request whose caller does not wait on a connection. What it asked for is not kept, and nor are the pods that it
    got: callers choose how much that is."""

    claim: str
    pool: PoolKey
    tenant: str
    future: asyncio.Future[Answered] | None
    ended: Answered | None = None

    @property
    def answer(self) -> Answered | None:
        """The answer, perhaps without its pods; None until there is one."""
        if self.future is None:
            return self.ended
        return self.future.result() if self.future.done() and not self.future.cancelled() else None

    async def wait(self, seconds: float) -> Answered | None:
        """Wait until there is an answer, for `seconds` at most. Return it; None if there is none."""
        future = self.future
        if future is None:
            return self.ended
        if seconds > 0 and not future.done():
            await asyncio.wait((future,), timeout=seconds)
        return future.result() if future.done() and not future.cancelled() else None


class Calls:
    """For use in one event loop."""

    def __init__(self, runtime: ClaimRuntime, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._clock = clock
        self._queued: dict[str, Queued] = {}
        #: When requests without a connection ended, with their names, in order.
        self._ends: deque[tuple[float, str]] = deque()

    async def answered(self, asked: ClaimAsked, receive: Callable[[], Awaitable[Message]]) -> Answered:
        """Return the answer. Raises CallerDisconnected if the caller disconnects; then nothing stays claimed."""
        answer = self.ask(asked)
        if answer.done():
            return answer.result()
        gone = asyncio.ensure_future(_disconnected(receive))
        is_answered = False
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            is_answered = answer.done()
        finally:
            gone.cancel()
            if not is_answered and not self._runtime.leave(asked.request):
                # Another thread has answered it, and the event loop has yet to see that.
                answer.add_done_callback(lambda late: self._give_back(asked, late.result()))
        if is_answered:
            return answer.result()
        raise CallerDisconnected

    def is_lost(self, asked: ClaimAsked, answer: Answered, request: Request) -> bool:
        """Return whether the caller of an answered request has disconnected; then nothing stays claimed.

        Call it right before the answer is sent: the event loop must not run in between.
        """
        if not has_disconnected(request):
            return False
        self._give_back(asked, answer)
        return True

    def _give_back(self, asked: ClaimAsked, answer: Answered) -> None:
        """Release the claim of an answer that nobody gets. With a key it stays, because another call may have been
        answered with it, and the key gets it again."""
        if answer.code is ClaimCode.CLAIMED and not asked.key:
            self.cancel(asked)

    def cancel(self, asked: ClaimAsked) -> None:
        """End a request, or the claim that it has got. Nobody waits for that."""
        self._runtime.ask(ReleaseAsked(self._runtime.new_request(), asked.claim), lambda _: None)

    async def finished(self, call: ReleaseAsked | RenewAsked) -> Answered:
        """Return the answer. If the caller disconnects, the call continues, because it is about an existing claim.

        Uvicorn cancels requests that outlive an orderly stop, and answers a plain 500 unless they answer themselves.
        """
        try:
            return await asyncio.shield(self.ask(call))
        except asyncio.CancelledError:
            detail = "the server is shutting down; whether the call had an effect is not known"
            return Answered(request=call.request, code=ClaimCode.SHUTTING_DOWN, claim=call.claim, detail=detail)

    def ask(self, call: Call) -> asyncio.Future[Answered]:
        """Send a call to the engine, and return its future answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answered] = loop.create_future()
        self._runtime.ask(call, partial(_resolve, loop, answer))
        return answer

    # -- requests without a connection ----------------------------------------------------------------------------

    def queued(self, asked: ClaimAsked) -> Queued | None:
        """Send a request to the engine, and return without waiting; None if too many such requests are remembered. A
        request that is answered at once is not remembered, because its caller gets the answer."""
        self._forget()
        if len(self._queued) >= MOST_QUEUED:
            return None
        answer = self.ask(asked)
        name = self._runtime.look(partial(_name_of, asked=asked))
        known = Queued(name, asked.pool, asked.tenant, answer)
        if not answer.done() and name not in self._queued:
            self._queued[name] = known
            answer.add_done_callback(partial(self._ended, known))
        return known

    def _ended(self, known: Queued, answer: asyncio.Future[Answered]) -> None:
        if not answer.cancelled():
            known.ended = msgspec.structs.replace(answer.result(), pods=())
        known.future = None
        self._ends.append((self._clock(), known.claim))

    def find(self, claim: str) -> Queued | None:
        """Return the request without a connection that has this claim's id; None if it is not remembered."""
        self._forget()
        return self._queued.get(claim)

    def _forget(self) -> None:
        """Forget the requests that ended more than `_KEPT_SECONDS` ago."""
        end = self._clock() - _KEPT_SECONDS
        while self._ends and self._ends[0][0] < end:
            _, name = self._ends.popleft()
            self._queued.pop(name, None)


def _name_of(engine: ClaimEngine, _now: float, *, asked: ClaimAsked) -> str:
    """The claim's name: another one than was asked for, if the key belongs to a request that came before."""
    known = engine.claim_with_key(asked.pool, asked.tenant, asked.key) if asked.key else ""
    return known or asked.claim


def _resolve(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Answered], found: Answered) -> None:
    """Complete the future, in the thread of its loop."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        _set(answer, found)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_set, answer, found)


def _set(answer: asyncio.Future[Answered], found: Answered) -> None:
    if not answer.done():
        answer.set_result(found)


def has_disconnected(request: Request) -> bool:
    """Return whether the caller is known to have disconnected. Its request must have been read.

    The event loop does not run meanwhile, so that the state of the connection is the same when the answer is sent.
    Starlette's `is_disconnected` lets the loop run once, and misses a disconnect that the loop notices then. A
    disconnect that the kernel alone has seen is known neither to the loop nor to ASGI's `receive`: see `departure`.
    """
    if has_peer_left(request.scope):
        return True
    step = request.receive().__await__()
    try:
        next(step)
    except StopIteration as ended:
        return bool(ended.value["type"] == "http.disconnect")
    step.close()
    return False


async def _disconnected(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
