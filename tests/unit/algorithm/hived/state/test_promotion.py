"""Groups that were preempted lazily have their quota back when there is room, in the order of a line."""

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from algorithm.hived.state import lazy_preemption as lazily
from algorithm.interface import Bind, Preempt
from tests.support.hived.claims import assert_everybody_is_granted
from tests.support.hived.harness import (
    FILTERING,
    PREEMPTING,
    HivedHarness,
    allocations,
    gang,
    in_any_order,
    one,
    racks,
    snapshot,
)

ON = "promoteLazilyPreempted: true\n"


#: Single devices: four are promised to the tenant of the groups that lose their quota.
SINGLE = racks(a="rack.host.socket.gpu 4", b="rack.host.socket.gpu 8")


@pytest.fixture
def world():
    return HivedHarness(SINGLE + ON)


def lazy(name, **more):
    return one(name, **{"lazyPreemptionEnable": True, **more})


def crowd(world, *pods):
    """They run, and the free devices are scattered, so that nobody has to go for a more important group."""
    world.bind(*pods, *[one(f"b{number}", tenant="b") for number in range(8)])
    end(world, "b0", "b2", "b4", "b6")


def is_guaranteed(world, name):
    return world.group(name).virtual is not None


def end(world, *names):
    world.delete(*[world.allocated[f"u-{name}-0"] for name in names])


def preempted(world, name="g"):
    """A group loses its quota to one that is more important; its tenant's other devices are in use."""
    crowd(world, lazy(name), *gang("other", pods=3, priority=5))
    world.bind(one("boss", priority=9))
    assert not is_guaranteed(world, name)


# -- when and in which order ------------------------------------------------------------------------------------------


def test_a_group_has_its_quota_back_when_its_preemptor_ends(world):
    preempted(world)
    assert world.group("g").lazily_preempted_by == "boss"

    end(world, "boss")

    assert is_guaranteed(world, "g")
    assert not world.group("g").lazily_preempted_by


def test_it_has_it_back_when_somebody_else_of_its_tenant_ends(world):
    preempted(world)

    world.delete(*[world.allocated[f"u-other-{number}"] for number in range(3)])

    assert is_guaranteed(world, "g")


def test_it_stays_as_it_is_unless_that_is_asked_for():
    world = HivedHarness(SINGLE)
    preempted(world)

    end(world, "boss")

    assert not is_guaranteed(world, "g")


def test_it_has_it_back_when_a_placement_came_to_nothing(world):
    preempted(world)

    world.expire(world.allocated["u-boss-0"])

    assert is_guaranteed(world, "g")


def test_it_has_it_back_when_a_preemption_is_cancelled(world):
    crowd(world, lazy("g"), *gang("held", pods=3))
    boss = gang("boss", pods=4, priority=9)
    world.preempt(boss[0])
    assert not is_guaranteed(world, "g")

    world.stop_preempting(boss[0])

    assert is_guaranteed(world, "g")


def test_what_was_taken_last_is_given_back_first(world):
    crowd(world, lazy("g"), lazy("h"), one("x", priority=5), one("y", priority=5))
    world.bind(one("boss", priority=9))
    [first] = [name for name in "gh" if not is_guaranteed(world, name)]
    world.bind(one("chief", priority=9))
    [last] = {"g", "h"} - {first}

    end(world, "x")
    assert [is_guaranteed(world, first), is_guaranteed(world, last)] == [False, True]

    end(world, "y")
    assert is_guaranteed(world, first)


def test_of_those_who_lost_it_at_once_the_more_important_is_first(world):
    crowd(world, lazy("g"), lazy("h", priority=1), *gang("other", pods=2, priority=5))
    world.bind(*gang("boss", pods=2, priority=9))
    world.restart(config=SINGLE.replace("cellNumber: 4", "cellNumber: 5") + ON)

    assert [is_guaranteed(world, name) for name in "gh"] == [False, True]


def test_nobody_overtakes_a_larger_group_in_the_line(world):
    large = gang("large", pods=2, priority=1, lazyPreemptionEnable=True)
    crowd(world, *large, lazy("small"), one("other", priority=9))
    world.bind(*gang("boss", pods=3, priority=9))

    end(world, "other")
    assert not any(is_guaranteed(world, name) for name in ("large", "small"))

    world.delete(*[world.allocated[f"u-boss-{number}"] for number in range(3)])
    assert all(is_guaranteed(world, name) for name in ("large", "small"))


# -- at nobody's cost -------------------------------------------------------------------------------------------------


def test_it_waits_while_its_device_is_part_of_what_somebody_else_has():
    """It goes on running there; b was given the machine around it, of which it uses another device."""
    world = HivedHarness(racks(a="rack.host.socket.gpu 2", b="rack.host 3") + ON)
    world.bind(lazy("g"), lazy("h"))
    world.bind(*gang("boss", pods=2, priority=9), *gang("b", tenant="b", pods=2, leafs=4), one("c", tenant="b"))
    assert world.group("c").places[1][0].node == world.group("g").places[1][0].node

    world.delete(*[world.allocated[f"u-boss-{number}"] for number in range(2)])
    for order in ([], ["u-c-0", "u-b-0"], ["u-g-0", "u-h-0"]):
        assert [is_guaranteed(world, name) for name in "bcgh"] == [True, True, False, False]
        world.restart(order)

    end(world, "c")
    assert all(is_guaranteed(world, name) for name in "bgh")


def test_who_is_promoted_is_nobodys_victim_any_more(world):
    preempted(world)
    assert world.algorithm.priority(world.allocated["u-g-0"]) == -1

    end(world, "boss")

    assert world.algorithm.priority(world.allocated["u-g-0"]) == 0


# -- what stands on pods ----------------------------------------------------------------------------------------------


def test_every_pod_of_a_group_says_who_ran_without_quota_when_it_was_placed(world):
    crowd(world, lazy("g"), lazy("h"), *gang("other", pods=2, priority=5))
    world.bind(*gang("boss", pods=2, priority=9))

    for number in range(2):
        said = lazily.record_of(world.allocated[f"u-boss-{number}"])
        assert [(each.group, each.by) for each in said.lost] == [("g", "boss"), ("h", "boss")]
        assert said.number == 1 + number


def test_so_does_one_that_had_to_preempt_for_its_place(world):
    crowd(world, lazy("g"), *gang("held", pods=3))
    boss = gang("boss", pods=4, priority=9)
    world.preempt(boss[0])
    world.delete(*[world.allocated[f"u-held-{number}"] for number in range(3)])
    world.bind(*boss)

    assert [[lost.group for lost in lazily.record_of(world.allocated[each.uid]).lost] for each in boss] == [["g"]] * 4


def test_nothing_is_written_as_long_as_nobody_lost_anything(world):
    crowd(world, lazy("g"))

    assert not any(lazily.ORDER in dict(each.annotations) for each in world.allocated.values())


@pytest.mark.parametrize("number", ["-1", "x", "1e3", "9" * 30, "٣", ""])
def test_a_number_that_makes_no_sense_was_early(number):
    lost = lazily.write([lazily.QuotaLoss("h", "k", ("u",))])
    odd = one("g").placed("m1", (*lost, (lazily.ORDER, number)))

    assert lazily.record_of(odd).number == 1


def test_only_who_agreed_can_be_named(world):
    world.bind(one("g"), one("h"))
    placed = world.allocated.pop("u-h-0")
    world.algorithm.delete_allocated_pod(placed)

    said = (*lazily.write([lazily.QuotaLoss("g", "h", ("u-g-0",))]), (lazily.ORDER, "7"))
    world.found(placed.placed(placed.node_name, said))

    assert is_guaranteed(world, "g")


def test_a_new_group_of_the_same_name_is_another_one(world):
    preempted(world)
    world.delete(world.allocated["u-g-0"], *[world.allocated[f"u-other-{number}"] for number in range(3)])
    world.bind(lazy("g"))

    for order in (["u-boss-0", "u-g-0"], ["u-g-0", "u-boss-0"]):
        world.restart(order)
        assert is_guaranteed(world, "g")


def test_a_late_pod_says_what_its_gang_was_promised(world):
    pods = gang("g", pods=2, lazyPreemptionEnable=True)
    crowd(world, pods[0], *gang("other", pods=2, priority=5))
    world.bind(one("boss", priority=9), pods[1])
    assert not is_guaranteed(world, "g")
    world.delete(world.allocated["u-g-0"])

    world.restart()
    end(world, "boss")

    assert is_guaranteed(world, "g")


# -- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_restart_in_any_order_comes_to_the_same(seed):
    world = HivedHarness(SINGLE + ON)
    crowd(world, *[lazy(name) for name in "ghi"], one("other", priority=5))
    world.bind(one("boss", priority=9))
    world.bind(one("chief", priority=9))
    end(world, "boss")
    before = allocations(world.hive)
    assert sum(is_guaranteed(world, name) for name in "ghi") == 2

    world.restart(random.Random(seed))

    assert allocations(world.hive) == before


# -- at random --------------------------------------------------------------------------------------------------------

CONFIGS = [
    racks(a="rack.host.socket.gpu 5", b="rack.host.socket.gpu 4") + ON,
    racks(a="rack.host.socket.gpu 4", b="rack.host 1, rack.host.socket 1") + ON,
    racks(a="rack.host.socket 3, rack.host.socket.gpu 2", b="rack.host 1") + ON,
    racks(a="rack.host 1, rack.host.socket.gpu 3", b="rack.host.socket 3") + ON,
    racks(a="rack.host.socket.gpu 4", b="rack 1") + ON,
]


class Walk:
    """Lazy groups lose their quota and have it back; a restart at any step comes to the same, in any order."""

    def __init__(self, config, luck):
        self.world = HivedHarness(config)
        self.first = in_any_order(snapshot(self.world.hive))
        self.random = random.Random(luck)
        self.groups = 0

    def run(self, steps):
        for _ in range(steps):
            step = self.random.choices((self.arrive, self.end, self.cancel, self.turn, self.crash), (12, 7, 1, 1, 2))
            step[0]()
        self.close()

    def guaranteed(self):
        return {group.name for group in self.world.hive.groups.values() if group.virtual is not None}

    def arrive(self):
        """Later ones are often more important: they take quota from those before."""
        pick, self.groups = self.random, self.groups + 1
        priority = pick.choice([-1, 0, 1, 2, self.groups, self.groups])
        more = {"lazyPreemptionEnable": pick.random() < 0.8, "priority": priority}
        members = {pick.choice([1, 1, 1, 2, 4]): pick.choice([1, 1, 2])}
        before = self.guaranteed()
        for each in gang(f"g{self.groups}", tenant=pick.choice("aaab"), members=members, **more):
            answer = self.world.ask(each, phase=pick.choice([FILTERING, FILTERING, PREEMPTING]))
            if isinstance(answer, Bind):
                self.world.take(each, answer)
            elif isinstance(answer, Preempt) and not self.world.preempting and pick.random() < 0.3:
                self.world.take_preemption(each, answer)
            else:
                self.world.delete(each)
        for name in before - self.guaranteed():
            assert name not in self.world.hive.groups or self.world.group(name).lazy, name

    def end(self):
        before, groups = self.guaranteed(), list(self.world.hive.groups.values())
        members = list(self.random.choice(groups).members()) if groups else []
        gone = members if self.random.random() < 0.7 else members[:1]
        self.world.delete(*[self.world.allocated[each.uid] for each in gone])
        self.no_one_lost(before)

    def cancel(self):
        before = self.guaranteed()
        self.world.delete(*self.world.preempting.values())
        self.no_one_lost(before)

    def turn(self):
        before = self.guaranteed()
        self.world.turn(self.random.choice(sorted(self.world.nodes)), healthy=self.random.random() < 0.8)
        self.no_one_lost(before)

    def no_one_lost(self, before):
        """What ends makes room, it takes nothing from anybody."""
        assert before & self.world.hive.groups.keys() <= self.guaranteed()

    def crash(self):
        if self.world.preempting:
            return
        before = allocations(self.world.hive)
        self.world.restart(self.random)
        assert allocations(self.world.hive) == before
        assert not self.world.algorithm.unrecoverable_pods
        assert_everybody_is_granted(self.world)

    def close(self):
        self.world.delete(*self.world.waiting.values(), *self.world.allocated.values())
        for name in self.world.nodes:
            self.world.turn(name, healthy=True)
        assert in_any_order(snapshot(self.world.hive)) == self.first
        assert not self.world.hive.lazily_preempted


@settings(max_examples=20, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
@given(config=st.sampled_from(CONFIGS), luck=st.integers(0, 1 << 32))
def test_random_courses(config, luck):
    Walk(config, luck).run(60)
