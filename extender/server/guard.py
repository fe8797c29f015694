"""Calls the algorithm for people: pages, explanations, tables, copies. What a plug-in does wrong there is a fault.

    held(call, ...), steps(call, ...)   for callers that hold the loop's lock   --+--> the answer
    free(call, ...)                     for callers that do not: of a copy      --+--> AlgorithmFault, which is noted
                                                                                  +--> took too long: it is noted

The engine calls the algorithm through `scheduling/driver.py`, which notes the same faults in the same book. So each is
once in the log, in the metric, in `/readyz` and on the page.

Promises: of a plug-in's call no exception comes out but AlgorithmFault and those that the caller names. SystemExit,
StopIteration or CancelledError would end a thread, an iteration or the event loop, and a plug-in may raise any of
them. No AlgorithmFault refers to the plug-in's exception: whoever logs it logs no text of any length.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from extender.scheduling.driver import AlgorithmDriver, AlgorithmFault
from extender.scheduling.faults import FaultKind
from extender.server.loop import EngineLoop

T = TypeVar("T")
#: Exceptions that are answers.
Passes = tuple[type[Exception], ...]

#: Seconds from which on a call, or a turn of the lock, is slow, unless the settings say otherwise: a filter call
#: usually takes a millisecond, and kube-scheduler gives up after its httpTimeout, 5 s or more.
SLOW: Final = 1.0


class AlgorithmGuard:
    """Thread-safe. `slow`: seconds from which on a call counts as slow."""

    def __init__(
        self,
        driver: AlgorithmDriver,
        loop: EngineLoop[Any, Any],
        *,
        slow: float = SLOW,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._driver, self._loop = driver, loop
        self._slow, self._clock = slow, clock

    def held(self, call: str, ask: Callable[[], T], subject: object = None, *, passes: Passes = ()) -> T:
        """Return what `ask` returns. To be called under the lock of the loop. Raises AlgorithmFault, and `passes`."""
        return self._ask(call, ask, subject, passes, self._loop.clock)

    def free(self, call: str, ask: Callable[[], T], subject: object = None, *, passes: Passes = ()) -> T:
        """The same for callers without the lock: it is taken to note a fault."""
        return self._ask(call, ask, subject, passes, None)

    def steps(
        self, call: str, ask: Callable[[], Iterable[T]], subject: object = None, *, passes: Passes = ()
    ) -> Iterator[T]:
        """The answer of a call that makes it in steps. The call and each step run under the lock of the loop."""
        return _Steps(self, call, ask, subject, passes)

    def raised(self, call: str, error: BaseException, subject: object = None) -> AlgorithmFault:
        """Note an exception, and return the one to raise in its place. To be called under the lock of the loop."""
        if ends_process(error):
            raise error
        return AlgorithmFault(self._driver.fault_log.raised(call, error, self._loop.clock(), subject))

    def breached(self, call: str, rule: str, subject: object = None) -> AlgorithmFault:
        """Note a breach of the contract, and return the exception to raise. Not to be called under the lock."""
        with self._loop.paused() as now:
            self._driver.fault_log.breached(call, rule, rule, now, subject)
        return AlgorithmFault(rule)

    def measured(self, call: str, began: float, subject: object = None) -> None:
        """Note a call that began at this time of `clock` if it was slow. To be called under the lock of the loop."""
        seconds = self._clock() - began
        if seconds >= self._slow:
            self._was_slow(call, seconds, self._loop.clock(), subject)

    def began(self) -> float:
        """Return the time for `measured`."""
        return self._clock()

    def _ask(
        self, call: str, ask: Callable[[], T], subject: object, passes: Passes, held: Callable[[], float] | None
    ) -> T:
        began = self._clock()
        try:
            return ask()
        except passes:
            raise
        except BaseException as error:
            if ends_process(error):
                raise
            text = self._raised(call, error, subject, held)
        finally:
            seconds = self._clock() - began
            if seconds >= self._slow:
                self._noted(held, lambda now: self._was_slow(call, seconds, now, subject))
        raise AlgorithmFault(text)  # here, so that it does not refer to the other one

    def _raised(self, call: str, error: BaseException, subject: object, held: Callable[[], float] | None) -> str:
        return self._noted(held, lambda now: self._driver.fault_log.raised(call, error, now, subject))

    def _noted(self, held: Callable[[], float] | None, note: Callable[[float], T]) -> T:
        if held is not None:
            return note(held())
        with self._loop.paused() as now:
            return note(now)

    def _was_slow(self, call: str, seconds: float, now: float, subject: object) -> None:
        text = f"took {seconds:.1f} s, and server.slow_seconds is {self._slow:g} s"
        self._driver.fault_log.noticed(FaultKind.SLOW, call, text, now, subject)


def ends_process(error: BaseException) -> bool:
    """Whether the exception is Ctrl-C, or SIGTERM in a command. Python raises it in the main thread only: in another
    one, a plug-in has raised it."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


class _Steps(Iterator[T]):
    """No generator: closing one raises GeneratorExit in it, which would look like the plug-in's."""

    def __init__(
        self, guard: AlgorithmGuard, call: str, ask: Callable[[], Iterable[T]], subject: object, passes: Passes
    ) -> None:
        self._guard, self._call, self._ask = guard, call, ask
        self._subject, self._passes = subject, passes
        self._rest: Iterator[T] | None = None

    def __next__(self) -> T:
        found = self._guard.held(self._call, self._step, self._subject, passes=self._passes)
        if not found:
            raise StopIteration
        return found[0]

    def _step(self) -> tuple[T, ...]:
        """The next one; () if there is none. The first step includes the call."""
        if self._rest is None:
            self._rest = iter(self._ask())
        for found in self._rest:
            return (found,)
        return ()
