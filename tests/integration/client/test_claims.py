"""The Python client against a real server of claims on a socket."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from extender.client import (
    BadRequestError,
    Claim,
    ClaimLostError,
    ClaimTimeoutError,
    NotFoundError,
    ServerUnavailableError,
    SyncWaggle,
    Waggle,
)
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world


@pytest.fixture(scope="module")
def shared() -> Iterator[ClaimWorld]:
    """For tests that leave the pool as it was: six idle pods, which return to it."""
    with claim_world(pods=6, mode="recycle") as world:
        yield world


@pytest.fixture
def world(shared: ClaimWorld) -> Iterator[ClaimWorld]:
    yield shared
    shared.idle(6)
    assert shared.claimed() == {}


def run(world: ClaimWorld, use: Callable[[Waggle], Awaitable[Any]]) -> Any:
    async def with_client() -> Any:
        async with Waggle(world.server.handle.url) as waggle:
            return await use(waggle)

    return asyncio.run(with_client())


def test_a_block_has_a_pod_and_gives_it_back(world: ClaimWorld) -> None:
    async def use() -> None:
        async with Waggle(world.server.handle.url).pool("default", "warm").claim(labels={"job": "j"}) as pod:
            assert list(world.claimed().values()) == [[pod.name]]
            real = world.api.get(f"pods/{pod.name}").json()
            assert (real["metadata"]["uid"], real["status"]["podIP"]) == (pod.uid, pod.address)
            assert real["metadata"]["labels"]["job"] == "j"
            assert pod.node == real["spec"]["nodeName"]
            assert pod.lost is None
        assert world.claimed() == {}

    asyncio.run(use())


def test_a_block_that_raises_gives_its_pod_back(world: ClaimWorld) -> None:
    async def use(waggle: Waggle) -> None:
        async with waggle.pool("default", "warm").claim():
            raise KeyError("x")

    with pytest.raises(KeyError):
        run(world, use)
    assert world.claimed() == {}


def test_a_gang_has_all_its_pods_or_none(world: ClaimWorld) -> None:
    async def use(waggle: Waggle) -> None:
        pool = waggle.pool("default", "warm")
        async with pool.claim(count=4) as gang:
            assert len({pod.name for pod in gang.pods}) == 4
            with pytest.raises(ValueError, match="4 pods"):
                gang.pod.name  # noqa: B018 - it raises
            with pytest.raises(ClaimTimeoutError) as caught:
                await pool.claim(count=3, timeout=0).__aenter__()
            assert (caught.value.code, caught.value.status) == ("NoIdlePod", 429)
            assert (await pool.status()).claimed == 4
        assert (await waggle.pools("default"))[0].name == "warm"

    run(world, use)


def test_errors_have_types_and_codes(world: ClaimWorld) -> None:
    async def use(waggle: Waggle) -> None:
        pool = waggle.pool("default", "warm")
        for claim, kind, code, field in [
            (waggle.pool("default", "wram").claim(), NotFoundError, "UnknownPool", None),
            (pool.claim(count=100), BadRequestError, "TooManyPods", "count"),
            (pool.claim(priority=10**6), BadRequestError, "BadRequest", "priority"),
            (pool.claim(requires={"no": "such"}, timeout=0.05), ClaimTimeoutError, "DeadlineExceeded", None),
        ]:
            with pytest.raises(kind) as caught:
                await claim.__aenter__()
            assert (caught.value.code, caught.value.field) == (code, field)
        with pytest.raises(NotFoundError):
            await waggle.get("c-nobody")
        await waggle.release("c-nobody")

    run(world, use)


async def _ended(waggle: Waggle, claim: str) -> None:
    """Ask for a released claim until a watch has shown that its pod is gone; then that raises NotFoundError."""
    while (await waggle.get(claim)).state == "ending":
        await asyncio.sleep(0.01)


def test_one_key_is_one_claim(world: ClaimWorld) -> None:
    async def use(waggle: Waggle) -> None:
        pool = waggle.pool("default", "warm")
        async with pool.claim(key="job-7", lease=100) as first:
            first.keep()
        async with pool.claim(key="job-7", lease=100) as again:
            assert (again.id, again.pods) == (first.id, first.pods)
        with pytest.raises(NotFoundError):
            await asyncio.wait_for(_ended(waggle, first.id), 10)

    run(world, use)


def test_a_claim_is_renewed_as_long_as_the_block_runs(world: ClaimWorld) -> None:
    async def use(waggle: Waggle) -> None:
        async with waggle.pool("default", "warm").claim(lease=1.5) as pod:
            first = pod.record.expires
            await asyncio.sleep(2.5)
            assert pod.record.expires > first
            assert world.claimed()
            pod.check()

    run(world, use)


def test_a_claim_that_somebody_ended_is_lost_and_said_to_be(world: ClaimWorld) -> None:
    told: list[ClaimLostError] = []

    async def use(waggle: Waggle) -> None:
        async with waggle.pool("default", "warm").claim(lease=0.6, on_lost=told.append) as pod:
            world.server.http.delete(f"/v1/claims/{pod.id}")
            lost = await asyncio.wait_for(pod.wait_lost(), 10)
            assert pod.lost is lost
            with pytest.raises(ClaimLostError):
                pod.check()

    with pytest.raises(ClaimLostError) as caught:
        run(world, use)
    assert told == [caught.value]
    assert caught.value.status in (404, 410)


def test_threads_have_the_same(world: ClaimWorld) -> None:
    waggle = SyncWaggle(world.server.handle.url)
    with waggle.pool("default", "warm").claim(lease=1.5) as pod, waggle.pool("default", "warm").claim(count=2) as gang:
        assert sorted(map(len, world.claimed().values())) == [1, 2]
        first = pod.record.expires
        assert waggle.get(gang.id).pods == gang.pods
        # Pods of an earlier claim are counted until a watch has shown that they are gone.
        eventually(lambda: waggle.pool("default", "warm").status().claimed == 3)
        eventually(lambda: pod.record.expires > first, seconds=5)
    assert world.claimed() == {}
    assert waggle.pools()[0].namespace == "default"
    eventually(lambda: not any(each.name == "waggle-client" for each in threading.enumerate()), seconds=5)
    with pytest.raises(ClaimTimeoutError), waggle.pool("default", "warm").claim(count=7, timeout=0):
        pass


class Lossy(httpx.AsyncBaseTransport):
    """Drops the answers of the first requests of a method: they arrive, and nobody hears of it."""

    def __init__(self, method: str, times: int) -> None:
        self.method, self.times = method, times
        self.inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        if request.method == self.method and self.times:
            self.times -= 1
            await answer.aread()
            raise httpx.ReadError("the connection broke", request=request)
        return answer

    async def aclose(self) -> None:
        await self.inner.aclose()


def test_a_lost_answer_costs_no_second_pod(world: ClaimWorld) -> None:
    async def use() -> None:
        async with Waggle(world.server.handle.url, http=Lossy("POST", 2)).pool("default", "warm").claim() as pod:
            assert list(world.claimed().values()) == [[pod.name]]

    before = world.pool()["succeeded"]
    asyncio.run(use())
    assert world.pool()["succeeded"] == before + 1


def test_what_a_lost_answer_claimed_is_given_back_when_there_is_no_more_time(world: ClaimWorld) -> None:
    async def use() -> None:
        await (
            Waggle(world.server.handle.url, http=Lossy("POST", 10**6))
            .pool("default", "warm")
            .claim(timeout=0)
            .__aenter__()
        )

    with pytest.raises(ServerUnavailableError):
        asyncio.run(use())
    assert world.claimed() == {}


def test_a_release_whose_answer_is_lost_is_done(world: ClaimWorld) -> None:
    async def use() -> None:
        async with Waggle(world.server.handle.url, http=Lossy("DELETE", 1)).pool("default", "warm").claim():
            pass

    asyncio.run(use())
    assert world.claimed() == {}


def test_no_server_is_said_in_time() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ServerUnavailableError) as caught, SyncWaggle(url).pool("a", "b").claim(timeout=0):
            pass
        assert url in str(caught.value)
        assert time.monotonic() - began < 15
    with pytest.raises(ValueError, match="http"):
        Waggle("localhost:9096")


def test_a_claim_survives_its_server() -> None:
    with claim_world(pods=2, mode="recycle") as world:
        first = world.server
        port = first.handle.url.rpartition(":")[2]

        async def use() -> Claim:
            async with Waggle(first.handle.url).pool("default", "warm").claim(lease=3) as pod:
                expires = pod.record.expires
                await asyncio.to_thread(first.stop)
                world.servers.clear()
                await asyncio.to_thread(world.serve, port=int(port))
                while pod.record.expires == expires:
                    pod.check()
                    await asyncio.sleep(0.05)
                return pod

        asyncio.run(asyncio.wait_for(use(), 30))
        assert world.claimed() == {}
