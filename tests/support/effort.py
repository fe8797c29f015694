"""Counts work instead of measuring time: how many bytecodes Python executes in a call.

The same call takes the same number in every run and on every machine, so a test can say how cost grows: `effort` for n
and for 2n. What C functions do inside (sorting, copying a dict) is not counted; what is written in Python is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def effort(call: Callable[[], object]) -> int:
    """Bytecodes executed by `call` in this thread."""
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
