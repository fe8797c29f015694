"""Which Events are written: a new one, a higher count, or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from algorithm.reasons import Code, Reason
from extender.core.commands import Moment
from extender.core.event_series import Correlator, Series, event_name
from extender.scheduling.commands import RecordEvent

START = datetime(2026, 11, 2, 10, 0, 0, tzinfo=UTC)


def moment(now: float) -> Moment:
    at = START + timedelta(seconds=now)
    return Moment(now, at.timestamp(), at.isoformat(), "waggle-host")


class Told:
    """A correlator with a clock; every Event that it wants written is written."""

    def __init__(self) -> None:
        self.correlator: Correlator[RecordEvent] = Correlator()
        self.now = 0.0

    def __call__(self, text: str = "no room", pod: str = "p", times: int = 1) -> Series[RecordEvent] | None:
        event = RecordEvent("ns", pod, f"uid-{pod}", Reason(Code.OTHER, (("detail", text),)))
        series = self.correlator.observe(event, times, moment(self.now))
        if series is not None:
            series.written = True
        return series


def test_what_happens_again_is_the_same_event_with_a_higher_count_and_a_later_time() -> None:
    told = Told()
    first = told()
    told.now = 180.0
    again = told(times=4)
    assert first is again
    assert again is not None
    assert (again.count, again.first, again.last) == (5, moment(0.0), moment(180.0))


def test_another_text_and_another_pod_are_other_events() -> None:
    told = Told()
    names = {series.name for series in (told("a"), told("b"), told("a", pod="q")) if series}
    assert len(names) == 3


def test_many_texts_for_one_reason_are_combined_and_the_latest_is_shown() -> None:
    told = Told()
    several = [told(f"text {number}") for number in range(13)]
    assert len({series.name for series in several if series}) == 11
    combined = several[-1]
    assert combined is not None
    assert (combined.count, combined.text) == (3, "(combined from similar events): text 12")
    known = told("text 0")
    assert known is not None
    assert (known.count, known.text) == (2, "text 0")


def test_a_pod_that_has_too_many_is_counted_and_not_written() -> None:
    told = Told()
    written = [told() for _ in range(100)]
    assert sum(series is not None for series in written) == 25
    assert told.correlator.suppressed == 75
    assert told(pod="q") is not None, "others are not concerned"


def test_the_next_one_that_may_be_written_says_how_often_it_was() -> None:
    told = Told()
    for _ in range(100):
        told()
    told.now = 300.0
    series = told()
    assert series is not None
    assert series.count == 101
    assert told() is None


def test_what_could_not_be_written_costs_the_pod_nothing() -> None:
    told = Told()
    for _ in range(100):
        series = told()
        assert series is not None
        told.correlator.give_back(series.event)


def test_memory_is_bounded_and_the_pod_least_recently_spoken_of_is_forgotten() -> None:
    told = Told()
    for number in range(5000):
        told(pod=f"p{number}")
        told(pod="p0")
    assert len(told.correlator._objects) == 4096
    kept, forgotten = told(pod="p0"), told(pod="p1")
    assert kept is None
    assert forgotten is not None
    assert forgotten.count == 1


def test_event_names_are_valid_for_the_longest_pod_name_and_unique() -> None:
    longest = "a" * 234 + "." + "b" * 18
    names = {event_name(longest, moment(0.0), serial) for serial in range(100)}
    assert len(names) == 100
    assert all(len(name) <= 253 and ".." not in name for name in names)
