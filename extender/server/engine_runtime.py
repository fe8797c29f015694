"""Runs an engine that decides in terms and answers no caller: the loop that owns it, and what probes and pages read.

Vpods and start-up ordering have such engines. That of kube-scheduler's verbs has `runtime.py`, and that of claims has
a runtime of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, get_args

from extender.core.engine import Engine
from extender.kube.lease.elector import Fence, no_fence
from extender.server.guard import SLOW
from extender.server.loop import EngineLoop, Kinds, Record
from extender.server.views import Readiness
from extender.server.watchdog import Watchdog

T = TypeVar("T")
EventT = TypeVar("EventT")
InstructionT = TypeVar("InstructionT")


EventT_contra = TypeVar("EventT_contra", contravariant=True)


class TermedEngine(Engine[EventT_contra, InstructionT], Protocol[EventT_contra, InstructionT]):
    """An engine that says whether all is known."""

    @property
    def is_synced(self) -> bool: ...


EngineT = TypeVar("EngineT", bound=TermedEngine[Any, Any])


def kinds_of(event: Any, *, term_begun: type, term_ended: Callable[[], EventT], tick: EventT) -> Kinds[EventT]:
    """The kinds of the union `event`. Every event can cause a decision, except those that begin and end terms."""
    around = (term_begun, type(term_ended()))
    fenced = tuple(each for each in get_args(event) if each not in around)
    return Kinds(answers=(), fenced=fenced, term_ended=lambda _: term_ended(), tick=tick)


class EngineRuntime(Generic[EngineT, EventT, InstructionT]):
    """The API of such an engine. Thread-safe. `name` is that of the engine in the names of threads, in texts and in
    metrics.

    `carry_out` gets every instruction, and must not block. `hang`: seconds after which an event that is still being
    handled fails /livez; 0: never.
    """

    def __init__(
        self,
        engine: EngineT,
        carry_out: Callable[[InstructionT], None],
        kinds: Kinds[EventT],
        *,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Record[EventT, InstructionT] | None = None,
        hang: float = 0,
        slow: float = SLOW,
    ) -> None:
        self._engine = engine
        self.loop: EngineLoop[EventT, InstructionT] = EngineLoop(
            engine, carry_out, kinds, clock=clock, fence=fence, record=record, name=f"waggle-{name}"
        )
        self.watchdog = Watchdog(self.loop, hang=hang, slow=slow, engine=f"{name} engine")
        #: Handles events of informers, committer and election, in order.
        self.handle = self.loop.handle
        self._not_ready_reasons: list[Callable[[], str]] = []
        self._readiness_warnings: list[Callable[[], str]] = [self.watchdog.readiness_warning]

    def start(self) -> None:
        """Start the timer and the watchdog."""
        self.loop.start()
        self.watchdog.start()

    def stop(self) -> None:
        """Stop them. Idempotent; works also without a start."""
        self.loop.stop()
        self.watchdog.stop()

    def give_up(self, why: str) -> None:
        """Fail /livez, so that the process is restarted: its state cannot be trusted any more."""
        self.loop.give_up(why)

    def look(self, read: Callable[[EngineT, float], T], patience: float = -1) -> T:
        """Return `read(engine, now)`, called under the lock: it must be fast, and must not return live records.

        Raises LoopBusy if the lock is not free within `patience` seconds; -1: no limit.
        """
        with self.loop.paused(patience) as now:
            return read(self._engine, now)

    # -- for probes -----------------------------------------------------------------------------------------------

    def add_not_ready_reason(self, source: Callable[[], str]) -> None:
        """Add a function that is called while nothing is decided, and returns a reason for /readyz, or ""."""
        self._not_ready_reasons.append(source)

    def add_readiness_warning(self, source: Callable[[], str]) -> None:
        """Add a function that is called while this replica decides, and returns a warning for /readyz, or ""."""
        self._readiness_warnings.append(source)

    def liveness(self) -> Readiness:
        """Whether the process works; if not, it needs a restart. Does not take the engine's lock."""
        why = self.loop.broken or self.watchdog.hangs()
        return Readiness(not why, why)

    @property
    def term(self) -> int | None:
        """The term in which this replica decides; None: it does not."""
        return self._engine.term if self.places else None

    @property
    def places(self) -> bool:
        """Whether this replica decides: it is not stopped, all is known, and it leads."""
        loop = self.loop
        return not (loop.broken or loop.stopping or self._engine.missing() or loop.overdue())

    def readiness(self) -> Readiness:
        """Whether this replica knows all: it decides, or could if it led. Every such replica can be looked at."""
        return self._unless("" if self._engine.is_synced else self._engine.missing())

    def _unless(self, missing: str) -> Readiness:
        stopped = self.loop.broken or ("shutting down" if self.loop.stopping else "") or self.watchdog.hangs()
        if stopped:
            return Readiness(False, stopped)
        if not missing:
            return Readiness(True, "; ".join(text for source in self._readiness_warnings if (text := source())))
        why = "; ".join(text for source in self._not_ready_reasons if (text := source()))
        return Readiness(False, f"{missing}{': ' if why else ''}{why}")
