"""The engine protocol: all that the loop which runs an engine relies on.

    event, now  -->  Engine.handle  -->  instructions: answers to callers, commands for the I/O layers

An engine is sans-I/O: no socket, no sleep, no lock, no clock. One thread at a time calls it. The same events at the
same times give the same instructions, so that a recorded run can be replayed. `server.loop.EngineLoop` owns what an
engine must not have: lock, timer, fence, recording, dispatch.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

EventT_contra = TypeVar("EventT_contra", contravariant=True)
InstructionT = TypeVar("InstructionT")


class Engine(Protocol[EventT_contra, InstructionT]):
    """One engine. Times are seconds of a monotonic clock."""

    @property
    def sequence(self) -> int:
        """How many events it has handled: the number of the last one."""
        ...

    @property
    def term(self) -> int | None:
        """The term in which the engine decides; None outside any term, 0 without leader election."""
        ...

    def handle(self, event: EventT_contra, now: float) -> list[InstructionT]:
        """Return the instructions that this event causes.

        An exception is a bug of the engine: the loop stops it and asks for a restart of the process.
        """
        ...

    def next_due(self) -> float | None:
        """When the engine next has work to do without an event, seconds; None if no timer is set.

        The loop asks after every event, and so does a replay: asking may tidy up timers.
        """
        ...

    def missing(self) -> str:
        """Why requests cannot be served now; "" if they can."""
        ...

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError that names the violation."""
        ...
