"""The bench of vpods works, its workload is the original's, and its aims are held against its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.vpods.__main__ import POLICIES, QUICK, main
from tests.bench.vpods.decisions import STEPS, Decisions, measure
from tests.bench.vpods.figures import AIMED_AT, MOST_US, Figures, aims
from tests.bench.vpods.moves import Moves, fewest_moves
from tests.bench.vpods.served import Served
from tests.bench.vpods.start import Start
from tests.bench.vpods.workload import Draws, Size, recorded

MOVES = Moves("balanced", 100, after_leader=0, after_pod=7, minimum=7, uneven=0)
START = Start(10, 5, 1.0, 0)
SERVED = Served(10, 5, seconds=3.0, cpu=9.0, mebibytes=300.0, writes=0)


@pytest.mark.slow
def test_the_quick_bench_measures_every_row(tmp_path: Path) -> None:
    assert main(["--quick", "--alone", "--check", "--json", str(tmp_path / "raw.json")]) == 0
    raw = json.loads((tmp_path / "raw.json").read_bytes())
    assert [each["policy"] for each in raw["decisions"]] == [each["policy"] for each in raw["moves"]] == [*POLICIES]
    for each in raw["decisions"]:
        assert each["whole"].keys() == each["original_us"].keys() == {*STEPS}
        assert all(
            0 < sent <= whole
            for step in STEPS
            for sent, whole in zip(each["sent"][step], each["whole"][step], strict=True)
        )
    assert raw["decisions"][0]["as_recorded"] is True
    assert all(aim["met"] for aim in raw["aims"])


@pytest.mark.slow
def test_the_quick_bench_starts_a_server(tmp_path: Path) -> None:
    assert main(["--quick", "--json", str(tmp_path / "raw.json")]) == 0
    served = json.loads((tmp_path / "raw.json").read_bytes())["served"]
    assert served["writes"] == 0
    assert min(served["seconds"], served["cpu"], served["mebibytes"]) > 0


#: A second of CPU each from 50 pods on.
FEW = [size for size in recorded() if size.vpods == 100 and size.most < 200 and size.pods < 50]


@pytest.mark.parametrize("size", FEW)
def test_head_decides_as_the_original_did(size: Size) -> None:
    assert measure(size, "head", rounds=1).as_recorded


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [size for size in recorded() if size not in FEW and (size.vpods >= 100 or size.most == 200)],
)
def test_head_decides_as_the_original_did_on_large_sets(size: Size) -> None:
    assert measure(size, "head", rounds=1).as_recorded


@pytest.mark.slow
def test_the_workload_is_the_recorded_one() -> None:
    assert len(recorded()) == 27
    for size in (Size(10, 200, 200), Size(1000, 50, 20)):
        draws = Draws(size)
        assert all(1 <= draws.next(size.most) <= size.most for _ in range(size.vpods))
    assert AIMED_AT.capacity == 1000
    assert Size(10, 50, 20).capacity == 4


@pytest.mark.parametrize(
    ("numbers", "pods", "moves"),
    [([3, 3], 3, 2), ([2, 2, 1], 3, 0), ([8, 1, 1], 3, 4), ([1] * 5, 6, 0), ([], 4, 0), ([9], 10, 8), ([5, 5], 1, 0)],
)
def test_the_fewest_moves(numbers: list[int], pods: int, moves: int) -> None:
    assert fewest_moves(numbers, pods) == moves


def test_each_aim_is_held_against_its_figure() -> None:
    decisions = Decisions(AIMED_AT, "balanced")
    for step in STEPS:
        decisions.whole[step].append(MOST_US.get(step, 0.0) / 1e6)
    figures = Figures([decisions], [MOVES], START)
    assert all(aim.met for aim in aims(figures))
    assert len(aims(figures)) == len(MOST_US) + 5
    for step in MOST_US:
        slow = Decisions(AIMED_AT, "balanced", whole=decisions.whole | {step: [1.0]})
        assert [aim.met for aim in aims(replace(figures, decisions=[slow]))].count(False) == 1
    for wrong in (replace(MOVES, after_leader=1), replace(MOVES, after_pod=8), replace(MOVES, uneven=1)):
        assert [aim.met for aim in aims(replace(figures, moves=[wrong]))].count(False) == 1
    for poor in (replace(SERVED, seconds=3.1), replace(SERVED, mebibytes=301.0), replace(SERVED, writes=1)):
        assert [aim.met for aim in aims(replace(figures, served=poor))].count(False) == 1
    assert all(aim.met for aim in aims(replace(figures, served=SERVED)))
    for late in (replace(START, seconds=3.1), replace(START, writes=1)):
        assert [aim.met for aim in aims(replace(figures, start=late))].count(False) == 1


@pytest.mark.slow
def test_other_placements_than_the_originals_miss_an_aim() -> None:
    figures = Figures([replace(measure(QUICK, "head", rounds=1), digest="other")], [], START)
    assert [aim.met for aim in aims(figures)] == [False, True, True]
