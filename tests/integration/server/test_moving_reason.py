"""An algorithm whose reason is another one each time: kube-scheduler tries the pod a few times, not a thousand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from algorithm.interface import Phase, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin
from extender.scheduling.verbs.steady import MOST_CHANGES
from tests.support.cluster.local_cluster import world
from tests.support.engine.plain_algorithm import PlainAlgorithm


class Countdown(PlainAlgorithm):
    """Says how long a pod still has to wait, which is the mistake."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(100_000, -1)

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        why = reason(Code.OTHER, detail=f"try again in {next(self.numbers)} ms")
        by_node = dict.fromkeys(suggested_nodes, why) if pod.name == "by-node" else {}
        return Wait(why, by_node)


class NoSettings(BaseModel):
    pass


PLUGIN = Plugin(settings=NoSettings, create=lambda _: Countdown())


@pytest.fixture
def countdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the installed algorithm."""
    info = tmp_path / "countdown-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: countdown\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[waggle.algorithms]\ncountdown = {__name__}:PLUGIN\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "countdown"


@pytest.mark.parametrize("name", ["whole", "by-node"])
def test_a_reason_that_moves_costs_a_bounded_number_of_attempts(countdown: str, name: str) -> None:
    with world(nodes=2, scheduler=True, algorithm={"name": countdown}) as w:
        w.pod(name)
        w.until(lambda: w.waggle.counted("unsteady"))
        w.settle()
        attempts = len(w.scheduler.attempts(f"default/{name}"))
        assert MOST_CHANGES < attempts <= MOST_CHANGES + 3
        assert "try again in" in w.message(name)

        with capture_logs() as lines:
            w.waggle.runtime.watchdog.look()
            w.waggle.runtime.watchdog.look()
        told = [line for line in lines if line["event"] == "a reason keeps changing"]
        assert len(told) <= 1  # the watchdog's own thread may have been first
        assert "waggle_unsteady_refusals_total" in w.waggle.client.get("/metrics").text
        assert w.waggle.client.get("/v1/inspect/algorithm").json["faults"] == 0
