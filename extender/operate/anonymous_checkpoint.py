"""The names in a checkpoint: the state of an engine, in which an algorithm may have put them anywhere.

    records of pods and nodes     as in events: field by field (`plan/reading/renaming.py`)
    names of an offer             each is one
    any other text                a word of the program stays; a known name, or an annotation of a record, becomes what
                                  it becomes there; of all else, each word becomes a number

So what is left is what the program itself may have written: texts in the source of the engine and of the algorithm,
fields of records that name nothing, and amounts. All else is taken for a name, also that of a pod that has no record
any more.

A name that is a word of the program, too, such as a namespace `spread`, cannot be told from it. It is kept everywhere,
and `State.fixed` returns it.
"""

from __future__ import annotations

import ast
import base64
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from algorithm.model import Node, Pod
from algorithm.registry import available
from extender.plan.reading.keys import Keys
from extender.plan.reading.numbering import numbers_between
from extender.plan.reading.renaming import Renaming
from extender.recording.checkpoint import CheckpointHead, kinds_of, state_lines
from extender.recording.graph.kinds import RECORDS, Line
from extender.recording.lines import Lines
from extender.recording.masks import MASK
from extender.recording.records import Header, RecordingError

#: Words that name nothing of anybody. A namespace `default` is a name as any other: what is kept stands between others.
KEPT = frozenset({"", "true", "false"})
#: What is between the words of a text.
_WORD = re.compile(r"""[^\s/,;:'"()\[\]{}=<>|`]+""")
_ENDS = ".!?-"
#: Names that are shorter may stand in any bytes.
_SHORTEST = 5
#: Amounts, perhaps with a unit, and times: no names.
_AMOUNT = re.compile(r"[+\-]?[0-9][0-9.,_]*[A-Za-z%]{0,3}|[.\-+#*]+", re.ASCII)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+\-][0-9:]+)", re.ASCII)
#: Rows of a checkpoint in which no text is anybody's, or none that may be changed.
_OTHERS = frozenset({"int", "float", "complex", "range", "builtin", "method", "enum", "random", "secret", "class"})
_OTHERS |= {"function", "bytes"}

#: Rows of objects with named fields, and fields that name something.
_FIELDS = frozenset({"named", "struct", "object", "container"})
_NAMES = frozenset({"namespace", "name", "uid", "node", "node_name", "preemptor", "gang", "group"})

_lines = msgspec.json.Decoder(Line)


class Words:
    """The words of the program: `texts` stand in its source as they are, `words` anywhere in it."""

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.texts: set[str] = {MASK}
        self.words: set[str] = set(words_of(MASK))
        for name in modules:
            try:
                tree = ast.parse(inspect.getsource(sys.modules[name]))
            except (OSError, TypeError, SyntaxError):
                continue  # without its source, its words are taken for names; the replay says whether that matters
            self._read(tree)

    def __contains__(self, text: object) -> bool:
        return text in self.texts or text in self.words

    def learn(self, values: Any, *, also_words: bool = False) -> None:
        """Add all texts in these values that are not marked as names, and their words if they may stand elsewhere."""
        texts = {leaf for leaf in _leaves(values) if "\0" not in leaf}
        self.texts.update(texts)
        if also_words:
            self.words.update(word for text in texts for word in words_of(text))

    def _read(self, tree: ast.Module) -> None:
        said = {id(found) for each in ast.walk(tree) if (found := _docstring(each)) is not None}
        for each in ast.walk(tree):
            match each:
                case ast.Constant(value=str(text)) if id(each) not in said:
                    self.texts.add(text)
                    self.words.update(words_of(text))
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.ClassDef(name=name):
                    self.words.update((name, _camel(name)))


def words_of_program(algorithm: str, header: Header, keys: Keys) -> Words:
    """Return those of the engine, of this algorithm, and of the recorded settings, as far as they name nothing."""
    made = Words()
    known = _words(algorithm)
    made.texts, made.words = {*known.texts, algorithm}, {*known.words}
    marking = Renaming(lambda text: f"\0{text}", lambda _: False, keys, KEPT)
    made.learn([marking.values(header.settings), renamed_policy(header.policy, marking)])
    return made


def renamed_policy(policy: dict[str, Any], renaming: Renaming) -> dict[str, Any]:
    """Return the recorded policy with other keys of annotations: that of managed pods, and those of claims."""
    found = dict(policy)
    if isinstance(annotation := policy.get("annotation"), str) and annotation:
        found["annotation"] = renaming.key(annotation)
    if isinstance(claims := policy.get("claims"), list):
        found["claims"] = [renaming.key(each) if isinstance(each, str) else each for each in claims]
    return found


@cache
def _words(algorithm: str) -> Words:
    return Words(_modules(algorithm))


def _modules(algorithm: str) -> list[str]:
    """The loaded modules of the engine and of this algorithm, but not of others."""
    kinds, point = kinds_of(algorithm), available().get(algorithm)
    own = f"{point.module}." if point is not None else ""
    return [
        name
        for name in sorted(sys.modules)
        if kinds.has(name) and (not name.startswith("algorithm.") or name.count(".") == 1 or name.startswith(own))
    ]


def _docstring(node: ast.AST) -> ast.AST | None:
    """The constant that only explains: examples of names stand in it."""
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    return first.value if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def words_of(text: str) -> list[str]:
    """Return the words of a text, without what ends a sentence."""
    return [word for found in _WORD.findall(text) if (word := found.strip(_ENDS))]


class State:
    """The state in one checkpoint, as rows that have not been made into objects. Raises RecordingError or OSError."""

    def __init__(self, path: Path, algorithm: str, words: Words, keys: Keys) -> None:
        self._path = path
        self._lines: list[Line] = []
        self._all_kinds: list[list[Any]] = []
        self._records: list[tuple[list[Any], Pod | Node]] = []
        self._words, self._keys = words, keys
        self._known = kinds_of(algorithm)
        with Lines(path) as lines:
            next(lines, None)
            for text in state_lines(lines):
                try:
                    line = _lines.decode(text)
                    self._lines.append(line)
                    self._records += [(row, _record(row)) for row in line.objects if row[:1] == ["record"]]
                except (msgspec.DecodeError, KeyError, TypeError, IndexError, UnicodeDecodeError) as error:
                    raise lines.wrong(f"no part of a checkpoint: {error}") from error

    @property
    def _kinds(self) -> list[list[Any]]:
        if not self._all_kinds:
            self._all_kinds = [kind for line in self._lines for kind in line.kinds]
        return self._all_kinds

    def _rows(self) -> Iterator[list[Any]]:
        for line in self._lines:
            yield from line.objects

    # -- finding ------------------------------------------------------------------------------------------------------

    def collect(self, collector: Renaming) -> None:
        """Let it meet the names in records and offers."""
        for _, record in self._records:
            _renamed(record, collector)
        for row in self._rows():
            if row[0] == "nodes":
                for name in row[1:]:
                    collector.identity(name)
            elif row[0] in _FIELDS:
                for field, value in zip(self._fields_of(row), row[2:], strict=False):
                    if field in _NAMES and isinstance(value, str) and _AMOUNT.fullmatch(value):
                        collector.identity(value)  # it looks like an amount, but here it is none

    def _fields_of(self, row: list[Any]) -> tuple[str, ...]:
        module, name, *fields = self._kinds[row[1]]
        if row[0] == "named":
            return getattr(self._known.find(module, name), "_fields", ())
        return tuple(fields)

    def fixed(self, found: set[str]) -> set[str]:
        """Return the names that are words of the program, too; `found` are all names. Learns the words of records."""
        marking = Renaming(lambda text: f"\0{text}", found.__contains__, self._keys, KEPT, self._words)
        records = msgspec.to_builtins([_renamed(record, marking) for _, record in self._records])
        self._words.learn(records, also_words=True)  # a text about `example.com/gpu` has the word `example.com`
        return found & self._words.texts

    def collect_rest(self, found: set[str]) -> None:
        """Add all words that are neither names nor words of the program."""
        for text in self._texts():
            if text not in found and text not in self._words.texts and not _TIME.fullmatch(text):
                found.update(word for word in words_of(text) if self._may_name(word))

    def _may_name(self, word: str) -> bool:
        return word not in self._words and not _AMOUNT.fullmatch(word)

    def _texts(self) -> Iterator[str]:
        for row in self._rows():
            if row[0] not in _OTHERS and row[0] not in ("record", "nodes"):
                yield from (each for each in row[1:] if isinstance(each, str))

    def check_bytes(self, found: set[str]) -> None:
        """Raise RecordingError if there are bytes with a name in them: what they mean is not known."""
        for number, row in enumerate(self._rows(), start=1):
            if row[0] == "bytes":
                text = base64.b64decode(str(row[1])).decode("latin-1")
                if name := next((word for word in words_of(text) if word in found and len(word) >= _SHORTEST), ""):
                    raise RecordingError(
                        f"{self._path}: object {number} of the algorithm's state is bytes in which the name {name!r} "
                        "stands; expected texts, since bytes cannot be anonymized"
                    )

    # -- writing ------------------------------------------------------------------------------------------------------

    def lines(self, renaming: Renaming, numbers: dict[str, str]) -> Iterator[bytes]:
        """Yield the lines with other names, and the end."""
        annotations: dict[str, str] = {}
        for row, record in self._records:
            other = _renamed(record, renaming)
            for (_, text), (_, now) in zip(record.annotations, other.annotations, strict=True):
                annotations.setdefault(text, now)
            row[2] = msgspec.to_builtins(other)
        change = self._change(annotations, numbers)
        objects = 0
        for line in self._lines:
            for row in line.objects:
                if row[0] == "nodes":
                    row[1:] = [renaming.identity(str(each)) for each in row[1:]]
                elif row[0] not in _OTHERS and row[0] != "record":
                    row[1:] = [change(each) if isinstance(each, str) else each for each in row[1:]]
            objects += len(line.objects)
            yield msgspec.json.encode(line) + b"\n"
        yield msgspec.json.encode({"objects": objects}) + b"\n"

    def _change(self, annotations: dict[str, str], numbers: dict[str, str]) -> Callable[[str], str]:
        texts = self._words.texts

        def change(text: str) -> str:
            if text in numbers:
                return numbers[text]
            if text in annotations:
                return annotations[text]
            if text in texts or _TIME.fullmatch(text):
                return text
            return _WORD.sub(lambda found: _word(found[0], numbers), text)

        return change


def _word(text: str, numbers: dict[str, str]) -> str:
    if text in numbers:
        return numbers[text]
    word = text.strip(_ENDS)
    return text.replace(word, numbers[word], 1) if word in numbers else text


def _record(row: list[Any]) -> Pod | Node:
    found: Pod | Node = msgspec.convert(row[2], type=RECORDS[row[1]])
    return found


def _renamed(record: Pod | Node, renaming: Renaming) -> Pod | Node:
    return renaming.pod(record) if isinstance(record, Pod) else renaming.node(record)


def _leaves(value: Any) -> Iterator[str]:
    """All texts in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(key)
            yield from _leaves(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _leaves(each)


def head_of(head: CheckpointHead) -> bytes:
    """Return the first line of the checkpoint without names."""
    return msgspec.json.encode(msgspec.structs.replace(head, recording="anonymous", path="")) + b"\n"


def numbered(found: set[str], fixed: set[str], words: Words, keys: Keys) -> tuple[Renaming, dict[str, str]]:
    """Return what puts numbers in place of these names but the fixed ones, and the numbers. Raises RecordingError.

    Keys that stay are fixed, too: pairs are sorted by key.
    """
    try:
        numbers = numbers_between(found, fixed | keys.stayed)
    except ValueError as error:
        raise RecordingError(f"the names cannot be replaced in their order: {error}") from error
    return Renaming(numbers.__getitem__, numbers.__contains__, keys, KEPT, words), numbers
