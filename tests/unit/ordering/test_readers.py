"""What is read of pods, of objects that make pods, and of PodGroups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from algorithm.decoding import DecodeError
from extender.ordering.podreader import decode_pod
from extender.ordering.records import (
    GATE,
    GROUP,
    JOB,
    JOB_SET,
    REPLICATED_JOB,
    VOLCANO_JOB,
    VOLCANO_TASK,
    Dependency,
    Part,
    PodKey,
    State,
    Target,
    WorkloadRecord,
)
from extender.ordering.workloadreader import decode_workload


def pod_json(metadata: dict[str, Any] | None = None, spec: Any = None, status: Any = None) -> bytes:
    meta = {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "7", **(metadata or {})}
    return json.dumps({"metadata": meta, "spec": spec, "status": status}).encode()


def object_json(api_version: str, kind: str, spec: Any = None, status: Any = None, **metadata: Any) -> bytes:
    meta = {"name": "o", "namespace": "ml", "uid": "u", "resourceVersion": "7", **metadata}
    return json.dumps(
        {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec, "status": status}
    ).encode()


def workload(api_version: str, kind: str, spec: Any = None, status: Any = None, **metadata: Any) -> WorkloadRecord:
    found = decode_workload(object_json(api_version, kind, spec, status, **metadata))
    assert found is not None
    return found


def test_a_pod() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x"},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "y", "controller": True},
    ]
    annotations = {"waggle.dev/after": "[job/a]", "waggle.dev/after-met": "Job/ml/b=Complete"}
    found = decode_pod(
        pod_json(
            {"ownerReferences": owners, "annotations": annotations},
            {"schedulingGates": [{"name": "other"}, {"name": GATE}], "nodeName": "n"},
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        )
    )
    assert (found.key, found.uid, found.version) == (PodKey("ml", "p"), "u", "7")
    assert (found.owner, found.owner_uid) == (Target(JOB, "ml", "j"), "y")
    assert (found.node, found.phase, found.ready, found.terminating) == ("n", "Running", True, False)
    assert found.gates == ("other", GATE)
    assert found.is_gated
    assert found.after == (Dependency(Target(JOB, "ml", "a")),)
    assert found.declares
    assert found.met == {"Job/ml/b=Complete"}


def test_a_pod_with_nothing_but_nulls() -> None:
    found = decode_pod(pod_json({"annotations": None, "labels": None, "ownerReferences": None}))
    assert (found.node, found.phase, found.ready, found.declares, found.owner) == ("", "Pending", False, False, None)


def test_an_error_in_a_declaration_is_kept() -> None:
    found = decode_pod(pod_json({"annotations": {"waggle.dev/after": "[x]"}}))
    assert found.declares
    assert found.bad_after.startswith("waggle.dev/after[0]: expected KIND/NAME")


@pytest.mark.parametrize(
    ("metadata", "spec", "expected"),
    [
        ({"annotations": {"waggle.dev/gang": "g", "waggle.dev/gang-min": "3"}}, None, ("g", False, 3)),
        ({"annotations": {"waggle.dev/gang": "g", "waggle.dev/gang-min": "many"}}, None, ("g", False, 1)),
        (None, {"schedulingGroup": {"podGroupName": "g"}}, ("g", True, 1)),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, None, ("g", True, 1)),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, None, ("g", True, 1)),
        (
            {
                "annotations": {
                    "hivedscheduler.microsoft.com/pod-scheduling-spec": "virtualCluster: v\nleafCellNumber: 1\n"
                    "affinityGroup: {name: g, members: [{podNumber: 4, leafCellNumber: 1}]}"
                }
            },
            None,
            ("g", False, 4),
        ),
    ],
)
def test_gangs(metadata: Any, spec: Any, expected: tuple[str, bool, int]) -> None:
    found = decode_pod(pod_json(metadata, spec))
    assert found.group is not None
    assert (found.group.name, found.has_group_object, found.minimum) == expected
    assert found.group.kind == GROUP


def test_a_task_of_a_volcano_job() -> None:
    found = decode_pod(pod_json({"annotations": {"volcano.sh/job-name": "j", "volcano.sh/task-spec": "t"}}))
    assert found.part == Target(VOLCANO_TASK, "ml", "j/t")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"metadata": 5}', b'{"metadata": {}}', b'{"metadata":{"name":5}}']
)
def test_what_cannot_be_read_says_so(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_pod(body)
    with pytest.raises(DecodeError):
        decode_workload(body)


def test_a_job_runs_as_many_pods_at_once_as_it_needs() -> None:
    assert workload("batch/v1", "Job").pods == 1
    assert workload("batch/v1", "Job", {"parallelism": 4, "completions": 2}).pods == 2
    assert workload("batch/v1", "Job", {"parallelism": 4}).pods == 4
    assert workload("batch/v1", "Job", {"parallelism": -1, "completions": "x"}).pods == 0
    assert workload("batch/v1", "Job", {"parallelism": 4}, {"ready": 1, "succeeded": 2}).ready == 3


def test_the_end_of_a_job() -> None:
    def ended(kind: str) -> WorkloadRecord:
        conditions = [{"type": kind, "status": "True", "reason": "Why"}, {"type": "Suspended", "status": "False"}]
        return workload("batch/v1", "Job", None, {"conditions": conditions})

    assert ended("Complete").complete
    assert ended("Failed").failed == "Why"
    assert not ended("FailureTarget").failed


def test_replicas() -> None:
    assert workload("apps/v1", "Deployment", {"replicas": 3}).pods == 3
    assert workload("apps/v1", "StatefulSet").pods == 1
    assert workload("apps/v1", "ReplicaSet", {"replicas": 0}).pods == 0


def test_pod_groups_of_all_apis() -> None:
    assert workload("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 4}).pods == 4
    gang = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    found = workload("scheduling.k8s.io/v1alpha2", "PodGroup", gang, annotations={"waggle.dev/after": "[job/a]"})
    assert (found.target, found.pods) == (Target(GROUP, "ml", "o"), 5)
    assert found.after == (Dependency(Target(JOB, "ml", "a")),)


def test_a_job_set_and_its_jobs() -> None:
    template = {"spec": {"parallelism": 3, "completions": 3}}
    parts = [
        {"name": "driver", "template": {"spec": {}}},
        {"name": "w", "replicas": 2, "template": template, "dependsOn": [{"name": "driver", "status": "Complete"}]},
    ]
    found = workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": parts})
    driver, worker = Target(REPLICATED_JOB, "ml", "o/driver"), Target(REPLICATED_JOB, "ml", "o/w")
    assert found.parts == (Part(driver, 1, 1), Part(worker, 6, 2, (Dependency(driver, State.COMPLETE),)))
    assert found.pods == 7
    labels = {"jobset.sigs.k8s.io/jobset-name": "o", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "o", "uid": "s", "controller": True}
    job = workload("batch/v1", "Job", None, None, labels=labels, ownerReferences=[owner])
    assert (job.part, job.owner, job.owner_uid) == (worker, Target(JOB_SET, "ml", "o"), "s")


def test_a_volcano_job() -> None:
    tasks = [{"name": "ps", "replicas": 2}, {"name": "w", "dependsOn": {"name": ["nobody"]}}]
    state = {"state": {"phase": "Failed"}}
    found = workload("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}, state)
    assert (found.target, found.pods, found.failed) == (Target(VOLCANO_JOB, "ml", "o"), 3, "Failed")
    assert found.bad_after.startswith("spec.tasks[1].dependsOn.name[0]: expected the name of another part")


def test_objects_of_other_kinds_are_none() -> None:
    assert decode_workload(object_json("v1", "Service")) is None
    assert decode_workload(object_json("example.com/v1", "Job")) is None
    assert decode_workload(b'{"metadata": {"name": "x"}}', "batch/v1", "Job") is not None
