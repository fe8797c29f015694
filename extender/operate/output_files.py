"""How commands write the files that their options name: a file is replaced in one step, or stays as it was.

A full disk, Ctrl-C or SIGTERM leaves the old file, or none: no half file, and nothing of ours beside it. A file that
the command reads is never replaced by one that it writes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

#: Exit status of a command that SIGTERM ended, as shells know it.
TERMINATED = 128 + signal.SIGTERM


class OutputError(ValueError):
    """A file cannot be written. The message names the option and the file, and says what was expected."""


def check_outputs(outputs: Sequence[tuple[str, Path | None]], inputs: Iterable[Path]) -> None:
    """Raise OutputError if a file could not be written in the end, is one of the inputs, or is named twice.

    `outputs` are options with their files; None and `-`, which is standard output, are no files. An input may be a
    folder: its files are inputs, too.
    """
    read = [file for path in inputs for file in (_files_in(path) if path.is_dir() else [path]) if file.exists()]
    written: dict[Path, str] = {}
    for option, path in outputs:
        if path is None or str(path) == "-":
            continue
        if path.is_dir() or not path.parent.is_dir():
            raise OutputError(f"{option}: {path}: expected a file in a folder that exists")
        if path.exists() and any(path.samefile(file) for file in read):
            raise OutputError(f"{option}: {path} is a file that this command reads: expected another file")
        if (other := written.setdefault(path.resolve(), option)) != option:
            raise OutputError(f"{option}: {path} is also the file of {other}: expected another file")


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]


def write_output(path: Path, content: str | bytes | Iterator[bytes]) -> None:
    """Replace a file by one with this content, which may come in pieces; text is UTF-8. The mode of an existing file is
    kept, and a symbolic link still points to it. Devices and pipes are written to.

    Raises OSError with the name of the file, and what the making of a piece raises.
    """
    data = content if isinstance(content, Iterator) else (content.encode() if isinstance(content, str) else content,)
    target = path.resolve()
    try:
        if (target.exists() and not target.is_file()) or path.absolute().parent == Path("/dev"):
            with path.open("wb") as file:  # also /dev/stdout, which may be a file that the shell has opened
                file.writelines(data)
            return
        _replace(target, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Replace a file by one that only those can read whom `mode` allows, from the beginning. A symbolic link is
    replaced, too, and what it leads to stays. Devices and pipes are written to: a file in their place would break them.

    Raises OSError.
    """
    if (path.exists() and not path.is_file()) or (path.is_symlink() and path.absolute().parent == Path("/dev")):
        path.write_bytes(content)
    else:
        _put(path, (content,), mode)


def _replace(target: Path, data: Iterable[bytes]) -> None:
    if not target.exists():
        _put(target, data, 0o666)
        return
    with target.open("r+b"):  # a file that may not be written is not replaced, either
        pass
    _put(target, data, stat.S_IMODE(target.stat().st_mode), is_exact=True)


def _put(path: Path, data: Iterable[bytes], mode: int, *, is_exact: bool = False) -> None:
    """Put a new file of this mode in the place of what is there. `is_exact`: also against the umask."""
    new = path.with_name(f".waggle-{os.getpid()}.new")
    new.unlink(missing_ok=True)  # of a process that was killed: in a container all have the same number
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
            if is_exact:
                os.fchmod(file.fileno(), mode)
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


class _Terminated(KeyboardInterrupt):
    """SIGTERM came. No code of an algorithm's driver takes that for an exception of the algorithm."""


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within this, SIGTERM ends the command as an error would, so that temporary files are removed; exit status 143."""

    def end(_number: int, _frame: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Terminated:
        raise SystemExit(TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
