"""Calls an algorithm through a guard: every call has a time limit, is watched, and is logged.

`Guarded` stands in for the algorithm. It keeps a log of the changes that were reported, from which it makes *twins*:
other instances that were told the same changes, and were asked nothing. A twin tells whether questions leave traces.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from time import monotonic as _monotonic
from types import FrameType
from typing import Any, NoReturn

from algorithm.conformance import side_effects
from algorithm.conformance.limits import give_reserve
from algorithm.conformance.results import shown
from algorithm.conformance.unreadable_records import unreadable_again
from algorithm.interface import SchedulerAlgorithm

#: The methods that report changes.
REPORTS = frozenset(
    {
        "add_node",
        "update_node",
        "delete_node",
        "add_unallocated_pod",
        "delete_unallocated_pod",
        "add_allocated_pod",
        "delete_allocated_pod",
        "update_allocated_pod",
        "add_preempting_pod",
        "delete_preempting_pod",
        "set_protected_pods",
        "set_lingering_pods",
        "set_time",
        "set_lapsed_pods",
    }
)
#: Those that accept an answer of `schedule`.
_ACCEPTS = frozenset({"add_allocated_pod", "add_preempting_pod"})
#: What a call did that was cut off.
TOO_LONG, TOO_MUCH = "did not return", "took more memory than the limit"
#: And what was not done any more, because the time for all calls was over.
TOO_LATE = "was not called: the time for all calls is over"
#: Sentences and pieces of pages that are read.
MOST_PIECES = 10_000


class CallCut(BaseException):
    """A call took too long, or would have ended the process. No `except Exception` of the algorithm catches it."""


class Guard:
    """How the algorithm is called in this process: `limit` in seconds, `before` is told the method each time."""

    def __init__(self, limit: float = 10.0, before: Callable[[str], None] | None = None) -> None:
        self.limit = limit
        self.before = before
        #: What was noticed in the present life: of each call, the first of each kind.
        self.side_effects: list[side_effects.SideEffect] = []
        #: `time.monotonic` after which no method is called any more: calls that return just in time add up.
        self.deadline = math.inf
        #: The methods that were cut off, each with what it did.
        self.cut: list[tuple[str, str]] = []
        self._raised: Exception | None = None

    def has_raised(self, error: Exception) -> bool:
        """Whether this exception is the last one that came out of the algorithm, rather than one of the kit."""
        return error is self._raised

    def call(self, name: str, method: Callable[..., Any], *args: Any) -> Any:
        """Call the method. Raises CallCut, and what the method raises."""
        if _monotonic() > self.deadline:
            self.cut.append((name, TOO_LATE))
            raise CallCut
        if self.before is not None:
            self.before(name)
        noticed: list[side_effects.SideEffect] = []
        try:
            with side_effects.watching(noticed), _Limit(self.limit):
                return method(*args)
        except CallCut:
            self.cut.append((name, TOO_LONG))
            raise
        except MemoryError as error:
            give_reserve()
            self.cut.append((name, TOO_MUCH))
            raise CallCut from error
        except Exception as error:
            self._raised = error
            raise
        except (SystemExit, KeyboardInterrupt) as error:
            self.cut.append((name, f"raised {shown(error)}, which ends the process"))
            raise CallCut from error
        finally:
            self.side_effects += [side_effects.SideEffect(check, f"{name}: {what}") for check, what in noticed]

    def pieces(self, name: str, make: Callable[..., Any], *args: Any) -> list[Any]:
        """Call the method and read at most MOST_PIECES of what it returns."""
        return list(self.call(name, lambda: list(islice(_iterated(make(*args)), MOST_PIECES + 1))))


def _iterated(made: Any) -> Iterable[Any]:
    if isinstance(made, str | bytes) or not isinstance(made, Iterable):
        raise TypeError(f"expected an iterable of texts, not {type(made).__name__}")
    return made


class _Limit:
    """Raises CallCut in the main thread when the time is over, and again each second that it is swallowed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_set = False

    def __enter__(self) -> None:
        with suppress(ValueError, AttributeError):  # not the main thread, or no POSIX: the parent process watches, too
            self._before = signal.signal(signal.SIGALRM, _cut)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, 1.0)
            self._is_set = True

    def __exit__(self, *_: object) -> None:
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if self._before is not _cut:
                signal.signal(signal.SIGALRM, self._before)


def keep_handler() -> None:
    """Keep the handler of time limits in this process for good, so that not every call puts it there and takes it away.

    A call still puts it there if the algorithm has replaced it.
    """
    with suppress(AttributeError):  # no POSIX
        signal.signal(signal.SIGALRM, _cut)


def _cut(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise CallCut


class Guarded:
    """An algorithm behind a guard. It has all methods of the algorithm; `raw` is the algorithm itself."""

    def __init__(self, create: Callable[[], SchedulerAlgorithm], guard: Guard, raw: SchedulerAlgorithm | None = None):
        self.create, self.guard = create, guard
        self.raw = raw if raw is not None else guard.call("create", create)
        #: The changes that were reported, as (method, arguments), each accepted question before its acceptance.
        self.log: list[tuple[str, tuple[Any, ...]]] = []
        #: Those that raised, each with the number of changes before it.
        self.raised: list[tuple[int, str, tuple[Any, ...]]] = []
        self._asked: dict[str, tuple[str, tuple[Any, ...]]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.method(name)

    def method(self, name: str) -> Callable[..., Any]:
        """The method of the algorithm of this name, behind the guard."""
        method = getattr(self.raw, name)
        return lambda *args: self._call(name, method, args)

    def _call(self, name: str, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            result = self.guard.call(name, method, *args)
        except Exception:
            if name in _ACCEPTS and (asked := self._asked.pop(args[0].uid, None)) is not None:
                self.log.append(asked)
            if name in REPORTS:
                self.raised.append((len(self.log), name, args))
            raise
        if name == "schedule":
            self._asked[args[0].uid] = name, args
        elif name in REPORTS:
            if name in _ACCEPTS and (asked := self._asked.get(args[0].uid)) is not None:
                self.log.append(asked)
            self._asked.clear()
            self.log.append((name, args))
        return result

    def texts(self, name: str, *args: Any) -> list[Any]:
        """What `explain` yields, or a page in pieces."""
        return self.guard.pieces(name, getattr(self.raw, name), *args)

    def beside(self, raw: SchedulerAlgorithm) -> Guarded:
        """A copy of this algorithm, or another one that was told the same, behind the same guard."""
        other = Guarded(self.create, self.guard, raw)
        other.log, other.raised = list(self.log), list(self.raised)
        return other

    def forked(self) -> Guarded:
        """Raises NotImplementedError."""
        return self.beside(self.guard.call("fork", self.raw.fork))

    def twin(self, edit: Callable[[str, tuple[Any, ...]], list[tuple[str, tuple[Any, ...]]]] | None = None) -> Guarded:
        """Another instance that was told the same changes and was asked nothing that was not accepted.

        `edit` returns what the twin is told instead of each change.
        """
        other = Guarded(self.create, self.guard)
        for name, args in self.log:
            for each, given in [(name, args)] if edit is None else edit(name, args):
                getattr(other, each)(*given)
        return other

    def twin_that_raised(self) -> Guarded | None:
        """A twin that was told the changes that raised, too, as they were; None if other changes raise in it.

        Records raise again also where the algorithm caught that.
        """
        other = Guarded(self.create, self.guard)
        for number in range(len(self.log) + 1):
            for _, name, args in (each for each in self.raised if each[0] == number):
                if not _raises(other, name, args):
                    return None
            for name, args in self.log[number : number + 1]:
                if _raises(other, name, args):
                    return None
        return other


def _raises(algorithm: Guarded, name: str, args: tuple[Any, ...]) -> bool:
    with unreadable_again(args):
        try:
            getattr(algorithm, name)(*args)
        except Exception:
            return True
    return False
