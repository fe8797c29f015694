"""The files of a recording: a folder that only its owner can enter, and new files in it that only its owner can read.

    000001.waggle-log.gz            a segment: events
    000001.waggle-checkpoint.gz     the engine's state at some event of the segment of this number

A recording has the names, labels and stored annotations of every pod, so nobody else reads it, from the moment it
exists. `gzip` files of both kinds may be joined (`cat`): a checkpoint before its segment is a log of its own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

LOG, CHECKPOINT = "waggle-log", "waggle-checkpoint"
_NAME = re.compile(rf"([0-9]{{6}})\.({LOG}|{CHECKPOINT})\.gz", re.ASCII)
_TEMPORARY = re.compile(rf"\.[0-9]{{6}}\.({LOG}|{CHECKPOINT})\.gz\.[0-9]+\.new", re.ASCII)
_MOST_NUMBER = 999_999
#: Level of compression. Lists of names in no order take a third more time at the next one, for a twentieth less; other
#: lines are the same.
_LEVEL = 2


class Found(NamedTuple):
    """A file of a recording."""

    number: int
    kind: str
    path: Path


def name_of(number: int, kind: str) -> str:
    return f"{number:06}.{kind}.gz"


def files_in(folder: Path) -> list[Found]:
    """Return the files of recordings in a folder by number; others are left out. Raises OSError."""
    found = []
    for path in folder.iterdir():
        if match := _NAME.fullmatch(path.name):
            found.append(Found(int(match[1]), match[2], path))
    return sorted(found)


class OwnFolder:
    """A folder that this process owns while it records: of mode 0700, and locked against a second server.

    Raises OSError, which names the folder, if it belongs to somebody else, has files of others, or is in use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = _own(path)

    def renew(self) -> None:
        """Make the folder again if somebody has deleted or moved it. Raises OSError as at first."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._descriptor), self.path.lstat()):
                return
        before, self._descriptor = self._descriptor, _own(self.path)
        os.close(before)

    def close(self) -> None:
        """Release the lock, so that others can record into it. Call it once."""
        os.close(self._descriptor)

    def files(self) -> list[Found]:
        """The files of recordings in it, by number."""
        return files_in(self.path)

    def next_number(self) -> int:
        """The number of the next file. Raises OSError if there were too many."""
        number = max((each.number for each in self.files()), default=0) + 1
        if number > _MOST_NUMBER:
            raise OSError(errno.EFBIG, f"has had {_MOST_NUMBER} segments; use another folder", str(self.path))
        return number


def check_own(folder: Path) -> None:
    """Make the folder if need be, and raise OSError, as OwnFolder does, if a server could not record into it."""
    os.close(_own(folder))


def _own(folder: Path) -> int:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = _opened(folder)
    try:
        _take(descriptor, folder)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _opened(folder: Path) -> int:
    if folder.is_symlink() or not folder.is_dir():
        kind = "a symbolic link" if folder.is_symlink() else "no folder"
        raise OSError(errno.ENOTDIR, f"is {kind}; a recording is written to a folder of its own", str(folder))
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _take(descriptor: int, folder: Path) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
    names = os.listdir(descriptor)
    others = sorted(name for name in names if not (_NAME.fullmatch(name) or _TEMPORARY.fullmatch(name)))
    if others:
        text = f"has other files ({others[0]}); a recording is written to a folder of its own"
        raise OSError(errno.ENOTEMPTY, text, str(folder))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(errno.EBUSY, "another Waggle records into it", str(folder)) from error
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.fchmod(descriptor, 0o700)
    for name in names:
        if _TEMPORARY.fullmatch(name):  # of a server that was killed
            os.unlink(name, dir_fd=descriptor)


def open_private(path: Path) -> IO[bytes]:
    """Open a new file at `path` that only its owner can read and write. Raises OSError, with the file's name.

    An existing file at `path` is not opened: with a wider mode, a second hard link, or a reader that has it open,
    others could read the new content. A new file replaces it in one step, which also follows no symbolic link.
    """
    _check_replaceable(path)
    new, file = _created_beside(path)
    try:
        new.replace(path)
    except OSError:
        file.close()
        new.unlink()
        raise
    return file


def _created_beside(path: Path) -> tuple[Path, IO[bytes]]:
    """A new temporary file that is to replace the one at `path`. Raises OSError, with the name of that one."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        return new, _create(new)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _create(new: Path) -> IO[bytes]:
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    return os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")


def _check_replaceable(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no regular file"
        raise OSError(errno.EEXIST, f"is {kind}; a recording is written to a file of its own", str(path))
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))


class CompressedFile:
    """A new gzip file of lines. What was flushed can be read, whatever happens to the process.

    With `complete=True` the file has its name only once it is closed by `finish`; before, it is a hidden file.
    """

    def __init__(self, path: Path, *, complete: bool = False) -> None:
        self.path = path
        #: Bytes before and after compression, without those that are not flushed yet.
        self.plain_bytes = self.bytes = 0
        self._temporary: Path | None = None
        if complete:
            _check_replaceable(path)
            self._temporary, self._file = _created_beside(path)
        else:
            self._file = open_private(path)
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
        #: Whether all that was written can be read.
        self.is_flushed = True

    def write(self, text: bytes) -> None:
        self.plain_bytes += len(text)
        self.is_flushed = False
        self._put(self._deflate.compress(text))

    def flush(self) -> None:
        """Make everything written so far readable. Costs a few bytes."""
        if not self.is_flushed:
            self.is_flushed = True
            self._put(self._deflate.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def check(self) -> None:
        """Raise OSError if somebody has deleted or moved the file: nobody would find what is written to it."""
        if not os.path.samestat(os.fstat(self._file.fileno()), self.path.lstat()):
            raise FileNotFoundError(errno.ENOENT, "is another file now", str(self.path))

    def _put(self, data: bytes) -> None:
        self.bytes += len(data)
        if data:
            self._file.write(data)

    def finish(self) -> None:
        """Write the end of the file, and close it."""
        try:
            self._put(self._deflate.flush(zlib.Z_FINISH))
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()
        if self._temporary is not None:
            self._temporary.replace(self.path)

    def abandon(self, *, delete: bool = False) -> None:
        """Close the file as it is; one without its name yet is deleted."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self._temporary is not None or delete:
            with contextlib.suppress(OSError):
                (self._temporary or self.path).unlink()


class NewFile(CompressedFile):
    """A file that a command writes: complete, or not there. An OSError names it, also that of a full disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, complete=True)

    def _put(self, data: bytes) -> None:
        with named_in_errors(self.path):
            super()._put(data)

    def finish(self) -> None:
        with named_in_errors(self.path):
            super().finish()


@contextlib.contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Let each OSError name the file that was to be written: that of a full disk names none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
