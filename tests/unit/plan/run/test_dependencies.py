"""Pods that wait for others: who is released when, and the one reason of those that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.ordering.records import GROUP, Dependency, State, Target
from extender.plan.records import Plan, RawObject
from tests.support.plan.worlds import CLASSES, a_node, an_object, gang, new, plan_of, row, running, signs, waiting

#: Of a pod: the gate of start-up ordering.
GATED = {"schedulingGates": [{"name": "waggle.dev/after"}]}


def job(name: str, *, after: list[Any] | None = None, pods: int = 1, cpu: str = "1") -> RawObject:
    """A Job whose pods wait for others."""
    annotations = {"waggle.dev/after": json.dumps(after)} if after else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return an_object(
        "Job",
        name,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "template": {
                    "metadata": {"annotations": annotations},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
            },
        },
        api_version="batch/v1",
    )


def test_a_pod_starts_in_the_wave_after_what_it_waits_for() -> None:
    create = [job("c", after=["job/b"]), job("b", after=["job/a"]), job("a", pods=2)]
    plan = plan_of([a_node("n0")], [], create)
    assert plan.is_clean
    assert {each.workload: each.wave for each in plan.rows} == {
        "Job/default/a": 0,
        "Job/default/b": 1,
        "Job/default/c": 2,
    }
    assert plan.waves == 3
    assert plan.critical_path == ("Job/default/a", "Job/default/b", "Job/default/c")
    assert ("Job/default/c", "Job/default/b", "Ready") in plan.edges


def test_what_runs_already_does_not_delay() -> None:
    pods = [running("d", "n0", more={"owner": Target("Job", "default", "db")})]
    plan = plan_of([a_node("n0")], pods, [job("a", after=["job/db"])])
    assert [(each.sign, each.wave) for each in plan.rows] == [("+", 0)]
    assert plan.waves == 1


def test_a_dependant_gets_no_room_before_its_turn() -> None:
    """It would fit at once, but what it waits for comes first."""
    create = [job("late", after=["job/first"], cpu="3"), job("first", cpu="3")]
    plan = plan_of([a_node("n0", cpu="4")], [], create)
    assert {each.workload.rpartition("/")[2]: each.sign for each in plan.rows} == {"late": "?", "first": "+"}


def test_who_waits_for_a_pod_without_room_waits_and_names_it_as_the_root() -> None:
    plan = plan_of([a_node("n0")], [], [job("b", after=["job/a"]), job("a", cpu="100")])
    waits = next(each for each in plan.rows if each.workload == "Job/default/b")
    assert waits.code == "WaitsForDependency"
    assert waits.text == "waits for Job/default/a to be Ready"
    assert len(waits.root) == 1
    assert waits.root[0].startswith("Pod/default/a")


def test_a_missing_dependency_is_told_to_all_that_depend_on_it() -> None:
    plan = plan_of([a_node("n0")], [], [job("b", after=["job/a"]), job("a", after=["job/ghost"])])
    by = {each.workload.rpartition("/")[2]: each for each in plan.rows}
    assert by["a"].code == by["b"].code == "DependencyNotFound"
    assert by["a"].text == "waits for Job/default/ghost, which does not exist"
    assert by["b"].text == "waits for Job/default/a, and that for Job/default/ghost, which does not exist"
    assert by["a"].root == by["b"].root == ("Job/default/ghost",)


def test_an_optional_dependency_that_does_not_exist_is_waived() -> None:
    after = [{"kind": "Job", "name": "ghost", "optional": True}]
    plan = plan_of([a_node("n0")], [], [job("b", after=["job/a"]), job("a", after=after)])
    assert plan.is_clean


def test_a_cycle_is_told_with_its_path() -> None:
    create = [job("c", after=["job/b"]), job("b", after=["job/a"]), job("a", after=["job/b"])]
    plan = plan_of([a_node("n0")], [], create)
    by = {each.workload.rpartition("/")[2]: each for each in plan.rows}
    assert by["a"].code == by["b"].code == "DependencyCycle"
    assert by["a"].text == "dependencies form a cycle: Job/default/a -> Job/default/b -> Job/default/a"
    assert by["c"].code == "DependencyFailed"
    assert "there is a cycle, Job/default/a -> Job/default/b -> Job/default/a" in by["c"].text


def test_a_failed_job_fails_those_that_wait_for_it() -> None:
    failed = json.loads(job("a").json)
    failed["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    old = an_object("Job", "a", failed, api_version="batch/v1")
    plan = plan_of([a_node("n0")], [], [job("b", after=["job/a"])], world={"objects": (*CLASSES, old)})
    assert [each.code for each in plan.rows] == ["DependencyFailed"]
    assert "Job/default/a failed: BackoffLimitExceeded" in plan.rows[0].text


def test_a_completed_job_counts() -> None:
    done = json.loads(job("a").json)
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    old = an_object("Job", "a", done, api_version="batch/v1")
    after = [{"kind": "Job", "name": "a", "state": "Complete"}]
    plan = plan_of([a_node("n0")], [], [job("b", after=after)], world={"objects": (*CLASSES, old)})
    assert plan.is_clean


def _set_with_a_job(condition: str, *, state: State, of_set: str = "") -> Plan:
    """The plan of a pod that waits for replicatedJob a of a JobSet, whose only Job has got this condition: after two
    of its pods have succeeded, which are still there."""

    def conditions(kind: str) -> list[dict[str, str]]:
        return [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}] if kind else []

    part = Target("ReplicatedJob", "default", "s/a")
    spec = {"parallelism": 2, "completions": 4}
    labels = {"jobset.sigs.k8s.io/jobset-name": "s", "jobset.sigs.k8s.io/replicatedjob-name": "a"}
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s", "controller": True}
    meta = {"namespace": "default"}
    the_set = {
        "metadata": {"name": "s", "uid": "s", **meta},
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": spec}}]},
        "status": {"conditions": conditions(of_set)},
    }
    the_job = {
        "metadata": {"name": "s-a-0", "uid": "j", "labels": labels, "ownerReferences": [owner], **meta},
        "spec": spec,
        "status": {"conditions": conditions(condition), "succeeded": 2},
    }
    objects = (
        an_object("JobSet", "s", the_set, api_version="jobset.x-k8s.io/v1alpha2"),
        an_object("Job", "s-a-0", the_job, api_version="batch/v1"),
    )
    above = {"owner": Target("Job", "default", "s-a-0"), "above": (part, Target("JobSet", "default", "s"))}
    done = [waiting(f"s-a-0-{number}", node="n0", status={"phase": "Succeeded"}, more=above) for number in range(2)]
    held = waiting("b", more={"after": (Dependency(part, state),), "has_own_gate": True}, spec=GATED)
    return plan_of(
        [a_node("n0")], [*(() if condition == "Complete" else done), held], [], world={"objects": (*CLASSES, *objects)}
    )


@pytest.mark.parametrize("state", [State.READY, State.COMPLETE])
def test_a_completed_job_counts_for_its_part_of_a_job_set_though_its_pods_are_gone(state: State) -> None:
    assert _set_with_a_job("Complete", state=state).is_clean


@pytest.mark.parametrize("state", [State.READY, State.COMPLETE])
def test_a_failed_job_counts_for_no_part_of_a_job_set(state: State) -> None:
    (one,) = _set_with_a_job("Failed", state=state).rows
    assert (one.sign, one.code) == ("?", "WaitsForDependency")


def test_a_job_set_that_failed_fails_its_parts() -> None:
    (one,) = _set_with_a_job("Failed", state=State.READY, of_set="Failed").rows
    assert one.code == "DependencyFailed"
    assert "JobSet/default/s failed: BackoffLimitExceeded" in one.text


def test_pods_end_when_somebody_waits_for_it_and_everything_else_is_placed() -> None:
    after = [{"kind": "Job", "name": "a", "state": "Complete"}]
    create = [job("b", after=after, cpu="3"), job("a", cpu="3"), new("other", cpu="1")]
    plan = plan_of([a_node("n0", cpu="4")], [], create)
    assert plan.is_clean, "the room of the ended pod is free again"
    assert {each.workload.rpartition("/")[2] or each.name: each.wave for each in plan.rows} == {
        "a": 0,
        "b": 1,
        "other": 0,
    }


def test_pods_that_never_end_keep_others_waiting() -> None:
    after = (Dependency(Target("Pod", "default", "server"), State.COMPLETE),)
    pods = [running("server", "n0"), waiting("w", more={"after": after})]
    plan = plan_of([a_node("n0")], pods)
    assert row(plan, "w").code == "WaitsForDependency"
    assert row(plan, "w").fix == "Pod/default/server never completes: its pods do not run to an end."


def test_a_gang_counts_with_its_minimum() -> None:
    declared = {"waggle.dev/gang": "team", "waggle.dev/gang-min": "2"}
    create = [new(f"m{index}", cpu="3", metadata={"annotations": declared}) for index in range(3)]
    after = json.dumps([{"group": "team"}])
    create.append(new("w", cpu="1", metadata={"annotations": {"waggle.dev/after": after}}))
    plan = plan_of([a_node("n0", cpu="4"), a_node("n1", cpu="4")], [], create)
    assert row(plan, "w").sign == "+"
    assert plan.total.waits == 1


def test_a_gang_waits_as_a_whole_and_is_then_placed_as_a_whole() -> None:
    after = {"waggle.dev/after": '["job/a"]', "waggle.dev/gang": "team", "waggle.dev/gang-min": "2"}
    create = [new(f"m{index}", cpu="3", metadata={"annotations": after}) for index in range(2)]
    plan = plan_of([a_node("n0", cpu="4"), a_node("n1", cpu="4")], [], [*create, job("a")])
    assert plan.is_clean
    assert {row(plan, "m0").node, row(plan, "m1").node} == {"n0", "n1"}


def test_a_stateful_set_starts_in_order() -> None:
    body = {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "serviceName": "s",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]},
            },
        },
    }
    create = [an_object("StatefulSet", "s", body, api_version="apps/v1")]
    plan = plan_of([a_node("n0", cpu="4"), a_node("n1", cpu="4")], [], create)
    assert {each.name: (each.sign, each.wave) for each in plan.rows} == {
        "s-0": ("+", 0),
        "s-1": ("+", 1),
        "s-2": ("?", 2),
    }
    plan = plan_of([a_node("n0", cpu="4")], [], create)
    assert row(plan, "s-2").text == "waits for Pod/default/s-1 to be Ready"
    assert row(plan, "s-2").root == ("Pod/default/s-1",)


def test_a_pod_of_the_world_with_the_gate_is_released_when_room_appears() -> None:
    after = (Dependency(Target(GROUP, "default", "g")),)
    pods = [
        waiting("first", cpu="3", more={"group": Target(GROUP, "default", "g")}),
        waiting("second", more={"after": after, "has_own_gate": True}, spec=GATED),
    ]
    assert signs(plan_of([a_node("n0", cpu="1")], pods))["second"] == "? WaitsForDependency"
    plan = plan_of([a_node("n0", cpu="1")], pods, add_nodes=(a_node("n1"),))
    assert (signs(plan)["first"], row(plan, "second").sign) == ("+ n1", "+")


def test_without_start_up_ordering_the_annotation_has_no_effect_and_that_is_said() -> None:
    plan = plan_of([a_node("n0")], [], [job("b", after=["job/ghost"])], settings="ordering: {enabled: false}")
    assert plan.is_clean
    assert plan.warnings == (
        "pods declare waggle.dev/after, which has no effect: ordering.enabled is false in the settings",
    )


@pytest.mark.parametrize("length", [400])
def test_a_long_chain_costs_little(length: int) -> None:
    nodes = [a_node("n0", cpu="100000", pods="100000")]
    after = {index: (Dependency(Target("Pod", "default", f"p{index - 1}")),) for index in range(1, length)}
    pods = [waiting(f"p{index}", cpu="1m", more={"after": after.get(index, ())}) for index in range(length)]
    plan = plan_of(nodes, pods)
    assert plan.total.runs == length
    assert plan.waves == length
    assert len(plan.critical_path) == length


def test_gangs_that_wait_for_each_other_s_room_are_served_in_order() -> None:
    create = [*gang("a", 2, cpu="3"), *gang("b", 2, cpu="3")]
    plan = plan_of([a_node("n0", cpu="4"), a_node("n1", cpu="4")], [], create)
    assert {each.sign for each in plan.rows if each.group == "a"} == {"+"}
    assert {each.sign for each in plan.rows if each.group == "b"} == {"?"}


@pytest.mark.slow
def test_a_chain_may_be_deeper_than_any_stack() -> None:
    """Each waits for the one after it; all of them start, one wave after the other, each tried once."""
    deep = 1500
    after = [(Dependency(Target("Pod", "default", f"p{number + 1}")),) for number in range(deep - 1)]
    pods = [waiting(f"p{number}", cpu="1m", more={"after": each}) for number, each in enumerate([*after, ()])]
    plan = plan_of([a_node("n0", pods=str(deep))], pods)
    assert (plan.total.runs, plan.waves, plan.attempts) == (deep, deep, deep)
    assert len(plan.critical_path) == deep


def test_a_pod_with_the_gate_and_nothing_to_wait_for_is_released_at_once() -> None:
    """As live, where the gate may be in the template of all parts; with the gate of others it stays."""
    both = {"schedulingGates": [*GATED["schedulingGates"], {"name": "their/gate"}]}
    assert signs(plan_of([a_node("n0")], [], [new("a", spec=GATED), new("b", spec=both)])) == {
        "a": "+ n0",
        "b": "? Other",
    }
    held = plan_of([a_node("n0")], [], [new("a", spec=GATED)], settings="ordering: {enabled: false}")
    assert signs(held) == {"a": "? Other"}, "nobody removes it"


def test_a_gate_of_others_stays_when_the_dependencies_are_met() -> None:
    both = {"schedulingGates": [*GATED["schedulingGates"], {"name": "their/gate"}]}
    notes = {"annotations": {"waggle.dev/after": "[{kind: Pod, name: a}]"}}
    plan = plan_of([a_node("n0")], [], [new("a"), new("b", spec=both, metadata=notes)])
    assert signs(plan) == {"a": "+ n0", "b": "? Other"}
    assert "something else has to remove" in row(plan, "b").text
