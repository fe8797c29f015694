"""Reads the places of a group as either scheduler writes them, line by line, without YAML.

The places of a large group are a quarter of a megabyte of YAML, which takes up to a second to parse, and anyone may
write as much on a pod. Schedulers always write them in one form, which is parsed here in a fraction of that time. A
text of another form is left to the YAML parser, and must be short.

    affinityGroupBindInfo:
    - podPlacements:
      - physicalNode: m1
        physicalLeafCellIndices:
        - 0
        preassignedCellTypes:
        - host
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_HEAD = "affinityGroupBindInfo:"
_NODE = re.compile(r"  - physicalNode: (\S+)", re.ASCII)
_INDICES = frozenset({"    physicalLeafCellIndices:", "    physicalGpuIndices:"})
_INDEX = re.compile(r"    - ([0-9]{1,10})", re.ASCII)
_TYPES = "    preassignedCellTypes:"
_TYPE = re.compile(r"    - (\S+)", re.ASCII)
#: Texts that YAML reads as they are, other than `null`; or the same in quotes.
_TEXT = re.compile(r"""([A-Za-z0-9][A-Za-z0-9._/-]*)|"([A-Za-z0-9 ._/-]*)"|'([A-Za-z0-9 ._/-]*)'""", re.ASCII)

#: Node, device numbers as they were written, types.
Line = tuple[str, list[str], list[str]]


class _OtherFormError(Exception):
    """YAML may know what it is."""


def read(text: str) -> list[list[Line]] | None:
    """The pods of each member of the group; None if the text has another form."""
    lines = iter(text.splitlines())
    if next(lines, "") != _HEAD:
        return None
    try:
        return _members(lines)
    except _OtherFormError:
        return None


def _members(lines: Iterator[str]) -> list[list[Line]]:
    found: list[list[Line]] = []
    line = next(lines, None)
    while line is not None:
        if line == "- podPlacements:":
            found.append([])
            line = next(lines, None)
            continue
        node = _NODE.fullmatch(line)
        if node is None or not found or next(lines, None) not in _INDICES:
            raise _OtherFormError
        indices, line = _taken(lines, _INDEX)
        types: list[str] = []
        if line == _TYPES:
            types, line = _taken(lines, _TYPE)
            types = [_text(each) for each in types]
        found[-1].append((_text(node[1]), indices, types))
    return found


def _taken(lines: Iterator[str], wanted: re.Pattern[str]) -> tuple[list[str], str | None]:
    """The lines that match, and the first one that does not."""
    found: list[str] = []
    for line in lines:
        match = wanted.fullmatch(line)
        if match is None:
            return found, line
        found.append(match[1])
    return found, None


def _text(written: str) -> str:
    match = _TEXT.fullmatch(written)
    if match is None or written.lower() == "null":
        raise _OtherFormError
    return match[1] or match[2] or match[3] or ""


def as_loaded(members: list[list[Line]], number: Any) -> list[dict[str, Any]]:
    """As YAML would have it; `number` makes an unquoted scalar."""
    return [
        {
            "podPlacements": [
                {
                    "physicalNode": node,
                    "physicalLeafCellIndices": [number(index) for index in indices],
                    "preassignedCellTypes": types or None,
                }
                for node, indices, types in pods
            ]
        }
        for pods in members
    ]
