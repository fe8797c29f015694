"""The ledger: one behaviour a test. Every test ends with validate()."""

import math

import pytest
from msgspec.structs import replace

from extender.core.ledger import HoldState, Ledger, Taken


@pytest.fixture
def ledger():
    ledger = Ledger()
    yield ledger
    ledger.validate()


def take(ledger, key="pod/a", owner="alice", *, now=0.0, lease=10.0):
    return ledger.acquire(key, owner, now=now, lease=lease).token


def in_state(ledger, state, *, lease=10.0):
    """The token of a fresh hold in `state`, which is an active one."""
    token = take(ledger, f"pod/{state}", lease=lease)
    if state is not HoldState.HELD:
        ledger.commit(token, now=0.0)
    if state is HoldState.COMMITTED:
        ledger.committed(token, now=0.0, lease=lease)
    return token


def due(ledger, now):
    return [hold.token for hold in ledger.due(now)]


ACTIVE = [HoldState.HELD, HoldState.COMMITTING, HoldState.COMMITTED]


# -- taking ----------------------------------------------------------------------------------------------------


def test_a_hold_says_who_has_what_until_when(ledger):
    hold = ledger.acquire("pod/a", "alice", now=5.0, lease=10.0)
    assert (hold.key, hold.owner, hold.state) == ("pod/a", "alice", HoldState.HELD)
    assert (hold.deadline, hold.since, hold.group) == (15.0, 5.0, 0)
    assert ledger.get(hold.token) == ledger.holder("pod/a") == hold
    assert ledger.active() == [hold]


@pytest.mark.parametrize("owner", ["bob", "alice"])
def test_a_key_that_is_held_is_taken_also_for_its_own_owner(ledger, owner):
    hold = ledger.acquire("pod/a", "alice", now=0.0, lease=10.0)
    with pytest.raises(Taken, match="pod/a is held by alice") as caught:
        ledger.acquire("pod/a", owner, now=1.0, lease=10.0)
    assert caught.value.hold == hold


@pytest.mark.parametrize("end", ["confirm", "release", "expire"])
def test_a_key_is_free_again_once_its_hold_has_ended_and_the_next_token_is_higher(ledger, end):
    first = take(ledger)
    assert getattr(ledger, end)(first)
    assert ledger.holder("pod/a") is None
    assert take(ledger, owner="bob") > first


def test_an_overdue_hold_still_holds(ledger):
    take(ledger, lease=1.0)
    with pytest.raises(Taken):
        take(ledger, owner="bob", now=100.0)


@pytest.mark.parametrize("lease", [-1.0, math.nan])
def test_a_lease_that_is_no_time_is_refused_and_nothing_is_taken(ledger, lease):
    with pytest.raises(ValueError, match="lease: expected seconds"):
        take(ledger, lease=lease)
    assert ledger.active() == []


@pytest.mark.parametrize("now", [math.inf, math.nan])
def test_a_time_that_is_none_is_refused_and_nothing_changes(ledger, now):
    token = take(ledger)
    with pytest.raises(ValueError, match="now: expected seconds"):
        ledger.renew(token, now=now, lease=1.0)
    assert ledger.get(token).deadline == 10.0


# -- the way through the states --------------------------------------------------------------------------------


def test_a_hold_is_committed_and_confirmed(ledger):
    token = take(ledger)
    assert ledger.commit(token, now=1.0)
    assert ledger.get(token).state is HoldState.COMMITTING
    assert ledger.committed(token, now=2.0, lease=30.0)
    assert ledger.get(token).state is HoldState.COMMITTED
    assert (ledger.get(token).since, ledger.get(token).deadline) == (2.0, 32.0)
    assert ledger.confirm(token)
    assert ledger.get(token) is None


def test_an_aborted_write_leaves_the_hold_as_it_was_with_a_new_deadline(ledger):
    token = take(ledger)
    ledger.commit(token, now=1.0)
    assert ledger.abort(token, now=50.0, lease=10.0)
    assert (ledger.get(token).state, ledger.get(token).deadline) == (HoldState.HELD, 60.0)


STEPS = {
    "renew": {HoldState.HELD, HoldState.COMMITTED},
    "commit": {HoldState.HELD},
    "committed": {HoldState.COMMITTING},
    "abort": {HoldState.COMMITTING},
    "confirm": {*ACTIVE},
    "release": {*ACTIVE},
    "expire": {HoldState.HELD, HoldState.COMMITTED},
}


def step(ledger, name, token):
    if name in ("confirm", "release", "expire"):
        return getattr(ledger, name)(token)
    times = {"now": 1.0} if name == "commit" else {"now": 1.0, "lease": 10.0}
    return getattr(ledger, name)(token, **times)


@pytest.mark.parametrize("state", ACTIVE)
@pytest.mark.parametrize("name", STEPS)
def test_each_step_is_allowed_in_its_states_and_changes_nothing_in_others(ledger, name, state):
    token = in_state(ledger, state)
    before = ledger.active()
    allowed = state in STEPS[name]
    assert step(ledger, name, token) is allowed
    assert (ledger.active() != before) is allowed


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("token", [-1, 0, 99])
def test_an_unknown_token_changes_nothing(ledger, name, token):
    take(ledger)
    before = ledger.active()
    assert step(ledger, name, token) is False
    assert ledger.active() == before


@pytest.mark.parametrize("name", STEPS)
def test_an_old_token_leaves_the_newer_hold_alone(ledger, name):
    old = take(ledger)
    ledger.release(old)
    newer = ledger.acquire("pod/a", "bob", now=0.0, lease=10.0)
    assert step(ledger, name, old) is False
    assert ledger.active() == [newer]


# -- groups ----------------------------------------------------------------------------------------------------


def take_group(ledger, *keys, now=0.0, lease=10.0):
    return ledger.acquire_group(dict.fromkeys(keys, "gang"), now=now, lease=lease)


def test_a_group_is_taken_in_order_with_one_deadline(ledger):
    holds = ledger.acquire_group({"b": "two", "a": "one"}, now=1.0, lease=10.0)
    assert [(hold.key, hold.owner, hold.deadline) for hold in holds] == [("b", "two", 11.0), ("a", "one", 11.0)]
    assert holds[0].group == holds[1].group != 0
    assert ledger.group(holds[0].group) == holds


def test_a_group_is_taken_wholly_or_not_at_all(ledger):
    taken = take(ledger, "b")
    with pytest.raises(Taken) as caught:
        take_group(ledger, "a", "b", "c")
    assert caught.value.hold.token == taken
    assert [hold.key for hold in ledger.active()] == ["b"]


def test_a_group_of_nothing_is_refused(ledger):
    with pytest.raises(ValueError, match="wanted: expected at least one key"):
        take_group(ledger)


def test_two_groups_do_not_mix(ledger):
    first, second = take_group(ledger, "a", "b"), take_group(ledger, "c", "d")
    ledger.renew(first[0].token, now=50.0, lease=10.0)
    assert due(ledger, 20.0) == [hold.token for hold in second]


def test_renewing_one_of_a_group_renews_all_of_it_that_is_held(ledger):
    first, second, third = take_group(ledger, "a", "b", "c")
    ledger.commit(third.token, now=1.0)
    assert ledger.renew(second.token, now=5.0, lease=10.0)
    assert [hold.deadline for hold in ledger.group(first.group)] == [15.0, 15.0, math.inf]


def test_an_aborted_write_renews_the_group_that_it_returns_to(ledger):
    first, second = take_group(ledger, "a", "b")
    ledger.commit(first.token, now=1.0)
    ledger.abort(first.token, now=5.0, lease=10.0)
    assert [hold.deadline for hold in ledger.group(second.group)] == [15.0, 15.0]


def test_a_member_that_ended_has_left_the_group(ledger):
    first, second = take_group(ledger, "a", "b")
    ledger.release(first.token)
    assert [hold.token for hold in ledger.group(second.group)] == [second.token]
    ledger.confirm(second.token)
    assert ledger.group(second.group) == ()


def test_those_that_are_alone_are_no_group(ledger):
    take(ledger)
    assert ledger.group(0) == ()


def test_renewing_a_committed_member_leaves_the_others_alone(ledger):
    first, second = take_group(ledger, "a", "b")
    ledger.commit(first.token, now=0.0)
    ledger.committed(first.token, now=0.0, lease=10.0)
    assert ledger.renew(first.token, now=10.0, lease=5.0)
    assert [ledger.get(hold.token).deadline for hold in (first, second)] == [15.0, 10.0]


# -- deadlines -------------------------------------------------------------------------------------------------


def test_holds_are_due_exactly_at_their_deadline_and_stay_due(ledger):
    token = take(ledger, lease=10.0)
    assert due(ledger, 9.999) == []
    assert due(ledger, 10.0) == [token]
    assert due(ledger, 10.0) == [token]
    assert ledger.get(token).state is HoldState.HELD


def test_holds_are_due_in_the_order_of_deadline_and_token(ledger):
    late, early, equal = (take(ledger, key, lease=lease) for key, lease in (("a", 9.0), ("b", 3.0), ("c", 9.0)))
    assert due(ledger, 20.0) == [early, late, equal]


def test_a_hold_keeps_its_payload_in_every_state(ledger):
    token = ledger.acquire("pod/a", "default/a", now=0.0, lease=10.0, payload="node-1").token
    ledger.renew(token, now=1.0, lease=10.0)
    ledger.commit(token, now=2.0)
    ledger.committed(token, now=3.0, lease=10.0)
    assert ledger.get(token).payload == "node-1"
    group = ledger.acquire_group({"a": "x", "b": "y"}, now=0.0, lease=10.0, payload="gang")
    assert [hold.payload for hold in group] == ["gang", "gang"]


def test_a_write_in_flight_is_never_due(ledger):
    token = in_state(ledger, HoldState.COMMITTING)
    assert due(ledger, 1e12) == []
    assert ledger.deadlines.first() is None
    ledger.committed(token, now=100.0, lease=10.0)
    assert due(ledger, 110.0) == [token]


def test_a_renewed_hold_is_due_once_at_its_last_deadline(ledger):
    token = take(ledger, lease=10.0)
    for now in (1.0, 2.0, 2.0):
        ledger.renew(token, now=now, lease=10.0)
    assert due(ledger, 11.9) == []
    assert due(ledger, 12.0) == [token]


def test_a_hold_that_returns_to_an_old_deadline_is_due_once(ledger):
    token = take(ledger, lease=10.0)
    ledger.renew(token, now=0.0, lease=20.0)
    ledger.renew(token, now=0.0, lease=10.0)
    assert due(ledger, 10.0) == [token]
    assert due(ledger, 30.0) == [token]


def test_a_committed_hold_under_verification_is_not_due_meanwhile(ledger):
    token = in_state(ledger, HoldState.COMMITTED, lease=10.0)
    assert due(ledger, 10.0) == [token]
    assert ledger.renew(token, now=10.0, lease=5.0)
    assert due(ledger, 14.0) == []
    assert due(ledger, 15.0) == [token]


def test_the_next_deadline_is_that_of_the_first_timed_hold(ledger):
    assert ledger.deadlines.first() is None
    first = take(ledger, "a", lease=5.0)
    take(ledger, "b", lease=7.0)
    assert ledger.deadlines.first() == 5.0
    ledger.release(first)
    assert ledger.deadlines.first() == 7.0


def test_counts_tell_the_active_now_and_the_ended_ever(ledger):
    for state in ACTIVE:
        in_state(ledger, state)
    for end in ("confirm", "release", "release"):
        getattr(ledger, end)(take(ledger))
    assert ledger.counts() == {
        HoldState.HELD: 1,
        HoldState.COMMITTING: 1,
        HoldState.COMMITTED: 1,
        HoldState.CONFIRMED: 1,
        HoldState.RELEASED: 2,
        HoldState.EXPIRED: 0,
    }


# -- proof of the proof ----------------------------------------------------------------------------------------


def _corrupt_key(ledger):
    ledger._tokens.clear()


def _corrupt_timer(ledger):
    ledger.deadlines.discard(2)


def _corrupt_group(ledger):
    ledger._groups[2].pop()


def _corrupt_deadline(ledger):
    held = ledger._holds[2]
    ledger._holds[2] = replace(held, deadline=77.0)
    ledger.deadlines.set(2, 77.0)


def _corrupt_committing(ledger):
    ledger._holds[4] = replace(ledger._holds[4], deadline=3.0)


def _corrupt_end(ledger):
    ledger._holds[1] = replace(ledger._holds[1], state=HoldState.RELEASED)


def _corrupt_token(ledger):
    ledger._last_token = 2


@pytest.mark.parametrize(
    ("corrupt", "said"),
    [
        (_corrupt_key, "keys: {}"),
        (_corrupt_timer, "will never be due"),
        (_corrupt_group, "groups: "),
        (_corrupt_deadline, "several deadlines"),
        (_corrupt_committing, "has a deadline while committing"),
        (_corrupt_end, "has ended"),
        (_corrupt_token, "unknown token"),
    ],
)
def test_validate_finds_what_is_corrupt(corrupt, said):
    ledger = Ledger()
    take(ledger)
    take_group(ledger, "b", "c")
    ledger.commit(take(ledger, "d"), now=0.0)
    ledger.validate()
    corrupt(ledger)
    with pytest.raises(AssertionError, match=said):
        ledger.validate()
