"""A claim that is cancelled, wherever that happens, leaves nothing claimed at the API server.

Two sweeps over one real server: the task is cancelled at its n-th suspension, for every n there is; and after a time,
in steps that cover the whole life of a claim as this machine lives it, in every state of its requests. Half of all are
cancelled twice.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Coroutine, Generator
from typing import Any

import httpx
import pytest

from extender.client import ClaimTimeoutError, Pool, Waggle
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world

#: Claims at once, of one pod or two: some of them wait.
AT_ONCE = 12
PODS = 12
#: Seconds that a claim holds its pods where it is cancelled after a time.
_HELD = 0.002


class CancelAt:
    """Awaits a coroutine, and cancels its task at the n-th suspension; the second time in the same way."""

    def __init__(self, work: Coroutine[Any, Any, None], suspensions: set[int]) -> None:
        self._work = work
        self._suspensions = suspensions
        self.seen = 0

    def __await__(self) -> Generator[Any, Any, None]:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        steps = self._work.__await__()
        value, error = None, None
        while True:
            try:
                future = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return
            value, error = None, None
            self.seen += 1
            if self.seen in self._suspensions:
                loop.call_soon(task.cancel)
            try:
                value = yield future
            except BaseException as thrown:
                error = thrown


async def hold(pool: Pool, ends: Counter[str], seconds: float) -> None:
    try:
        async with pool.claim(timeout=2, count=random.choice([1, 1, 2])):
            ends["held"] += 1
            await asyncio.sleep(seconds)
        ends["released"] += 1
    except ClaimTimeoutError:
        ends["timed out"] += 1


async def at_suspension(pool: Pool, ends: Counter[str], number: int, twice: bool) -> int:
    work = CancelAt(hold(pool, ends, 0.0), {number, number + 1} if twice else {number})

    async def task() -> None:
        await work

    await ended(asyncio.create_task(task()), ends)
    return work.seen


async def after(work: Coroutine[Any, Any, None], ends: Counter[str], seconds: float, twice: bool) -> None:
    task = asyncio.create_task(work)
    await asyncio.sleep(seconds)
    task.cancel()
    if twice:
        await asyncio.sleep(random.uniform(0, 0.003))
        task.cancel()
    await ended(task, ends)


async def ended(task: asyncio.Task[None], ends: Counter[str]) -> None:
    await asyncio.wait((task,))
    if task.cancelled():
        ends["cancelled"] += 1
    else:
        task.result()


class InTurns(httpx.AsyncBaseTransport):
    """Sends requests to the servers in turns, as a Service does with connections."""

    def __init__(self, world: ClaimWorld) -> None:
        self._ports = itertools.cycle([int(server.handle.url.rpartition(":")[2]) for server in world.servers])
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=next(self._ports))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Life:
    """How long claims live that nobody cancels, seconds: those of the last moment, as it depends on the load."""

    def __init__(self) -> None:
        self._last = deque([0.01], maxlen=20)

    async def of(self, work: Coroutine[Any, Any, None]) -> None:
        began = time.monotonic()
        await work
        self._last.append(time.monotonic() - began)

    def moment(self, share: float) -> float:
        """Return a moment of a life: 0 is its begin, 1 a while after its end."""
        return 1.5 * share * statistics.median(self._last)


async def sweep(world: ClaimWorld, points: int) -> Counter[str]:
    ends: Counter[str] = Counter()
    async with Waggle(world.server.handle.url, http=InTurns(world)) as waggle:
        pool = waggle.pool("default", "warm")
        for twice in (False, True):
            number, seen = 1, 1
            while seen >= number:
                seen = await at_suspension(pool, ends, number, twice)
                number += 1
            assert number > 4, "a claim that nobody cancels is suspended at least at its request and its release"
        turn = asyncio.Semaphore(AT_ONCE)
        life = Life()

        async def one(index: int) -> None:
            async with turn:
                if index % 8:
                    await after(hold(pool, ends, _HELD), ends, life.moment(index / points), bool(index % 2))
                else:
                    await life.of(hold(pool, ends, _HELD))

        await asyncio.gather(*(one(index) for index in random.sample(range(points), points)))
    return ends


@pytest.mark.parametrize(
    ("mode", "points"),
    [("recycle", 15)] + [pytest.param(mode, 500, marks=pytest.mark.slow) for mode in ("recycle", "detach")],
)
def test_cancelled_at_any_await_it_leaves_nothing_claimed(mode: str, points: int) -> None:
    with claim_world(pods=PODS, mode=mode) as world:
        ends = asyncio.run(sweep(world, points))
        assert world.claimed() == {}, ends
        assert ends["cancelled"] > points / 4, ends
        assert ends["held"] > points / 20, ends
        world.idle(PODS)
        conserved(world)


def conserved(world: ClaimWorld) -> None:
    for server in world.servers:
        found = server.http.get("/v1/pools/default/warm").json()
        assert found["pending"] == 0
        assert found["accepted"] == found["succeeded"] + sum(found["failed"].values())


def test_a_replica_that_has_not_seen_a_claim_yet_ends_it_all_the_same() -> None:
    with claim_world(pods=PODS, mode="recycle") as world:
        world.serve()

        async def short() -> None:
            async with Waggle(world.server.handle.url, http=InTurns(world)) as waggle:
                for _ in range(20):
                    async with waggle.pool("default", "warm").claim():
                        pass
                    assert world.claimed() == {}

        asyncio.run(short())


@pytest.mark.slow
def test_cancelled_with_two_replicas_behind_one_address_it_leaves_nothing_claimed_either() -> None:
    with claim_world(pods=PODS, mode="recycle") as world:
        world.serve()
        ends = asyncio.run(sweep(world, 300))
        eventually(lambda: world.claimed() == {}, seconds=20)
        assert ends["cancelled"] > 75, ends
        world.idle(PODS)
        conserved(world)


@pytest.mark.slow
def test_a_program_that_ends_in_the_middle_of_claims_leaves_nothing_claimed() -> None:
    """asyncio.run cancels every task there is, those of the client too."""
    with claim_world(pods=PODS, mode="recycle") as world:

        async def die(seconds: float) -> None:
            pool = Waggle(world.server.handle.url).pool("default", "warm")
            tasks = [asyncio.create_task(hold(pool, Counter(), 1.0)) for _ in range(PODS + 2)]
            await asyncio.sleep(seconds)
            del tasks

        for step in range(5):
            asyncio.run(die(step * 0.008))
            assert world.claimed() == {}, f"after {step * 8} ms"
