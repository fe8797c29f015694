"""An algorithm that does wrong is named where people look: log, metric, `/readyz`, page, each with how to replay it.

A whole server with an installed plug-in that does each wrong thing for a pod of that name.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs
from typer.testing import CliRunner

from algorithm.interface import Bind, Phase, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin
from extender.cli import app
from extender.scheduling.faults import FaultKind
from extender.scheduling.verbs.steady import MOST_CHANGES
from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.http.browser import ABSENT, CHROMIUM, Browser
from tests.support.http.page import show
from tests.support.installed import install

#: Seconds. On a machine that others use, too, any other call may take a third of one.
SLOW_SECONDS = 1.0
#: What the algorithm does for a pod of this name, the event of the log line, and what /readyz and the page say: how
#: often, too, which is more than once if somebody asks for an explanation meanwhile.
WRONG = {
    "raises": (FaultKind.RAISED, "the algorithm failed", "algorithm faulty failed "),
    "outside": (
        FaultKind.BROKE_CONTRACT,
        "the algorithm broke its contract",
        "algorithm faulty broke its contract ",
    ),
    "moves": (FaultKind.UNSTEADY_REASON, "a reason keeps changing", "algorithm faulty kept changing a reason "),
    "slow": (FaultKind.SLOW, "the algorithm is slow", "algorithm faulty was slow "),
}


class Faulty(PlainAlgorithm):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        match pod.name:
            case "raises":
                raise KeyError(pod.name)
            case "outside":
                return Bind("n1")
            case "moves":
                return Wait(reason(Code.OTHER, detail=f"try again in {next(self.numbers)} ms"))
            case "slow":
                time.sleep(1.2 * SLOW_SECONDS)
        return Wait(reason(Code.NO_NODE_FITS))

    def page(self, path: str) -> object:
        if path == "exits":
            sys.exit("bye")
        if path == "stops":
            raise StopIteration("bye")
        return {"state": {}}[path]


class NoSettings(BaseModel):
    pass


PLUGIN = Plugin(settings=NoSettings, create=lambda _: Faulty())


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """A server with this algorithm."""
    install(tmp_path, monkeypatch, faulty=f"{__name__}:PLUGIN")
    with world(nodes=2, algorithm={"name": "faulty"}, server={"port": 0, "slow_seconds": SLOW_SECONDS}) as w:
        w.may_count = {"waggle_algorithm_faults_total"}
        yield w


def do_wrong(w: LocalCluster, name: str) -> int:
    """Have it asked about the pod of this name. Returns the number of the last event."""
    w.pod(name)
    for _ in range(MOST_CHANGES + 2 if name == "moves" else 1):
        w.filter(name, ["n0"])
    return w.waggle.machine.sequence


def all_replays(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"waggle replay \S+ --at (\d+)", text)]


@pytest.mark.parametrize("name", WRONG)
def test_each_kind_is_named_in_log_metric_and_readyz(faulty: LocalCluster, name: str) -> None:
    kind, event, said = WRONG[name]
    client = faulty.waggle.client
    with capture_logs() as lines:
        last = do_wrong(faulty, name)
        faulty.until(lambda: any(line["event"] == event for line in lines))
    line = next(line for line in lines if line["event"] == event)
    assert (line["algorithm"], line["subject"]) == ("faulty", f"pod default/{name}")
    assert last - 3 <= line["number"] <= last
    assert all_replays(line["replay"]) == [line["number"]]

    # On a busy machine the client may ask twice: then the last one is shown, and the first one was logged.
    sample = rf'waggle_algorithm_faults_total{{algorithm="faulty",kind="{kind}"}} [12]\.0'
    assert re.search(sample, client.get("/metrics").text)

    detail = client.get("/readyz").json["detail"]
    assert said in detail
    assert f"(pod default/{name})" in detail
    assert any(line["number"] <= number <= last for number in all_replays(detail))

    (shown,) = [each for each in client.get("/v1/inspect/algorithm").json["lastOfEachKind"] if each["kind"] == kind]
    assert shown["subject"] == f"pod default/{name}"
    assert line["number"] <= shown["event"] <= last
    assert all_replays(shown["replay"]) == [shown["event"]]


@pytest.mark.slow
def test_the_command_shows_the_moment_at_which_it_went_wrong(faulty: LocalCluster) -> None:
    do_wrong(faulty, "slow")
    do_wrong(faulty, "raises")
    fault = faulty.waggle.client.get("/v1/inspect/algorithm").json["lastFault"]
    program, *arguments = shlex.split(fault["replay"], comments=True)
    assert program == "waggle"

    def shown() -> str:
        done = CliRunner().invoke(app, [*arguments, "--pod", "default/raises"])
        return done.output if done.exit_code == 0 else ""  # the recorder may not have written it yet

    moment = faulty.until(shown)
    assert f"after event {fault['event']}; algorithm faulty" in moment
    assert "scheduling algorithm failed: KeyError: 'raises'" in moment


def test_a_page_of_its_own_that_fails_is_named_on_the_page_for_people(faulty: LocalCluster) -> None:
    client = faulty.waggle.client
    pieces = client.get("/v1/inspect/map").json["pieces"]
    assert any("nodes" in piece for piece in pieces.values())
    (fault,) = client.get("/v1/inspect/algorithm").json["lastOfEachKind"]
    assert (fault["call"], fault["text"]) == ("page", "KeyError: 'cells'")


@pytest.mark.parametrize(("path", "said"), [("exits", "SystemExit: bye"), ("stops", "StopIteration: bye")])
def test_a_page_that_would_end_the_server_costs_that_page_only(faulty: LocalCluster, path: str, said: str) -> None:
    client = faulty.waggle.client
    answer = client.get(f"/v1/inspect/{path}")
    assert (answer.status, answer.json["error"]) == (500, f"the algorithm failed to make this page: {said}")
    assert 'waggle_algorithm_faults_total{algorithm="faulty",kind="raised"} 1.0' in client.get("/metrics").text
    assert f"page: {said}" in client.get("/readyz").json["detail"]
    faulty.pod("p")
    assert faulty.filter("p", ["n0"]) is not None


@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)
def test_the_page_names_it_with_all_that_it_does(faulty: LocalCluster, browser: Browser) -> None:
    for name in WRONG:
        do_wrong(faulty, name)
    show(browser, faulty.waggle.url)
    browser.wait("document.body.dataset.connection === 'warned'")
    text = browser.text("#faults")
    for _, _, said in WRONG.values():
        assert said in text
    assert len(all_replays(text)) == len(WRONG)
    browser.open("about:blank")
