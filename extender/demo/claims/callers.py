"""The load: independent callers that claim pods with Waggle's client, and arrive without waiting for others.

Most use a pod for a moment and release it. Some claim several pods at once, some disconnect before they have an answer,
and some crash while they have a pod, which returns when its lease expires.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from extender.client import ClaimLostError, Waggle, WaggleError
from extender.client.holding import Claim
from extender.demo.claims.books import Books
from extender.demo.claims.pools import NAMESPACE, POOLS, TENANTS

#: Seconds that a request may wait, that a pod is used, and the lease of a caller that crashes.
_WAIT, _USE, _SHORT_LEASE = 15.0, (0.1, 0.5), 3.0
_GANG = 3
#: Seconds for the last callers to stop.
_ABANDONED = 2.0
#: Seconds within which an impatient caller disconnects: about as long as its request takes.
_IMPATIENCE = 0.03
_LEASE = 30.0
#: On a busy machine fewer callers arrive: none while this many run, and at most this many seconds are caught up.
_MOST_RUNNING, _LATEST = 100, 0.5


@dataclass(frozen=True)
class Caller:
    """One caller: what it asks for, and how it behaves."""

    pool: str
    tenant: str
    count: int = 1
    seconds: float = 0.3
    #: After how many seconds it disconnects; None: it does not.
    leaves_after: float | None = None
    #: It crashes while it has its pods, and does not release them.
    dies: bool = False


class Callers:
    """Runs all callers in an event loop in a thread. `rate`: callers that arrive per second; it can be changed."""

    def __init__(self, url: str, books: Books, *, rate: float, seed: int = 7) -> None:
        self.rate = rate
        self._url = url
        self._books = books
        self._random = random.Random(seed)  # noqa: S311 - the same load each time
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="demo-callers", daemon=True)
        _silence_client()

    def start(self) -> None:
        self._thread.start()

    def rush(self, number: int, pool: str, seconds: float) -> None:
        """Start `number` callers at once, which use their pods for `seconds`. Two of three have the tenant `batch`."""
        tenants = ("batch", "web", "batch")
        for index in range(number):
            self._soon(Caller(pool, tenants[index % 3], seconds=seconds))

    def stop(self) -> None:
        """Start no more callers. Running callers finish."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)

    @property
    def have_ended(self) -> bool:
        """Whether all callers have finished, after `stop`."""
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """Cancel all running callers."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._abandon)
            self._thread.join(_ABANDONED)

    def _abandon(self) -> None:
        self._stop.set()
        for task in (*self._running, self._serving):
            if task is not None:
                task.cancel()

    def _soon(self, caller: Caller) -> None:
        self._loop.call_soon_threadsafe(self._begin, caller)

    # -- in the loop ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._serving = asyncio.current_task()
        async with Waggle(self._url) as waggle:
            self._waggle = waggle
            due = time.monotonic()
            while not self._stop.is_set():
                due += self._random.expovariate(self.rate) if self.rate else 0.1
                await _sleep_or(self._stop, due - time.monotonic())
                due = max(due, time.monotonic() - _LATEST)
                if self.rate and not self._stop.is_set() and len(self._running) < _MOST_RUNNING:
                    self._begin(self._somebody())
            while self._running:
                await asyncio.wait(tuple(self._running))

    def _begin(self, caller: Caller) -> None:
        task = self._loop.create_task(self._live(caller))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _somebody(self) -> Caller:
        chance = self._random.random()
        pool = self._random.choices(POOLS, [each.share for each in POOLS])[0].name
        tenant = self._random.choices(list(TENANTS), list(TENANTS.values()))[0]
        seconds = self._random.uniform(*_USE)
        if chance < 0.05:
            return Caller(pool, tenant, leaves_after=self._random.uniform(0.0, _IMPATIENCE))
        if chance < 0.07:
            return Caller(pool, tenant, dies=True)
        return Caller(pool, tenant, count=_GANG if chance < 0.12 else 1, seconds=seconds)

    async def _live(self, caller: Caller) -> None:
        self._books.asked(caller.pool)
        try:
            await self._end(caller)
        except WaggleError as error:
            self._books.failed(caller.pool, error.code)
        except Exception as error:
            self._books.failed(caller.pool, type(error).__name__)
            self._books.blame(f"a caller failed: {type(error).__name__}: {error}")

    async def _end(self, caller: Caller) -> None:
        """Run one caller from its request to its end. Raises WaggleError if the request failed."""
        begun = time.monotonic()
        claim = self._waggle.pool(NAMESPACE, caller.pool).claim(
            timeout=_WAIT, count=caller.count, tenant=caller.tenant, lease=_SHORT_LEASE if caller.dies else _LEASE
        )
        entering = self._loop.create_task(claim.__aenter__())
        if caller.leaves_after is not None:
            await asyncio.wait((entering,), timeout=caller.leaves_after)
            entering.cancel()
        await asyncio.wait((entering,))
        if entering.cancelled():
            self._books.left(caller.pool)
            return
        entering.result()
        seconds = time.monotonic() - begun
        pods = [(pod.uid, pod.name) for pod in claim.pods]
        self._books.claimed(caller.pool, seconds, claim.id, pods, _SHORT_LEASE / 2 if caller.dies else None)
        await self._use(claim, caller)

    async def _use(self, claim: Claim, caller: Caller) -> None:
        uids = [pod.uid for pod in claim.pods]
        if caller.dies:
            claim.keep()
        else:
            await asyncio.sleep(caller.seconds)
            self._books.gives_back(uids)
        try:
            await claim.__aexit__(None, None, None)
        except ClaimLostError as error:
            self._books.blame(f"claim {claim.id} was lost while its caller had it: {error}")


async def _sleep_or(event: asyncio.Event, seconds: float) -> None:
    """Sleep, but only until the event is set."""
    if seconds > 0:
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return
    else:
        await asyncio.sleep(0)


def _silence_client() -> None:
    """Suppress the client's warnings, which would break the live table. The result reports violations."""
    logger = logging.getLogger("waggle.client")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
