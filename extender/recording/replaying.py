"""Replays a recording on a fresh engine, and compares its answers with the recorded ones.

    replay = Replay(recording)                 from the earliest start; or Replay(recording, start=recording.starts[-1])
    for played in replay:                      Played, one for each event
        played.step, played.instructions       the event, and what this program answers
        played.divergence                      None if that is what was recorded
    replay.engine                              the engine as it is after that event

The recorded times are kept, since the engine's clock is a parameter: a replay is as fast as the engine.

After a gap, it continues from the next checkpoint. `refusals` says why a recording cannot be replayed at all, in
sentences: events or fields that this program does not know, a plug-in that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import create
from extender.core.said import LONGEST_FAILURE, said_by
from extender.recording.checkpoint import Start
from extender.recording.constants import differences
from extender.recording.encoding import digest_of, encode_instructions, shortened, unknown_fields
from extender.recording.held import Held
from extender.recording.log import Recording
from extender.recording.records import Gap, RecordingError, Said, Step
from extender.scheduling.commands import Evict
from extender.scheduling.events import (
    BindAnswer,
    FilterAnswer,
    Instruction,
    PreemptAnswer,
    PrepareAlgorithm,
    Reconfigured,
)
from extender.scheduling.machine import SchedulerStateMachine

Create = Callable[[str, Mapping[str, Any]], SchedulerAlgorithm]

#: Reading ahead stops at so many items, or at this weight: bytes of lines plus names of offered nodes.
_MOST_AHEAD, _WEIGHT_AHEAD = 64, 1 << 20


class Divergence(NamedTuple):
    """The engine's answer differs from the recorded one. Both as text, shortened: lists of [kind, fields]."""

    was: bytes
    now: bytes
    #: How the engine failed then, and now; "" if it did not.
    failed_then: str = ""
    failed_now: str = ""


class Played(NamedTuple):
    """One event of a replay. `instructions` is empty if the engine fails (`failed`)."""

    step: Step
    instructions: list[Instruction]
    divergence: Divergence | None = None
    failed: str = ""

    @property
    def decisions(self) -> int:
        return sum(map(is_decision, self.instructions)) if self.instructions else 0


def is_decision(instruction: Instruction) -> bool:
    """Return whether it is a decision: an answer to filter or preempt about a managed pod, a refused bind, an eviction,
    or other settings. Every command counts decisions by this rule."""
    match instruction:
        case FilterAnswer() | PreemptAnswer():
            return not instruction.pass_through
        case BindAnswer():
            return instruction.error is not None
        case Evict():
            return not instruction.dry_run
    return isinstance(instruction, Reconfigured)


class Replay:
    """See the module docstring. Iterate once.

    `start`: one of the recording's; by default the earliest. `engine`: another one to replay on, as it is at the start;
    then its decisions are compared only if `compare`.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        start: Start | None = None,
        engine: SchedulerStateMachine | None = None,
        compare: bool = True,
        create: Create = create,
    ) -> None:
        if start is None and engine is None:
            start = first_start(recording)
        self.recording = recording
        self.number = start.number if start is not None else 0
        #: The event after which it began; 0: with the first one.
        self.began_after = self.number
        self.engine = engine if engine is not None else start.engine()  # type: ignore[union-attr]
        #: The events that were skipped, since they are missing or were not followed by a checkpoint.
        self.gaps: list[Gap] = []
        self._compare = compare
        self._create = create

    def __iter__(self) -> Iterator[Played]:
        held = Held(self.recording.name, self.recording.most_mib)
        lost: Gap | None = None
        resume: Start | None = None
        for item in _read_ahead(self.recording.steps(self.number)):
            if isinstance(item, Gap):
                resume = next((each for each in self.recording.starts if each.number >= item.last), None)
                lost = Gap(item.first, resume.number if resume else item.last, item.why)
                self.gaps.append(lost)
                continue
            if lost is not None:
                if resume is None or item.number <= resume.number:
                    self.gaps[-1] = lost = lost._replace(last=max(item.number, lost.last))
                    continue
                self.engine, lost = resume.engine(), None
            yield self._played(held.take(item))
            self.number = item.number or self.number + 1

    def _played(self, step: Step) -> Played:
        try:
            instructions = self.engine.handle(step.event, step.at)
            self.engine.next_due()  # as the server's loop does after each event: it tidies up the engine's timers
            for item in instructions:
                if isinstance(item, PrepareAlgorithm):
                    self.engine.preparations.carry_out(item, self._create)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may call sys.exit(): a failure, as it is for a server
            failed = said_by(error, LONGEST_FAILURE)
            is_same = step.said is not None and step.said.failed == failed
            wrong = None if is_same else Divergence(_was(step.said), b"[]", _failed(step.said), failed)
            return Played(step, [], wrong, failed)
        return Played(step, instructions, self._divergence(step.said, instructions))

    def _divergence(self, said: Said | None, instructions: list[Instruction]) -> Divergence | None:
        if not self._compare or said is None:
            return None
        text = encode_instructions(instructions)
        if not said.failed and (digest_of(text) == said.digest if said.digest else text == said.text):
            return None
        now = shortened(instructions) if said.digest else text
        if not said.failed and _is_same(said.text, now) and not said.digest:
            return None
        return Divergence(said.text, now, said.failed)


def _read_ahead(items: Iterator[Step | Gap]) -> Iterator[Step | Gap]:
    """Yield the items, which are read ahead in batches: reading and deciding by turns takes a tenth longer, since each
    evicts what the other needs from the processor's caches. An error is raised after the items that came before it."""
    batch: list[Step | Gap] = []
    weight = 0
    try:
        for item in items:
            batch.append(item)
            weight += _weight(item)
            if len(batch) >= _MOST_AHEAD or weight >= _WEIGHT_AHEAD:
                yield from batch
                batch, weight = [], 0
    except Exception:
        yield from batch
        raise
    yield from batch


def _weight(item: Step | Gap) -> int:
    return 0 if isinstance(item, Gap) else item.size + len(getattr(item.event, "nodes", ()))


def _was(said: Said | None) -> bytes:
    return said.text if said is not None else b"[]"


def _failed(said: Said | None) -> str:
    return said.failed if said is not None else ""


def _is_same(was: bytes, now: bytes) -> bool:
    """Return whether two answers differ only in empty fields that one of the two releases does not have."""
    return _equal(msgspec.json.decode(was), msgspec.json.decode(now))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(
            _equal(one[key], other[key]) if key in one and key in other else not (one.get(key) or other.get(key))
            for key in one.keys() | other.keys()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def first_start(recording: Recording) -> Start:
    """Return where a replay of the whole begins. Raises RecordingError if it cannot begin anywhere."""
    if not recording.starts:
        header = recording.header
        raise RecordingError(
            f"{recording.name}: begins with event {header.first}, and has no checkpoint: it cannot be replayed. "
            "A segment needs its checkpoint beside it; `waggle record cut` makes one file of both"
        )
    return recording.starts[0]


def start_before(recording: Recording, *, at: float | None = None, number: int | None = None) -> Start:
    """Return the latest start that is not after this time of the server's clock, or this event.

    Raises RecordingError if the recording begins later.
    """
    fitting = [
        each
        for each in recording.starts
        if (number is None or each.number <= number) and (at is None or each.head is None or each.head.at <= at)
    ]
    if not fitting:
        first_start(recording)
        raise RecordingError(
            f"{recording.name}: only what follows event {recording.starts[0].number} can still be replayed"
        )
    return fitting[-1]


def refusals(recording: Recording) -> list[str]:
    """Return why this program cannot replay the recording: a sentence each."""
    unknown = unknown_fields(recording.header)
    return [f"it has fields that this program does not know: {', '.join(unknown)}"] if unknown else []


def doubts(recording: Recording) -> list[str]:
    """Return why this program may decide differently from the one that recorded: a sentence each."""
    return differences(recording.header.constants, recording.header.algorithm)


def replay_on(engine: SchedulerStateMachine, steps: Iterable[Step]) -> Iterator[tuple[Step, list[Instruction]]]:
    """Replay steps on this engine, without a recording. Yields each with the instructions that it causes."""
    for step in steps:
        instructions = engine.handle(step.event, step.at)
        engine.next_due()  # as above
        for item in instructions:
            if isinstance(item, PrepareAlgorithm):
                engine.preparations.carry_out(item, create)
        yield step, instructions
