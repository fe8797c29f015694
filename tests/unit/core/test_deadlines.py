"""When something is due, by key."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.deadlines import Alarm, Deadlines, earliest, first_of


@pytest.fixture
def deadlines() -> Deadlines[str]:
    return Deadlines()


def test_a_key_is_due_exactly_at_its_time_and_stays_due(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 10.0)
    assert deadlines.due(9.999) == []
    assert deadlines.due(10.0) == ["a"]
    assert deadlines.due(10.0) == ["a"]


def test_keys_are_due_by_time_and_then_in_the_order_of_setting(deadlines: Deadlines[str]) -> None:
    for key, at in (("late", 9.0), ("early", 3.0), ("equal", 9.0)):
        deadlines.set(key, at)
    assert deadlines.due(20.0) == ["early", "late", "equal"]


def test_a_key_that_returns_to_a_time_keeps_its_place(deadlines: Deadlines[str]) -> None:
    for key, at in (("before", 1.0), ("a", 9.0), ("b", 9.0)):
        deadlines.set(key, at)
    deadlines.discard("a")
    deadlines.set("a", 5.0)
    deadlines.set("a", 9.0)
    assert deadlines.due(20.0) == ["before", "a", "b"]


def test_a_key_that_is_set_again_is_due_once_at_its_last_time(deadlines: Deadlines[str]) -> None:
    for at in (5.0, 12.0, 5.0, 12.0):
        deadlines.set("a", at)
    assert deadlines.due(11.0) == []
    assert deadlines.due(12.0) == ["a"]


def test_a_key_that_was_discarded_is_never_due(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 5.0)
    deadlines.discard("a")
    deadlines.discard("unknown")
    assert deadlines.due(math.inf) == []
    assert deadlines.first() is None
    assert "a" not in deadlines


def test_an_infinite_time_is_no_deadline(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 5.0)
    deadlines.set("a", math.inf)
    assert deadlines.first() is None
    assert deadlines.get("a") is None


def test_pop_takes_the_first_key_whose_time_has_come(deadlines: Deadlines[str]) -> None:
    deadlines.set("b", 2.0)
    deadlines.set("a", 1.0)
    assert deadlines.pop(0.5) is None
    assert [deadlines.pop(2.0), deadlines.pop(2.0), deadlines.pop(2.0)] == ["a", "b", None]


def test_the_first_deadline_forgets_what_was_discarded(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 5.0)
    deadlines.set("b", 7.0)
    assert deadlines.first() == 5.0
    deadlines.discard("a")
    assert deadlines.first() == 7.0


def test_setting_for_ever_does_not_fill_the_memory(deadlines: Deadlines[str]) -> None:
    for at in range(10_000):
        deadlines.set("a", float(at))
    assert len(deadlines._heap) < 100
    assert deadlines.due(math.inf) == ["a"]


def test_validate_finds_a_key_that_would_never_be_due(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 5.0)
    deadlines.validate()
    deadlines._heap.clear()
    with pytest.raises(AssertionError, match="never be due: .'a'"):
        deadlines.validate()


def test_the_earlier_of_two_times() -> None:
    assert [first_of(None, None), first_of(3.0, None), first_of(None, 2.0), first_of(3.0, 2.0)] == [None, 3.0, 2.0, 2.0]


def test_the_earliest_of_several_timers(deadlines: Deadlines[str]) -> None:
    other: Deadlines[int] = Deadlines()
    assert earliest((deadlines, other)) is None
    deadlines.set("a", 5.0)
    other.set(1, 4.0)
    other.set(2, 7.0)
    assert earliest((deadlines, other)) == 4.0
    other.discard(1)
    assert earliest((other, deadlines)) == 5.0
    deadlines.discard("a")
    assert earliest((deadlines, other)) == 7.0


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.none() | st.integers(0, 5))))
def test_an_alarm_is_never_later_than_the_first_deadline_of_all(steps: list[tuple[int, str, int | None]]) -> None:
    alarm = Alarm()
    both: tuple[Deadlines[str], ...] = (Deadlines(alarm), Deadlines(alarm))
    for which, key, at in steps:
        if at is None:
            both[which].discard(key)
        else:
            both[which].set(key, float(at))
        first = earliest(both)
        assert alarm.at <= (math.inf if first is None else first)
    assert alarm.reset() == alarm.at == (math.inf if earliest(both) is None else earliest(both))


def test_an_alarm_that_is_reset_is_not_early() -> None:
    alarm = Alarm()
    deadlines: Deadlines[str] = Deadlines(alarm)
    deadlines.set("a", 3.0)
    deadlines.set("a", 7.0)
    assert alarm.at == 3.0
    assert alarm.reset() == 7.0
