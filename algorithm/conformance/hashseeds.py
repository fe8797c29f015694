"""Two processes with different hash seeds carry out the same programs, and must decide alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from algorithm.conformance.calls import Call
from algorithm.conformance.judge import Judge, promise
from algorithm.conformance.life import Life
from algorithm.conformance.otherprocess import (
    OtherProcessError,
    Tick,
    answers,
    nothing,
    programs_of,
    request_of,
    shortened,
    tick_of,
)
from algorithm.conformance.results import Request, Result

_SEEDS = ("1", "2")


def hash_seeds_decide_alike(trial: Any, abilities: Iterable[str]) -> Result:
    """Compare what two processes decide in the lives that were lived before."""
    name = "hash-seeds-decide-alike"
    differences = partial(_differences, request_of(trial), tick=tick_of(trial, name))
    programs = programs_of(trial)
    try:
        different = differences(programs)
        if not different:
            return Result(check=name, status="passed", lives=len(programs))
        program = min(different, key=lambda number: len(programs[number]))
        calls, text = shortened(programs[program], different[program], differences)
    except OtherProcessError as error:
        return Result(check=name, status="failed", text=str(error))
    return Result(check=name, status="failed", text=text, calls=tuple(calls))


class SeedsJudge(Judge):
    """For a test that was printed: compares what two processes decide, once the life is over."""

    name = "hash-seeds-decide-alike"

    def __init__(self, request: Request, life: Life) -> None:
        super().__init__(life)
        self._request = request

    def end(self) -> None:
        for text in _differences(self._request, [self.life.calls]).values():
            promise(False, text)


def _differences(request: Request, programs: Sequence[Sequence[Call]], tick: Tick = nothing) -> dict[int, str]:
    """The programs in which the processes decide differently, by their numbers, and how."""
    if not programs:
        return {}
    one, other = answers(request, programs, tick, _SEEDS)
    found = (
        (number, _difference(these[-1], those[-1]))
        for number, (these, those) in enumerate(zip(one, other, strict=True))
    )
    return {number: text for number, text in found if text}


def _difference(these: Sequence[str], those: Sequence[str]) -> str:
    for this, that in zip(these, those, strict=False):
        if this != that:
            return f"with PYTHONHASHSEED={_SEEDS[0]} it answers {this}, and with {_SEEDS[1]} {that}"
    return "" if len(these) == len(those) else "with another PYTHONHASHSEED other calls are possible"
