"""How long an import or a call may take before the process is killed, and what is said of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from algorithm.conformance.limits import cpu_seconds
from algorithm.conformance.patience import overdue
from algorithm.conformance.results import Request
from algorithm.conformance.session import run


@pytest.mark.parametrize(
    ("calls", "still", "cpu", "said"),
    [
        (0, 15.0, 15.9, ""),
        (0, 17.0, 16.1, "it took more than 16 seconds of CPU time"),
        (0, 59.0, 15.9, ""),  # a slow import on a busy machine
        (0, 60.1, 0.0, "nothing was heard of it for 60 seconds"),
        (1, 15.9, 500.0, ""),
        (1, 16.1, 0.0, "no call returned for 16 seconds"),
    ],
)
def test_what_takes_too_long_is_said_with_its_bound(calls: int, still: float, cpu: float, said: str) -> None:
    assert overdue(limit=1.0, calls=calls, still=still, cpu=cpu) == said


def test_an_import_has_as_long_as_a_call() -> None:
    assert overdue(limit=100.0, calls=0, still=114.0, cpu=114.0) == ""
    assert overdue(limit=100.0, calls=0, still=116.0, cpu=0.0) == "nothing was heard of it for 115 seconds"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_cpu_time_of_this_process_is_what_the_system_says() -> None:
    before = sum(os.times()[:2])
    assert before <= cpu_seconds(os.getpid()) + 0.02  # of a clock's ticks, two are cut off
    assert cpu_seconds(0) == 0.0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it takes a minute")
def test_an_import_that_does_not_end_is_killed_and_said(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("while True:\n    pass\n")
    report = run(Request(plugin=f"{tmp_path}/endless.py:PLUGIN", limit=0.1, seconds=1.0))
    assert report.unusable == (
        "it took more than 15.1 seconds of CPU time, and the process was killed while it was imported"
    )
