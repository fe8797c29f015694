"""`dependsOn` of JobSets and Volcano Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from extender.ordering.after import AfterError
from extender.ordering.depends_on import depends_on
from extender.ordering.records import REPLICATED_JOB, VOLCANO_TASK, Dependency, State, Target


def job_set(*parts: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"replicatedJobs": list(parts)},
    }


def volcano_job(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": list(tasks)},
    }


def test_a_job_set() -> None:
    found = depends_on(
        job_set(
            {"name": "driver"},
            {"name": "load"},
            {
                "name": "worker",
                "dependsOn": [{"name": "driver", "status": "Ready"}, {"name": "load", "status": "Complete"}],
            },
        )
    )
    assert found == {
        Target(REPLICATED_JOB, "ml", "train/worker"): (
            Dependency(Target(REPLICATED_JOB, "ml", "train/driver")),
            Dependency(Target(REPLICATED_JOB, "ml", "train/load"), State.COMPLETE),
        )
    }


def test_a_volcano_job_with_all_and_any() -> None:
    found = depends_on(
        volcano_job(
            {"name": "ps"},
            {"name": "chief", "dependsOn": {"name": ["ps"]}},
            {"name": "worker", "dependsOn": {"name": ["ps", "chief"], "iteration": "any"}},
        )
    )
    ps, chief = (Target(VOLCANO_TASK, "default", f"train/{name}") for name in ("ps", "chief"))
    either = "spec.tasks[2].dependsOn"
    assert found == {
        chief: (Dependency(ps),),
        Target(VOLCANO_TASK, "default", "train/worker"): (
            Dependency(ps, either=either),
            Dependency(chief, either=either),
        ),
    }


def test_other_kinds_have_none() -> None:
    assert depends_on({"apiVersion": "batch/v1", "kind": "Job", "spec": {"tasks": 5}}) == {}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            job_set({"name": "a", "dependsOn": [{"name": "b", "status": "Ready"}]}),
            "dependsOn[0].name: expected the name",
        ),
        (job_set({"name": "a", "dependsOn": [{"name": "a", "status": "Ready"}]}), "a would wait for itself"),
        (job_set({"name": "a"}, {"name": "b", "dependsOn": [{"name": "a", "status": "Done"}]}), "[0].status: expected"),
        (job_set({"name": "a", "dependsOn": 5}), "spec.replicatedJobs[0].dependsOn: expected a list"),
        (job_set({"name": "a", "dependsOn": [5]}), "dependsOn[0]: expected an object"),
        (job_set({}), "spec.replicatedJobs[0].name: expected a name"),
        (volcano_job({"name": "a", "dependsOn": []}), "spec.tasks[0].dependsOn: expected an object"),
        (volcano_job({"name": "a", "dependsOn": {"name": ["b"]}}), "spec.tasks[0].dependsOn.name[0]: expected"),
    ],
)
def test_an_error_names_the_field(obj: dict[str, Any], message: str) -> None:
    with pytest.raises(AfterError) as caught:
        depends_on(obj)
    assert message in str(caught.value)
