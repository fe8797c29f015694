"""Encodes events and the engine's answers as lines of a log, and decodes them.

    {"waggle": 2, "algorithm": "packing", ...}                              the header (`records.py`)
    {"number": 1, "at": 12.5, "event": "PodSeen", "data": {...}, "out": [["RequeuePod", {...}]]}
    {"number": 2, "at": 12.6, "event": "FilterRequested", "data": {"pod": {...}, "nodes": {"same": 1}}, "out": [...]}
    {"number": 3, "at": 12.7, "event": "Ticked", "data": {}}                no answer yet: the engine is still at it
    {"answer": 3, "out": []}                                                then this is its answer
    {"number": 4, "at": 12.8, "event": "Ticked", "data": {}, "failed": "KeyError: 'n1'"}          the engine failed
    {"end": 120}                                                            the server has ended, and nothing is missing
    {"end": 120, "failed": "512 MiB are full, ..."}                         the recording has, and the server went on

Instructions of more than LONGEST_OUT bytes (a reason for each of thousands of nodes) are shortened to what decides,
with the digest of the whole in "digest".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, get_args

import msgspec

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import FixedReasons, Reason
from extender.recording.constants import constants
from extender.recording.masks import Masks, is_secret
from extender.recording.names import MOST_OF_LIST, NamesError, NamesReader, NamesWriter
from extender.recording.records import FORMAT, Header, RecordingError, Said, Seconds, Step
from extender.scheduling import events
from extender.scheduling.commands import PodRead
from extender.scheduling.events import (
    DependenciesChanged,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeSeen,
    PodSeen,
    PreemptRequested,
    PrepareAlgorithm,
    PrioritizeAnswer,
    PrioritizeRequested,
    ReconfigureRequested,
)
from extender.scheduling.policy import Policy

#: Longer instructions are shortened, bytes; so many single nodes are left in them.
LONGEST_OUT, _SHOWN = 4096, 3
#: Lines of more bytes are looked at before they are decoded, and refused if they have more values than twice the
#: longest list: each takes some 60 bytes of memory, however short it is.
_LONG_LINE, _MOST_VALUES = 1 << 20, 2 * MOST_OF_LIST
_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(events.Event)}
_INSTRUCTIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(events.Instruction)}
#: The name that stands for the nodes that were left out.
_REST = "..."
_DIGEST_BYTES = 16


def header_of(
    algorithm: str,
    settings: Mapping[str, Any],
    policy: Policy,
    *,
    recording: str = "",
    release: str = "",
    epoch: float | None = None,
) -> Header:
    """Return the header of a first segment. The settings are those without secrets."""
    plain = msgspec.to_builtins(asdict(policy), enc_hook=_plain)
    kept = msgspec.to_builtins(dict(settings), enc_hook=_plain)
    return Header(
        FORMAT,
        algorithm,
        kept,
        plain,
        {name: value for name, value in constants(algorithm).items() if not _may_be_secret(name, value)},
        release=release,
        recording=recording,
        epoch=epoch,
        fields=fields_of_records(),
    )


def _may_be_secret(name: str, value: object) -> bool:
    """Return whether it is a text constant with a name like TOKEN, which may be a secret of a plug-in's author."""
    return isinstance(value, str) and is_secret(name.rpartition(".")[2])


@cache
def fields_of_records() -> dict[str, list[str]]:
    """Return the fields of each record that events consist of, by its name."""
    found: dict[str, list[str]] = {}
    rest = [msgspec.inspect.type_info(kind) for kind in _EVENTS.values()]
    while rest:
        info = rest.pop()
        if isinstance(info, msgspec.inspect.StructType) and info.cls.__name__ not in found:
            found[info.cls.__name__] = [field.name for field in info.fields]
            rest += [field.type for field in info.fields]
        for part in ("types", "item_types"):
            rest += getattr(info, part, ())
        rest += [getattr(info, part) for part in ("item_type", "key_type", "value_type") if hasattr(info, part)]
    return found


def encode_instructions(instructions: Sequence[Instruction]) -> bytes:
    """Return instructions as bytes, for comparison: each with its kind, fields in order."""
    if not instructions:
        return b"[]"
    return msgspec.json.encode([[type(item).__name__, item] for item in instructions], enc_hook=_plain)


def digest_of(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def shortened(instructions: Sequence[Instruction]) -> bytes:
    """Return long instructions with only what matters to decisions: of thousands of nodes, the first few by name."""
    return msgspec.json.encode([[type(item).__name__, _short(item)] for item in instructions], enc_hook=_plain)


def _short(item: Instruction) -> object:
    if isinstance(item, FilterAnswer) and len(item.nodes) > _SHOWN:
        return _fields(item) | {"nodes": _few(item.nodes)}
    if isinstance(item, PrioritizeAnswer) and len(item.scores) > _SHOWN:
        return {"scores": _few(item.scores)}
    text = msgspec.json.encode(item, enc_hook=_plain)
    return msgspec.Raw(text) if len(text) <= LONGEST_OUT else f"{text[:LONGEST_OUT].decode(errors='ignore')}..."


def _few(nodes: Mapping[str, Any]) -> dict[str, Any]:
    few = sorted(nodes)[:_SHOWN]
    return {name: nodes[name] for name in few} | {_REST: f"{len(nodes) - len(few)} more"}


def _fields(item: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


def _plain(value: object) -> object:
    if isinstance(value, SuggestedNodes | tuple):
        return list(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, str):
        return str(value)  # an algorithm's parser of its own file may return subclasses of str
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"cannot record a {type(value).__name__}")


# -- writing ----------------------------------------------------------------------------------------------------------


class LineWriter:
    """The lines of one segment. Not thread-safe."""

    def __init__(self, masks: Masks | None = None) -> None:
        self._masks = masks or Masks()
        self._names = NamesWriter()
        #: The long reasons of the last answer: an algorithm that returns the same object says the same (FixedReasons).
        self._last: tuple[FilterAnswer, str, bytes] | None = None

    def header(self, header: Header) -> bytes:
        return msgspec.json.encode(header, enc_hook=_plain) + b"\n"

    def event(self, number: int, at: float, event: Event, said: Sequence[Instruction] | str | None) -> bytes:
        """Return the line of an event. `said`: the engine's answer, how it failed, or None: it has not answered yet."""
        line: dict[str, Any] = {"number": number, "at": at, "event": type(event).__name__, "data": self._masked(event)}
        return msgspec.json.encode(line | self._said(said), enc_hook=self._hook) + b"\n"

    def recorded(self, step: Step) -> bytes:
        """Return the line of a step that was read from another log."""
        line: dict[str, Any] = {"number": step.number, "at": step.at}
        line |= {"event": type(step.event).__name__, "data": self._masked(step.event)}
        if (said := step.said) is not None:
            line |= {"failed": said.failed} if said.failed else {"out": msgspec.Raw(said.text)}
            line |= {"digest": said.digest} if said.digest else {}
        return msgspec.json.encode(line, enc_hook=self._hook) + b"\n"

    def answer(self, number: int, said: Sequence[Instruction] | str) -> bytes:
        """Return the line of an answer to an event whose line was written before."""
        return msgspec.json.encode({"answer": number, **self._said(said)}, enc_hook=_plain) + b"\n"

    def end(self, number: int, why: str = "") -> bytes:
        """Return the last line. `why` the recording has ended, if the server went on; older releases do not read it."""
        return msgspec.json.encode({"end": number} | ({"failed": why} if why else {})) + b"\n"

    def _said(self, said: Sequence[Instruction] | str | None) -> dict[str, Any]:
        if said is None:
            return {}
        if isinstance(said, str):
            return {"failed": said}
        if (known := self._known(said)) is not None:
            return known
        said = [self._without_secrets(item) if isinstance(item, PrepareAlgorithm) else item for item in said]
        text = encode_instructions(said)
        if len(text) <= LONGEST_OUT:
            return {"out": msgspec.Raw(text)}
        digest, short = digest_of(text), shortened(said)
        if len(said) == 1 and isinstance(said[0], FilterAnswer):
            self._last = said[0], digest, short
        return {"out": msgspec.Raw(short), "digest": digest}

    def _without_secrets(self, item: PrepareAlgorithm) -> PrepareAlgorithm:
        return msgspec.structs.replace(item, settings=self._masks.settings(item.settings))

    def _known(self, said: Sequence[Instruction]) -> dict[str, Any] | None:
        if self._last is None or len(said) != 1 or not isinstance(answer := said[0], FilterAnswer):
            return None
        last, digest, short = self._last
        if answer is not last and not (_has_same_reasons(answer, last)):
            return None
        return {"out": msgspec.Raw(short), "digest": digest}

    def _masked(self, event: Event) -> object:
        match event:
            case FilterRequested(pod=pod) | PrioritizeRequested(pod=pod) | PreemptRequested(pod=pod):
                return self._with_pod(event, pod)
            case PodSeen(pod=pod):
                return self._with_pod(event, pod)
            case PodRead(pod=pod) if pod is not None:
                return self._with_pod(event, pod)
            case NodeSeen(node=node):
                kept = self._masks.node(node)
                return event if kept is node else msgspec.structs.replace(event, node=kept)
            case ReconfigureRequested():
                return msgspec.structs.replace(event, settings=self._masks.settings(event.settings))
        return event

    def _with_pod(self, event: Any, pod: Pod) -> object:
        kept = self._masks.pod(pod)
        return event if kept is pod else msgspec.structs.replace(event, pod=kept)

    def _hook(self, value: object) -> object:
        return self._names.encode(value) if isinstance(value, SuggestedNodes) else _plain(value)


def _has_same_reasons(one: FilterAnswer, other: FilterAnswer) -> bool:
    return (
        isinstance(one.nodes, FixedReasons)
        and one.nodes is other.nodes
        and (one.node, one.reason, one.pass_through, one.error)
        == (other.node, other.reason, other.pass_through, other.error)
    )


# -- reading ----------------------------------------------------------------------------------------------------------


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """Any line but the header. `number` is 0 in early recordings."""

    at: Seconds = 0.0
    event: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")
    number: int = 0
    out: msgspec.Raw = msgspec.Raw(b"")
    digest: str = ""
    failed: str = ""
    answer: int = 0
    end: int | None = None


class Answer(msgspec.Struct, frozen=True):
    """The answer to an event that was read before."""

    number: int
    said: Said


class End(msgspec.Struct, frozen=True):
    """The server has ended, after the event of this number, or only the recording, with `why`."""

    number: int
    why: str = ""


_lines = msgspec.json.Decoder(_Line)
_answers = msgspec.json.Decoder(list[tuple[str, Any]])


class LineReader:
    """Reads the lines of one segment after its header. Pass it every line, in order."""

    def __init__(self) -> None:
        self._names = NamesReader()
        self._decoders = {name: msgspec.json.Decoder(kind, dec_hook=self._hook) for name, kind in _EVENTS.items()}

    def read(self, text: bytes) -> Step | Answer | End:
        """Return what the line says. Raises RecordingError, which says what is wrong, but not where."""
        if len(text) > _LONG_LINE and text.count(b",") > _MOST_VALUES:
            raise RecordingError(f"no event: a line of more than {_MOST_VALUES} values")
        try:
            line = _lines.decode(text)
            if line.end is not None:
                return End(line.end, line.failed)
            if line.answer:
                return Answer(line.answer, _said_of(line) or Said(b"[]"))
            decoder = self._decoders.get(line.event)
            if decoder is None:
                raise RecordingError(f"no event: {line.event!r} is none that this Waggle knows")
            event = decoder.decode(line.data)
            if isinstance(event, DependenciesChanged) and event.reason is not None:
                _check(event.reason)
            return Step(line.at, event, line.number, _said_of(line), len(text) + 1)
        except (msgspec.DecodeError, NamesError, UnicodeDecodeError, RecursionError) as error:
            raise RecordingError(f"no event: {error}") from error

    def _hook(self, kind: type, value: Any) -> Any:
        if kind is SuggestedNodes:
            return self._names.decode(value)
        raise NotImplementedError(f"cannot read a {kind.__name__}")


def _check(reason: Reason) -> None:
    try:
        _ = reason.text
    except KeyError as error:
        raise RecordingError(f"no event: the reason {reason.code} lacks the parameter {error}") from error


def instructions_of(text: bytes) -> list[Instruction]:
    """Return recorded instructions (`Said.text`), to show them: of shortened ones what is left, and none of a kind that
    this program does not know."""
    found = []
    for item in msgspec.json.decode(text):
        kind = _INSTRUCTIONS.get(item[0])
        if kind is None or not isinstance(item[1], dict):
            continue
        fields = {name: _without_rest(value) for name, value in item[1].items()}
        with contextlib.suppress(msgspec.ValidationError):
            found.append(msgspec.convert(fields, type=kind, strict=False))
    return found


def _without_rest(value: Any) -> Any:
    return {key: each for key, each in value.items() if key != _REST} if isinstance(value, dict) else value


def _said_of(line: _Line) -> Said | None:
    if line.failed:
        return Said(b"[]", failed=line.failed)
    out = bytes(line.out)
    if not out:
        return None
    # A raw value may have numbers and texts that cannot be read, which would show only when it is compared or printed.
    if out != b"[]":
        _answers.decode(out)
    return Said(out, line.digest)


def decode_header(text: bytes, name: str) -> Header:
    """Return the header. Raises RecordingError, which says what was expected."""
    try:
        found = msgspec.json.decode(text, type=_AnyFormat)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordingError(f"{name}:1: no header of a Waggle recording: {error}") from error
    if found.waggle not in (1, FORMAT):
        by = f" by release {found.release}" if found.release else ""
        raise RecordingError(
            f"{name}:1: recorded in format {found.waggle}{by}, this Waggle reads formats 1 and {FORMAT}"
        )
    try:
        return msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordingError(f"{name}:1: no header of a Waggle recording: {error}") from error


class _AnyFormat(msgspec.Struct):
    waggle: int
    release: str = ""


def unknown_fields(header: Header) -> list[str]:
    """Return the fields of recorded records that this program does not know, as `Pod.field`."""
    known = fields_of_records()
    return sorted(
        f"{kind}.{name}"
        for kind, names in header.fields.items()
        for name in names
        if name not in known.get(kind, names)
    )
