"""Deadlines against a naive oracle: a dict that is sorted at every question."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from extender.core.deadlines import Deadlines

KEYS = st.integers(0, 8)
TIMES = st.one_of(st.integers(0, 12).map(float), st.just(float("inf")))


class DeadlinesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.deadlines: Deadlines[int] = Deadlines()
        self.expected: dict[int, float] = {}

    def times(self, now: float) -> list[float]:
        return sorted(at for at in self.expected.values() if at <= now)

    @rule(key=KEYS, at=TIMES, times=st.integers(1, 40))
    def set(self, key: int, at: float, times: int) -> None:
        for _ in range(times):
            self.deadlines.set(key, at)
        self.expected[key] = at
        if at == float("inf"):
            del self.expected[key]

    @rule(key=KEYS)
    def discard(self, key: int) -> None:
        self.deadlines.discard(key)
        self.expected.pop(key, None)

    @rule(now=TIMES)
    def pop(self, now: float) -> None:
        key = self.deadlines.pop(now)
        if key is None:
            assert not self.times(now)
        else:
            assert self.expected.pop(key) <= min(self.times(float("inf")), default=float("inf"))

    @rule(now=TIMES)
    def due(self, now: float) -> None:
        found = self.deadlines.due(now)
        assert [self.expected[key] for key in found] == self.times(now)
        assert len(set(found)) == len(found)
        assert self.deadlines.due(now) == found

    @invariant()
    def agrees(self) -> None:
        assert {key: self.deadlines.get(key) for key in self.deadlines} == self.expected
        assert self.deadlines.first() == min(self.expected.values(), default=None)
        self.deadlines.validate()


TestDeadlines = DeadlinesMachine.TestCase
