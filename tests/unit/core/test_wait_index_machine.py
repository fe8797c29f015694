"""Any interleaving of look, park and touch by several waiters: no wake-up is lost, none is invented.

The oracle keeps the whole history of touches. A ticket is the history's length at the look; whether something was
touched since is read off the history.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from extender.core.wait_index import WaitIndex
from tests.support.examples import few

KEYS = ["k1", "k2", "k3", "k4", "k5"]
WAITERS = ["w1", "w2", "w3"]

some_keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)
waiters = st.sampled_from(WAITERS)


class WakeMachine(RuleBasedStateMachine):
    remembered = 100

    def __init__(self):
        super().__init__()
        self.wake = WaitIndex(remembered=self.remembered)
        self.history = []
        #: waiter -> (ticket, its keys, length of the history at the look): looked, perhaps not parked yet.
        self.looks = {}
        #: waiter -> its keys and look, in parking order.
        self.parked = {}

    def touched_since(self, keys, look):
        return any(set(touched) & set(keys) for touched in self.history[look:])

    @rule(waiter=waiters, keys=some_keys)
    def look(self, waiter, keys):
        self.looks[waiter] = (self.wake.look(keys), keys, len(self.history))

    @rule(waiter=waiters)
    def park(self, waiter):
        if waiter not in self.looks:
            return
        ticket, keys, look = self.looks[waiter]
        self.parked.pop(waiter, None)
        parked = self.wake.park(waiter, ticket)
        if self.touched_since(keys, look):
            assert not parked, f"{waiter} may sleep although {keys} were touched since its look"
        if not parked:
            self.check_refusal(keys, look)
        else:
            self.parked[waiter] = (keys, look)

    def check_refusal(self, keys, look):
        """As long as memory suffices, only a touch is a ground for refusing."""
        assert self.touched_since(keys, look)

    @rule(waiter=waiters, keys=some_keys)
    def look_and_park_at_once(self, waiter, keys):
        self.look(waiter, keys)
        self.park(waiter)
        assert waiter in self.parked, "nothing happened in between, and still it was refused"

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=3))
    def touch(self, keys):
        expected = [waiter for waiter, (waits_on, _) in self.parked.items() if set(waits_on) & set(keys)]
        self.history.append(keys)
        assert self.wake.touch(*keys) == expected
        for waiter in expected:
            del self.parked[waiter]

    @rule(waiter=waiters)
    def drop(self, waiter):
        assert self.wake.drop(waiter) == (self.parked.pop(waiter, None) is not None)

    @invariant()
    def nobody_sleeps_through_a_touch(self):
        for waiter, (keys, look) in self.parked.items():
            assert not self.touched_since(keys, look), f"{waiter} sleeps, but {keys} were touched since its look"

    @invariant()
    def is_what_the_oracle_says(self):
        assert self.wake.waiting() == list(self.parked)
        for waiter in WAITERS:
            keys, _ = self.parked.get(waiter, ((), 0))
            assert set(self.wake.keys_of(waiter)) == set(keys)
        self.wake.validate()


class ForgetfulWakeMachine(WakeMachine):
    """With room for two keys only: it may refuse more than it needs to, but never less."""

    remembered = 2

    def check_refusal(self, keys, look):
        distinct = {key for touched in self.history[look:] for key in touched}
        assert self.touched_since(keys, look) or len(distinct) >= self.remembered


_SETTINGS = few(100, 40)
TestWakeMachine = WakeMachine.TestCase
TestWakeMachine.settings = _SETTINGS
TestForgetfulWakeMachine = ForgetfulWakeMachine.TestCase
TestForgetfulWakeMachine.settings = _SETTINGS


class _Sleepy(WaitIndex):
    """Forgets what happened between looking and parking: the bug that generations are there to prevent."""

    def park(self, waiter, ticket):
        return super().park(waiter, self.look(ticket.keys))


def test_the_machine_catches_a_wake_that_ignores_its_tickets():
    machine = WakeMachine()
    machine.wake = _Sleepy()
    machine.look("w1", ["k1"])
    machine.touch(["k1"])
    with pytest.raises(AssertionError, match="may sleep"):
        machine.park("w1")
