"""Judges of what a call does beside its work. `algorithm.conformance.side_effects` notices it."""

from __future__ import annotations

from typing import Any

from algorithm.conformance import side_effects
from algorithm.conformance.calls import Call
from algorithm.conformance.guard import TOO_LATE, TOO_LONG, TOO_MUCH
from algorithm.conformance.judge import Judge, promise
from algorithm.conformance.observation import look_around


class _OfSideEffects(Judge):
    """What was noticed since the last look; the life's guard collects it for all judges."""

    def __init__(self, life: Any) -> None:
        super().__init__(life)
        side_effects.install()
        self._read = len(life.guard.side_effects)

    def after(self, call: Call, answer: Any) -> None:
        if self.life.look == "always":
            look_around(self.life)
        self._look(call)

    def raised(self, call: Call, error: Exception) -> None:
        self._look(call)

    def end(self) -> None:
        if self.life.look != "sometimes":
            look_around(self.life)
        self._look(None)

    def cut(self, method: str, what: str) -> None:
        self._look(None)

    def cause(self) -> None:
        self._look(None)

    def _look(self, call: Call | None) -> None:
        noticed = self.life.guard.side_effects
        while self._read < len(noticed):
            each = noticed[self._read]
            self._read += 1
            during = f"in {type(call).__name__} or a question after it" if call is not None else "in a question"
            promise(each.check != self.name, f"{each.what} {during}")


class PrintsNothing(_OfSideEffects):
    name = "prints-nothing"


class OpensNoFiles(_OfSideEffects):
    name = "opens-no-files"


class OpensNoSockets(_OfSideEffects):
    name = "opens-no-sockets"


class StartsNoThreads(_OfSideEffects):
    name = "starts-no-threads"


class ReadsNoEnvironment(_OfSideEffects):
    name = "reads-no-environment"


class ReadsNoClock(_OfSideEffects):
    name = "reads-no-clock"


class UsesNoRandomNumbers(_OfSideEffects):
    name = "uses-no-random-numbers"


class CallsReturn(Judge):
    name = "calls-return"

    def after(self, call: Call, answer: Any) -> None:
        if self.life.look == "always":
            look_around(self.life)

    def end(self) -> None:
        if self.life.look != "sometimes":
            look_around(self.life)

    def cut(self, method: str, what: str) -> None:
        promise(what != TOO_LONG, f"{method} {what} within {self.life.guard.limit:g} seconds")


class ProcessSurvives(CallsReturn):
    """Calls that raise SystemExit. The parent process notices what ends this one."""

    name = "process-survives"

    def cut(self, method: str, what: str) -> None:
        promise(what in (TOO_LONG, TOO_MUCH, TOO_LATE), f"{method} {what}")


class MemoryLimited(CallsReturn):
    """Calls that raise MemoryError: the process has a limit."""

    name = "memory-limited"

    def cut(self, method: str, what: str) -> None:
        promise(what != TOO_MUCH, f"{method} {what}: it raised MemoryError")
