"""What another configuration changes, and for whom: both algorithms have really recovered the pods."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.hived.cells.config import HivedConfigError
from algorithm.hived.formats.plainyaml import load
from algorithm.hived.insight.diff import Change, Kind, Room, compare, room
from algorithm.hived.insight.outcomes import Outcome, QuotaStatus, outcomes
from algorithm.model import Pod
from extender.scheduling.bootstrap import ClusterState, bootstrap
from extender.scheduling.driver import AlgorithmDriver
from tests.support.hived.harness import RACKS, HivedHarness, gang, node, one, racks

TWO = racks(a="rack.host 2", b="rack.host 1")


def changes(old: str, new: str) -> set[tuple[str, str, str, str]]:
    return {(each.what, each.name, each.before, each.after) for each in compare(load(old), load(new))}


def after(world: HivedHarness, config: str) -> list[Outcome]:
    """What becomes of the groups of this world, in which nothing but bound pods counts."""
    worlds = HivedHarness(RACKS, nodes=False), HivedHarness(config, nodes=False)
    truth = ClusterState({name: node(name) for name in world.nodes}, dict(world.allocated))
    for each in worlds:
        bootstrap(AlgorithmDriver(each.algorithm), truth)
        each.audit()
    return outcomes(worlds[0].algorithm.hive, worlds[1].algorithm.hive)


# -- configurations ---------------------------------------------------------------------------------------------------


def test_a_configuration_is_like_itself() -> None:
    assert compare(load(RACKS), load(RACKS)) == []


def test_promises_that_differ_are_named_with_what_they_were() -> None:
    new = racks(a="rack.host 1", c="rack 1")
    assert changes(RACKS, new) == {
        ("virtualCluster", "a", "2 rack.host", "1 rack.host"),
        ("virtualCluster", "b", "1 rack.host, 1 rack.host.socket", ""),
        ("virtualCluster", "c", "", "1 rack"),
    }


def test_machines_and_cells_that_come_and_go_are_named() -> None:
    more = RACKS.replace(
        "virtualClusters",
        "  - cellType: rack\n    cellChildren: [{cellAddress: m5}, {cellAddress: m6}]\nvirtualClusters",
    )
    assert changes(RACKS, more) == {
        ("cells", "rack", "2", "3"),
        ("machine", "m5", "", "4 gpu in rack"),
        ("machine", "m6", "", "4 gpu in rack"),
    }
    assert {each.kind for each in compare(load(more), load(RACKS)) if each.what == "machine"} == {Kind.REMOVED}


def test_a_machine_that_is_resized_is_changed() -> None:
    found = changes(RACKS, RACKS.replace("childCellNumber: 2}", "childCellNumber: 4}", 1))
    assert ("cellType", "socket", "2 gpu", "4 gpu") in found
    assert ("machine", "m1", "4 gpu in rack", "8 gpu in rack") in found


def test_pinned_cells_are_followed_to_where_they_are_and_whose() -> None:
    pinned = RACKS.replace("{cellAddress: m1}", "{cellAddress: m1, pinnedCellId: p}")
    owned = pinned.replace("  a:\n", "  a:\n    pinnedCells: [{pinnedCellId: p}]\n")
    assert changes(RACKS, pinned) == {("pinnedCell", "p", "", "host 0/m1 for nobody")}
    assert ("pinnedCell", "p", "host 0/m1 for nobody", "host 0/m1 for a") in changes(pinned, owned)
    assert ("virtualCluster", "a", "2 rack.host", "2 rack.host, pinned p") in changes(pinned, owned)


def test_settings_of_our_own_are_compared_with_their_defaults() -> None:
    assert changes(RACKS, RACKS + "lax: false\n") == set()
    assert changes(RACKS, RACKS + "keepHealthyCellsWhole: true\n") == {
        ("setting", "keepHealthyCellsWhole", "false", "true")
    }


@pytest.mark.parametrize(
    ("own", "change"),
    [
        ("groupNamesPer: []\n", None),
        ("allowedNamespaces: {}\n", None),
        ("groupNamesPer: [namespace]\n", ("groupNamesPer", "none", "[namespace]")),
        ("allowedNamespaces: {a: [x, y]}\n", ("allowedNamespaces", "{}", "{a: [x, y]}")),
        ("badDevices: {}\n", ("badDevices", "none", "{}")),
        ("opportunisticLimits: {cluster: 3}\n", ("opportunisticLimits", "none", "{cluster: 3}")),
    ],
)
def test_settings_with_parts_are_compared_by_what_is_said(own: str, change: tuple[str, str, str] | None) -> None:
    assert changes(RACKS, RACKS + own) == ({("setting", *change)} if change is not None else set())


def test_promises_that_do_not_fit_are_compared_all_the_same() -> None:
    assert changes(RACKS, racks(a="rack 7", b="rack.host 1, rack.host.socket 1")) == {
        ("virtualCluster", "a", "2 rack.host", "7 rack")
    }


@pytest.mark.parametrize("text", ["physicalCluster: []", "physicalCluster: {physicalCells: [{}]}"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(HivedConfigError):
        compare(load(RACKS), load(text))


def test_what_promises_leave_over() -> None:
    found = list(room(HivedHarness(TWO).settings.layout()))
    assert found == [
        Room("rack", "rack", 0, 2),
        Room("rack", "host", 3, 1),
        Room("rack", "socket", 0, 2),
        Room("rack", "gpu", 0, 4),
    ]


def test_a_change_says_what_it_is() -> None:
    assert Change("machine", "m", "", "x").kind is Kind.ADDED
    assert Change("machine", "m", "x", "").kind is Kind.REMOVED
    assert Change("machine", "m", "x", "y").kind is Kind.CHANGED


# -- groups -----------------------------------------------------------------------------------------------------------


def only_changed(found: list[Outcome]) -> dict[str, Outcome]:
    return {each.group: each for each in found if each.changed}


def test_nobody_is_touched_by_a_promise_that_grows() -> None:
    w = HivedHarness()
    w.bind(*gang("g", pods=2, leafs=4), one("opp", tenant="b", leafs=2, priority=-1))
    found = after(w, racks(a="rack.host 3", b="rack.host 1"))
    assert [each.after for each in found] == [QuotaStatus.GUARANTEED, QuotaStatus.OPPORTUNISTIC]
    assert only_changed(found) == {}


def test_of_a_smaller_promise_the_oldest_keeps_its_part() -> None:
    w = HivedHarness()
    young, old = one("young", leafs=4), one("old", leafs=4)
    for each, created in ((young, "2026-02-01T00:00:00Z"), (old, "2026-01-01T00:00:00Z")):
        w.bind(dated(each, created))
    found = only_changed(after(w, racks(a="rack.host 1", b="rack.host 1")))
    assert list(found) == ["young"]
    assert (found["young"].before, found["young"].after) == (QuotaStatus.GUARANTEED, QuotaStatus.UNCOVERED)
    assert found["young"].text == (
        "group young of a (priority 0): goes on, but loses its guarantee (the promise to a does not cover it)"
    )


def test_the_more_important_keeps_it_whoever_is_older() -> None:
    w = HivedHarness()
    w.bind(dated(one("old", leafs=4), "2026-01-01T00:00:00Z"))
    w.bind(dated(one("high", leafs=4, priority=5), "2026-02-01T00:00:00Z"))
    found = only_changed(after(w, racks(a="rack.host 1", b="rack.host 1")))
    assert list(found) == ["old"]
    assert "its quota is high's" in found["old"].text


def test_a_tenant_that_is_gone_leaves_its_groups_running() -> None:
    w = HivedHarness()
    w.bind(one("g", leafs=4))
    assert "there is no virtual cluster a" in only_changed(after(w, racks(b="rack.host 1")))["g"].text


def test_devices_that_are_configured_no_more_leave_the_account() -> None:
    w = HivedHarness()
    [(machine, _)] = w.bind(one("g", leafs=4))
    found = only_changed(after(w, RACKS.replace(f"cellAddress: {machine}}}", "cellAddress: elsewhere}")))
    assert found["g"].lost == tuple(f"{machine}/{number}" for number in range(4))
    assert "out of account" in found["g"].text


def test_who_lost_a_guarantee_gets_it_back_with_the_old_promise() -> None:
    w = HivedHarness()
    w.bind(one("g", leafs=4))
    small, large = (HivedHarness(config, nodes=False) for config in (racks(b="rack.host 1"), RACKS))
    for each in (small, large):
        bootstrap(
            AlgorithmDriver(each.algorithm), ClusterState({name: node(name) for name in w.nodes}, dict(w.allocated))
        )
    [found] = outcomes(small.algorithm.hive, large.algorithm.hive)
    assert "gets its guarantee back" in found.text
    assert list(small.algorithm.changes_to(large.algorithm)) == [found.text]
    assert list(large.algorithm.changes_to(large.algorithm)) == []


def dated(pod: Pod, created: str) -> Pod:
    return msgspec.structs.replace(pod, created=created)
