"""The rules of `balanced` one by one. test_balanced_oracles.py holds it against the best placement there is."""

from collections import Counter

import pytest

from algorithm.placements.balanced import place
from algorithm.placements.model import SetState


def a_set(*, capacity=10, pods=4, zones=()):
    state = SetState(capacity=capacity, replicas=pods)
    for ordinal in range(pods):
        state.set_usable(ordinal, True)
    for ordinal, zone in enumerate(zones):
        state.set_zone(ordinal, zone)
    return state


def placed(state, wanted, committed=(), *, spread=0, **settings):
    vpod = state.put("ns/v", wanted, dict(committed), spread=spread)
    placement = place(vpod, state, **settings)
    assert placement.placed + placement.left == wanted
    return placement.counts


def test_numbers_differ_by_one_at_most():
    assert placed(a_set(), 10) == {0: 3, 1: 3, 2: 2, 3: 2}


def test_growing_one_by_one_stays_even():
    """The original ends at 8, 1, 1."""
    state = a_set(pods=3)
    counts = {}
    for wanted in range(1, 11):
        counts = placed(state, wanted, counts)
    assert sorted(counts.values()) == [3, 3, 4]


def test_shrinking_takes_where_there_is_most():
    assert placed(a_set(), 3, {0: 2, 1: 2, 2: 2, 3: 2}) == {0: 1, 1: 1, 2: 1}


def test_a_new_pod_gets_its_part_and_nothing_else_moves():
    assert placed(a_set(pods=3), 6, {0: 3, 1: 3}) == {0: 2, 1: 2, 2: 2}


def test_extra_ones_stay_where_they_are():
    assert placed(a_set(pods=3), 4, {2: 2, 1: 1, 0: 1}) == {0: 1, 1: 1, 2: 2}


def test_pods_that_hold_less_of_others_come_first():
    state = a_set(pods=3)
    state.put("ns/other", 3, {0: 2, 1: 1})

    assert placed(state, 1) == {2: 1}


def test_zones_are_even_before_pods_are():
    assert placed(a_set(pods=3, zones=["a", "b", "b"]), 4) == {0: 2, 1: 1, 2: 1}


def test_a_spread_comes_before_zones():
    assert placed(a_set(pods=4, zones=["a", "b", "b", "b"]), 4, spread=4) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_what_does_not_fit_is_left():
    state = a_set(pods=2, capacity=2)
    placement = place(state.put("ns/v", 7, {}), state)

    assert (placement.counts, placement.left) == ({0: 2, 1: 2}, 3)


def test_nothing_stays_on_pods_that_cannot_be_used():
    state = a_set(pods=3)
    state.set_usable(1, False)

    assert placed(state, 4, {0: 1, 1: 2, 2: 1}) == {0: 2, 2: 2}


def test_vpods_on_a_pod_that_holds_too_much_pay_in_proportion():
    state = a_set(pods=2, capacity=4)
    state.put("ns/other", 4, {0: 4})

    assert placed(state, 4, {0: 4}) == {0: 2, 1: 2}


@pytest.mark.parametrize("most_moves", [0, 1, 2, 3])
def test_moves_for_evenness_are_bounded(most_moves):
    before = {0: 6}
    counts = placed(a_set(pods=3), 6, before, most_moves=most_moves)

    assert counts[0] == max(2, 6 - most_moves)
    assert sum(counts.values()) == 6


def test_a_bound_on_moves_does_not_keep_vreplicas_on_a_pod_that_is_gone():
    state = a_set(pods=2)

    assert placed(state, 4, {0: 2, 7: 2}, most_moves=0) == {0: 2, 1: 2}


def test_until_a_move_has_been_seen_it_takes_room_on_both_pods():
    state = a_set(pods=2, capacity=4)
    state.put("ns/other", 4, {0: 4})
    state.reserve("ns/other", {1: 4})

    placement = place(state.put("ns/v", 1, {}), state)
    assert placement.left == 1


def test_a_lower_capacity_moves_what_is_too_much_and_no_more():
    """Each vpod has little on each pod: if each gave up its share, rounded up, the pods would be emptied."""
    state = a_set(capacity=12, pods=5)
    for number in range(10):
        state.put(f"v{number}", 4, dict.fromkeys(range(4), 1))
    state.capacity = 8  # pods 0 to 3 hold 10, pod 4 none
    for vpod in list(state.vpods.values()):
        state.reserve(vpod.key, place(vpod, state).counts)
        state.validate()
    left = sum((Counter(vpod.committed) - Counter(vpod.reserved)).total() for vpod in state.vpods.values())
    assert left == 8
    assert state.leaving == dict.fromkeys(range(4), 2)
    for vpod in list(state.vpods.values()):
        state.put(vpod.key, 4, vpod.reserved)
        state.reserve(vpod.key, None)
        state.validate()
    assert state.held == dict.fromkeys(range(5), 8)
