"""A column of `kubectl get`: a name, how the cell is made, and whether only `-o wide` has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

#: Makes a cell from an object and the time now (Unix seconds).
Cell = Callable[[dict[str, Any], float], Any]


class Column(NamedTuple):
    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"
    #: Empty: the name says it.
    description: str = ""
    format: str = ""
