"""Generated workloads: what was published is met, and the same seed gives the same jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from statistics import fmean, median

import pytest

from extender.lab.checking import check
from extender.lab.generator import DAY, MTBF_DAYS, RECIPES, GeneratorError, Options, generate
from extender.lab.workload import GPU, Job
from extender.lab.workload_file import encode


@pytest.mark.parametrize(("name", "nodes"), [("philly", 200), ("helios", 60), ("pai", 20), ("llm", 100)])
def test_a_workload_can_be_simulated_and_needs_the_load_that_was_asked_for(name: str, nodes: int) -> None:
    options = Options(nodes=nodes, days=20, load=0.7, seed=3)
    found = generate(name, options)
    check(found)
    needed = sum(job.gpu_milli * (job.seconds or 0) for job in found.jobs)
    there = sum(node.capacity[GPU] for node in found.nodes) * options.days * DAY
    assert needed / there == pytest.approx(0.7, rel=0.2)
    assert len(found.remarks) >= 3


def statistics_of(jobs: Sequence[Job]) -> dict[str, float]:
    """What `Figure.name` may be."""
    seconds, gpus = [job.seconds or 0 for job in jobs], [job.gpu_milli / 1000 for job in jobs]
    found = {f"share of jobs with {n} GPU{'s' * (n > 1)}": gpus.count(n) / len(jobs) for n in (1, 2, 4, 8)}
    within = sum(each <= 60_000 for each in seconds) / len(jobs)
    found |= {"median seconds": median(seconds), "mean seconds": fmean(seconds)}
    return found | {"median GPUs": median(gpus), "mean GPUs": fmean(gpus), "share of jobs within 1,000 minutes": within}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.figures])
def test_a_hundred_thousand_jobs_have_the_cited_statistics(name: str) -> None:
    nodes, days = {"philly": (1000, 21), "helios": (100, 46)}[name]
    jobs = generate(name, Options(nodes=nodes, days=days, load=0.8)).jobs
    assert len(jobs) > 95_000
    found = statistics_of(jobs)
    for figure in RECIPES[name].figures:
        assert found[figure.name] == pytest.approx(figure.value, rel=figure.within), figure
        assert figure.source in RECIPES[name].published


def test_durations_are_within_what_was_published() -> None:
    minutes = [(job.seconds or 0) / 60 for job in generate("philly", Options(nodes=200, days=20)).jobs]
    assert min(minutes) >= 10**1.5 - 0.01
    assert max(minutes) <= 10**4


@pytest.mark.parametrize("name", RECIPES)
def test_a_workload_says_what_is_published_and_what_is_estimated(name: str) -> None:
    remarks = generate(name, Options(nodes=20, days=1)).remarks
    assert [remark.partition(":")[0] for remark in remarks[1:3]] == ["Published", "Estimated"]


def test_pai_has_the_estimated_run_times_and_gangs() -> None:
    jobs = generate("pai", Options(nodes=100, days=5)).jobs
    seconds = sorted(job.seconds or 0 for job in jobs)
    assert median(seconds) == pytest.approx(23 * 60, rel=0.1)
    assert seconds[len(seconds) * 9 // 10] == pytest.approx(4.5 * 3600, rel=0.1)
    assert sum(job.gang for job in jobs) / len(jobs) == pytest.approx(0.07, abs=0.02)


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys; from extender.lab.generator import *; from extender.lab.workload_file import encode;"
        "sys.stdout.buffer.write(encode(generate('philly', Options(nodes=5, days=2, mtbf_days=3, seed=7))))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONHASHSEED": "5"})
    made = generate("philly", Options(nodes=5, days=2, mtbf_days=3, seed=7))
    assert encode(made) == other.stdout
    assert encode(generate("philly", Options(nodes=5, days=2, mtbf_days=3, seed=8))) != other.stdout


def test_failures_do_not_change_the_jobs_and_come_as_often_as_asked() -> None:
    calm = generate("philly", Options(nodes=200, days=30, load=0.1))
    rough = generate("philly", Options(nodes=200, days=30, load=0.1, mtbf_days=MTBF_DAYS["rsc-1"]))
    assert calm.jobs == rough.jobs
    assert calm.failures == ()
    assert len(rough.failures) == pytest.approx(200 * 30 * 6.5 / 1000, rel=0.5)
    assert list(rough.failures) == sorted(rough.failures, key=lambda each: each.at)


def test_the_published_rates_of_failures() -> None:
    assert MTBF_DAYS["rsc-1"] == pytest.approx(153.8, abs=0.1)
    assert MTBF_DAYS["llama-3"] == pytest.approx(264, abs=0.1)


@pytest.mark.slow
def test_jobs_come_by_day_more_than_by_night_unless_not_asked_for() -> None:
    def by_night(daily: float) -> float:
        jobs = generate("philly", Options(nodes=400, days=20, daily=daily)).jobs
        return sum((job.arrival % DAY) < DAY / 3 for job in jobs) / len(jobs)

    assert by_night(0) == pytest.approx(1 / 3, abs=0.02)
    assert by_night(1) < 0.2


def test_tenants_and_priorities() -> None:
    jobs = generate("philly", Options(nodes=100, days=20, tenants=3, spot=0.25)).jobs
    shares = [sum(job.tenant == f"tenant-{number}" for job in jobs) / len(jobs) for number in (1, 2, 3)]
    assert shares == [pytest.approx(each, abs=0.03) for each in (6 / 11, 3 / 11, 2 / 11)]
    assert sum(job.priority == 0 for job in jobs) / len(jobs) == pytest.approx(0.25, abs=0.03)


def test_jobs_that_need_more_than_half_of_a_small_cluster_are_left_out_and_told() -> None:
    found = generate("llm", Options(nodes=4, days=30))
    assert max(job.pods for job in found.jobs) == 2
    assert any("3 sizes of jobs" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("borg", Options(), "expected one of the recipes philly, helios, pai, llm, got borg"),
        ("philly", Options(nodes=0), "nodes: expected 1 to 20000, got 0"),
        ("philly", Options(load=float("nan")), "load: expected 0.01 to 10, got nan"),
        ("philly", Options(days=1e9), "days: expected 0.01 to 3650"),
        ("philly", Options(mtbf_days=0), "mtbf_days: expected 0.01"),
        ("helios", Options(nodes=20_000, days=3650), "days, load: expected at most 1,000,000 jobs"),
        ("philly", Options(nodes=20_000, days=30, load=0.01, mtbf_days=0.01), "mtbf_days: expected at most 100,000"),
    ],
)
def test_options_that_do_not_go_together_are_refused(name: str, options: Options, said: str) -> None:
    with pytest.raises(GeneratorError) as error:
        generate(name, options)
    assert said in str(error.value)
