"""Reads something expensive seldom, however many callers ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Share of the time that reading may take.
SHARE = 1 / 20


class Seldom(Generic[T]):
    """Caches what `read` returns. Thread-safe. `read` is called at most every `interval` seconds, less often if it
    takes long, and never by two threads at once."""

    def __init__(self, read: Callable[[], T], *, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._interval, self._clock = read, interval, clock
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._value: T | None = None

    def value(self) -> T:
        """Return the last reading; the same object until it is read again. Raises the errors of `read`."""
        with self._lock:
            begun = self._clock()
            if self._value is None or begun >= self._next:
                self._value = self._read()
                ended = self._clock()
                self._next = ended + max(self._interval, (ended - begun) / SHARE)
            return self._value
