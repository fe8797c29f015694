"""An index of waiters by the keys that they wait on, so that nothing polls and no wake-up is lost.

    look(keys) --> ticket --> (nothing for me there) --> park(waiter, ticket) --> True: asleep until touch(key)
         ^                                                       |
         +-------------- False: a key was touched meanwhile -----+

The danger is the gap between looking and parking: a touch in that gap would wake no waiter. A ticket therefore records
the generation of the look, and `park` refuses the ticket if any of its keys was touched since.

Promise: the very next `touch` of any of its keys returns a parked waiter, once; until then no key of its ticket has
been touched since the look. Waiters are woken in the order in which they parked.

Touches of keys without waiters have to be remembered, since a ticket may exist for them. Memory is bounded all the
same: all keys share one generation counter, and only the `remembered` keys that were touched last keep their last
touch. All other keys were not touched after generation `_forgotten`. A ticket older than `_forgotten` may have missed a
touch that was dropped, so it is refused. A waiter may thus look once too often, but it never misses a touch.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from algorithm.tables import Table


class Ticket(msgspec.Struct, frozen=True):
    """The keys that were looked at, and the generation at that time."""

    keys: tuple[str, ...]
    generation: int


class _Parking(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]
    order: int
    generation: int


class WaitIndex:
    """See the module docstring. Waiters and keys are strings that only the caller interprets."""

    def __init__(self, *, remembered: int = 10_000) -> None:
        if remembered < 1:
            raise ValueError(f"remembered: expected at least 1 key, got {remembered}")
        self._remembered = remembered
        self._generation = 0
        #: Keys that are not in _touched were not touched after this generation.
        self._forgotten = 0
        #: The generation of each key's last touch; the key touched last is the last one.
        self._touched: Table[str, int] = Table()
        self._parked: Table[str, _Parking] = Table()
        #: The parked waiters by key; no empty sets.
        self._waiters: dict[str, set[str]] = {}
        self._parkings = 0

    def restore_waiters(self) -> None:
        """Make the index of waiters by key from the parked ones, in a copy."""
        self._waiters = {}
        for waiter, parking in self._parked.items():
            for key in parking.keys:
                self._waiters.setdefault(key, set()).add(waiter)

    def look(self, keys: Iterable[str]) -> Ticket:
        """Return a ticket for parking on `keys`. Take it *before* looking at the state that the keys stand for."""
        return Ticket(tuple(dict.fromkeys(keys)), self._generation)

    def park(self, waiter: str, ticket: Ticket) -> bool:
        """Park the waiter until one of the ticket's keys is touched. An older parking of the waiter is replaced.

        False if one of the keys was touched since the look: then the waiter is not parked (any more) and must look
        again. Raises ValueError for a ticket without keys, since no touch could ever wake its waiter.
        """
        if not ticket.keys:
            raise ValueError(f"ticket: expected at least one key for {waiter!r} to wait on")
        self.drop(waiter)
        for key in ticket.keys:
            if self._touched.get(key, self._forgotten) > ticket.generation:
                return False
        self._parkings += 1
        self._parked[waiter] = _Parking(ticket.keys, self._parkings, ticket.generation)
        for key in ticket.keys:
            self._waiters.setdefault(key, set()).add(waiter)
        return True

    def touch(self, *keys: str) -> list[str]:
        """The state behind `keys` changed: unpark all waiters on these keys, and return them in parking order."""
        self._generation += 1
        woken: set[str] = set()
        for key in keys:
            self._remember(key)
            woken |= self._waiters.get(key, set())
        ordered = sorted(woken, key=lambda waiter: self._parked[waiter].order)
        for waiter in ordered:
            self.drop(waiter)
        return ordered

    def _remember(self, key: str) -> None:
        self._touched.pop(key, None)
        self._touched[key] = self._generation
        if len(self._touched) > self._remembered:
            oldest = next(iter(self._touched))
            self._forgotten = self._touched.pop(oldest)

    def drop(self, waiter: str) -> bool:
        """Unpark the waiter without waking it. False if it was not parked."""
        parking = self._parked.pop(waiter, None)
        if parking is None:
            return False
        for key in parking.keys:
            waiters = self._waiters[key]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[key]
        return True

    def waiting(self) -> list[str]:
        """All parked waiters, in parking order."""
        return list(self._parked)

    def keys_of(self, waiter: str) -> tuple[str, ...]:
        """The keys that the waiter is parked on; () if it is not parked."""
        parking = self._parked.get(waiter)
        return parking.keys if parking else ()

    def validate(self) -> None:
        """Derive the index and the promise again. Raises AssertionError that names the difference."""
        waiters: dict[str, set[str]] = {}
        for waiter, parking in self._parked.items():
            for key in parking.keys:
                waiters.setdefault(key, set()).add(waiter)
                touched = self._touched.get(key, 0)
                assert touched <= parking.generation, f"{waiter} sleeps through a touch of {key}"
        assert waiters == self._waiters, f"index {self._waiters}, parked {waiters}"
        orders = [parking.order for parking in self._parked.values()]
        assert orders == sorted(orders), f"not in parking order: {orders}"
        assert len(self._touched) <= self._remembered, f"{len(self._touched)} keys remembered"
        last = list(self._touched.values())
        assert last == sorted(last), f"touched keys out of order: {last}"
        assert all(self._forgotten <= touched <= self._generation for touched in last), "generations out of range"
