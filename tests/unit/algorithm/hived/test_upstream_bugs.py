"""Every defect of the original that concerns the algorithm, by its number, and what happens here instead.

The numbers are those of the list in docs/moving-from-hived.md. BUG-2, 17, 18, 23 and 24 are also met where the cells,
configurations and annotations are tested; sequences that were recorded while the original crashed are played in
tests/conformance.
"""

import json
import random

import pytest

from algorithm.hived.formats.bindinfo import BIND_INFO
from algorithm.hived.formats.podspec import SPEC
from algorithm.hived.state.groups import GroupState
from algorithm.interface import PodRefused, Wait
from algorithm.model import Pod, pairs
from tests.support.hived.harness import RACKS, HivedHarness, allocations, gang, in_any_order, one, racks, snapshot

#: b owns a rack, a two machines of the other one; nothing is left.
TIGHT = racks(a="rack.host 2", b="rack 1")


def test_bug_1_pods_that_are_recovered_before_their_machines_are_announced_keep_their_own_tenants_cells():
    world = HivedHarness()
    world.bind(*gang("a", pods=2, leafs=4), one("b", tenant="b", leafs=4), one("socket", tenant="b", leafs=2))
    before = allocations(world.hive)
    late, world.nodes = dict(world.nodes), {}
    world.restart(random.Random(1))

    world.turn(*late, healthy=True)

    assert allocations(world.hive) == before
    assert not world.algorithm.unrecoverable_pods


@pytest.mark.parametrize("tenants", ["virtualClusters: {}", "virtualClusters: {idle: {}}"])
def test_bug_2_a_chain_in_which_no_tenant_has_quota_serves_opportunistic_pods(tenants):
    world = HivedHarness(RACKS[: RACKS.index("virtualClusters:")] + tenants)

    if "idle" in tenants:
        assert world.bind(one("g", tenant="idle", leafs=4, priority=-1))
    assert world.hive.allocators["rack"].total_left[4] == 2


def test_bug_3_a_configuration_that_promises_what_runs_elsewhere_takes_quota_and_no_device():
    """Two machines of a run in two racks, and now b is promised a whole one."""
    world = HivedHarness(RACKS)
    world.turn("m2", healthy=False)
    world.bind(one("one", leafs=4), one("two", leafs=4))
    world.turn("m2", healthy=True)
    nodes = {place.node for group in world.hive.groups.values() for place in group.places[4]}
    assert nodes & {"m1", "m2"}
    assert nodes & {"m3", "m4"}

    world.restart(config=TIGHT)

    kept_quota = [group.virtual is not None for group in world.hive.groups.values()]
    assert sorted(kept_quota) == [False, True]
    assert world.hive.allocators["rack"].total_left[4] == 1


@pytest.mark.parametrize(
    "bind_info",
    [
        None,
        "",
        "nonsense",
        "[" * 100_000,
        "node: m1\nleafCellIsolation: [0]\ncellChain: rack\naffinityGroupBindInfo: []\n",
        "node: m2\nleafCellIsolation: [0]\ncellChain: rack\naffinityGroupBindInfo:\n- podPlacements:\n"
        "  - {physicalNode: m2, physicalLeafCellIndices: [0], preassignedCellTypes: [host]}\n",
    ],
    ids=["none", "empty", "nonsense", "deep", "no places", "another node"],
)
def test_bug_4_a_bound_pod_without_a_bind_info_that_fits_is_passed_over_and_shown(bind_info):
    """Any user can create such a pod; the original's process ended, again and again."""
    world = HivedHarness()
    before = snapshot(world.hive)
    annotations = {
        SPEC: "virtualCluster: a\nleafCellNumber: 1",
        **({BIND_INFO: bind_info} if bind_info is not None else {}),
    }
    stranger = Pod(namespace="ns", name="s", uid="u-s", node_name="m1", annotations=pairs(annotations))
    world.found(stranger)

    assert list(world.algorithm.inspect()["strangers"]) == ["ns/s"]
    assert snapshot(world.hive) == before

    world.delete(stranger)

    assert world.algorithm.inspect()["strangers"] == {}


def test_bug_4_a_bind_info_that_does_not_fit_the_wish_harms_nobody():
    """The wish says one pod of one device; the bind info speaks of two pods of four."""
    world = HivedHarness()
    world.bind(*gang("g", pods=2, leafs=4))
    [mine, _] = world.allocated.values()
    text = mine.annotation(BIND_INFO)
    world.delete(*list(world.allocated.values()))

    liar = Pod(
        namespace="ns",
        name="liar",
        uid="u-liar",
        node_name=mine.node_name,
        annotations=pairs({SPEC: "virtualCluster: a\nleafCellNumber: 1", BIND_INFO: text}),
    )
    world.found(liar)
    world.delete(liar)

    assert not world.hive.groups


def test_bug_5_a_late_pod_of_a_gang_that_is_being_preempted_waits():
    world = HivedHarness()
    first, late = gang("low", pods=2, leafs=4)
    world.bind(first)
    world.preempt(gang("high", pods=2, leafs=4, priority=5)[0])
    assert world.group("low").state is GroupState.BEING_PREEMPTED

    answer = world.ask(late)

    assert isinstance(answer, Wait)
    assert "low is being preempted" in answer.reason.text


def test_bug_6_a_preemption_that_ignores_offers_is_not_cancelled_for_them():
    world = HivedHarness()
    world.bind(*gang("low", pods=2, leafs=4))
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    world.preempt(high)

    world.preempt(high, offered=["m4"])

    assert world.group("high").state is GroupState.PREEMPTING
    assert world.group("low").state is GroupState.BEING_PREEMPTED


def test_bug_7_a_gang_over_several_cells_beside_a_bad_machine_is_placed():
    """The whole story is in test_mapping.py; here, one machine of each rack is bad and a wants the other two."""
    world = HivedHarness()
    world.turn("m1", "m3", healthy=False)

    assert {place[0] for place in world.bind(*gang("a", pods=2, leafs=4))} == {"m2", "m4"}


def test_bug_8_a_victim_whose_preemptor_gives_up_is_allocated_again():
    world = HivedHarness()
    first, late = gang("low", pods=2, leafs=4)
    world.bind(first)
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    world.preempt(high)

    world.delete(high)

    assert world.group("low").state is GroupState.ALLOCATED
    assert world.bind(late)


def test_bug_9_a_more_important_pod_on_reserved_cells_ends_the_preemption_that_waited_for_them():
    world = HivedHarness()
    low = gang("low", pods=2, leafs=4)
    world.bind(*low)
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    world.preempt(high)
    world.delete(*low)

    world.bind(one("highest", leafs=4, priority=9))

    assert "high" not in world.hive.groups
    assert isinstance(world.ask(high), Wait)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_bug_10_a_recovered_pod_has_its_own_place_whoever_comes_first(order):
    world = HivedHarness()
    pods = gang("g", pods=2, leafs=4)
    world.bind(*pods)
    uids = [pods[index].uid for index in order]
    world.restart(uids)

    assert [member.uid for member in world.group("g").slots[4]] == [pod.uid for pod in pods]

    world.delete(pods[0])

    assert isinstance(world.ask(one("other", leafs=4)), Wait)


def test_bug_11_a_doomed_cell_in_use_stays_with_its_user():
    """A machine of b's rack is bad, the other one is used; whatever turns healthy elsewhere, b keeps it."""
    world = HivedHarness(TIGHT)
    world.turn("m1", "m3", healthy=False)
    pod = one("b", tenant="b", leafs=4)
    world.bind(pod)
    place = allocations(world.hive)

    for name in ("m1", "m3"):
        world.turn(name, healthy=True)
        assert allocations(world.hive) == place
    world.delete(pod)

    assert in_any_order(snapshot(world.hive)) == in_any_order(snapshot(HivedHarness(TIGHT).hive))


def test_bug_12_a_pod_that_names_a_preempting_group_but_has_another_size_is_refused():
    world = HivedHarness()
    world.bind(*gang("low", pods=2, leafs=4))
    world.preempt(gang("high", pods=2, leafs=4, priority=5)[0])

    with pytest.raises(PodRefused, match="high exists with affinityGroup.members"):
        world.ask(one("high", leafs=1, priority=5))

    assert world.group("high").state is GroupState.PREEMPTING


def test_bug_13_a_group_with_holes_is_shown():
    world = HivedHarness()
    world.bind(*gang("g", pods=2, leafs=4))
    world.restart(config=TIGHT.replace("{cellAddress: m2}", "{cellAddress: m9}"))

    shown = world.algorithm.page("affinitygroups/g")

    assert shown["status"]["physicalPlacement"] == {"m1": [0, 1, 2, 3]}
    assert json.loads(b"".join(world.algorithm.page("affinitygroups/")))["items"] == [shown]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"tenant": "b"}, "virtualCluster 'a', but this pod says 'b'"),
        ({"priority": 7}, "priority 0, but this pod says 7"),
        ({"pods": 3}, "affinityGroup.members"),
    ],
)
def test_bug_14_a_pod_that_differs_from_its_group_is_refused(wish, field):
    world = HivedHarness()
    world.bind(gang("g", pods=2, leafs=4)[0])

    with pytest.raises(PodRefused, match=field):
        world.ask(gang("g", **{"pods": 2, "leafs": 4, **wish})[1])


def test_bug_15_nobody_joins_another_tenants_group_by_its_name():
    world = HivedHarness()
    world.bind(gang("training", pods=2, leafs=4)[0])

    with pytest.raises(PodRefused, match="training exists with virtualCluster 'a'"):
        world.ask(gang("training", tenant="b", pods=2, leafs=4)[1])


def test_bug_16_a_pod_with_an_invalid_wish_leaves_nothing_behind():
    world = HivedHarness()
    invalid = Pod(namespace="ns", name="i", uid="u-i", node_name="m1", annotations=pairs({SPEC: "priority: 5000"}))
    world.found(invalid)
    world.delete(invalid)

    assert world.algorithm.unrecoverable_pods == {}


def test_bug_21_a_restart_while_a_machine_of_each_rack_is_bad_keeps_all_allocations():
    """All machines are bad at first, so b's whole rack is doomed to where a's pod runs."""
    world = HivedHarness(TIGHT)
    world.bind(one("a", leafs=4))
    world.turn("m2", "m3", healthy=False)
    before = allocations(world.hive)

    world.restart()

    assert allocations(world.hive) == before


def test_bug_21_a_restart_with_any_machines_bad_keeps_all_allocations_in_any_order():
    world = HivedHarness()
    world.bind(*gang("a", pods=2, leafs=4), one("b", tenant="b", leafs=4), one("o", tenant="a", leafs=3, priority=-1))
    before = allocations(world.hive)
    for number in range(16):
        for index in range(4):
            world.turn(f"m{index + 1}", healthy=bool(number >> index & 1))
        world.restart(random.Random(number))
        assert allocations(world.hive) == before


def test_bug_22_a_pod_on_a_bad_machine_can_be_deleted():
    world = HivedHarness(TIGHT)
    pods = [*gang("a", pods=2, leafs=4), one("b", tenant="b", leafs=4)]
    world.bind(*pods)
    world.turn("m1", "m2", "m3", "m4", healthy=False)

    world.delete(*pods)

    assert not world.hive.groups


def test_bug_23_cells_are_free_again_in_every_page_when_their_pods_have_gone():
    world = HivedHarness()
    pods = [one("a", leafs=1), one("b", tenant="b", leafs=1), one("o", leafs=1, priority=-1)]
    world.bind(*pods)
    world.delete(*pods)

    assert {cell.state.value for level in world.hive.layout.chains["rack"].full.values() for cell in level} == {"Free"}


def test_bug_24_a_cell_whose_pinned_id_nobody_refers_to_is_a_cell_like_any_other():
    world = HivedHarness(RACKS.replace("{cellAddress: m1}", "{cellAddress: m1, pinnedCellId: nobody}"))
    first = in_any_order(snapshot(world.hive))
    pods = gang("a", pods=2, leafs=4)
    assert "m1" in {place[0] for place in world.bind(*pods)}

    world.delete(*pods)

    assert in_any_order(snapshot(world.hive)) == first
