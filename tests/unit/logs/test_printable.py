"""What strangers write is shown, and does nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.logs.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, with é and 節", "plain text, with é and 節"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\x07b\x00c\x7fd", r"a\x07b\x00c\x7fd"),
        ("\x9b31m", r"\x9b31m"),
        ("one\r\ntwo\tthree", r"one\r\ntwo\tthree"),
        ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),
        ("a\u2028b\u2029c\u0085d", r"a\u2028b\u2029c\x85d"),
        ("a\u200bb\ufeffc\xa0d", r"a\u200bb\ufeffc\xa0d"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_printable_is_shown_by_its_number(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_nothing_that_controls_is_left(text: str) -> None:
    assert not [each for each in printable(text) if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@given(st.text(), st.integers(0, 40))
def test_what_is_shown_has_a_bound(text: str, limit: int) -> None:
    assert len(printable(text, limit)) <= limit + len(f"... ({len(text)} characters)")


def test_what_is_cut_says_how_long_it_was() -> None:
    assert printable("a" * 1000, 3) == "aaa... (1000 characters)"
    assert printable("\x1b" * 10, 8) == r"\x1b\x1b... (10 characters)"
    assert printable("abc", 3) == "abc"


def test_line_breaks_stay_where_they_are_wanted() -> None:
    assert printable("a\nb\x1b", keep="\n") == "a\nb" + r"\x1b"


class Counted(str):
    """A text that counts the characters that are taken out of it."""

    taken = 0

    def __getitem__(self, key):
        part = super().__getitem__(key)
        Counted.taken += len(part)
        return part

    def isprintable(self):
        raise AssertionError("the whole text was looked at")


def test_a_long_text_costs_what_is_shown_of_it() -> None:
    printable(Counted("x" * 1_000_000), 10)
    assert Counted.taken == 10
