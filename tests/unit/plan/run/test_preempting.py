"""Who is evicted for whom, by kube-scheduler and by Waggle, and what becomes of those that are."""

from __future__ import annotations

import pytest

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import Requirement
from extender.ordering.records import Dependency, Target
from tests.support.plan.worlds import a_node, gang, new, plan_of, row, running, signs, waiting

JOB = Target("Job", "default", "j")


@pytest.mark.parametrize("mode", ["kube-scheduler", "auto", "direct"])
def test_a_pod_preempts_and_the_victim_moves(mode: str) -> None:
    pods = [running("low", "n0", cpu="3", priority=1, more={"owner": JOB}), running("other", "n1", cpu="2", priority=9)]
    nodes = [a_node("n0", cpu="4"), a_node("n1", cpu="4"), a_node("n2", cpu="3")]
    plan = plan_of(nodes, pods, [new("high", cpu="4", priority=5)], settings=f"preemption: {{mode: {mode}}}")
    assert signs(plan) == {"low": "~ n2 Preempted", "high": "+ n0"}
    assert row(plan, "low").text == "evicted to make room for default/high"


@pytest.mark.parametrize("mode", ["auto", "direct"])
def test_a_gang_preempts_as_a_whole(mode: str) -> None:
    pods = [running(f"low{index}", f"n{index}", cpu="3", priority=1) for index in range(3)]
    nodes = [a_node(f"n{index}", cpu="4") for index in range(3)]
    plan = plan_of(nodes, pods, gang("train", 2, cpu="4", priority=5), settings=f"preemption: {{mode: {mode}}}")
    assert plan.total.runs == 2
    assert plan.total.evicted == 2
    assert {each.code for each in plan.rows if each.sign == "-"} == {"Preempted"}


def test_a_gang_that_would_not_fit_even_then_evicts_nobody() -> None:
    pods = [running(f"low{index}", f"n{index}", cpu="3", priority=1) for index in range(2)]
    nodes = [a_node(f"n{index}", cpu="4") for index in range(2)]
    plan = plan_of(nodes, pods, gang("train", 3, cpu="4", priority=5))
    assert (plan.total.waits, plan.total.evicted, plan.total.stays) == (3, 0, 2)


def test_a_budget_protects_from_a_gang_s_preemption() -> None:
    budget = Budget(namespace="default", name="b", selector=(Requirement("app", "In", ("x",)),), allowed=1)
    pods = [running(f"low{index}", f"n{index}", cpu="3", priority=1, labels={"app": "x"}) for index in range(2)]
    nodes = [a_node(f"n{index}", cpu="4") for index in range(2)]
    create = gang("train", 2, cpu="4", priority=5)
    plan = plan_of(nodes, pods, create, world={"budgets": (budget,)}, settings="preemption: {mode: direct}")
    assert plan.total.evicted <= 1
    assert plan.total.waits == 2
    assert row(plan, "train-0").code in ("VictimProtected", "PreemptionFailed")


def test_a_new_pod_that_is_evicted_again_says_so() -> None:
    """Both are new. The gang's last member comes when the low one runs already."""

    after = (Dependency(Target("Pod", "default", "low")),)
    pods = [
        waiting("low", cpu="3", priority=1),
        waiting("high", cpu="3", priority=5, more={"after": after}),
    ]
    plan = plan_of([a_node("n0", cpu="4")], pods)
    assert signs(plan) == {"low": "- Preempted", "high": "+ n0"}


def test_victims_that_are_made_again_wait_behind() -> None:
    pods = [running(f"low{index}", "n0", cpu="1", priority=1, more={"owner": JOB}) for index in range(4)]
    plan = plan_of([a_node("n0", cpu="4")], pods, [new("high", cpu="2", priority=5)])
    assert plan.total.evicted == 2
    evicted = next(each for each in plan.rows if each.sign == "-")
    assert evicted.before == "n0"
    assert "made again, it waits: kube-scheduler" in evicted.text
