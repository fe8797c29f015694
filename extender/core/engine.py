"""The engine protocol: what an engine gives, and all that the loop which runs it relies on.

    event, now  -->  Engine.handle  -->  instructions: answers to callers, commands for the I/O layers

An engine is sans-I/O: no socket, no sleep, no lock, no clock. It is called by one thread at a time, and the same events
at the same times give the same instructions, so that a recorded run can be replayed. `server.loop.EngineLoop` owns what
an engine must not have: lock, timer, fence, recording, dispatch.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

EventT_contra = TypeVar("EventT_contra", contravariant=True)
InstructionT = TypeVar("InstructionT")


class Engine(Protocol[EventT_contra, InstructionT]):
    """One engine. Times are seconds of a clock that never goes back."""

    @property
    def term(self) -> int | None:
        """The term in which it decides; None outside of any, 0 where no leader is elected."""
        ...

    def handle(self, event: EventT_contra, now: float) -> list[InstructionT]:
        """Return what this event causes. An exception is a bug: the loop stops the engine and asks for a restart."""
        ...

    def next_due(self) -> float | None:
        """When the engine has something to do because of time alone; None if nothing waits for time."""
        ...

    def missing(self) -> str:
        """Why requests cannot be served now; "" if they can."""
        ...

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError that names what is wrong."""
        ...
