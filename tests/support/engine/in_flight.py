"""What Hypothesis may let happen to the commands of an engine: answers that come, are lost or late; events that lag."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from extender.core.outcomes import Outcome, OutcomeKind

TIMED_OUT = Outcome(OutcomeKind.UNKNOWN, "time-out")
FAILURES = (
    Outcome(OutcomeKind.THROTTLED, "too many requests", retry_after=1.0),
    TIMED_OUT,
    Outcome(OutcomeKind.REJECTED, "forbidden"),
)
#: What becomes of a request. Only with the first two does the engine hear what the API server did.
_ENDINGS = ("right", "right", "arrives", "answer lost", "never arrives", "late")


class InFlightRules(RuleBasedStateMachine):
    """A machine of a test adds an `initialize` that makes `world`, and rules of its own.

    The world has the commands that were `sent`, each with its `outcome` once it has arrived; `arrive` and `answer` one;
    the `watch`, events that the engine has not heard yet; `observe` some of them, and `tell` one.
    """

    #: How requests fail without an effect.
    failures: ClassVar[tuple[Outcome, ...]] = FAILURES
    world: Any
    #: Requests that were reported as timed out, and may still arrive.
    late: list[Any]

    def may_be_late(self, sent: Any) -> bool:
        """Whether the request may arrive after it was reported as timed out."""
        raise NotImplementedError

    @precondition(lambda self: self.world.sent)
    @rule(data=st.data(), ending=st.sampled_from(_ENDINGS))
    def carry_out(self, data: st.DataObject, ending: str) -> None:
        sent = self.world.sent[data.draw(st.integers(0, len(self.world.sent) - 1))]
        if ending in ("right", "arrives", "answer lost") and sent.outcome is None:
            self.world.arrive(sent)
        if ending == "right":
            self.world.answer(sent)
        elif ending == "answer lost":
            self.world.answer(sent, TIMED_OUT)
        elif ending != "arrives" and sent.outcome is None:
            self.world.answer(sent, TIMED_OUT if ending == "late" else data.draw(st.sampled_from(self.failures)))
            if ending == "late" and self.may_be_late(sent):
                self.late.append(type(sent)(sent.command))

    @precondition(lambda self: self.late)
    @rule()
    def late_write_arrives(self) -> None:
        self.world.arrive(self.late.pop(0))

    @rule(number=st.integers(1, 5))
    def observe(self, number: int) -> None:
        self.world.observe(number)

    @precondition(lambda self: self.world.watch)
    @rule()
    def an_event_is_doubled(self) -> None:
        self.world.tell(self.world.watch[0])
