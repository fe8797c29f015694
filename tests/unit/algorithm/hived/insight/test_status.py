"""The original's pages: its fields, where it has them and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.hived.harness import HivedHarness, gang, one, racks

#: b is promised what it does not use.
WORLD = racks(a="rack.host 2", b="rack.host.socket 1")
NOON = 1_700_000_000.0


def shown(world: HivedHarness, path: str) -> Any:
    page = world.algorithm.page(path)
    return page if isinstance(page, dict) else msgspec.json.decode(b"".join(page))


def every(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for cell in cells for each in (cell, *every(cell.get("cellChildren", [])))]


def lazily_preempted(world: HivedHarness) -> dict[str, Any] | None:
    return shown(world, "affinitygroups/lazy")["status"].get("lazyPreemptionStatus")


# -- since when a group is without its quota --------------------------------------------------------------------------


def test_a_group_that_lost_its_quota_says_to_whom_and_when():
    world = HivedHarness(WORLD)
    world.algorithm.set_time(NOON)
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True))
    world.algorithm.set_time(NOON + 61.5)
    world.bind(one("high", leafs=4, priority=5))
    world.algorithm.set_time(NOON + 3600)
    world.bind(one("other", tenant="b", leafs=1))

    assert lazily_preempted(world) == {"preemptor": "high", "preemptionTime": "2023-11-14T22:14:21Z"}


def test_asking_does_not_change_since_when():
    world = HivedHarness(WORLD)
    world.algorithm.set_time(NOON)
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True))
    high = one("high", leafs=4, priority=5)
    world.submit(high)
    world.ask(high)
    assert lazily_preempted(world) is None

    world.bind(high)
    world.algorithm.set_time(NOON + 9)
    higher = one("higher", leafs=4, priority=9)
    world.submit(higher)
    world.ask(higher)

    assert lazily_preempted(world) == {"preemptor": "high", "preemptionTime": "2023-11-14T22:13:20Z"}


def test_where_nobody_says_the_time_none_is_shown():
    world = HivedHarness(WORLD)
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True), one("high", leafs=4, priority=5))

    assert lazily_preempted(world) == {"preemptor": "high"}


def test_what_was_learned_before_anybody_said_the_time_counts_from_then():
    """As the original, which says the time of its restart; also where other settings take over."""
    world = HivedHarness(WORLD)
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True), one("high", leafs=4, priority=5))

    world.algorithm.set_time(NOON)
    world.algorithm.set_time(NOON + 9)

    assert lazily_preempted(world) == {"preemptor": "high", "preemptionTime": "2023-11-14T22:13:20Z"}


# -- the type of devices ----------------------------------------------------------------------------------------------


def test_the_root_of_a_virtual_tree_has_the_type_of_its_devices_also_beside_its_hardware():
    world = HivedHarness(WORLD)
    world.bind(one("g", leafs=1))

    cells = every(shown(world, "clusterstatus/physicalcluster"))
    bound = {cell["cellType"]: cell["virtualCell"].get("leafCellType") for cell in cells if "virtualCell" in cell}

    assert bound == {"host": "gpu", "socket": None, "gpu": None}


def test_the_root_of_a_physical_tree_has_it_also_beside_its_virtual_cell():
    """Of a tenant that is promised a rack its root; of one that is promised a host nothing."""
    world = HivedHarness(racks(a="rack 1", b="rack.host 1"))
    world.bind(one("g", leafs=1), one("h", tenant="b", leafs=1))

    bound = {
        tenant: {
            cell["cellType"]: cell["physicalCell"].get("leafCellType")
            for cell in every(shown(world, f"clusterstatus/virtualclusters/{tenant}"))
            if "physicalCell" in cell
        }
        for tenant in "ab"
    }

    assert bound["a"] == {"rack": "gpu", "host": None, "socket": None, "gpu": None}
    assert bound["b"] == {"host": None, "socket": None, "gpu": None}


def test_in_a_tree_the_root_alone_has_the_type_of_its_devices():
    world = HivedHarness(WORLD)
    world.bind(one("g", leafs=1))

    for page in ("clusterstatus/physicalcluster", "clusterstatus/virtualclusters/a"):
        for root in shown(world, page):
            assert [cell.get("leafCellType") for cell in every([root])] == ["gpu"] + [None] * (len(every([root])) - 1)


def test_a_cell_that_is_made_up_for_a_borrowed_device_has_the_originals_fields():
    world = HivedHarness(WORLD)
    world.bind(one("o", tenant="b", priority=-1))

    [borrowed] = [
        cell for cell in shown(world, "clusterstatus/virtualclusters/b") if cell["cellAddress"].endswith("-opp")
    ]

    own = {"cellType", "cellAddress", "cellState", "cellHealthiness", "cellPriority"}
    assert borrowed.keys() == own | {"physicalCell"}
    assert borrowed["physicalCell"].keys() == own | {"vc"}
