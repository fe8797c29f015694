"""Random states of Jobs, JobSets, Volcano Jobs and gangs that start after each other: which run, and for which reason
others do not.

The embedded cluster has no controllers of Jobs: `Controllers` makes pods and Jobs, and writes how they end. A pod that
runs to an end does so when everything else has come to rest, as in a plan. There is room for all but those that no node
fits, and of a pod that runs the node is not compared: which of two independent pods comes first is a matter of
milliseconds.
"""

from __future__ import annotations

import json
import re
from random import Random

import yaml

from extender.core.ordering_names import AFTER, GATE
from extender.plan.records import Options, Plan, World
from extender.plan.run import make_plan
from tests.conformance.plan_truth.outcomes import changes_of
from tests.conformance.plan_truth.served import ServedCluster, served
from tests.conformance.plan_truth.states import GPU, Object, State, scheduler
from tests.support.cluster.ordering_world import definition

_SETTINGS = {"algorithm": {"name": "packing"}, "ordering": {"enabled": True, "grace_seconds": 0.2}}
_JOB_SET, _VOLCANO = "jobset.x-k8s.io/v1alpha2", "batch.volcano.sh/v1alpha1"
#: Seconds; longer than the grace, and than the search for causes takes to begin.
_QUIET = 1.6
#: An object, or a part of one.
_PART = re.compile(r"o\d+(-[ab](?=-))?")


def job_state(seed: int) -> State:
    """Objects of all kinds, each after some of those before it; some of them are there already."""
    some = Random(seed)
    state = State(seed, yaml.safe_dump(_SETTINGS), scheduler(ignored=False))
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "100", GPU: "64"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    state.nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": n}, "status": status} for n in ("n0", "n1")
    ]
    kinds: list[str] = []
    for number in range(some.randint(3, 6)):
        kind = some.choice(("Pod", "Gang", "Job", "Job", "Job", "JobSet", "Volcano"))
        after = [_entry(some, kinds) for _ in range(some.choice((0, 1, 1, 2)))] if kinds else []
        kinds.append(kind)
        unique = list({json.dumps(each, sort_keys=True): each for each in after}.values())
        made = _Maker(some, f"o{number}", unique).make(kind)
        (state.early if some.random() < 0.35 else state.create).extend(made)
    return state


def _node(name: str) -> Object:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "100", GPU: "64"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _entry(some: Random, kinds: list[str]) -> Object:
    if some.random() < 0.07:
        return {"kind": "Job", "name": "nowhere", "optional": some.random() < 0.5}
    number = some.randrange(len(kinds))
    kind, name = kinds[number], f"o{number}"
    if kind == "Gang":
        return {"group": name, "state": some.choice(("Ready", "Scheduled"))}
    states = ("Ready", "Scheduled") if kind == "Pod" else ("Ready", "Scheduled", "Complete", "Complete")
    return {"kind": "VolcanoJob" if kind == "Volcano" else kind, "name": name, "state": some.choice(states)}


class _Maker:
    """Makes the objects of one name, which wait for `after`."""

    def __init__(self, some: Random, name: str, after: list[Object]) -> None:
        self.random, self.name = some, name
        self._notes = {AFTER: json.dumps(after)} if after else {}
        self._is_gated = bool(after) and some.random() < 0.7
        self._gpus = 100 if some.random() < 0.12 else 1

    def make(self, kind: str) -> list[Object]:
        some, metadata = self.random, {"name": self.name, "namespace": "default", "annotations": self._notes}
        if kind == "Pod":
            return [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self._pod("Always")}]
        if kind == "Gang":
            notes = {**self._notes, "waggle.dev/gang": self.name, "waggle.dev/gang-min": "2"}
            pods = [{"name": f"{self.name}-{each}", "namespace": "default", "annotations": notes} for each in range(2)]
            return [{"apiVersion": "v1", "kind": "Pod", "metadata": m, "spec": self._pod("Always")} for m in pods]
        if kind == "Job":
            at_once = some.randint(1, 3)
            spec = {
                "parallelism": at_once,
                "completions": at_once + some.choice((0, 0, 1)),
                "template": self._template(),
            }
            return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]
        waits = some.random() < 0.8
        if kind == "JobSet":
            job = {"parallelism": some.randint(1, 2), "template": self._template(gated=waits)}
            job["completions"] = job["parallelism"]
            parts: list[Object] = [{"name": part, "replicas": 1, "template": {"spec": job}} for part in "ab"]
            if waits:
                parts[1]["dependsOn"] = [{"name": "a", "status": some.choice(("Ready", "Complete"))}]
            spec = {"replicatedJobs": parts}
            return [{"apiVersion": _JOB_SET, "kind": "JobSet", "metadata": metadata, "spec": spec}]
        tasks: list[Object] = [
            {"name": task, "replicas": some.randint(1, 2), "template": self._template(gated=waits)} for task in "ab"
        ]
        if waits:
            tasks[1]["dependsOn"] = {"name": ["a"]}
        tasks_of = {"schedulerName": "default-scheduler", "tasks": tasks}  # without it they are Volcano's to schedule
        return [{"apiVersion": _VOLCANO, "kind": "Job", "metadata": metadata, "spec": tasks_of}]

    def _template(self, *, gated: bool = False) -> Object:
        return {"metadata": {"labels": {}, "annotations": {}}, "spec": self._pod("Never", gated=gated)}

    def _pod(self, policy: str, *, gated: bool = False) -> Object:
        amounts = {GPU: str(self._gpus)}
        container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        gates = {"schedulingGates": [{"name": GATE}]} if self._is_gated or gated else {}
        return {"containers": [container], "restartPolicy": policy, "terminationGracePeriodSeconds": 0, **gates}


# -- live -------------------------------------------------------------------------------------------------------------


class Controllers:
    """Those of Jobs, JobSets and Volcano: the least that makes pods and ends."""

    def __init__(self, served_cluster: ServedCluster) -> None:
        self._served, self._cluster = served_cluster, served_cluster.cluster
        self._made = 0

    def work(self) -> bool:
        """Make what is missing, and say what is over; else end pods. False if there is nothing to do."""
        before = self._cluster.revision
        for each in self._served.objects("jobsets"):
            self._job_set(each)
        for each in self._served.objects("jobs"):
            self._job(each)
        for each in self._served.objects("jobs.batch.volcano.sh"):
            self._volcano(each)
        return self._cluster.revision != before

    def work_or_end(self) -> bool:
        return self.work() or self._end_pods()

    def _end_pods(self) -> bool:
        """All pods that run to an end do, as long as others wait for something."""
        assert self._served.process is not None
        assert self._served.process.ordering is not None
        if not self._served.process.ordering.views.held():
            return False
        running = [
            each["metadata"]["name"]
            for each in self._cluster.objects("pods")
            if each["status"].get("phase") == "Running" and each["spec"]["restartPolicy"] == "Never"
        ]
        for name in running:
            self._cluster.patch("pods", name, {"status": {"phase": "Succeeded"}}, subresource="status")
        return bool(running)

    def _job_set(self, obj: Object) -> None:
        name, parts = obj["metadata"]["name"], obj["spec"]["replicatedJobs"]
        jobs = [self._cluster.get("jobs", f"{name}-{part['name']}-0") for part in parts]
        for part, job in zip(parts, jobs, strict=True):
            if job is None:
                labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": part["name"]}
                metadata = {"name": f"{name}-{part['name']}-0", "labels": labels, "ownerReferences": [_owner(obj)]}
                spec = part["template"]["spec"]
                self._cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        if all(job is not None and _is_complete(job) for job in jobs) and not _is_complete(obj):
            self._ends("jobsets", name, "Completed")

    def _job(self, obj: Object) -> None:
        if _is_complete(obj):
            return
        spec, name = obj["spec"], obj["metadata"]["name"]
        pods = self._pods_of(obj)
        ended = sum(each["status"].get("phase") == "Succeeded" for each in pods)
        if ended >= spec["completions"]:
            self._ends("jobs", name, "Complete")
        for _ in range(min(spec["parallelism"], spec["completions"] - ended) - (len(pods) - ended)):
            self._make(obj, spec["template"], f"{name}-r{self._made:03}", {"job-name": name})

    def _volcano(self, obj: Object) -> None:
        name, tasks = obj["metadata"]["name"], obj["spec"]["tasks"]
        pods = {each["metadata"]["name"]: each for each in self._pods_of(obj)}
        wanted = [(task, f"{name}-{task['name']}-{number}") for task in tasks for number in range(task["replicas"])]
        for task, pod in wanted:
            if pod not in pods:
                labels = {"volcano.sh/job-name": name, "volcano.sh/task-spec": task["name"]}
                self._make(obj, task["template"], pod, labels)
        over = all(pod in pods and pods[pod]["status"].get("phase") == "Succeeded" for _, pod in wanted)
        if over and obj.get("status", {}).get("state", {}).get("phase") != "Completed":
            self._cluster.patch("jobs.batch.volcano.sh", name, {"status": {"state": {"phase": "Completed"}}})

    def _pods_of(self, obj: Object) -> list[Object]:
        uid = obj["metadata"]["uid"]
        pods = self._cluster.objects("pods")
        return [each for each in pods if any(o["uid"] == uid for o in each["metadata"].get("ownerReferences", ()))]

    def _make(self, owner: Object, template: Object, name: str, labels: Object) -> None:
        self._made += 1
        metadata = {"name": name, "labels": labels, "ownerReferences": [_owner(owner)]}
        self._cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})

    def _ends(self, resource: str, name: str, condition: str) -> None:
        status = {"status": {"conditions": [{"type": condition, "status": "True"}]}}
        self._cluster.patch(resource, name, status, subresource="status" if resource == "jobs" else "")


def _owner(obj: Object) -> Object:
    metadata = obj["metadata"]
    named = {"name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **named}


def _is_complete(obj: Object) -> bool:
    conditions = obj.get("status", {}).get("conditions", ())
    return any(each["type"] in ("Complete", "Completed") and each["status"] == "True" for each in conditions)


Found = tuple[dict[str, list[str]]]


def what_happens(state: State) -> tuple[World, Found]:
    """The world at the beginning, and of every object and part what has become of its pods."""
    with served(state) as cluster:
        cluster.cluster.create(definition("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"))
        cluster.cluster.create(definition("batch.volcano.sh", "v1alpha1", "jobs", "Job"))
        controllers = Controllers(cluster)
        for each in state.early:
            cluster.cluster.create(each)
        while controllers.work():
            pass
        world = cluster.world()
        cluster.serve()
        cluster.schedule()
        cluster.settle(_QUIET, controllers.work_or_end)
        for each in state.create:
            cluster.cluster.create(each)
        while controllers.work():
            pass
        cluster.settle(_QUIET, controllers.work_or_end)
        return world, (_outcomes(cluster),)


def _outcomes(cluster: ServedCluster) -> dict[str, list[str]]:
    assert cluster.process is not None
    assert cluster.process.ordering is not None
    held = {each.name: each.reason.code.value for each in cluster.process.ordering.views.held()}
    found: dict[str, set[str]] = {}
    for pod in cluster.cluster.objects("pods"):
        name = pod["metadata"]["name"]
        said = "runs" if pod["spec"].get("nodeName") else held.get(name, "waits")
        found.setdefault(_part_of(name), set()).add(said)
    return {name: sorted(each) for name, each in found.items()}


def _part_of(name: str) -> str:
    match = _PART.match(name)
    assert match is not None, name
    return match[0]


def planned(state: State, world: World) -> tuple[Plan, Found]:
    """The same as the plan says it."""
    plan = make_plan(world, changes_of(state), Options(seed=state.seed))
    found: dict[str, set[str]] = {}
    for row in plan.rows:
        found.setdefault(_part_of(row.name), set()).add(_said(row.node, row.code))
    return plan, ({name: sorted(each) for name, each in found.items()},)


def _said(node: str, code: str) -> str:
    if node:
        return "runs"
    return code if "Depend" in code else "waits"
