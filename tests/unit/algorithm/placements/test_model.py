"""The sums that `SetState` keeps, against sums derived anew, under any changes in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from algorithm.placements.model import SetState

KEYS = st.sampled_from(["ns/a", "ns/b", "ns/c"])
COUNTS = st.dictionaries(st.integers(0, 4), st.integers(0, 5), max_size=4)


class SetMachine(RuleBasedStateMachine):
    @initialize(seeded=st.booleans())
    def start(self, seeded):
        self.state = SetState(capacity=10, seeded=seeded)

    @rule(key=KEYS, wanted=st.integers(0, 20), committed=COUNTS)
    def put(self, key, wanted, committed):
        self.state.put(key, wanted, committed)

    @rule(key=KEYS)
    def remove(self, key):
        self.state.remove(key)

    @rule(key=KEYS, counts=st.none() | COUNTS)
    def reserve(self, key, counts):
        if key in self.state.vpods:
            self.state.reserve(key, counts)

    @rule(ordinal=st.integers(0, 4), usable=st.booleans(), zone=st.sampled_from(["", "a", "b"]))
    def pod(self, ordinal, usable, zone):
        self.state.set_usable(ordinal, usable)
        self.state.set_zone(ordinal, zone)

    @invariant()
    def sums_are_right(self):
        if hasattr(self, "state"):
            self.state.validate()


TestSet = SetMachine.TestCase
TestSet.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_move_takes_room_on_both_pods_until_it_is_seen():
    state = SetState(capacity=10)
    state.put("ns/a", 3, {0: 3})
    state.reserve("ns/a", {1: 3})
    assert state.held == {0: 3, 1: 3}

    state.put("ns/a", 3, {1: 3})
    assert state.held == {1: 3}


def test_without_seeding_only_reservations_count():
    state = SetState(capacity=10, seeded=False)
    state.put("ns/a", 3, {0: 3})
    assert state.held == {}

    state.reserve("ns/a", {1: 3})
    assert state.held == {1: 3}


def test_a_vpod_that_is_not_known_can_be_removed():
    SetState(capacity=1).remove("ns/a")
