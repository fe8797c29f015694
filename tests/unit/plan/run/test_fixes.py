"""The nearest fix of pods that wait."""

from __future__ import annotations

from typing import Any

import pytest

from algorithm.packing.algorithm import PackingAlgorithm
from extender.ordering.records import Dependency, Target
from tests.support.plan.worlds import a_node, gang, new, plan_of, row, running, waiting

TAINTED = {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}
CORDONED = {"unschedulable": True}


@pytest.mark.parametrize(
    ("nodes", "pods", "fix"),
    [
        ([], [], "It would fit if there were a node."),
        ([a_node("n0")], [running("a", "n0", cpu="3")], "It would fit if this pod ended: default/a on n0."),
        (
            [a_node("n0", cpu="1"), a_node("n1", spec=CORDONED)],
            [],
            "It would fit if node n1 were uncordoned.",
        ),
        (
            [a_node("n0", cpu="1"), a_node("n1", spec=TAINTED)],
            [],
            "It would fit on n1 if it tolerated the taint team=a:NoSchedule.",
        ),
        (
            [a_node("n0"), a_node("n1", spec=TAINTED)],
            [running("a", "n0", cpu="1500m"), running("b", "n0", cpu="1500m", priority=3)],
            "It would fit if this pod on n0 ended: default/a.",
        ),
        (
            [a_node("n0", cpu="1"), a_node("n1", cpu="1", spec=TAINTED)],
            [],
            "It would need a node with 2 cpu; the largest has 1 cpu.",
        ),
    ],
)
def test_the_fix_of_one_pod(nodes: list[Any], pods: list[Any], fix: str) -> None:
    assert row(plan_of(nodes, pods, [new("w", cpu="2")]), "w").fix == fix


@pytest.mark.parametrize(
    ("nodes", "pods", "fix"),
    [
        ([a_node("n1", spec=CORDONED)], [], "1 of 3 such pods would fit if node n1 were uncordoned."),
        (
            [a_node("n1", cpu="1", spec=CORDONED), a_node("n2", spec=CORDONED), a_node("n3", spec=CORDONED)],
            [],
            "2 of 3 such pods would fit if these 2 nodes were uncordoned: n2, n3.",
        ),
        (
            [a_node("n1", spec=CORDONED), a_node("n2", cpu="8", spec=CORDONED)],
            [],
            "It would fit if these 2 nodes were uncordoned: n2, n1.",
        ),
        ([a_node("n1", cpu="16", spec=CORDONED)], [], "It would fit if node n1 were uncordoned."),
        (
            [a_node("n1", cpu="8", spec=TAINTED)],
            [],
            "2 of 3 such pods would fit on n1 if they tolerated the taint team=a:NoSchedule.",
        ),
        (
            [a_node("n1"), a_node("n2", spec=TAINTED)],
            [running("a", "n1", cpu="3"), running("b", "n2", cpu="3")],
            "1 of 3 such pods would fit if this pod on n1 ended: default/a.",
        ),
    ],
)
def test_the_fix_of_several_pods_says_for_how_many_it_is(nodes: list[Any], pods: list[Any], fix: str) -> None:
    plan = plan_of(nodes, pods, [new(name, cpu="3") for name in ("u", "v", "w")])
    assert {row(plan, name).fix for name in ("u", "v", "w")} == {fix}


def test_a_gang_that_is_declared_wrongly_is_not_said_to_need_room() -> None:
    declared = {"annotations": {"waggle.dev/gang": "g"}}
    for nodes in ([a_node("n0")], [a_node("n0", cpu="1")], [a_node("n0", spec=CORDONED)]):
        found = row(plan_of(nodes, [], [new("w", cpu="2", metadata=declared)]), "w")
        assert found.code == "GangInvalid"
        assert "waggle.dev/gang-min is missing" in found.text
        assert "waggle.dev/gang-min is missing" in found.fix


def test_a_selector_that_keeps_a_pod_from_the_room_there_is() -> None:
    nodes = [a_node("n0", cpu="1", labels={"disk": "ssd"}), a_node("n1")]
    plan = plan_of(nodes, [], [new("w", cpu="2", spec={"nodeSelector": {"disk": "ssd"}})])
    assert (
        row(plan, "w").fix
        == "No node that its selector or affinity accepts has room; n1 has room, but they do not accept it."
    )


def test_an_algorithm_that_ends_the_process_as_it_explains_leaves_the_plan_without_a_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error: list[BaseException] = [SystemExit(3), GeneratorExit(), KeyboardInterrupt()]

    def explain(_self: object, _pod: object) -> list[str]:
        raise error[0]

    monkeypatch.setattr(PackingAlgorithm, "explain", explain)
    for _ in range(2):
        plan = plan_of([a_node("n0")], [], gang("g", 3, cpu="1")[:2])
        assert [(each.code, each.fix) for each in plan.rows] == [("GangIncomplete", "")] * 2
        del error[0]
    with pytest.raises(KeyboardInterrupt):  # the user's
        plan_of([a_node("n0")], [], gang("g", 3, cpu="1")[:2])


def test_an_incomplete_gang_says_how_many_pods_it_lacks() -> None:
    plan = plan_of([a_node("n0")], [], gang("g", 3, cpu="1")[:2])
    assert {each.fix for each in plan.rows} == {
        "Gang default/g has 2 of the 3 pods that it needs: 1 more has to be created."
    }


def test_a_gang_says_that_a_cordoned_node_would_help() -> None:
    plan = plan_of([a_node("n0"), a_node("n1", spec=CORDONED)], [], gang("g", 2, cpu="3"))
    assert {each.fix for each in plan.rows} == {"It would fit if node n1 were uncordoned."}


def test_a_gang_that_no_uncordoned_node_would_help_alone_says_who_would_have_to_end() -> None:
    nodes = [a_node("n0"), a_node("n1"), a_node("n2", cpu="1", spec=CORDONED)]
    pods = [running("a", "n0", cpu="3"), running("b", "n1", cpu="1"), running("c", "n1", cpu="1")]
    plan = plan_of(nodes, pods, gang("g", 2, cpu="3"))
    assert {each.fix for each in plan.rows} == {"It would fit if these 2 pods ended: default/a on n0, default/b on n1."}


def test_a_gang_without_enough_nodes_that_accept_it_says_how_many_it_lacks() -> None:
    nodes = [a_node("n0", cpu="2"), a_node("n1", spec=TAINTED)]
    plan = plan_of(nodes, [], gang("g", 3, cpu="2"))
    assert {each.fix for each in plan.rows} == {
        "It would fit with 2 more nodes with room for 2 cpu each that its selector and tolerations accept."
    }


def test_members_that_run_count_for_their_gang() -> None:
    declared = {"waggle.dev/gang": "g", "waggle.dev/gang-min": "2"}
    pods = [running("old", "n0", cpu="3", metadata={"annotations": declared})]
    nodes = [a_node("n0"), a_node("n1", cpu="4", spec=CORDONED), a_node("n2", spec=TAINTED)]
    plan = plan_of(nodes, pods, [new("late", cpu="3", metadata={"annotations": declared})])
    assert row(plan, "late").fix == "It would fit if node n1 were uncordoned."


def test_a_gang_says_who_would_have_to_end() -> None:
    nodes = [a_node("n0"), a_node("n1")]
    plan = plan_of(nodes, [running("a", "n0", cpu="3")], gang("g", 2, cpu="3"))
    assert {each.fix for each in plan.rows} == {"It would fit if this pod ended: default/a on n0."}


def test_missing_dependencies_and_cycles_say_what_to_change() -> None:
    ghost = (Dependency(Target("Job", "default", "ghost")),)
    me = (Dependency(Target("Pod", "default", "b")),)
    pods = [waiting("a", more={"after": ghost}), waiting("b", more={"after": me})]
    plan = plan_of([a_node("n0")], pods)
    assert (
        row(plan, "a").fix == "It would start if Job/default/ghost existed, or if the dependency on it were optional."
    )
    assert row(plan, "b").fix == "It would start if one of these dependencies were removed."


def test_a_pod_that_is_not_managed_has_a_fix_too() -> None:
    plan = plan_of(
        [a_node("n0")],
        [running("a", "n0", cpu="3")],
        [new("w", cpu="2")],
        settings="pods: {resource: example.com/gpu}",
    )
    assert row(plan, "w").fix == "It would fit if this pod on n0 ended: default/a."
