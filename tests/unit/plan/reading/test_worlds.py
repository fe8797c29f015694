"""The cluster as it is: owners and what they say, and what is never kept."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from extender.ordering.records import GROUP, Dependency, Target
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from tests.unit.plan.reading.manifests import Object, job_spec, pod

_SECRET = "do-not-keep"


def _of(
    kind: str, name: str, api_version: str = "v1", owner: tuple[str, str, str] | None = None, **more: Any
) -> Object:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        **more.pop("metadata", {}),
    }
    if owner is not None:
        reference = {"apiVersion": owner[0], "kind": owner[1], "name": owner[2], "uid": "o", "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def _world(*objects: Object, settings: str = "") -> World:
    reader = WorldReader(settings)
    for each in objects:
        reader.add(each["apiVersion"], each["kind"], json.dumps(each).encode())
    assert not reader.faults
    return reader.world()


def test_a_pod_knows_all_objects_above_it_and_inherits_from_them() -> None:
    world = _world(
        _of("Deployment", "web", "apps/v1", metadata={"annotations": {"waggle.dev/after": '["job/a"]'}}),
        _of("ReplicaSet", "web-1", "apps/v1", ("apps/v1", "Deployment", "web"), spec={"replicas": 1}),
        _of("Pod", "web-1-x", owner=("apps/v1", "ReplicaSet", "web-1"), spec={"containers": []}),
    )
    (found,) = world.pods
    assert (found.owner, found.above) == (
        Target("ReplicaSet", "default", "web-1"),
        (Target("Deployment", "default", "web"),),
    )
    assert found.after == (Dependency(Target("Job", "default", "a")),)


def test_a_pod_of_a_job_set_waits_as_its_part_does_and_ends_as_its_job() -> None:
    parts = [
        {"name": "a", "template": {"spec": job_spec()}},
        {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}], "template": {"spec": job_spec()}},
    ]
    labels = {"labels": {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "b"}}
    world = _world(
        _of("JobSet", "js", "jobset.x-k8s.io/v1alpha2", spec={"replicatedJobs": parts}),
        _of(
            "Job",
            "js-b-0",
            "batch/v1",
            ("jobset.x-k8s.io/v1alpha2", "JobSet", "js"),
            metadata=labels,
            spec={"activeDeadlineSeconds": 60},
        ),
        _of("Pod", "js-b-0-0", owner=("batch/v1", "Job", "js-b-0"), spec={"containers": [], "restartPolicy": "Never"}),
    )
    (found,) = world.pods
    assert [str(each) for each in (found.owner, *found.above)] == [
        "Job/default/js-b-0",
        "ReplicatedJob/default/js/b",
        "JobSet/default/js",
    ]
    assert [str(each.target) for each in found.after] == ["ReplicatedJob/default/js/a"]
    assert found.seconds == (0.0, 60.0)
    assert found.runs_to_end


def test_a_pod_of_a_volcano_job_belongs_to_its_task_and_its_gang() -> None:
    marks = {
        "labels": {"volcano.sh/job-name": "v", "volcano.sh/task-spec": "w"},
        "annotations": {"scheduling.k8s.io/group-name": "g"},
    }
    (found,) = _world(
        _of("Pod", "v-w-0", owner=("batch.volcano.sh/v1alpha1", "Job", "v"), metadata=marks, spec={"containers": []})
    ).pods
    assert (found.owner, found.above) == (
        Target("VolcanoJob", "default", "v"),
        (Target("VolcanoTask", "default", "v/w"),),
    )
    assert found.group == Target(GROUP, "default", "g")


def test_owners_in_a_circle_end() -> None:
    world = _world(
        _of("Job", "a", "batch/v1", ("batch/v1", "Job", "b")),
        _of("Job", "b", "batch/v1", ("batch/v1", "Job", "a")),
        _of("Pod", "p", owner=("batch/v1", "Job", "a"), spec={"containers": []}),
    )
    assert [each.name for each in world.pods[0].above] == ["b"]


def test_nothing_but_what_scheduling_reads_is_kept() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": _SECRET,
        "example.com/note": _SECRET,
        "waggle.dev/gang": "g",
        "waggle.dev/gang-min": "1",
    }
    container = {
        "name": "main",
        "image": _SECRET,
        "command": [_SECRET],
        "args": [_SECRET],
        "env": [{"name": "A", "value": _SECRET}],
        "resources": {"requests": {"cpu": "1"}},
    }
    spec = {"containers": [container], "volumes": [{"name": _SECRET, "hostPath": {"path": _SECRET}}]}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": _SECRET}
    status = {"conditions": [condition]}
    meta = {"annotations": annotations, "managedFields": [{"manager": _SECRET}]}
    world = _world(
        _of("Deployment", "web", "apps/v1", metadata=meta, spec={"replicas": 2, "template": template}, status=status),
        _of("Claim", "c", "waggle.dev/v1alpha1", spec={"poolRef": {"name": "p"}, "images": {"main": _SECRET}}),
        _of("Node", "n", metadata=meta, status={"images": [{"names": [_SECRET]}], "capacity": {"cpu": "1"}}),
        _of("Pod", "p", metadata=meta, spec=spec, status=status),
    )
    assert _SECRET not in repr(msgspec.json.encode(world))
    assert dict(world.pods[0].pod.pod.annotations) == {"waggle.dev/gang": "g", "waggle.dev/gang-min": "1"}
    assert msgspec.json.decode(world.objects[0].json)["spec"]["replicas"] == 2


def test_an_annotation_that_the_configuration_names_is_kept() -> None:
    spec = {"containers": [{"name": "c"}]}
    named = _of("Pod", "p", metadata={"annotations": {"example.com/queue": "q"}}, spec=spec)
    assert not _world(named).pods[0].pod.pod.annotations
    kept = _world(named, settings="pods: {annotation: example.com/queue}").pods[0]
    assert dict(kept.pod.pod.annotations) == {"example.com/queue": "q"}


def test_pods_come_in_the_order_of_their_creation() -> None:
    def made(name: str, when: str) -> Object:
        return _of("Pod", name, metadata={"creationTimestamp": when}, spec={"containers": []})

    world = _world(
        made("a", "2026-11-23T10:00:02Z"), made("b", "2026-11-23T10:00:01Z"), made("c", "2026-11-23T10:00:02Z")
    )
    assert [each.pod.pod.name for each in world.pods] == ["b", "a", "c"]


def test_old_replica_sets_are_left_out_but_known() -> None:
    world = _world(
        _of("ReplicaSet", "old", "apps/v1", spec={"replicas": 0}),
        _of("ReplicaSet", "new", "apps/v1", spec={"replicas": 1}),
    )
    assert [each.name for each in world.objects] == ["new"]


def test_pods_that_a_workload_has_not_made_yet_are_said() -> None:
    reader = WorldReader()
    assert reader.unmade() == ""
    for each in (
        _of("StatefulSet", "db", "apps/v1", spec={"replicas": 3}),
        _of("StatefulSet", "done", "apps/v1", spec={"replicas": 1}),
        _of("Pod", "db-0", owner=("apps/v1", "StatefulSet", "db"), spec={"containers": []}),
        _of("Pod", "done-0", owner=("apps/v1", "StatefulSet", "done"), spec={"containers": []}),
    ):
        reader.add(each["apiVersion"], each["kind"], json.dumps(each).encode())
    assert reader.unmade() == "pods that are not made yet are not planned: StatefulSet/default/db has 1 of 3 pods"


def test_what_cannot_be_read_is_left_out_and_said() -> None:
    reader = WorldReader()
    reader.add("v1", "Pod", json.dumps({**pod("p"), "spec": {"containers": 3}}).encode())
    reader.add("v1", "Node", b"[")
    reader.add("apps/v1", "Deployment", b"3")
    for number in range(20):
        reader.add("v1", "Pod", json.dumps({"metadata": {"name": f"p{number}", "uid": 3}}).encode())
    assert reader.faults[0].startswith("Pod p: Expected `array | null`, got `int`")
    assert reader.faults[-1] == "and 13 other objects"
    assert not reader.world().pods
