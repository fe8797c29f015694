"""A claim that a block holds: requested when the block starts, renewed while it runs, released when it ends.

    enter: request --> the claim --> renewed each time a third of the lease has passed
             | cancelled                | the lease expires without a renewal, or the server says that the claim ended
             v                          v
           withdrawn                  lost: `claim.lost`, the callback, and an exception at the end of the block

A renewal that fails is retried until the lease expires: a restarted server, or another replica, continues the claim.
Times are those of this machine's monotonic clock, so clocks need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any

from extender.client.claimed import ClaimedPods
from extender.client.errors import ClaimLostError, WaggleError
from extender.client.records import ClaimRecord
from extender.client.requesting import UNSEEN, Requesting, claim_path, pause, release
from extender.client.transport import Transport

_log = logging.getLogger("waggle.client")
#: The prefix of keys that the client generates.
OWN_KEY = "waggle-client-"
#: Seconds that a cancelled block waits for the withdrawal of its request, which then continues in the background.
_PATIENCE = 5.0
#: Seconds for which a 404 is not believed: a server that has just started, or another replica, may not know the claim.
_UNKNOWN_FOR = 5.0


class Background:
    """The tasks that outlive the call that started them: withdrawals and releases."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self) -> None:
        """Wait until all of them have ended."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))


class Claim(ClaimedPods):
    """A claim of one pod or several. An asynchronous context manager, for one use.

    Inside the block it has `pods` and, if it has one pod, that pod's `name`, `uid`, `node` and `address`. Entering
    raises WaggleError if the request fails. Leaving raises ClaimLostError if the claim was lost, unless the block
    itself raises.
    """

    def __init__(
        self,
        transport: Transport,
        background: Background,
        path: str,
        body: Mapping[str, object],
        *,
        timeout: float,
        lease: float,
        on_lost: Callable[[ClaimLostError], object] | None = None,
    ) -> None:
        self._transport = transport
        self._background = background
        self._path = path
        self._body = body
        self._timeout = timeout
        self._lease = lease
        self._on_lost = on_lost
        self._record: ClaimRecord | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_used = self._is_kept = False
        self._was_lost = asyncio.Event()
        #: Why the claim was lost; None while it is held.
        self.lost: ClaimLostError | None = None

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def record(self) -> ClaimRecord:
        """The server's last answer about the claim. Raises RuntimeError outside of the block."""
        if self._record is None:
            raise RuntimeError("this claim has no pods yet: use it in an `async with` block")
        return self._record

    def check(self) -> None:
        """Raise ClaimLostError if the claim is lost."""
        if self.lost is not None:
            raise self.lost

    async def wait_lost(self) -> ClaimLostError:
        """Wait until the claim is lost, and return why."""
        await self._was_lost.wait()
        assert self.lost is not None
        return self.lost

    def keep(self) -> None:
        """Do not release the claim at the end of the block: it lasts until its lease expires, or it is released."""
        self._is_kept = True

    # -- the block ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Claim:
        if self._is_used:
            raise RuntimeError("a claim is for one use: call `claim()` again")
        self._is_used = True
        self._requesting = requesting = Requesting(self._transport, self._path, self._body, self._timeout)
        running = self._background.start(self._run(requesting))
        try:
            self._record = record = await asyncio.shield(running)
        except asyncio.CancelledError:
            withdrawal = self._background.start(self._withdraw(requesting, running))
            await asyncio.wait((withdrawal,), timeout=_PATIENCE)
            raise
        self._keeping = asyncio.get_running_loop().create_task(self._keep(record))
        return self

    async def _run(self, requesting: Requesting) -> ClaimRecord:
        async with self._transport:
            return await requesting.run()

    async def _withdraw(self, requesting: Requesting, running: asyncio.Task[ClaimRecord]) -> None:
        async with self._transport:
            await requesting.withdraw(running)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._keeping is not None
        self._keeping.cancel()
        if self.lost is None and not self._is_kept:
            releasing = self._background.start(self._release())
            try:
                await asyncio.shield(releasing)
            except asyncio.CancelledError:
                await asyncio.wait((releasing,), timeout=_PATIENCE)
                raise
        if error is None:
            self.check()

    async def _release(self) -> None:
        async with self._transport:
            problem = await release(self._transport, self.id, unknown=UNSEEN)
        if problem is not None:
            _log.warning("claim %s could not be released, and lasts until its lease expires: %s", self.id, problem)

    # -- renewals -------------------------------------------------------------------------------------------------

    async def _keep(self, record: ClaimRecord) -> None:
        try:
            async with self._transport:
                await self._renew_on_and_on(record)
        except ClaimLostError as lost:
            self.lost = lost
            self._was_lost.set()
            _log.warning("claim %s is lost: %s", record.id, lost)
            if self._on_lost is not None:
                self._on_lost(lost)

    async def _renew_on_and_on(self, record: ClaimRecord) -> None:
        # If an earlier attempt, or another program with the same key, made the claim, part of its lease has passed.
        is_older = self._requesting.tries > 0 or not str(self._body["key"]).startswith(OWN_KEY)
        since = time.monotonic()
        wait = 0.0 if is_older else self._third()
        while True:
            await asyncio.sleep(wait)
            since = await self._renew(record.id, since + self._lease)
            wait = max(0.0, since + self._third() - time.monotonic())

    def _third(self) -> float:
        return self._lease / 3 * random.uniform(0.8, 1.0)  # noqa: S311 - jitter

    async def _renew(self, claim: str, over: float) -> float:
        """Renew the lease, with retries until `over`. Return when the successful request was sent. Both times are
        seconds of `time.monotonic`. Raises ClaimLostError."""
        tries, unknown_since = 0, 0.0
        while True:
            sent = time.monotonic()
            try:
                body = {"lease_seconds": self._lease}
                self._record = await self._transport.ask(ClaimRecord, "POST", f"{claim_path(claim)}/renew", body=body)
            except WaggleError as error:
                unknown_since = (unknown_since or sent) if error.status == 404 else 0.0
                is_gone = error.status == 410 or (unknown_since and sent - unknown_since >= _UNKNOWN_FOR)
                if is_gone or time.monotonic() >= over:
                    raise ClaimLostError(str(error), code=error.code, status=error.status) from error
                seconds = min(pause(tries, error.retry_after), max(0.0, over - time.monotonic()))
                tries += 1
                await asyncio.sleep(seconds)
            else:
                return sent
