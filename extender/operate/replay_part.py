"""Replays a part of a recording, and says what came out of it: here, or in one of several processes (`replay_jobs.py`).

    start ---- events ---- end?                     the state is the recorded one: the part ends here
                            |
                            +---- events ---- end?  it is not, or cannot be read: it goes on to the next one

A part that ends at a checkpoint compares its engine with the state that was recorded there. From equal states the same
decisions follow, so parts that are replayed side by side find what one replay of the whole finds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from algorithm.registry import AlgorithmError
from extender.operate.refusal import text_of
from extender.recording.checkpoint import Start
from extender.recording.encoding import instructions_of
from extender.recording.graph.comparing import PREPARATIONS, difference
from extender.recording.log import Recording
from extender.recording.records import Gap, RecordingError
from extender.recording.replaying import Played, Replay
from extender.replay.moments import Span, clock_text
from extender.replay.texts import cut, decision_text, effect_text, event_text
from extender.scheduling.fork import fork
from extender.scheduling.machine import SchedulerStateMachine

#: Lines of a pod's history, and instructions of an event, that are shown.
_HISTORY, _MOST = 20, 12


@dataclass
class PartResult:
    """What came out of a part. `until`: the checkpoint at which it ended, None if with the last event or a divergence.

    `first_at`, `last_at`: the times of its first and last event, seconds of the server's clock. `took`: seconds of CPU
    time. `divergence`: the lines that show it. `refused`: why it cannot be replayed.
    """

    began_after: int = 0
    until: int | None = None
    events: int = 0
    decisions: int = 0
    compared: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    took: float = 0.0
    gaps: list[Gap] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    divergence: list[str] = field(default_factory=list)
    refused: str = ""


def replay_part(recording: Recording, start: Start, ends: Sequence[Start] = (), span: Span | None = None) -> PartResult:
    """Replay from a start to the first of some checkpoints whose state is met, to a divergence, or to the last event.

    `span`: what the times are shown in; by default it begins with the first event of the part. Raises RecordingError,
    AlgorithmError or OSError.
    """
    replay = Replay(recording, start=start)
    result = PartResult(began_after=replay.began_after)
    began = time.process_time()
    _replay(replay, result, list(ends), span)
    result.took = time.process_time() - began
    result.gaps, result.remarks = replay.gaps, list(recording.remarks)
    return result


def part_or_refusal(recording: Recording, start: Start, ends: Sequence[Start], span: Span) -> PartResult:
    """The same, with why it cannot be replayed as a text: it comes from another process."""
    try:
        return replay_part(recording, start, ends, span)
    except (AlgorithmError, RecordingError, OSError) as error:
        return PartResult(refused=text_of(error))


def _replay(replay: Replay, result: PartResult, ends: list[Start], span: Span | None) -> None:
    for played in replay:
        step = played.step
        if not result.events:
            result.first_at = step.at
            span = span or Span(step.at, replay.recording.header.epoch)
        result.last_at = step.at
        result.events += 1
        result.decisions += played.decisions
        result.compared += step.said is not None
        if played.divergence is not None:
            assert span is not None
            result.divergence = _divergence(played, replay.engine, span)
            return
        if ends and step.number >= ends[0].number:
            end = ends.pop(0)
            if step.number == end.number and _is_met(replay.engine, end):
                result.until = end.number
                return


def _is_met(engine: SchedulerStateMachine, end: Start) -> bool:
    """Whether a copy of the engine and its algorithm is as the copy that was recorded. A state of another release may
    have other fields, or not be readable; one that was changed can fail anywhere: then it is not, and all that is lost
    is time."""
    engine.state.cache.snapshot()  # what pages of a server have asked for is kept, and not asked for in a replay
    try:
        recorded = end.engine()
        recorded.state.cache.snapshot()
        return not difference(fork(engine), recorded, apart=PREPARATIONS, algorithms=True)
    except Exception:
        return False


def _divergence(played: Played, engine: SchedulerStateMachine, span: Span) -> list[str]:
    step, divergence = played.step, played.divergence
    assert divergence is not None
    lines = [
        f"  {clock_text(step.at, span)} #{step.number} {event_text(step.event, engine)}",
        *_answer("was", divergence.was, divergence.failed_then),
        *_answer("now", divergence.now, divergence.failed_now),
    ]
    pod = _pod_of(step.event)
    if pod is not None and (info := engine.find(*pod)) is not None:
        lines.append(f"  history of {info.key} in this replay:")
        lines += [
            f"    {clock_text(line.at, span)} #{line.event} {cut(line.text)}" for line in list(info.history)[-_HISTORY:]
        ]
    return lines


def _pod_of(event: Any) -> tuple[str, str] | None:
    """The namespace and name of the pod that an event names; None if it names none."""
    about = getattr(event, "pod", event)
    namespace, name = getattr(about, "namespace", None), getattr(about, "name", None)
    return (namespace, name) if namespace and name else None


def _answer(title: str, text: bytes, failed: str) -> list[str]:
    if failed:
        return [f"  {title}: the engine failed: {cut(failed)}"]
    texts = [cut(decision_text(each) or effect_text(each)) for each in instructions_of(text)]
    shown = [each for each in texts if each][:_MOST] or ["no answer"]
    return [f"  {title}: {shown[0]}", *(f"       {each}" for each in shown[1:])]
