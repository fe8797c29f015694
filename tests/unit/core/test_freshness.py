"""Which of two resourceVersions is the older one."""

import pytest

from extender.core.freshness import latest, older


@pytest.mark.parametrize(
    ("version", "than"),
    [("1", "2"), ("9", "10"), ("99", "100"), ("0", "1"), ("007", "8"), ("9" * 5000, "1" + "0" * 5000)],
)
def test_a_smaller_number_is_older_and_never_the_other_way_round(version, than):
    assert older(version, than)
    assert not older(than, version)


@pytest.mark.parametrize(("version", "than"), [("5", "5"), ("05", "5"), ("0", "00")])
def test_equal_numbers_are_not_older(version, than):
    assert not older(version, than)
    assert not older(than, version)


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5", "0x10", " 1", "²", "٣"])
def test_what_is_not_a_decimal_number_is_never_older(text):
    assert not older(text, "10")
    assert not older("10", text)


@pytest.mark.parametrize(
    ("versions", "newest"), [([], "0"), (["9", "10", "007"], "10"), (["1", "x"], None), (["1", ""], None)]
)
def test_the_newest_of_several(versions, newest):
    assert latest(versions) == newest
