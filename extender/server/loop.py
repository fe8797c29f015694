"""The loop that owns an engine: one lock, one timer, the fence, the recording, and the way out for instructions.

    callers          -> ask(event)      : the answer, at once         +-> returned, if it is an answer
    informers        -> handle(events)  --- [ lock: engine.handle ] --+-> deliver(instruction), outside the lock
    reports          -> handle(events)                                |
    timer thread     -> the tick, when something is due               +-> record(event, now, number), under the lock

Promises: nothing slow happens under the lock (no I/O, no encoding). Batches are applied in small slices, so a caller
waits for some dozens of events at most. Instructions are delivered outside the lock.

An exception out of the engine is a bug, and is never swallowed: the loop is *broken* from then on. It delivers nothing
more and reports the failure, so that the process is restarted. That costs only time: all state is rebuilt from the API
server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import structlog

from extender.core.engine import Engine
from extender.core.said import LONGEST_FAILURE, said_by
from extender.kube.lease.elector import Fence, no_fence

log = structlog.get_logger(__name__)

EventT = TypeVar("EventT")
InstructionT = TypeVar("InstructionT")
EventT_contra = TypeVar("EventT_contra", contravariant=True)
InstructionT_contra = TypeVar("InstructionT_contra", contravariant=True)
T = TypeVar("T")

#: How many events of a batch are handled before the lock is released for other threads.
SLICE = 25
#: A thread that releases the lock and acquires it again at once gets it before any other thread has woken up. So after
#: `_WORK` seconds of work, it pauses for `_TURN` seconds without the lock.
_WORK, _TURN = 0.002, 0.0005
#: The timer never runs more often than this, seconds.
SHORTEST_TICK = 0.05
#: The longest sleep of the timer, seconds; and the longest one after it was woken. Each bind is due sooner than the
#: leases of all proposals, and is confirmed at once: the next one would wake the timer again.
_LONGEST_SLEEP, _LIGHT_SLEEP = 3600.0, 1.0


class Held(NamedTuple):
    """Which thread holds the lock of a loop, and since when, seconds of the loop's clock."""

    since: float
    thread: int


class LoopBusy(Exception):  # noqa: N818
    """The lock of the loop is held for longer than the caller waits."""


@dataclass(frozen=True, slots=True)
class Kinds(Generic[EventT]):
    """The events and instructions of an engine that the loop treats specially.

    `answers` are the instructions that `ask` returns; all others are delivered. `fenced` are the events that are
    handled only within a term: the loop inserts `term_ended(term)` before the first of them that comes after its end.
    `tick` is the event that the timer passes to the engine.
    """

    answers: tuple[type, ...]
    fenced: tuple[type, ...]
    term_ended: Callable[[int], EventT]
    tick: EventT


class Record(Protocol[EventT_contra, InstructionT_contra]):
    """Hears of every event before it is handled, and then of the answer. Called under the lock: it must not block."""

    def heard(self, event: EventT_contra, at: float, number: int) -> None: ...

    def said(self, answer: Sequence[InstructionT_contra]) -> None: ...

    def failed(self, why: str) -> None: ...


class EngineLoop(Generic[EventT, InstructionT]):
    """Thread-safe. `deliver` must not block. `record` hears of events, their times and numbers, and answers.

    `broke` is called on the timer's thread while the loop is broken. `on_slow` is called under the lock, after an event
    that took `slow` seconds or more, with the event, the time and these seconds.
    """

    def __init__(
        self,
        engine: Engine[EventT, InstructionT],
        deliver: Callable[[InstructionT], None],
        kinds: Kinds[EventT],
        *,
        broke: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Record[EventT, InstructionT] | None = None,
        name: str = "waggle",
        slow: float = float("inf"),
        on_slow: Callable[[EventT, float, float], None] = lambda _event, _now, _seconds: None,
    ) -> None:
        self.clock = clock
        #: Why the process has to be restarted; "" while the loop works.
        self.broken = ""
        self.stopping = False
        self._engine = engine
        self._deliver = deliver
        self._kinds = kinds
        self._broke = broke
        self._fence = fence
        self._record = record
        self._slow, self._on_slow = slow, on_slow
        self._lock = threading.Lock()
        #: Held by whoever copies the engine or its algorithm in pieces: there is one copy in the making at a time.
        #: Taken before the lock of the loop.
        self.copying = threading.Lock()
        #: When the lock was acquired last, and by which thread; each who acquires it says so at once.
        self._held_since, self._holder = 0.0, 0
        #: The event that is being handled; None while the engine is only looked at.
        self._handling: EventT | None = None
        self._timer_wake = threading.Event()
        self._next_tick = float("inf")
        #: When the timer wakes up. It is not woken for a later tick, and may wake up without one being due.
        self._wakes_at = float("inf")
        self._timer = threading.Thread(target=self._run_timer, name=f"{name}-timer", daemon=True)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the timer."""
        self._timer.start()

    def stop(self) -> None:
        """Stop the timer. Idempotent."""
        self.stopping = True
        self._timer_wake.set()
        if self._timer.is_alive() and self._timer is not threading.current_thread():
            self._timer.join(timeout=5)

    def give_up(self, why: str) -> None:
        """Mark the loop as broken, since its state cannot be trusted any more: the process asks to be restarted."""
        log.error("restart needed", why=why)
        self.broken = self.broken or f"restart needed: {why}"

    # -- events ---------------------------------------------------------------------------------------------------

    def ask(self, event: EventT) -> InstructionT | None:
        """Return the answer to an event that is answered at once; None if the engine has failed."""
        steps = self._steps((event,))
        if steps:
            log.debug("decided", number=steps[-1][0], kind=type(event).__name__)
        return self._dispatch(steps)

    def handle(self, *events: EventT) -> None:
        """Handle events in this order. Events of other threads may be handled in between."""
        for start in range(0, len(events), SLICE):
            self._dispatch(self._steps(events[start : start + SLICE]))

    def overdue(self) -> int:
        """Return the engine's term if the fence says that it is over; 0 while it lasts, and outside any term."""
        term = self._engine.term
        return term if term and self._fence(term) <= 0 else 0

    def _steps(self, events: Sequence[EventT]) -> list[tuple[int, InstructionT]]:
        """Handle some events under one acquisition of the lock, all at the same time `now`.

        Returns their instructions, each with the number of its event.
        """
        steps: list[tuple[int, InstructionT]] = []
        with self._lock:
            now = began = self._held_since = self.clock()
            self._holder = threading.get_ident()
            for event in events:
                self._handling = event
                # A process that was suspended when its term ended must not decide, even if no thread has noticed yet.
                if isinstance(event, self._kinds.fenced) and (term := self.overdue()):
                    steps += self._apply(self._kinds.term_ended(term), now)
                steps += self._apply(event, now)
                ended = self.clock()
                if ended - began >= self._slow:
                    self._on_slow(event, ended, ended - began)
                began = ended
            return steps

    def _apply(self, event: EventT, now: float) -> list[tuple[int, InstructionT]]:
        if self.broken:
            return []
        number = self._engine.sequence + 1
        record = self._record
        if record is not None:
            record.heard(event, now, number)
        try:
            answer = self._engine.handle(event, now)
        except BaseException as error:  # an algorithm may call sys.exit, or panic in Rust: nobody else would notice
            if record is not None:
                record.failed(said_by(error, LONGEST_FAILURE))
            self._failed(error, type(event).__name__)
            return []
        if record is not None:
            record.said(answer)
        # After each event, not after some: a replay asks the engine so, too, and asking may tidy up its timers.
        return [(number, instruction) for instruction in answer] if self._plan_tick() else []

    def _failed(self, error: BaseException, where: str) -> None:
        self.broken = f"internal error, restart needed: {said_by(error, LONGEST_FAILURE)}"
        log.exception("engine failed", number=self._engine.sequence, kind=where)
        self._timer_wake.set()  # `broke` is called by the timer: not here, under the lock

    def _dispatch(self, steps: list[tuple[int, InstructionT]]) -> InstructionT | None:
        """Deliver the commands, and return the answer; None if there is none."""
        answer: InstructionT | None = None
        for number, instruction in steps:
            if isinstance(instruction, self._kinds.answers):
                answer = instruction
            else:
                self._hand_over(instruction, number)
        return answer

    def _hand_over(self, instruction: InstructionT, number: int) -> None:
        """Deliver one command. A failure loses this command, not the caller's answer: the engine verifies unreported
        commands."""
        try:
            self._deliver(instruction)
        except Exception:
            log.exception("not carried out", number=number, command=type(instruction).__name__)

    # -- time -----------------------------------------------------------------------------------------------------

    def _plan_tick(self) -> bool:
        """Set the timer to the engine's next due time. False if the engine failed to return it."""
        try:
            due = self._engine.next_due()
        except BaseException as error:
            self._failed(error, "next_due")
            return False
        self._next_tick = float("inf") if due is None else due
        if self._next_tick < self._wakes_at:
            self._timer_wake.set()
        return True

    def _run_timer(self) -> None:
        longest = _LONGEST_SLEEP
        while not self.stopping:
            self._wakes_at = float("inf")  # from here on, any newly planned tick wakes the timer
            now, due = self.clock(), self._next_tick
            if self.broken:
                self._broke()
                due = float("inf")
            elif due <= now:
                self._wakes_at = float("-inf")  # nothing wakes it before SHORTEST_TICK
                self.handle(self._kinds.tick)
                self._sleep(SHORTEST_TICK)
                continue
            # Not later than due, be it by a rounding: every event plans the same tick again.
            self._wakes_at = min(due, now + longest)
            longest = _LIGHT_SLEEP if self._sleep(self._wakes_at - now) else _LONGEST_SLEEP

    def _sleep(self, seconds: float) -> bool:
        """Sleep, at most so long; returns whether the timer was woken."""
        woken = self._timer_wake.wait(seconds)
        self._timer_wake.clear()
        return woken

    # -- looking at the engine ------------------------------------------------------------------------------------

    @contextmanager
    def paused(self, patience: float = -1) -> Iterator[float]:
        """Hold the lock, and yield the time. The engine's records may be read only inside this context.

        Raises LoopBusy if the lock is not free within `patience` seconds; -1 waits for ever.
        """
        if not self._lock.acquire(timeout=patience):
            raise LoopBusy
        try:
            now = self._held_since = self.clock()
            self._holder, self._handling = threading.get_ident(), None
            yield now
        finally:
            self._lock.release()

    @property
    def handling(self) -> EventT | None:
        """The event that is handled while `held` says that one is; None: the engine is only looked at."""
        return self._handling

    def held(self) -> Held | None:
        """Return the holder of the lock. Read it twice: at the very moment of an acquisition the answer is outdated."""
        return Held(self._held_since, self._holder) if self._lock.locked() else None

    def in_turns(self, pieces: Iterator[T], patience: float = -1) -> Iterator[T]:
        """Make each piece under the lock, and release it in between for other threads.

        Raises LoopBusy if the lock is not free within `patience` seconds for one of them; -1 waits for ever.
        """
        began = time.monotonic()
        while True:
            with self.paused(patience):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece
            if time.monotonic() - began > _WORK:
                time.sleep(_TURN)
                began = time.monotonic()
