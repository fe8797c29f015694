"""Lets clients take turns: items that wait, by client, one of each client after the other.

    add(client, item) --> behind the client's other items --> pop(): the client whose turn is longest ago; its oldest

Promises: an item waits at most once for its client; adding it again keeps its place. Every operation costs the same for
any number of clients and items. A client without items leaves nothing behind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Rounds(Generic[K, T]):
    """Waiting items, by client."""

    def __init__(self) -> None:
        # Inside, an ordered set: it keeps the order, and finds out quickly whether an item waits already.
        self._of: OrderedDict[K, OrderedDict[T, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, client: K, item: T) -> None:
        """Put an item behind the others of its client."""
        self._of.setdefault(client, OrderedDict())[item] = None

    def discard(self, client: K, item: T) -> None:
        """Take an item out, if it waits."""
        theirs = self._of.get(client)
        if theirs is not None:
            theirs.pop(item, None)
            if not theirs:
                del self._of[client]

    def pop(self) -> T:
        """Take out the oldest item of the client whose turn it is. Raises KeyError if there is none."""
        client, theirs = self._of.popitem(last=False)
        item, _ = theirs.popitem(last=False)
        if theirs:
            self._of[client] = theirs
        return item

    def of(self, client: K) -> Collection[T]:
        """The items of this client, the oldest first."""
        return self._of.get(client, {}).keys()
