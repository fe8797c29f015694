"""YAML whose scalars stay the text that was written: 08 is an address as well as a number, whatever the field wants.

What YAML would take for a number, a truth value or a date comes as `Plain`, a null as None, a quoted text as str.

Anybody may write annotations, and libyaml builds nested values on the C stack: 100,000 opening brackets would end the
process. So what may be nested deeply, or repeats itself by aliases, is measured first, without building anything.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

#: How deep values may be nested, and how many there may be once aliases are followed.
MAX_DEPTH = 100
MAX_VALUES = 1_000_000

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Plain(str):
    """An unquoted scalar that is not just a text."""

    __slots__ = ()


class _Loader(_Base):  # type: ignore[misc]
    pass


def _plain(loader: Any, node: Any) -> Plain:
    return Plain(loader.construct_scalar(node))


for _tag in ("int", "float", "bool", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _plain)
# YAML 1.1 has these, PyYAML does not.
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


def load(text: str, *, longest: int | None = None) -> Any:
    """Mappings, lists, texts and None. Raises ValueError with the line for what is no YAML.

    `longest` is how many characters are read at all.
    """
    if longest is not None and len(text) > longest:
        raise ValueError(f"longer than {longest} characters")
    try:
        if _may_be_deep(text) or "*" in text:
            _measure(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"not YAML: {getattr(error, 'problem', None) or error}{line}") from error


def _may_be_deep(text: str) -> bool:
    """Each level of brackets needs one, and each level of indentation a column."""
    return text.count("[") + text.count("{") + max(map(len, text.split("\n"))) > MAX_DEPTH


def _measure(text: str) -> None:
    """Raises ValueError if it is nested too deeply, or too large. Events come one by one, whatever they amount to."""
    #: Of each value that has begun and not ended: its anchor, and how many values are in it.
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
