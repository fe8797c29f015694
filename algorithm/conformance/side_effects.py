"""Detects side effects of an algorithm: output, files, sockets, threads, clocks, random numbers.

`install` puts hooks into this process, for good: an audit hook (PEP 578) and wrappers around functions that raise no
audit event. They record nothing but while an algorithm is called (`watching`). `install` before the plug-in is
imported, so that `from time import time` gets the wrapper, too.

It detects careless code. It is not a sandbox: extension modules and determined authors get past it.
"""

from __future__ import annotations

import _thread
import os
import random
import stat
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, cast

from algorithm.no_forks import end_process

#: The names of checks, by the beginning of the audit event.
_EVENTS = {
    "open": "opens-no-files",
    "os.listdir": "opens-no-files",
    "os.scandir": "opens-no-files",
    "os.mkdir": "opens-no-files",
    "os.remove": "opens-no-files",
    "os.rename": "opens-no-files",
    "os.rmdir": "opens-no-files",
    "os.truncate": "opens-no-files",
    "os.chmod": "opens-no-files",
    "os.link": "opens-no-files",
    "os.symlink": "opens-no-files",
    "shutil.": "opens-no-files",
    "tempfile.": "opens-no-files",
    "sqlite3.": "opens-no-files",
    "socket.": "opens-no-sockets",
    "ssl.": "opens-no-sockets",
    "urllib.": "opens-no-sockets",
    "http.": "opens-no-sockets",
    "subprocess.": "starts-no-threads",
    "os.fork": "starts-no-threads",
    "os.exec": "starts-no-threads",
    "os.posix_spawn": "starts-no-threads",
    "os.spawn": "starts-no-threads",
    "os.system": "starts-no-threads",
    "pty.spawn": "starts-no-threads",
    "_thread.start": "starts-no-threads",
    "os.putenv": "reads-no-environment",
    "os.unsetenv": "reads-no-environment",
}
_CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "localtime",
    "gmtime",
    "ctime",
    "sleep",
)
_CHANCE = (
    "random",
    "randint",
    "randrange",
    "choice",
    "choices",
    "shuffle",
    "sample",
    "uniform",
    "gauss",
    "getrandbits",
    "randbytes",
)


#: Threads, processes, sockets and files that may be started or opened in this process; the next one fails.
_MOST_STARTED = 64
#: What is noticed of one call.
_MOST_NOTICED = 32


class SideEffect(NamedTuple):
    """One thing that was noticed: the check that it breaks, and what it was."""

    check: str
    what: str


class _State:
    sink: list[SideEffect] | None = None
    is_installed = False
    started = 0


class watching:  # noqa: N801 - it is used as a function, as `contextlib.suppress` is
    """Record what is noticed in `sink`, meanwhile. Nothing is recorded unless `install` was called before.

    Every call of an algorithm is in one: this is a class, because a generator takes several times as long.
    """

    def __init__(self, sink: list[SideEffect]) -> None:
        self._sink = sink

    def __enter__(self) -> None:
        self._written = _bytes_of_output()
        self._before, _State.sink = _State.sink, self._sink
        self._out, self._err = sys.stdout, sys.stderr
        if _State.is_installed:
            sys.stdout = cast("Any", _Output(self._out, "standard output"))
            sys.stderr = cast("Any", _Output(self._err, "standard error"))

    def __exit__(self, *_: object) -> None:
        _State.sink = self._before
        sys.stdout, sys.stderr = self._out, self._err
        if (more := _bytes_of_output() - self._written) > 0:
            _notice(self._sink, SideEffect("prints-nothing", f"it wrote {more} bytes past `print`"))


def _bytes_of_output() -> int:
    """The size of the file that standard output and standard error are in the testing process; 0 if they are none."""
    if not _State.is_installed:
        return 0
    total = 0
    for number, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        try:
            if stream is not None:
                stream.flush()
        except (ValueError, OSError):
            pass
        try:
            status = os.fstat(number)
        except OSError:
            continue
        total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def _notice(sink: list[SideEffect], effect: SideEffect) -> None:
    """Record the first thing of each kind, and a few more."""
    if len(sink) < _MOST_NOTICED or all(each.check != effect.check for each in sink):
        sink.append(effect)


def install() -> None:
    """Put the hooks into this process. They cannot be removed."""
    if _State.is_installed:
        return
    _State.is_installed = True
    sys.addaudithook(_audit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_end_copy)
    for name in _CLOCKS:
        setattr(time, name, _wrapped(getattr(time, name), "reads-no-clock", f"time.{name}"))
    for name in _CHANCE:
        setattr(random, name, _wrapped(getattr(random, name), "uses-no-random-numbers", f"random.{name}"))
    threading.Thread.start = _wrapped(threading.Thread.start, "starts-no-threads", "Thread.start")  # type: ignore[method-assign]
    _thread.start_new_thread = _wrapped(_thread.start_new_thread, "starts-no-threads", "start_new_thread")
    os.urandom = _wrapped(os.urandom, "uses-no-random-numbers", "os.urandom")
    os.write = _wrapped(os.write, "prints-nothing", "os.write")
    environ = type(os.environ)
    for method in ("__getitem__", "__iter__"):
        original = getattr(environ, method)
        setattr(environ, method, _wrapped(original, "reads-no-environment", "os.environ"))


def _wrapped(call: Callable[..., Any], check: str, what: str) -> Callable[..., Any]:
    def noticed(*args: Any, **kwargs: Any) -> Any:
        if _State.sink is not None and not _is_ours(sys._getframe(1).f_globals.get("__name__", "")):
            _notice(_State.sink, SideEffect(check, what))
        return call(*args, **kwargs)

    return noticed


def _is_ours(module: str) -> bool:
    """Whether the caller is Hypothesis, which measures how long a garbage collection takes, whenever there is one."""
    return module.startswith("hypothesis.")


def _audit(event: str, args: tuple[Any, ...]) -> None:
    sink = _State.sink
    if sink is None:
        return
    check = _EVENTS.get(event) or _by_prefix(event)
    if check is None or (check == "opens-no-files" and _imports()):
        return
    shown = ", ".join(repr(each)[:100] for each in args[:2])
    _notice(sink, SideEffect(check, f"{event}({shown})"))
    _State.started += 1
    if _State.started > _MOST_STARTED and check in ("starts-no-threads", "opens-no-sockets"):
        raise PermissionError(f"{event}: the algorithm has started or opened {_MOST_STARTED} things already")


def _end_copy() -> None:
    """End a copy of this process that an algorithm has made with `fork`: it would test, and report, everything, too."""
    if _State.sink is not None:
        end_process(0)


def _by_prefix(event: str) -> str | None:
    for prefix, check in _EVENTS.items():
        if prefix[-1] == "." and event.startswith(prefix):
            return check
    # `_thread.start_new_thread`, `_thread.start_joinable_thread`, `os.forkpty`
    return next((check for prefix, check in _EVENTS.items() if len(prefix) > 6 and event.startswith(prefix)), None)


def _imports() -> bool:
    """Whether a module is being imported: that reads files, and an import in a function is no crime."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if "importlib._bootstrap" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


class _Output:
    """Notices what is written to a stream, and passes it on."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        if _State.sink is not None and not text.isspace() and text:
            _notice(_State.sink, SideEffect("prints-nothing", f"it wrote {text[:100]!r} to {self._name}"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
