from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.kube.informers import reflector
from extender.kube.informers.loop_reader import LoopReader
from tests.support.http.loop_thread import LoopThread


@pytest.fixture(params=["thread", "loop"])
def read_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Reflectors read their watches in their threads, or in the event loop of another one."""
    if request.param == "thread":
        yield "thread"
        return
    with LoopThread() as host:
        reader = LoopReader()
        reader.enter_loop(host.loop)
        monkeypatch.setattr(reflector, "LoopReader", lambda: reader)
        yield "loop"
        reader.leave_loop()
