"""Groups over their lives: recovery under other configurations, preemption and its end, lazy preemption, holes."""

import random

import pytest

from algorithm.hived.state.groups import GroupState
from algorithm.interface import Bind, Wait
from tests.support.hived.harness import PREEMPTING, RACKS, HivedHarness, allocations, gang, one, racks

B = "rack.host 1, rack.host.socket 1"
ONE_RACK = racks(a="rack.host 2").replace(
    "  - cellType: rack\n    cellChildren: [{cellAddress: m3}, {cellAddress: m4}]\n", ""
)


@pytest.fixture
def world():
    return HivedHarness()


def is_guaranteed(world, name):
    return world.group(name).virtual is not None


def devices(world, name):
    return sorted((device.nodes[0], device.indices[0]) for device, _ in world.group(name).leafs())


# -- the same configuration -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_restart_in_any_order_is_the_same_allocation(world, seed):
    world.bind(
        *gang("a1", members={1: 2, 2: 1}),
        *gang("a2", pods=1, leafs=4, priority=7),
        *gang("b", tenant="b", pods=2, leafs=2),
        *gang("o", tenant="b", pods=2, leafs=1, priority=-1),
    )
    before = allocations(world.hive)

    world.restart(random.Random(seed))

    assert allocations(world.hive) == before


def test_a_gang_that_was_not_complete_goes_on_where_it_was(world):
    first, second = gang("g", pods=2, leafs=4)
    world.bind(first)
    world.restart()

    assert world.bind(second) == [("m2", "0,1,2,3")]


def test_a_preemption_does_not_survive_a_restart_but_its_victims_do(world):
    world.bind(*gang("low", pods=2, leafs=4))
    world.preempt(gang("high", pods=2, leafs=4, priority=5)[0])
    world.restart()

    assert list(world.hive.groups) == ["low"]
    assert world.group("low").state is GroupState.ALLOCATED


def test_a_group_ends_with_its_last_pod(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)

    world.delete(pods[0])
    assert isinstance(world.ask(one("h", leafs=4)), Wait)

    world.delete(pods[1])
    assert isinstance(world.ask(one("i", leafs=4)), Bind)


def test_a_place_that_a_pod_left_is_for_the_next_pod_of_the_group(world):
    pods = gang("g", pods=2, leafs=4)
    [place, _] = world.bind(*pods)
    world.delete(pods[0])

    assert world.bind(pods[0]) == [place]


# -- another configuration --------------------------------------------------------------------------------------------


def test_more_quota_changes_nothing_for_what_runs(world):
    world.bind(*gang("g", pods=2, leafs=4))
    before = allocations(world.hive)

    world.restart(config=racks(a="rack.host 2", b="rack.host 2"))

    assert allocations(world.hive) == before


def test_who_runs_beyond_a_smaller_quota_goes_on_without(world):
    world.bind(one("one", leafs=4), one("two", leafs=4))

    world.restart(config=racks(a="rack.host 1", b=B))

    assert [is_guaranteed(world, "one"), is_guaranteed(world, "two")] == [True, False]
    assert len(devices(world, "two")) == 4


def test_pods_of_a_tenant_that_is_gone_run_on(world):
    world.bind(one("g", leafs=4))

    world.restart(config=racks(b=B))

    assert not is_guaranteed(world, "g")
    assert world.bind(one("b", tenant="b", leafs=4))[0][0] != "m1"


def test_a_type_of_cell_that_the_tenant_no_longer_has_is_no_quota(world):
    world.bind(one("g", tenant="b", leafs=4))

    world.restart(config=racks(a="rack.host 2", b="rack.host.socket 2"))

    assert not is_guaranteed(world, "g")


def test_machines_that_are_gone_leave_holes_and_their_pods_run_on(world):
    world.turn("m2", healthy=False)
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    assert len({node for node, _ in devices(world, "g")} & {"m3", "m4"}) == 1

    world.restart(config=ONE_RACK)

    assert {node for node, _ in devices(world, "g")} == {"m1"}
    world.delete(*pods)
    assert not world.hive.groups


def test_a_late_pod_may_be_placed_on_a_machine_that_is_no_longer_configured(world):
    """Its gang was planned there, and the plan is on the pods that run."""
    first, second = gang("g", pods=2, leafs=4)
    world.bind(first)
    world.restart(config=RACKS.replace("m2", "m9"))

    answer = world.ask(second, offered=["m1", "m2"])

    assert isinstance(answer, Bind)
    assert answer.node == "m2"


def test_a_group_of_which_nothing_is_left_blocks_nobody(world):
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    world.restart(config=RACKS.replace("m1", "m8").replace("m2", "m9"))
    world.turn("m8", "m9", healthy=True)

    assert len(world.bind(*gang("h", pods=2, leafs=4))) == 2
    world.delete(*pods)
    assert list(world.hive.groups) == ["h"]


def test_a_pinned_cell_that_is_pinned_no_more_is_no_quota():
    pinned = racks(b=B).replace("{cellAddress: m1}", "{cellAddress: m1, pinnedCellId: pin}")
    pinned += "  a: {pinnedCells: [{pinnedCellId: pin}]}\n"
    world = HivedHarness(pinned)
    world.bind(one("g", pinnedCellId="pin", leafs=4))

    world.restart(config=RACKS)

    assert not is_guaranteed(world, "g")
    assert devices(world, "g")[0][0] == "m1"


# -- preemption -------------------------------------------------------------------------------------------------------


def test_victims_keep_their_devices_until_they_are_gone(world):
    world.bind(*gang("low", pods=2, leafs=4))
    held = devices(world, "low")
    world.preempt(gang("high", pods=2, leafs=4, priority=5)[0])

    assert devices(world, "low") == held == devices(world, "high")
    assert {device.state.value for device, _ in world.group("low").leafs()} == {"Reserving"}


def test_what_the_victims_leave_is_reserved(world):
    low = gang("low", pods=2, leafs=4)
    world.bind(*low)
    world.preempt(gang("high", pods=2, leafs=4, priority=5)[0])
    world.delete(*low)

    assert {device.state.value for device, _ in world.group("high").leafs()} == {"Reserved"}


def test_a_more_important_preemptor_overtakes(world):
    low = gang("low", pods=2, leafs=4)
    world.bind(*low)
    world.preempt(gang("high", pods=2, leafs=4, priority=5)[0])

    gone = world.preempt(gang("highest", pods=2, leafs=4, priority=9)[0])

    assert gone == {pod.uid for pod in low}
    assert "high" not in world.hive.groups


def test_a_preemption_whose_machine_turns_bad_is_planned_anew():
    world = HivedHarness(RACKS)
    world.bind(*gang("o", tenant="b", pods=4, leafs=4, priority=-1))
    high = one("high", leafs=4, priority=5)
    world.preempt(high)
    [before] = {device.nodes[0] for device, _ in world.group("high").leafs()}
    world.turn(before, healthy=False)

    world.preempt(high)

    [after] = {device.nodes[0] for device, _ in world.group("high").leafs()}
    assert after != before
    assert world.group("o").state is GroupState.BEING_PREEMPTED


def test_a_preemption_ends_with_the_last_pod_that_waits_for_it(world):
    world.bind(*gang("low", pods=2, leafs=4))
    first, second = gang("high", pods=2, leafs=4, priority=5)
    world.preempt(first)
    world.preempt(second)

    world.delete(first)
    assert "high" in world.hive.groups

    world.delete(second)
    assert "high" not in world.hive.groups
    assert world.group("low").state is GroupState.ALLOCATED


def test_a_cell_that_goes_from_victim_to_preemptor_is_never_free_in_between():
    """The order of free cells decides between equals: the original takes a victim's devices one by one."""
    world = HivedHarness(racks(a="rack.host 1", b="rack.host 1"))
    world.bind(one("low", leafs=4))
    world.bind(one("b", tenant="b", leafs=4, ignoreK8sSuggestedNodes=False), offered=["m3"])
    before = free_hosts(world)
    assert [len(hosts) for hosts in before] == [0, 0, 2, 0]

    world.preempt(one("high", leafs=4, priority=5))

    assert free_hosts(world) == before


def test_bad_parts_of_a_cell_that_is_reserved_are_shown_where_the_plan_has_nothing():
    """Of the rack m1 is bad, and the gang is planned for the first two machines that its tenant sees."""
    world = HivedHarness(THREE_A_RACK)
    world.bind(*gang("o", tenant="b", pods=6, leafs=2, priority=-1))
    world.turn("m1", healthy=False)

    world.preempt(gang("g", pods=2, leafs=2, ignoreK8sSuggestedNodes=False)[0], offered=["m2", "m3"])

    [root] = world.hive.layout.tenants["a"].preassigned["rack"][3]
    assert [host.physical.nodes for host in root.children] == [("m2",), ("m3",), ("m1",)]


THREE_A_RACK = """
physicalCluster:
  cellTypes:
    host: {childCellType: gpu, childCellNumber: 2, isNodeLevel: true}
    rack: {childCellType: host, childCellNumber: 3}
  physicalCells:
  - {cellType: rack, cellChildren: [{cellAddress: m1}, {cellAddress: m2}, {cellAddress: m3}]}
  - {cellType: rack, cellChildren: [{cellAddress: m4}, {cellAddress: m5}, {cellAddress: m6}]}
virtualClusters: {a: {virtualCells: [{cellType: rack, cellNumber: 1}]}, b: {}}
"""


def test_a_preemption_that_comes_to_nothing_leaves_the_order_of_before(world):
    """Not so in the original: asked again, it may plan another of equal cells."""
    world.bind(*gang("o", tenant="b", pods=4, leafs=4, priority=-1))
    before = free_hosts(world)
    high = one("high", leafs=4, priority=5)

    gone = world.preempt(high)
    assert free_hosts(world) != before
    world.stop_preempting(high)

    assert free_hosts(world) == before
    assert world.preempt(high) == gone


def free_hosts(world):
    return [[cell.address for cell in cells] for _, cells in sorted(world.hive.allocators["rack"].free.items())]


def test_the_victims_of_a_gang_are_whole_gangs(world):
    """One device is wanted, but half a gang is of no use."""
    world.bind(*gang("low", pods=2, leafs=4))

    assert world.preempt(one("high", leafs=1, priority=5)) == {"u-low-0", "u-low-1"}


# -- lazy preemption --------------------------------------------------------------------------------------------------


def lazily(world):
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True))
    world.bind(one("taker", leafs=4, priority=5))


def test_who_agreed_keeps_its_devices_and_loses_its_quota(world):
    lazily(world)

    assert not is_guaranteed(world, "lazy")
    assert len(devices(world, "lazy")) == 8
    assert world.group("lazy").lazily_preempted_by == "taker"
    assert world.algorithm.page("affinitygroups/lazy")["status"]["lazyPreemptionStatus"]["preemptor"] == "taker"


def test_a_lazy_preemption_that_is_only_asked_about_changes_nothing(world):
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True))
    world.ask(one("taker", leafs=4, priority=5))
    world.ask(one("taker", leafs=4, priority=5), phase=PREEMPTING)

    assert is_guaranteed(world, "lazy")


def test_who_was_preempted_lazily_goes_for_anybody_guaranteed(world):
    lazily(world)
    world.bind(one("b", tenant="b", leafs=4))

    assert world.preempt(one("more", leafs=4, priority=0)) == {"u-lazy-0", "u-lazy-1"}


def test_a_late_pod_of_a_lazily_preempted_gang_has_its_place(world):
    first, second = gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True)
    [place] = world.bind(first)
    world.bind(*gang("taker", pods=2, leafs=4, priority=5))

    [late] = world.bind(second)

    assert late != place
    assert not is_guaranteed(world, "lazy")
