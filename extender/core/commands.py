"""Commands for the API server: what engines ask for, and how the I/O layers carry it out without knowing any of them.

    engine --> command --> CommandKind.request --> sent --> Outcome --> CommandKind.report --> event --> engine
           \\-> command --> BestEffortKind.requests --> sent, one after the other --> nothing: it may be lost

A *command* is a frozen record of an engine, as a rule a msgspec.Struct, so that a recorded run can be replayed. A
*kind* says how commands of one class become requests and how their outcome is reported. An engine lists its kinds in
one `CommandSet`. A new kind of write is one file of its engine, with the command, its request and its report, and one
entry in that list.

Requests, reports and decoding run on the committer's threads, never under the engine's lock: all functions here must be
pure, except that a BestEffortKind may remember what it wrote.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from algorithm.decoding import DecodeError
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.requests import Request

CommandT = TypeVar("CommandT")
ObjectT = TypeVar("ObjectT")
EventT_co = TypeVar("EventT_co", covariant=True)


class Write(Protocol):
    """The fields that every command has which writes and is reported. A read has only the token."""

    @property
    def token(self) -> int:
        """The hold, or whatever else the engine knows the command by. The report names it."""
        ...

    @property
    def term(self) -> int:
        """The term in which the engine decided this; nothing is sent after its end. 0 without leader election."""
        ...

    @property
    def valid_for(self) -> float:
        """Seconds for which it may wait to be sent; then it is reported as THROTTLED, and not sent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandKind(Generic[CommandT, ObjectT, EventT_co]):
    """How commands of one class are carried out and reported, each exactly once, by an event of `reported_as`.

    `report` gets the object in the response if the outcome is DONE and `decode` is given, else None. `decode` raises
    DecodeError for an object that it cannot read; the outcome is then UNKNOWN.
    """

    command: type[CommandT]
    request: Callable[[CommandT], Request]
    report: Callable[[CommandT, Outcome, ObjectT | None], EventT_co]
    reported_as: type[EventT_co]
    decode: Callable[[bytes], ObjectT] | None = None
    #: A read changes nothing: it is sent in any term and however long it has waited, and may be repeated.
    is_read: bool = False
    #: The next leader must have seen what it changed: a term is over only after its report.
    delays_handover: bool = False


class ApiCommand(Generic[EventT_co]):
    """One command on its way to the API server, for the I/O layers: all that they know of it."""

    __slots__ = ("command", "is_read", "kind", "name", "term", "valid_for")

    def __init__(self, command: Any, kind: CommandKind[Any, Any, EventT_co]) -> None:
        self.command = command
        self.kind = kind
        #: For counters and logs.
        self.name = type(command).__name__
        self.is_read = kind.is_read
        #: The term that must last while it is sent; None: a read.
        self.term: int | None = None
        #: Seconds for which it may wait to be sent.
        self.valid_for = math.inf
        if not kind.is_read:
            write: Write = command
            self.term, self.valid_for = write.term, write.valid_for

    def request(self) -> Request:
        return self.kind.request(self.command)

    def decoded(self, outcome: Outcome, body: bytes) -> tuple[Outcome, Any]:
        """Return the outcome with the object in the response, None if it is not asked for or did not come."""
        if self.kind.decode is None or outcome.kind is not OutcomeKind.DONE:
            return outcome, None
        try:
            return outcome, self.kind.decode(body)
        except DecodeError as error:
            return Outcome(OutcomeKind.UNKNOWN, f"the object cannot be read: {error}"), None

    def report(self, outcome: Outcome, obj: Any = None) -> EventT_co:
        return self.kind.report(self.command, outcome, obj)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a best-effort command is carried out, and by which process."""

    #: Seconds of a clock that never goes back.
    now: float
    #: Seconds since 1970, and the same as a text: ISO 8601 in UTC, such as "2026-11-02T10:00:00.123456+00:00".
    epoch: float
    time: str
    #: The name of this process, for people.
    sender: str


class BestEffortKind(Protocol[CommandT]):
    """How commands of one class are carried out whose outcome is not reported. They have a `term`.

    One instance serves one writer, on one thread at a time, and may remember what it wrote.
    """

    @property
    def command(self) -> type[CommandT]: ...

    @property
    def counts(self) -> Counter[str]:
        """What it did, by name, for metrics."""
        ...

    def topic(self, command: CommandT, /) -> Hashable:
        """Commands of one topic are one while they wait: the latest is carried out."""
        ...

    def requests(self, command: CommandT, times: int, moment: Moment, /) -> Generator[Request, OutcomeKind, None]:
        """Yield the requests, one after the other; each `yield` returns how its request ended.

        `times`: the number of commands that this one stands for; 0 if it was counted before. After THROTTLED nothing
        more is sent, and the command is carried out again later.
        """
        ...


class CommandSet(Generic[EventT_co]):
    """All kinds of command of one engine. The order of `best_effort` is their order of precedence.

    Raises ValueError if a command has two kinds.
    """

    def __init__(
        self,
        kinds: Iterable[CommandKind[Any, Any, EventT_co]],
        best_effort: Sequence[BestEffortKind[Any]] = (),
    ) -> None:
        self.kinds = tuple(kinds)
        self.best_effort = tuple(best_effort)
        self._by_command = {kind.command: kind for kind in self.kinds}
        commands = [*self._by_command, *(each.command for each in self.best_effort)]
        if len(set(commands)) < len(self.kinds) + len(self.best_effort):
            raise ValueError(f"expected one kind for each command: {[each.__name__ for each in commands]}")

    def find(self, command: object) -> ApiCommand[EventT_co] | None:
        """The command with its kind, ready to be carried out; None if it is not one that is reported."""
        kind = self._by_command.get(type(command))
        return None if kind is None else ApiCommand(command, kind)
