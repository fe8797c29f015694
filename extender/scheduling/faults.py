"""The faults of the algorithm: exceptions, breaches of its contract, reasons that keep changing, slow decisions.

    driver, steady --note--> FaultLog: one Fault for each place that raises <--read-- log, metrics, /readyz, pages
    server.loop ---too slow---^

Two exceptions are the same fault if the same call raised the same type at the same line: texts differ, since they name
pods. The first one keeps its traceback. An engine writes no log, so `server/watchdog.py` reads the book and does that;
it has no clock either, so the loop that runs it notes what took too long.

Promises: MOST_FAULTS are distinguished, all others share one entry; a text has at most LONGEST_TEXT characters; an
exception whose own text, name or traceback cannot be made is noted like any other. A Fault is never changed, only
replaced.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Final

from algorithm.model import Node, Pod
from extender.core.said import said_by, type_name

#: Faults that are distinguished. A plug-in can raise from a new place each time, if it makes its code as it goes.
MOST_FAULTS: Final = 64
#: Characters of the text of an exception.
LONGEST_TEXT: Final = 500
#: Frames of a traceback, the innermost ones.
_FRAMES: Final = 30
#: Of a traceback: exceptions in a chain or in groups, notes of each, and characters of the text of each.
_EXCEPTIONS: Final = 8
_NOTES: Final = 4
_LONGEST_SHOWN: Final = 2048
_OTHERS: Final = ("", "(others)")
_TRACEBACK: Final[Any] = BaseException.__dict__["__traceback__"]


class FaultKind(StrEnum):
    """What the algorithm did wrong; the label of the metric."""

    RAISED = "raised"
    BROKE_CONTRACT = "broke_contract"
    #: The text of a waiting pod changed too often: no decision was wrong.
    UNSTEADY_REASON = "unsteady_reason"
    #: One event took longer than `server.slow_seconds`: no decision was wrong.
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault with its count. `call` is the method of the algorithm, `subject` the pod or node that it was about.

    `text`, `subject` and `number` are those of the last time, at `at` seconds of the engine's clock; `trace` is the
    traceback of the first time, None if nothing was raised. `number` is that of the event, in which it happened, or
    after which, if people looked at the algorithm: 0, if there was none yet.
    """

    call: str
    text: str
    subject: str = ""
    count: int = 1
    at: float = 0.0
    trace: traceback.TracebackException | None = None
    kind: FaultKind = FaultKind.RAISED
    number: int = 0

    def __str__(self) -> str:
        about = f" ({self.subject})" if self.subject else ""
        return f"{self.call}{about}: {self.text}" if self.call else self.text


class FaultLog:
    """The faults of one algorithm. Written under the lock of the engine's loop; `known` may be read without it."""

    def __init__(self) -> None:
        #: The number of the event that is being handled, or was handled last.
        self.number = 0
        #: How many there were of each kind, and the last one of each.
        self.totals: Counter[FaultKind] = Counter()
        self.last_of: dict[FaultKind, Fault] = {}
        #: The last exception or breach.
        self.last: Fault | None = None
        self._by_place: dict[tuple[str, str], Fault] = {}

    @property
    def total(self) -> int:
        """How many exceptions and breaches there were: answers that were wrong, or did not come."""
        return self.totals[FaultKind.RAISED] + self.totals[FaultKind.BROKE_CONTRACT]

    def raised(self, call: str, error: BaseException, at: float, subject: object = None) -> str:
        """Note an exception of the algorithm. Returns its text."""
        text = said_by(error, LONGEST_TEXT)
        key = (call, _place(error))
        trace = None if key in self._by_place else _trace(error, text)
        self.last = self._note(key, Fault(call, text, _named(subject), at=at, trace=trace))
        return text

    def breached(self, call: str, rule: str, text: str, at: float, subject: object = None) -> None:
        """Note a breach of the contract. `rule` tells breaches apart."""
        self.last = self._note(
            (call, rule), Fault(call, text[:LONGEST_TEXT], _named(subject), at=at, kind=FaultKind.BROKE_CONTRACT)
        )

    def noticed(self, kind: FaultKind, call: str, text: str, at: float, subject: object = None) -> None:
        """Note what somebody should see, although no decision was wrong: an unsteady reason, a slow event."""
        self._note((call, f"({kind})"), Fault(call, text[:LONGEST_TEXT], _named(subject), at=at, kind=kind))

    def known(self) -> list[tuple[tuple[str, str], Fault]]:
        """The faults, each with a key that stays the same while its count grows."""
        return list(self._by_place.items())

    def absorb(self, other: FaultLog) -> None:
        """Add the faults of another book, for an algorithm that takes over."""
        self.totals += other.totals
        self.last = other.last or self.last
        self.last_of |= other.last_of
        for key, fault in other.known():
            self._merge(key, fault)

    def _note(self, key: tuple[str, str], fault: Fault) -> Fault:
        self.totals[fault.kind] += 1
        noted = self._merge(key, replace(fault, number=self.number))
        self.last_of[fault.kind] = noted
        return noted

    def _merge(self, key: tuple[str, str], fault: Fault) -> Fault:
        if key not in self._by_place and len(self._by_place) >= MOST_FAULTS:
            key = _OTHERS
        known = self._by_place.get(key)
        if known is not None:
            fault = replace(fault, count=known.count + fault.count, trace=known.trace)
        self._by_place[key] = fault
        return fault


def _trace(error: BaseException, text: str) -> traceback.TracebackException:
    """The traceback of the exception; of a plain one with this text, if the exception fails to be looked at."""
    try:
        trace = _bounded(error)
    except BaseException:
        trace = _bounded(RuntimeError(text).with_traceback(_frames(error)))
    return trace


def _bounded(error: BaseException) -> traceback.TracebackException:
    """The traceback without the text of its lines: reading files is for the thread that writes the log.

    Its texts and those of its causes are cut: each is a text of the algorithm, of any length, and would be kept for as
    long as the server runs. Of groups and of chains, the first _EXCEPTIONS exceptions stay.
    """
    trace = traceback.TracebackException.from_exception(error, limit=-_FRAMES, lookup_lines=False, compact=True)
    shown = [trace]
    for each in shown:
        _cut(each)
        list(each.format_exception_only())  # as the log will: this reads the name of the type, and no file
        for link in ("__cause__", "__context__"):
            other = getattr(each, link)
            if other is not None and len(shown) < _EXCEPTIONS:
                shown.append(other)
            else:
                setattr(each, link, None)
        if each.exceptions:
            each.exceptions = each.exceptions[: _EXCEPTIONS - len(shown)]
            shown += each.exceptions
    return trace


def _cut(trace: traceback.TracebackException) -> None:
    """Cut the text of one exception, and its notes."""
    trace._str = str(trace._str)[:_LONGEST_SHOWN]  # type: ignore[attr-defined]
    notes: object = getattr(trace, "__notes__", None)
    if notes is not None:
        trace.__notes__ = [str(each)[:LONGEST_TEXT] for each in notes[:_NOTES]] if isinstance(notes, list) else []


def _place(error: BaseException) -> str:
    """The type, and the line that raised it."""
    frame = _frames(error)
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
    return f"{type_name(error)} {where[:LONGEST_TEXT]}"


def _frames(error: BaseException) -> TracebackType | None:
    """The frames of the exception, whatever its class says about them."""
    frames: TracebackType | None = _TRACEBACK.__get__(error)
    return frames


def _named(subject: object) -> str:
    match subject:
        case Pod():
            return f"pod {subject.key}"
        case Node():
            return f"node {subject.name}"
        case _:
            return ""
