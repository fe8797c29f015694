"""Manifests as objects, and faults that name the file, the document, the object and the field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extender.plan.reading import documents
from extender.plan.reading.documents import InputError, Source, read_documents
from tests.unit.plan.reading.manifests import Object, job, job_spec, pod, pod_spec, read, workload


def test_objects_keep_their_order_and_say_where_they_stand() -> None:
    found = read_documents(
        [
            Source("b.yaml", json.dumps(pod("p"))),
            Source("a.yaml", f"{json.dumps(job('j'))}\n---\n{json.dumps(pod('q'))}"),
        ]
    ).require()
    assert [(str(each.target), each.origin) for each in found.objects] == [
        ("Pod/default/p", "b.yaml, document 1"),
        ("Job/default/j", "a.yaml, document 1"),
        ("Pod/default/q", "a.yaml, document 2"),
    ]


def test_a_text_without_an_object_is_said() -> None:
    found = read_documents([Source("a.yaml", "# nothing\n---\n"), Source("b.yaml", json.dumps(pod("p")))]).require()
    assert found.warnings == ("a.yaml: there is no object in it",)


def test_lists_are_their_items() -> None:
    untyped = {key: value for key, value in pod("c").items() if key in ("metadata", "spec")}
    found = read(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [pod("a"), {"apiVersion": "v1", "kind": "List", "items": [pod("b")]}],
        },
        {"apiVersion": "v1", "kind": "PodList", "items": [untyped]},
    ).require()
    assert [each.name for each in found.objects] == ["a", "b", "c"]
    assert found.objects[1].origin == "a.yaml, document 1, item 2, item 1"
    assert found.objects[2].kind == "Pod"


def test_an_object_is_kept_as_it_was_written_without_what_a_server_wrote() -> None:
    written = pod("p", uid="u", resourceVersion="7", managedFields=[], labels={"a": "b"}, annotations=None)
    (found,) = read({**written, "status": {"phase": "Running"}}).require().objects
    assert msgspec.json.decode(found.json) == {**pod("p", labels={"a": "b"}, namespace="default")}


def test_namespaces_are_those_that_kubectl_would_use() -> None:
    found = read(
        pod("p"),
        pod("q", namespace="other"),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "c", "namespace": "x"},
            "value": 1,
        },
        namespace="team",
    ).require()
    assert [each.namespace for each in found.objects] == ["team", "other", ""]


def test_a_generated_name_is_the_same_each_time() -> None:
    nameless = {**pod("p"), "metadata": {"generateName": "run-"}}
    assert [each.name for each in read(nameless, nameless).require().objects] == ["run-x1", "run-x2"]


def test_unknown_kinds_are_listed_and_stop_nothing() -> None:
    found = read({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"}}, pod("p")).require()
    assert found.unknown == ("a.yaml, document 1 (PyTorchJob t)",)
    assert [each.kind for each in found.objects] == ["PyTorchJob", "Pod"]


def test_kinds_without_an_effect_are_kept_and_not_listed() -> None:
    found = read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}).require()
    assert not found.unknown
    assert [each.kind for each in found.objects] == ["ConfigMap"]


def test_secrets_are_not_kept() -> None:
    found = read({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}).require()
    assert not found.objects
    assert found.warnings == (
        "a.yaml, document 1 (Secret default/s): a plan keeps no secrets; it is neither planned nor created",
    )


def _set(obj: Object, path: str, value: Any) -> Object:
    copied: Object = json.loads(json.dumps(obj))
    *above, last = path.split(".")
    at: Any = copied
    for step in above:
        at = at[int(step)] if step.isdigit() else at[step]
    at[last] = value
    return copied


_JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "s"},
    "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job_spec()}}]},
}
_VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "v"},
    "spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": pod_spec()}}]},
}


@pytest.mark.parametrize(
    ("obj", "where", "why"),
    [
        ([1], "", "expected an object with apiVersion, kind and metadata, got a list"),
        ({"kind": "Pod"}, "", "apiVersion: expected a text of 1 to 253 characters; it is missing"),
        ({"apiVersion": "v1", "kind": 3}, "", "kind: expected a text of 1 to 253 characters; got a number"),
        ({"apiVersion": "v1", "kind": "Pod"}, "", "metadata: expected an object with a name, got nothing"),
        (_set(pod("p"), "metadata.name", ""), "(Pod)", "metadata.name: expected a name, or generateName"),
        (
            _set(pod("p"), "metadata.name", "A_b"),
            "(Pod default/A_b)",
            'metadata.name: Invalid value: "A_b": a lowercase',
        ),
        (_set(pod("p"), "spec.containers", []), "(Pod default/p)", "spec.containers: Required value"),
        (_set(pod("p"), "spec.containers", 3), "(Pod default/p)", "spec.containers: expected `array"),
        (_set(pod("p"), "spec.priority", "high"), "(Pod default/p)", "spec.priority: expected `int"),
        (
            _set(pod("p"), "spec.containers.0.resources.limits.cpu", "4x"),
            "(Pod default/p)",
            "spec.containers[0].resources.limits[cpu]: quantity '4x' must be a number",
        ),
        (
            _set(pod("p"), "spec.containers.0.resources", {"requests": {"nvidia.com/gpu": "1"}}),
            "(Pod default/p)",
            "spec.containers[0].resources.limits: Required value: Limit must be set",
        ),
        (
            _set(job("j"), "spec.parallelism", "x"),
            "(Job default/j)",
            "spec.parallelism must be an integer, not str",
        ),
        (_set(job("j"), "spec.parallelism", -1), "(Job default/j)", "spec.parallelism: expected 0 to 100000, got -1"),
        (_set(job("j"), "spec.completionMode", "Fast"), "(Job default/j)", "spec.completionMode: expected Indexed or"),
        (
            _set(job("j"), "spec.template.spec.restartPolicy", "Always"),
            "(Job default/j)",
            "spec.template.spec.restartPolicy: expected OnFailure or Never (a Job's pods run to an end), got Always",
        ),
        (
            _set(job("j"), "spec.template.spec.containers.0.name", ""),
            "(Job default/j)",
            "spec.template.spec.containers[0].name: Required value",
        ),
        (
            workload("Deployment", "d", 1, selector={"matchLabels": {"app": "x"}}),
            "(Deployment default/d)",
            "spec.template.metadata.labels: Invalid value",
        ),
        (
            workload("StatefulSet", "d", 2_000_000_000),
            "(StatefulSet default/d)",
            "spec.replicas: expected 0 to 100000, got 2000000000",
        ),
        (
            _set(workload("Deployment", "d", 1), "apiVersion", "apps/v1beta1"),
            "(Deployment default/d)",
            "apiVersion: expected apps/v1",
        ),
        (_set(_JOB_SET, "spec.replicatedJobs", []), "(JobSet default/s)", "spec.replicatedJobs: expected at least one"),
        (
            _set(_JOB_SET, "spec.replicatedJobs.0.template.spec.template.spec.containers.0.image", ""),
            "(JobSet default/s)",
            "spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: Required value",
        ),
        (
            _set(_JOB_SET, "spec.replicatedJobs.0.replicas", 10**9),
            "(JobSet default/s)",
            "spec.replicatedJobs[0].replicas:",
        ),
        (_set(_VOLCANO, "spec.tasks.0.replicas", 1.5), "(Job default/v)", "spec.tasks[0].replicas must be an integer"),
        (
            {
                "apiVersion": "waggle.dev/v1alpha1",
                "kind": "VPodSet",
                "metadata": {"name": "s"},
                "spec": {"capacity": 0},
            },
            "(VPodSet default/s)",
            "spec.",
        ),
        (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "x"}}},
            "(Node n)",
            "status.allocatable[cpu]: quantity 'x' must be a number",
        ),
    ],
)
def test_a_fault_names_document_object_and_field(obj: Any, where: str, why: str) -> None:
    (error,) = read(pod("fine"), obj).errors
    place = f"a.yaml, document 2 {where}".strip()
    assert error.startswith(f"{place}: {why}"), error


def test_a_name_that_stands_twice_is_a_fault_that_names_both_places() -> None:
    (error,) = read(pod("p"), job("p"), pod("p")).errors
    assert error == "a.yaml, document 3 (Pod default/p): also appears in a.yaml, document 1"


def test_each_file_and_each_object_has_its_own_faults() -> None:
    found = read_documents([Source("a", "x: ]"), Source("b", b"\xff"), Source("c", json.dumps(pod("p")))])
    assert [each.name for each in found.objects] == ["p"]
    assert found.errors[0].startswith("a: line 1, column 4:")
    assert found.errors[1] == "b: not UTF-8 text: byte 1"
    with pytest.raises(InputError, match=r"a: line 1[^\n]*\nb: not UTF-8"):
        found.require()


def test_many_faults_are_counted() -> None:
    errors = read(*({"kind": "Pod"} for _ in range(30))).errors
    assert len(errors) == 21
    assert errors[-1] == "and 10 more"


def test_sizes_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_BYTES", 2000)
    monkeypatch.setattr(documents, "MOST_OBJECTS", 2)
    assert "more than 2 objects" in read(pod("a"), pod("b"), pod("c")).errors[0]
    assert "all files together" in read_documents([Source("a", " " * 1500), Source("b", " " * 1500)]).errors[0]


@pytest.mark.parametrize("junk", [{"a": 1}, [1], "x", 3, True, [[]], [{"a": []}]])
@pytest.mark.parametrize("path", ["spec", "spec.template", "spec.template.spec", "spec.selector", "metadata.labels"])
def test_wrong_types_anywhere_are_faults_and_no_crash(path: str, junk: Any) -> None:
    assert 1 <= len(read(_set(workload("Deployment", "d", 1), path, junk)).errors) <= 2
