"""Bounds the memory that all connections together may hold: for incomplete bodies, and for answers not yet taken.

A limit for each request does not bound their sum. So everything that waits in memory for a peer has a holder, which
reports its size. If the sum exceeds the limit, the client (an address) that holds the most must give something up: the
oldest of its large holders (64 KiB and more), or else the oldest of all. So small requests pass, however many large
ones are left unfinished; and a large one passes, however many other clients, or the same client before, leave
unfinished: a valid body is complete milliseconds after its first byte.

One server has one pair of budgets, found by `budgets_of(app)`. Only the thread of its event loop uses them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple, Protocol

from extender.server.views import Metric

_MIB: Final = 1 << 20
#: Bytes from which on a holder is large.
_LARGE: Final = 64 * 1024


class Holder(Protocol):
    """Something that holds memory for a peer. The budget sets `held`, which is 0 at first."""

    held: int

    @property
    def client(self) -> str:
        """The address of the peer. It does not change."""

    def give_up(self) -> None:
        """Drop what is held, and tell the peer. The budget counts it as dropped, and it must not hold more."""


class _Share:
    """The holders of one client. Both kinds by age, the oldest first."""

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
    """A limit of `limit` bytes for all holders together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        #: The most that was held since this was last reset.
        self.peak = 0
        #: Number of holders that had to give up.
        self.given_up = 0
        self._shares: dict[str, _Share] = {}

    def hold(self, holder: Holder, size: int) -> None:
        """Set the size of `holder` to `size` bytes, 0 if it has ended. It or other holders may be made to give up."""
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
    """The two budgets. `bodies`: of incomplete requests. `answers`: what peers have not taken yet."""

    bodies: Budget
    answers: Budget

    @classmethod
    def for_bodies_of(cls, max_body: int) -> Budgets:
        """Room for three bodies of the largest size, 96 MiB at least, and as much for answers."""
        limit = max(96 * _MIB, 3 * max_body)
        return cls(Budget(limit), Budget(limit))

    def metrics(self) -> list[Metric]:
        """Metrics for a scrape. May be called from any thread."""
        waiting = [({"what": name}, float(budget.used)) for name, budget in self._asdict().items()]
        given_up = [({"what": name}, float(budget.given_up)) for name, budget in self._asdict().items()]
        return [
            Metric("waggle_http_waiting_bytes", "gauge", "Bytes that wait in memory for clients.", waiting),
            Metric("waggle_http_given_up_total", "counter", "What was dropped because all had too much.", given_up),
        ]


def budgets_of(app: Any) -> Budgets:
    """The budgets of an ASGI app if it has some, else new ones."""
    found = getattr(app, "budgets", None)
    return found if isinstance(found, Budgets) else Budgets.for_bodies_of(0)
