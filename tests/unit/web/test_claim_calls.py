"""Whether a caller is there when its answer is sent."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import Answered, PodSeen, ReleaseAsked, RenewAsked
from extender.claims.records import ClaimMark, WarmPod
from extender.server.claims.runtime import ClaimRuntime
from extender.web.claims.calls import Calls, has_disconnected


def test_nothing_happens_between_the_look_at_the_connection_and_what_is_sent_next() -> None:
    async def run() -> list[bool]:
        gone = asyncio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        asyncio.get_running_loop().call_soon(gone.set)  # the end of the connection is noticed next
        found = [has_disconnected(Request({"type": "http"}, receive)), gone.is_set()]
        await asyncio.sleep(0)
        return [*found, has_disconnected(Request({"type": "http"}, receive))]

    assert asyncio.run(run()) == [False, False, True]


@pytest.mark.parametrize("call", [ReleaseAsked("r", "c"), RenewAsked("r", "c", lease_seconds=60.0)])
def test_a_call_that_outlives_an_orderly_stop_is_told_so_and_is_no_error_of_the_server(
    call: ReleaseAsked | RenewAsked,
) -> None:
    runtime = ClaimRuntime(ClaimEngine(), lambda _: None, clock=lambda: 0.0)  # the API server does not answer
    mark = ClaimMark(claim="c", pool="warm", expires=10.0)
    runtime.handle(PodSeen(WarmPod(uid="u", namespace="default", name="p", resource_version="1", node="n", mark=mark)))

    async def run() -> Answered:
        task = asyncio.ensure_future(Calls(runtime).finished(call))
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()  # as uvicorn does with what has not ended in time
        return await task

    answer = asyncio.run(run())
    assert (answer.code, answer.code.status) == (ClaimCode.SHUTTING_DOWN, 503)


def test_a_caller_that_still_sends_is_there() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    assert not has_disconnected(Request({"type": "http"}, receive))
