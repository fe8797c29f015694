"""What-ifs: what happens to running pods if nodes or objects go, come or change."""

from __future__ import annotations

import json

import pytest

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import Requirement
from extender.ordering.records import GROUP, Target
from extender.plan.errors import PlanError
from extender.plan.reading.documents import Source, read_documents
from extender.plan.records import Changes, Options, RawObject, World
from extender.plan.run.making import make_plan
from tests.support.plan.worlds import a_node, gang, new, plan_of, row, running, signs, waiting

JOB = Target("Job", "default", "j")
SET = Target("StatefulSet", "default", "s")
DAEMON = Target("DaemonSet", "default", "d")


def test_a_drained_node_s_pods_move_if_somebody_makes_them_again() -> None:
    pods = [
        running("a", "n0", more={"owner": JOB}),
        running("b", "n0"),
        running("c", "n0", more={"owner": DAEMON}),
        running("e", "n1"),
    ]
    plan = plan_of([a_node("n0"), a_node("n1")], pods, drain=("n0",))
    assert signs(plan) == {"a": "~ n1 NodeDrained", "b": "- NodeDrained"}
    assert row(plan, "a").before == row(plan, "b").before == "n0"
    assert row(plan, "b").text == "evicted because node n0 is drained"
    assert plan.total.stays == 2


def test_an_evicted_pod_without_another_place_says_why() -> None:
    plan = plan_of(
        [a_node("n0"), a_node("n1", cpu="1")], [running("a", "n0", cpu="2", more={"owner": JOB})], drain=("n0",)
    )
    assert signs(plan) == {"a": "- NodeDrained"}
    assert row(plan, "a").text.startswith("evicted because node n0 is drained; made again, it waits: kube-scheduler")


def test_a_cordoned_node_takes_no_more_pods_and_keeps_its_own() -> None:
    plan = plan_of([a_node("n0")], [running("a", "n0")], [new("b")], cordon=("n0",))
    assert signs(plan) == {"b": "? Unschedulable"}
    assert "unschedulable" in row(plan, "b").text


def test_budgets_delay_a_drain_until_evicted_pods_run_elsewhere() -> None:
    budget = Budget(namespace="default", name="b", selector=(Requirement("app", "In", ("x",)),), allowed=1)
    pods = [running(f"p{index}", "n0", labels={"app": "x"}, more={"owner": SET}) for index in range(3)]
    world = {"budgets": (budget,)}
    plan = plan_of([a_node("n0"), a_node("n1")], pods, world=world, drain=("n0",))
    assert set(signs(plan).values()) == {"~ n1 NodeDrained"}
    assert not plan.warnings
    plan = plan_of([a_node("n0")], pods, world=world, drain=("n0",))
    assert (plan.total.evicted, plan.total.stays) == (1, 2)
    assert plan.warnings == ("drain of n0: disruption budgets do not allow to evict default/p1, default/p2",)


def test_a_budget_that_lacks_pods_allows_nothing_until_they_run() -> None:
    """Both pods come to run, which is what the budget asks for: neither may go again."""
    budget = Budget(namespace="default", name="b", selector=(Requirement("app", "In", ("x",)),), allowed=0, lacking=2)
    pods = [waiting(f"p{index}", cpu="2", labels={"app": "x"}, more={"owner": SET}) for index in range(2)]
    nodes = [a_node("n0"), a_node("n1", cpu="2")]
    plan = plan_of(nodes, pods, world={"budgets": (budget,)}, drain=("n0", "n1"))
    assert plan.total.runs == 2
    assert len(plan.warnings) == 2


def test_a_pod_with_two_budgets_cannot_be_evicted_as_the_api_server_says() -> None:
    both = [
        Budget(namespace="default", name=name, selector=(Requirement("app", "In", ("x",)),), allowed=1) for name in "ab"
    ]
    plan = plan_of([a_node("n0")], [running("p", "n0", labels={"app": "x"})], world={"budgets": both}, drain=("n0",))
    assert plan.total.stays == 1
    assert plan.warnings == ("drain of n0: disruption budgets do not allow to evict default/p",)


def test_a_budget_with_an_empty_selector_covers_all_pods_of_its_namespace() -> None:
    budget = Budget(namespace="default", name="all", covers_all=True)
    plan = plan_of([a_node("n0")], [running("p", "n0")], world={"budgets": (budget,)}, drain=("n0",))
    assert plan.total.stays == 1


def test_deleting_a_workload_makes_room() -> None:
    pods = [running(f"p{index}", "n0", cpu="2", more={"owner": JOB}) for index in range(2)]
    plan = plan_of([a_node("n0", cpu="4")], [*pods, waiting("w", cpu="3")], delete=(Target("job", "default", "j"),))
    assert signs(plan) == {"p0": "- Deleted", "p1": "- Deleted", "w": "+ n0"}
    assert row(plan, "p0").text == "deleted with job/default/j"


def test_deleting_a_pod_with_an_owner_makes_it_again() -> None:
    pods = [running("p", "n0", more={"owner": JOB}), running("q", "n0")]
    plan = plan_of([a_node("n0")], pods, delete=(Target("Pod", "default", "p"), Target("Pod", "default", "q")))
    assert signs(plan) == {"p": "~ n0 Deleted", "q": "- Deleted"}


def test_deleting_a_node_moves_its_pods() -> None:
    pods = [running("p", "n0", more={"owner": JOB}), running("d", "n0", more={"owner": DAEMON})]
    plan = plan_of([a_node("n0"), a_node("n1")], pods, delete=(Target("Node", "", "n0"),))
    assert signs(plan) == {"p": "~ n1 NodeRemoved", "d": "- NodeRemoved"}


def test_a_workload_that_is_deleted_and_created_again_is_made_as_a_whole() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"parallelism": 2, "completions": 2, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    created = read_documents([Source("j.yaml", json.dumps(job))]).require().objects
    world = World(
        nodes=(a_node("n0"),), pods=tuple(running(f"p{index}", "n0", more={"owner": JOB}) for index in range(2))
    )
    assert not make_plan(world, Changes(create=created)).rows
    plan = make_plan(world, Changes(create=created, delete=(JOB,)))
    assert {name: text[0] for name, text in signs(plan).items()} == {"p0": "-", "p1": "-", "j-x1": "+", "j-x2": "+"}


def test_deleting_a_gang_deletes_its_pods() -> None:
    team = Target(GROUP, "default", "team")
    pods = [running(f"p{index}", "n0", more={"group": team}) for index in range(2)]
    plan = plan_of([a_node("n0")], pods, delete=(Target("PodGroup", "default", "team"),))
    assert signs(plan) == {"p0": "- Deleted", "p1": "- Deleted"}


def test_added_nodes_take_what_waits() -> None:
    plan = plan_of([a_node("n0", cpu="1")], [waiting("w", cpu="2")], add_nodes=(a_node("extra"),))
    assert signs(plan) == {"w": "+ extra"}


@pytest.mark.parametrize("kind", [GROUP, "gang", "PodGroup", "podgroup"])
def test_a_gang_without_pods_is_deleted_by_any_of_its_names(kind: str) -> None:
    raw = json.dumps({"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}).encode()
    group = RawObject(
        kind="PodGroup", api_version="scheduling.x-k8s.io/v1alpha1", namespace="default", name="g", json=raw
    )
    world = World(nodes=(a_node("n0"),), objects=(group,))
    assert make_plan(world, Changes(delete=(Target(kind, "default", "g"),)), Options()).rows == ()


def test_a_higher_priority_lets_a_waiting_pod_preempt() -> None:
    pods = [running("low", "n0", cpu="3", priority=1, more={"owner": JOB}), waiting("w", cpu="3")]
    assert signs(plan_of([a_node("n0")], pods)) == {"w": "? Unschedulable"}
    plan = plan_of([a_node("n0")], pods, priorities=((Target("Pod", "default", "w"), 5),))
    assert signs(plan) == {"low": "- Preempted", "w": "+ n0"}
    assert "evicted to make room for default/w" in row(plan, "low").text
    assert row(plan, "w").priority == 5


def test_a_priority_counts_for_new_pods() -> None:
    create = [new("a", cpu="3"), new("b", cpu="3")]
    plan = plan_of([a_node("n0")], [], create, priorities=((Target("Pod", "default", "b"), 5),))
    assert signs(plan) == {"a": "? Unschedulable", "b": "+ n0"}


def test_other_settings_decide() -> None:
    nodes = [a_node("n0", cpu="4"), a_node("n1", cpu="4")]
    plan = plan_of(nodes, [], gang("train", 3, cpu="3"), settings="pods: {resource: example.com/gpu}")
    assert (plan.total.runs, plan.total.waits) == (2, 1), "pods that are not managed do not wait for their gang"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"delete": (Target("Job", "default", "x"),)}, "delete: Job/default/x: the cluster has no such object"),
        ({"delete": (Target("Node", "", "x"),)}, "delete: there is no node x"),
        ({"cordon": ("x",)}, "cordon: there is no node x"),
        ({"drain": ("x",)}, "drain: there is no node x"),
        ({"add_nodes": (a_node("n0"),)}, "add nodes: n0: a node of this name exists already"),
        (
            {"priorities": ((Target("Job", "default", "x"), 1),)},
            "priority: Job/default/x: there is no such object, or it has no pods",
        ),
        ({"algorithm": "magic"}, "magic"),
        ({"settings": "algorithm: {name: hived, settings_file: /etc/passwd}"}, "a plan reads no files"),
        ({"settings": "algo: 1"}, "settings: algo"),
    ],
)
def test_wrong_changes_are_refused_with_the_name_of_what_is_wrong(changes: dict[str, object], text: str) -> None:
    with pytest.raises(PlanError, match=text.replace("(", ".").replace(")", ".")):
        plan_of([a_node("n0")], **changes)


def test_a_priority_of_a_pod_that_has_gone_before_changes_nothing() -> None:
    """The pod exists when the plan begins, and one that waits evicts it before the changes are made."""
    pods = [running("low", "n0", cpu="3", priority=1), waiting("w", cpu="3", priority=5)]
    plan = plan_of([a_node("n0")], pods, priorities=((Target("Pod", "default", "low"), 9),))
    assert signs(plan) == {"low": "- Preempted", "w": "+ n0"}
