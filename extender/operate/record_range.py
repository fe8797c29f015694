"""Selects a part of a recording for a command: the events between two moments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from extender.recording.records import Step
from extender.replay.moments import MomentError, Span, limit_of, parse


@dataclass(frozen=True)
class Range:
    """Events from one moment to another, both included."""

    first_at: float = -math.inf
    first_number: int = 0
    last_at: float = math.inf
    last_number: float = math.inf

    def is_before(self, step: Step) -> bool:
        """Whether the event comes before the range."""
        return step.at < self.first_at or step.number < self.first_number

    def is_after(self, step: Step) -> bool:
        return step.at > self.last_at or step.number > self.last_number


def range_of(begin: str | None, end: str | None, span: Span) -> Range:
    """Return the range of two moments as they are written; None: the log's own end. Raises MomentError."""
    found = Range()
    if begin is not None:
        at, number = _limit("--from", begin, span)
        found = Range(first_at=-math.inf if number is not None else at, first_number=number or 0)
    if end is None:
        return found
    at, number = _limit("--to", end, span)
    last = Range(found.first_at, found.first_number, at, math.inf if number is None else number)
    if last.first_at > last.last_at or last.first_number > last.last_number:
        raise MomentError(f"--from {begin} is after --to {end}")
    return last


def _limit(option: str, text: str, span: Span) -> tuple[float, int | None]:
    try:
        return limit_of(parse(text), span)
    except MomentError as error:
        raise MomentError(f"{option} {error}") from error
