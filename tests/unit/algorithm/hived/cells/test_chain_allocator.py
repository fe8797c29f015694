"""What is free, owed and doomed: examples of each move, held against a recomputation by the audit after each."""

import pytest

from algorithm.hived.state.recovery import restored
from tests.support.hived.audit import audit
from tests.support.hived.harness import HivedHarness, gang, in_any_order, one, racks, snapshot

#: Everything is promised: a rack to b, two machines to a.
TIGHT = racks(a="rack.host 2", b="rack 1")


def free(world, level):
    return sorted(cell.address for cell in world.hive.allocators["rack"].free[level])


def doomed(world):
    allocator = world.hive.allocators["rack"]
    return {
        tenant: sorted(cell.address for cells in levels.values() for cell in cells)
        for tenant, levels in allocator.doomed.items()
    }


@pytest.fixture
def world():
    return HivedHarness(TIGHT)


def test_what_is_free_is_listed_where_it_is_whole():
    world = HivedHarness()
    assert (free(world, 4), free(world, 3)) == (["0", "1"], [])

    world.bind(one("g", leafs=4))

    assert (free(world, 4), free(world, 3)) == (["1"], ["0/m2"])


def test_what_comes_back_merges_with_its_buddies():
    world = HivedHarness()
    world.bind(one("g", leafs=4), one("s", tenant="b", leafs=4))
    world.delete(*list(world.allocated.values()))

    assert (free(world, 4), free(world, 3), free(world, 2)) == (["0", "1"], [], [])


def test_what_is_owed_falls_with_what_is_had_and_rises_again():
    world = HivedHarness()
    allocator = world.hive.allocators["rack"]
    pods = gang("g", pods=2, leafs=4)
    assert allocator.vc_free_cells["a"][3] == 2

    world.bind(*pods)
    assert allocator.vc_free_cells["a"][3] == 0

    world.delete(*pods)
    assert allocator.vc_free_cells["a"][3] == 2


def test_a_cell_is_had_as_a_whole_however_little_of_it_is_used():
    world = HivedHarness()
    world.bind(one("g", leafs=1))

    assert world.hive.allocators["rack"].vc_free_cells["a"][3] == 1


def test_nobody_is_doomed_while_spare_hardware_is_healthy():
    world = HivedHarness()
    world.turn("m1", healthy=False)

    assert doomed(world) == {"a": [], "b": []}


def test_who_will_not_get_healthy_hardware_sees_it_at_once(world):
    world.turn("m1", "m3", healthy=False)

    assert len(doomed(world)["b"]) == 1


def test_and_no_longer_than_that(world):
    world.turn("m1", "m3", healthy=False)
    world.turn("m3", healthy=True)

    assert doomed(world) == {"a": [], "b": []}


def test_a_doomed_tenant_is_told_that_machines_are_bad(world):
    world.submit(one("b", tenant="b", leafs=4))
    world.turn("m1", "m2", "m3", "m4", healthy=False)

    assert "bad node" in world.ask(one("b", tenant="b", leafs=4)).reason.text


def test_who_runs_on_a_doomed_cell_keeps_it(world):
    pod = one("b", tenant="b", leafs=4)
    world.bind(pod)
    place = world.allocated[pod.uid].node_name

    world.turn("m1", "m2", "m3", "m4", healthy=False)
    world.turn(*sorted({"m1", "m2", "m3", "m4"} - {place}), healthy=True)

    assert world.group("b").virtual is not None
    assert world.allocated[pod.uid].node_name == place


def test_the_order_in_which_machines_fail_and_recover_changes_nothing_in_the_end(world):
    first = in_any_order(snapshot(world.hive))
    for name in ("m2", "m4", "m1", "m3"):
        world.turn(name, healthy=False)
    for name in ("m4", "m1", "m3", "m2"):
        world.turn(name, healthy=True)

    assert in_any_order(snapshot(world.hive)) == first


def test_a_bad_part_of_a_cell_in_use_is_seen_by_its_tenant(world):
    world.bind(one("b", tenant="b", leafs=4))
    used = world.group("b").physical[4][0][0].nodes[0]
    other = {"m1": "m2", "m2": "m1", "m3": "m4", "m4": "m3"}[used]
    world.turn(other, healthy=False)

    [rack] = world.hive.layout.tenants["b"].preassigned["rack"][4]
    assert sorted(child.healthy for child in rack.children) == [False, True]
    assert "bad node" in world.ask(one("c", tenant="b", leafs=4)).reason.text


def test_devices_that_change_hands_doom_nobody_for_a_moment():
    """A lazy preemption frees and takes the same devices; nobody notices in between."""
    world = HivedHarness(TIGHT)
    world.turn("m1", healthy=False)
    world.bind(*gang("lazy", pods=1, leafs=4, lazyPreemptionEnable=True))
    before = doomed(world)

    with world.hive.changing_hands():
        group = world.group("lazy")
        world.hive.make_opportunistic(group, "x")
        assert restored(world.hive, group)

    audit(world.hive)
    assert doomed(world) == before
