"""The engine of claims hangs: /livez fails, as it does for the engine of pods, and scrapes still say why."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from extender.claims.engine import ClaimEngine
from extender.claims.events import Synced
from extender.server.claims import metrics
from extender.server.claims.runtime import ClaimRuntime
from extender.server.guard import SLOW

HANG = 30.0


class Hanging:
    """A runtime with the clock of the test, whose engine is looked at for as long as the test likes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.runtime = ClaimRuntime(ClaimEngine(), lambda _: None, clock=lambda: self.now, hang=HANG)
        self.runtime.handle(Synced())
        self.began, self.ends = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=lambda: self.runtime.look(self._hang), name="the-caller")

    def _hang(self, _engine: ClaimEngine, _now: float) -> None:
        self.began.set()
        assert self.ends.wait(30)

    def hang(self) -> None:
        self.thread.start()
        assert self.began.wait(30)
        self.runtime.watchdog.look()

    def end(self) -> None:
        self.ends.set()
        self.thread.join()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    if made.thread.is_alive():
        made.end()


def test_livez_fails_while_the_engine_hangs_and_the_log_says_where(hanging: Hanging) -> None:
    runtime = hanging.runtime
    hanging.hang()
    hanging.now += SLOW
    with capture_logs() as lines:
        runtime.watchdog.look()
    assert runtime.liveness().ready
    assert "the claims engine has been busy" in runtime.readiness().detail
    assert [(line["event"], line["thread"]) for line in lines] == [("slow: the claims engine is busy", "the-caller")]
    assert "_hang" in lines[0]["exception"]
    hanging.now += HANG
    with capture_logs() as lines:
        runtime.watchdog.look()
    assert [line["event"] for line in lines] == ["the claims engine hangs, /livez fails"]
    assert not runtime.liveness().ready
    hanging.end()
    runtime.watchdog.look()
    assert runtime.liveness().ready


def test_a_scrape_is_answered_while_the_engine_hangs(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_PATIENCE", 0.01)
    hanging.hang()
    hanging.now += SLOW + 1
    hanging.runtime.watchdog.look()
    shown = {each.name: each.samples for each in metrics.claim_metrics(hanging.runtime)}
    assert shown["waggle_claims_engine_busy_seconds"] == [({}, SLOW + 1)]
    assert "waggle_claims_accepted_total" not in shown
    hanging.end()
    assert "waggle_claims_accepted_total" in {each.name for each in metrics.claim_metrics(hanging.runtime)}
