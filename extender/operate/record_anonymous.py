"""`waggle record anonymize`: writes a recording without names, to give it to others.

    train-0 in team-a on gpu-17   -->   x000412 in x000398 on x000131

Names become numbers as in an anonymous snapshot (`plan/reading/anonymous.py`): in the order of the names, everywhere
the same one. Then the renamed events are replayed, and what the engine answers to them is what is written: so the new
log is a recording of its own that replays. Each answer is compared with the one that was recorded, apart from names.
An algorithm that uses more of a name than its place in the order decides differently somewhere; that is counted and
reported.

A checkpoint cannot be anonymized: names stand in it wherever an algorithm has put them. So the recording must still
have its first event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.reasons import Reason
from extender.core.outcomes import Outcome
from extender.plan.reading.anonymous import Renaming, collecting, numbering
from extender.recording.checkpoint import Start
from extender.recording.encoding import LineWriter, fields_of_records, instructions_of
from extender.recording.files import CompressedFile
from extender.recording.log import Recording
from extender.recording.records import FORMAT, Gap, Header, RecordingError, Step
from extender.recording.replaying import is_decision, replay_on
from extender.scheduling.commands import Evict, WriteBinding
from extender.scheduling.events import BindAnswer, Candidate, Event, FilterAnswer, Instruction, PreemptAnswer

#: Fields of events that name something.
_NAMES = frozenset({"namespace", "name", "uid", "node"})
_WORDS = re.compile(rb"[A-Za-z0-9][A-Za-z0-9.\-]*")
#: Names that are shorter may be words of anything.
_SHORTEST = 5
#: Differences that are shown.
_MOST = 5


class Anonymized(NamedTuple):
    """What was written. `different`: events where the engine answers otherwise to the renamed ones; `left`: names that
    still stand somewhere."""

    events: int
    decisions: int
    different: list[str]
    left: list[str]
    bytes: int


def anonymize(recording: Recording, out: Path) -> Anonymized:
    """Write the recording without names. Raises RecordingError or OSError; then nothing is written."""
    if recording.header.first != 1:
        raise RecordingError(
            f"{recording.name}: begins with event {recording.header.first}: earlier ones were deleted. What came "
            "before is in a checkpoint, and a checkpoint cannot be anonymized"
        )
    found: set[str] = set()
    collector = _Events(collecting(found))
    collector.header(recording.header)
    for step in _steps(recording):
        collector.event(step.event)
    renaming, numbers = numbering(found)
    file = CompressedFile(out, complete=True)
    try:
        made = _write(recording, _Events(renaming), numbers, file)
        file.finish()
    except BaseException:
        file.abandon()
        raise
    return made._replace(bytes=file.bytes)


def _write(recording: Recording, events: _Events, numbers: Any, file: CompressedFile) -> Anonymized:
    header = events.header(recording.header)
    engine = Start(header, None).engine()
    writer, names = LineWriter(), {name.encode() for name in numbers if len(name) >= _SHORTEST}
    file.write(writer.header(header))
    different: list[str] = []
    left: set[bytes] = set()
    decisions = number = 0
    for number, step in enumerate(_steps(recording), start=1):
        renamed = Step(step.at, events.event(step.event), number)
        for _, instructions in replay_on(engine, [renamed]):
            line = writer.event(number, step.at, renamed.event, instructions)
            file.write(line)
            left.update(names.intersection(_WORDS.findall(line)))
            now = _signature(instructions, str)
            decisions += sum(map(is_decision, instructions))
            was = now if step.said is None else _signature(instructions_of(step.said.text), numbers_or_same(numbers))
            if was != now:
                different.append(f"event {number}: {_told(was)} became {_told(now)} without names")
    file.write(writer.end(number))
    return Anonymized(number, decisions, different, sorted(name.decode() for name in left), 0)


def _steps(recording: Recording) -> Iterator[Step]:
    for item in recording.steps():
        if isinstance(item, Gap):
            raise RecordingError(f"{recording.name}: events {item.first} to {item.last} are missing: {item.why}")
        yield item


def numbers_or_same(numbers: Any) -> Any:
    return lambda text: numbers.get(text, text)


class _Events:
    """Puts other names into headers and events."""

    def __init__(self, renaming: Renaming) -> None:
        self._renaming = renaming

    def header(self, header: Header) -> Header:
        return msgspec.structs.replace(
            header,
            waggle=FORMAT,
            settings=self._renaming.values(header.settings),
            recording="anonymous",
            masked=(),
            fields=header.fields or fields_of_records(),
        )

    def event(self, event: Event) -> Event:
        fields = {name: self._field(name, getattr(event, name)) for name in event.__struct_fields__}
        return type(event)(**fields)

    def _field(self, name: str, value: Any) -> Any:
        match value:
            case Pod():
                return self._renaming.pod(value)
            case Node():
                return self._renaming.node(value)
            case SuggestedNodes():
                return SuggestedNodes(map(self._renaming.name, value))
            case Outcome():
                return msgspec.structs.replace(value, detail="")  # what the API server wrote
            case Reason():
                return Reason(value.code, tuple((key, self._param(text)) for key, text in value.params))
            case str() if name in _NAMES:
                return self._renaming.name(value)
            case tuple() if name == "candidates":
                return tuple(map(self._candidate, value))
            case dict() if name == "settings":
                return self._renaming.values(value)
        return value

    def _candidate(self, each: Candidate) -> Candidate:
        victims = tuple(map(self._renaming.name, each.victims))
        return Candidate(self._renaming.name(each.node), victims, each.pdb_violations)

    def _param(self, text: str) -> str:
        """A list of names, each perhaps with its namespace; any other text becomes a name as a whole."""
        return ", ".join("/".join(map(self._renaming.name, each.split("/"))) for each in text.split(", "))


def _signature(instructions: list[Instruction], rename: Any) -> list[tuple[Any, ...]]:
    """What was decided, with other names: the same for two answers that differ only in names."""
    found: list[tuple[Any, ...]] = []
    for item in instructions:
        match item:
            case FilterAnswer():
                node = rename(item.node) if item.node else item.node
                found.append(("filter", node, item.reason.code if item.reason else None, item.pass_through, item.error))
            case PreemptAnswer():
                victims = {rename(each.node): sorted(map(rename, each.victims)) for each in item.candidates}
                found.append(("preempt", sorted(victims.items()), item.reason.code if item.reason else None))
            case BindAnswer():
                found.append(("bind", item.error.code if item.error else None))
            case WriteBinding():
                found.append(("write", rename(item.uid), rename(item.node)))
            case Evict():
                found.append(("evict", rename(item.uid), item.dry_run))
    return found


def _told(signature: list[tuple[Any, ...]]) -> str:
    return (
        "; ".join(" ".join(str(part) for part in each if part not in (None, False)) for each in signature) or "nothing"
    )


def as_text(made: Anonymized, out: Path) -> str:
    """What to tell the user."""
    lines = [f"{out}: {made.events:,} events, {made.bytes:,} bytes"]
    if made.different:
        share = f"{len(made.different):,} of {made.events:,} events have other answers without the names"
        lines.append(
            f"{share}: the algorithm uses more of a name than its place in the order, or a name is part of a text"
        )
        lines += made.different[:_MOST]
        lines += [f"and {len(made.different) - _MOST} more"] if len(made.different) > _MOST else []
    else:
        lines.append(f"{made.decisions:,} decisions are the same, apart from names")
    if made.left:
        lines.append(f"check it before you give it away: these names are still in it: {', '.join(made.left[:20])}")
    return "\n".join(lines)
