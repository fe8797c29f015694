"""The bench works: its smallest run, over real sockets and processes, and what it says of figures."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from algorithm.model import Node
from extender.scheduling.commands import RequeuePod
from extender.scheduling.events import Event, NodeSeen, Synced
from extender.scheduling.policy import Policy
from tests.bench import record_served
from tests.bench.__main__ import main
from tests.bench.hived.__main__ import main as hived_main
from tests.bench.hived.figures import Figure as HivedFigure
from tests.bench.hived.figures import aims as hived_aims
from tests.bench.hived.figures import show as show_hived
from tests.bench.hived.workload import DOES_NOT_FIT, KINDS
from tests.bench.plan.__main__ import main as plan_main
from tests.bench.plan.placing import SCENES
from tests.bench.replay import cost_of
from tests.bench.report import Decisions, Figure, Filter, aims, as_json, show, show_io
from tests.bench.world import QUICK
from tests.support.engine.logs import log_of, opened


def figures(*, filter_ms: float, decisions: float) -> tuple[list[Filter], list[Decisions]]:
    """The floor takes 1 ms."""
    rounds = [([filter_ms] * 3, [1.0] * 3)] * 2
    filters = [Filter("placed", 5000, items=False, load=load, rounds=rounds) for load in (False, True)]
    return filters, [Decisions(5000, [decisions])]


@pytest.mark.slow
def test_the_quick_bench_measures_every_kind_of_call_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--verbs", "--quick", "--json", str(tmp_path / "raw.json")]) == 0
    raw = json.loads((tmp_path / "raw.json").read_bytes())
    measured = {(each["answer"], each["offered"], each["items"], each["load"]) for each in raw["filters"]}
    offers = [*((count, False) for count in QUICK.names), (QUICK.items, True)]
    assert measured == {
        (kind, *offer, load) for kind in ("placed", "refused") for offer in offers for load in (False, True)
    }
    for each in raw["filters"]:
        assert [len(calls) for part in each["rounds"] for calls in part.values()] == [QUICK.calls] * 2 * QUICK.rounds
    assert all(rate > 0 for each in raw["decisions"] for rate in each["per_second"])
    assert min(raw["load"].values()) > 0
    assert "decisions per second" in capsys.readouterr().out


@pytest.mark.slow
def test_the_quick_bench_of_the_io_layers_measures_every_figure_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--io", "--quick", "--json", str(tmp_path / "raw.json")]) == 0
    figures = json.loads((tmp_path / "raw.json").read_bytes())["io"]
    assert len(figures) == 16
    assert all(value > 0 for each in figures for value in each["rounds"])
    assert "binds per second" in capsys.readouterr().out


@pytest.mark.slow
def test_the_quick_bench_of_plans_measures_every_figure_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan_main(["--quick", "--json", str(tmp_path / "raw.json")]) == 0
    found = json.loads((tmp_path / "raw.json").read_bytes())
    assert [each["scene"] for each in found["plans"]] == list(SCENES)
    assert [each["runs"] for each in found["plans"]] == [0, 20, 0, 0, 20]
    assert [each["waits"] for each in found["plans"]] == [0, 0, 20, 20, 0]
    assert len(found["graphs"]) == 5
    assert min(found["server"]["beside"]) > 0
    assert "beside a plan" in capsys.readouterr().out


@pytest.mark.slow
def test_the_bench_of_recordings_measures_both_servers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_served, "_PAUSE", 0.3)
    monkeypatch.setattr(record_served, "_WARM_UP", 2)
    record_served.compare([record_served.Offer("20 of 50, mixed", 20, "mixed")], calls=5, rounds=1, nodes=50)
    *_, row = capsys.readouterr().out.splitlines()
    figures = [float(figure) for figure in re.findall(r"([0-9.]+) [µm]s", row)]
    assert (row.startswith("20 of 50, mixed"), len(figures)) == (True, 8)
    assert min(figures) > 0


@pytest.mark.slow
def test_the_quick_bench_of_hived_measures_every_figure_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hived_main(["--quick", "--json", str(tmp_path / "raw.json")]) == 0
    figures = json.loads((tmp_path / "raw.json").read_bytes())["figures"]
    kinds = {(each["what"], each["job"]) for each in figures if each["end_to_end"]}
    expected = {("filter first", kind) for kind in [*KINDS, DOES_NOT_FIT]} | {("GET clusterstatus", ""), ("fill", "")}
    assert expected <= kinds
    assert len([each for each in figures if not each["end_to_end"]]) == 26
    assert all(ms >= 0 for each in figures for ms in each["ms"])
    assert "original's p50" in capsys.readouterr().out


def test_hived_is_held_against_the_original_and_against_growth() -> None:
    out = StringIO()
    figures = [
        HivedFigure(1000, 4, "schedule first", "1x1", [1.0]),
        HivedFigure(4000, 4, "schedule first", "1x1", [2.1]),
        HivedFigure(100, 4, "filter first", "1x1", [99.0], end_to_end=True),
        HivedFigure(500, 4, "filter first", "1x1", [1.0, 1.2, 9.0], end_to_end=True),
        HivedFigure(500, 3, "filter first", "1x1", [99.0], end_to_end=True),
    ]
    show_hived(Console(file=out, width=160), figures)
    assert [each.original is not None for each in figures] == [True, True, True, True, False]
    assert "met     500 machines: filter first, 1x1, ms: 1.20 (aim: at most 1.34)" in out.getvalue()
    assert "MISSED  schedule first, 1x1, 4 levels: 4,000 machines over 1,000: 2.10 (aim: at most 2)" in out.getvalue()
    assert len(hived_aims(figures)) == 2


def test_a_figure_of_the_io_layers_is_held_against_its_aim() -> None:
    out = StringIO()
    figures = [Figure("met", [1.0, 2.0, 9.0], most=3.0), Figure("missed", [1.0], value=3.1, most=3.0)]
    show_io(Console(file=out, width=120), [*figures, Figure("without aim", [1.0])])
    assert [each.aim is not None and each.aim.met for each in figures] == [True, False]
    assert "MISSED  missed: 3.10 (aim: at most 3)" in out.getvalue()


def test_each_aim_is_held_against_its_figure() -> None:
    assert [aim.met for aim in aims(*figures(filter_ms=2.0, decisions=1000.0))] == [True, True, True]
    assert [aim.met for aim in aims(*figures(filter_ms=2.1, decisions=999.0))] == [False, True, False]
    assert [aim.met for aim in aims(*figures(filter_ms=10.1, decisions=1000.0))] == [False, False, True]


def test_the_aims_are_those_of_5000_names() -> None:
    filters = [Filter("placed", 1000, items=False, load=False), Filter("placed", 5000, items=True, load=False)]
    assert aims(filters, [Decisions(500, [1.0])]) == []


def test_a_missed_aim_is_printed_and_written() -> None:
    filters, decisions = figures(filter_ms=3.0, decisions=1000.0)
    out = StringIO()
    show(Console(file=out, width=120), filters, decisions, (500.0, 100.0))
    assert "MISSED  p50 over the floor's, placed, 5,000 NodeNames: 3.00 (aim: at most 2)" in out.getvalue()
    assert [aim["met"] for aim in as_json(filters, decisions, (500.0, 100.0))["aims"]] == [False, True, True]


def test_the_bench_of_replays_measures_reading_deciding_and_both_together(tmp_path: Path) -> None:
    heard = [(NodeSeen(Node(name=f"n{number}", uid=f"n{number}")), float(number), []) for number in range(50)]
    cost = cost_of(opened(log_of("packing", Policy(), heard), tmp_path), rounds=3)
    assert (cost.events, cost.seconds) == (50, 49.0)
    assert min(cost.reading, cost.deciding, cost.replay) > 0
    assert cost.times == pytest.approx(49e6 / (50 * cost.replay))


def test_the_bench_of_replays_refuses_a_log_that_is_decided_differently(tmp_path: Path) -> None:
    heard: list[tuple[Event, float, list[Any]]] = [(Synced(), 0.0, [RequeuePod("default", "p", "u")])]
    with pytest.raises(SystemExit, match="event 1 is decided differently"):
        cost_of(opened(log_of("packing", Policy(), heard), tmp_path), rounds=1)
