"""Who has to wait, and for what: read from the JSON of all objects, each time anew, as docs/ordering.md says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.ordering.records import MET, RELEASED

Object = dict[str, Any]
#: Kind and name of a target; of a part: OBJECT/PART.
Name = tuple[str, str]
STATES = ("Scheduled", "Ready", "Complete")
GRACE = 60.0
#: Kinds that run until they are deleted.
_ENDLESS = ("Deployment", "ReplicaSet", "StatefulSet")
_SET, _PART = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
_VOLCANO_JOB, _TASK = "volcano.sh/job-name", "volcano.sh/task-spec"


class Standing:
    """What a target has reached. `failed`: it reaches nothing any more."""

    def __init__(self, *states: str, failed: bool = False) -> None:
        self.states = frozenset(states)
        self.failed = failed


ALL = Standing(*STATES)


class Oracle:
    """`objects`: by kind (a Job of Volcano is a VolcanoJob) and name. Remembers what no object shows."""

    def __init__(self, objects: dict[Name, Object]) -> None:
        self.objects = objects
        self.now = 0.0
        self.met: dict[str, set[tuple[Name, str]]] = {}
        self.released: set[str] = set()
        self.missing: dict[tuple[str, Name], float] = {}

    def step(self) -> None:
        """Something has changed: release who may go."""
        for pod in list(self.pods()):
            uid = pod["metadata"]["uid"]
            if _may_wait(pod) and uid not in self.released and self._is_held(pod) and self._may_go(pod):
                self.released.add(uid)

    def _is_held(self, pod: Object) -> bool:
        """Whether there is anything to release it from: a gate that it came with, or a declaration. Else it is free."""
        declared = "after" in pod or any(True for _ in self.clauses(pod))
        return bool(pod.get("gated") or declared)

    def _may_go(self, pod: Object) -> bool:
        return not self.unmet(pod) and not self.is_wrong(pod)

    def restart(self) -> None:
        """Only what stands on the objects is left: what was met, and releases."""
        self.missing = {}
        marks = {pod["metadata"]["uid"]: pod["metadata"]["annotations"].get(MET) for pod in self.pods()}
        self.released = {uid for uid in self.released if marks.get(uid) == RELEASED}

    def waits(self) -> set[str]:
        """The names of the pods that are held back."""
        found = (pod for pod in self.pods() if _may_wait(pod) and pod["metadata"]["uid"] not in self.released)
        return {pod["metadata"]["name"] for pod in found if not self._may_go(pod)}

    def pods(self) -> Iterator[Object]:
        return (each for (kind, _), each in self.objects.items() if kind == "Pod")

    # -- what a pod waits for --------------------------------------------------------------------------------------

    def clauses(self, pod: Object) -> Iterator[list[tuple[Name, str, bool, float]]]:
        """What it declares and inherits: alternatives of target, state, optional, grace."""
        for obj in self.above(pod):
            yield from ([each] for each in obj.get("after", ()))
        yield from self._depends_on(pod)

    def above(self, pod: Object) -> Iterator[Object]:
        """The pod, what has made it, what has made that, and its gang."""
        obj: Object | None = pod
        while obj is not None:
            yield obj
            obj = self._owner(obj)
        if (group := self.objects.get(("Group", pod.get("gang", "")))) is not None:
            yield group

    def _owner(self, obj: Object) -> Object | None:
        for each in obj["metadata"].get("ownerReferences", ()):
            kind = "VolcanoJob" if each["apiVersion"].startswith("batch.volcano") else each["kind"]
            found = self.objects.get((kind, each["name"]))
            return found if found and found["metadata"]["uid"] == each["uid"] else None
        return None

    def _depends_on(self, pod: Object) -> Iterator[list[tuple[Name, str, bool, float]]]:
        for obj in self.above(pod):
            labels = obj["metadata"].get("labels", {})
            if _PART in labels and (whole := self.objects.get(("JobSet", labels[_SET]))):
                for part in whole["spec"]["replicatedJobs"]:
                    if part["name"] == labels[_PART]:
                        for each in part.get("dependsOn", ()):
                            yield [(("ReplicatedJob", f"{labels[_SET]}/{each['name']}"), each["status"], False, GRACE)]
            if _TASK in labels and (whole := self.objects.get(("VolcanoJob", labels[_VOLCANO_JOB]))):
                for task in whole["spec"]["tasks"]:
                    if task["name"] == labels[_TASK] and "dependsOn" in task:
                        names = [f"{labels[_VOLCANO_JOB]}/{each}" for each in task["dependsOn"]["name"]]
                        found = [(("Task", name), "Ready", False, GRACE) for name in names]
                        if task["dependsOn"]["iteration"] == "any":
                            yield found
                        else:
                            yield from ([each] for each in found)

    def unmet(self, pod: Object) -> list[list[tuple[Name, str, bool, float]]]:
        """The clauses of which no alternative is met, or was."""
        found = [(clause, [self._is_met(each, pod) for each in clause]) for clause in self.clauses(pod)]
        return [clause for clause, met in found if not any(met)]

    def _is_met(self, each: tuple[Name, str, bool, float], pod: Object) -> bool:
        target, state, optional, _ = each
        met = self.met.setdefault(pod["metadata"]["uid"], set())
        if (target, state) in met:
            return True
        standing = self.standing(target)
        if standing is None:
            self.missing.setdefault((pod["metadata"]["uid"], target), self.now)
            return optional and self.is_overdue(each, pod)
        self.missing.pop((pod["metadata"]["uid"], target), None)
        if state in standing.states:
            met.add((target, state))
            return True
        return False

    def is_overdue(self, each: tuple[Name, str, bool, float], pod: Object) -> bool:
        since = self.missing.get((pod["metadata"]["uid"], each[0]))
        return since is not None and self.now >= since + each[3]

    def is_wrong(self, pod: Object) -> bool:
        return any(obj.get("wrong") for obj in self.above(pod))

    def is_in_trouble(self, pod: Object) -> bool:
        """Whether something that it waits for has failed, or has been missing for too long."""
        return self.is_wrong(pod) or any(all(self._is_lost(each, pod) for each in clause) for clause in self.unmet(pod))

    def _is_lost(self, each: tuple[Name, str, bool, float], pod: Object) -> bool:
        standing = self.standing(each[0])
        return self.is_overdue(each, pod) if standing is None else standing.failed

    # -- what a target has reached ---------------------------------------------------------------------------------

    def standing(self, target: Name) -> Standing | None:
        """None: it does not exist."""
        kind, name = target
        if kind in ("ReplicatedJob", "Task"):
            return self._of_part(kind, *name.split("/"))
        obj = self.objects.get(target)
        if kind == "Pod":
            return None if obj is None else _of_pod(obj)
        if kind == "Group":
            return self._of_group(obj, name)
        if obj is None:
            return None
        if _has(obj, "Complete") or _has(obj, "Completed"):
            return ALL
        if _has(obj, "Failed"):
            return Standing(failed=True)
        if kind == "JobSet":
            return _reached(sum(map(_pods_of_part, obj["spec"]["replicatedJobs"])), *self._of_jobs(self._made_by(obj)))
        if kind == "Deployment":
            pods = [pod for each in self._made_by(obj) for pod in self._made_by(each)]
            return _reached(obj["spec"]["replicas"], *_count(pods), endless=True)
        if kind == "VolcanoJob":
            return _reached(sum(each["replicas"] for each in obj["spec"]["tasks"]), *_count(self._made_by(obj)))
        if kind == "Job":
            return _reached(_size(obj), *self._of_jobs([obj]))
        return _reached(obj["spec"]["replicas"], *_count(self._made_by(obj)), endless=kind in _ENDLESS)

    def _made_by(self, obj: Object) -> list[Object]:
        return [each for each in self.objects.values() if self._owner(each) is obj]

    def _of_jobs(self, jobs: list[Object]) -> tuple[int, int]:
        """How many pods are bound, and ready: none of a Job that has failed, all of one that has completed."""
        bound = ready = 0
        for job in jobs:
            size, (some, able) = _size(job), _count(self._made_by(job))
            if _has(job, "Complete"):
                bound, ready = bound + max(size, some), ready + max(size, able)
            elif not _has(job, "Failed"):
                told = min(size, job["status"].get("ready", 0) + job["status"].get("succeeded", 0))
                bound, ready = bound + max(some, told), ready + max(able, told)
        return bound, ready

    def _of_part(self, kind: str, name: str, part: str) -> Standing | None:
        whole = self.objects.get(("JobSet" if kind == "ReplicatedJob" else "VolcanoJob", name))
        if whole is None:
            return None
        members = [each for each in self.objects.values() if _is_of(each, kind, name, part)]
        if kind == "Task":
            needed = next(each["replicas"] for each in whole["spec"]["tasks"] if each["name"] == part)
            done, counts = sum(each["status"]["phase"] == "Succeeded" for each in members), _count(members)
            is_done = done >= needed > 0
        else:
            declared = next(each for each in whole["spec"]["replicatedJobs"] if each["name"] == part)
            needed, counts = _pods_of_part(declared), self._of_jobs(members)
            is_done = sum(_has(each, "Complete") for each in members) >= declared["replicas"] > 0
        if is_done or _has(whole, "Completed"):
            return ALL
        return Standing(failed=True) if _has(whole, "Failed") else _reached(needed, *counts)

    def _of_group(self, obj: Object | None, name: str) -> Standing | None:
        members = [pod for pod in self.pods() if pod.get("gang") == name]
        if obj is None and not members:
            return None
        needed = obj["spec"]["minMember"] if obj else max(pod["gang_min"] for pod in members)
        living = [pod for pod in members if not _is_leaving(pod)]
        ended = [pod for pod in living if pod["status"]["phase"] == "Succeeded"]
        failed = [pod for pod in living if pod["status"]["phase"] == "Failed"]
        if needed <= len(ended) == len(living):
            return ALL
        if failed and len(living) - len(failed) < needed and self._is_not_replaced(members):
            return Standing(failed=True)
        return _reached(needed, *_count(members))

    def _is_not_replaced(self, pods: list[Object]) -> bool:
        """Whether no controller that has not failed makes new ones."""
        owners = [owner for pod in pods if (owner := self._owner(pod)) is not None]
        return all(_has(each, "Failed") and not _has(each, "Complete", "Completed") for each in owners)


def _may_wait(pod: Object) -> bool:
    spec, meta = pod["spec"], pod["metadata"]
    return not (spec.get("nodeName") or meta.get("deletionTimestamp")) and pod["status"]["phase"] == "Pending"


def _is_leaving(pod: Object) -> bool:
    ended = pod["status"]["phase"] in ("Succeeded", "Failed")
    return bool(pod["metadata"].get("deletionTimestamp")) and not ended


def _is_of(obj: Object, kind: str, name: str, part: str) -> bool:
    labels = obj["metadata"].get("labels", {})
    keys = (_SET, _PART) if kind == "ReplicatedJob" else (_VOLCANO_JOB, _TASK)
    return (labels.get(keys[0]), labels.get(keys[1])) == (name, part)


def _is_ready(pod: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def _of_pod(pod: Object) -> Standing:
    phase = pod["status"]["phase"]
    if phase == "Succeeded":
        return ALL
    if phase == "Failed":
        return Standing(failed=True)
    if _is_leaving(pod):
        return Standing()
    return _reached(1, int(bool(pod["spec"].get("nodeName"))), int(_is_ready(pod)))


def _count(pods: list[Object]) -> tuple[int, int]:
    """How many are bound, and how many are ready: those that have succeeded are both, those that have failed not."""
    ended = sum(pod["status"]["phase"] == "Succeeded" for pod in pods)
    running = [pod for pod in pods if not _is_leaving(pod) and pod["status"]["phase"] in ("Pending", "Running")]
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in running)
    return ended + bound, ended + sum(map(_is_ready, running))


def _reached(needed: int, bound: int, ready: int, *, endless: bool = False) -> Standing:
    if not needed and not endless:
        return Standing()
    states = [state for state, number in (("Scheduled", bound), ("Ready", ready)) if number >= needed]
    return Standing(*states)


def _size(job: Object) -> int:
    return int(min(job["spec"]["parallelism"], job["spec"]["completions"]))


def _pods_of_part(part: Object) -> int:
    spec = part["template"]["spec"]
    return int(part["replicas"] * min(spec["parallelism"], spec["completions"]))


def _has(obj: Object, *types: str) -> bool:
    conditions = obj["status"].get("conditions", ())
    phase = obj["status"].get("state", {}).get("phase", "")
    return phase in types or any(each["type"] in types and each["status"] == "True" for each in conditions)
