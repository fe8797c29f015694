"""Runs the engine of claims: connects callers and the writes' committer with the loop that owns the engine.

    caller --> ask(event, done) --> EngineLoop --> ClaimEngine
                     ^                                |   \\-> commands --> committer
                     +------ done(Answered) ----------+

Promises:

* `done` is called exactly once for each call, whatever fails: with the engine's answer, with NOT_READY if the engine
  has failed, or with SHUTTING_DOWN. It is called in the thread that has the answer, and must not block.
* After `close`, every waiting call has been answered, and new ones are refused.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import (
    Answered,
    CallerGone,
    ClaimAsked,
    ClaimEvent,
    ClaimInstruction,
    ReleaseAsked,
    RenewAsked,
    ShutdownAsked,
    Ticked,
)
from extender.claims.records import PoolKey
from extender.server.claims.answers import AnswerTimes
from extender.server.guard import SLOW
from extender.server.loop import EngineLoop, Kinds, Record
from extender.server.views import Readiness
from extender.server.watchdog import Watchdog

#: Called with the answer to a call.
Done = Callable[[Answered], None]
#: The events that are calls: each has the name of its `request`, and gets one answer.
Call = ClaimAsked | ReleaseAsked | RenewAsked
T = TypeVar("T")


def _no_terms(_: int) -> ClaimEvent:
    return Ticked()  # claims are not fenced by leadership terms: the API server decides between replicas


_KINDS: Kinds[ClaimEvent] = Kinds(answers=(), fenced=(), term_ended=_no_terms, tick=Ticked())


class ClaimRuntime:
    """The API of the engine of claims. Thread-safe.

    `carry_out` gets every command, and must not block.
    """

    def __init__(
        self,
        engine: ClaimEngine,
        carry_out: Callable[[ClaimInstruction], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        record: Record[ClaimEvent, ClaimInstruction] | None = None,
        hang: float = 0,
        slow: float = SLOW,
    ) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self.loop: EngineLoop[ClaimEvent, ClaimInstruction] = EngineLoop(
            engine, self._deliver, _KINDS, broke=self._refuse_all, clock=clock, record=record, name="waggle-claims"
        )
        #: Looks whether the engine hangs, as the extender's does.
        self.watchdog = Watchdog(self.loop, hang=hang, slow=slow, engine="claims engine")
        #: Handles events of informers and the committer, in order.
        self.handle = self.loop.handle
        self._requests = itertools.count(1)
        self._calls: dict[str, Done] = {}
        #: Pool and arrival time of the calls that are requests for pods.
        self._asked: dict[str, tuple[PoolKey, float]] = {}
        self._clock = clock
        #: How long callers wait for pods.
        self.answer_times = AnswerTimes(clock)
        self._is_closed = False
        self._is_idle = threading.Event()
        self._not_ready_reasons: list[Callable[[], str]] = []

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the timer and the watchdog."""
        self.loop.start()
        self.watchdog.start()

    def close(self) -> None:
        """Answer every waiting call, and refuse new ones. Writes in flight are followed to their end. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self.handle(ShutdownAsked())

    def stop(self) -> None:
        """Stop the timer, and refuse all calls that are still waiting. Idempotent."""
        self.close()
        self.loop.stop()
        self.watchdog.stop()
        self._refuse_all()

    def give_up(self, why: str) -> None:
        """Fail /livez, so that the process is restarted: its state cannot be trusted any more."""
        self.loop.give_up(why)

    # -- calls ----------------------------------------------------------------------------------------------------

    def new_request(self) -> str:
        """Return a name for a call, unique in this process."""
        return f"r{next(self._requests)}"

    def ask(self, call: Call, done: Done) -> None:
        """Send a call to the engine. `done` gets the answer, possibly before this returns."""
        self._calls[call.request] = done
        if isinstance(call, ClaimAsked):
            self._asked[call.request] = (call.pool, self._clock())
        self.loop.handle(call)
        if self.loop.broken or self.loop.stopping:
            self._refuse_all()

    def leave(self, request: str) -> bool:
        """Forget a call whose caller disconnected: nothing stays claimed for it, and its `done` is not called.

        Return False if it has been answered: its `done` was called, or is about to be, in another thread.
        """
        if self._calls.pop(request, None) is None:
            return False
        self._asked.pop(request, None)
        self.handle(CallerGone(request))
        return True

    def _deliver(self, instruction: ClaimInstruction) -> None:
        if isinstance(instruction, Answered):
            done = self._calls.pop(instruction.request, None)
            if done is not None:
                self._count(instruction)
                done(instruction)
        else:
            self._carry_out(instruction)

    def _count(self, answer: Answered) -> None:
        asked = self._asked.pop(answer.request, None)
        if asked is not None:
            pool, since = asked
            self.answer_times.add(pool, answer.code, self._clock() - since)

    def _refuse_all(self) -> None:
        code = ClaimCode.NOT_READY if self.loop.broken else ClaimCode.SHUTTING_DOWN
        detail = self.loop.broken or "the server is shutting down"
        for request in list(self._calls):
            self._deliver(Answered(request=request, code=code, detail=detail))

    # -- looking --------------------------------------------------------------------------------------------------

    def look(self, read: Callable[[ClaimEngine, float], T], patience: float = -1) -> T:
        """Return `read(engine, now)`, called under the lock: it must be fast, and must not return live records.

        Raises LoopBusy if the lock is not free within `patience` seconds; -1: no limit.
        """
        with self.loop.paused(patience) as now:
            return read(self._engine, now)

    def add_not_ready_reason(self, source: Callable[[], str]) -> None:
        """Add a function that is called while claims are not served, and returns a reason for /readyz, or ""."""
        self._not_ready_reasons.append(source)

    def liveness(self) -> Readiness:
        """Whether the process works; if not, it needs a restart. Does not take the engine's lock."""
        why = self.loop.broken or self.watchdog.hangs()
        return Readiness(not why, why)

    def readiness(self) -> Readiness:
        """Whether claims are served: the pods and nodes are known."""
        missing = self.loop.broken or ("shutting down" if self.loop.stopping else self._engine.missing())
        if not missing:
            return Readiness(True, self.watchdog.readiness_warning())
        why = "; ".join(text for source in self._not_ready_reasons if (text := source()))
        return Readiness(False, f"{missing}{': ' if why else ''}{why}")

    informed = readiness
