"""Prints a failing program as a test that can be pasted into a file, and fails by itself."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import msgspec

from algorithm.conformance.calls import Ask, Call, Faulty, Linger, Protect, Submit
from algorithm.conformance.calls import Lapse as _Lapse
from algorithm.conformance.results import Result
from algorithm.interface import Phase
from algorithm.model import Node, Pod, Taint

#: Longer calls have a line for each argument.
_WIDTH = 100


def as_test(result: Result, plugin: str, settings: dict[str, object] | None, world: str = "") -> str:
    """The test, "" if the failure has no calls."""
    if not result.calls:
        return ""
    lines = [_line(call) for call in result.calls]
    body = "\n".join(f"    life.{line}" for line in lines)
    more = (f", world={world!r}" if world else "") + (f", look={result.look!r}" if result.look != "always" else "")
    names = _imports("\n".join(lines))
    return (
        f"from algorithm.conformance.replayed import life_of\n{names}\n\n"
        f"def test_{result.check.replace('-', '_')}() -> None:\n"
        f"    # {result.text[:300]}\n"
        f"    life = life_of({plugin!r}, {settings!r}, check={result.check!r}{more})\n"
        f"{body}\n    life.end()\n"
    )


def _imports(text: str) -> str:
    wanted = [
        ("algorithm.conformance.calls", ("AddNode", "FoundBound", "Submit", "Update", "UpdateNode")),
        ("algorithm.interface", ("Phase",)),
        ("algorithm.model", ("Node", "Pod", "Taint")),
    ]
    lines = []
    for module, names in wanted:
        used = [name for name in names if re.search(rf"\b{name}\b[.(]", text)]
        if used:
            lines.append(f"from {module} import {', '.join(used)}\n")
    return "".join(lines)


def _line(call: Call) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(call).__name__).lower()
    match call:
        case Submit(pods=values):
            given: list[Any] = list(values)
        case Protect(uids=uids) | Linger(uids=uids) | _Lapse(uids=uids):
            given = list(uids)
        case Ask(uid=uid, nodes=nodes, phase=phase):
            given = [uid, list(nodes), *([] if phase is Phase.FILTERING else [phase])]
        case Faulty(change=change, field=field, after=after):
            given = [change, field, after]
        case _:
            given = [getattr(call, each) for each in call.__struct_fields__]
    texts = list(map(literal, given))
    line = f"{name}({', '.join(texts)})"
    if len(line) <= _WIDTH or not texts:
        return line
    inner = "".join(f"        {text},\n" for text in texts)
    return f"{name}(\n{inner}    )"


def literal(value: Any) -> str:
    """A value as Python has it: a record with those fields alone that are not as by default."""
    if isinstance(value, Phase):
        return f"Phase.{value.name}"
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, msgspec.Struct):
        kind = type(value)
        is_record = kind in (Node, Pod, Taint)
        fields = [each for each in msgspec.structs.fields(kind) if getattr(value, each.name) != each.default]
        texts = [literal(getattr(value, each.name)) for each in fields]
        named = [f"{each.name}={text}" if is_record else text for each, text in zip(fields, texts, strict=True)]
        return f"{kind.__name__}({', '.join(named)})"
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)
