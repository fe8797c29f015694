"""How much memory all connections together may hold: for bodies that are not complete, and for answers not yet taken.

A limit for each request does not bound their sum. So all bytes that wait in memory for a peer have a holder, which
reports how many they are. If the sum is over the limit, the largest holder gives up its bytes: small requests pass,
however many large ones are left unfinished. If all are small, the oldest gives up: a valid body is complete
milliseconds after its first byte.

One server has one pair of budgets, found by `budgets_of(app)`. Used by the thread of its event loop only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple, Protocol

from extender.views import Metric

_MIB: Final = 1 << 20
#: Bytes from which on a holder is large.
_LARGE: Final = 64 * 1024


class Holder(Protocol):
    """Something that keeps bytes for a peer. The budget sets `held`, which is 0 at first."""

    held: int

    def give_up(self) -> None:
        """Drop what is held, and tell the peer. The budget counts it as dropped, and it must not hold more."""


class Budget:
    """At most `limit` bytes for all holders together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        #: How many had to give up.
        self.given_up = 0
        # Both by age, the oldest first. There are never more large ones than limit / _LARGE.
        self._small: OrderedDict[Holder, None] = OrderedDict()
        self._large: OrderedDict[Holder, None] = OrderedDict()

    def hold(self, holder: Holder, size: int) -> None:
        """`holder` has `size` bytes now, 0 if it has ended. Others, or itself, may be made to give up."""
        before, holder.held = holder.held, size
        self.used += size - before
        if size >= _LARGE:
            self._small.pop(holder, None)
            self._large[holder] = None
        elif size:
            self._large.pop(holder, None)
            self._small[holder] = None
        elif before:
            self._small.pop(holder, None)
            self._large.pop(holder, None)
        while self.used > self.limit:
            self._make_room()

    def _make_room(self) -> None:
        holder = max(self._large, key=_held) if self._large else next(iter(self._small))
        self.hold(holder, 0)
        self.given_up += 1
        holder.give_up()


def _held(holder: Holder) -> int:
    return holder.held


class Budgets(NamedTuple):
    """`bodies`: of requests that are not complete. `answers`: what peers have not taken yet."""

    bodies: Budget
    answers: Budget

    @classmethod
    def for_bodies_of(cls, max_body: int) -> Budgets:
        """Room for three bodies of the largest size, 96 MiB at least, and for as much of answers."""
        limit = max(96 * _MIB, 3 * max_body)
        return cls(Budget(limit), Budget(limit))

    def metrics(self) -> list[Metric]:
        """For a scrape. From any thread."""
        waiting = [({"what": name}, float(budget.used)) for name, budget in self._asdict().items()]
        given_up = [({"what": name}, float(budget.given_up)) for name, budget in self._asdict().items()]
        return [
            Metric("waggle_http_waiting_bytes", "gauge", "Bytes that wait in memory for clients.", waiting),
            Metric("waggle_http_given_up_total", "counter", "What was dropped because all had too much.", given_up),
        ]


def budgets_of(app: Any) -> Budgets:
    """Those of an ASGI app that has some, else new ones."""
    found = getattr(app, "budgets", None)
    return found if isinstance(found, Budgets) else Budgets.for_bodies_of(0)
