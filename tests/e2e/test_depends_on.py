"""JobSets and Volcano Jobs on the real control plane: `dependsOn` as it stands, with a stand-in for their controllers.

The control plane has neither their controllers nor that of Jobs. What these would do, the test does: it makes Jobs and
pods with their owner references and labels, and writes how Jobs end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import httpx
import pytest

from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.test_ordering import GATE, gates, held, waits
from tests.e2e.world import Object, RealCluster, eventually
from tests.support.apiserver.custom import CRDS, definition, version

WORLD = {"settings": {"ordering": {"enabled": True, "grace_seconds": 1}}}
JOB_SET, VOLCANO = ("jobset.x-k8s.io", "v1alpha2", "JobSet"), ("batch.volcano.sh", "v1alpha1", "Job")
_NAME = {"type": "string"}
_ITEM = {"type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": True}
#: The fields that `dependsOn` needs; all others are kept as they are.
_REPLICATED_JOB = {
    "name": _NAME,
    "replicas": {"type": "integer"},
    "dependsOn": {
        "type": "array",
        "items": {"type": "object", "properties": {"name": _NAME, "status": {"enum": ["Ready", "Complete"], **_NAME}}},
    },
}
_TASK = {
    "name": _NAME,
    "replicas": {"type": "integer"},
    "dependsOn": {
        "type": "object",
        "properties": {"name": {"type": "array", "items": _NAME}, "iteration": {"enum": ["any", "all"], **_NAME}},
    },
}
_numbers = count()


def _definition(kind: tuple[str, str, str], field: str, properties: Object) -> Object:
    items = {"type": "array", "items": {**_ITEM, "properties": properties}}
    served = version(kind[1], spec={field: items}, subresources={"status": {}})
    return definition(kind[0], served, kind=kind[2])


@pytest.fixture(scope="module", autouse=True)
def kinds(plane: ControlPlane) -> Iterator[None]:
    """The two kinds, installed before Waggle starts."""
    made = [_definition(JOB_SET, "replicatedJobs", _REPLICATED_JOB), _definition(VOLCANO, "tasks", _TASK)]
    with plane.client() as api:
        for each in made:
            describe(api.post(CRDS, json=each))
        for each in made:
            path = f"{CRDS}/{each['metadata']['name']}"
            eventually(partial(_is_established, api, path), f"{path} is served")
        yield
        for each in made:
            describe(api.delete(f"{CRDS}/{each['metadata']['name']}"))


def _is_established(api: httpx.Client, path: str) -> bool:
    conditions = api.get(path).json().get("status", {}).get("conditions") or ()  # null at first
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)


# -- what their controllers would do ----------------------------------------------------------------------------------


class Owner:
    """An object whose controller the test plays."""

    def __init__(self, w: RealCluster, api: str, kind: str, plural: str, body: Object) -> None:
        self.w = w
        self.path = f"/apis/{api}/namespaces/{w.namespace}/{plural}"
        made: Object = describe(w.http.post(self.path, json={"apiVersion": api, "kind": kind, **body}))
        self.name: str = made["metadata"]["name"]
        self.reference = {"apiVersion": api, "kind": kind, "name": self.name, "uid": made["metadata"]["uid"]}

    def status(self, status: Object) -> None:
        headers = {"content-type": "application/merge-patch+json"}
        describe(self.w.http.patch(f"{self.path}/{self.name}/status", json={"status": status}, headers=headers))

    def pod(self, name: str, *, labels: Mapping[str, str] | None = None, gated: bool = True) -> str:
        """A pod that this object controls."""
        spec = self.w.pod_spec(gpus=1, restartPolicy="Never", schedulingGates=GATE if gated else [])
        reference = {**self.reference, "controller": True}
        metadata = {"name": name, "labels": dict(labels or {}), "ownerReferences": [reference]}
        self.w.create({"kind": "Pod", "metadata": metadata, "spec": spec})
        return name


def job_set(w: RealCluster, *parts: Object) -> Owner:
    spec = {"replicatedJobs": [{"replicas": 1, "template": {"spec": {}}, **part} for part in parts]}
    body = {"metadata": {"name": f"s{next(_numbers)}"}, "spec": spec}
    return Owner(w, f"{JOB_SET[0]}/{JOB_SET[1]}", JOB_SET[2], "jobsets", body)


def job_of(owner: Owner, part: str, *, pods: int = 1) -> Owner:
    """The Job of a part, as the controller of JobSets makes it."""
    labels = {"jobset.sigs.k8s.io/jobset-name": owner.name, "jobset.sigs.k8s.io/replicatedjob-name": part}
    metadata = {
        "name": f"{owner.name}-{part}-0",
        "labels": labels,
        "ownerReferences": [{**owner.reference, "controller": True}],
    }
    template = {"spec": owner.w.pod_spec(gpus=1, restartPolicy="Never", schedulingGates=GATE)}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return Owner(owner.w, "batch/v1", "Job", "jobs", {"metadata": metadata, "spec": spec})


def ends(job: Owner, condition: str, *, pods: int = 1) -> None:
    """The Job completes (`Complete`) or fails (`Failed`), as the controller of Jobs writes it."""
    now = "2026-11-24T00:00:00Z"
    before = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
        for each in (before, condition)
    ]
    status: Object = {"startTime": now, "conditions": conditions, "uncountedTerminatedPods": {}}
    done = {"succeeded": pods, "completionTime": now} if condition == "Complete" else {"failed": pods}
    job.status(status | done)


def volcano_job(w: RealCluster, *tasks: Object) -> Callable[[str, str], str]:
    """A Volcano Job; what makes a pod of one of its tasks: (task, name of the pod)."""
    spec = {"tasks": [{"replicas": 1, "template": {"spec": {}}, **task} for task in tasks]}
    body = {"metadata": {"name": f"v{next(_numbers)}"}, "spec": spec}
    owner = Owner(w, f"{VOLCANO[0]}/{VOLCANO[1]}", VOLCANO[2], "jobs", body)
    return lambda task, name: owner.pod(name, labels={"volcano.sh/job-name": owner.name, "volcano.sh/task-spec": task})


def stays(w: RealCluster, name: str, code: str = "WaitsForDependency") -> None:
    """Nothing releases the pod for a second."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        assert gates(w, name) == GATE, f"{name} was released"
        time.sleep(0.1)
    waits(w, name, code)


def ended(w: RealCluster, names: Sequence[str], phase: str = "Succeeded") -> None:
    for name in names:
        w.patch(name, {"status": {"phase": phase}}, part="status")


# -- JobSets ----------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_job_set_start_in_their_order(w: RealCluster) -> None:
    """Ready: as many pods of the earlier part as it has must be ready. Complete: its Job must have completed."""
    w.nodes(2)
    owner = job_set(
        w,
        {"name": "load", "template": {"spec": {"parallelism": 2, "completions": 2}}},
        {"name": "train", "dependsOn": [{"name": "load", "status": "Ready"}]},
        {"name": "report", "dependsOn": [{"name": "train", "status": "Complete"}]},
    )
    load, train, report = job_of(owner, "load", pods=2), job_of(owner, "train"), job_of(owner, "report")
    report.pod("r")
    train.pod("t")
    waits(w, "t")
    waits(w, "r")
    load.pod("l0", gated=False)
    w.place("l0")
    stays(w, "t")  # one of two
    load.pod("l1", gated=False)
    w.all_placed(["l0", "l1", "t"])
    stays(w, "r")
    ended(w, ["t"])
    ends(train, "Complete")
    w.place("r")
    assert held(w) == {}


def test_a_job_that_failed_is_not_ready(w: RealCluster) -> None:
    """Although its pods are, and although the controller of JobSets counts it as ready."""
    w.nodes(1)
    owner = job_set(w, {"name": "load"}, {"name": "train", "dependsOn": [{"name": "load", "status": "Ready"}]})
    load, train = job_of(owner, "load"), job_of(owner, "train")
    ends(load, "Failed")
    load.pod("l", gated=False)
    w.place("l")
    train.pod("t")
    stays(w, "t")


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_a_job_that_has_completed_counts_however_long_ago(w: RealCluster, status: str) -> None:
    """Its pods may be gone."""
    w.nodes(1)
    owner = job_set(w, {"name": "load"}, {"name": "train", "dependsOn": [{"name": "load", "status": status}]})
    ends(job_of(owner, "load"), "Complete")
    job_of(owner, "train").pod("t")
    w.place("t")


def test_parts_that_wait_for_each_other_are_told(w: RealCluster) -> None:
    w.nodes(1)
    owner = job_set(
        w,
        {"name": "a", "dependsOn": [{"name": "b", "status": "Ready"}]},
        {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}]},
    )
    for part in "ab":
        job_of(owner, part).pod(f"p{part}")
    a, b = (f"ReplicatedJob/{w.namespace}/{owner.name}/{part}" for part in "ab")
    for name in ("pa", "pb"):
        stays(w, name, "DependencyCycle")
        (event,) = eventually(partial(w.events, name, "DependencyCycle"), f"{name} has its Event")
        assert f"{a} -> {b} -> {a}" in event["message"]


# -- Volcano ----------------------------------------------------------------------------------------------------------


def test_the_tasks_of_a_volcano_job_start_in_their_order(w: RealCluster) -> None:
    """A task that has completed counts: Volcano looks at running pods only."""
    w.nodes(2)
    make = volcano_job(
        w,
        {"name": "load"},
        {"name": "train", "replicas": 2, "dependsOn": {"name": ["load"]}},
        {"name": "report", "dependsOn": {"name": ["load", "train"], "iteration": "all"}},
    )
    make("report", "r")
    make("train", "t0")
    waits(w, "r")
    waits(w, "t0")
    make("load", "l")
    w.all_placed(["l", "t0"])
    stays(w, "r")  # one of two pods of train
    ended(w, ["l"])
    make("train", "t1")
    w.all_placed(["t1", "r"])


def test_any_task_of_several_is_enough(w: RealCluster) -> None:
    w.nodes(1)
    make = volcano_job(
        w, {"name": "a"}, {"name": "b"}, {"name": "c", "dependsOn": {"name": ["a", "b"], "iteration": "any"}}
    )
    make("c", "pc")
    waits(w, "pc")
    make("b", "pb")
    w.all_placed(["pb", "pc"])


def test_a_task_whose_pods_failed_is_not_ready(w: RealCluster) -> None:
    w.nodes(1)
    make = volcano_job(w, {"name": "load"}, {"name": "train", "dependsOn": {"name": ["load"]}})
    make("load", "l")
    w.place("l")
    eventually(lambda: (w.get("l") or {})["status"].get("phase") == "Running", "l runs")
    ended(w, ["l"], "Failed")
    eventually(lambda: _is_failed(w), "Waggle has seen the failure")
    make("train", "t")
    stays(w, "t")


def _is_failed(w: RealCluster) -> bool:
    found: Any = w.get("l")
    return bool(found["status"]["phase"] == "Failed")
