"""Bounds for what is read and kept of the API server's responses, and a record of the responses that broke one.

The server may be broken, or may not be the API server at all. A response beyond a bound is refused: the connection is
closed, a write counts as *unknown* and is read back, a list or watch is tried again with back-off. Each refusal is
counted by its bound, logged at most once a minute, and shown by `/readyz` for five minutes.

The bounds are far above what clusters need. etcd accepts requests of 1.5 MiB, kube-apiserver bodies of 3 MiB; it ends
everything but watches after 60 s, and its page tokens expire after 5 to 10 minutes.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import msgspec
import structlog

from extender.core.requests import KIB, MIB, OBJECT, SMALL_OBJECT

__all__ = ["KIB", "MIB", "OBJECT", "SMALL_OBJECT", "Bound", "BoundError", "Refusals", "cut", "oversized"]

log = structlog.get_logger(__name__)

#: Bytes of one page of a list. If a page is larger, the list is repeated with fewer objects a page.
PAGE = 16 * MIB
#: Bytes of status line and headers, including those of interim responses (1xx).
HEAD = 64 * KIB
#: Bytes of framing in a row without a byte of the body: trailers, extensions of chunks.
FRAMING = 64 * KIB
#: Bytes of a page's `continue`; kube-apiserver's have some hundred.
PAGE_TOKEN = 16 * KIB
#: Pages of a list that may be empty.
EMPTY_PAGES = 100
#: Seconds that a page and a whole list may take.
PAGE_SECONDS = 60.0
LIST_SECONDS = 600.0
#: Seconds that a watch may outlast the time that was requested.
WATCH_OVERTIME = 60.0

#: Bytes above which an object is checked before it is decoded: commas and colons, which make decoding expensive.
_LOOKED_AT = 256 * KIB
_SEPARATORS = 200_000
#: Characters of a text from the API server that are repeated in a log, an Event or a page.
_TEXT = 500

_LOG_EVERY = 60.0
_SHOWN_FOR = 300.0


class Bound(StrEnum):
    """The bound that a response broke."""

    #: The head, or a series of interim responses, does not end.
    HEAD = "head"
    #: The response is no HTTP, contradicts itself about its length, has a coding that was not asked for, or is mostly
    #: framing.
    FRAMING = "framing"
    #: The body is too large.
    SIZE = "size"
    #: The response began, and did not end in time.
    TIME = "time"
    #: A list does not end, or repeats itself.
    LIST = "list"
    #: The nodes or pods need more memory than `cluster.cache_mib`.
    CACHE = "cache"


class Refusals:
    """Counts refused responses. Thread-safe. `clock` is in seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[Bound] = Counter()
        self._latest: dict[Bound, tuple[float, str]] = {}
        self._logged: dict[Bound, tuple[float, int]] = {}

    def count(self, bound: Bound, what: str) -> None:
        """Count a refused response. `what` says which response it was, and what was expected."""
        now = self._clock()
        with self._lock:
            self._counts[bound] += 1
            self._latest[bound] = (now, what)
            logged, before = self._logged.get(bound, (float("-inf"), 0))
            if now - logged < _LOG_EVERY:
                return
            number = self._counts[bound] - before
            self._logged[bound] = (now, self._counts[bound])
        log.warning("an answer of the API server was refused", bound=bound.value, error=what, times=number)

    def counts(self) -> dict[Bound, int]:
        """Number of refusals so far, for every bound."""
        with self._lock:
            return {bound: self._counts[bound] for bound in Bound}

    def readiness_warning(self) -> str:
        """For people: the refusals of the last five minutes, "" if there are none."""
        now = self._clock()
        with self._lock:
            recent = [(when, what) for when, what in self._latest.values() if now - when < _SHOWN_FOR]
        return f"an answer of the API server was refused: {max(recent)[1]}" if recent else ""


def cut(text: str) -> str:
    """The beginning of a text that the API server chose, cut to what people need."""
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}... ({len(text)} characters)"


class BoundError(Exception):
    """The data that was read breaks a bound."""

    def __init__(self, message: str, bound: Bound) -> None:
        super().__init__(message)
        self.bound = bound


def oversized(raw: bytes | msgspec.Raw) -> str:
    """Why an object must not be decoded; "" if it may be.

    The cost of decoding an object grows with the number of its parts (a million labels hold the GIL for a second), and
    so does the memory for what is kept of it.
    """
    size = memoryview(raw).nbytes
    if size <= _LOOKED_AT:
        return ""
    if size > OBJECT:
        return f"it has {size} bytes, expected at most {OBJECT}"
    return too_many_parts(bytes(raw))


def too_many_parts(text: bytes) -> str:
    """Say how many parts it has if these are too many, "" otherwise."""
    parts = text.count(b",") + text.count(b":")
    return f"it has {parts} parts, expected at most {_SEPARATORS}" if parts > _SEPARATORS else ""
