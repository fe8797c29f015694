"""Parking and waking: one behaviour a test. Every test ends with validate()."""

import pytest

from extender.core.wait_index import WaitIndex


@pytest.fixture
def wake():
    wake = WaitIndex()
    yield wake
    wake.validate()


def park(wake, waiter, *keys):
    return wake.park(waiter, wake.look(keys))


def test_a_parked_waiter_is_woken_by_its_key_once(wake):
    assert park(wake, "pod-a", "node/n1")
    assert wake.waiting() == ["pod-a"]
    assert wake.touch("node/n1") == ["pod-a"]
    assert wake.waiting() == []
    assert wake.touch("node/n1") == []


def test_any_of_its_keys_wakes_a_waiter_and_it_then_waits_on_none(wake):
    park(wake, "pod-a", "x", "y")
    assert wake.touch("y") == ["pod-a"]
    assert wake.touch("x") == []
    assert wake.keys_of("pod-a") == ()


def test_other_keys_wake_nobody(wake):
    park(wake, "pod-a", "x")
    assert wake.touch("y") == []
    assert wake.keys_of("pod-a") == ("x",)


def test_a_touch_between_looking_and_parking_is_not_lost(wake):
    ticket = wake.look(["x", "y"])
    wake.touch("y")
    assert not wake.park("pod-a", ticket)
    assert wake.waiting() == []
    assert park(wake, "pod-a", "x", "y")


def test_a_touch_of_another_key_between_looking_and_parking_does_not_matter(wake):
    ticket = wake.look(["x"])
    wake.touch("y")
    assert wake.park("pod-a", ticket)


def test_the_ticket_of_one_who_was_woken_is_worth_nothing(wake):
    ticket = wake.look(["x"])
    wake.park("pod-a", ticket)
    wake.touch("x")
    assert not wake.park("pod-a", ticket)


def test_waiters_are_woken_in_the_order_in_which_they_parked(wake):
    for waiter in ("c", "a", "b"):
        park(wake, waiter, waiter, "common")
    assert wake.touch("b", "common", "a") == ["c", "a", "b"]


def test_one_touch_of_several_keys_wakes_a_waiter_once(wake):
    park(wake, "pod-a", "x", "y")
    assert wake.touch("x", "y", "x") == ["pod-a"]


def test_parking_again_replaces_the_keys_and_goes_to_the_end(wake):
    park(wake, "pod-a", "x")
    park(wake, "pod-b", "y")
    park(wake, "pod-a", "y")
    assert wake.touch("x") == []
    assert wake.touch("y") == ["pod-b", "pod-a"]


def test_parking_again_with_a_stale_ticket_leaves_the_waiter_awake(wake):
    park(wake, "pod-a", "x")
    ticket = wake.look(["y"])
    wake.touch("y")
    assert not wake.park("pod-a", ticket)
    assert wake.waiting() == []


def test_a_waiter_that_is_dropped_is_not_woken(wake):
    park(wake, "pod-a", "x")
    assert wake.drop("pod-a")
    assert not wake.drop("pod-a")
    assert wake.touch("x") == []


def test_a_key_given_twice_counts_once(wake):
    park(wake, "pod-a", "x", "x")
    assert wake.keys_of("pod-a") == ("x",)
    assert wake.touch("x") == ["pod-a"]


def test_nobody_can_wait_for_nothing(wake):
    with pytest.raises(ValueError, match="at least one key for 'pod-a'"):
        park(wake, "pod-a")


def test_touching_nothing_is_no_error(wake):
    park(wake, "pod-a", "x")
    assert wake.touch() == []


def test_a_thousand_touches_without_a_waiter_store_no_wake_up(wake):
    for _ in range(1000):
        assert wake.touch("x") == []
    assert park(wake, "pod-a", "x")


def test_memory_is_bounded_and_a_ticket_that_may_have_missed_something_is_refused():
    wake = WaitIndex(remembered=2)
    ticket = wake.look(["x"])
    wake.touch("x")
    wake.touch("y", "z")
    assert len(wake._touched) == 2
    assert not wake.park("pod-a", ticket)
    assert wake.park("pod-a", wake.look(["x"]))
    wake.validate()


def test_who_sleeps_already_is_woken_however_much_is_forgotten():
    wake = WaitIndex(remembered=1)
    park(wake, "pod-a", "x")
    for number in range(10):
        wake.touch(f"other-{number}")
    assert wake.touch("x") == ["pod-a"]
    wake.validate()


def test_it_must_remember_something():
    with pytest.raises(ValueError, match="remembered: expected at least 1 key, got 0"):
        WaitIndex(remembered=0)


def _corrupt_index(wake):
    wake._waiters["x"].add("nobody")


def _corrupt_parking(wake):
    del wake._parked["pod-a"]


def _lose_a_wake_up(wake):
    wake._generation += 1
    wake._touched["x"] = wake._generation


def _corrupt_order(wake):
    wake._parked = dict(reversed(wake._parked.items()))


def _corrupt_touched(wake):
    wake._touched = {"p": 2, "q": 1}


def _corrupt_generation(wake):
    wake._forgotten = wake._generation + 1


def _forget_nothing(wake):
    wake._remembered = 0


@pytest.mark.parametrize(
    ("corrupt", "said"),
    [
        (_corrupt_index, "index"),
        (_corrupt_parking, "index"),
        (_lose_a_wake_up, "pod-a sleeps through a touch of x"),
        (_corrupt_order, "not in parking order"),
        (_corrupt_touched, "touched keys out of order"),
        (_corrupt_generation, "generations out of range"),
        (_forget_nothing, "1 keys remembered"),
    ],
)
def test_validate_finds_what_is_corrupt(corrupt, said):
    wake = WaitIndex()
    park(wake, "pod-a", "x")
    park(wake, "pod-b", "x", "y")
    wake.touch("z")
    wake.validate()
    corrupt(wake)
    with pytest.raises(AssertionError, match=said):
        wake.validate()
