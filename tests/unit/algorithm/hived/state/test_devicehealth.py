"""Single bad devices: what nodes say of them, and what follows for promises, placements and pods that run."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from algorithm.hived.state.devicehealth import BadDevicesSettings, DeviceHealth
from algorithm.interface import Bind, Preempt, Wait
from algorithm.model import Node, Taint
from tests.support.examples import few
from tests.support.hived.claims import assert_everybody_is_granted
from tests.support.hived.harness import (
    FILTERING,
    PREEMPTING,
    HivedHarness,
    allocations,
    explained,
    gang,
    in_any_order,
    node,
    one,
    racks,
    settings_of,
    snapshot,
)

ON = "badDevices: {}\n"
#: All four machines of four devices are promised to one.
WHOLE = racks(a="rack.host 4") + ON
FULL = racks(a="rack.host 2", b="rack.host 1, rack.host.socket 2") + ON
ROOMY = racks(a="rack.host 2", b="rack.host 1") + ON


@pytest.fixture
def world():
    return HivedHarness(ROOMY)


# -- what nodes say ---------------------------------------------------------------------------------------------------


def reader(**names):
    return DeviceHealth(BadDevicesSettings(**names), {"m1": frozenset(range(8))})


@pytest.mark.parametrize(
    ("text", "numbers"), [("3", {3}), ("0,3", {0, 3}), (" 7 , 0 ", {0, 7}), ("", set()), (" ", set())]
)
def test_an_annotation_lists_device_numbers(text, numbers):
    assert reader().read(node("m1", bad=text)) == numbers


@pytest.mark.parametrize("text", ["x", "0;3", "0,,3", "-1", "0-3", "1.0", "٣", "9" * 40, "0x1"])
def test_what_cannot_be_read_is_a_warning_and_changes_nothing(text):
    known = reader()
    known.read(node("m1", bad="2"))

    assert known.read(node("m1", bad=text)) == {2}
    assert known.warnings["m1"].startswith("annotation waggle.dev/bad-devices: expected device numbers")


def test_a_warning_ends_with_its_cause():
    known = reader()
    known.read(node("m1", bad="x"))
    known.read(node("m1", bad="1"))

    assert not known.warnings


def test_numbers_that_a_machine_does_not_have_are_a_warning_and_the_others_count():
    known = reader()

    assert known.read(node("m1", bad="3,8,9")) == {3}
    assert known.warnings == {"m1": "there is no device 8, 9 to be bad, only 0, 1, 2, 3, 4, 5, 6, 7"}


def test_a_taint_lists_device_numbers_with_underscores():
    taints = (Taint("waggle.dev/bad-devices", "PreferNoSchedule", "0_3"), Taint("other", "NoSchedule", "x"))

    assert reader().read(Node(name="m1", taints=taints)) == {0, 3}


def test_annotation_and_taint_count_both():
    both = Node(
        name="m1",
        annotations=(("waggle.dev/bad-devices", "1"),),
        taints=(Taint("waggle.dev/bad-devices", "PreferNoSchedule", "2"),),
    )

    assert reader().read(both) == {1, 2}
    assert reader(annotation="").read(both) == {2}
    assert reader(taint="").read(both) == {1}


def test_a_taint_without_numbers_is_a_warning():
    known = reader()
    known.read(Node(name="m1", taints=(Taint("waggle.dev/bad-devices", "NoSchedule"),)))

    assert "taint waggle.dev/bad-devices: expected device numbers" in known.warnings["m1"]


def test_names_are_free_to_choose():
    text = Node(name="m1", annotations=(("example.com/broken", "5"),))

    assert reader(annotation="example.com/broken").read(text) == {5}


def test_a_machine_that_is_not_configured_has_no_devices():
    known = reader()

    assert not known.read(node("other", bad="x"))
    assert not known.warnings


def test_nothing_is_read_unless_it_is_asked_for():
    world = HivedHarness(racks(a="rack.host 2"))
    world.mark("m1", "0")

    assert all(cell.healthy for cell in world.hive.layout.machines["m1"])
    assert not world.algorithm.inspect()["nodeWarnings"]


def test_a_misspelt_setting_is_refused():
    with pytest.raises(ValueError, match="did you mean annotation"):
        settings_of(racks(a="rack 1") + "badDevices: {anotation: x}\n")


def test_the_setting_stays_with_the_originals_laxness():
    assert settings_of(ON + "lax: true\nwhatever: 1\n").bad_devices == BadDevicesSettings()


# -- placements -------------------------------------------------------------------------------------------------------


def test_the_other_devices_of_the_machine_are_used():
    world = HivedHarness(WHOLE)
    world.mark("m1", "1")

    world.bind(*gang("g", pods=3, leafs=4))

    assert world.bind(*gang("h", pods=2)) == [("m1", "0"), ("m1", "2")]
    assert world.bind(one("i")) == [("m1", "3")]


def test_a_bad_device_is_never_given_away():
    world = HivedHarness(WHOLE)
    world.mark("m1", "0,1")

    answer = world.ask(one("g", pods=4, leafs=4))

    assert isinstance(answer, Wait)
    assert answer.reason.text == (
        "affinity group g would need bad hardware: have to use bad devices of node a/0 when scheduling in VC a"
    )


def test_healthy_hardware_comes_first(world):
    world.mark("m1", "0")

    assert {place for place, _ in world.bind(*gang("g", pods=2, leafs=2))} == {"m2"}


def test_opportunistic_pods_use_what_is_healthy(world):
    for name in world.nodes:
        world.mark(name, "0,1,2")

    places = world.bind(*gang("o", pods=4, leafs=1, priority=-1))

    assert sorted(places) == [(name, "3") for name in sorted(world.nodes)]
    assert isinstance(world.ask(one("more", priority=-1)), Wait)


def test_what_is_promised_is_kept_with_healthy_hardware_as_long_as_there_is_enough(world):
    world.mark("m1", "0")

    assert world.bind(one("b", tenant="b", leafs=4), *gang("a", pods=2, leafs=4))
    assert "m1" not in {pod.node_name for pod in world.allocated.values()}


def test_the_least_bad_hardware_is_doomed():
    world = HivedHarness(racks(a="rack.host 4") + ON)
    world.submit(one("x"))
    world.turn("m2", healthy=False)
    world.mark("m1", "0")
    world.bind(*gang("g", pods=2, leafs=4))

    assert len(world.bind(*gang("h", pods=3))) == 3


def test_what_is_doomed_is_chosen_anew_when_health_changes():
    world = HivedHarness(racks(a="rack.host 3") + ON)
    world.submit(one("x"))
    world.turn("m1", "m2", healthy=False)
    world.mark("m2", "3")
    world.turn("m2", healthy=True)
    world.bind(*gang("g", pods=2, leafs=4))

    assert world.bind(one("h", leafs=2)) == [("m2", "0,1")]


def test_a_device_that_is_healthy_again_is_used_again():
    world = HivedHarness(WHOLE)
    world.mark("m1", "0,1,2,3")
    assert isinstance(world.ask(one("g", pods=4, leafs=4)), Wait)
    world.mark("m1", "")

    assert isinstance(world.ask(one("g2", pods=4, leafs=4)), Bind)


def test_a_machine_that_is_not_ready_is_bad_whatever_is_written_on_it():
    world = HivedHarness(FULL)
    world.mark("m1", "1")
    world.turn("m1", healthy=False)
    assert not any(device.healthy for device in world.hive.layout.machines["m1"])
    world.turn("m1", healthy=True)

    assert [device.healthy for device in world.hive.layout.machines["m1"]] == [True, False, True, True]


def test_a_node_that_is_gone_and_comes_back_is_read_anew(world):
    world.mark("m1", "0")
    world.remove_node("m1")
    world.turn("m1", healthy=True)

    assert all(device.healthy for device in world.hive.layout.machines["m1"])


# -- pods that run ----------------------------------------------------------------------------------------------------


def test_pods_on_a_device_that_turns_bad_run_on(world):
    pods = gang("g", pods=2, leafs=2)
    [place, _] = world.bind(*pods)
    before = allocations(world.hive)
    world.mark(place[0], place[1])
    assert allocations(world.hive) == before

    world.delete(pods[0])
    assert world.bind(pods[0]) == [place], "a gang keeps its plan, as on a bad machine"


def test_a_preemption_that_waits_for_a_device_that_turned_bad_is_planned_anew(world):
    world.bind(*gang("low", pods=2, leafs=4))
    high = one("high", leafs=4, priority=5)
    world.preempt(high)
    reserved = world.group("high").places[4][0].node
    world.mark(reserved, "2")

    answer = world.ask(high, phase=PREEMPTING)

    assert isinstance(answer, (Bind, Preempt))
    assert answer.node != reserved


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_with_bad_devices_is_the_same_allocation(seed):
    world = HivedHarness(FULL)
    world.bind(*gang("g", members={1: 2, 2: 1}), *gang("b", tenant="b", pods=2, leafs=2))
    world.mark("m1", "0,2")
    world.mark("m3", "1")
    world.bind(*gang("late", members={1: 2}))
    before = allocations(world.hive)

    world.restart(random.Random(seed))

    assert allocations(world.hive) == before
    assert not world.algorithm.unrecoverable_pods


def test_a_fork_knows_bad_devices_and_hears_of_others():
    world = HivedHarness(WHOLE)
    world.mark("m1", "0")
    fork = world.algorithm.fork()
    fork.update_node(world.node("m1"), node("m1", bad="x"))
    fork.add_node(node("m2", bad="1"))

    assert [device.healthy for device in fork.hive.layout.machines["m1"]] == [False, True, True, True]
    assert [device.healthy for device in world.hive.layout.machines["m2"]] == [True] * 4


# -- for people -------------------------------------------------------------------------------------------------------


def test_who_waits_is_told_of_bad_devices_and_of_what_cannot_be_read():
    world = HivedHarness(WHOLE)
    world.mark("m1", "0,1")
    world.mark("m2", "none")
    waiting = one("g", pods=4, leafs=4)
    world.submit(waiting)

    told = explained(world, waiting)

    assert "Nobody gets bad machines (not Ready, cordoned, unknown) or bad devices: m1 0,1." in told
    assert any(line.startswith("Node m2: annotation waggle.dev/bad-devices: expected") for line in told)
    assert any("16 are left, but 2 of these are bad" in line for line in told)


def test_the_summary_counts_bad_devices_and_shows_warnings():
    world = HivedHarness(WHOLE)
    world.submit(one("x"))
    world.mark("m1", "0,1")
    world.mark("m2", "none")

    summary = world.algorithm.inspect()

    assert sum(tenant["bad"] for tenant in summary["virtualClusters"].values()) == 2
    assert list(summary["nodeWarnings"]) == ["m2"]


def test_the_originals_pages_show_the_leaf_and_what_contains_it_as_bad():
    world = HivedHarness(WHOLE)
    world.mark("m1", "3")

    pieces = b"".join(world.algorithm.page("clusterstatus/physicalcluster"))

    # The device, its socket, machine and rack; and, since it is promised, the first three virtual ones beside them.
    assert pieces.count(b'"cellHealthiness":"Bad"') == 7


# -- at random --------------------------------------------------------------------------------------------------------

picks = st.integers(0, 1 << 16)
CONFIGS = [
    FULL,
    ROOMY,
    racks(a="rack.host.socket 2, rack.host 1", b="rack 1") + ON,
    racks(a="rack.host.socket.gpu 5, rack.host 1", b="rack.host.socket 2") + ON,
]


class BadDevicesMachine(RuleBasedStateMachine):
    """Devices and machines turn bad and healthy under gangs; the hive is audited after every call."""

    @initialize(config=st.sampled_from(CONFIGS), sparing=st.booleans(), luck=picks)
    def start(self, config, sparing, luck):
        self.world = HivedHarness(config + f"keepHealthyCellsWhole: {str(sparing).lower()}\n")
        self.first = in_any_order(snapshot(self.world.hive))
        self.random = random.Random(luck)
        self.groups = 0

    def machine(self, pick):
        return sorted(self.world.nodes)[pick % len(self.world.nodes)]

    @rule(pick=picks, bad=st.sets(st.integers(0, 3), max_size=3))
    def devices_turn(self, pick, bad):
        self.world.mark(self.machine(pick), ",".join(map(str, sorted(bad))))
        assert_everybody_is_granted(self.world)

    @rule(pick=picks, healthy=st.sampled_from([True, True, False]))
    def machine_turns(self, pick, healthy):
        self.world.turn(self.machine(pick), healthy=healthy)
        assert_everybody_is_granted(self.world)

    @rule(
        pick=picks,
        members=st.dictionaries(st.sampled_from([1, 2, 3, 4]), st.integers(1, 2), min_size=1, max_size=2),
        priority=st.sampled_from([-1, 0, 1]),
        lazy=st.booleans(),
    )
    def group_arrives(self, pick, members, priority, lazy):
        tenants = sorted(self.world.hive.layout.tenants)
        self.groups += 1
        more = {"lazyPreemptionEnable": lazy}
        for each in gang(f"g{self.groups}", tenant=tenants[pick % 2], members=members, priority=priority, **more):
            answer = self.world.ask(each, phase=self.random.choice([FILTERING, PREEMPTING]))
            if isinstance(answer, Bind):
                self.world.take(each, answer)
                self.on_healthy(each)
            else:
                self.world.delete(each)
        assert_everybody_is_granted(self.world)

    def on_healthy(self, each):
        """At the first pod of a gang, nothing of its plan is bad."""
        group = self.world.group(each.name.rpartition("-")[0])
        if each.name.endswith("-0"):
            assert all(device.healthy for device, _ in group.leafs())

    @rule(pick=picks)
    @precondition(lambda self: self.world.allocated)
    def pod_ends(self, pick):
        self.world.delete(self.world.allocated[sorted(self.world.allocated)[pick % len(self.world.allocated)]])
        assert_everybody_is_granted(self.world)

    @rule()
    @precondition(lambda self: self.world.allocated)
    def crash(self):
        before = {name: each[1:] for name, each in allocations(self.world.hive).items()}
        self.world.restart(self.random)
        after = {name: each[1:] for name, each in allocations(self.world.hive).items()}
        assert after == before
        assert_everybody_is_granted(self.world)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        self.world.delete(*self.world.allocated.values())
        for name in self.world.nodes:
            self.world.mark(name, "")
            self.world.turn(name, healthy=True)
        assert in_any_order(snapshot(self.world.hive)) == self.first


TestBadDevices = BadDevicesMachine.TestCase
TestBadDevices.settings = few(25, 30)
