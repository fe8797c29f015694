"""Looks at the engine from outside, a few times a second: what takes too long, and what the algorithm does wrong.

    decision or any other turn of the lock --longer than slow--> log with the stack of its thread, once; counted
                                           --over------------->  log: how long it took
                                           --longer than hang--> /livez fails, with the reason
    fault of the algorithm --first time--> log with its traceback, and how to replay the event in which it happened
                           --again------>  log with its count, once in AGAIN seconds

The algorithm is named in all of them, in `/readyz` and in the metrics. An engine writes no log, and what hangs can say
nothing itself. So a thread of its own does both. It takes no lock that an engine or a plug-in could hold, and costs a
decision nothing.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from extender.logs.setup import traceback_text
from extender.scheduling.faults import Fault, FaultKind, FaultLog
from extender.server.guard import SLOW
from extender.server.loop import EngineLoop, Held
from extender.server.views import Metric

log = structlog.get_logger(__name__)

#: Seconds between two looks.
LOOK: Final = 0.25
#: Seconds between two stacks of slow turns, and between two counts of the same fault.
AGAIN: Final = 60.0
#: Frames of a stack, the innermost ones.
_FRAMES: Final = 16


@dataclass(frozen=True, slots=True)
class Watched:
    """The algorithm of an engine: its name, its faults, and how an event is replayed, by the number of the event."""

    name: str
    faults: FaultLog
    replay: Callable[[int], str]


class Watchdog:
    """The thread that looks. `slow` and `hang` are the seconds after which a turn counts as slow, and as one that does
    not end; `hang` 0: never. `algorithm` is that of the engine, if it has one; `engine` names the engine in texts."""

    def __init__(
        self,
        loop: EngineLoop[Any, Any],
        algorithm: Watched | None = None,
        *,
        hang: float,
        slow: float = SLOW,
        engine: str = "engine",
    ) -> None:
        self._loop = loop
        self._algorithm = algorithm
        self._faults = _FaultLog(algorithm) if algorithm is not None else None
        self._slow_from = slow
        self._metric = f"waggle_{engine.replace(' ', '_')}"
        self._engine = f"the {engine}"
        self._hang = hang
        self._last: Held | None = None
        #: The slow turn that goes on, if there is one, and whether it was logged.
        self._slow: Held | None = None
        self._is_logged = False
        self._logged_at = float("-inf")
        self._slow_turns = 0
        #: Why the process should be restarted; "" while it should not.
        self._hangs = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waggle-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, after a last look. Idempotent; works also without a start."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self.look()

    def _run(self) -> None:
        while not self._stop.wait(LOOK):
            try:
                self.look()
            except Exception:
                log.exception("the watchdog failed")

    def look(self) -> None:
        """Look once. Two looks in a row notice a turn that is slow."""
        now = self._loop.clock()
        held = self._loop.held()
        if self._slow is not None and held != self._slow:
            self._over(self._slow, now)
        if held is not None and held == self._last and now - held.since >= self._slow_from:
            self._goes_on(held, now)
        self._last = held
        if self._faults is not None:
            self._faults.look(now)

    def _goes_on(self, held: Held, now: float) -> None:
        seconds = now - held.since
        if self._slow is None:
            self._slow = held
            self._slow_turns += 1
            self._is_logged = now - self._logged_at >= AGAIN
            if self._is_logged:
                self._logged_at = now
                log.warning(
                    f"slow: {self._engine} is busy", **self._what(), seconds=round(seconds, 1), **where(held.thread)
                )
        if not self._hangs and 0 < self._hang <= seconds:
            self._hangs = f"{self._named} has been busy with one event for more than {self._hang:g} s"
            log.error(
                f"{self._engine} hangs, /livez fails", **self._what(), seconds=round(seconds, 1), **where(held.thread)
            )

    def _what(self) -> dict[str, str]:
        """The kind of the event, and the pod that it is about, as fields of a log line."""
        event = self._loop.handling
        pod = getattr(event, "pod", None)
        name = getattr(pod, "key", "") or getattr(pod, "name", "")
        what = {"kind": type(event).__name__ if event else "a look at the engine", "pod": str(name)}
        if self._algorithm is None:
            return what
        number = self._algorithm.faults.number
        return {
            "algorithm": self._algorithm.name,
            **what,
            "number": str(number),
            "replay": self._algorithm.replay(number),
        }

    def _over(self, slow: Held, now: float) -> None:
        seconds = round(now - slow.since, 1)
        if self._is_logged or self._hangs:
            log.warning(f"slow: {self._engine} goes on", seconds=seconds, slow_turns=self._slow_turns)
        self._slow, self._hangs = None, ""

    # -- reports --------------------------------------------------------------------------------------------------

    def hangs(self) -> str:
        """Why the process should be restarted: a turn does not end. "" if there is no such turn."""
        return self._hangs

    def readiness_warning(self) -> str:
        """What /readyz says of a slow turn that goes on, and of faults of the algorithm."""
        slow = self._slow
        now = self._loop.clock()
        busy = f"{self._named} has been busy with one event for {now - slow.since:.0f} s" if slow else ""
        return "; ".join(text for text in (busy, *self.faults()) if text)

    def faults(self) -> list[str]:
        """What the algorithm did wrong within ten minutes: a sentence for each kind of fault, the newest first."""
        return self._faults.sentences(self._loop.clock()) if self._faults is not None else []

    @property
    def _named(self) -> str:
        return f"{self._engine} (algorithm {self._algorithm.name})" if self._algorithm else self._engine

    def metrics(self) -> list[Metric]:
        slow = self._slow
        return [
            Metric(
                f"{self._metric}_slow_turns_total",
                "counter",
                f"Times that the engine was busy with one event for longer than {self._slow_from:g} s; should stay 0.",
                [({}, float(self._slow_turns))],
            ),
            Metric(
                f"{self._metric}_busy_seconds",
                "gauge",
                f"For how long it has been busy with the present event, if longer than {self._slow_from:g} s; else 0.",
                [({}, max(0.0, self._loop.clock() - slow.since) if slow else 0.0)],
            ),
        ]


def where(thread: int) -> dict[str, str]:
    """The name and the stack of a thread, as fields of a log line. It goes on meanwhile: a stack is a snapshot."""
    name = next((each.name for each in threading.enumerate() if each.ident == thread), "")
    frame = sys._current_frames().get(thread)
    if frame is None:
        return {"thread": name}
    frames = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_FRAMES, lookup_lines=False)
    frames.reverse()
    last = frames[-1]
    stack = "".join(f"    {line}" for part in frames.format() for line in part.splitlines(keepends=True))
    return {"thread": name, "at": f"{last.filename}:{last.lineno} in {last.name}", "exception": stack.rstrip()}


#: The events of log lines, the first time and later; what /readyz says.
_TITLES: Final = {
    FaultKind.RAISED: ("the algorithm failed", "the algorithm fails again", "failed"),
    FaultKind.BROKE_CONTRACT: (
        "the algorithm broke its contract",
        "the algorithm breaks its contract again",
        "broke its contract",
    ),
    FaultKind.UNSTEADY_REASON: ("a reason keeps changing", "a reason keeps changing", "kept changing a reason"),
    FaultKind.SLOW: ("the algorithm is slow", "the algorithm is slow again", "was slow"),
}


class _FaultLog:
    """Logs the faults of the algorithm: each once with its traceback, and later how often it came again."""

    def __init__(self, algorithm: Watched) -> None:
        self._algorithm = algorithm
        self._fault_log = algorithm.faults
        #: The count that was logged last, and when, by fault.
        self._logged: dict[tuple[str, str], tuple[int, float]] = {}

    def look(self, now: float) -> None:
        for key, fault in self._fault_log.known():
            count, at = self._logged.get(key, (0, 0.0))
            if not count:
                self._log(fault)
            elif fault.count > count and now - at >= AGAIN:
                log.warning(_TITLES[fault.kind][1], **self._fields(fault), more=fault.count - count, count=fault.count)
            else:
                continue
            self._logged[key] = (fault.count, now)

    def _log(self, fault: Fault) -> None:
        title = _TITLES[fault.kind][0]
        if fault.kind in (FaultKind.UNSTEADY_REASON, FaultKind.SLOW):
            log.warning(title, **self._fields(fault))
            return
        shown = {"exception": traceback_text(fault.trace)} if fault.trace else {}
        log.error(title, **self._fields(fault), count=fault.count, **shown)

    def sentences(self, now: float) -> list[str]:
        """The last fault of each kind, for ten minutes."""
        recent = [fault for fault in list(self._fault_log.last_of.values()) if now - fault.at <= 10 * AGAIN]
        return [self._sentence(fault, now) for fault in sorted(recent, key=lambda fault: -fault.at)]

    def _sentence(self, fault: Fault, now: float) -> str:
        count = self._fault_log.totals[fault.kind]
        times = f"{count} time{'' if count == 1 else 's'}"
        did = f"algorithm {self._algorithm.name} {_TITLES[fault.kind][2]} {times}, last {now - fault.at:.0f} s ago"
        return f"{did}: {fault} (event {fault.number}; {self._algorithm.replay(fault.number)})"

    def _fields(self, fault: Fault) -> dict[str, Any]:
        return {
            "algorithm": self._algorithm.name,
            "call": fault.call,
            "subject": fault.subject,
            "error": fault.text,
            "number": fault.number,
            "replay": self._algorithm.replay(fault.number),
        }
