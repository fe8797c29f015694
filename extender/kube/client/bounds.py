"""Bounds of what is read and kept of an API server's answers, and the record of answers that broke one.

The server may be broken, or may not be the API server at all. An answer beyond a bound is refused: the connection is
closed, a write counts as *unknown* and is read back, a list or watch is tried again with back-off. Each refusal is
counted by its bound, logged once a minute at most, and shown by `/readyz` for five minutes.

The bounds are far from what clusters have. etcd takes requests of 1.5 MiB, kube-apiserver bodies of 3 MiB; it ends
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

log = structlog.get_logger(__name__)

KIB, MIB = 1024, 1024 * 1024

#: Bytes of an object: an answer to a read or a write, one line of a watch, an item of a list.
OBJECT = 4 * MIB
#: Bytes of the answer to a review of a token or a right, and of a Lease.
SMALL_OBJECT = 256 * KIB
#: Bytes of one page of a list. A page that is larger is asked for again with fewer objects.
PAGE = 16 * MIB
#: Bytes of status line and headers, those of interim answers (1xx) among them.
HEAD = 64 * KIB
#: Bytes without one of the body in them: trailers, extensions of chunks.
FRAMING = 64 * KIB
#: Bytes of a page's `continue`; kube-apiserver's have some hundred.
PAGE_TOKEN = 16 * KIB
#: Pages of a list that may have no items.
EMPTY_PAGES = 100
#: Seconds that a page and a whole list may take.
PAGE_SECONDS = 60.0
LIST_SECONDS = 600.0
#: Seconds that a watch may outlast what it was asked to last.
WATCH_OVERTIME = 60.0

#: An object of more bytes than this is looked at before it is decoded: commas and colons, which are what costs.
_LOOKED_AT = 256 * KIB
_SEPARATORS = 200_000
#: Characters of a text of the API server that are repeated in a log, an Event or a page.
_TEXT = 500

_LOG_EVERY = 60.0
_SHOWN_FOR = 300.0


class Bound(StrEnum):
    """Which bound an answer broke."""

    #: Its head, or interim answers, do not end.
    HEAD = "head"
    #: It is no HTTP, contradicts itself about its length, has a coding that was not asked for, or consists of framing.
    FRAMING = "framing"
    #: Its body is too large.
    SIZE = "size"
    #: It began, and did not end in time.
    TIME = "time"
    #: A list does not end, or repeats itself.
    LIST = "list"
    #: There is more than `cluster.cache_mib` of nodes or pods.
    CACHE = "cache"


class Refusals:
    """Counts answers that were refused. Thread-safe. `clock` is in seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[Bound] = Counter()
        self._latest: dict[Bound, tuple[float, str]] = {}
        self._logged: dict[Bound, tuple[float, int]] = {}

    def count(self, bound: Bound, what: str) -> None:
        """An answer was refused. `what` says which, and what was expected."""
        now = self._clock()
        with self._lock:
            self._counts[bound] += 1
            self._latest[bound] = (now, what)
            logged, told = self._logged.get(bound, (float("-inf"), 0))
            if now - logged < _LOG_EVERY:
                return
            number = self._counts[bound] - told
            self._logged[bound] = (now, self._counts[bound])
        log.warning("an answer of the API server was refused", bound=bound.value, error=what, times=number)

    def counts(self) -> dict[Bound, int]:
        """How many were refused so far, for every bound."""
        with self._lock:
            return {bound: self._counts[bound] for bound in Bound}

    def remark(self) -> str:
        """For people: what was refused in the last five minutes, "" if nothing."""
        now = self._clock()
        with self._lock:
            recent = [(when, what) for when, what in self._latest.values() if now - when < _SHOWN_FOR]
        return f"an answer of the API server was refused: {max(recent)[1]}" if recent else ""


def cut(text: str) -> str:
    """The beginning of a text that the API server chose, as much as people need."""
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}... ({len(text)} characters)"


class BoundError(Exception):
    """What was read breaks a bound."""

    def __init__(self, message: str, bound: Bound) -> None:
        super().__init__(message)
        self.bound = bound


def oversized(raw: bytes | msgspec.Raw) -> str:
    """Why an object is not to be decoded: "" if it is.

    What decoding costs goes with the number of its parts (a million labels hold the interpreter for a second), and so
    does what is kept of it.
    """
    size = memoryview(raw).nbytes
    if size <= _LOOKED_AT:
        return ""
    if size > OBJECT:
        return f"it has {size} bytes, expected at most {OBJECT}"
    return too_many_parts(bytes(raw))


def too_many_parts(text: bytes) -> str:
    """Says of how many parts this is too many, "" if it is not."""
    parts = text.count(b",") + text.count(b":")
    return f"it has {parts} parts, expected at most {_SEPARATORS}" if parts > _SEPARATORS else ""
