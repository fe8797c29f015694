"""Deletes old files of a recording's folder, so that it stays below a number of bytes and can still be replayed.

    | segment 1 | 2 | 3 + checkpoint | 4 | 5 + checkpoint | 6 (is written)
    +---- one group ----+--- one group ---+----- kept -----+

A replay begins with the first segment of a run, or at a checkpoint. So files are deleted in groups: from one beginning
up to before the next. The last beginning of the present run is kept, with all that follows.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from extender.recording.encoding import decode_header
from extender.recording.files import LOG, OwnFolder
from extender.recording.lines import Lines
from extender.recording.records import RecordingError


@dataclass
class _Numbered:
    """The files of one number."""

    number: int
    paths: dict[Path, int]
    #: A replay can begin here; and whether it is of the present run.
    is_start: bool = False
    is_ours: bool = False

    @property
    def bytes(self) -> int:
        return sum(list(self.paths.values()))  # another thread may add one meanwhile


class Retention:
    """Knows the complete files. Raises OSError if the folder cannot be read."""

    def __init__(self, folder: OwnFolder, most: int) -> None:
        self._most = most
        self._files: dict[int, _Numbered] = {}
        for found in folder.files():
            numbered = self._files.setdefault(found.number, _Numbered(found.number, {}))
            numbered.paths[found.path] = found.path.stat().st_size
            numbered.is_start |= found.kind != LOG or _is_first(found.path)

    @property
    def bytes(self) -> int:
        return sum(numbered.bytes for numbered in list(self._files.values()))

    def add(self, number: int, path: Path, size: int, *, is_start: bool) -> None:
        """A file of the present run is complete."""
        numbered = self._files.setdefault(number, _Numbered(number, {}))
        numbered.paths[path] = size
        numbered.is_ours = True
        numbered.is_start |= is_start

    def forget_deleted(self) -> None:
        """Forget files that somebody else has deleted."""
        for number, numbered in list(self._files.items()):
            numbered.paths = {path: size for path, size in numbered.paths.items() if path.exists()}
            if not numbered.paths:
                del self._files[number]

    def tidy(self, room: int, writing: int) -> bool:
        """Delete the oldest groups until `room` bytes are free. False if there is not enough that may be deleted.

        `writing`: the number of the segment that is written, which is not deleted.
        """
        while self.bytes + room > self._most:
            if not self.delete_oldest(writing):
                return False
        return True

    def delete_oldest(self, writing: int) -> int:
        """Delete the oldest group; returns its bytes, 0 if there is none that may be deleted. `writing`: as above."""
        group = self._oldest_group(writing)
        freed = sum(numbered.bytes for numbered in group)
        for numbered in group:
            self._delete(numbered)
        return freed

    def _oldest_group(self, writing: int) -> list[_Numbered]:
        files = sorted(self._files.values(), key=lambda each: each.number)
        last = max((each.number for each in files if each.is_ours and each.is_start), default=None)
        first_of_ours = min((each.number for each in files if each.is_ours), default=writing)
        kept = min(first_of_ours if last is None else last, writing)
        group: list[_Numbered] = []
        for each in files:
            if each.number >= kept or (group and each.is_start):
                break
            group.append(each)
        return group

    def _delete(self, numbered: _Numbered) -> None:
        for path in numbered.paths:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        del self._files[numbered.number]


def _is_first(path: Path) -> bool:
    """Whether the segment is the first one of a run; False if it cannot be read: then it goes with those before it."""
    try:
        with Lines(path) as lines:
            return decode_header(next(lines, b""), str(path)).first == 1
    except (RecordingError, OSError):
        return False
