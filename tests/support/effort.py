"""Counts work instead of measuring time: how many bytecodes Python executes in a call.

The same call takes the same number in every run and on every machine, so a test can say how cost grows: `effort` for n
and for 2n. What C functions do inside (sorting, copying a dict) is not counted; what is written in Python is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any


def effort(call: Callable[[], object]) -> int:
    """Bytecodes executed by `call` in this thread."""
    return _monitored(call) if sys.version_info >= (3, 12) else _traced(call)


def _monitored(call: Callable[[], object]) -> int:
    """From Python 3.12 on, tracing misses bytecodes of code that was traced before."""
    monitoring, thread, count = sys.monitoring, get_ident(), 0

    def executed(_code: object, _offset: int) -> None:
        nonlocal count
        count += get_ident() == thread

    monitoring.use_tool_id(monitoring.PROFILER_ID, "effort")
    monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, executed)
    monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION)
    try:
        call()
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
    return count


def _traced(call: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
