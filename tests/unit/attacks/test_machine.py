"""What a late answer says where the machine withholds CPU time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.attacks.aims import Figures, Usage
from tests.attacks.machine import CpuTime, cpu_time, withheld
from tests.attacks.registry import Attack
from tests.attacks.report import line, summary
from tests.attacks.runner import Result, Runner

AN_ATTACK = Attack("test.late", "is late", lambda _: "", "none")


def figures(p99: float, not_given: float) -> Figures:
    usage = Usage(90, 20, 10)
    return Figures((p99,) * 100, (), usage, 100, usage, 0, 3, not_given)


def result(p99: float, not_given: float, *problems: str) -> Result:
    return Result(AN_ATTACK, "", figures(p99, not_given), problems)


LATE = "a valid /filter took 200 ms at p99 (aim 100)"


class Tries(Runner):
    """A runner whose attacks end as was said."""

    def __init__(self, *outcomes: Result, beside_others: bool = False) -> None:
        super().__init__(beside_others=beside_others)
        self._outcomes = list(outcomes)

    def run_one(self, attack: Attack) -> Result:
        return self._outcomes.pop(0)


def outcome(*tries: Result, beside_others: bool = False) -> Result:
    with Tries(*tries, beside_others=beside_others) as runner:
        [found] = runner.run([AN_ATTACK], lambda _: None)
    return found


def test_what_was_late_thrice_on_a_machine_that_withheld_time_is_undecided() -> None:
    found = outcome(*[result(0.2, 0.4, LATE)] * 3)
    assert found.undecided
    assert not found.broke
    assert line(found).startswith("late ")
    assert "the machine withheld 40% of the CPU time" in line(found)
    assert summary([found], 3).startswith("0 passed, 0 failed, 1 undecided")


@pytest.mark.parametrize(
    "tries",
    [
        [result(0.2, 0.4, LATE), result(0.2, 0.02, LATE), result(0.2, 0.4, LATE)],
        [result(0.2, 0.0, LATE)] * 3,
        [result(5.0, 0.6, "a valid /filter took 5000 ms at p99 (aim 100)")] * 3,
        [result(0.2, 0.4, LATE, "600 MiB resident (aim 512)")],
        [result(0.2, 0.4, LATE), result(0.01, 0.4, "was bound twice")],
    ],
    ids=["once on a quiet one", "always on a quiet one", "seconds", "memory", "wrong"],
)
def test_anything_else_broke(tries: list[Result]) -> None:
    assert outcome(*tries).broke


def test_a_try_that_held_decides() -> None:
    found = outcome(result(0.2, 0.0, LATE), result(0.2, 0.4, LATE), result(0.01, 0.4))
    assert not found.broke
    assert not found.undecided


def test_beside_other_work_only_seconds_are_late() -> None:
    seconds = result(5.0, 0.0, "a valid /filter took 5000 ms at p99 (aim 100)")
    assert not outcome(result(0.5, 0.0, LATE), beside_others=True).broke
    assert outcome(*[seconds] * 3, beside_others=True).broke
    assert outcome(result(0.5, 0.0, LATE, "was bound twice"), beside_others=True).broke


def test_the_share_is_of_the_time_asked_for() -> None:
    assert withheld(CpuTime(100, 10), CpuTime(200, 35)) == 0.25
    assert withheld(CpuTime(100, 10), CpuTime(100, 10)) == 0.0


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_work_is_time_asked_for() -> None:
    before, ends = cpu_time(), time.process_time() + 0.1
    while time.process_time() < ends:
        pass
    assert cpu_time().asked >= before.asked + 5
