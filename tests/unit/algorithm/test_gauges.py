"""What an algorithm may show to Prometheus, and what is said of the rest."""

import math

import pytest

from algorithm.gauges import MOST_SAMPLES, Gauge, Sample, sound

GOOD = Gauge("used_slots", "Slots in use.", (Sample(1, (("node", "n1"),)), Sample(2.5, (("node", "n2"),))))


def flaw(gauge):
    good, flaws = sound([gauge])
    assert not good
    return flaws[0]


def test_a_sound_gauge_is_shown():
    assert sound((GOOD, Gauge("empty", "Nothing."))) == ([GOOD, Gauge("empty", "Nothing.")], [])


@pytest.mark.parametrize("name", ["", "Used", "used-slots", "1st", "used_total", "used_count", "x" * 101, 7])
def test_a_name_that_prometheus_would_not_take_is_refused(name):
    assert "expected a name of a-z, 0-9 and _" in flaw(Gauge(name, "Help."))


def test_a_gauge_needs_a_help_text():
    assert "expected a help text" in flaw(Gauge("used", ""))


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True])
def test_a_value_that_is_no_number_is_refused(value):
    assert "expected a finite number" in flaw(Gauge("used", "Help.", (Sample(value),)))


@pytest.mark.parametrize("labels", [(("Node", "n1"),), (("node", 1),)])
def test_a_label_that_prometheus_would_not_take_is_refused(labels):
    assert "expected labels" in flaw(Gauge("used", "Help.", (Sample(1, labels),)))


def test_samples_that_cannot_be_told_apart_are_refused():
    assert "the same labels" in flaw(Gauge("used", "Help.", (Sample(1), Sample(2))))


def test_all_samples_have_the_same_labels():
    mixed = (Sample(1, (("node", "n1"),)), Sample(2, (("zone", "z"),)))
    assert "all samples must have the same labels" in flaw(Gauge("used", "Help.", mixed))


def test_there_is_an_end_to_the_samples():
    many = tuple(Sample(1, (("node", str(number)),)) for number in range(MOST_SAMPLES + 1))
    assert f"at most {MOST_SAMPLES} samples" in flaw(Gauge("used", "Help.", many))


def test_two_gauges_of_one_name_are_one_too_many():
    good, flaws = sound([GOOD, GOOD])

    assert good == [GOOD]
    assert flaws == ["gauge used_slots: there are two of them"]


@pytest.mark.parametrize(("returned", "text"), [(None, "NoneType"), ("text", "str"), ([3], "int, not a Gauge")])
def test_something_else_than_gauges_is_said_to_be_that(returned, text):
    good, flaws = sound(returned)

    assert not good
    assert text in flaws[0]


def test_a_sample_is_a_sample():
    assert "int, not a Sample" in flaw(Gauge("used", "Help.", (3,)))
