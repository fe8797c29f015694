"""Objects as the pods that controllers would make: names, owners, order, priority, dependencies, run times."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extender.ordering.records import GROUP, Dependency, State, Target
from extender.plan.reading import expanding
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from tests.unit.plan.reading.manifests import (
    Object,
    containers,
    expanded,
    job,
    job_spec,
    names,
    pod,
    pod_spec,
    workload,
)


def _owners(found: expanding.Expanded) -> list[str]:
    return [" < ".join(map(str, ((each.owner,) if each.owner else ()) + each.above)) for each in found.pods]


def test_pods_come_in_the_order_of_the_documents_and_of_their_ordinals() -> None:
    found = expanded(workload("Deployment", "web", 2), pod("p"), workload("StatefulSet", "db", 2), job("train", 2))
    assert names(found) == ["web-x1", "web-x2", "p", "db-0", "db-1", "train-x1", "train-x2"]
    assert not found.errors


def test_owners_and_the_objects_above() -> None:
    found = expanded(workload("Deployment", "web", 1), workload("ReplicaSet", "rs", 1), job("train"), pod("p"))
    assert _owners(found) == [
        "ReplicaSet/default/web-x < Deployment/default/web",
        "ReplicaSet/default/rs",
        "Job/default/train",
        "",
    ]


def test_a_stateful_set_starts_its_pods_one_behind_the_other() -> None:
    found = expanded(workload("StatefulSet", "db", 3, ordinals={"start": 5}))
    assert [(each.pod.pod.name, each.behind) for each in found.pods] == [
        ("db-5", ""),
        ("db-6", "db-5"),
        ("db-7", "db-6"),
    ]
    assert dict(found.pods[1].pod.pod.labels)["apps.kubernetes.io/pod-index"] == "6"
    parallel = expanded(workload("StatefulSet", "db", 2, podManagementPolicy="Parallel"))
    assert [each.behind for each in parallel.pods] == ["", ""]


def test_a_job_runs_as_many_pods_at_once_as_it_may() -> None:
    found = expanded(job("j", completionMode="Indexed", parallelism=2, completions=5))
    assert names(found) == ["j-0", "j-1"]
    assert all(each.runs_to_end for each in found.pods)
    assert found.warnings == (
        "a.yaml, document 1 (Job default/j): makes 5 pods, 2 at a time: the plan shows the first 2",
    )
    assert names(expanded(job("j", parallelism=5, completions=2))) == ["j-x1", "j-x2"]
    queue = {key: value for key, value in job_spec(3).items() if key != "completions"}
    assert len(expanded({**job("j"), "spec": queue}).pods) == 3


def test_what_is_suspended_makes_no_pods() -> None:
    found = expanded(job("j", suspend=True))
    assert not found.pods
    assert found.warnings == ("a.yaml, document 1 (Job default/j): is suspended: it makes no pods",)


def _job_set(**second: Any) -> Object:
    parts = [
        {"name": "a", "replicas": 2, "template": {"spec": job_spec(2)}},
        {"name": "b", "replicas": 1, "template": {"spec": job_spec(1)}, **second},
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": {"replicatedJobs": parts},
    }


def test_a_job_set_makes_jobs_that_make_pods() -> None:
    found = expanded(_job_set())
    assert names(found) == ["js-a-0-0", "js-a-0-1", "js-a-1-0", "js-a-1-1", "js-b-0-0"]
    assert _owners(found)[2] == "Job/default/js-a-1 < ReplicatedJob/default/js/a < JobSet/default/js"
    labels = dict(found.pods[2].pod.pod.labels)
    assert labels["jobset.sigs.k8s.io/replicatedjob-name"] == "a"
    assert labels["batch.kubernetes.io/job-completion-index"] == "0"


def test_the_parts_of_a_job_set_wait_as_depends_on_says() -> None:
    found = expanded(_job_set(dependsOn=[{"name": "a", "status": "Complete"}]))
    assert [each.after for each in found.pods[:4]] == [()] * 4
    assert found.pods[4].after == (Dependency(Target("ReplicatedJob", "default", "js/a"), State.COMPLETE),)
    (error,) = expanded(_job_set(dependsOn=[{"name": "c", "status": "Complete"}])).errors
    assert error.startswith(
        "a.yaml, document 1 (JobSet default/js): spec.replicatedJobs[1].dependsOn[0].name: expected"
    )


def test_a_volcano_job_is_a_gang_of_its_tasks() -> None:
    tasks = [
        {"name": "m", "replicas": 1, "template": {"spec": pod_spec()}},
        {"name": "w", "replicas": 2, "template": {"spec": pod_spec()}, "dependsOn": {"name": ["m"]}},
    ]
    found = expanded(
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": {"tasks": tasks}}
    )
    assert names(found) == ["v-m-0", "v-w-0", "v-w-1"]
    assert _owners(found)[0] == "VolcanoJob/default/v < VolcanoTask/default/v/m"
    assert {each.group for each in found.pods} == {Target(GROUP, "default", "v")}
    assert {each.pod.pod.scheduler_name for each in found.pods} == {"volcano"}
    assert [each.target.name for each in found.pods[1].after] == ["v/m"]


@pytest.mark.parametrize(
    ("metadata", "spec", "gang"),
    [
        ({"annotations": {"waggle.dev/gang": "g", "waggle.dev/gang-min": "2"}}, {}, "g"),
        ({}, {"schedulingGroup": {"podGroupName": "pg"}}, "pg"),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "cs"}}, {}, "cs"),
        ({"annotations": {"scheduling.k8s.io/group-name": "vc"}}, {}, "vc"),
        (
            {
                "annotations": {
                    "hivedscheduler.microsoft.com/pod-scheduling-spec": "virtualCluster: A\npriority: 1\n"
                    "leafCellNumber: 1\n"
                    "affinityGroup: {name: h, members: [{podNumber: 1, leafCellNumber: 1}]}"
                }
            },
            {},
            "h",
        ),
        ({}, {}, None),
    ],
)
def test_gangs_are_found_where_the_algorithms_find_them(metadata: Object, spec: Object, gang: str | None) -> None:
    (found,) = expanded(pod("p", spec=spec, **metadata)).pods
    assert found.group == (Target(GROUP, "default", gang) if gang else None)


def _class(name: str, value: int, **more: Any) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def test_priorities_come_from_classes_of_the_manifests_the_cluster_and_the_system() -> None:
    cluster = WorldReader()
    cluster.add("scheduling.k8s.io/v1", "PriorityClass", json.dumps(_class("old", 5, globalDefault=True)).encode())
    found = expanded(
        _class("new", 7, preemptionPolicy="Never"),
        pod("a", spec={"priorityClassName": "new"}),
        pod("b"),
        pod("c", spec={"priorityClassName": "system-node-critical"}),
        world=cluster.world(),
    )
    assert [(each.pod.priority, each.pod.pod.may_preempt) for each in found.pods] == [
        (7, False),
        (5, True),
        (2_000_001_000, True),
    ]


def test_a_class_that_does_not_exist_is_a_fault_of_each_object() -> None:
    found = expanded(job("j", template={"spec": pod_spec(restartPolicy="Never", priorityClassName="none")}), pod("p"))
    assert found.errors == (
        'a.yaml, document 1 (Job default/j): pods "j-x1" is forbidden: no PriorityClass with name none was found',
    )
    assert names(found) == ["p"]


def test_dependencies_are_inherited_from_the_workload_and_from_the_gang() -> None:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "annotations": {"waggle.dev/after": '["job/third"]'}},
    }
    declared = job(
        "j",
        template={
            "metadata": {
                "annotations": {"waggle.dev/after": '["job/first"]'},
                "labels": {"scheduling.x-k8s.io/pod-group": "g"},
            },
            "spec": pod_spec(restartPolicy="Never"),
        },
    )
    declared["metadata"]["annotations"] = {"waggle.dev/after": '["job/second", "job/first"]'}
    (found,) = expanded(declared, group).pods
    assert [each.target.name for each in found.after] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('["job/j"]', "waggle.dev/after[0]: Job/default/j would wait for itself"),
        ("[{group: }]", "waggle.dev/after[0]"),
        ("x", "waggle.dev/after: expected a list"),
    ],
)
def test_a_wrong_dependency_is_a_fault(text: str, why: str) -> None:
    wrong = job("j")
    wrong["metadata"]["annotations"] = {"waggle.dev/after": text}
    (error,) = expanded(wrong).errors
    assert error.startswith(f"a.yaml, document 1 (Job default/j): {why}")


def test_a_pod_that_waits_for_itself_is_a_fault() -> None:
    (error,) = expanded(pod("p", annotations={"waggle.dev/after": '["pod/p"]'})).errors
    assert error == "a.yaml, document 1 (Pod default/p): waggle.dev/after[0]: Pod/default/p would wait for itself"


@pytest.mark.parametrize(
    ("own", "above", "deadline", "seconds"),
    [
        ("600", None, None, (600.0, 600.0)),
        (None, "600-900", None, (600.0, 900.0)),
        ("60 - 90.5", "1", None, (60.0, 90.5)),
        ("600-900", None, 700, (600.0, 700.0)),
        (None, None, 700, (0.0, 700.0)),
        (None, None, None, None),
    ],
)
def test_run_times(own: str | None, above: str | None, deadline: int | None, seconds: object) -> None:
    spec = pod_spec(restartPolicy="Never", **({"activeDeadlineSeconds": deadline} if deadline else {}))
    metadata = {"annotations": {"waggle.dev/expected-seconds": own}} if own else {}
    declared = job("j", template={"metadata": metadata, "spec": spec})
    if above:
        declared["metadata"]["annotations"] = {"waggle.dev/expected-seconds": above}
    (found,) = expanded(declared).pods
    assert found.seconds == seconds


@pytest.mark.parametrize("text", ["", "ten", "-5", "9-1", "1e3", "99999999999"])
def test_a_wrong_run_time_is_a_fault(text: str) -> None:
    (error,) = expanded(pod("p", annotations={"waggle.dev/expected-seconds": text})).errors
    assert "annotation waggle.dev/expected-seconds: expected seconds, as 600, or a range, as 600-900" in error


def _world(*objects: Object, **status: Any) -> World:
    """The objects of a cluster, each with a UID."""
    reader = WorldReader()
    for number, each in enumerate(objects):
        metadata = {"namespace": "default", "uid": f"u{number}", **each["metadata"]}
        reader.add(each["apiVersion"], each["kind"], json.dumps({**each, "metadata": metadata, **status}).encode())
    assert not reader.faults
    return reader.world()


def _owned(name: str, kind: str, owner: str, api_version: str = "apps/v1") -> Object:
    reference = {"apiVersion": api_version, "kind": kind, "name": owner, "uid": "o", "controller": True}
    return pod(name, ownerReferences=[reference])


def test_a_workload_of_the_cluster_gets_only_the_pods_that_it_lacks() -> None:
    world = _world(
        _owned("rs-abcde", "ReplicaSet", "rs"), _owned("rs-x1", "ReplicaSet", "rs"), _owned("db-1", "StatefulSet", "db")
    )
    found = expanded(workload("ReplicaSet", "rs", 4), workload("StatefulSet", "db", 3), world=world)
    assert names(found) == ["rs-x2", "rs-x3", "db-0", "db-2"]


def test_an_indexed_job_of_the_cluster_lacks_indexes() -> None:
    world = _world(_owned("j-1-abcde", "Job", "j", "batch/v1"))
    assert names(expanded(job("j", 3, completionMode="Indexed"), world=world)) == ["j-0", "j-2"]


def test_a_workload_with_too_many_pods_keeps_them() -> None:
    world = _world(*(_owned(f"rs-{n}", "ReplicaSet", "rs") for n in range(3)))
    found = expanded(workload("ReplicaSet", "rs", 1), world=world)
    assert not found.pods
    assert "has 2 more pods than it is to have" in found.warnings[0]


def test_a_pod_that_exists_stays_as_it_is() -> None:
    found = expanded(pod("p"), world=_world(pod("p")))
    assert not found.pods
    assert found.warnings == (
        "a.yaml, document 1 (Pod default/p): there is a pod of this name already; it stays as it is",
    )


def test_nodes_and_budgets() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": "50%"},
    }
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    world = _world(*(pod(f"p{n}", labels={"app": "a"}) for n in range(3)), status=ready)
    found = expanded(node, budget, world=world)
    assert [(each.name, dict(each.node.allocatable)) for each in found.nodes] == [("n", {"cpu": 4000})]
    assert [each.allowed for each in found.budgets] == [1]
    assert "already" in expanded(node, world=msgspec.structs.replace(world, nodes=found.nodes)).warnings[0]


def test_a_new_budget_counts_pods_that_are_made_with_it() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "maxUnavailable": 1},
    }
    found = expanded(budget, *(pod(f"p{n}", labels={"app": "a"}) for n in range(3)))
    assert [(each.allowed, each.lacking) for each in found.budgets] == [(0, 2)]


def test_what_a_plan_does_not_obey_is_said() -> None:
    term = {"topologyKey": "a", "labelSelector": {}}
    spec = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "r"}],
    }
    found = expanded(pod("p", spec=spec), workload("DaemonSet", "d", 0))
    assert [each.partition(": ")[2][:40] for each in found.warnings] == [
        "a plan does not obey its anti-affinity t",
        "a plan does not obey its spec.topologySp",
        "a plan does not check where its volumes ",
        "a plan does not allocate its devices (sp",
        "its pods are not planned, and the room t",
    ]


def test_all_pods_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expanding, "MOST_PODS", 5)
    found = expanded(job("a", 4), job("b", 4), job("c", 1))
    assert len(found.pods) == 5
    assert found.errors == ("a.yaml, document 2 (Job default/b): more than 5 pods, together with those before it",)


def test_uids_are_the_same_each_time_and_differ() -> None:
    first, second = expanded(job("j", 3)), expanded(job("j", 3))
    assert first == second
    assert len({each.pod.uid for each in first.pods}) == 3


def test_the_same_name_twice_among_pods_is_made_once() -> None:
    found = expanded(pod("db-0"), workload("StatefulSet", "db", 2))
    assert names(found) == ["db-0", "db-1"]
    assert "pod db-0 belongs to another object" in found.warnings[0]


def test_defaults_are_those_of_the_api_server() -> None:
    (found,) = expanded(pod("p", spec={"containers": containers(cpu="100m", memory="1Gi")})).pods
    assert dict(found.pod.pod.requests) == {"cpu": 100, "memory": 1 << 30}
    assert [each.key for each in found.pod.tolerations] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert found.pod.raw == b""
