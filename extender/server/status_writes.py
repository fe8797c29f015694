"""When the status of a custom resource is written: with news only, not too often, and again after a failure.

    may_begin -- is there news? -- begin --> (in flight) --> ended

A failure is logged once for each kind of object, and so is the first write that succeeds after it. For use by one
thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from extender.core.outcomes import Outcome, OutcomeKind
from extender.resources import PoolStatus, VPodSetStatus

log = structlog.get_logger(__name__)

#: Seconds until a failed write is retried: the first value, doubled each time up to the second.
_FIRST_PAUSE, _LONGEST_PAUSE = 3.0, 60.0


@dataclass(slots=True)
class StatusWrite:
    """The writes of one object's status. Times are seconds of the caller's clock."""

    written_at: float = float("-inf")
    in_flight: bool = False
    failures: int = 0
    not_before: float = 0.0


class StatusWrites:
    """The writes of the statuses of all objects of a kind.

    `pause`: the minimum of seconds between two writes of one status; `settled`: seconds after which exact numbers are
    written; `most`: writes in flight, 0 for no limit.
    """

    def __init__(self, kind: str, tokens: itertools.count[int], *, pause: float, settled: float, most: int = 0) -> None:
        self._kind = kind
        self._tokens = tokens
        self._pause = pause
        self._settled = settled
        self._most = most
        self._in_flight: dict[int, StatusWrite] = {}
        #: Why the last write failed; "" after one that succeeded.
        self._trouble = ""

    def may_begin(self, write: StatusWrite, now: float) -> bool:
        """Whether the status may be written now."""
        is_due = now >= max(write.not_before, write.written_at + self._pause)
        return is_due and not write.in_flight and not (self._most and len(self._in_flight) >= self._most)

    def is_settled(self, write: StatusWrite, now: float) -> bool:
        """Whether exact numbers are due."""
        return now >= write.written_at + self._settled

    def begin(self, write: StatusWrite, now: float) -> int:
        """Return the token of the write that the caller is about to send."""
        token = next(self._tokens)
        write.written_at, write.in_flight = now, True
        self._in_flight[token] = write
        return token

    def ended(self, token: int, outcome: Outcome, now: float) -> bool:
        """Handle the outcome of a write. Return whether it is one of these and succeeded."""
        write = self._in_flight.pop(token, None)
        if write is None:
            return False
        write.in_flight = False
        if outcome.kind is OutcomeKind.DONE:
            write.failures = 0
            if self._trouble:
                self._trouble = ""
                log.info(f"the status of {self._kind}s can be written again")
            return True
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(write.failures, 10))
        write.failures += 1
        write.not_before = now + max(outcome.retry_after, pause)
        if outcome.kind not in (OutcomeKind.GONE, OutcomeKind.STALE) and not self._trouble:
            self._trouble = outcome.detail or str(outcome.kind)
            log.warning(f"writing the status of a {self._kind} failed; Waggle retries", error=self._trouble)
        return False


def is_news(
    shown: PoolStatus | VPodSetStatus,
    status: Mapping[str, Any],
    numbers: Iterable[str],
    *,
    share: float,
    is_settled: bool,
) -> bool:
    """Whether the status is worth a write. `numbers`: its fields that are; `share`: see `is_worth_writing`;
    `is_settled`: exact numbers are due."""
    if shown.observed_generation != status["observedGeneration"]:
        return True
    if [each.model_dump(by_alias=True) for each in shown.conditions] != status["conditions"]:
        return True
    pairs = [(getattr(shown, name), status[name]) for name in numbers]
    return any(
        before != after if is_settled else is_worth_writing(before, after, share=share) for before, after in pairs
    )


def is_worth_writing(before: int, after: int, *, share: float) -> bool:
    """Whether a number has begun, ended, or changed by this share. `before` -1: it was never written."""
    if before < 0 or (before == 0) != (after == 0):
        return True
    return before != after and abs(after - before) >= share * before
