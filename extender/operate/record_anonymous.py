"""`waggle record anonymize`: writes a recording without names, to give it to others.

    train-0 in team-a on gpu-17   -->   x000412 in x000398 on x000131

Names become numbers as in an anonymous snapshot (`plan/reading/renaming.py`): in the order of the names, everywhere
the same one. Then the renamed events are replayed, and what the engine answers to them is what is written: so the new
log is a recording of its own that replays. Each answer is compared with the one that was recorded, apart from names.
An algorithm that uses more of a name than its place in the order decides differently somewhere; that is counted and
reported.

A recording that has lost its first events begins with a checkpoint; `anonymous_checkpoint.py` puts numbers into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.reasons import Reason
from extender.core.outcomes import Outcome
from extender.operate.anonymous_checkpoint import (
    KEPT,
    State,
    Words,
    head_of,
    numbered,
    renamed_policy,
    words_of_program,
)
from extender.plan.reading.keys import Keys
from extender.plan.reading.renaming import Renaming, collecting
from extender.recording.checkpoint import Start, engine_of
from extender.recording.encoding import LineWriter, fields_of_records, instructions_of
from extender.recording.files import NewFile
from extender.recording.held import Held
from extender.recording.log import Recording
from extender.recording.records import FORMAT, Gap, Header, RecordingError, Step
from extender.recording.replaying import first_start, is_decision, replay_on
from extender.scheduling.commands import Evict, WriteBinding
from extender.scheduling.events import BindAnswer, Candidate, Event, FilterAnswer, Instruction, PreemptAnswer

#: Fields of events that name something.
_NAMES = frozenset({"namespace", "name", "uid", "node"})
_WORDS = re.compile(rb"[A-Za-z0-9][A-Za-z0-9.\-]*")
#: Names that are shorter may be words of anything.
_SHORTEST = 5
#: Differences that are shown.
_MOST = 5
#: Names that are shown.
_SHOWN = 20


class Anonymized(NamedTuple):
    """What was written. `different`: events where the engine answers otherwise to the renamed ones; `left`: names that
    still stand somewhere; `kept`: names that are words of the program, too; `read`: keys that were replaced, and stand
    in the source of the algorithm or of the engine; `named`: the first event to which it answers otherwise with the
    names, too, 0 if there is none, or if nothing is different."""

    events: int
    decisions: int
    different: list[str]
    left: list[str]
    bytes: int
    kept: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    named: int = 0


def anonymize(recording: Recording, out: Path, *, keep_keys: Iterable[str] = ()) -> Anonymized:
    """Write the recording without names. `keep_keys` are keys of labels, annotations and taints that stay.

    Raises RecordingError, also for a key that the recording does not have, or OSError; then nothing is written.
    """
    start = first_start(recording)
    start.engine()  # says what is wrong with it, and loads the modules that have the words of the program
    keys = Keys(keep_keys)
    words = words_of_program(recording.header.algorithm, recording.header, keys)
    texts = frozenset(words.texts)
    state = State(Path(start.head.path), start.head.algorithm, words, keys) if start.head is not None else None
    found, fixed = _names(recording, start, state, words, keys)
    if unused := keys.unused():
        raise RecordingError(
            f"--keep-key: no label, annotation or taint in {recording.name} has the key {', '.join(unused)}"
        )
    renaming, numbers = numbered(found, fixed, words, keys)
    file = NewFile(out)
    try:
        made = _write(recording, start, state, _Events(renaming, keys), numbers, file)
        file.finish()
    except BaseException:
        file.abandon()
        raise
    read = tuple(sorted(keys.replaced & texts - fixed))
    named = _first_other_answer(recording, start) if made.different else 0
    return made._replace(bytes=file.bytes, kept=tuple(sorted(fixed)), read=read, named=named)


def _first_other_answer(recording: Recording, start: Start) -> int:
    """The number of the first event of the recording as it is to which this program answers otherwise; 0: none."""
    steps = _steps(recording, start.number)
    for number, (step, now) in enumerate(replay_on(start.engine(), steps), start=start.number + 1):
        if step.said is not None and _signature(instructions_of(step.said.text), str) != _signature(now, str):
            return number
    return 0


def _names(
    recording: Recording, start: Start, state: State | None, words: Words, keys: Keys
) -> tuple[set[str], set[str]]:
    """All names, and those of them that are kept."""
    found: set[str] = set()
    renaming = collecting(found, keys, KEPT, words)
    collector = _Events(renaming, keys)
    collector.header(recording.header)
    if state is not None:
        state.collect(renaming)
    for step in _steps(recording, start.number):
        collector.event(step.event)
    if state is None:
        return found, set()
    fixed = state.fixed(found)
    state.collect_rest(found)
    state.check_bytes(found)
    return found, fixed


class _Writing:
    """Writes lines, and looks for names that are left in them."""

    def __init__(self, file: NewFile, numbers: Mapping[str, str], keys: Keys) -> None:
        self._file = file
        names = {name for name, number in numbers.items() if name != number and not keys.is_word(name)}
        self._names = {name.encode() for name in names | keys.domains() if len(name) >= _SHORTEST}
        self.left: set[bytes] = set()

    def write(self, line: bytes) -> bytes:
        self._file.write(line)
        self.left.update(self._names.intersection(_WORDS.findall(line)))
        return line


def _write(
    recording: Recording,
    start: Start,
    state: State | None,
    events: _Events,
    numbers: dict[str, str],
    file: NewFile,
) -> Anonymized:
    header = msgspec.structs.replace(events.header(recording.header), segment=1, first=start.number + 1, gap="")
    writing, writer = _Writing(file, numbers, events.keys), LineWriter()
    if state is None or start.head is None:
        engine = Start(header, None).engine()
    else:
        file.write(head_of(start.head))
        # `State.lines` renames once; the engine is made of the very lines that are written.
        engine = engine_of(map(writing.write, state.lines(events.renaming, numbers)), start.head)
    file.write(writer.header(header))
    different: list[str] = []
    decisions, number = 0, start.number
    for number, step in enumerate(_steps(recording, start.number), start=start.number + 1):
        renamed = Step(step.at, events.event(step.event), number)
        for _, instructions in replay_on(engine, [renamed]):
            writing.write(writer.event(number, step.at, renamed.event, instructions))
            now = _signature(instructions, str)
            decisions += sum(map(is_decision, instructions))
            was = now if step.said is None else _signature(instructions_of(step.said.text), numbers_or_same(numbers))
            if was != now:
                different.append(f"event {number}: {_told(was)} became {_told(now)} without names")
    file.write(writer.end(number))
    left = sorted(name.decode() for name in writing.left)
    return Anonymized(number - start.number, decisions, different, left, 0)


def _steps(recording: Recording, after: int) -> Iterator[Step]:
    held = Held(recording.name, recording.most_mib)
    for item in recording.steps(after):
        if isinstance(item, Gap):
            raise RecordingError(f"{recording.name}: events {item.first} to {item.last} are missing: {item.why}")
        yield held.take(item)


def numbers_or_same(numbers: Any) -> Any:
    return lambda text: numbers.get(text, text)


class _Events:
    """Puts other names into headers and events."""

    def __init__(self, renaming: Renaming, keys: Keys) -> None:
        self._renaming = self.renaming = renaming
        self.keys = keys

    def header(self, header: Header) -> Header:
        return msgspec.structs.replace(
            header,
            waggle=FORMAT,
            settings=self._renaming.values(header.settings),
            policy=renamed_policy(header.policy, self._renaming),
            # A plug-in has the keys that it reads in constants.
            constants={name: value for name, value in header.constants.items() if not self._reveals(value)},
            recording="anonymous",
            masked=(),
            fields=header.fields or fields_of_records(),
        )

    def _reveals(self, value: object) -> bool:
        return isinstance(value, str) and any(each in value for each in self.keys.telling())

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
                return SuggestedNodes(map(self._renaming.identity, value))
            case Outcome():
                return msgspec.structs.replace(value, detail="")  # what the API server wrote
            case Reason():
                return Reason(value.code, tuple((key, self._param(text)) for key, text in value.params))
            case str() if name in _NAMES:
                return self._renaming.identity(value)
            case tuple() if name == "candidates":
                return tuple(map(self._candidate, value))
            case dict() if name == "settings":
                return self._renaming.values(value)
        return value

    def _candidate(self, each: Candidate) -> Candidate:
        victims = tuple(map(self._renaming.identity, each.victims))
        return Candidate(self._renaming.identity(each.node), victims, each.pdb_violations)

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


def _why_different(made: Anonymized) -> list[str]:
    if made.named:
        return [
            f"{len(made.different):,} of {made.events:,} events have other answers: this program decides otherwise "
            f"with the names, too, first at event {made.named} (`waggle replay` shows it)",
            "the new recording has the answers of this program, not the recorded ones",
        ]
    share = f"{len(made.different):,} of {made.events:,} events have other answers without the names"
    return [f"{share}: the algorithm uses more of a name than its place in the order, or a name is part of a text"]


def as_text(made: Anonymized, out: Path) -> str:
    """What to tell the user."""
    lines = [f"{out}: {made.events:,} events, {made.bytes:,} bytes"]
    if made.different:
        lines += _why_different(made)
        lines += made.different[:_MOST]
        lines += [f"and {len(made.different) - _MOST} more"] if len(made.different) > _MOST else []
    else:
        lines.append(f"{made.decisions:,} decisions are the same, apart from names")
    if made.different and made.read and not made.named:
        keys = ", ".join(made.read[:_SHOWN])
        lines.append(f"the program names keys that were replaced: {keys}; --keep-key KEY keeps one, and shows it")
    if made.kept:
        few = ", ".join(made.kept[:_SHOWN])
        more = f" and {len(made.kept) - _SHOWN} more" if len(made.kept) > _SHOWN else ""
        lines.append(f"kept, since they are words of the program, too: {few}{more}")
    if made.left:
        lines.append(f"check it before you give it away: these names are still in it: {', '.join(made.left[:_SHOWN])}")
    return "\n".join(lines)
