"""What a body is asked with and what it answers: needs, outcomes, verdicts, reasons; and the limits of a run.

All records are immutable. Ids are any hashable values with a total order: strings, tuples, named tuples.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

#: How many ids a text names before it says how many more there are.
NAMED = 10
#: How many ids of a cycle a reason gives.
LONGEST_PATH = 64
#: How long a text of an exception or of a body may become, characters.
LONGEST_TEXT = 500


class Ordered(Hashable, Protocol):
    """A hashable value with a total order."""

    def __lt__(self, other: Any, /) -> bool: ...


Id = TypeVar("Id", bound=Ordered)


class Want(StrEnum):
    """What a node needs of an id."""

    #: It exists: it has arrived, and is not gone.
    EXISTS = "exists"
    #: It exists and is ready. Data that never got a status is ready as soon as it exists.
    READY = "ready"
    #: Its content has changed at least `generation` times (its first arrival counts).
    CONTENT = "content"


class Status(StrEnum):
    """The status of an id."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


class Need(msgspec.Struct, Generic[Id], frozen=True, gc=False):
    """What a node waits for. `optional`: it is waived if the id turns out to be absent, and only then.

    `generation` counts only for `Want.CONTENT`.
    """

    id: Id
    want: Want = Want.READY
    generation: int = 0
    optional: bool = False


class Verdict(StrEnum):
    """What the engine decides of a need when nothing runs and nothing can run. A verdict beats later news."""

    #: The id is absent and the need optional: go on without it.
    WAIVED = "waived"
    #: What else the node waits for cannot come in time: another need has failed. Only the failed ones are told.
    FAILED = "failed"
    #: The id does not exist.
    ABSENT = "absent"
    #: The id exists, but nothing is left that could make it ready.
    UNREADY = "unready"
    #: The id waits, in the end, for the node itself.
    CYCLE = "cycle"


class Code(StrEnum):
    """Why a node has failed."""

    #: Its body said so.
    FAILED = "Failed"
    #: Its body raised.
    RAISED = "Raised"
    #: Something that it needs does not exist.
    NOT_FOUND = "NotFound"
    #: Something that it needs has failed.
    DEPENDENCY_FAILED = "DependencyFailed"
    #: Something that it needs exists, but never becomes ready.
    NOT_READY = "NotReady"
    #: It waits for itself.
    CYCLE = "Cycle"
    #: Its body said that it is blocked, but not on what.
    NO_BLOCKER = "NoBlocker"
    #: Its body said, again and again, that it is blocked on what has already ended.
    STUCK = "Stuck"
    #: It was run again more often than the limits allow.
    DIVERGED = "Diverged"
    #: The run was to end, its body did not, and was interrupted.
    INTERRUPTED = "Interrupted"
    #: As above, but its body goes on: its thread still runs. Whatever it reports or returns is ignored.
    ABANDONED = "Abandoned"


class Reason(msgspec.Struct, Generic[Id], frozen=True):
    """Why a node has failed: one code with its evidence."""

    code: Code
    text: str = ""
    #: The needs at fault, sorted.
    because: tuple[Id, ...] = ()
    #: Where the failure comes from in the end, sorted; the first `Limits.roots` of them.
    root: tuple[Id, ...] = ()
    #: The text of the first root's reason.
    root_text: str = ""
    #: Of a cycle: its ids, each waiting for the next; the last one is the first one again (of more than
    #: `LONGEST_PATH` ids only so many are given).
    path: tuple[Id, ...] = ()


class Done(msgspec.Struct, Generic[Id], frozen=True):
    """The node has ended.

    `status`: READY or FAILED; PENDING if somebody else reports it with `Engine.status`. `sweep`: the node selects its
    inputs and cannot name them: it is run again when nothing else can run, if anything has arrived since.
    """

    status: Status = Status.READY
    reason: Reason[Id] | None = None
    sweep: bool = False

    @classmethod
    def failed(cls, text: str, *, because: Iterable[Id] = (), sweep: bool = False) -> Done[Id]:
        """The node has failed. It is run again if one of `because` becomes ready later."""
        at_fault = tuple(sorted(set(because)))
        code = Code.DEPENDENCY_FAILED if at_fault else Code.FAILED
        return cls(Status.FAILED, Reason(code, text[:LONGEST_TEXT], at_fault), sweep)


class Blocked(msgspec.Struct, Generic[Id], frozen=True):
    """The node cannot continue before all `needs` are met. A plain body starts over then; a coroutine continues."""

    needs: tuple[Need[Id], ...]


Outcome = Done[Id] | Blocked[Id]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a run. What exceeds one says so; nothing runs for ever."""

    #: How often one node may be run again because its content changed, a failed need recovered, a met need was lost,
    #: or a sweep of it brought news. One more ends the run. What a node waits for costs nothing.
    redispatches: int = 32
    #: How often one id may be dispatched in all, whatever the causes, free ones included. What exceeds it never rests:
    #: it is always blocked on something new, or is woken by what its own dispatches change. One more ends the run.
    dispatches: int = 100_000
    #: How many nodes there may be at once. One more ends the run.
    nodes: int = 1_000_000
    #: How often a node may be blocked on what has ended, with nothing changed in between.
    retries: int = 2
    #: How many root causes a reason keeps.
    roots: int = 10
    #: How often `at_rest` may report news.
    rests: int = 10_000_000


def named(ids: Iterable[Any]) -> str:
    """Return the ids as a list for a text, the first `NAMED` of them."""
    every = list(ids)
    shown = ", ".join(str(each) for each in every[:NAMED])
    return shown if len(every) <= NAMED else f"{shown} and {len(every) - NAMED} more"
