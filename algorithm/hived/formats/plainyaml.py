"""Reads YAML and keeps scalars as they were written: the field decides whether 08 is an address or a number.

A number, truth value or date of YAML becomes `Plain`, a null becomes None, a quoted text becomes str.

Anyone may write annotations, and libyaml builds nested values on the C stack: 100,000 opening brackets would end the
process. So a text with deep nesting or aliases is measured first, without building any value.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import yaml

#: How deep values may be nested, and how many there may be once aliases are followed.
MAX_DEPTH = 100
MAX_VALUES = 1_000_000
#: Characters that end a line or separate values.
_PARTS = "\n\r\x85\u2028\u2029,"

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Plain(str):
    """An unquoted scalar that YAML reads as a number, truth value or date."""

    __slots__ = ()


class _Loader(_Base):  # type: ignore[misc]
    pass


def _plain(loader: Any, node: Any) -> Plain:
    return Plain(loader.construct_scalar(node))


def _text_of_binary(loader: Any, node: Any) -> str:
    """Decode a binary scalar as Go's YAML does. Raises ValueError if it is not a text."""
    return base64.b64decode("".join(loader.construct_scalar(node).split()), validate=True).decode()


_Loader.add_constructor("tag:yaml.org,2002:binary", _text_of_binary)
for _tag in ("int", "float", "bool", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _plain)
# YAML 1.1 has the former, and Go's YAML reads the latter as numbers; PyYAML does neither.
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
_OTHER_NUMBERS = re.compile(r"[-+]?0(?:[0-9_]+|[xX][0-9a-fA-F_]+|[bB][01_]+|[oO][0-7_]+)$", re.ASCII)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _OTHER_NUMBERS, list("-+0"))

#: Numbers with a base, octal numbers, and decimal ones; short enough to be read quickly.
_BASED = re.compile(r"[-+]?0[xXbBoO][0-9a-fA-F_]{1,64}", re.ASCII)
_OCTAL = re.compile(r"[-+]?0[0-7_]{1,30}", re.ASCII)
_DECIMAL = re.compile(r"[-+]?[0-9][0-9_]{0,30}(?:\.0*)?", re.ASCII)


def whole_number(text: str) -> int | None:
    """The number that Go's yaml.v2 reads; None if it is no whole number. 010 is octal; 08 cannot be, and is 8."""
    digits = text.replace("_", "")
    try:
        if _BASED.fullmatch(text):
            return int(digits, 0)
        if _OCTAL.fullmatch(text):
            return int(digits, 8)
        return int(digits.partition(".")[0]) if _DECIMAL.fullmatch(text) else None
    except ValueError:
        return None


def load(text: str, *, longest: int | None = None, most_parts: int | None = None) -> Any:
    """Read mappings, lists, texts and None. Raises ValueError, with the line, if the text is no YAML.

    `longest` is how many characters are read at all, `most_parts` how many lines and commas: each value has one or the
    other, and 16,384 characters of the shortest values take 50 ms to read.
    """
    if longest is not None and len(text) > longest:
        raise ValueError(f"longer than {longest} characters")
    if most_parts is not None and sum(map(text.count, _PARTS)) > most_parts:
        raise ValueError(f"more than {most_parts} lines and commas")
    try:
        if _may_be_deep(text) or "*" in text:
            _measure(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"not YAML: {getattr(error, 'problem', None) or error}{line}") from error


def _may_be_deep(text: str) -> bool:
    """Whether it may be nested deeply: each level needs a bracket or a column of indentation."""
    return text.count("[") + text.count("{") + max(map(len, text.split("\n"))) > MAX_DEPTH


def _measure(text: str) -> None:
    """Raises ValueError if it is nested too deeply, or too large. Reads events one by one and keeps no value."""
    #: For each open value: its anchor, and the number of values in it.
    open_: list[tuple[str | None, int]] = [(None, 0)]
    anchored: dict[str, int] = {}
    for event in yaml.parse(text, Loader=_Loader):
        number = 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, 1))
            if len(open_) > MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, number = open_.pop()
        elif isinstance(event, yaml.ScalarEvent):
            anchor = event.anchor
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchored:
                raise ValueError(f"the alias {str(event.anchor)[:40]} stands for nothing, or for itself")
            anchor, number = None, anchored[event.anchor]
        else:
            continue
        if anchor is not None:
            anchored[anchor] = number
        outer, inside = open_[-1]
        if inside + number > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values, aliases followed")
        open_[-1] = (outer, inside + number)
