"""A pod may have devices of several preassigned cells, if these are hardware on one machine."""

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from algorithm.hived.formats import bindinfo
from algorithm.hived.formats.podspec import UserError
from algorithm.interface import Bind, PodRefused, Preempt, Wait
from tests.support.hived.claims import assert_everybody_is_granted, kept
from tests.support.hived.harness import (
    FILTERING,
    PREEMPTING,
    HivedHarness,
    allocations,
    explained,
    gang,
    in_any_order,
    one,
    racks,
    snapshot,
)

ON = "combineCells: true\n"
#: Single devices, beside a tenant that is promised whole racks.
SINGLE = racks(a="rack.host.socket.gpu 4", b="rack 1")


@pytest.fixture
def world():
    return HivedHarness(SINGLE + ON)


def written(world, name):
    return bindinfo.read(dict(world.allocated[f"u-{name}-0"].annotations)[bindinfo.BIND_INFO]).places


def end(world, *names):
    world.delete(*[world.allocated[f"u-{name}-0"] for name in names])


# -- where ------------------------------------------------------------------------------------------------------------


def test_a_pod_has_devices_of_two_cells_on_one_machine(world):
    assert world.bind(one("g", leafs=2)) == [("m1", "0,1")]

    roots = {cell.root.address for _, cell in world.group("g").leafs()}
    assert roots == {"a/0", "a/1"}


def test_it_waits_as_before_unless_that_is_asked_for():
    assert isinstance(HivedHarness(SINGLE).ask(one("g", leafs=2)), Wait)


def test_what_has_a_place_without_has_the_same_place():
    plain, combining = HivedHarness(SINGLE), HivedHarness(SINGLE + ON)
    wishes = [one("g"), one("b", tenant="b", leafs=4), one("h"), one("o", leafs=3, priority=-1)]

    assert plain.bind(*wishes) == combining.bind(*wishes)
    assert snapshot(plain.hive) == snapshot(combining.hive)


def test_cells_that_are_bound_on_one_machine_already_come_first():
    """Half a socket is in use: with one more it makes three devices; two new ones would, too."""
    world = HivedHarness(racks(a="rack.host.socket 3") + ON)
    world.bind(one("x"))

    assert world.bind(one("g", leafs=3)) == [("m1", "1,2,3")]
    assert len({cell.root for _, cell in world.group("g").leafs()}) == 2


def test_hardware_that_is_split_already_comes_before_whole_machines():
    world = HivedHarness(racks(a="rack.host.socket.gpu 2", b="rack.host.socket 1") + ON)
    world.bind(one("b", tenant="b", leafs=2))

    assert world.bind(one("g", leafs=2))[0][0] == world.group("b").places[2][0].node


def test_all_its_cells_may_be_used_at_once(world):
    assert world.bind(one("g", leafs=4)) == [("m1", "0,1,2,3")]
    assert isinstance(world.ask(one("h")), Wait)


def test_more_than_is_promised_is_not_there(world):
    world.bind(one("x"))

    assert isinstance(world.ask(one("g", leafs=4)), Wait)


def test_no_pod_is_spread_over_machines():
    world = HivedHarness(racks(a="rack.host.socket.gpu 8") + ON)

    assert isinstance(world.ask(one("g", leafs=5)), Wait)
    assert {node for node, _ in world.bind(*gang("h", pods=2, leafs=4))} <= world.nodes.keys()


def test_a_gang_of_different_sizes_is_placed_largest_first():
    world = HivedHarness(racks(a="rack.host.socket 3, rack.host.socket.gpu 2") + ON)

    places = world.bind(*gang("g", members={3: 1, 4: 1, 1: 1}))

    assert sum(len(devices.split(",")) for _, devices in places) == 8


def test_sockets_and_single_devices_combine():
    world = HivedHarness(racks(a="rack.host.socket 1, rack.host.socket.gpu 1") + ON)

    assert world.bind(one("g", leafs=3)) == [("m1", "0,1,2")]
    assert sorted(written(world, "g")[0][1][0].types) == ["gpu", "socket", "socket"]


def test_bad_and_unoffered_machines_are_not_used(world):
    world.turn("m1", healthy=False)

    answer = world.ask(one("g", leafs=2, ignoreK8sSuggestedNodes=False), offered=["m1", "m2", "m4"])

    assert isinstance(answer, Bind)
    assert answer.node in {"m2", "m4"}


# -- at nobody's cost -------------------------------------------------------------------------------------------------


def test_what_is_owed_to_others_stays_there():
    world = HivedHarness(racks(a="rack.host.socket.gpu 4", b="rack.host 3") + ON)
    world.bind(one("x"), one("g", leafs=2))

    assert len({node for node, _ in world.bind(*gang("b", tenant="b", pods=3, leafs=4))}) == 3


def test_it_waits_if_only_what_is_owed_to_others_would_do():
    """Its two devices are on two machines; a third machine for both would be b's."""
    world = HivedHarness(racks(a="rack.host.socket.gpu 8", b="rack.host 2") + ON)
    world.bind(*[one(f"x{number}") for number in range(8)])
    nodes = {name: world.group(name).places[1][0].node for name in (f"x{number}" for number in range(8))}
    first = [name for name, node in nodes.items() if node == "m1"]
    second = [name for name, node in nodes.items() if node != "m1"]
    end(world, first[0], second[0])

    assert isinstance(world.ask(one("g", leafs=2)), Wait)
    assert_everybody_is_granted(world)


def test_opportunistic_pods_have_to_go_if_need_be():
    world = HivedHarness(racks(a="rack.host.socket.gpu 2") + ON)
    world.bind(*gang("o", pods=8, leafs=2, priority=-1))
    pod = one("g", leafs=2)

    victims = world.preempt(pod)
    world.delete(*[each for uid, each in world.allocated.items() if uid.startswith("u-o-")])

    assert victims
    assert len(world.bind(pod)) == 1


def test_less_important_pods_of_its_tenant_have_to_go_if_need_be():
    world = HivedHarness(racks(a="rack.host.socket.gpu 2") + ON)
    world.bind(one("x"), one("y"))
    pod = one("g", leafs=2, priority=5)

    assert world.preempt(pod) == {"u-x-0", "u-y-0"}
    end(world, "x", "y")
    assert len(world.bind(pod)) == 1


def test_equally_important_pods_need_not_go():
    world = HivedHarness(racks(a="rack.host.socket.gpu 2") + ON)
    world.bind(one("x"))

    assert isinstance(world.ask(one("g", leafs=2)), Wait)


# -- what stands on pods ----------------------------------------------------------------------------------------------


def test_each_device_has_its_own_cells_type(world):
    world.bind(one("g", leafs=2))

    [(_, [place])] = written(world, "g")
    assert (place.node, place.indices, place.types) == ("m1", (0, 1), ("gpu", "gpu"))


@pytest.mark.parametrize("config", [SINGLE, SINGLE + ON], ids=["off", "on"])
@pytest.mark.parametrize("seed", range(3))
def test_a_restart_in_any_order_is_the_same_allocation_also_when_it_is_switched_off(config, seed):
    world = HivedHarness(SINGLE + ON)
    world.bind(one("x"), one("g", leafs=3), one("b", tenant="b", leafs=2), one("o", leafs=1, priority=-1))
    before = allocations(world.hive)

    world.restart(random.Random(seed), config=config)

    assert allocations(world.hive) == before


def test_who_waits_is_told_whose_end_would_help(world):
    world.bind(one("x"))
    waiting = one("g", leafs=4)
    world.submit(waiting)

    told = explained(world, waiting)
    assert any("1 more has to become free" in line for line in told)
    assert any("It would run if this ended: x" in line for line in told)


def test_who_waits_for_cells_to_come_together_is_not_told_that_it_never_runs():
    world = HivedHarness(racks(a="rack.host.socket.gpu 8", b="rack.host 2") + ON)
    world.bind(*[one(f"x{number}") for number in range(8)])
    end(world, "x0", "x7")
    waiting = one("g", leafs=2)
    world.submit(waiting)

    assert any("in several that can be on one machine" in line for line in explained(world, waiting))


# -- at random --------------------------------------------------------------------------------------------------------

CONFIGS = [
    SINGLE + ON,
    racks(a="rack.host.socket.gpu 6", b="rack.host 2") + ON,
    racks(a="rack.host.socket 3, rack.host.socket.gpu 2", b="rack.host 2") + ON,
    racks(a="rack.host.socket.gpu 3, rack.host 1", b="rack.host.socket 2, rack.host.socket.gpu 3") + ON,
]


class Walk:
    """Groups come and go, machines turn; nobody's promise is broken, and a restart is the same allocation."""

    def __init__(self, config, luck):
        self.world = HivedHarness(config)
        self.first = in_any_order(snapshot(self.world.hive))
        self.random = random.Random(luck)
        self.groups = self.spread = 0

    def run(self, steps):
        for _ in range(steps):
            step = self.random.choices((self.arrive, self.end, self.turn, self.crash), (12, 8, 1, 2))
            step[0]()
        self.world.delete(*self.world.waiting.values(), *self.world.allocated.values())
        for name in self.world.nodes:
            self.world.turn(name, healthy=True)
        assert in_any_order(snapshot(self.world.hive)) == self.first

    def arrive(self):
        pick, self.groups = self.random, self.groups + 1
        members = {pick.choice([1, 1, 2, 2, 3, 4]): pick.choice([1, 1, 2]), pick.choice([1, 2]): 1}
        priority, name = pick.choice([-1, 0, 0, 1, 2]), f"g{self.groups}"
        for each in gang(name, tenant=pick.choice("aab"), members=members, priority=priority):
            before = kept(self.world.hive)
            try:
                answer = self.world.ask(each, phase=pick.choice([FILTERING, PREEMPTING]))
            except (PodRefused, UserError):
                answer = None
            if isinstance(answer, Bind):
                self.world.take(each, answer)
                self.check(name, before)
            elif isinstance(answer, Preempt) and not self.world.preempting and pick.random() < 0.4:
                self.world.take_preemption(each, answer)
            else:
                self.world.delete(each)

    def check(self, name, before):
        group = self.world.group(name)
        assert group.virtual is None or group.priority >= 0
        for pods in (group.virtual or {}).values():
            for devices in pods:
                self.spread += len({cell.root for cell in devices if cell is not None}) > 1
        if all(self.world.nodes.values()):
            assert before <= kept(self.world.hive)
        assert_everybody_is_granted(self.world)

    def end(self):
        groups = list(self.world.hive.groups.values())
        gone = list(self.random.choice(groups).members()) if groups else []
        self.world.delete(*[self.world.allocated[each.uid] for each in gone], *self.world.preempting.values())

    def turn(self):
        self.world.turn(self.random.choice(sorted(self.world.nodes)), healthy=self.random.random() < 0.8)
        assert_everybody_is_granted(self.world)

    def crash(self):
        if not self.world.preempting:
            before = allocations(self.world.hive)
            self.world.restart(self.random)
            assert allocations(self.world.hive) == before


@settings(max_examples=12, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
@given(config=st.sampled_from(CONFIGS), luck=st.integers(0, 1 << 32))
def test_random_courses(config, luck):
    Walk(config, luck).run(40)
