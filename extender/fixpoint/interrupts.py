"""A call that another thread can interrupt: only while it lasts, at most once, and never inside of certain code.

CPython raises an exception in another thread between two of its instructions (PyThreadState_SetAsyncExc). That ends a
loop of Python code. It does not end a call of C code that waits, such as `time.sleep`: the exception is raised when
that call returns.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from threading import Lock, Timer, get_ident
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")

#: How often, and how long apart in seconds, `interrupt` looks whether the call has left the code that is spared.
_LOOKS = 1000
_BETWEEN_LOOKS = 0.005


class Interrupted(BaseException):
    """The run was to end, and this body did not. A body may clean up because of it, as of a KeyboardInterrupt."""


class Call:
    """One call, to be made once.

    The token says who was first: a call that takes it has ended and is not interrupted any more; an interruption that
    takes it is awaited by the call. So the exception cannot be raised in what the thread does afterwards.
    """

    __slots__ = ("_sent", "_thread", "_token")

    def __init__(self) -> None:
        self._token = Lock()
        self._thread: int | None = None
        self._sent = False

    def __call__(self, function: Callable[[A], R], argument: A) -> R:
        """Return what the function returns. Raises what it raises, or Interrupted."""
        try:
            self._thread = get_ident()
            return function(argument)
        finally:
            if not self._token.acquire(False):
                self._await_interruption()

    def interrupt(self, spared: str) -> None:
        """Raise Interrupted in the call, if it lasts; but not while a function of the file `spared` runs in it.

        The caller has seen to it that the call can no longer enter a function of that file.
        """
        for _ in range(_LOOKS):
            thread = self._thread
            if thread is None or self._token.locked():
                return
            if not _runs_in(thread, spared):
                break
            time.sleep(_BETWEEN_LOOKS)
        else:
            return
        if self._token.acquire(blocking=False):
            _raise_in(thread, Interrupted)
            self._sent = True

    def _await_interruption(self) -> None:
        while not self._sent:
            time.sleep(0)
        _swallow()  # the function may have returned before the exception was raised


def later(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Call it in a daemon thread of its own after so many seconds. Return what undoes that."""
    timer = Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer.cancel


def _runs_in(thread: int, file: str) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename == file:
            return True
        frame = frame.f_back
    return False


def _swallow() -> None:
    """Raise and catch an Interrupted in this thread, in place of one that may not have been raised yet.

    CPython 3.11 does not notice that an exception is taken back (by NULL): until the next one is raised, each thread
    that is profiled or traced then loops for ever at its first call, and all others are slower.
    """
    try:
        _raise_in(get_ident(), Interrupted)
        while True:
            pass
    except Interrupted:
        pass


def _raise_in(thread: int, exception: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))
