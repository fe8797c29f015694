"""YAML and JSON texts as plain values, within bounds, each document with its line.

The values are built from the parser's events, without recursion: a text of a million brackets costs a comparison and
not the stack. Aliases are followed, and each counts with all values behind it, so that a few lines of nested aliases
(a "YAML bomb") are refused before they are expanded.

Plain scalars are read as kubectl reads them (YAML 1.1 without dates and without numbers to the base of 60).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

from algorithm.registry import explain_yaml

#: Levels of nesting in one document. A CustomResourceDefinition has some forty.
MOST_DEPTH = 100
#: Values in one document, aliases followed: some eight times those of a List of 2,000 pods.
MOST_VALUES = 1_000_000
#: Values in one text, aliases followed: those of 100,000 pods that have 40 each.
MOST_IN_TEXT = 4_000_000
#: Values that merge keys (`<<`) may copy in one text.
_MOST_MERGED = 200_000
_LONGEST_NUMBER = 64

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[0-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMERIC = frozenset("0123456789+-.")
_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(_PREFIX + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge"))

# A parser in C if PyYAML has one: ten times as fast.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ValueFault(ValueError):  # noqa: N818 - a finding about somebody's file
    """The text cannot be read; the message names the line. Documents before it have been read."""


class Document(NamedTuple):
    """One document of a text: its number and its first line, both from 1, and its value."""

    number: int
    line: int
    value: Any


def read_values(text: str) -> Iterator[Document]:
    """Yield the documents of a YAML or JSON text. Raises ValueFault where it cannot go on."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{" and (found := _as_json(text)) is not None:
        yield Document(1, 1, found)
        return
    try:
        yield from _Builder().documents(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise ValueFault(explain_yaml(error, context=False)) from error
    except yaml.reader.ReaderError as error:
        raise ValueFault(f"character {error.position + 1} (#x{_code(error):04x}) may not stand in YAML") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise error if isinstance(error, ValueFault) else ValueFault(f"not readable as YAML: {error}") from error


def _as_json(text: str) -> Any:
    """Return the value of a JSON text; None if it is none, or so deep or large that it has to be read by events."""
    if text.count(",") + text.count(":") > MOST_VALUES:  # one document
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return found if isinstance(found, dict) and _depth(found) <= MOST_DEPTH else None


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= MOST_DEPTH:
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inside for each in values if isinstance(each, dict | list)]
        depth += 1
    return depth


class _Frame:
    """A mapping or list that is being built."""

    __slots__ = ("anchor", "inside", "key", "line", "merged", "size", "value")

    def __init__(self, value: Any, line: int, anchor: str | None) -> None:
        self.value, self.line, self.anchor = value, line, anchor
        self.key: str | None = None
        self.merged: list[Any] = []
        self.size = 1
        self.inside = False


class _Builder:
    """Builds values from events."""

    def __init__(self) -> None:
        self._stack: list[_Frame] = []
        #: Anchors of the document: the value, and its size with all aliases followed. None: not yet complete.
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._total = 0
        self._copied = 0

    def documents(self, events: Iterator[Any]) -> Iterator[Document]:
        """Yield each document once it is complete."""
        number, line = 0, 1
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number, line = number + 1, _line(event)
                self._anchors = {}
                self._stack = [_Frame([], line, None)]
            elif isinstance(event, yaml.DocumentEndEvent):
                values = self._stack.pop().value
                yield Document(number, line, values[0] if values else None)
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                if len(self._stack) == 1 and not self._stack[0].inside:
                    self._stack[0].inside, line = True, _line(event)
                self._take(event)

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        else:
            self._begin(event)

    def _begin(self, event: Any) -> None:
        if len(self._stack) > MOST_DEPTH:
            raise _fault(event, f"nested more than {MOST_DEPTH} levels deep")
        top = self._stack[-1]
        if isinstance(top.value, dict) and top.key is None:
            raise _fault(event, "the name of a field must be a text")
        _check_tag(event)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._anchors[event.anchor] = None
        self._stack.append(_Frame(value, _line(event), event.anchor))

    def _end(self) -> None:
        frame = self._stack.pop()
        if frame.merged:
            self._merge(frame)
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, frame.size)
        self._put(frame.value, frame.size, frame.line)

    def _merge(self, frame: _Frame) -> None:
        """Put the fields of `<<` below the mapping's own; of several mappings, the first one's count."""
        found: dict[str, Any] = {}
        for each in reversed(frame.merged):
            self._copied += len(each)
            if self._copied > _MOST_MERGED:
                raise ValueFault(f"line {frame.line}: merge keys (<<) copy more than {_MOST_MERGED} values")
            found.update(each)
        frame.value = {**found, **frame.value}

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _fault(event, f"there is no anchor &{event.anchor} above")
        known = self._anchors[event.anchor]
        if known is None:
            raise _fault(event, f"*{event.anchor} is inside of itself")
        if isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None and not isinstance(known[0], str):
            raise _fault(event, "the name of a field must be a text")
        self._put(*known, _line(event))

    def _scalar(self, event: Any) -> None:
        top = self._stack[-1]
        if isinstance(top.value, dict) and top.key is None:
            value: Any = event.value
            if value == "<<" and event.implicit[0]:
                value = "<<"
            elif value in top.value:
                raise _fault(event, f"{value[:100]}: appears twice")
        else:
            value = _resolved(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, 1, _line(event))

    def _put(self, value: Any, size: int, line: int) -> None:
        """Put a complete value where it stands."""
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            top.key = value
            return
        elif top.key == "<<":
            top.merged += _mappings(value, line)
            top.key = None
        else:
            top.value[top.key] = value
            top.key = None
        top.size += size
        if len(self._stack) == 1:
            self._total += top.size
        if top.size > MOST_VALUES:
            raise ValueFault(f"line {line}: more than {MOST_VALUES} values in one document, aliases followed")
        if self._total > MOST_IN_TEXT:
            raise ValueFault(f"line {line}: more than {MOST_IN_TEXT} values, aliases followed")


def _mappings(value: Any, line: int) -> list[Any]:
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in found):
        raise ValueFault(f"line {line}: <<: expected a mapping, or a list of mappings")
    return found


def _resolved(event: Any) -> Any:
    """Return the value of a scalar: of a quoted one the text, of a plain one as kubectl reads it."""
    tag, text = event.tag, event.value
    if tag in (None, "!"):
        return _plain(event) if event.implicit[0] and tag is None else text
    _check_tag(event)
    return text if tag == f"{_PREFIX}str" else _plain(event)


def _check_tag(event: Any) -> None:
    if event.tag not in (None, "!") and event.tag not in _TAGS:
        raise _fault(event, f"the tag {event.tag[:100]} has no meaning in a manifest")


def _plain(event: Any) -> Any:
    text = event.value
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] not in _NUMERIC:
        return text
    if len(text) <= _LONGEST_NUMBER and _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text) or _NO_NUMBER.fullmatch(text):
        value = float(text.replace("_", "").replace(".i", "i").replace(".I", "i").replace(".n", "n").replace(".N", "n"))
        if not math.isfinite(value):
            raise _fault(event, f"{text[:100]} is not a finite number")
        return value
    return text


def _integer(text: str) -> int | float | str:
    digits = text.replace("_", "")
    sign, digits = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
    base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2], 8 if digits[0] == "0" and len(digits) > 1 else 10)
    try:
        value = int(f"{sign}{digits[2:] if digits[:2] in ('0b', '0x', '0o') else digits}", base)
    except ValueError:  # 09, or nothing but underscores
        return text
    return value if -(2**63) <= value < 2**64 else float(value)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _fault(event: Any, why: str) -> ValueFault:
    return ValueFault(f"line {_line(event)}: {why}")


def _code(error: yaml.reader.ReaderError) -> int:
    return error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
