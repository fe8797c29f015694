"""Numbers in place of names that have the order of the names: x000012 for the thirteenth one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from string import ascii_lowercase


def numbers_between(found: Iterable[str], fixed: Collection[str]) -> dict[str, str]:
    """Return a number for each of these names, such as x000012, so that they have the order of the names, also among
    the words in `fixed`, which are themselves. Raises ValueError if nothing fits between two of those."""
    names, words = sorted({*found} - {*fixed}), sorted({*fixed})
    width = max(6, len(str(len(names))))
    numbers: dict[str, str] = {}
    at, begins = -1, ""
    for number, text in enumerate(names):
        after = bisect_left(words, text)
        if after != at:
            at = after
            begins = _begin_between(words[at - 1] if at else "", words[at] if at < len(words) else None, width)
        numbers[text] = f"{begins}{number:0{width}}"
    return numbers | {word: word for word in words}


def _begin_between(low: str, high: str | None, width: int) -> str:
    """With which numbers of this width are after `low` and before `high`."""
    for begins in ("x", *reversed(ascii_lowercase), "0", "-", "!", f"{low}-x", f"{low}!x"):
        if begins + "0" * width > low and (high is None or begins + "9" * width < high):
            return begins
    raise ValueError(f"no number fits between {low!r} and {high!r}")
