"""Gangs that give their devices back pod by pod, and gangs that do not (`gangReleaseEnable`)."""

import msgspec
import pytest

from algorithm.hived.state.groups import GroupState
from algorithm.interface import PodRefused, Wait
from algorithm.reasons import Code
from tests.support.hived.audit import audit
from tests.support.hived.harness import (
    PREEMPTING,
    RACKS,
    HivedHarness,
    allocations,
    explained,
    gang,
    in_any_order,
    one,
    racks,
    snapshot,
)

ON = "obeyGangRelease: true\n"
TWO_HOSTS = racks(a="rack.host 2") + ON


@pytest.fixture
def world():
    return HivedHarness(TWO_HOSTS)


def end(world, *names):
    world.delete(*[world.allocated[f"u-{name}"] for name in names])


def again(pod, number=1):
    """A pod of the same wish that is created when the first has ended."""
    return msgspec.structs.replace(pod, name=f"{pod.name}-again{number}", uid=f"{pod.uid}-again{number}")


def devices(world, name):
    return sorted(device.address for device, _ in world.group(name).leafs())


# -- what it means ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "kept"), [(racks(a="rack.host 2"), 8), (TWO_HOSTS, 4)])
@pytest.mark.parametrize("wish", [{}, {"gangReleaseEnable": False}])
def test_without_gang_release_a_pods_devices_are_free_as_it_ends_if_the_operator_says_so(config, kept, wish):
    world = HivedHarness(config)
    world.bind(*gang("g", pods=2, leafs=4, **wish))
    end(world, "g-1")

    assert len(devices(world, "g")) == kept


def test_with_gang_release_all_are_kept_until_the_last_pod_ends(world):
    world.bind(*gang("g", pods=2, leafs=4, gangReleaseEnable=True))
    end(world, "g-0")
    assert len(devices(world, "g")) == 8

    end(world, "g-1")
    assert not world.hive.groups


def test_what_was_given_back_can_be_used_by_others(world):
    world.bind(*gang("g", pods=2, leafs=4))
    end(world, "g-0")

    assert world.bind(one("h", leafs=4)) == [("m1", "0,1,2,3")]


def test_until_the_first_pod_ends_places_are_kept_for_pods_to_come(world):
    first, _ = gang("g", pods=2, leafs=4)
    world.bind(first)

    assert isinstance(world.ask(one("h", leafs=4)), Wait)


def test_a_pod_that_waits_keeps_its_place_when_another_ends(world):
    pods = gang("g", pods=3, leafs=2)
    world.bind(*pods[:2])
    world.submit(pods[2])
    end(world, "g-0")

    assert len(devices(world, "g")) == 4
    assert world.bind(pods[2]) == [("m2", "0,1")]


def test_a_place_is_not_kept_for_a_pod_that_no_longer_waits(world):
    pods = gang("g", pods=3, leafs=2)
    world.bind(*pods[:2])
    world.submit(pods[2])
    end(world, "g-0")
    world.delete(pods[2])

    assert len(devices(world, "g")) == 2


def test_a_proposal_that_comes_to_nothing_is_no_end(world):
    pods = gang("g", pods=3, leafs=2)
    world.bind(*pods[:2])
    world.expire(world.allocated["u-g-0"])

    assert len(devices(world, "g")) == 6


def test_the_last_pods_end_gives_back_everything(world):
    before = in_any_order(snapshot(world.hive))
    pods = gang("g", members={1: 2, 2: 2})
    world.bind(*pods)
    for name in ("g-2", "g-0", "g-3", "g-1"):
        end(world, name)

    assert in_any_order(snapshot(world.hive)) == before


# -- replacements -----------------------------------------------------------------------------------------------------


def test_a_replacement_has_the_place_back_if_nobody_has_it(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    end(world, "g-1")

    assert world.bind(again(pods[1])) == [("m2", "0,1,2,3")]


def test_a_replacement_that_waits_holds_the_place_again(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    end(world, "g-1")
    world.submit(again(pods[1]))

    assert isinstance(world.ask(one("h", leafs=4)), Wait)


def test_a_replacement_waits_as_long_as_somebody_has_the_place_and_is_told_who(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    end(world, "g-1")
    world.bind(one("h", leafs=4))
    late = again(pods[1])

    answer = world.ask(late)

    text = "the place in affinity group g was given up when a pod of it had ended, and now it is used by h"
    assert isinstance(answer, Wait)
    assert answer.reason.code is Code.CELLS_EXHAUSTED
    assert text in answer.reason.text
    assert explained(world, late) == [f"{text}.", "It would run if this ended: h (priority 0, 4 devices)."]
    end(world, "h-0")
    assert world.bind(late) == [("m2", "0,1,2,3")]


def test_more_pods_than_the_gang_has_are_refused_as_before(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)

    with pytest.raises(PodRefused, match="more pods than the configured number"):
        world.ask(again(pods[1]))


def test_all_pods_of_a_gang_say_the_same(world):
    first, _ = gang("g", pods=2, leafs=4)
    world.bind(first)

    with pytest.raises(PodRefused, match="gangReleaseEnable False, but this pod says True"):
        world.ask(gang("g", pods=2, leafs=4, gangReleaseEnable=True)[1])


def test_pods_of_another_tenant_hold_nothing():
    world = HivedHarness(RACKS + ON)
    world.bind(*gang("g", pods=2, leafs=4))
    end(world, "g-1")
    world.submit(again(gang("g", tenant="b", pods=2, leafs=4)[1]))

    assert len(devices(world, "g")) == 4


# -- beside preemptions and bad machines ------------------------------------------------------------------------------


def test_an_opportunistic_gang_gives_back_what_it_borrowed():
    world = HivedHarness(RACKS + ON)
    world.bind(*gang("o", pods=4, leafs=4, priority=-1))
    end(world, "o-0", "o-1", "o-2")

    assert sum(world.hive.usage.borrowed.values()) == 4


def test_what_a_victim_gives_back_is_the_preemptors_at_once(world):
    world.bind(*gang("low", pods=2, leafs=4))
    high = one("high", leafs=4, priority=5)
    world.preempt(high)
    assert world.group("low").state is GroupState.BEING_PREEMPTED
    end(world, "low-0")

    assert world.group("low").state is GroupState.ALLOCATED
    assert world.bind(high) == [("m1", "0,1,2,3")]


def test_a_cancelled_preemption_gives_nothing_to_pods_that_are_gone(world):
    world.bind(*gang("low", pods=2, leafs=4))
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    world.preempt(high)
    end(world, "low-0")
    world.stop_preempting(high)

    assert len(devices(world, "low")) == 4
    assert world.group("low").state is GroupState.ALLOCATED


def test_a_gang_that_lost_its_quota_gives_back_and_takes_back_without_it(world):
    pods = gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True)
    world.bind(*pods, one("taker", leafs=2, priority=3))
    assert world.group("lazy").virtual is None
    end(world, "lazy-0")
    world.bind(again(pods[0]))

    assert world.group("lazy").virtual is None
    assert len(devices(world, "lazy")) == 8


def test_a_place_on_a_machine_that_turned_bad_is_not_taken_back(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    end(world, "g-1")
    world.turn("m2", healthy=False)

    answer = world.ask(again(pods[1]))

    assert isinstance(answer, Wait)
    assert "its devices are bad" in answer.reason.text


def test_quota_that_others_have_now_is_not_taken_back():
    """The place itself is free, but the tenant's socket is another one by now."""
    world = HivedHarness(racks(a="rack.host.socket 2") + ON)
    pods = gang("g", pods=2, leafs=2)
    (at, _), _ = world.bind(*pods)
    end(world, "g-0")
    world.turn("m1", healthy=False)
    (elsewhere, _) = world.bind(one("h", leafs=2))[0]
    world.turn("m1", healthy=True)
    assert elsewhere != "m1"
    before = snapshot(world.hive)

    answer = world.ask(again(pods[0]))

    assert at == "m1"
    assert isinstance(answer, Wait)
    assert "the quota is used elsewhere" in answer.reason.text
    assert snapshot(world.hive) == before
    end(world, "h-0")
    assert world.bind(again(pods[0]))


def test_a_pinned_cell_is_given_back_within(world):
    config = RACKS.replace("{cellAddress: m1}", "{cellAddress: m1, pinnedCellId: pin}").replace(
        "  a:\n    virtualCells:\n    - {cellType: rack.host, cellNumber: 2}",
        "  a:\n    virtualCells:\n    - {cellType: rack.host, cellNumber: 1}\n    pinnedCells: [{pinnedCellId: pin}]",
    )
    world = HivedHarness(config + ON)
    pods = gang("g", pods=2, leafs=2, pinnedCellId="pin")
    world.bind(*pods)
    end(world, "g-0")
    world.bind(one("h", leafs=1, pinnedCellId="pin"))

    world.restart()

    assert len(devices(world, "g")) == 2
    assert isinstance(world.ask(again(pods[0])), Wait)
    end(world, "h-0")
    assert world.bind(again(pods[0]))


# -- restarts and forks -----------------------------------------------------------------------------------------------


def test_a_restart_is_the_same_in_any_order(world):
    pods = gang("g", pods=4, leafs=2)
    world.bind(*pods[:3])
    world.submit(pods[3])
    end(world, "g-0")
    world.bind(one("h", leafs=2))
    before, held = allocations(world.hive), devices(world, "g")

    for order in (sorted(world.allocated), sorted(world.allocated, reverse=True)):
        world.restart(order)
        assert allocations(world.hive) == before
        assert devices(world, "g") == held
    assert world.bind(pods[3]) == [("m2", "2,3")]


def test_after_a_restart_places_are_held_for_the_pods_that_there_are(world):
    pods = gang("g", pods=3, leafs=2)
    world.bind(pods[0])
    world.submit(pods[1])
    world.restart()

    assert len(devices(world, "g")) == 4


def test_with_gang_release_a_restart_keeps_everything(world):
    world.bind(*gang("g", pods=2, leafs=4, gangReleaseEnable=True))
    end(world, "g-0")
    before = allocations(world.hive)
    world.restart()

    assert allocations(world.hive) == before


def test_switched_on_at_a_restart_it_gives_up_what_nobody_uses():
    world = HivedHarness(racks(a="rack.host 2"))
    world.bind(*gang("g", pods=2, leafs=4))
    end(world, "g-0")
    world.restart(config=TWO_HOSTS)

    assert len(devices(world, "g")) == 4


@pytest.mark.parametrize("backwards", [True, False])
def test_switched_off_at_a_restart_no_device_has_two_users(world, backwards):
    """The gang's plan still names devices that others run on by now."""
    world.bind(*gang("g", pods=2, leafs=4))
    end(world, "g-0")
    world.bind(one("h", leafs=4))
    world.restart(sorted(world.allocated, reverse=backwards), config=racks(a="rack.host 2"))

    assert devices(world, "h") == ["0/m1/0/0", "0/m1/0/1", "0/m1/1/2", "0/m1/1/3"]
    assert len(devices(world, "g")) == 4


def test_nobody_is_given_up_for_a_pod_that_is_bound_by_hand_later():
    world = HivedHarness(racks(a="rack.host 2"))
    first, second = gang("g", pods=2, leafs=4)
    world.bind(first)
    world.submit(second)
    twin = HivedHarness(racks(a="rack.host 2"))
    twin.bind(one("z", leafs=4), *[one("thief", leafs=4)])
    world.found(twin.allocated["u-thief-0"])

    assert len(devices(world, "g")) == 8
    assert devices(world, "thief") == []


def test_a_fork_gives_back_for_itself(world):
    world.bind(*gang("g", pods=2, leafs=4))
    fork = world.algorithm.fork()
    end(world, "g-0")

    audit(fork.hive)
    assert len(list(fork.hive.groups["g"].leafs())) == 8
    fork.delete_allocated_pod(msgspec.structs.replace(gang("g", pods=2, leafs=4)[0], node_name="m1"))
    assert snapshot(fork.hive) == snapshot(world.hive)


def test_pages_show_what_is_held(world):
    world.bind(*gang("g", pods=2, leafs=4))
    end(world, "g-0")
    status = world.algorithm.page("affinitygroups/g")["status"]

    assert status["physicalPlacement"] == {"m2": [0, 1, 2, 3]}
    assert status["allocatedPods"] == ["u-g-1"]


def test_asking_again_and_again_leaves_no_trace(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    end(world, "g-1")
    late = again(pods[1])
    world.bind(one("h", leafs=4))
    world.submit(late)
    end(world, "h-0")
    for phase in (PREEMPTING, PREEMPTING):
        world.ask(late, phase=phase)
