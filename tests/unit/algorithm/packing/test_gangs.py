"""Gangs: declared, waiting, seated as a whole, held, replaced, recovered."""

from __future__ import annotations

import json

import msgspec
import pytest

from algorithm.interface import Bind, PodRefused, Wait
from algorithm.model import pairs
from algorithm.reasons import Code
from tests.support.packing.harness import PackingHarness, member, node, pod, shown

PLAN = "waggle.dev/gang-plan"


def trio(**more):
    return [member(f"m{i}", "g", 3, gpu=4, **more) for i in range(3)]


def seats(world):
    return shown(world.algorithm)["gangs"]["ns/g"]["seats"]


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"waggle.dev/gang": "g"}, "waggle.dev/gang-min is missing; it must be a positive integer"),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "0"}, "must be a positive integer, not '0'"),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "-1"}, "must be a positive integer, not '-1'"),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "two"}, "must be a positive integer, not 'two'"),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "²"}, "must be a positive integer, not '²'"),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "9" * 5000}, "must be a positive integer, not '999"),
        ({"waggle.dev/gang": "", "waggle.dev/gang-min": "2"}, "waggle.dev/gang must be a name of 1 to 253 plain"),
        (
            {"waggle.dev/gang": "g" * 9999, "waggle.dev/gang-min": "2"},
            "waggle.dev/gang must be a name of 1 to 253 plain",
        ),
        ({"waggle.dev/gang": "a\nb", "waggle.dev/gang-min": "2"}, r"gang ns/a\nb is declared wrongly"),
        ({"waggle.dev/gang-min": "2"}, "waggle.dev/gang-min needs annotation waggle.dev/gang"),
    ],
)
def test_a_gang_declared_wrongly_is_refused_with_the_annotations_name(annotations, text):
    world = PackingHarness(node("a"))
    wrong = msgspec.structs.replace(pod("p"), annotations=pairs(annotations))
    world.submit(wrong)
    with pytest.raises(PodRefused) as refused:
        world.schedule(wrong)
    assert refused.value.reason.code is Code.GANG_INVALID
    assert text in refused.value.reason.text
    world.bound(msgspec.structs.replace(wrong, uid="other"), "a")


def test_a_gang_waits_until_its_minimum_exists():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=8))
    first, second, third = trio()
    world.submit(first, second)
    assert world.schedule(first).reason.text == "gang ns/g waits until 3 of its pods exist"
    world.submit(third)
    assert isinstance(world.schedule(first), Bind)


def test_gangs_of_one_name_in_two_namespaces_are_two():
    world = PackingHarness(node("a", gpu=8))
    mine, other = member("m", "g", 2), msgspec.structs.replace(member("o", "g", 2), namespace="elsewhere")
    world.submit(mine, other)
    assert world.schedule(mine).reason.code is Code.GANG_INCOMPLETE


def test_all_members_are_seated_at_the_first_ones_turn():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=8))
    world.submit(*trio())
    answer = world.schedule(world.waiting["u-m1"])
    plan = json.loads(dict(answer.annotations)[PLAN])
    assert sorted(plan["seats"]) == ["u-m0", "u-m1", "u-m2"]
    assert sorted(plan["seats"].values()) == ["a", "a", "b"]
    world.allocate(world.waiting["u-m1"], answer)
    assert seats(world).keys() == {"m0", "m2"}


def test_nobody_is_seated_if_not_all_fit():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=3))
    world.submit(*trio())
    answer = world.schedule(world.waiting["u-m0"])
    assert answer.reason.text == "gang ns/g does not fit as a whole: insufficient example.com/gpu"
    assert answer.nodes["b"].text == "node never has enough example.com/gpu"


def test_the_plan_uses_only_nodes_offered_to_the_asking_pod():
    world = PackingHarness(*(node(name, gpu=4) for name in "abcd"))
    world.submit(*trio())
    first = world.waiting["u-m0"]
    assert isinstance(world.schedule(first, ["a", "b"]), Wait)
    answer = world.schedule(first, ["b", "c", "d"])
    assert sorted(json.loads(dict(answer.annotations)[PLAN])["seats"].values()) == ["b", "c", "d"]


def test_others_may_not_take_a_seat():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=4))
    world.submit(*trio())
    world.place(world.waiting["u-m0"])
    single = pod("single", gpu=4)
    world.submit(single)
    answer = world.schedule(single)
    assert answer.nodes["a"].text == "room is held for gang ns/g"
    assert [world.place(world.waiting[f"u-m{i}"]) for i in (1, 2)] == [
        json.loads(world.allocated["u-m0"].annotation(PLAN))["seats"][f"u-m{i}"] for i in (1, 2)
    ]


def test_a_pod_of_higher_priority_may_take_a_seat_if_nothing_else_is_free():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=4), node("c", gpu=4))
    world.submit(*trio())
    world.place(world.waiting["u-m0"])
    held = set(seats(world).values())
    assert world.place(pod("first", gpu=4, priority=1)) == "a"
    assert isinstance(world.schedule(world.waiting["u-m2"]), Bind)
    assert world.place(pod("second", gpu=4, priority=1)) in held
    equal = pod("equal", gpu=4)
    world.submit(equal)
    assert isinstance(world.schedule(equal), Wait)


def test_a_member_whose_seat_is_not_offered_is_seated_anew_where_it_fits():
    world = PackingHarness(*(node(name, gpu=4) for name in "abcd"))
    world.submit(*trio())
    world.place(world.waiting["u-m0"], ["a", "b", "c"])
    seat = seats(world)["m1"]
    other = world.schedule(world.waiting["u-m1"], ["d"])
    assert other.node == "d" != seat
    world.allocate(world.waiting["u-m1"], other)
    assert seats(world).keys() == {"m2"}
    assert seat not in seats(world).values()


def test_a_member_whose_seat_is_not_offered_waits_for_it_if_nothing_else_fits():
    world = PackingHarness(*(node(name, gpu=4) for name in "abcd"))
    world.submit(*trio())
    world.place(world.waiting["u-m0"], ["a", "b", "c"])
    seat = seats(world)["m1"]
    answer = world.schedule(world.waiting["u-m1"], ["a"])
    assert answer.reason.text == f"gang ns/g holds a place for this pod on {seat}"


def test_a_deleted_member_gives_its_seat_to_its_replacement():
    world = PackingHarness(*(node(name, gpu=4) for name in "abc"))
    world.submit(*trio())
    world.place(world.waiting["u-m0"])
    seat = seats(world)["m1"]
    world.delete("u-m1")
    assert "m1" not in seats(world)
    assert world.place(member("m1", "g", 3, gpu=4, uid="again")) == seat


def test_no_seat_is_held_once_no_member_has_a_place():
    world = PackingHarness(*(node(name, gpu=4) for name in "abc"))
    start = shown(world.algorithm)["nodes"]
    world.submit(*trio())
    world.place(world.waiting["u-m0"])
    world.expire("u-m0")
    assert shown(world.algorithm)["nodes"] == start


def test_a_member_whose_proposal_expires_gets_its_seat_back():
    world = PackingHarness(*(node(name, gpu=4) for name in "abcd"))
    world.submit(*trio())
    world.place(world.waiting["u-m0"])
    was = world.place(world.waiting["u-m1"])
    again = world.expire("u-m1")
    assert seats(world)["m1"] == was
    assert world.schedule(again).node == was


@pytest.mark.parametrize("seed", range(4))
def test_seats_are_the_same_after_a_restart_in_any_order(seed):
    world = PackingHarness(*(node(name, gpu=4) for name in "abcd"))
    world.submit(*(member(f"m{i}", "g", 4, gpu=4) for i in range(4)))
    world.place(world.waiting["u-m0"])
    world.place(world.waiting["u-m1"])
    assert len(seats(world)) == 2
    assert shown(world.restarted(seed)) == shown(world.algorithm)


def test_the_newest_plan_counts_after_a_restart():
    world = PackingHarness(*(node(name, gpu=4) for name in "abcde"))
    world.submit(*(member(f"m{i}", "g", 4, gpu=4) for i in range(4)))
    world.place(world.waiting["u-m0"], "abcd")
    world.allocate(world.waiting["u-m1"], world.schedule(world.waiting["u-m1"], "e"))
    plan = json.loads(world.allocated["u-m1"].annotation(PLAN))
    assert plan["generation"] == 2
    assert plan["seats"]["u-m1"] == "e"
    assert shown(world.restarted()) == shown(world.algorithm)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", '{"seats":[]}', '{"generation":"1","seats":{}}', '{"generation":1,"seats":{"u-m1":7}}', "[" * 9999],
)
def test_a_plan_that_cannot_be_read_is_no_plan(text):
    world = PackingHarness(node("a", gpu=8))
    world.submit(*trio()[1:])
    broken = msgspec.structs.replace(trio()[0], annotations=(*trio()[0].annotations, (PLAN, text)))
    world.bound(broken, "a")
    assert seats(world) == {}


def test_members_may_ask_for_different_things():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=4))
    members = [member("small0", "g", 4, gpu=2), member("big", "g", 4, gpu=6), *trio()[:0]]
    members += [member("small1", "g", 4, gpu=2), member("small2", "g", 4, gpu=2)]
    world.submit(*members)
    assert [world.place(each) for each in members].count("a") == 2
    assert world.allocated["u-big"].node_name == "a"


def test_members_beyond_the_minimum_come_along_if_there_is_room():
    world = PackingHarness(node("a", gpu=8))
    world.submit(*(member(f"m{i}", "g", 2, gpu=3) for i in range(3)))
    last = world.waiting["u-m2"]
    world.allocate(last, world.schedule(last))
    assert len(seats(world)) == 1
    world.place(world.waiting[f"u-{next(iter(seats(world)))}"])
    (left,) = world.waiting.values()
    assert world.schedule(left).reason.code is Code.INSUFFICIENT


def test_a_small_gang_is_not_kept_out_by_big_members_beyond_its_minimum():
    world = PackingHarness(node("a", gpu=4))
    world.submit(member("big", "g", 2, gpu=4), member("s0", "g", 2, gpu=2), member("s1", "g", 2, gpu=2))
    assert isinstance(world.schedule(world.waiting["u-s0"]), Bind)


def test_members_that_come_later_are_placed_one_by_one():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=4))
    world.submit(*trio())
    for record in list(world.waiting.values()):
        world.place(record)
    world.delete("u-m1")
    world.delete("u-m2")
    assert world.place(member("late", "g", 3, gpu=4)) in "ab"


def test_a_pod_group_without_minimum_is_placed_seat_by_seat():
    world = PackingHarness(node("a", gpu=4))
    first = pod("p", gpu=4, group="job")
    world.submit(first, pod("q", gpu=4, group="job"))
    assert world.schedule(first) == Bind("a")


def test_a_pod_group_with_the_annotation_is_a_gang():
    world = PackingHarness(node("a", gpu=4))
    one = pod("p", gpu=4, group="job", annotations=(("waggle.dev/gang-min", "2"),))
    world.submit(one)
    assert world.schedule(one).reason.code is Code.GANG_INCOMPLETE


def test_where_members_disagree_about_the_minimum_the_highest_counts():
    world = PackingHarness(node("a", gpu=8))
    world.submit(member("p", "g", 2), member("q", "g", 3))
    assert world.schedule(world.waiting["u-p"]).reason.text == "gang ns/g waits until 3 of its pods exist"


def test_a_newer_record_of_the_asking_pod_counts():
    world = PackingHarness(node("a", gpu=8))
    world.submit(member("p", "g", 2, gpu=1), member("q", "g", 2, gpu=1))
    newer = member("p", "g", 2, gpu=8)
    assert world.schedule(newer).reason.code is Code.GANG_DOES_NOT_FIT


def test_a_seat_on_a_node_that_is_gone_is_given_up_for_another():
    world = PackingHarness(*(node(name, gpu=4) for name in "abcd"))
    world.submit(*trio())
    world.place(world.waiting["u-m0"], "abc")
    seat = seats(world)["m1"]
    world.delete_node(seat)
    assert world.place(world.waiting["u-m1"]) == "d"


def test_a_seat_is_held_while_its_node_has_what_it_asks_for():
    world = PackingHarness(node("a", gpu=12))
    world.submit(*trio())
    world.place(world.waiting["u-m0"])
    waiting = frozenset(world.waiting)
    assert world.algorithm.reserved_pods() == waiting
    for change in (world.update_node, world.add_node):
        change(node("a", gpu=2))
        assert world.algorithm.reserved_pods() == world.restarted().reserved_pods() == frozenset()
        world.update_node(node("a", gpu=12))
        assert world.algorithm.reserved_pods() == world.restarted().reserved_pods() == waiting
        world.update_node(node("a", gpu=2))
        world.delete_node("a")
        assert world.algorithm.reserved_pods() == world.restarted().reserved_pods() == waiting
