"""Reads the objects of a long list in JSON one after the other, so that only one is in memory.

An object that is no JSON ends the reading: nobody can know where the next one begins.
"""

from __future__ import annotations

import json
import re
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from extender.lab.tables import FatalTraceError, TraceError, open_file

#: Characters of one object.
LONGEST_ENTRY = 4 << 20
#: Bytes that are read at a time, or more.
_PIECE = 1 << 18
_SPACE = re.compile(r"[ \t\r\n]*")


class Entry(NamedTuple):
    """One object, its number in the list, and the line in which it begins: the whole list may be one line."""

    file: str
    line: int
    number: int
    fields: dict[str, Any]

    @property
    def where(self) -> str:
        """The place of the object, for messages."""
        return f"{self.file}, line {self.line}, object {self.number}"

    def value(self, key: str) -> Any:
        """Return a value. Raises TraceError if there is none."""
        if key not in self.fields:
            raise TraceError(f"{self.where}: {key}: missing")
        return self.fields[key]

    def text(self, key: str) -> str:
        """Return a text that is not empty, and not too long."""
        found = self.value(key)
        if not isinstance(found, str) or not 0 < len(found) <= 200:
            raise self.error(key, "a text of 1 to 200 characters")
        return found

    def error(self, path: str, expected: str) -> TraceError:
        """Return an error about a value, to be raised."""
        got = f", got {self.fields[path]!r:.50}" if path in self.fields else ""
        return TraceError(f"{self.where}: {path}: expected {expected}{got}")


class _Text:
    """A text file that is read in pieces, not by lines: the whole list may be one line."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.line = path, 1
        #: Of the object that is being read.
        self.number = 0
        self.rest, self.at = "", 0
        self._file = file
        self._decoder = getincrementaldecoder("utf-8-sig")()

    def more(self) -> bool:
        """Read the next piece. Returns False at the end of the file."""
        try:
            read = self._file.read(max(_PIECE, len(self.rest) - self.at))
            text = self._decoder.decode(read, final=not read)
        except UnicodeDecodeError as error:
            raise self.error("expected UTF-8", self.rest.count("\n", self.at)) from error
        except (OSError, EOFError, zlib.error) as error:
            raise self.error(f"expected a whole gzip file: {error}", self.rest.count("\n", self.at)) from error
        self.rest, self.at = self.rest[self.at :] + text, 0
        return bool(read)

    def use(self, until: int) -> None:
        """Continue at another place of `rest`, and count the lines until there."""
        self.line += self.rest.count("\n", self.at, until)
        self.at = until

    def next_sign(self) -> str:
        """Return the next character that is no space; empty at the end."""
        while True:
            found = _SPACE.match(self.rest, self.at)
            self.use(found.end() if found else self.at)
            if self.at < len(self.rest):
                return self.rest[self.at]
            if not self.more():
                return ""

    def error(self, text: str, further: int = 0) -> FatalTraceError:
        """Return an error about the present line, or one further down."""
        which = f", object {self.number}" if self.number else ""
        return FatalTraceError(f"{self.path}, line {self.line + further}{which}: {text}")


def entries(path: Path) -> Iterator[Entry]:
    """Yield the objects of a list, at least one. Raises TraceError, which names the line and the object's number."""
    with open_file(path) as file:
        text = _Text(path, file)
        if text.next_sign() != "[":
            raise text.error("expected a list in JSON")
        text.use(text.at + 1)
        if text.next_sign() == "]":
            raise text.error("expected a list with objects, got an empty one")
        while True:
            yield _entry(text)
            sign = text.next_sign()
            if sign not in (",", "]"):
                raise text.error(f"expected a comma or the end of the list, got {sign!r}")
            text.use(text.at + 1)
            if sign == "]":
                return


def _entry(text: _Text) -> Entry:
    text.next_sign()
    line = text.line
    text.number += 1
    decoder = json.JSONDecoder()
    while True:
        try:
            found, end = decoder.raw_decode(text.rest, text.at)
        except RecursionError:
            raise text.error("expected an object that is not nested so deeply") from None
        except ValueError as error:
            if len(text.rest) - text.at > LONGEST_ENTRY or not text.more():
                broken = error.pos if isinstance(error, json.JSONDecodeError) else text.at
                further = text.rest.count("\n", text.at, broken)
                raise text.error(f"expected an object in JSON: {error}", further) from error
            continue
        if not isinstance(found, dict):
            raise text.error(f"expected an object, got {found!r:.50}")
        text.use(end)
        return Entry(str(text.path), line, text.number, found)
