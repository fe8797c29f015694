"""Undo: tries changes on the real cells, accounts and groups, and takes them back.

A decision often needs a hypothetical hive: without a group's quota, without a preemption, after the end of a group. A
copy of a large hive takes half a second. So the hive itself is changed, and each change notes how to undo it.

    with journal.trial():             all changes made within the block are undone at its end
    with journal.recorded() as mark:  changes stay, unless `journal.roll_back(mark)` undoes them; an exception does

Promise: after a roll-back, everything that is recorded is as it was at the mark, including the order of lists and of
mappings whose order decides between equals. Blocks may be nested, and marks may be set at any time within a block. The
cost of a roll-back is that of the changes. Outside of blocks nothing is recorded: that costs one look at `recording`.

Recorded are the mutations of cells (`cells.py`), of the accounts of a chain (`chain_allocator.py`), and of groups and
the hive by `state/cluster.py` and the gentle part of `state/recovery.py`. Not recorded, and therefore never done in a
block, are changes of health and arrivals and ends of pods. Two things are meant to remain: versions of cells only grow,
because they are about what was shown; and a `NodeList` stays sorted as it was last, because the original sorts it at
every question. A roll-back only tells it which machines have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import setitem
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Journal:
    """See the module's text. Callers note a change before they make it."""

    __slots__ = ("_entries", "_saved", "recording")

    def __init__(self) -> None:
        #: Whether changes have to be noted.
        self.recording = False
        #: Each a function and its arguments; called in reverse order, they undo what was noted.
        self._entries: list[tuple[Any, ...]] = []
        #: Mappings that were saved as a whole since the last mark, by `id`.
        self._saved: set[int] = set()

    # -- noting changes ---------------------------------------------------------------------------------------

    def note(self, undo: Callable[..., object], *arguments: object) -> None:
        """The call that undoes a change. It must work if everything that was changed later has been undone."""
        if self.recording:
            self._entries.append((undo, *arguments))

    def attribute(self, thing: object, name: str) -> None:
        """The attribute is about to be set."""
        if self.recording:
            self._entries.append((setattr, thing, name, getattr(thing, name)))

    def element(self, elements: list[V], index: int) -> None:
        """The element is about to be replaced."""
        if self.recording:
            self._entries.append((setitem, elements, index, elements[index]))

    def entry(self, mapping: dict[K, V], key: K) -> None:
        """The entry is about to be set. If it is new, it is the last one."""
        if not self.recording or id(mapping) in self._saved:
            return
        if key in mapping:
            self._entries.append((setitem, mapping, key, mapping[key]))
        else:
            self._entries.append((mapping.pop, key))

    def whole(self, mapping: dict[K, V]) -> None:
        """An entry is about to be deleted from a mapping whose order counts. It is copied once for each mark.

        The mapping has to live as long as the block.
        """
        if self.recording and id(mapping) not in self._saved:
            self._saved.add(id(mapping))
            self._entries.append((_refill, mapping, mapping.copy()))

    # -- marks ------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """The present state, as something to roll back to. It is valid until the block ends or is rolled back."""
        self._saved.clear()
        return len(self._entries)

    def roll_back(self, mark: int) -> None:
        """Everything that is recorded is as it was at the mark."""
        before, self.recording = self.recording, False
        entries = self._entries
        while len(entries) > mark:
            undo, *arguments = entries.pop()
            undo(*arguments)
        self._saved.clear()
        self.recording = before

    @contextmanager
    def recorded(self) -> Iterator[int]:
        """Record the changes made within the block. Yields a mark; an exception rolls back to it."""
        is_inner, self.recording = self.recording, True
        mark = self.mark()
        try:
            yield mark
        except BaseException:
            self.roll_back(mark)
            raise
        finally:
            self.recording = is_inner
            if not is_inner:
                self._entries.clear()
                self._saved.clear()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo all changes made within the block at its end."""
        with self.recorded() as mark:
            try:
                yield
            finally:
                self.roll_back(mark)


def _refill(mapping: dict[K, V], before: dict[K, V]) -> None:
    mapping.clear()
    mapping.update(before)
