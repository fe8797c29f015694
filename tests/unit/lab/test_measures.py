"""Sums over jobs, by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extender.lab.measures import MOST_TENANTS, OTHERS, jain, measures, size_class, slowdown, spread
from extender.lab.results import Group, JobResult, JobState, Measures, Spread
from extender.lab.series import SeriesMaker


def done(name: str, *, arrival: float, start: float, end: float, tenant: str = "", gpu_milli: int = 1000) -> JobResult:
    return JobResult(
        name=name,
        tenant=tenant,
        gpu_milli=gpu_milli,
        arrival=arrival,
        seconds=end - start,
        state=JobState.DONE,
        first_start=start,
        start=start,
        end=end,
    )


def test_percentiles_are_values_that_occur() -> None:
    assert spread(range(1, 101)) == Spread(100, 50.5, 50, 90, 99, 100)
    assert spread([7.0]) == Spread(1, 7.0, 7.0, 7.0, 7.0, 7.0)
    assert spread([]) == Spread()


def test_short_jobs_count_as_ten_seconds() -> None:
    assert slowdown(done("a", arrival=0.0, start=10.0, end=20.0)) == 2.0
    assert slowdown(done("a", arrival=0.0, start=9.0, end=10.0)) == 1.0


def test_jains_index_is_one_if_all_are_alike_and_least_if_one_has_all() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([1.0]) is None


def test_fairness_compares_the_mean_slowdowns_of_tenants() -> None:
    jobs = [
        done("a", arrival=0.0, start=0.0, end=10.0, tenant="x"),
        done("b", arrival=0.0, start=20.0, end=30.0, tenant="y"),
    ]
    assert measures(jobs, SeriesMaker()).fairness == pytest.approx((1 + 3) ** 2 / (2 * (1 + 9)))


def test_tenants_and_sizes_are_summed_apart() -> None:
    jobs = [
        done("a", arrival=0.0, start=2.0, end=10.0, tenant="x", gpu_milli=500),
        done("b", arrival=0.0, start=4.0, end=10.0, tenant="y", gpu_milli=8000),
        JobResult(name="c", tenant="y", arrival=0.0, gpu_milli=8000),
    ]
    found = measures(jobs, SeriesMaker())
    assert [(group.name, group.jobs, group.never_started, group.delay.mean) for group in found.tenants] == [
        ("x", 1, 0, 2.0),
        ("y", 2, 1, 4.0),
    ]
    assert [group.name for group in found.sizes] == ["part of a GPU", "5 to 8 GPUs"]
    assert found.makespan == 10.0


def test_so_many_tenants_that_nobody_reads_them_share_a_group() -> None:
    jobs = [done(f"j{at}", arrival=0.0, start=0.0, end=1.0, tenant=f"t{at:04}") for at in range(MOST_TENANTS + 5)]
    found = measures(jobs, SeriesMaker()).tenants
    assert (len(found), found[-1].name, found[-1].jobs) == (MOST_TENANTS + 1, OTHERS, 5)


def test_size_classes_have_no_gaps() -> None:
    assert [size_class(milli) for milli in (0, 1, 999, 1000, 1001, 2000, 3000, 16_001, 64_001)] == [
        "no GPU",
        "part of a GPU",
        "part of a GPU",
        "1 GPU",
        "2 GPUs",
        "2 GPUs",
        "3 to 4 GPUs",
        "17 to 64 GPUs",
        "more than 64 GPUs",
    ]


def test_the_glossary_has_every_measure() -> None:
    text = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
    part = text.partition("| measure | formula |")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(line.split(" | ")[0] for line in part.splitlines())))
    assert named == {name for kind in (Measures, Group, Spread) for name in kind.__struct_fields__}
