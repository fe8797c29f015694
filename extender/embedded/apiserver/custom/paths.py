"""The JSONPaths of definitions: `.spec.a`, `.list[0]`, `.list[*].a`, `.conditions[?(@.type=="Ready")].status`.

That is what printer columns are made of; kubectl's full language has ranges, unions and functions, which are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

#: From a value to those below it.
_Step = Callable[[Any], Iterator[Any]]

_PART = re.compile(
    r"\.(?P<name>(?:[^.\[\]\\]|\\.)+)"
    r"|\[(?P<index>\d+)\]"
    r"|\[(?P<all>\*)\]"
    r"|\[['\"](?P<quoted>[^'\"]+)['\"]\]"
    r"|\[\?\(@(?P<where>(?:\.[A-Za-z_][\w-]*)+)\s*==\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')\)\]"
)


class JsonPath:
    """A parsed path. Raises ValueError if it is none of the kind that is understood."""

    def __init__(self, text: str) -> None:
        self._steps: list[_Step] = []
        position = 0
        while position < len(text) or not self._steps:
            match = _PART.match(text, position)
            if match is None:
                raise ValueError(f"{text!r} from {text[position:]!r} on is not understood")
            self._steps.append(_step(match))
            position = match.end()

    def find(self, value: Any) -> list[Any]:
        """Everything at the path; empty if there is nothing."""
        found = [value]
        for step in self._steps:
            found = [each for item in found for each in step(item)]
        return found


def _step(match: re.Match[str]) -> _Step:
    if match["index"]:
        return _item(int(match["index"]))
    if match["all"]:
        return _all
    if match["where"]:
        wanted = match["double"] if match["double"] is not None else match["single"]
        return _filter(tuple(match["where"].strip(".").split(".")), wanted)
    return _field(match["quoted"] or re.sub(r"\\(.)", r"\1", match["name"]))


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and index < len(value):
            yield value[index]

    return step


def _all(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _filter(path: tuple[str, ...], wanted: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            seen = item
            for name in path:
                seen = seen.get(name) if isinstance(seen, dict) else None
            if seen == wanted:
                yield item

    return step


#: A path as the scale sub-resource takes it: names only.
_SIMPLE = re.compile(r"(\.[^.\[\]]+)+")


def names_of(path: str) -> tuple[str, ...]:
    """The names of a simple path: `.spec.replicas` is (spec, replicas). Raises ValueError if it is none."""
    if not _SIMPLE.fullmatch(path):
        raise ValueError(f"{path!r} is no simple path")
    return tuple(path[1:].split("."))
