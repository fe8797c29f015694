"""Runs the engine of vpods: the loop that owns it, and what probes and pages read of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar, get_args

from extender.kube.lease.elector import Fence, no_fence
from extender.server.loop import EngineLoop, Kinds
from extender.server.views import Readiness
from extender.server.watchdog import Watchdog
from extender.vpods.engine import VPodEngine
from extender.vpods.events import TermBegun, TermEnded, Ticked, VPodEvent, VPodInstruction

T = TypeVar("T")

#: Every event can cause a decision, except those that begin and end terms.
_FENCED: Final = tuple(each for each in get_args(VPodEvent) if each not in (TermBegun, TermEnded))
_KINDS: Kinds[VPodEvent] = Kinds(answers=(), fenced=_FENCED, term_ended=lambda _: TermEnded(), tick=Ticked())


class VPodRuntime:
    """The API of the engine of vpods. Thread-safe.

    `carry_out` gets every instruction, and must not block. `hang`: seconds after which an event that is still being
    handled fails /livez; 0: never.
    """

    def __init__(
        self,
        engine: VPodEngine,
        carry_out: Callable[[VPodInstruction], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Callable[[VPodEvent, float, int], None] | None = None,
        hang: float = 0,
    ) -> None:
        self._engine = engine
        self.loop: EngineLoop[VPodEvent, VPodInstruction] = EngineLoop(
            engine, carry_out, _KINDS, clock=clock, fence=fence, record=record, name="waggle-vpods"
        )
        self.watchdog = Watchdog(self.loop, hang=hang, engine="vpods engine")
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

    def look(self, read: Callable[[VPodEngine, float], T], patience: float = -1) -> T:
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
        """Add a function that is called while vpods are placed, and returns a warning for /readyz, or ""."""
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
        """Whether this replica knows all: it places vpods, or could if it led. Every such replica can be looked at."""
        return self._unless("" if self._engine.is_synced else self._engine.missing())

    def _unless(self, missing: str) -> Readiness:
        stopped = self.loop.broken or ("shutting down" if self.loop.stopping else "") or self.watchdog.hangs()
        if stopped:
            return Readiness(False, stopped)
        if not missing:
            return Readiness(True, "; ".join(text for source in self._readiness_warnings if (text := source())))
        why = "; ".join(text for source in self._not_ready_reasons if (text := source()))
        return Readiness(False, f"{missing}{': ' if why else ''}{why}")
