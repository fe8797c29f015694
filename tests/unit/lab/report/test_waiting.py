"""Why jobs never started: what a run says about it."""

from __future__ import annotations

from msgspec.structs import replace

from extender.lab.report.waiting import MOST_CHARACTERS, why_never_started
from tests.unit.lab.report.test_page import a_run, job


def test_frequent_reasons_come_first_with_a_job_each() -> None:
    waiting = [job(number, None, code="NoCells", text="none is left") for number in range(3)]
    waiting += [job(7, None, text="0/2 nodes"), job(8, 5.0, code="NoCells", text="it waits again")]
    run = replace(a_run(), jobs=(waiting[3], *waiting[:3], waiting[4], job(9, None)))
    assert why_never_started(run) == [
        "3 jobs, such as job-0, never started: NoCells: none is left",
        "job job-7 never started: 0/2 nodes",
    ]


def test_reasons_and_texts_are_bounded() -> None:
    run = replace(a_run(), jobs=tuple(job(number, None, code=f"C{number}", text="x" * 9999) for number in range(5)))
    said = why_never_started(run)
    assert said[3:] == ["and 2 more reasons"]
    assert max(map(len, said)) < MOST_CHARACTERS + 100


def test_nothing_is_said_if_all_started() -> None:
    assert why_never_started(a_run(delays=(0, 5))) == []
