"""Pools of threads for pages: equal requests share a run, different kinds do not wait for each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.exceptions import HTTPException

from extender.server.views import PodView
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from extender.web.limits.pool import Pool
from tests.support.apiserver.api import eventually
from tests.support.http.fixed_runtime import Client, FixedRuntime


class Work:
    """Counts its runs; each takes until it is let go."""

    def __init__(self) -> None:
        self.runs = 0
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()

    def __call__(self) -> int:
        self.runs += 1
        run = self.runs
        self.begun.release()
        assert self.let_go.wait(20)
        return run


async def begin(work: Work) -> None:
    await asyncio.to_thread(work.begun.acquire)


def test_equal_requests_share_the_run_that_begins_after_them():
    async def scenario() -> None:
        pool, work = Pool("pages", threads=1), Work()
        first = asyncio.create_task(pool.run("a", work))
        await begin(work)
        later = [asyncio.create_task(pool.run("a", work)) for _ in range(60)]
        await asyncio.sleep(0)
        work.let_go.set()
        assert await first == 1
        assert set(await asyncio.gather(*later)) == {2}
        assert work.runs == 2

    asyncio.run(scenario())


def test_different_requests_have_runs_of_their_own():
    async def scenario() -> None:
        pool = Pool("pages", threads=1)
        assert await asyncio.gather(pool.run("a", lambda: 1), pool.run("b", lambda: 2)) == [1, 2]

    asyncio.run(scenario())


def test_no_more_run_at_once_than_there_are_threads():
    async def scenario() -> None:
        pool, work = Pool("pages", threads=2), Work()
        tasks = [asyncio.create_task(pool.run(key, work)) for key in range(5)]
        await begin(work)
        await begin(work)
        assert not await asyncio.to_thread(work.begun.acquire, True, 0.05)
        work.let_go.set()
        await asyncio.gather(*tasks)
        assert work.runs == 5

    asyncio.run(scenario())


def test_too_many_different_ones_are_refused_at_once():
    async def scenario() -> None:
        pool, work = Pool("pages", threads=1, max_pending=2), Work()
        tasks = [asyncio.create_task(pool.run(0, work))]
        await begin(work)
        tasks += [asyncio.create_task(pool.run(key, work)) for key in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException) as refused:
            await pool.run(3, work)
        work.let_go.set()
        await asyncio.gather(*tasks)
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})
        assert "too many pages" in refused.value.detail

    asyncio.run(scenario())


def test_an_error_is_everybodys_and_the_next_run_is_a_fresh_one():
    async def scenario() -> None:
        pool, outcomes = Pool("pages", threads=1), iter([ValueError("no"), None])

        def work() -> str:
            if error := next(outcomes):
                raise error
            return "yes"

        found = await asyncio.gather(*(pool.run("a", work) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [ValueError] * 3
        assert await pool.run("a", work) == "yes"

    asyncio.run(scenario())


def test_who_goes_away_ends_nobody_elses_run():
    async def scenario() -> None:
        pool, work = Pool("pages", threads=1), Work()
        gone, stays = (asyncio.create_task(pool.run("a", work)) for _ in range(2))
        await begin(work)
        gone.cancel()
        work.let_go.set()
        assert await stays == 1

    asyncio.run(scenario())


# -- what is behind the pages -----------------------------------------------------------------------------------------


class Hanging(FixedRuntime):
    """Says nothing about pods until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.looks = 0

    def pods(self, states=None) -> list[PodView]:
        self.looks += 1
        assert self.let_go.wait(20)
        return []


@pytest.fixture
def hanging() -> Iterator[tuple[Hanging, Client]]:
    runtime, settings = Hanging(), Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        yield runtime, Client(server.url)
        runtime.let_go.set()


def test_nothing_waits_behind_pages_that_hang(hanging: tuple[Hanging, Client]):
    runtime, client = hanging
    with ThreadPoolExecutor(60) as people:
        waiting = [people.submit(client.get, "/v1/inspect/pods") for _ in range(60)]
        eventually(lambda: runtime.looks == 2)
        assert {client.get(path).status for path in ("/metrics", "/livez", "/readyz", "/ui", "/")} == {200}
        runtime.let_go.set()
        assert {each.result().status for each in waiting} == {200}
        assert {each.result().text for each in waiting} == {'{"items":[]}\n'}
    assert runtime.looks < 10
