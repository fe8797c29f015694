"""The throttle against rules that need no cleverness: any requests, any answers, any time between them."""

from __future__ import annotations

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.kube.writes.throttle import InFlight, Signal, Throttle

#: Binary fractions, so that equal durations are equal.
TICK = 1 / 128
seconds = st.integers(0, 5000).map(lambda ticks: ticks * TICK)


class Throttles(RuleBasedStateMachine):
    @initialize(bounds=st.tuples(st.integers(1, 40), st.integers(1, 40)).map(sorted))
    def begin(self, bounds: list[int]) -> None:
        self.least, self.most = bounds
        self.throttle = Throttle(least=self.least, most=self.most)
        self.now = 0.0
        self.flying: list[InFlight] = []
        self.silent_until = 0.0

    @rule(passed=seconds)
    def time_passes(self, passed: float) -> None:
        self.now += passed

    @rule(kind=st.sampled_from(["bind", "read"]), number=st.integers(1, 50))
    def some_start(self, kind: str, number: int) -> None:
        for _ in range(number):
            if self.throttle.wait(self.now) > 0:
                return
            assert self.now >= self.silent_until, "started while the server wanted to be left alone"
            assert len(self.flying) < self.throttle.limit, "started more than the limit"
            self.flying.append(self.throttle.start(kind, self.now))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), signal=st.sampled_from(Signal), retry_after=seconds)
    def one_ends(self, data: st.DataObject, signal: Signal, retry_after: float) -> None:
        flight = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        self._end(flight, signal, retry_after)

    @precondition(lambda self: self.flying)
    @rule(signal=st.sampled_from(Signal))
    def all_end(self, signal: Signal) -> None:
        """Grows or shrinks by what one round trip may change."""
        before = self.throttle.limit
        number = len(self.flying)
        while self.flying:
            self._end(self.flying.pop(), signal, 1.0)
        assert before // 2 <= self.throttle.limit <= before + number
        if signal in (Signal.NONE, Signal.REFUSED):
            assert self.throttle.limit == before

    def _end(self, flight: InFlight, signal: Signal, retry_after: float) -> None:
        flight.signal, flight.retry_after = signal, retry_after
        self.throttle.finish(flight, self.now)
        if signal is Signal.THROTTLED:
            self.silent_until = max(self.silent_until, self.now + retry_after)

    @rule()
    def nothing_but_429_brings_it_to_its_least(self) -> None:
        for _ in range(math.ceil(math.log2(self.most)) + 1):
            self._round(Signal.THROTTLED, retry_after=0.5)
        assert self.throttle.limit == self.least

    @rule()
    def nothing_but_success_brings_it_to_its_most(self) -> None:
        """However often it has failed: each try beyond what is known takes at most a minute, and less the more hold."""
        for _ in range(80 + self.most):
            self._round(Signal.DONE, took=TICK)
            self.now += 5.0
        assert self.throttle.limit == self.most

    def _round(self, signal: Signal, *, took: float = 0.0, retry_after: float = 0.0) -> None:
        """All that flies ends, then as many as may be start and end."""
        while self.flying:
            self._end(self.flying.pop(), Signal.NONE, 0.0)
        self.now = max(self.now, self.silent_until) + TICK
        while self.throttle.wait(self.now) == 0:
            self.flying.append(self.throttle.start("bind", self.now))
        self.now += took
        while self.flying:
            self._end(self.flying.pop(), signal, retry_after)

    @invariant()
    def holds_what_it_promises(self) -> None:
        if not hasattr(self, "throttle"):
            return
        assert self.least <= self.throttle.limit <= self.most
        assert self.throttle.in_flight == len(self.flying)
        assert self.throttle.paused(self.now) == max(0.0, self.silent_until - self.now)


TestThrottles = Throttles.TestCase
TestThrottles.settings = settings(max_examples=30, stateful_step_count=20, deadline=None, derandomize=True)
