"""Who lost quota to whom, as it stands on pods: what counts does not depend on the order in which pods are found."""

import pytest

from algorithm.hived.state.lazy_preemption import LazyPreemptionLog, QuotaLoss, QuotaRecord

TAKEN = [QuotaLoss("g", "taker", ("g-0", "g-1"))]
#: On g-1, which was placed anew after the taker was.
AGAIN = [QuotaLoss("g", "", ("g-1", "taker-0"))]


@pytest.fixture
def told():
    return LazyPreemptionLog()


def test_what_one_pod_says_is_known_of_all_that_it_names(told):
    told.add("taker-0", "taker", QuotaRecord(TAKEN), found=True)

    assert told.taker("g", ["g-0"]) == told.taker("g", ["g-1"]) == "taker"
    assert told.taker("g", ["g-2"]) == told.taker("h", ["g-0"]) == ""


@pytest.mark.parametrize("order", [("g-1", "taker-0"), ("taker-0", "g-1")])
def test_who_was_placed_anew_has_quota_whoever_is_found_first(told, order):
    pods = {"g-1": ("g", AGAIN), "taker-0": ("taker", TAKEN)}
    for uid in order:
        told.add(uid, pods[uid][0], QuotaRecord(pods[uid][1]), found=True)

    assert told.taker("g", ["g-1"]) == ""
    assert told.taker("g", ["g-0"]) == "taker"


@pytest.mark.parametrize("order", [("g-1", "later-0"), ("later-0", "g-1")])
def test_and_loses_it_to_who_came_later(told, order):
    pods = {"g-1": ("g", AGAIN), "later-0": ("later", [QuotaLoss("g", "later", ("g-1",))])}
    for uid in order:
        told.add(uid, pods[uid][0], QuotaRecord(pods[uid][1]), found=True)

    assert told.taker("g", ["g-1"]) == "later"


def test_who_is_bound_a_second_time_says_something_new(told):
    told.add("g-1", "g", QuotaRecord(AGAIN), found=True)
    told.add("taker-0", "taker", QuotaRecord(TAKEN), found=False)

    assert told.taker("g", ["g-1"]) == "taker"


def test_nobody_says_so_of_another_group(told):
    told.add("g-1", "h", QuotaRecord(AGAIN), found=True)
    told.add("taker-0", "taker", QuotaRecord(TAKEN), found=True)

    assert told.taker("g", ["g-1"]) == "taker"


def test_who_is_gone_says_nothing_any_more(told):
    told.add("taker-0", "taker", QuotaRecord(TAKEN), found=True)
    told.drop("taker-0")

    assert told.taker("g", ["g-0"]) == ""
