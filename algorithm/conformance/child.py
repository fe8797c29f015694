"""The process in which an algorithm is tested: it may hang, print, or exit, and the reporting process continues.

    python -m algorithm.conformance.child RESULTS COUNTER CALLS PARENT < request

RESULTS is the number of an open file: one JSON object a line. COUNTER is a file of 8 bytes, which count the calls of
methods; CALLS is one with the calls of the present life, one JSON object a line. So the parent knows what went on when
this process was killed. PARENT is the parent's process number: this process ends with it, however it ends.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algorithm.conformance import side_effects
from algorithm.conformance.limits import limit_process
from algorithm.parent_process import end_with_parent


class Progress:
    """Tells the parent what is going on: a counter in shared memory, and the present life's calls in a file."""

    def __init__(self, counter: str, calls: str) -> None:
        with Path(counter).open("r+b") as file:
            self._counter = mmap.mmap(file.fileno(), 8)
        self._calls = os.open(calls, os.O_WRONLY)
        self._write = os.write
        self._count = 0

    def called(self, _method: str) -> None:
        self._count += 1
        self._counter[:8] = self._count.to_bytes(8, "little")

    def call(self, call: Any) -> None:
        """Write down a call before it is carried out; None: a new life begins."""
        from algorithm.conformance.calls import encode_one

        if call is None:
            os.ftruncate(self._calls, 0)
            os.lseek(self._calls, 0, os.SEEK_SET)
        else:
            self._write(self._calls, encode_one(call) + b"\n")


def main(arguments: Sequence[str]) -> int:
    """Try what the request on standard input says. Returns the exit status: 0, whatever comes of it."""
    results, counter, calls, parent = arguments
    end_with_parent(int(parent))
    side_effects.install()
    # Everything else is imported after the hooks are there, so that they see what the plug-in imports.
    import msgspec

    from algorithm.conformance.guard import Guard, keep_handler
    from algorithm.conformance.reference import UnusableError
    from algorithm.conformance.results import Request, shortened
    from algorithm.conformance.trying import tried

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    limit_process(request.memory)
    keep_handler()
    progress = Progress(counter, calls)

    def tell(message: dict[str, Any]) -> None:
        os.write(int(results), msgspec.json.encode(message) + b"\n")

    try:
        for message in tried(request, Guard(request.limit, progress.called), progress.call):
            tell(message)
    except UnusableError as error:
        tell({"unusable": shortened(str(error))})
    return 0


if __name__ == "__main__":
    # The module is imported as `__main__`; the rest of the kit must see the same hooks.
    raise SystemExit(main(sys.argv[1:]))
