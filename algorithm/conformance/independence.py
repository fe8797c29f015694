"""An algorithm decides alike in a new process, and in one where others have lived: nothing is left in globals.

Twins do not show this, since they share the globals. So lives are lived in a row, and each alone in a new process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from algorithm.conformance.calls import Call, NewLife, last_life
from algorithm.conformance.judge import Judge, promise
from algorithm.conformance.life import Life
from algorithm.conformance.otherprocess import (
    OtherProcessError,
    Tick,
    answers,
    nothing,
    programs_of,
    request_of,
    shortened_there,
    tick_of,
)
from algorithm.conformance.results import Request, Result

_SEED = "1"

Program = Sequence[Call]


def lives_are_independent(trial: Any, abilities: Iterable[str]) -> Result:
    """Compare what is decided in lives that were lived before: in a row, in both directions, and each alone."""
    name = "lives-are-independent"
    request, tick = request_of(trial), tick_of(trial, name)
    programs = programs_of(trial)
    try:
        rows = [_until_different(request, row, tick) for row in (programs, programs[::-1])]
        if not any(rows):
            return Result(check=name, status="passed", lives=len(programs))
        different = _differences(request, pairs := _pairs(list(filter(None, rows))), tick)
        if not different:
            return Result(check=name, status="failed", text="it decides differently in a process that has lived before")
        pair = min(different, key=lambda number: (len(pairs[number]), number))
        calls = shortened_there(request, pairs[pair], tick, _SEED)
        text = _differences(request, [calls], tick).get(0, different[pair])
    except OtherProcessError as error:
        return Result(check=name, status="failed", text=str(error))
    return Result(check=name, status="failed", text=text, calls=tuple(calls))


class LivesJudge(Judge):
    """For a test that was printed: compares what is decided in its last life with the same life in a new process."""

    name = "lives-are-independent"

    def __init__(self, request: Request, life: Life) -> None:
        super().__init__(life)
        self._request = request

    def end(self) -> None:
        for text in _differences(self._request, [self.life.calls]).values():
            promise(False, text)


def _until_different(request: Request, row: Sequence[Program], tick: Tick) -> list[Program]:
    """The lives until the first one that is another one if it is lived alone; none if all are the same."""
    ((in_a_row, *alone),) = answers(request, [_joined(row), *row], tick, [_SEED], alone=True)
    for number, (here, (there,)) in enumerate(zip(in_a_row, alone, strict=True)):
        if here != there:
            return list(row[: number + 1])
    return []


def _pairs(rows: Sequence[Sequence[Program]]) -> list[list[Call]]:
    """Each earlier life with the one that differs; and all of them in a row, as one alone may not suffice."""
    two = [_joined([earlier, last]) for *before, last in rows for earlier in before]
    return [*two, *map(_joined, rows)]


def _joined(lives: Sequence[Program]) -> list[Call]:
    first, *others = lives
    return [*first, *(call for life in others for call in (NewLife(), *life))]


def _differences(request: Request, programs: Sequence[Program], tick: Tick = nothing) -> dict[int, str]:
    """The programs of which the last life is another one if it is lived alone, by their numbers, and how."""
    if not programs:
        return {}
    (found,) = answers(request, [*programs, *map(last_life, programs)], tick, [_SEED], alone=True)
    pairs = zip(found[: len(programs)], found[len(programs) :], strict=True)
    texts = ((number, _difference(these[-1], those[-1])) for number, (these, those) in enumerate(pairs))
    return {number: text for number, text in texts if text}


def _difference(these: Sequence[str], those: Sequence[str]) -> str:
    for this, that in zip(these, those, strict=False):
        if this != that:
            return f"after another life in the same process it answers {this}, and in a new process {that}"
    return "" if len(these) == len(those) else "after another life in the same process other calls are possible"
