"""The faults of the algorithm: exceptions, and breaches of its contract. Distinguished and counted, in bounded memory.

    driver --note--> FaultLog: one Fault for each place that raises <--read-- log, metrics, /readyz, pages

Two exceptions are the same fault if the same call raised the same type at the same line: texts differ, since they name
pods. The first one keeps its traceback. An engine writes no log, so `server/watchdog.py` reads the book and does that.

Promises: MOST_FAULTS are distinguished, all others share one entry; a text has at most LONGEST_TEXT characters; an
exception whose own text cannot be made is noted like any other. A Fault is never changed, only replaced.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import Final

from algorithm.model import Node, Pod

#: Faults that are distinguished. A plug-in can raise from a new place each time, if it makes its code as it goes.
MOST_FAULTS: Final = 64
#: Characters of the text of an exception.
LONGEST_TEXT: Final = 500
#: Frames of a traceback, the innermost ones.
_FRAMES: Final = 30
_OTHERS: Final = ("", "(others)")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault with its count. `call` is the method of the algorithm, `subject` the pod or node that it was about.

    `text` and `subject` are those of the last time, at `at` seconds of the engine's clock; `trace` is the traceback of
    the first time, None for a breach of the contract.
    """

    call: str
    text: str
    subject: str = ""
    count: int = 1
    at: float = 0.0
    trace: traceback.TracebackException | None = None
    #: The event of its log line. Empty: the algorithm failed.
    title: str = ""

    def __str__(self) -> str:
        about = f" ({self.subject})" if self.subject else ""
        return f"{self.call}{about}: {self.text}" if self.call else self.text


class FaultLog:
    """The faults of one algorithm. Written under the lock of the engine's loop; `known` may be read without it."""

    def __init__(self) -> None:
        #: How many faults there were in all, and the last one.
        self.total = 0
        self.last: Fault | None = None
        self._by_place: dict[tuple[str, str], Fault] = {}

    def raised(self, call: str, error: Exception, at: float, subject: object = None) -> str:
        """Note an exception of the algorithm. Returns its text."""
        text = _text(error)
        self._note((call, _place(error)), Fault(call, text, _named(subject), at=at), error)
        return text

    def breached(self, call: str, rule: str, text: str, at: float, subject: object = None) -> None:
        """Note a breach of the contract. `rule` tells breaches apart."""
        self._note((call, rule), Fault(call, text[:LONGEST_TEXT], _named(subject), at=at), None)

    def noticed(self, title: str, call: str, text: str, at: float, subject: object = None) -> None:
        """Note what somebody should see in the log, and what is no fault. `title` tells such things apart."""
        self._merge((call, title), Fault(call, text[:LONGEST_TEXT], _named(subject), at=at, title=title))

    def known(self) -> list[tuple[tuple[str, str], Fault]]:
        """The faults, each with a key that stays the same while its count grows."""
        return list(self._by_place.items())

    def absorb(self, other: FaultLog) -> None:
        """Add the faults of another book, for an algorithm that takes over."""
        self.total += other.total
        self.last = other.last or self.last
        for key, fault in other.known():
            self._merge(key, fault)

    def _note(self, key: tuple[str, str], fault: Fault, error: Exception | None) -> None:
        self.total += 1
        if error is not None and key not in self._by_place:
            fault = replace(fault, trace=_trace(error))
        self.last = self._merge(key, fault)

    def _merge(self, key: tuple[str, str], fault: Fault) -> Fault:
        if key not in self._by_place and len(self._by_place) >= MOST_FAULTS:
            key = _OTHERS
        known = self._by_place.get(key)
        if known is not None:
            fault = replace(fault, count=known.count + fault.count, trace=known.trace)
        self._by_place[key] = fault
        return fault


def _trace(error: Exception) -> traceback.TracebackException:
    """The traceback without the text of its lines: reading files is for the thread that writes the log."""
    return traceback.TracebackException.from_exception(error, limit=-_FRAMES, lookup_lines=False, compact=True)


def _place(error: Exception) -> str:
    """The type, and the line that raised it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
    return f"{type(error).__name__} {where}"


def _text(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(it has no text)"
    return f"{type(error).__name__}: {text}"[:LONGEST_TEXT]


def _named(subject: object) -> str:
    match subject:
        case Pod():
            return f"pod {subject.key}"
        case Node():
            return f"node {subject.name}"
        case _:
            return ""
