"""Splits JSON into many pieces; a caller is sent those that changed since its last request.

A version is RUN.NUMBER. A restarted process counts from the beginning and has another RUN, so a caller with a version
of the process before gets everything.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

import msgspec

from extender.web.ui.seldom import Seldom


class Increments:
    """Caches the pieces. Thread-safe. `read` is called at most every `interval` seconds, less often if it takes long,
    however many callers ask."""

    def __init__(
        self, read: Callable[[], list[bytes]], *, interval: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seldom = Seldom(read, interval=interval, clock=clock)
        self._run = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._number = 0
        self._pieces: list[bytes] = []
        #: For each piece, the number of the reading that last changed it.
        self._written: list[int] = []

    def since(self, version: str) -> bytes:
        """JSON with `version`, `size` (the number of pieces), and `pieces` by number, those newer than `version`.

        An unknown version, such as "", brings all pieces.
        """
        with self._lock:
            self._refresh()
            known = self._known(version)
            changed = [number for number, written in enumerate(self._written) if written > known]
            head = msgspec.json.encode({"version": f"{self._run}.{self._number}", "size": len(self._pieces)})
            pieces = b",".join(b'"%d":%b' % (number, self._pieces[number]) for number in changed)
        return b'%b,"pieces":{%b}}' % (head[:-1], pieces)

    def _known(self, version: str) -> int:
        run, _, number = version.partition(".")
        return int(number) if run == self._run and number.isdecimal() and number.isascii() else 0

    def _refresh(self) -> None:
        before, pieces = self._pieces, self._seldom.value()
        if pieces is before:
            return
        same = [number < len(before) and before[number] == piece for number, piece in enumerate(pieces)]
        self._pieces = pieces
        if all(same) and len(pieces) == len(before):
            return
        self._number += 1
        written = self._written[: len(pieces)] + [0] * (len(pieces) - len(self._written))
        self._written = [old if unchanged else self._number for old, unchanged in zip(written, same, strict=True)]
