"""Whether a caller is there when its answer is sent."""

from __future__ import annotations

import asyncio

from starlette.types import Message

from extender.web.claims.calls import has_disconnected


def test_nothing_happens_between_the_look_at_the_connection_and_what_is_sent_next() -> None:
    async def run() -> list[bool]:
        gone = asyncio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        asyncio.get_running_loop().call_soon(gone.set)  # the end of the connection is noticed next
        found = [has_disconnected(receive), gone.is_set()]
        await asyncio.sleep(0)
        return [*found, has_disconnected(receive)]

    assert asyncio.run(run()) == [False, False, True]


def test_a_caller_that_still_sends_is_there() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    assert not has_disconnected(receive)
