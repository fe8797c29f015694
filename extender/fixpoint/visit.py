"""What a body may do while it runs: see its verdicts, declare needs, report news.

A body is called with a `Visit` and returns `Done` or `Blocked` (None is `Done()`). It is one of two:

* a function. If it is blocked it returns `visit.gate(needs)`, and is called again when all needs are met. It must not
  report anything before its gate is open, since it starts over.
* a coroutine function. It awaits `visit.need(...)`, and goes on from there. It awaits nothing else: the engine drives
  it, not an event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol

from extender.fixpoint.records import Blocked, Done, Id, Need, Outcome, Reason, Status, Verdict, Want
from extender.fixpoint.things import Node


class Unmet(Exception):  # noqa: N818 - it is a fact, not a fault
    """A need cannot be met. A coroutine that lets it pass fails with its reason."""

    def __init__(self, reason: Reason[Any]) -> None:
        super().__init__(reason.text)
        self.reason = reason


class Host(Protocol[Id]):
    """What a visit asks of the engine. Each call takes the lock."""

    def gate(self, node: Node[Id], needs: tuple[Need[Id], ...]) -> Outcome[Id] | None: ...
    def is_met(self, need: Need[Id]) -> bool: ...
    def content(self, key: Id) -> int: ...
    def report_arrival(self, key: Id, digest: Any, runnable: bool, by: Node[Id] | None) -> bool: ...
    def status(self, key: Id, status: Status) -> bool: ...
    def gone(self, key: Id) -> bool: ...
    @property
    def cancelled(self) -> bool: ...


class Visit(Generic[Id]):
    """One run of a body."""

    __slots__ = ("_host", "_node", "id")

    def __init__(self, host: Host[Id], node: Node[Id]) -> None:
        self._host = host
        self._node = node
        self.id = node.id

    @property
    def verdicts(self) -> Mapping[Id, Verdict]:
        """What the engine has decided of this node's needs, by id. `gate` and `need` heed it by themselves."""
        return MappingProxyType(self._node.verdicts)

    @property
    def cancelled(self) -> bool:
        """Whether the run is to end early. A body that takes long looks now and then, and returns."""
        return self._host.cancelled

    def gate(self, needs: Iterable[Need[Id]]) -> Outcome[Id] | None:
        """Return None if all needs are met or waived, else what the body should return at once.

        That is `Blocked` as long as one of them may still be met, even if others have failed; then `Done` with the
        failure, which names all failed needs and their root causes.
        """
        return self._host.gate(self._node, tuple(needs))

    def need(self, *needs: Need[Id]) -> Awaitable[None]:
        """For coroutines: wait until all needs are met or waived. Raises `Unmet` if one cannot be."""
        return _Wait(self, needs)

    def is_met(self, key: Id, want: Want = Want.READY, generation: int = 0) -> bool:
        """Whether a need would be met now. Declares nothing: a body that decides by it is not run again for it."""
        return self._host.is_met(Need(key, want, generation))

    def content(self, key: Id) -> int:
        """How often the content of the id has changed; 0 if it never arrived."""
        return self._host.content(key)

    def arrive(self, key: Id, digest: Any = None, *, runnable: bool = True) -> bool:
        """Report, as this node's work, what `Engine.arrive` reports."""
        return self._host.report_arrival(key, digest, runnable, self._node)

    def status(self, key: Id, status: Status) -> bool:
        """As `Engine.status`."""
        return self._host.status(key, status)

    def gone(self, key: Id) -> bool:
        """As `Engine.gone`."""
        return self._host.gone(key)


class _Wait(Generic[Id]):
    """What a coroutine awaits: gives the engine `Blocked` until the gate opens."""

    def __init__(self, visit: Visit[Id], needs: tuple[Need[Id], ...]) -> None:
        self._visit = visit
        self._needs = needs

    def __await__(self) -> Generator[Blocked[Id], None, None]:
        while True:
            outcome = self._visit.gate(self._needs)
            if self._visit.cancelled:
                yield Blocked(self._needs)  # and never goes on: so that a coroutine without an end can be cancelled
            if outcome is None:
                return
            if isinstance(outcome, Done):
                assert outcome.reason is not None
                raise Unmet(outcome.reason)
            yield outcome


Body = Callable[[Visit[Id]], Outcome[Id] | Awaitable[Outcome[Id] | None] | None]
