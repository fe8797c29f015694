"""The ledger against a naive oracle: old tokens, groups, deadlines, in any order."""

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.core.ledger import HoldState, Ledger, Taken
from tests.support.examples import few

KEYS = ["a", "b", "c", "d"]
TIMED = (HoldState.HELD, HoldState.COMMITTED)

keys = st.sampled_from(KEYS)
leases = st.integers(0, 6).map(float)


class LedgerMachine(RuleBasedStateMachine):
    """The oracle is a list of dicts, one for each hold that ever was; everything is found by looking through it."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.holds = []
        self.now = 0.0

    def active(self):
        return [hold for hold in self.holds if hold["state"] in (*TIMED, HoldState.COMMITTING)]

    def find(self, token, *states):
        return next((hold for hold in self.active() if hold["token"] == token and hold["state"] in states), None)

    def add(self, key, owner, lease, group):
        self.holds.append(
            {
                "token": len(self.holds) + 1,
                "key": key,
                "owner": owner,
                "state": HoldState.HELD,
                "deadline": self.now + lease,
                "group": group,
                "since": self.now,
                "payload": f"{owner} at {self.now}",
            }
        )

    def any_token(self, data):
        """One that was given out at any time; the present ones more often."""
        recent = [hold["token"] for hold in self.active()]
        return data.draw(st.sampled_from(recent * 3 + [hold["token"] for hold in self.holds] + [0, 999]))

    # -- taking

    @rule(key=keys, owner=st.sampled_from(["x", "y"]), lease=leases)
    def acquire(self, key, owner, lease):
        taken = [hold for hold in self.active() if hold["key"] == key]
        if taken:
            with pytest.raises(Taken) as caught:
                self.ledger.acquire(key, owner, now=self.now, lease=lease)
            assert caught.value.hold.token == taken[0]["token"]
            return
        self.add(key, owner, lease, 0)
        payload = f"{owner} at {self.now}"
        assert self.ledger.acquire(key, owner, now=self.now, lease=lease, payload=payload).token == len(self.holds)

    @rule(wanted=st.lists(keys, min_size=1, unique=True), lease=leases)
    def acquire_group(self, wanted, lease):
        asked = dict.fromkeys(wanted, "gang")
        if any(hold["key"] in wanted for hold in self.active()):
            with pytest.raises(Taken):
                self.ledger.acquire_group(asked, now=self.now, lease=lease)
            return
        group = len(self.holds) + 1
        for key in wanted:
            self.add(key, "gang", lease, group)
        holds = self.ledger.acquire_group(asked, now=self.now, lease=lease, payload=f"gang at {self.now}")
        assert [hold.key for hold in holds] == wanted

    # -- steps

    def extend(self, hold, lease):
        for other in self.active():
            together = other is hold or (hold["group"] and other["group"] == hold["group"])
            if together and other["state"] is HoldState.HELD:
                other["deadline"] = self.now + lease

    def move(self, hold, state, deadline):
        if hold:
            hold.update(state=state, deadline=deadline, since=self.now)
        return hold is not None

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), lease=leases)
    def renew(self, data, lease):
        token = self.any_token(data)
        hold = self.find(token, *TIMED)
        assert self.ledger.renew(token, now=self.now, lease=lease) == (hold is not None)
        if hold and hold["state"] is HoldState.HELD:
            self.extend(hold, lease)
        elif hold:
            hold["deadline"] = self.now + lease

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def commit(self, data):
        token = self.any_token(data)
        moved = self.move(self.find(token, HoldState.HELD), HoldState.COMMITTING, math.inf)
        assert self.ledger.commit(token, now=self.now) == moved

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), lease=leases)
    def committed(self, data, lease):
        token = self.any_token(data)
        moved = self.move(self.find(token, HoldState.COMMITTING), HoldState.COMMITTED, self.now + lease)
        assert self.ledger.committed(token, now=self.now, lease=lease) == moved

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), lease=leases)
    def abort(self, data, lease):
        token = self.any_token(data)
        hold = self.find(token, HoldState.COMMITTING)
        moved = self.move(hold, HoldState.HELD, self.now + lease)
        if moved:
            self.extend(hold, lease)
        assert self.ledger.abort(token, now=self.now, lease=lease) == moved

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), end=st.sampled_from([HoldState.CONFIRMED, HoldState.RELEASED, HoldState.EXPIRED]))
    def end(self, data, end):
        token = self.any_token(data)
        call = {"confirmed": self.ledger.confirm, "released": self.ledger.release, "expired": self.ledger.expire}[end]
        allowed = TIMED if end is HoldState.EXPIRED else (*TIMED, HoldState.COMMITTING)
        hold = self.find(token, *allowed)
        if hold:
            hold["state"] = end
        assert call(token) == (hold is not None)

    @rule(seconds=st.integers(1, 4))
    def time_passes(self, seconds):
        self.now += seconds

    # -- what must hold

    @initialize(lease=leases)
    def somebody_was_here_before(self, lease):
        self.acquire("a", "x", lease)

    @invariant()
    def is_what_the_oracle_says(self):
        active = self.active()
        fields = ("token", "key", "owner", "state", "deadline", "group", "since", "payload")
        assert [{name: getattr(hold, name) for name in fields} for hold in self.ledger.active()] == active
        for key in KEYS:
            holder = self.ledger.holder(key)
            assert [hold for hold in active if hold["key"] == key] == ([] if holder is None else [vars_of(holder)])
        states = [hold["state"] for hold in self.holds]
        assert self.ledger.counts() == {state: states.count(state) for state in HoldState}
        self.ledger.validate()

    @invariant()
    def due_is_what_a_look_through_all_holds_finds(self):
        timed = [hold for hold in self.active() if hold["state"] in TIMED]
        due = sorted((hold["deadline"], hold["token"]) for hold in timed if hold["deadline"] <= self.now)
        assert [(hold.deadline, hold.token) for hold in self.ledger.due(self.now)] == due
        assert self.ledger.deadlines.first() == min((hold["deadline"] for hold in timed), default=None)


def vars_of(hold):
    return {name: getattr(hold, name) for name in type(hold).__slots__}


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = few(80, 40)
