"""Who waits on which keys, so that nothing polls and no wake-up is lost.

    look(keys) --> ticket --> (nothing for me there) --> park(waiter, ticket) --> True: asleep until touch(key)
         ^                                                       |
         +-------------- False: a key was touched meanwhile -----+

The danger is the gap between looking and parking: what happens in it would wake nobody. A ticket therefore says *when*
it was looked, in generations, and `park` refuses it if any of its keys was touched since.

What is promised: a parked waiter is returned by the very next `touch` of any of its keys, once, and until then no key
of its ticket has been touched since the look. Waiters are woken in the order in which they parked.

Memory is bounded although touches of keys that nobody waits on have to be remembered (a ticket may be out on them):
there is one counter for all keys; the last touch is kept for the `remembered` keys touched last; of all others it is
known that they were not touched after the generation `_forgotten`. A ticket from before it might have missed a touch
that was forgotten, so it is refused: a waiter may be asked to look once more for nothing, but sleeps through nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ticket:
    """What was looked at, and when: the generation at that time."""

    keys: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class _Parking:
    keys: tuple[str, ...]
    order: int
    generation: int


class WaitIndex:
    """See the module's text. Waiters and keys are texts that mean something to the caller only."""

    def __init__(self, *, remembered: int = 10_000) -> None:
        if remembered < 1:
            raise ValueError(f"remembered: expected at least 1 key, got {remembered}")
        self._remembered = remembered
        self._generation = 0
        #: No touch that is missing in _touched is younger than this.
        self._forgotten = 0
        #: The generation of a key's last touch; the key touched last stands last.
        self._touched: dict[str, int] = {}
        self._parked: dict[str, _Parking] = {}
        #: Every key of every parking, with those who wait on it; no empty sets.
        self._waiters: dict[str, set[str]] = {}
        self._parkings = 0

    def look(self, keys: Iterable[str]) -> Ticket:
        """A ticket for parking on `keys`: take it *before* looking at what the keys stand for."""
        return Ticket(tuple(dict.fromkeys(keys)), self._generation)

    def park(self, waiter: str, ticket: Ticket) -> bool:
        """Lets the waiter sleep until one of the ticket's keys is touched; an older parking of it is replaced.

        False if one of them was touched since the look: then the waiter is not parked (any more) and must look again.
        Raises ValueError for a ticket without keys, which nothing could ever wake.
        """
        if not ticket.keys:
            raise ValueError(f"ticket: expected at least one key for {waiter!r} to wait on")
        self.drop(waiter)
        if any(self._touched.get(key, self._forgotten) > ticket.generation for key in ticket.keys):
            return False
        self._parkings += 1
        self._parked[waiter] = _Parking(ticket.keys, self._parkings, ticket.generation)
        for key in ticket.keys:
            self._waiters.setdefault(key, set()).add(waiter)
        return True

    def touch(self, *keys: str) -> list[str]:
        """Something about `keys` changed: whoever waits on one of them is unparked and returned, in parking order."""
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
        """The waiter waits no more, and nothing will wake it. False if it was not parked."""
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
        """Everyone who is parked, in parking order."""
        return list(self._parked)

    def keys_of(self, waiter: str) -> tuple[str, ...]:
        """What the waiter is parked on, () if it is not."""
        parking = self._parked.get(waiter)
        return parking.keys if parking else ()

    def validate(self) -> None:
        """Re-derives the index and the promise. Raises AssertionError with what differs."""
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
