"""The lines of a file, compressed or not, within bounds: a file that somebody sent cannot fill the memory.

Lines are read one by one. A line has at most LONGEST_LINE bytes, however far it is compressed, and no more than that
and one block is ever in memory. A file that was cut off (the server was killed, or still writes) ends with its last
complete line, and `cut_off` says so, also if zeros follow; anything else that is wrong is a RecordingError with file
and line.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from extender.logs.printable import printable
from extender.recording.records import RecordingError

LONGEST_LINE = 32 << 20
_BLOCK = 256 << 10
#: Characters of why a line cannot be used: a number in it may have any number of digits.
_LONGEST_REASON = 400
GZIP = b"\x1f\x8b"
_MANY_ZEROS = 64


class Lines:
    """An iterator over the lines of one file, without their line breaks. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        #: How many lines were read.
        self.number = 0
        #: Why the file ends before its end; "" if it is complete, as far as it was read.
        self.cut_off = ""
        #: Whether a compressed file goes on after its first member, as far as it was read, if only with zeros.
        self.goes_on = False
        self._file: IO[bytes] = path.open("rb")
        if self._file.peek(2)[:2] == GZIP:
            size, self.goes_on = _without_zeros(self._file)
            self._blocks = self._inflated(size)
        else:
            self._blocks = self._plain()
        self._lines = self._split()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line = next(self._lines)
        self.number += 1
        return line

    def wrong(self, why: str) -> RecordingError:
        """Return an error about the line that was read last."""
        return RecordingError(f"{self.name}:{max(self.number, 1)}: {printable(why, _LONGEST_REASON)}")

    def _split(self) -> Iterator[bytes]:
        rest = b""
        for block in self._blocks:
            rest += block
            if b"\n" in block:
                *lines, rest = rest.split(b"\n")
                yield from lines
            if len(rest) > LONGEST_LINE:
                raise RecordingError(
                    f"{self.name}:{self.number + 1}: a line of more than {LONGEST_LINE} bytes: no Waggle recording"
                )
        if rest:
            self.cut_off = self.cut_off or "its last line is not complete"

    def _plain(self) -> Iterator[bytes]:
        while block := self._file.read(_BLOCK):
            yield block

    def _inflated(self, size: int) -> Iterator[bytes]:
        """All members of a gzip file of so many bytes, one after the other."""
        inflate, data = zlib.decompressobj(31), b""
        try:
            while True:
                if not data:
                    data = self._file.read(min(_BLOCK, size))
                    size -= len(data)
                if not data:
                    if not inflate.eof:
                        self.cut_off = "it was cut off"
                    return
                if inflate.eof:
                    inflate, self.goes_on = zlib.decompressobj(31), True
                yield inflate.decompress(data, _BLOCK)
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        except zlib.error as error:
            raise RecordingError(f"{self.name}:{self.number + 1}: damaged after this line: {error}") from error


def _without_zeros(file: IO[bytes]) -> tuple[int, bool]:
    """Return the size of a compressed file without the zeros at its end, if there are many, and whether there are.

    A file system may leave them in the place of what was written last when a machine fails. A whole file has few.
    """
    if not file.seekable():
        return sys.maxsize, False
    size = file.seek(0, os.SEEK_END)
    end = size
    while end:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        if block := file.read(end - begin).rstrip(b"\0"):
            end = begin + len(block)
            break
        end = begin
    file.seek(0)
    return (end, True) if size - end >= _MANY_ZEROS else (size, False)


def reopened(path: Path) -> Lines:
    """Open a file that was there when its log was opened. Raises RecordingError if it was deleted, and OSError."""
    try:
        return Lines(path)
    except FileNotFoundError as error:
        raise deleted(path) from error


def size_of(path: Path) -> int:
    """Return the bytes of a file that was there when its log was opened. Raises as `reopened`."""
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise deleted(path) from error


def deleted(path: Path | str) -> RecordingError:
    """Return an error about a file that was deleted meanwhile."""
    why = "a server that records deletes its oldest files; try again, or copy the folder first"
    return RecordingError(f"{path}: was deleted while the log was read: {why}")
