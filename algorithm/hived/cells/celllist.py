"""Lists of cells whose order decides between equals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from algorithm.hived.cells.cells import Cell
from algorithm.hived.cells.journal import Journal

C = TypeVar("C", bound=Cell)
#: The cells of a list in their order, and its journal.
Taken = tuple[list[C], Journal | None]
#: What changes a list in place, besides setting an attribute: see `tables.watched_kind`.
CHANGES = ("append", "remove", "_take_back", "_insert")


class CellList(Generic[C]):
    """An ordered set of cells whose order decides between equals.

    New ones are appended; the last one takes the place of one that is removed. That discipline is the original's, and
    recorded decisions depend on it. Everything but copying takes constant time.
    """

    __slots__ = ("_cells", "_journal", "_position")

    def __init__(self, cells: Iterable[C] = (), *, journal: Journal | None = None) -> None:
        self._journal = journal
        self._cells: list[C] = list(cells)
        self._position = {cell: index for index, cell in enumerate(self._cells)}

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[C]:
        return iter(self._cells)

    def __getitem__(self, index: int) -> C:
        return self._cells[index]

    def __contains__(self, cell: object) -> bool:
        return cell in self._position

    def append(self, cell: C) -> None:
        assert cell not in self._position, cell
        if self._journal is not None and self._journal.recording:
            self._journal.note(self._take_back)
        self._position[cell] = len(self._cells)
        self._cells.append(cell)

    def extend(self, cells: Iterable[C]) -> None:
        for cell in cells:
            self.append(cell)

    def prepend(self, cells: Iterable[C]) -> None:
        """Only for a working copy."""
        assert self._journal is None
        self._cells = [*cells, *self._cells]
        self._position = {cell: index for index, cell in enumerate(self._cells)}

    def remove(self, cell: C) -> None:
        """Raises KeyError if it is not in the list."""
        index = self._position.pop(cell)
        if self._journal is not None and self._journal.recording:
            self._journal.note(self._insert, index, cell)
        last = self._cells.pop()
        if last is not cell:
            self._cells[index] = last
            self._position[last] = index

    def _take_back(self) -> None:
        """The reverse of `append`."""
        del self._position[self._cells.pop()]

    def _insert(self, index: int, cell: C) -> None:
        """The reverse of `remove`."""
        if index < len(self._cells):
            last = self._cells[index]
            self._position[last] = len(self._cells)
            self._cells.append(last)
            self._cells[index] = cell
        else:
            self._cells.append(cell)
        self._position[cell] = index

    def clear(self) -> None:
        """Only for a working copy."""
        assert self._journal is None
        self._cells.clear()
        self._position.clear()

    def taken(self) -> Taken[C]:
        """A copy of the order, for `refill`, in a fraction of the time that `copy` takes."""
        return self._cells.copy(), self._journal

    def refill(self, cells: Iterable[C], journal: Journal | None) -> None:
        """Make an empty list, which may not even be initialised, one of these cells."""
        self._journal = journal
        self._cells = list(cells)
        self._position = dict(zip(self._cells, range(len(self._cells)), strict=True))

    def copy(self, *, journal: Journal | None = None) -> CellList[C]:
        """The same cells in the same order. Without a journal it is a working copy: nothing done to it is recorded."""
        twin: CellList[C] = CellList(journal=journal)
        twin._cells, twin._position = self._cells.copy(), self._position.copy()
        return twin
