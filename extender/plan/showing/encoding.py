"""A plan as JSON and YAML, for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from extender.plan.records import Plan
from extender.plan.showing.difference import Difference

#: Texts that are texts in every version of YAML, unless they are one of the words. JSON is YAML, too: it quotes all
#: others. PyYAML would take a minute for a plan of 100,000 pods.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*", re.ASCII)
_ODD = re.compile(r"[^\n\x20-\x7e]")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def to_json(plan: Plan, compared: Difference | None = None) -> bytes:
    """Return the plan as JSON, indented, with a line break at its end. `compared` stands in its field `difference`."""
    return as_json(_data(plan, compared))


def to_yaml(plan: Plan, compared: Difference | None = None) -> str:
    """Return the same as YAML, the fields in the order of the record."""
    return "\n".join([*_fields(_data(plan, compared), ""), ""])


def as_json(data: object) -> bytes:
    """Return a record as indented JSON, in which nothing controls a terminal."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return f"{_escaped(text)}\n".encode()


def _escaped(json: str, beyond: str = "") -> str:
    """Return JSON with all characters escaped that do not show as themselves: controls, formats, odd spaces.

    `beyond` is how those outside of the first plane are written; "" for two surrogates, as in JSON.
    """
    return _ODD.sub(lambda found: found[0] if found[0].isprintable() else _number(ord(found[0]), beyond), json)


def _number(code: int, beyond: str) -> str:
    if code < 1 << 16:
        return f"\\u{code:04x}"
    if beyond:
        return beyond.format(code)
    high, low = divmod(code - (1 << 16), 1 << 10)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _data(plan: Plan, compared: Difference | None) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(plan)
    return data if compared is None else {**data, "difference": msgspec.to_builtins(compared)}


# -- YAML ----------------------------------------------------------------------------------------------------------


def _fields(data: dict[str, Any], indent: str) -> Iterator[str]:
    """Yield the lines of a mapping."""
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _fields(value, f"{indent}  ")
        elif isinstance(value, list | tuple) and value:
            yield f"{indent}{name}:"
            yield from _items(value, indent)
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _items(values: Iterable[Any], indent: str) -> Iterator[str]:
    """Yield the lines of a list, whose items are mappings, lists of scalars, or scalars."""
    for value in values:
        if isinstance(value, dict) and value:
            first, *others = _fields(value, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from others
        elif isinstance(value, list | tuple):
            yield f"{indent}- [{', '.join(_scalar(each) for each in value)}]"
        else:
            yield f"{indent}- {_scalar(value)}"


def _scalar(value: Any) -> str:
    """Return a scalar, or an empty container; a text is plain only if nothing else than a text can be meant."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _escaped(msgspec.json.encode(value).decode(), "\\U{:08x}")
