"""`dependsOn` of JobSets and Volcano Jobs as they stand: no annotation, no gate, without their controllers' bugs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from extender.ordering.records import Target
from tests.support.apiserver.api import eventually
from tests.support.cluster.ordering_world import CONTAINER, Object, OrderingWorld, definition, ordering_world

JOB_SETS = ("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
VOLCANO_JOBS = ("batch.volcano.sh", "v1alpha1", "jobs", "Job")
POD = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}


def make(w: OrderingWorld, api: tuple[str, str, str, str], name: str, spec: Object) -> Object:
    group, version, _, kind = api
    meta = {"name": name, "namespace": "default"}
    made: Object = w.cluster.create({"apiVersion": f"{group}/{version}", "kind": kind, "metadata": meta, "spec": spec})
    owner = {"apiVersion": f"{group}/{version}", "kind": kind, "name": name, "controller": True}
    return {**owner, "uid": made["metadata"]["uid"]}


def pod_of(w: OrderingWorld, owner: Mapping[str, Any], name: str, labels: Mapping[str, str] | None = None) -> None:
    w.pod(name, metadata={"ownerReferences": [dict(owner)], "labels": dict(labels or {})})


def job_of(w: OrderingWorld, owner: Object, part: str, *, pods: int) -> Object:
    """A Job as the controller of JobSets makes it."""
    labels = {"jobset.sigs.k8s.io/jobset-name": owner["name"], "jobset.sigs.k8s.io/replicatedjob-name": part}
    name = f"{owner['name']}-{part}-0"
    made = w.cluster.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {"parallelism": pods, "completions": pods, "template": POD},
        }
    )
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["metadata"]["uid"], "controller": True}


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_a_job_set(status: str) -> None:
    with ordering_world(serve=False, scheduler=True) as w:
        w.cluster.create(definition(*JOB_SETS))
        w.serve()
        w.start_scheduler()
        parts = [
            {"name": "load", "template": {"spec": {"parallelism": 2, "completions": 2, "template": POD}}},
            {
                "name": "train",
                "template": {"spec": {"template": POD}},
                "dependsOn": [{"name": "load", "status": status}],
            },
        ]
        owner = make(w, JOB_SETS, "s", {"replicatedJobs": parts})
        load, train = job_of(w, owner, "load", pods=2), job_of(w, owner, "train", pods=1)
        pod_of(w, train, "t")
        w.waits("t")
        pod_of(w, load, "l0")
        w.running("l0")
        assert not w.node_of("t"), "one of two"
        w.finish("s-load-0", "Failed")
        job = Target("Job", "default", "s-load-0")  # Jobs and pods have watches of their own
        eventually(lambda: w.server.ordering.runtime.look(lambda engine, _: engine.state.tree.standing(job).failed))
        pod_of(w, load, "l1")
        w.running("l1")
        time.sleep(0.3)
        assert not w.node_of("t"), "a Job that failed is not ready, although its pods are"
        w.finish("s-load-0")
        w.running("t")


def test_a_volcano_job_whose_task_has_completed() -> None:
    with ordering_world(serve=False, scheduler=True) as w:
        w.cluster.create(definition(*VOLCANO_JOBS))
        w.serve()
        w.start_scheduler()
        tasks = [
            {"name": "load", "replicas": 1, "template": POD},
            {"name": "train", "replicas": 1, "template": POD, "dependsOn": {"name": ["load"]}},
        ]
        owner = make(w, VOLCANO_JOBS, "v", {"tasks": tasks})
        pod_of(w, owner, "t", {"volcano.sh/job-name": "v", "volcano.sh/task-spec": "train"})
        w.waits("t")
        pod_of(w, owner, "l", {"volcano.sh/job-name": "v", "volcano.sh/task-spec": "load"})
        w.running("l", "t")
        w.cluster.patch("pods", "l", {"status": {"phase": "Succeeded"}}, subresource="status")
        pod_of(w, owner, "t2", {"volcano.sh/job-name": "v", "volcano.sh/task-spec": "train"})
        w.running("t2")


def test_a_job_set_that_waits_for_itself_says_so() -> None:
    with ordering_world(serve=False) as w:
        w.cluster.create(definition(*JOB_SETS))
        w.serve()
        job = {"spec": {"template": POD}}
        parts = [
            {"name": name, "template": job, "dependsOn": [{"name": other, "status": "Ready"}]}
            for name, other in (("a", "b"), ("b", "a"))
        ]
        owner = make(w, JOB_SETS, "s", {"replicatedJobs": parts})
        for name in "ab":
            made = job_of(w, owner, name, pods=1)
            w.pod(f"p{name}", gate=True, metadata={"ownerReferences": [made]})
        for name in "ab":
            w.waits(f"p{name}", "DependencyCycle")
        path = "ReplicatedJob/default/s/a -> ReplicatedJob/default/s/b -> ReplicatedJob/default/s/a"
        eventually(lambda: path in w.events("pa").get("DependencyCycle", ""), why=lambda: str(w.events("pa")))


def test_nothing_polls() -> None:
    """While pods wait, and what they wait for does not change, the engine handles no event and no timer, and reads no
    pod; also when their graces are over, and all that can be said was said."""
    with ordering_world(ordering={"grace_seconds": 0.1}) as w:
        w.pod("b", "[{kind: Pod, name: a}]")
        w.pod("c", "[{kind: Pod, name: d}]")
        w.pod("d", "[{kind: Pod, name: c}]")
        w.waits("b", "DependencyNotFound")
        w.waits("c", "DependencyCycle")
        w.waits("d", "DependencyCycle")
        time.sleep(1.5)  # until the search for causes, which follows a change within a second, is over
        handled = w.server.ordering.runtime.look(lambda engine, _: engine.sequence)
        time.sleep(1.2)
        assert w.server.ordering.runtime.look(lambda engine, _: engine.sequence) == handled
        assert w.server.ordering.runtime.look(lambda engine, _: engine.next_due()) is None
        w.pod("a")
        w.running("a", "b")
        writes = [each for each in w.server.ordering.metrics() if each.name == "waggle_ordering_writes_total"]
        assert not [
            value for each in writes for labels, value in each.samples if labels["write"] == "ReadPod" and value
        ]
