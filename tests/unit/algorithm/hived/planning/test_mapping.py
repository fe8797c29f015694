"""From virtual cells to hardware: buddies, bad machines, offers, and what is owed is found wherever it can be."""

from itertools import chain, combinations, permutations

import pytest

from algorithm.hived.cells.chain_allocator import ChainAllocator
from algorithm.interface import Wait
from tests.conformance.hived_draws import LEVELS
from tests.conformance.hived_machine import kept
from tests.support.hived.claims import take_with_quota
from tests.support.hived.harness import RACKS, HivedHarness, gang, one

#: Four racks of two machines; alpha owns a rack, beta two machines of any.
FOUR = """
physicalCluster:
  cellTypes:
    host: {childCellType: gpu, childCellNumber: 2, isNodeLevel: true}
    rack: {childCellType: host, childCellNumber: 2}
  physicalCells:
  - {cellType: rack, cellChildren: [{cellAddress: m1}, {cellAddress: m2}]}
  - {cellType: rack, cellChildren: [{cellAddress: m3}, {cellAddress: m4}]}
  - {cellType: rack, cellChildren: [{cellAddress: m5}, {cellAddress: m6}]}
  - {cellType: rack, cellChildren: [{cellAddress: m7}, {cellAddress: m8}]}
virtualClusters:
  alpha: {virtualCells: [{cellType: rack, cellNumber: 1}]}
  beta: {virtualCells: [{cellType: rack.host, cellNumber: 2}]}
"""
MACHINES = [f"m{number}" for number in range(1, 9)]


@pytest.fixture(scope="module")
def healthy():
    """Worlds to fork: by whether healthy cells are kept whole."""
    return {sparing: HivedHarness(f"{FOUR}keepHealthyCellsWhole: {sparing}\n") for sparing in (False, True)}


def with_bad(world, bad):
    twin = HivedHarness(FOUR, nodes=False)
    twin.algorithm = world.algorithm.fork()
    twin.nodes = dict(world.nodes)
    twin.turn(*bad, healthy=False)
    return twin


def full_quota(tenant):
    return gang(tenant, tenant=tenant, pods=2, leafs=2)


def some(names, *, up_to):
    return chain.from_iterable(combinations(names, number) for number in range(up_to + 1))


def nobody_is_short(world):
    """All can have at once what they are promised: nobody is doomed, and it fits on what is healthy."""
    doomed = world.hive.allocators["rack"].doomed.values()
    return kept(world.hive) and not any(cells for levels in doomed for cells in levels.values())


# -- one cell ---------------------------------------------------------------------------------------------------------


def test_a_small_cell_splits_the_smallest_larger_one_that_is_free():
    world = HivedHarness()
    world.bind(one("machine", tenant="b", leafs=4))

    [(node, _)] = world.bind(one("socket", tenant="b", leafs=2))

    # The other machine of the rack that is split already.
    assert world.group("machine").physical[4][0][0].nodes == ("m1",)
    assert node == "m2"


def test_cells_that_are_given_back_become_whole_again():
    world = HivedHarness()
    pods = [one("machine", tenant="b", leafs=4), one("socket", tenant="b", leafs=2)]
    world.bind(*pods)
    world.delete(*pods)

    allocator: ChainAllocator = world.hive.allocators["rack"]
    assert sorted(cell.address for cell in allocator.free[4]) == ["0", "1"]
    assert not any(allocator.free[level] for level in (1, 2, 3))


def test_the_hardware_that_others_use_least_is_taken():
    """So that as few opportunistic pods as possible have to go."""
    world = HivedHarness()
    world.bind(one("opportunistic", tenant="b", leafs=1, priority=-1))

    assert world.bind(one("guaranteed", leafs=4))[0][0] != world.group("opportunistic").physical[1][0][0].nodes[0]


def test_only_offered_machines_are_taken_if_the_pod_cares():
    world = HivedHarness()
    wish = one("g", leafs=4, ignoreK8sSuggestedNodes=False)

    assert isinstance(world.ask(wish, offered=[]), Wait)
    assert world.bind(wish, offered=["m4"])[0][0] == "m4"


def test_a_bad_machine_is_not_taken():
    world = HivedHarness()
    world.turn("m1", "m2", "m3", healthy=False)

    assert world.bind(one("g", leafs=4))[0][0] == "m4"


def test_cells_of_one_level_are_matched_one_by_one():
    """A rack of which one machine is bad still takes what fits on the other."""
    world = HivedHarness(FOUR)
    world.turn("m1", "m3", "m5", "m7", healthy=False)

    assert world.bind(one("g", tenant="alpha", leafs=2))[0][0] in {"m2", "m4", "m6", "m8"}


# -- what is owed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", ["alpha", pytest.param("beta", marks=pytest.mark.slow)])
def test_whoever_comes_first_gets_all_that_is_owed_whatever_is_bad_bug_7(healthy, tenant):
    """The original splits the wrong racks for a gang, or the only one that is healthy, and finds nothing or crashes."""
    tried = 0
    for bad in some(MACHINES, up_to=4):
        world = with_bad(healthy[False], bad)
        if nobody_is_short(world):
            tried += 1
            world.bind(*full_quota(tenant))
    assert tried > 50


@pytest.mark.parametrize("most", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_everybody_gets_all_that_is_owed_if_healthy_cells_are_kept_whole(healthy, most):
    for bad in some(MACHINES, up_to=most):
        for order in permutations(("alpha", "beta")):
            world = with_bad(healthy[True], bad)
            if nobody_is_short(world):
                for tenant in order:
                    world.bind(*full_quota(tenant))


def test_without_that_choice_the_first_may_take_the_others_last_healthy_rack(healthy):
    """As the original does; recorded decisions depend on it."""
    taken = 0
    for bad in some(MACHINES, up_to=3):
        world = with_bad(healthy[False], bad)
        if nobody_is_short(world):
            world.bind(one("b", tenant="beta", leafs=2))
            taken += not nobody_is_short(world)
    assert taken


def test_a_virtual_cluster_gets_its_cells_whatever_opportunistic_pods_run():
    world = HivedHarness(RACKS)
    while not isinstance(world.ask(one(f"o{len(world.allocated)}", tenant="b", priority=-1, leafs=1)), Wait):
        world.bind(next(iter(world.waiting.values())))
    world.delete(*list(world.waiting.values()))
    assert len(world.allocated) == 16

    gone = world.preempt(gang("g", pods=2, leafs=4)[0])

    assert len(gone) == 8


def test_nobodys_quota_is_broken_for_a_healthy_machine():
    """All is promised, and the one machine that infer has left is bad. The original splits a couple that train is owed.

    It does so if a larger cell seems to have room, without a look at what is owed of the sizes in between.
    """
    world = HivedHarness("""
physicalCluster:
  cellTypes:
    host: {childCellType: gpu, childCellNumber: 1, isNodeLevel: true}
    couple: {childCellType: host, childCellNumber: 2}
    rack: {childCellType: couple, childCellNumber: 2}
  physicalCells:
  - {cellType: rack, cellChildren: [{cellChildren: [{cellAddress: m1}, {cellAddress: m2}]}, {}]}
  - {cellType: rack}
virtualClusters:
  infer: {virtualCells: [{cellType: rack.couple, cellNumber: 1}, {cellType: rack.couple.host, cellNumber: 2}]}
  train: {virtualCells: [{cellType: rack.couple, cellNumber: 2}]}
""")
    infer = [one(name, tenant="infer") for name in ("couple-1", "couple-2", "host-1", "host-2")]
    left = world.bind(*infer)[2][0]
    world.delete(infer[2])
    world.turn(left, healthy=False)

    answer = world.ask(one("late", tenant="infer"))

    assert isinstance(answer, Wait)
    assert world.hive.allocators["rack"].is_safe()


def test_a_gang_that_needs_cells_of_two_levels_leaves_others_what_they_are_owed():
    """Its first cell is cut from the row that may be split. Its second one must not be cut from another row.

    The original forgets what is left of the first row. Only `_keeps_promises` protects the promise to `large`.
    """
    world = HivedHarness(LEVELS)
    [(used, _)] = world.bind(one("first", tenant="small"))
    world.bind(*gang("second", tenant="medium", pods=2))
    beside = {"1": "2", "2": "1", "3": "4", "4": "3"}
    world.turn(used[0] + beside[used[1]], healthy=False)
    for each in gang("next", tenant="small", pods=3):
        take_with_quota(world, each, world.ask(each))

    rows = {node[0] for node, _ in world.bind(*gang("large", tenant="large", pods=4))}
    assert len(rows) == 1
