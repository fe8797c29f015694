"""The bench of `make bench-e2e` works: its smallest run measures every figure and ends well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.e2e.__main__ import main
from tests.bench.e2e.variants import variants_for


def test_the_quick_bench_measures_every_figure_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--quick", "--json", str(tmp_path / "raw.json")]) == 0
    raw = json.loads((tmp_path / "raw.json").read_bytes())
    measured = [(each["configuration"], each["variant"]) for each in raw["throughput"]]
    assert measured == [(each.configuration.name, each.name) for each in variants_for(20, 20)]
    for each in raw["throughput"]:
        for one in each["rounds"]:
            assert one["pods_per_second"] > 0
            assert ("Waggle" in one["cpu_ms"]) is each["variant"].startswith("filter")
            assert one["means_ms"]["scheduler_scheduling_algorithm_duration_seconds"] > 0
    assert min(raw["gangs"]["seconds"]) > 0
    assert "pods/s" in capsys.readouterr().out
