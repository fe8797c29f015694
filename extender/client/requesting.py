"""A request for pods, with retries, until it succeeds, fails, or is withdrawn.

    attempt --201--> claimed
      ^  |  the answer was lost, no server is ready, or no pod is idle
      |  v
      back off (Retry-After, else exponential; with jitter) until the deadline

Every attempt has the same key. So if an answer was lost, the next attempt continues the same request.

A withdrawal does not close the connection. The request stays open, and a second call ends the request or claim with its
key. Then the answer to the request comes at once, and shows whether a claim must be released. If that answer is lost,
too, the request or claim is ended by its key alone, several times, because the request may arrive after that call.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from urllib.parse import quote

from extender.client.errors import ClaimTimeoutError, NotFoundError, ServerUnavailableError, WaggleError
from extender.client.records import ClaimRecord
from extender.client.transport import Transport

#: Seconds of the first and of the longest pause between attempts.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
#: Seconds that an answer may be late, beyond the time that the request waits for a pod.
_LATE = 10.0
#: Seconds before each try to end a request by its key: while its answer is missing, and after the answer was lost.
_WHILE_OPEN = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
_AFTER_LOSS = (0.0, 0.1, 0.3, 1.0)
#: Seconds between tries to release a claim that a replica does not know yet.
UNSEEN = (0.05, 0.2, 0.5, 1.0)
#: The codes after which nothing is claimed and another attempt can succeed.
_RETRIED_CODES = frozenset(
    {"NoIdlePod", "QueueFull", "TenantQueueFull", "TooManyDemands", "WriteUnknown", "StartTimeout"}
)
#: Seconds for finding a server that is ready, in addition to the time that the request may wait for a pod.
_REACHED_WITHIN = 5.0


def claims_path(namespace: str, pool: str) -> str:
    return f"/v1/pools/{quote(namespace, safe='')}/{quote(pool, safe='')}/claims"


def claim_path(claim: str) -> str:
    return f"/v1/claims/{quote(claim, safe='')}"


def pause(tries: int, said: float | None) -> float:
    """Return the seconds before the next attempt, after `tries` retries; at least `said`, the server's Retry-After."""
    seconds: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
    return seconds if said is None else max(seconds, said * random.uniform(1.0, 1.25))  # noqa: S311 - jitter


class Requesting:
    """One request. `body` has a `key` and all fields except `wait_seconds`. `timeout`: seconds."""

    def __init__(self, transport: Transport, path: str, body: Mapping[str, object], timeout: float) -> None:
        self._transport = transport
        self._path = path
        self._body = dict(body)
        self._deadline = time.monotonic() + timeout
        self._withdrawn = asyncio.Event()
        #: The answer to an attempt was lost: the attempt may have taken effect.
        self._is_uncertain = False
        #: How many attempts have failed.
        self.tries = 0

    async def run(self) -> ClaimRecord:
        """Return the claim. Raises WaggleError; then nothing stays claimed, if the server can be reached."""
        try:
            return await self._run()
        except WaggleError:
            if self._is_uncertain:
                await self._end_by_key(_AFTER_LOSS)
            raise

    async def _run(self) -> ClaimRecord:
        while True:
            left = max(0.0, self._deadline - time.monotonic())
            try:
                return await self._attempt(left)
            except WaggleError as error:
                is_down = isinstance(error, ServerUnavailableError) and error.code != "WriteRefused"
                self._is_uncertain |= isinstance(error, ServerUnavailableError) and error.uncertain
                seconds = pause(self.tries, error.retry_after)
                self.tries += 1
                is_late = time.monotonic() + seconds > self._deadline + (_REACHED_WITHIN if is_down else 0.0)
                if self._withdrawn.is_set() or is_late or not (is_down or error.code in _RETRIED_CODES):
                    raise
                await self._sleep(seconds)
                if self._withdrawn.is_set():
                    raise

    async def _attempt(self, left: float) -> ClaimRecord:
        body = {**self._body, "wait_seconds": round(left, 3)}
        return await self._transport.ask(ClaimRecord, "POST", self._path, body=body, patience=left + _LATE)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._withdrawn.wait(), seconds)
        except TimeoutError:
            return

    # -- withdrawal -----------------------------------------------------------------------------------------------

    async def withdraw(self, running: asyncio.Task[ClaimRecord]) -> None:
        """Cancel the request that `running` waits for, and release its claim if there is one. Raises nothing."""
        self._withdrawn.set()
        for seconds in _WHILE_OPEN:
            await asyncio.wait((running,), timeout=seconds)
            if running.done():
                break
            await self._end_by_key((0.0,))
        await asyncio.wait((running,))
        if not running.cancelled() and running.exception() is None:
            await release(self._transport, running.result().id, unknown=UNSEEN)
        elif running.cancelled():
            await self._end_by_key(_AFTER_LOSS)

    async def _end_by_key(self, pauses: tuple[float, ...]) -> None:
        """Cancel the request, or release the claim, with the key. There may be none, or none yet."""
        query = {"key": str(self._body["key"])}
        if "tenant" in self._body:
            query["tenant"] = str(self._body["tenant"])
        for seconds in pauses:
            await asyncio.sleep(seconds)
            try:
                await self._transport.ask(ClaimRecord, "DELETE", self._path, query=query)
            except WaggleError:
                continue
            return


async def release(
    transport: Transport, claim: str, timeout: float = 10.0, unknown: tuple[float, ...] = ()
) -> WaggleError | None:
    """Release a claim, with retries for `timeout` seconds. Return None if it has ended, else the last error.

    `unknown`: pauses before retries after 404, because a replica may not have seen another one's claim yet.
    """
    deadline, tries, is_uncertain = time.monotonic() + timeout, 0, False
    while True:
        try:
            await transport.ask(ClaimRecord, "DELETE", claim_path(claim))
        except NotFoundError as error:
            if not unknown or is_uncertain or error.status == 410:
                return None
            seconds, *rest = unknown
            unknown = tuple(rest)
            await asyncio.sleep(seconds)
        except WaggleError as error:
            is_uncertain |= isinstance(error, ServerUnavailableError) and error.uncertain
            seconds = pause(tries, error.retry_after)
            is_final = not isinstance(error, (ServerUnavailableError, ClaimTimeoutError))
            if is_final or time.monotonic() + seconds > deadline:
                return error
            tries += 1
            await asyncio.sleep(seconds)
        else:
            return None
