"""Replays the parts of a long recording side by side, each in a process of its own.

    |---- process 1 ----|---- process 2 ----|---- process 3 ----|      parts begin and end at checkpoints

Promises. What comes out is what one replay of the whole would say: the parts are taken in their order, and a part whose
engine does not come to the state that was recorded at its end goes on, so that those after it do not count
(`replay_part.py`). No process is left behind, whatever ends this one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from extender.operate.quiet_collector import quiet_collector
from extender.operate.replay_part import PartResult, part_or_refusal
from extender.operate.standstill import standstill_said
from extender.recording.checkpoint import Start
from extender.recording.lines import size_of
from extender.recording.log import Recording, Segment
from extender.recording.records import RecordingError, Step
from extender.recording.replaying import first_start
from extender.replay.moments import Span

#: The least that a part has, compressed bytes: to start a process takes as long as some ten thousand events.
_LEAST_OF_PART = 2 << 20
#: Processes, unless it is said how many: each has an engine and the state of a checkpoint.
_MOST_BY_DEFAULT = 8


def default_jobs() -> int:
    """One for each core that this process may use, but not so many that their memory is a surprise."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST_BY_DEFAULT)


def starts_of_parts(recording: Recording, jobs: int) -> list[Start]:
    """Return where at most so many parts begin: they have about the same size. Raises RecordingError or OSError."""
    first = first_start(recording)
    sizes = [size_of(segment.path) for segment in recording.segments]

    def before(start: Start) -> int:
        """The bytes of the segments before the one that goes on after this start."""
        begun = [size for segment, size in zip(recording.segments, sizes, strict=True) if _begins_by(segment, start)]
        return sum(begun[:-1])

    places = {start.number: before(start) for start in recording.starts}
    begin, end = places[first.number], sum(sizes)
    found = [first]
    for part in range(1, jobs):
        wanted = begin + (end - begin) * part / jobs
        nearest = min(recording.starts, key=lambda start: abs(places[start.number] - wanted))
        here = places[nearest.number]
        if min(here - places[found[-1].number], end - here) >= _LEAST_OF_PART and nearest.number > found[-1].number:
            found.append(nearest)
    return found


def _begins_by(segment: Segment, start: Start) -> bool:
    return segment.header.first <= start.number + 1


class _Worker(NamedTuple):
    start: Start
    process: BaseProcess
    answer: Connection


def replay_parts(recording: Recording, starts: Sequence[Start]) -> Iterator[PartResult]:
    """Yield the results of the parts that count, in their order.

    Raises RecordingError or OSError if a part cannot be replayed.
    """
    with _started(recording, starts) as workers:
        at: int | None = starts[0].number
        while at is not None:
            worker = next(each for each in workers if each.start.number == at)
            result = _received(recording, worker)
            if result.refused:
                raise RecordingError(result.refused)
            yield result
            at = result.until


@contextmanager
def _started(recording: Recording, starts: Sequence[Start]) -> Iterator[list[_Worker]]:
    context = multiprocessing.get_context("spawn")
    span, workers = Span(_first_time(recording, starts[0]), recording.header.epoch), list[_Worker]()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # in them, too: Ctrl-C is for this process
    try:
        for index, start in enumerate(starts):
            answer, theirs = context.Pipe(duplex=False)
            work = (theirs, recording, start, starts[index + 1 :], span)
            process = context.Process(target=_work, args=work, name=f"waggle-replay-{start.number}", daemon=True)
            process.start()
            theirs.close()
            workers.append(_Worker(start, process, answer))
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        yield workers
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.answer.close()


def _first_time(recording: Recording, start: Start) -> float:
    """The time of the first event after it; 0 if there is none."""
    with closing(recording.steps(start.number)) as steps:  # type: ignore[type-var]
        return next((step.at for step in steps if isinstance(step, Step)), 0.0)


def _work(answer: Connection, recording: Recording, start: Start, ends: Sequence[Start], span: Span) -> None:
    threading.Thread(target=_end_with_parent, name="waggle-parent", daemon=True).start()
    quiet_collector()
    with standstill_said():
        answer.send(part_or_refusal(recording, start, ends, span))


def _end_with_parent() -> None:
    """End this process once the one that started it has ended: nobody waits for its result. The algorithm may be in a
    call that does not return."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _received(recording: Recording, worker: _Worker) -> PartResult:
    try:
        result = worker.answer.recv()
    except EOFError as error:
        worker.process.join()
        raise RecordingError(
            f"{recording.name}: the process that replayed what follows event {worker.start.number} has ended with "
            f"status {worker.process.exitcode}; --jobs 1 replays all of it in one process"
        ) from error
    assert isinstance(result, PartResult)
    return result
