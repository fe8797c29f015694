"""How much memory all connections together may hold: for bodies that are not complete, and for answers not yet taken.

A limit for each request does not bound their sum. So everything that waits in memory for a peer has a holder, and says
how much it holds. Where the sum is over the limit, the client (an address) that holds the most gives something up: of
its large holders (64 KiB and more) the oldest, or else the oldest of all. So small requests pass, however many large
ones are left unfinished, and a large one passes, however many somebody else leaves unfinished, or the same client
before it: a valid body is complete milliseconds after its first byte.

One server has one pair of budgets, found by `budgets_of(app)`. Used by the thread of its event loop only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple, Protocol

from extender.server.views import Metric

_MIB: Final = 1 << 20
#: Bytes from which on a holder is large.
_LARGE: Final = 64 * 1024


class Holder(Protocol):
    """What holds memory for a peer. `held` is set by the budget, and is 0 at first."""

    held: int

    @property
    def client(self) -> str:
        """The address of the peer. It does not change."""

    def give_up(self) -> None:
        """Drop what is held, and tell the peer. The budget counts it as dropped, and it must not hold more."""


class _Share:
    """What one client holds. Both kinds by age, the oldest first."""

    def __init__(self) -> None:
        self.used = 0
        self.small: OrderedDict[Holder, None] = OrderedDict()
        self.large: OrderedDict[Holder, None] = OrderedDict()

    def hold(self, holder: Holder, size: int) -> None:
        before, holder.held = holder.held, size
        self.used += size - before
        if size >= _LARGE:
            self.small.pop(holder, None)
            self.large[holder] = None
        elif size:
            self.large.pop(holder, None)
            self.small[holder] = None
        elif before:
            self.small.pop(holder, None)
            self.large.pop(holder, None)


class Budget:
    """At most `limit` bytes for all holders together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        #: The most that was held since somebody set it back.
        self.peak = 0
        #: How many had to give up.
        self.given_up = 0
        self._shares: dict[str, _Share] = {}

    def hold(self, holder: Holder, size: int) -> None:
        """`holder` has `size` bytes now, 0 if it has ended. Others, or itself, may be made to give up."""
        if not size and not holder.held:
            return
        self.used += size - holder.held
        share = self._shares.get(holder.client)
        if share is None:
            share = self._shares[holder.client] = _Share()
        share.hold(holder, size)
        if not share.used:
            del self._shares[holder.client]
        while self.used > self.limit:
            self._make_room()
        self.peak = max(self.peak, self.used)

    def _make_room(self) -> None:
        share = max(self._shares.values(), key=_used)
        holder = next(iter(share.large or share.small))
        self.hold(holder, 0)
        self.given_up += 1
        holder.give_up()


def _used(share: _Share) -> int:
    return share.used


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
