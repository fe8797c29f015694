"""Thread pools that compute pages. No kind of page waits behind another kind, and equal requests share a run.

    run(key) --an equal one waits to begin?--yes--> its result
                 |no
               waits for a thread of this pool --> computes --> the result, for all who joined before it began

Promises: at most `threads` threads run at once; at most `max_pending` different runs wait, and further ones are
refused at once; a run begins after each request that it answers, so no answer is older than its question.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.exceptions import HTTPException
from starlette.requests import Request

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

#: Different runs that may wait for a thread.
MOST_WAITING: Final = 64


class Pool:
    """A pool for use in one event loop. A refusal says that there are too many `name`."""

    def __init__(self, name: str, threads: int, max_pending: int = MOST_WAITING) -> None:
        self._name = name
        self._max_pending = max_pending
        self._slots = CapacityLimiter(threads)
        #: A run has a slot of this pool already, so anyio's limiter need not count it.
        self._any = CapacityLimiter(math.inf)
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, key: Hashable, work: Callable[[], _Result]) -> _Result:
        """Run `work` in the pool, or join an equal request that has not begun; return or raise its result.

        Raises HTTPException (503) if too many different runs wait.
        """
        task: asyncio.Task[_Result] | None = self._waiting.get(key)
        if task is None:
            if len(self._waiting) >= self._max_pending:
                text = f"too many {self._name} are asked for at once; try again"
                raise HTTPException(503, text, {"Retry-After": "1"})
            task = self._waiting[key] = asyncio.get_running_loop().create_task(self._run(key, work))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _run(self, key: Hashable, work: Callable[[], _Result]) -> _Result:
        async with self._slots:
            del self._waiting[key]
            return await anyio.to_thread.run_sync(work, limiter=self._any)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, even if all who asked have disconnected

    def page(self, compute: Callable[_Parameters, _Result]) -> Callable[_Parameters, Awaitable[_Result]]:
        """Decorate a route: it runs in this pool, once for requests with equal parameters.

        If a parameter is the request itself, the route may read only Accept-Encoding of it.
        """

        @functools.wraps(compute)
        async def route(*args: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
            key = (compute.__name__, *(repr(_essence(value)) for value in (*args, *named.values())))
            return await self.run(key, functools.partial(compute, *args, **named))

        assert not inspect.iscoroutinefunction(compute)
        return route


def _essence(value: object) -> object:
    if isinstance(value, Request):
        return value.headers.get("accept-encoding")
    return value
