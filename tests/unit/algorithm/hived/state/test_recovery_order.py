"""Bound pods are recovered as a set: the order in which they are told, and questions in between, change nothing."""

from __future__ import annotations

import itertools
import json
import random

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from algorithm.hived import bootstrap
from algorithm.hived.formats.bindinfo import BIND_INFO
from algorithm.hived.state import lazy_preemption as lazily
from algorithm.hived.state.lazy_preemption import ORDER
from tests.conformance.hived_draws import SMALL
from tests.support.hived.harness import RACKS, HivedHarness, allocations, gang, node, one, pod, racks, state

ONE_PROMISE, PARTS = SMALL["one promise"], SMALL["parts of machines"]


def lazy(name, **more):
    return gang(name, lazyPreemptionEnable=True, **more)


def end(world, *uids):
    world.delete(*[world.allocated[uid] for uid in uids])


def is_guaranteed(world, name):
    return world.group(name).virtual is not None


def in_every_order(world, *, asked=()):
    """The worlds after a restart in each order of the bound pods."""
    return [world.restarted(order, asked=asked) for order in itertools.permutations(world.allocated)]


def assert_same_in_every_order(world):
    known = state(world.restarted(list(world.allocated)).algorithm)
    for other in (*in_every_order(world), *in_every_order(world, asked={1, 2})):
        assert state(other.algorithm) == known


# -- a member that was bound after its gang had lost its quota --------------------------------------------------------


@pytest.fixture
def lost():
    """g-0 was bound with quota, g-1 without. Who had taken the quota is gone."""
    world = HivedHarness(ONE_PROMISE)
    first, late = lazy("g", pods=2, leafs=2)
    world.bind(first, one("h", leafs=4, priority=5), late)
    end(world, "u-h-0")
    return world


def test_a_gang_has_lost_its_quota_if_any_of_its_pods_was_bound_without(lost):
    for world in in_every_order(lost):
        assert not is_guaranteed(world, "g")
        assert [group.name for group in world.hive.lazily_preempted] == ["g"]


@pytest.mark.parametrize("order", [["u-g-1", "u-g-0"], ["u-g-0", "u-g-1"]])
def test_who_came_after_a_restart_keeps_its_quota_at_the_next_one(lost, order):
    lost.restart(order)
    lost.bind(one("x", leafs=4))
    end(lost, "u-g-1")

    for world in in_every_order(lost):
        assert [is_guaranteed(world, name) for name in "gx"] == [False, True]


@pytest.mark.parametrize("order", [["u-g-1", "u-g-0"], ["u-g-0", "u-g-1"]])
def test_so_does_another_tenant_that_has_the_hardware_by_now(order):
    """b's machine is the one of which g uses a socket."""
    world = HivedHarness(PARTS)
    first, late = lazy("g", pods=2, leafs=1)
    world.bind(first, one("h", leafs=2, priority=5), late)
    end(world, "u-h-0")
    world.restart(order)
    machine = world.group("g").places[1][0].node
    world.turn("m1", "m2", healthy=False)
    world.turn(machine, healthy=True)
    world.bind(one("x", tenant="b", leafs=2))
    assert world.group("x").places[2][0].node == machine
    world.turn("m1", "m2", healthy=True)
    end(world, "u-g-1")

    for each in in_every_order(world):
        assert [is_guaranteed(each, name) for name in "gx"] == [False, True]


def test_a_gang_of_which_only_late_members_are_left_is_without_quota_and_named(lost):
    end(lost, "u-g-0")
    lost.restart()
    lost.bind(one("x", leafs=4))

    assert [group.name for group in lost.hive.lazily_preempted] == ["g"]
    assert [each.group for each in lazily.read(lost.allocated["u-x-0"].annotation(lazily.LAZILY_PREEMPTED))] == ["g"]


@pytest.mark.parametrize("order", [["u-g-1", "u-g-0"], ["u-g-0", "u-g-1"]])
def test_what_the_first_member_was_promised_can_be_given_back_whoever_is_told_first(lost, order):
    lost.restart(order, config=ONE_PROMISE + "promoteLazilyPreempted: true\n")

    assert is_guaranteed(lost, "g")


def test_a_gang_agreed_to_lazy_preemption_if_one_of_its_pods_did():
    world = HivedHarness(ONE_PROMISE)
    world.bind(*[mixed[index] for index, mixed in enumerate((lazy("g", pods=2, leafs=2), gang("g", pods=2, leafs=2)))])

    for each in in_every_order(world):
        assert each.group("g").lazy


# -- late news --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [["u-x-0"], ["u-g-0"], ["u-g-1", "u-x-0"], ["u-x-0", "u-g-0", "u-g-1"]])
def test_pods_that_are_told_after_the_start_lead_to_the_same_quotas(lost, late):
    lost.bind(one("x", leafs=4))

    lost.restart(late=late)

    assert [is_guaranteed(lost, name) for name in "gx"] == [False, True]


def test_a_late_member_that_is_told_after_the_start_takes_the_quota_from_its_gang(lost):
    lost.restart(late=["u-g-1"])

    assert not is_guaranteed(lost, "g")


# -- a changed configuration ------------------------------------------------------------------------------------------


def test_who_came_after_a_promise_was_reduced_keeps_its_quota():
    """Nobody had agreed to lazy preemption; the older group lost its quota, and then a third one used it."""
    two, less = ONE_PROMISE.replace("cellNumber: 1", "cellNumber: 2"), ONE_PROMISE
    world = HivedHarness(two)
    world.bind(one("older", leafs=4), one("oldest", leafs=4, priority=1))
    world.restart(config=less)
    assert [is_guaranteed(world, name) for name in ("older", "oldest")] == [False, True]
    end(world, "u-oldest-0")
    world.bind(one("x", leafs=4))

    for each in in_every_order(world):
        assert [is_guaranteed(each, name) for name in ("older", "x")] == [False, True]


def test_without_who_came_meanwhile_it_has_its_quota_back():
    world = HivedHarness(ONE_PROMISE.replace("cellNumber: 1", "cellNumber: 2"))
    world.bind(one("g", leafs=4), one("h", leafs=4, priority=1))
    world.restart(config=ONE_PROMISE)
    end(world, "u-h-0")
    world.restart()

    assert is_guaranteed(world, "g")


@pytest.fixture
def back_and_forth():
    """g lost its quota as the hosts were promised to b, h says so, and then they are promised to a again."""
    world = HivedHarness(racks(a="rack.host 2"))
    world.bind(one("g", leafs=4))
    world.restart(config=racks(b="rack.host 2"))
    world.bind(one("h", tenant="b", leafs=4))
    assert [each.group for each in lazily.read(world.allocated["u-h-0"].annotation(lazily.LAZILY_PREEMPTED))] == ["g"]
    world.settings = HivedHarness(racks(a="rack.host 2")).settings
    return world


def test_what_was_lost_to_a_configuration_is_given_back_if_nobody_has_to_pay(back_and_forth):
    for each in in_every_order(back_and_forth):
        assert [is_guaranteed(each, name) for name in "gh"] == [True, False]


@pytest.mark.parametrize("late", ["u-g-0", "u-h-0"])
def test_who_is_found_late_leads_to_the_same_quotas(back_and_forth, late):
    back_and_forth.restart(late=[late])

    assert [is_guaranteed(back_and_forth, name) for name in "gh"] == [True, False]


def test_the_more_important_keeps_its_quota_and_of_equals_the_older():
    world = HivedHarness(racks(a="rack.host 4"))
    for number, (name, priority) in enumerate([("c", 0), ("b", 0), ("a", 0), ("d", 7)]):
        each = msgspec.structs.replace(one(name, leafs=4, priority=priority), created=f"2026-01-01T00:00:0{number}Z")
        world.bind(each)
    world.settings = HivedHarness(racks(a="rack.host 2")).settings

    for each in in_every_order(world):
        assert [is_guaranteed(each, name) for name in "cbad"] == [True, False, False, True]


@pytest.mark.parametrize("is_named", [True, False])
def test_who_kept_its_quota_keeps_it_once_a_later_pod_names_the_other(is_named):
    """Two gangs are equally important, and the oldest pod of the older gang ends after the promise was reduced.

    Nothing on the pods that are left says which gang had kept its quota, until one more pod is bound.
    """
    world = HivedHarness(racks(a="rack.host 2"))
    pair = gang("pair", pods=2, leafs=2)
    for number, each in enumerate([pair[0], one("single", leafs=4), pair[1]]):
        world.bind(msgspec.structs.replace(each, created=f"2026-01-01T00:00:0{number}Z"))
    world.restart(config=racks(a="rack.host 1, rack 1"))
    assert [is_guaranteed(world, name) for name in ("pair", "single")] == [True, False]
    if is_named:
        world.bind(*gang("x", pods=2, leafs=4))

    end(world, "u-pair-0")

    assert is_guaranteed(world, "pair")
    for each in in_every_order(world):
        assert [is_guaranteed(each, name) for name in ("pair", "single")] == [is_named, not is_named]


def test_quota_that_a_larger_gang_cannot_use_is_given_back():
    """The more important gang of two does not fit into what is promised now; the other one does."""
    world = HivedHarness(racks(a="rack.host 3"))
    world.bind(one("g", leafs=4), *gang("large", pods=2, leafs=4, priority=5))
    world.settings = HivedHarness(racks(a="rack.host 1")).settings

    for each in in_every_order(world):
        assert [is_guaranteed(each, name) for name in ("g", "large")] == [True, False]


def test_a_place_without_a_pod_is_given_up_for_a_pod_that_runs_there():
    world = HivedHarness(racks(a="rack.host 2") + "obeyGangRelease: true\n")
    world.bind(*gang("g", pods=2, leafs=4))
    end(world, "u-g-0")
    world.bind(one("h", leafs=4))
    world.settings = HivedHarness(racks(a="rack.host 2")).settings

    for each in in_every_order(world):
        assert each.group("g").given_up == {(4, 0)}
    assert_same_in_every_order(world)


# -- start-up ---------------------------------------------------------------------------------------------------------


def some_groups():
    world = HivedHarness(RACKS)
    world.bind(*gang("g", pods=2, leafs=2), one("o", priority=-1), one("b", tenant="b", leafs=2))
    return world


def test_every_order_gives_the_same_state_to_the_last_list():
    assert_same_in_every_order(some_groups())


def test_who_asks_meanwhile_changes_nothing():
    world = some_groups()
    known = state(world.restarted(sorted(world.allocated)).algorithm)

    asked = world.restarted(sorted(world.allocated, reverse=True), asked=range(10))

    assert state(asked.algorithm) == known


def test_the_end_of_a_pod_ends_start_up_and_takes_nothing_from_anybody():
    """Were it as if the pod had never been there, the older group of two would be next."""
    world = HivedHarness(racks(a="rack.host 4"))
    world.bind(one("oldest", leafs=4), *gang("pair", pods=2, leafs=4), one("small", leafs=4))
    world.restart(["u-oldest-0", "u-pair-0", "u-pair-1", "u-small-0"], config=racks(a="rack.host 2"))
    assert [is_guaranteed(world, name) for name in ("oldest", "pair", "small")] == [True, False, True]

    end(world, "u-oldest-0")

    assert [is_guaranteed(world, name) for name in ("pair", "small")] == [False, True]


@pytest.mark.parametrize("asks", [True, False])
def test_nodes_count_before_pods_whenever_they_are_told(asks):
    world = some_groups()
    late = HivedHarness(RACKS, nodes=False)
    for uid, each in world.allocated.items():
        late.allocated[uid] = each
        late.algorithm.add_allocated_pod(each)
    assert not asks or late.hive.groups
    for name in world.nodes:
        late.algorithm.add_node(node(name))

    assert state(late.algorithm) == state(world.restarted(()).algorithm)


def test_accounts_are_made_anew_a_bounded_number_of_times(monkeypatch):
    config = racks(a="rack.host.socket.gpu 16")
    known = HivedHarness(config)
    known.bind(*[one(f"g{number}") for number in range(16)])
    monkeypatch.setattr(bootstrap, "_MOST_REMADE", 5)
    made = []
    accounts = bootstrap.Accounts
    monkeypatch.setattr(bootstrap, "Accounts", lambda *given: made.append(1) or accounts(*given))
    world = HivedHarness(config)
    for each in known.allocated.values():
        world.found(each)

    assert len(made) == 1 + 5
    assert allocations(world.hive) == allocations(known.hive)


def test_changes_of_nodes_are_remembered_up_to_a_bound():
    world = HivedHarness(RACKS)
    known = len(bootstrap_of(world)._health)
    for number in range(5000):
        world.algorithm.add_node(node("m1", healthy=bool(number % 2)))

    assert known == 4
    assert bootstrap_of(world).is_over
    assert not bootstrap_of(world)._health


def bootstrap_of(world):
    return world.algorithm._start


def test_the_time_is_no_question(monkeypatch):
    """It is said before each pod."""
    world = some_groups()
    made = []
    accounts = bootstrap.Accounts
    monkeypatch.setattr(bootstrap, "Accounts", lambda *given: made.append(1) or accounts(*given))
    other = HivedHarness(RACKS)
    for number, each in enumerate(world.allocated.values()):
        other.algorithm.set_time(1e9 + number)
        other.algorithm.add_allocated_pod(each)

    assert len(other.hive.groups) == 3
    assert other.hive.now == 1e9 + 3
    assert len(made) == 1


def test_a_fork_during_start_up_comes_to_the_same():
    world = some_groups()
    order = sorted(world.allocated)
    twin = world.restarted(order[:2])
    known = state(world.restarted(order).algorithm)

    half = HivedHarness(RACKS)
    for uid in order[:2]:
        half.algorithm.add_allocated_pod(world.allocated[uid])
    fork = half.algorithm.fork()
    for uid in order[2:]:
        fork.add_allocated_pod(world.allocated[uid])

    assert state(fork) == known == state(twin.algorithm)
    assert len(half.hive.groups) < len(fork.hive.groups)


# -- whatever stands on pods ------------------------------------------------------------------------------------------

NODES, GROUPS = ["m1", "m2", "m3"], ["g", "h", "x"]


@st.composite
def bound(draw, number):
    """A pod that somebody bound: it may contradict others in its place, its plan, its quota, and what it says."""
    leafs, name = draw(st.sampled_from([1, 2])), draw(st.sampled_from(GROUPS))
    types = draw(st.sampled_from(["host", "socket", "gpu", "", "nothing"]))
    starts = [draw(st.sampled_from([0, 1, 2])) for _ in range(2)]
    places = [
        {
            "physicalNode": draw(st.sampled_from(NODES)),
            "physicalLeafCellIndices": list(range(start, start + leafs)),
            "preassignedCellTypes": [types] * leafs,
        }
        for start in starts
    ]
    own = draw(st.sampled_from(places))
    info = {"node": own["physicalNode"], "leafCellIsolation": own["physicalLeafCellIndices"], "cellChain": "host"}
    wish = {
        "virtualCluster": draw(st.sampled_from(["a", "a", "b"])),
        "priority": draw(st.sampled_from([-1, 0, 0, 3])),
        "leafCellNumber": leafs,
        "lazyPreemptionEnable": draw(st.booleans()),
        "affinityGroup": {"name": name, "members": [{"podNumber": 2, "leafCellNumber": leafs}]},
    }
    said = [
        {"group": draw(st.sampled_from(GROUPS)), "by": draw(st.sampled_from([*GROUPS, ""])), "pods": [f"u-p{other}"]}
        for other in draw(st.lists(st.integers(0, 5), max_size=2))
    ]
    more = {lazily.LAZILY_PREEMPTED: json.dumps(said), ORDER: str(draw(st.integers(0, 3)))}
    info["affinityGroupBindInfo"] = [{"podPlacements": places}]
    return pod(f"p{number}", json.dumps(wish), **more).placed(info["node"], ((BIND_INFO, json.dumps(info)),))


FEW = settings(max_examples=40, deadline=None, derandomize=True, database=None, phases=[Phase.generate])


def assert_any_order(data, config, switches, luck):
    world = HivedHarness(SMALL[config] + "".join(f"{switch}: true\n" for switch in sorted(switches)))
    world.allocated = {each.uid: each for each in (data.draw(bound(number)) for number in range(6))}
    order = sorted(world.allocated)
    known = world.restarted(order)
    chance = random.Random(luck)
    for _ in range(3):
        other = world.restarted(chance.sample(order, len(order)), asked={chance.randrange(7)})
        assert state(other.algorithm) == state(known.algorithm)

    members = {member.uid for group in known.hive.groups.values() for member in group.members()}
    assert members | known.algorithm.unrecoverable_pods.keys() == set(order)
    known.restart(chance.sample(order, len(order)), late=[order[0]])
    members = {member.uid for group in known.hive.groups.values() for member in group.members()}
    assert members | known.algorithm.unrecoverable_pods.keys() == set(order)
    known.delete(*[known.allocated[uid] for uid in chance.sample(order, len(order))])
    assert not known.hive.groups


ANY_PODS = given(
    data=st.data(),
    config=st.sampled_from(["two of three", "mixed"]),
    switches=st.sets(st.sampled_from(["promoteLazilyPreempted", "obeyGangRelease"])),
    luck=st.integers(0, 1 << 32),
)


@FEW
@ANY_PODS
def test_any_pods_in_any_order_are_the_same_state(data, config, switches, luck):
    assert_any_order(data, config, switches, luck)


@pytest.mark.slow
@settings(FEW, max_examples=150)
@ANY_PODS
def test_many_pods_in_any_order_are_the_same_state(data, config, switches, luck):
    assert_any_order(data, config, switches, luck)
