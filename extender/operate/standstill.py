"""Says that an algorithm does not return, and where it is, in commands that run one in their own process.

A simulation with such an algorithm would look like a slow one. Nothing is ended: the algorithm may be right, and the
cluster large. The user may press Ctrl-C, or give the algorithm to `waggle conformance`, where calls have a limit.

A thread looks from time to time whether the main thread is still in the same call of the engine: what is watched needs
to say nothing, and becomes no slower.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from extender.operate.output import remark
from extender.scheduling.machine import SchedulerStateMachine

#: Seconds in one event from which on it is said, and how often it is looked meanwhile.
_PATIENCE: Final = 10.0
_LOOKS: Final = 10
_HANDLING: Final = SchedulerStateMachine.handle.__code__


@contextmanager
def standstill_said(patience: float = _PATIENCE) -> Iterator[None]:
    """Say it on standard error, once for each event, if this thread is in one event for `patience` seconds."""
    ended = threading.Event()
    watched = threading.get_ident()
    looking = threading.Thread(target=_look, args=(watched, patience, ended), name="waggle-standstill", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()


def _look(watched: int, patience: float, ended: threading.Event) -> None:
    before = None
    seen = 0
    while not ended.wait(patience / _LOOKS):
        innermost = sys._current_frames().get(watched)
        handling = _engine_call(innermost)
        seen = seen + 1 if handling is not None and handling is before else 0
        if seen == _LOOKS:
            assert innermost is not None
            remark(f"one event has taken more than {patience:g} s so far: the algorithm is at {_place(innermost)}")
        before = handling
        del innermost  # it would keep the variables of a call that has ended


def _place(frame: FrameType) -> str:
    """The innermost call, and the one that called it: often the first is of a library."""
    places = [
        f"{each.f_code.co_filename}:{each.f_lineno} in {each.f_code.co_qualname}"
        for each in (frame, frame.f_back)
        if each is not None
    ]
    return ", called by ".join(places)


def _engine_call(frame: FrameType | None) -> FrameType | None:
    """The call of the engine that a thread is in; None if it is in none."""
    while frame is not None and frame.f_code is not _HANDLING:
        frame = frame.f_back
    return frame
