"""The names of the nodes that kube-scheduler offers for a pod: thousands, of which most decisions read a few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, overload

#: This many lookups cost less than making a set of 5,000 names; so many do if the names have not been read.
_FEW_QUESTIONS, _FEW_SEARCHES = 3, 16


class SuggestedNodes(Sequence[str]):
    """The names of the offered nodes: an immutable sequence with a cheap `in`.

    The order is the caller's and means nothing (kube-scheduler rotates it). Sort the names if the order matters to you.
    kube-scheduler may offer only a sample of the nodes that would fit, only one node (a trial), or unknown nodes.
    """

    __slots__ = ("_asked", "_count", "_found", "_listed", "_read", "_search", "_set", "text")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._listed: tuple[str, ...] | None = tuple(names)
        self._count = len(self._listed)
        self._search: Callable[[object], bool] = self._listed.__contains__
        self._read: Callable[[], Iterable[str]] = tuple
        self._set: frozenset[str] | None = None
        #: The JSON array in which the names came, without line breaks; "" if they came in another form. Read only.
        self.text = b""
        self._asked = 0
        #: The name that was found last: the node that is chosen is asked about again.
        self._found: object = None

    @classmethod
    def unread(
        cls, count: int, search: Callable[[object], bool], read: Callable[[], Iterable[str]], text: bytes = b""
    ) -> Self:
        """So many names that are read only if somebody needs them: to make 5,000 texts takes longer than to find a
        place. `search` says whether a name is among them. `text` is the JSON array that is read: equal ones have equal
        names."""
        made = cls()
        made.text = text
        made._listed, made._count, made._search, made._read = None, count, search, read
        made._asked = _FEW_QUESTIONS - _FEW_SEARCHES
        return made

    @property
    def _names(self) -> tuple[str, ...]:
        if self._listed is None:
            self._listed = tuple(self._read())
        return self._listed

    def __contains__(self, name: object) -> bool:
        if self._found is not None and name == self._found:
            return True
        # Most callers ask once or twice, about a likely node: comparing texts is then cheaper than hashing all of them.
        self._asked += 1
        found = self._search(name) if self._set is None and self._asked <= _FEW_QUESTIONS else name in self.as_set()
        if found:
            self._found = name
        return found

    def as_set(self) -> frozenset[str]:
        """The names as a set, made at the first call and kept: hashing 5,000 names costs a quarter millisecond."""
        if self._set is None:
            self._set = frozenset(self._names)
        return self._set

    def bare(self) -> SuggestedNodes:
        """The same offer without what was found out about it: names that can be read again, and their set. For those
        who keep it: 500 names take 60 KB, and new memory for each call makes the next ones slower."""
        return SuggestedNodes.unread(self._count, self._search, self._read, self.text) if self.text else self

    @property
    def known_set(self) -> frozenset[str] | None:
        """The set if it was made already, else None: for what is worth its while only then."""
        return self._set

    def are(self, names: frozenset[str]) -> bool:
        """Whether exactly these names are offered. Then `as_set` is this very object from now on, so that the next
        comparison with it need not look at a single name."""
        if self._set is names:
            return True
        if not names.issuperset(self._names[:_FEW_QUESTIONS]):  # another sample: seen without looking at all of them
            return False
        if self._count == len(names):
            if names.difference(self._names):  # if nothing is left, each was offered once; no set of them is made
                return False
        elif self._count < len(names) or self.as_set() != names:
            return False
        self._set = names
        return True

    def is_same_offer(self, other: SuggestedNodes) -> bool:
        """Whether these are the same names in the same order. Bytes are compared if neither was read, names if both
        were; otherwise it is False without a look."""
        if self.text and other.text:
            return self.text == other.text
        return self._listed is not None and other._listed is not None and self._listed == other._listed

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._names[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SuggestedNodes) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(self._names[:5]) + (", ..." if len(self._names) > 5 else "")
        return f"SuggestedNodes({len(self)}: {shown})"
