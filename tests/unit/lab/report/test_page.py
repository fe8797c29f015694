"""The page of a simulation: complete, escaped, bounded, and honest about what is not alike."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from extender.lab.measures import group
from extender.lab.report.comparing import SECTIONS, best_of, sentences
from extender.lab.report.page import MOST_REMARKS, MOST_RUNS, page_of
from extender.lab.report.units import count, duration, gpu_hours, share, thinned, ticks, time_unit
from extender.lab.results import JobResult, JobState, Measures, Point, Results, Run, Series

EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


def job(number: int, delay: float | None, **fields: object) -> JobResult:
    made = JobResult(
        name=f"job-{number}",
        tenant=f"tenant-{number % 3}",
        gpu_milli=1000 * (1 + number % 4),
        arrival=float(number),
        seconds=100.0,
        state=JobState.WAITING if delay is None else JobState.DONE,
        start=None if delay is None else number + delay,
        end=None if delay is None else number + delay + 100,
    )
    return replace(made, **fields)


def point(at: float, running: float, waiting: float = 1.0) -> Point:
    return Point(at, 8000, running, running, 200, 64_000, running, running, waiting, waiting, 1, 1, 1, 1, 0, 0)


def a_run(name: str = "packing", *, delays: tuple[float | None, ...] = (0, 5, 50, 500), **measured: object) -> Run:
    jobs = tuple(job(number, delay) for number, delay in enumerate(delays))
    by_tenant = {each.tenant: [other for other in jobs if other.tenant == each.tenant] for each in jobs}
    measures = Measures(
        makespan=1000,
        until=1000,
        all=group("", jobs),
        tenants=tuple(group(tenant, of) for tenant, of in sorted(by_tenant.items())),
        sizes=(group("1 GPU", jobs[:1]), group("2 GPUs", jobs[1:])),
        gpu_allocation=0.6,
        gpu_utilisation=0.5,
        fairness=0.9,
    )
    series = Series(10.0, tuple(point(10.0 * place, 4000 + place) for place in range(20)))
    return Run(name=name, algorithm="packing", jobs=jobs, series=series, measures=replace(measures, **measured))


def results(*runs: Run, **fields: object) -> Results:
    made = Results(release="0.1.0", workload="philly", jobs=4, pods=4, nodes=2, gpu_milli=8000, runs=runs)
    return replace(made, **fields)


class Reader(HTMLParser):
    """Notes tags, attributes and open elements."""

    VOID = frozenset({"meta", "path", "rect", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID or (tag == "path" and "line" in (dict(attrs).get("class") or "")):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def in_short(*runs: Run) -> str:
    found = re.search(r"<h2>In short</h2>(.*?)<h2>", page_of(results(*runs)))
    return "" if found is None else re.sub(r"<[^>]*>", "", found[1])


def test_a_page_says_why_there_is_nothing_to_say_in_short():
    assert in_short(a_run("fgd")) == "Only fgd ran, so there is nothing to compare it with."
    assert in_short(a_run("one"), a_run("two")).startswith("In none of queueing delay, use of GPUs, lost work and")
    assert "Jobs wait least under one" in in_short(a_run("one"), a_run("two", delays=(900, 900, 900, 900)))
    assert in_short() == ""


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    page = page_of(results(a_run(), a_run("fgd")), command="waggle simulate")
    found = read(page)
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name in {"src", "href", "onload", "onclick"}]
    assert "url(" not in page
    assert "default-src 'none'" in page
    assert found.tags.count("figure") == 7, "without evictions, there is no card for them"


def test_the_same_results_give_the_same_page() -> None:
    assert page_of(results(a_run())) == page_of(results(a_run()))


def test_what_comes_from_outside_is_escaped_and_cut() -> None:
    evil = a_run(EVIL, delays=(1, 2, 3, 4))
    evil = replace(evil, algorithm=EVIL, stopped=EVIL * 1000, remarks=(EVIL,))
    tenants = tuple(replace(each, name=EVIL) for each in evil.measures.tenants[:1]) + evil.measures.tenants[1:]
    evil = replace(evil, measures=replace(evil.measures, tenants=tenants))
    page = page_of(results(evil, a_run(), workload=EVIL, remarks=(EVIL,) * 1000), command=EVIL)
    found = read(page)
    assert not {"script", "img"} & set(found.tags)
    assert "<script" not in page
    assert f"{1001 - MOST_REMARKS} more remarks are left out." in page
    assert len(page) < 150_000


def test_the_size_does_not_grow_with_the_jobs_and_their_tenants() -> None:
    """A hundred thousand jobs of 16 runs; the records are shared, so that the test is quick."""
    few = a_run(delays=tuple(float(number % 977) for number in range(2000)))
    many = replace(few, jobs=few.jobs * 50)
    tenants = tuple(replace(few.measures.tenants[0], name=f"t{number}") for number in range(200))
    many = replace(many, measures=replace(many.measures, tenants=tenants))
    small = page_of(results(few))
    large = page_of(results(many))
    assert len(large) < 1.5 * len(small) < 100_000
    runs = [replace(few, name=f"run-{number}") for number in range(MOST_RUNS + 5)]
    crowded = page_of(results(*runs))
    assert f"Only the first {MOST_RUNS} of {MOST_RUNS + 5} runs are shown." in crowded
    assert len(crowded) < 600_000


def test_a_run_in_which_jobs_never_started_is_told_and_its_curve_ends_below() -> None:
    page = page_of(results(a_run(), a_run("fgd", delays=(0, 5, None, None))))
    assert "Different numbers of jobs never started" in page
    assert "fgd: half within 5 s, 90 % within no time: too few started." in page
    _, curve, *_ = re.findall(r'class="line r1"[^>]* d="([^"]*)"', page)  # the first one is the legend's
    assert curve.endswith("L1000 200"), "half of 400 pixels"


def test_a_run_that_was_cut_or_stopped_is_told() -> None:
    page = page_of(results(replace(a_run(), stopped="a job was evicted 10 times"), horizon=7200.0))
    assert "packing did not run to its end: a job was evicted 10 times" in page
    assert "The simulation was cut after 2 h" in page


def test_nothing_at_all_is_shown_without_an_error() -> None:
    empty = Run(
        name="packing",
        algorithm="packing",
        measures=Measures(makespan=0, until=0, all=group("", ()), tenants=(), sizes=()),
    )
    read(page_of(results(empty)))
    read(page_of(results()))


@pytest.mark.parametrize(
    ("measured", "best"),
    [
        (({"gpu_utilisation": 0.5}, {"gpu_utilisation": 0.6}), {1}),
        (({"gpu_utilisation": 0.6}, {"gpu_utilisation": None}), set()),
        (({"gpu_utilisation": 0.6}, {"gpu_utilisation": 0.60001}), set()),
        (({"gpu_utilisation": 0.5}, {"gpu_utilisation": 0.6}, {"gpu_utilisation": 0.6}), {1, 2}),
    ],
)
def test_the_best_is_marked_unless_all_are_alike(measured: tuple[dict[str, object], ...], best: set[int]) -> None:
    row = next(row for section in SECTIONS for row in section.rows if row.name == "GPUs used")
    assert best_of(row, [a_run(**each) for each in measured]) == best


def test_less_delay_and_fewer_evictions_are_better_and_allocation_is_neither() -> None:
    runs = [a_run(evictions=3, gpu_allocation=0.9), a_run("fgd", delays=(0, 0, 0, 0), evictions=1, gpu_allocation=0.1)]
    rows = {(section.name, row.name): row for section in SECTIONS for row in section.rows}
    assert best_of(rows["Queueing delay", "mean"], runs) == {1}
    assert best_of(rows["Interruptions", "evictions"], runs) == {1}
    assert best_of(rows["Use of the cluster", "GPUs allocated"], runs) == set()
    assert "Jobs wait least under fgd: 0 s on average (packing 2.3 min)." in sentences(runs)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (2e-5, "0 s"),
        (0.06, "0.1 s"),
        (0.5, "0.5 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7100, "118 min"),
        (7200, "2 h"),
        (1e6, "11.6 d"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_other_numbers() -> None:
    assert (share(0.1234), count(1234567), count(1.5), gpu_hours(7_200_000)) == ("12.3 %", "1,234,567", "1.5", "2 h")
    assert time_unit(86_400 * 10) == (86_400, "days")
    assert time_unit(2) == (1, "seconds")
    assert thinned([1, 2, 3, 4], 2) == [1.5, 3.5]
    assert len(thinned(range(1001), 240)) == 240


@pytest.mark.parametrize(
    ("most", "expected"),
    [(0, [0, 1]), (1, [0, 0.25, 0.5, 0.75, 1]), (37, [0, 10, 20, 30, 40]), (float("nan"), [0, 1])],
)
def test_ticks_are_round_and_reach_the_most(most: float, expected: list[float]) -> None:
    assert ticks(most) == pytest.approx(expected)
