"""The bench of claims works, and its aims are held against its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.claims.__main__ import BUSY, REPLICAS, STREAM, aims, main
from tests.bench.claims.alone import STAGES, Life
from tests.bench.claims.simulation import Result


@pytest.mark.slow
def test_the_quick_bench_measures_every_row(tmp_path: Path) -> None:
    assert main(["--quick", "--json", str(tmp_path / "raw.json")]) == 0
    raw = json.loads((tmp_path / "raw.json").read_bytes())
    assert [set(each) for life in raw["alone"] for each in life["rounds"]] == [set(STAGES)] * 4
    assert {each["policy"] for each in raw["simulated"]} == {"waggle", "source", "naive"}
    for each in raw["simulated"]:
        assert each["claimed"] > 0
        assert each["doubles"] == each["failed"] == 0
    assert len(raw["aims"]) - len(raw["real"]) // 2 == 12  # one for each mode, with two clients, if that can run


def test_each_aim_is_held_against_its_figure() -> None:
    slow, fast = 1 / 25_000, 1 / 35_000
    for seconds, met in ((slow, False), (fast, True)):
        [aim] = aims([Life(0, [{"asked": seconds}]), Life(256, [{"asked": slow}])], [])
        assert aim.met is met
    for setting, milliseconds, met in ((STREAM, 60, True), (STREAM, 70, False), (BUSY, 99, True), (BUSY, 101, False)):
        result = Result("waggle", setting, latencies=[milliseconds / 1e3] * 5)
        assert [aim.met for aim in aims([], [result])] == [met, True]
        assert aims([], [replace(result, policy="naive")]) == []
    for conflicts, met in ((2, True), (3, False)):
        result = Result("waggle", REPLICAS, latencies=[0.1] * 100, conflicts=conflicts, doubles=1)
        assert [aim.met for aim in aims([], [result])] == [met, False]
