"""Configures logging: structured lines on standard error, for people (console) or machines (json).

Untrusted text gets into these lines: names of pods, bodies of callers, messages of an API server. So each line goes
this way, our own as well as those of libraries that use `logging` (uvicorn, asyncio, the client of Kubernetes):

    event --> log_limits: has it a line left? --> level, time, traceback as text --> escape, cut --> render --> write

Promises: one event is one line (in console format a traceback follows it, indented), whatever its values hold; no
unprintable character of a value reaches the terminal; a value has at most VALUE characters, a traceback at most
TRACEBACK, a line at most LINE bytes; logging never raises, even if nothing can be written any more.
"""

from __future__ import annotations

import logging
import ssl
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from itertools import islice
from types import TracebackType
from typing import IO, Any, Final

import structlog
from structlog.typing import EventDict, Processor

from extender.logs.limits import BUDGET, LineLimiter
from extender.logs.printable import printable
from extender.settings import LogSettings

#: Characters of one value.
VALUE: Final = 1024
#: Characters of a traceback.
TRACEBACK: Final = 6 * VALUE
#: Bytes of a line as it is written: container runtimes split longer lines (16 KiB), and halves are not JSON.
LINE: Final = 16_000
#: Elements that are shown of a list or mapping.
ELEMENTS: Final = 20

_EXCEPTION: Final = "exception"
_Raised = tuple[type[BaseException], BaseException, TracebackType | None]

#: The limiter of this process.
_limiter = LineLimiter()


def configure(settings: LogSettings, stream: IO[str] | None = None) -> None:
    """Set up structlog for the whole process; lines of `logging`, from warnings on, go the same way.

    `stream`: where to write, standard error if it is None.
    """
    out = stream or sys.stderr
    structlog.configure(
        processors=[
            _limiter,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _traceback_as_text,
            _Bounded(_renderer(settings, out)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=lambda *_: _Lines(out),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_FromLibraries()], force=True)
    threading.excepthook = _thread_failed
    sys.unraisablehook = _ignored


def suppressed_lines() -> dict[str, int]:
    """How many lines of each event were left out since the process began."""
    return _limiter.suppressed()


def say_suppressed() -> None:
    """Report now how many lines were left out since the last report: for the end of the process."""
    _limiter.say()


def _renderer(settings: LogSettings, out: IO[str]) -> Processor:
    if settings.format == "json":
        return structlog.processors.JSONRenderer()
    plain = structlog.dev.plain_traceback  # never used: tracebacks are text by then; any other formatter warns of that
    return structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)


# -- tracebacks -----------------------------------------------------------------------------------------------------


def _traceback_as_text(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Turn `exc_info` into `exception`, its traceback; or into one line, if its event has had enough tracebacks."""
    raised = _raised(event.pop("exc_info", None))
    left_out = event.pop("traceback_left_out", False)
    if raised is None:
        return event
    if left_out:
        event.setdefault("error", _in_short(raised[1]))
    else:
        event[_EXCEPTION] = _text_of(raised)
    return event


def _raised(given: object) -> _Raised | None:
    """The exception that `exc_info` stands for, as in `logging`: it is an exception, a `sys.exc_info` tuple, or
    True."""
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    found = given if isinstance(given, tuple) else sys.exc_info() if given else None
    return found if found is not None and found[1] is not None else None


def _text_of(raised: _Raised) -> str:
    return traceback_text(traceback.TracebackException(*raised, compact=True))


def traceback_text(raised: traceback.TracebackException) -> str:
    """The text of a traceback, as the field `exception` of a log line. No local variables: they may be whole pods, or
    secrets. Lines are indented, so that none can pass for a log line."""
    parts = raised.format()
    lines = [line for part in parts for line in part[: 2 * VALUE].splitlines()]
    text = "\n".join("    " + printable(line, VALUE) for line in lines)
    if len(text) <= TRACEBACK:
        return text
    begin = TRACEBACK // 4  # the start shows the origin of the call, the end what went wrong
    return f"{text[:begin]}\n    ... ({len(text)} characters)\n{_last_lines(text, TRACEBACK - begin)}"


def _last_lines(text: str, size: int) -> str:
    """The whole lines among the last `size` characters."""
    return text[-size:].partition("\n")[2]


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {_text(error)}"


def _text(value: object) -> str:
    """`str` of an object of any class."""
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__name__} has no text: {type(error).__name__})"


# -- values ---------------------------------------------------------------------------------------------------------


class _Bounded:
    """Renders a line from escaped and cut values; cuts them shorter if the line is still too long."""

    def __init__(self, render: Processor) -> None:
        self._render = render

    def __call__(self, logger: Any, method: str, event: EventDict) -> str:
        for limit in (VALUE, VALUE // 4, VALUE // 16, VALUE // 64):
            line = str(self._render(logger, method, {name: _shown(name, event[name], limit) for name in event}))
            if len(line) * 4 < LINE or len(line.encode("utf-8", "backslashreplace")) < LINE:
                break
        return line


def _shown(name: str, value: object, limit: int) -> object:
    if name == _EXCEPTION:  # escaped line by line
        return value if limit == VALUE else _last_lines(str(value), TRACEBACK * limit // VALUE)
    return _clean(value, limit)


def _clean(value: object, limit: int) -> object:
    """A value that is safe for a terminal. Its size is bounded, and so is the work."""
    match value:
        case str():
            return printable(value, limit)
        case None | bool() | float():
            return value
        case int() if value.bit_length() <= 64:
            return value
        case Mapping():
            shown = {printable(_text(key), limit // 4): _element(each, limit) for key, each in _first(value.items())}
            return shown if len(value) <= ELEMENTS else shown | {"...": len(value)}
        case list() | tuple() | set() | frozenset():
            several = [_element(each, limit) for each in _first(value)]
            return several if len(value) <= ELEMENTS else [*several, f"... ({len(value)} in all)"]
    return _element(value, limit)


def _first(values: Iterable[Any]) -> Iterable[Any]:
    return islice(values, ELEMENTS)


def _element(value: object, limit: int) -> object:
    """An element of a list or mapping; nested containers are shown as Python writes them."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() <= 64):
        return value
    return printable(_text(value), limit // 4)


# -- writing --------------------------------------------------------------------------------------------------------


class _Lines:
    """Writes lines. If a line cannot be written (a full disk, a closed pipe), only that line is lost."""

    _lock = threading.Lock()

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def info(self, line: str) -> None:
        with self._lock:
            try:
                self._out.write(line + "\n")
                self._out.flush()
            except (OSError, ValueError):
                pass

    debug = warning = error = critical = info


# -- libraries ------------------------------------------------------------------------------------------------------

#: Errors that end connections, caused by the peer or the network. Libraries report them with a traceback.
_OF_PEERS = (ConnectionError, TimeoutError, ssl.SSLError)
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


class _FromLibraries(logging.Handler):
    """Hands lines of `logging` to structlog: the event is the logger's name, `what` the message."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            what = record.getMessage()
        except Exception:  # its arguments do not fit
            what = _text(record.msg)
        level = next((each for each in _LEVELS if record.levelno >= each), logging.DEBUG)
        # Each message of a library has a budget of its own; asyncio puts addresses of objects into its further lines.
        message = _text(record.msg).partition("\n")[0]
        fields: dict[str, Any] = {"what": what.strip(), BUDGET: f"{record.name}: {message}"}
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, _OF_PEERS) and record.name == "asyncio":
            fields["error"] = _in_short(error)
        elif error is not None:
            fields["exc_info"] = error
        structlog.get_logger(record.name).log(level, record.name, **fields)


def _thread_failed(given: threading.ExceptHookArgs) -> None:
    """Log that one of our threads has ended with an exception: Python would write a traceback of any size."""
    if given.exc_type is not SystemExit:
        name = given.thread.name if given.thread else ""
        structlog.get_logger(__name__).error("thread failed", thread=name, exc_info=given.exc_value)


def _ignored(given: sys.UnraisableHookArgs) -> None:
    """Log an exception that has no caller to go to, such as one in a finalizer: for the same reason."""
    what = given.err_msg or "exception ignored"
    structlog.get_logger(__name__).error("exception ignored", what=what, exc_info=given.exc_value)
