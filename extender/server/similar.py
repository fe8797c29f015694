"""Names that somebody may have meant: bounded in time for any number of names.

Only names that begin or end as the given one does are looked at closely, and of these only the most promising.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

#: Names that are looked at, and those that are compared letter by letter.
MOST_NAMES, _CLOSELY = 20_000, 60
#: Letters at an end that have to agree, letters that may be missing, and how alike names are that are proposed.
_ENDS, _LENGTH, _ALIKE = 3, 4, 0.7


def similar(wanted: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return at most `most` of these names, the most similar one first."""
    wanted = wanted[:253]
    begin, end = wanted[:_ENDS], wanted[-_ENDS:]
    likely = [
        name
        for name in islice(names, MOST_NAMES)
        if abs(len(name) - len(wanted)) <= _LENGTH and (name.startswith(begin) or name.endswith(end)) and name != wanted
    ]
    promising = nlargest(_CLOSELY, likely, key=lambda name: (_agreeing(wanted, name), name))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    found = []
    for name in promising:
        matcher.set_seq1(name)
        if matcher.real_quick_ratio() >= _ALIKE and (ratio := matcher.ratio()) >= _ALIKE:
            found.append((-ratio, -_agreeing(wanted, name), name))
    return [name for _, _, name in sorted(found)[:most]]


def did_you_mean(names: list[str]) -> str:
    """A sentence with these names; "" if there are none."""
    return f"Did you mean {' or '.join(names)}?" if names else ""


def _agreeing(one: str, other: str) -> int:
    """How many letters agree at both ends together."""
    return _common(one, other) + _common(one[::-1], other[::-1])


def _common(one: str, other: str) -> int:
    number = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        number += 1
    return number
