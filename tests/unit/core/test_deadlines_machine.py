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
        #: Time and order of setting.
        self.expected: dict[int, tuple[float, int]] = {}
        self.settings = 0

    def in_order(self, now: float) -> list[int]:
        return sorted((key for key, (at, _) in self.expected.items() if at <= now), key=lambda key: self.expected[key])

    @rule(key=KEYS, at=TIMES, times=st.integers(1, 40))
    def set(self, key: int, at: float, times: int) -> None:
        for _ in range(times):
            self.deadlines.set(key, at)
        self.settings += 1
        self.expected[key] = at, self.settings
        if at == float("inf"):
            del self.expected[key]

    @rule(key=KEYS)
    def discard(self, key: int) -> None:
        self.deadlines.discard(key)
        self.expected.pop(key, None)

    @rule(now=TIMES)
    def pop(self, now: float) -> None:
        due = self.in_order(now)
        assert self.deadlines.pop(now) == (due[0] if due else None)
        if due:
            del self.expected[due[0]]

    @rule()
    def clear(self) -> None:
        self.deadlines.clear()
        self.expected.clear()

    @rule(now=TIMES)
    def due(self, now: float) -> None:
        assert self.deadlines.due(now) == self.in_order(now)

    @invariant()
    def agrees(self) -> None:
        assert set(self.deadlines) == set(self.expected)
        assert self.deadlines.first() == min((at for at, _ in self.expected.values()), default=None)
        assert all(self.deadlines.get(key) == at for key, (at, _) in self.expected.items())
        self.deadlines.validate()


TestDeadlines = DeadlinesMachine.TestCase
