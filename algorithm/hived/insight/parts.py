"""Parts of pages about cells. A part is written again only if a cell in it has changed.

So a look at a quiet cluster costs one sum of versions for each part. A part is written while nothing can be decided:
the number of its devices bounds how long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from algorithm.hived.cells.cells import Cell

C = TypeVar("C", bound=Cell)


class Part:
    """`write` returns the text of the part, which depends on nothing but the trees of these cells."""

    __slots__ = ("_text", "_tops", "_version", "_write")

    def __init__(self, write: Callable[[], bytes], cells: Iterable[Cell] = ()) -> None:
        self._write, self._tops = write, tuple(dict.fromkeys(cell.top for cell in cells))
        self._version, self._text = -1, b""

    def text(self) -> bytes:
        version = 0
        for top in self._tops:
            version += top.version  # none ever shrinks
        if version != self._version:
            self._version, self._text = version, self._write()
        return self._text


def slices(cells: Iterable[C], devices: int) -> Iterator[list[C]]:
    """The cells in the same order, so many devices at a time; a larger cell by itself."""
    some: list[C] = []
    number = 0
    for cell in cells:
        if some and number + cell.leafs > devices:
            yield some
            some, number = [], 0
        some.append(cell)
        number += cell.leafs
    if some:
        yield some
