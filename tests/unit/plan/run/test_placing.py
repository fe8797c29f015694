"""Where new pods go, in which order, and which one reason those have that wait."""

from __future__ import annotations

import msgspec
import pytest

from extender.plan.errors import PlanError
from extender.plan.records import Changes, Options, World
from extender.plan.run import make_plan, planning
from tests.support.plan.worlds import a_node, gang, new, plan_of, row, running, signs, waiting


def test_pods_go_where_there_is_room_the_highest_priority_first() -> None:
    nodes = [a_node("n0", cpu="4"), a_node("n1", cpu="4")]
    plan = plan_of(
        nodes,
        [running("old", "n0", cpu="3")],
        [new("low", cpu="3"), new("high", cpu="3", priority=5), new("small", cpu="1")],
    )
    assert signs(plan) == {"low": "? Unschedulable", "high": "+ n1", "small": signs(plan)["small"]}
    assert row(plan, "small").sign == "+"
    assert (plan.total.runs, plan.total.waits, plan.total.stays) == (2, 1, 1)
    assert not plan.is_clean


def test_kube_scheduler_s_own_refusal_has_the_counts_of_each_filter() -> None:
    nodes = [a_node("n0"), a_node("n1", spec={"unschedulable": True})]
    plan = plan_of(nodes, [], [new("big", cpu="100")])
    assert row(plan, "big").code == "Unschedulable"
    assert "1 Insufficient cpu" in row(plan, "big").text
    assert "1 node(s) were unschedulable" in row(plan, "big").text


def test_a_refusal_of_the_algorithm_has_its_code() -> None:
    nodes = [a_node("n0", cpu="4"), a_node("n1", cpu="4")]
    plan = plan_of(nodes, [], gang("train", 3, cpu="3"))
    assert {signs(plan)[f"train-{index}"] for index in range(3)} == {"? GangDoesNotFit"}
    assert row(plan, "train-0").group == "train"
    assert plan.groups[0].waits == 3


def test_a_gang_that_fits_runs_as_a_whole() -> None:
    nodes = [a_node(f"n{index}", cpu="4") for index in range(3)]
    plan = plan_of(nodes, [], gang("train", 3, cpu="3"))
    assert plan.is_clean
    assert sorted(each.node for each in plan.rows) == ["n0", "n1", "n2"]


def test_what_waits_in_the_world_is_tried_before_what_is_new() -> None:
    plan = plan_of([a_node("n0", cpu="4")], [waiting("first", cpu="3")], [new("second", cpu="3")])
    assert signs(plan) == {"first": "+ n0", "second": "? Unschedulable"}


def test_an_object_that_the_api_server_would_refuse_is_an_error() -> None:
    with pytest.raises(PlanError, match=r"bad.yaml#1 .Pod default/bad.: .* no PriorityClass with name nope"):
        plan_of([a_node("n0")], [], [new("bad", spec={"priorityClassName": "nope"})])


def test_a_cluster_without_nodes_places_nothing() -> None:
    plan = plan_of([], [], [new("a")])
    assert row(plan, "a").sign == "?"
    assert "no nodes available" in row(plan, "a").text


def test_a_pod_of_another_scheduler_is_not_placed() -> None:
    plan = plan_of([a_node("n0")], [], [new("a", spec={"schedulerName": "other"})])
    assert row(plan, "a").text == "its scheduler other is not part of the plan"


def test_the_same_input_gives_the_same_plan_byte_for_byte() -> None:
    nodes = tuple(a_node(f"n{index}", cpu="4") for index in range(5))
    create = tuple(gang("train", 4, cpu="3") + [new(f"p{index}", cpu="500m") for index in range(6)])
    encoded = {
        msgspec.json.encode(make_plan(World(nodes=nodes), Changes(create=create), Options(seed=7))) for _ in range(3)
    }
    assert len(encoded) == 1


def test_a_plan_larger_than_its_bounds_says_so() -> None:
    plan = plan_of([a_node("n0")], [], [new("a"), new("b")], options=Options(most_pods=1))
    assert plan.stopped == "2 pods, of which a plan takes at most 1"
    assert not plan.is_clean
    assert row(plan, "a").text == "the plan ended before the pod was tried"
    plan = plan_of([a_node("n0")], [], [new("a"), new("b")], options=Options(most_attempts=1))
    assert plan.stopped == "1 attempts to place pods were made"


def test_planning_yields_after_each_attempt_and_can_be_abandoned() -> None:
    world = World(nodes=(a_node("n0", cpu="1"),))
    run = planning(world, Changes(create=tuple(new(f"p{index}") for index in range(20))))
    assert sum(1 for _ in run) >= 20
    run = planning(world, Changes(create=(new("p"),)))
    next(run)
    run.close()
