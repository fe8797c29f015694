"""Random courses: objects come, change and go, servers start anew; the engine is held against the oracle at each step.

What the engine writes is done to the JSON at once. Owners come before what they make, and stay while pods of it wait.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

from extender.core.ordering_names import AFTER, GATE, GROUP_ANNOTATIONS
from extender.core.outcomes import Outcome, OutcomeKind
from extender.ordering.engine import OrderingEngine
from extender.ordering.events import (
    OrderingInstruction,
    PodGone,
    PodSeen,
    Synced,
    TermBegun,
    Ticked,
    WorkloadGone,
    WorkloadSeen,
)
from extender.ordering.podreader import decode_pod
from extender.ordering.records import MET
from extender.ordering.workloadreader import decode_workload
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.ordering.writes.met import MarkMet, MetMarked
from extender.ordering.writes.read import PodRead, ReadPod
from tests.conformance.ordering_adversary.oracle import GRACE, Name, Object, Oracle

APIS = {
    "Pod": ("v1", "Pod"),
    "Job": ("batch/v1", "Job"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "VolcanoJob": ("batch.volcano.sh/v1alpha1", "Job"),
    "Deployment": ("apps/v1", "Deployment"),
    "ReplicaSet": ("apps/v1", "ReplicaSet"),
    "StatefulSet": ("apps/v1", "StatefulSet"),
    "Group": ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
}
#: Kinds that others may wait for, and that a course makes by itself.
_ROOTS = ("Job", "JobSet", "VolcanoJob", "Deployment", "ReplicaSet", "StatefulSet", "Group")
_DONE = Outcome(OutcomeKind.DONE)


class Course:
    """One cluster with one server. `restless`: another server starts after each step."""

    def __init__(self, seed: int, *, restless: bool = False) -> None:
        self.restless = restless
        self.some = random.Random(seed)
        self.objects: dict[Name, Object] = {}
        self.oracle = Oracle(self.objects)
        self.serial = itertools.count(1)
        self.names = [f"x{number}" for number in range(3)]
        self.history: list[str] = []
        self.engine = OrderingEngine()
        self._begin()

    def run(self, steps: int) -> None:
        """Raises AssertionError, with the history, at the first step at which engine and oracle differ."""
        for _ in range(steps):
            self._step()
            self._compare()
            if self.restless:
                self._restart()
                self._compare()
        self._pass_time(3 * GRACE)
        self._compare()
        self._compare_troubles()

    # -- one step --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        moves: list[tuple[int, Callable[[], None]]] = [
            (8, self._make_pod),
            (4, self._make_root),
            (12, self._change_pod),
            (6, self._change_workload),
            (3, self._remove),
            (2, lambda: self._pass_time(self.some.choice((1.0, 20.0, 61.0)))),
            (2, self._declare),
            (1, self._restart),
        ]
        weights, calls = zip(*moves, strict=True)
        self.some.choices(calls, weights)[0]()

    def _make_root(self) -> None:
        kind = self.some.choice((*_ROOTS, "JobSet", "JobSet", "VolcanoJob"))
        name = self.some.choice(self.names)
        if (kind, name) in self.objects:
            return
        self._put(kind, name, self._spec(kind), annotations=True)
        if kind == "JobSet":
            for part in self.objects[kind, name]["spec"]["replicatedJobs"]:
                labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": part["name"]}
                for number in range(part["replicas"]):
                    spec = part["template"]["spec"]
                    self._put("Job", f"{name}-{part['name']}-{number}", spec, owner=(kind, name), labels=labels)
        for job in [key for key in self.objects if key[1].startswith(f"{name}-") and kind == "JobSet"]:
            self._make_pod_of(job, "")
        for task in "abc" if kind == "VolcanoJob" else "":
            self._make_pod_of((kind, name), task)
        if kind == "Deployment":
            self._put("ReplicaSet", f"{name}-rs", {"replicas": 2}, owner=(kind, name))

    def _spec(self, kind: str) -> Object:
        some = self.some
        if kind == "JobSet":
            template = {"spec": {"parallelism": some.choice((1, 2)), "completions": 2}}
            first = {"name": "a", "replicas": some.choice((1, 2)), "template": template}
            return {"replicatedJobs": [first, self._dependent("b", "a", template)]}
        if kind == "VolcanoJob":
            later = {"name": ["a", "b"], "iteration": some.choice(("any", "all"))}
            tasks = [{"name": "a", "replicas": 1}, {"name": "b", "replicas": some.choice((0, 1))}]
            return {"tasks": [*tasks, {"name": "c", "replicas": 1, "dependsOn": later}]}
        if kind == "Job":
            return {"parallelism": some.choice((1, 2)), "completions": some.choice((1, 2))}
        return {"minMember": some.choice((1, 2))} if kind == "Group" else {"replicas": some.choice((0, 1, 2))}

    def _dependent(self, name: str, other: str, template: Object) -> Object:
        wanted = {"name": other, "status": self.some.choice(("Ready", "Complete"))}
        return {"name": name, "replicas": 1, "template": template, "dependsOn": [wanted]}

    def _make_pod(self) -> None:
        makers = [key for key in self.objects if key[0] in _ROOTS and key[0] not in ("JobSet", "Deployment", "Group")]
        parts = [key for key in makers if key[0] == "VolcanoJob" or "-" in key[1]]
        self._make_pod_of(self.some.choice([None, *makers, *parts]), self.some.choice("abc"))

    def _make_pod_of(self, owner: Name | None, task: str) -> None:
        name = f"p{self.some.randrange(12)}"
        if ("Pod", name) in self.objects:
            return
        labels: dict[str, str] = {}
        if owner is not None and owner[0] == "VolcanoJob":
            labels = {"volcano.sh/job-name": owner[1], "volcano.sh/task-spec": task}
        gang = self.some.choice(("", "", "", *self.names))
        more: Object = {"gang": gang, "gang_min": self.some.choice((1, 2))} if gang else {}
        if ("Group", gang) in self.objects and self.some.random() < 0.5:
            more |= {"gang_min": 1, "foreign": True}
        gates = [{"name": GATE}] if self.some.random() < 0.6 else []
        more["gated"] = bool(gates)
        self._put("Pod", name, {"schedulingGates": gates}, owner=owner, labels=labels, annotations=True, more=more)

    def _after(self, own: str) -> list[tuple[Name, str, bool, float]]:
        found = {}
        for _ in range(self.some.choice((0, 0, 1, 1, 2))):
            kind = self.some.choice((*_ROOTS, "Pod"))
            name = f"p{self.some.randrange(8)}" if kind == "Pod" else self.some.choice(self.names)
            endless = kind in ("Deployment", "ReplicaSet", "StatefulSet")
            state = self.some.choice(("Scheduled", "Ready") if endless else ("Scheduled", "Ready", "Complete"))
            if name != own:
                optional, grace = self.some.random() < 0.2, self.some.choice((GRACE, 10.0))
                found[(kind, name), state] = ((kind, name), state, optional, grace)
        return list(found.values())

    def _change_pod(self) -> None:
        pods = [each for (kind, _), each in self.objects.items() if kind == "Pod"]
        if not pods:
            return
        pod = self.some.choice(pods)
        name, status, spec = pod["metadata"]["name"], pod["status"], pod["spec"]
        held = name in self.oracle.waits() or spec.get("schedulingGates")
        if status["phase"] in ("Succeeded", "Failed"):
            return
        if not spec.get("nodeName") and not held:
            spec["nodeName"] = "n0"
        elif spec.get("nodeName"):
            status["phase"] = self.some.choice(("Running", "Running", "Succeeded", "Failed"))
            ready = status["phase"] == "Running" and self.some.random() < 0.8
            status["conditions"] = [{"type": "Ready", "status": str(ready)}]
        if self.some.random() < 0.1:
            pod["metadata"]["deletionTimestamp"] = "2026-11-24T00:00:00Z"
        self._show("Pod", name, f"{name} is {status['phase']} on {spec.get('nodeName', 'no node')}")

    def _declare(self) -> None:
        """Dependencies are added to an object that exists, changed, or taken away: pods that nothing held wait now."""
        kind, name = self.some.choice([*self.objects, ("", "")])
        if not kind or kind == "ReplicaSet":
            return
        obj = self.objects[kind, name]
        obj["after"] = self._after(name)
        obj.pop("wrong", None)
        obj["metadata"]["annotations"][AFTER] = json.dumps([_entry(*each) for each in obj["after"]])
        self._show(kind, name, f"{kind}/{name} declares {obj['metadata']['annotations'][AFTER]}")

    def _change_workload(self) -> None:
        found = [key for key in self.objects if key[0] in ("Job", "JobSet", "VolcanoJob")]
        if not found:
            return
        kind, name = self.some.choice(found)
        status = self.objects[kind, name]["status"]
        what = self.some.choice(("Complete", "Failed", "counts", "none"))
        if kind == "Job" and self.some.random() < 0.5:
            status["ready"], status["succeeded"] = self.some.choice((0, 1)), self.some.choice((0, 1, 2))
        if kind == "VolcanoJob":
            status["state"] = {"phase": {"Complete": "Completed", "Failed": "Failed"}.get(what, "Running")}
        elif what != "counts":
            types = {"Complete": "Complete" if kind == "Job" else "Completed", "Failed": "Failed"}
            status["conditions"] = [{"type": types[what], "status": "True"}] if what in types else []
        self._show(kind, name, f"{kind}/{name} is {what}")

    def _remove(self) -> None:
        busy = {id(above) for pod in self.oracle.pods() for above in list(self.oracle.above(pod))[1:]}
        busy |= {id(self.oracle._owner(each)) for each in self.objects.values()}
        free = [key for key, each in self.objects.items() if key[0] == "Pod" or id(each) not in busy]
        if not free:
            return
        kind, name = self.some.choice(free)
        gone = self.objects.pop((kind, name))
        self.history.append(f"{self.oracle.now}: {kind}/{name} is gone")
        self._feed([_gone(kind, gone)])

    def _restart(self) -> None:
        self.history.append(f"{self.oracle.now}: another server starts")
        self.oracle.restart()
        self.engine = OrderingEngine()
        self._begin()

    def _begin(self) -> None:
        now = self.oracle.now
        keys = sorted(self.objects, key=lambda key: (key[0] == "Pod", key))
        self.some.shuffle(keys)
        for key in keys:
            self._take(self.engine.handle(_seen(key[0], self.objects[key]), now))
        self._feed([Synced(), TermBegun(0)])

    def _pass_time(self, seconds: float) -> None:
        """From one timer to the next, since a write or a waiver may be due at each."""
        self.history.append(f"{self.oracle.now}: {seconds} seconds pass")
        until = self.oracle.now + seconds
        while (due := self.engine.next_due()) is not None and due <= until:
            self.oracle.now = max(self.oracle.now, due)
            self._feed([Ticked()])
        self.oracle.now = until
        self._feed([Ticked()])

    # -- the cluster -----------------------------------------------------------------------------------------------

    def _put(
        self,
        kind: str,
        name: str,
        spec: Object,
        *,
        owner: Name | None = None,
        labels: dict[str, str] | None = None,
        annotations: bool = False,
        more: Object | None = None,
    ) -> None:
        version, api_kind = APIS[kind]
        meta: Object = {"name": name, "namespace": "ml", "uid": f"u{next(self.serial)}", "labels": labels or {}}
        if owner is not None:
            made_by = self.objects[owner]
            named = {"name": owner[1], "uid": made_by["metadata"]["uid"], "controller": True}
            meta["ownerReferences"] = [{"apiVersion": made_by["apiVersion"], "kind": made_by["kind"], **named}]
        obj: Object = {
            "apiVersion": version,
            "kind": api_kind,
            "metadata": meta,
            "spec": spec,
            "status": {},
            **(more or {}),
        }
        meta["annotations"] = {}
        if kind == "Pod":
            obj["status"] = {"phase": "Pending"}
            if obj.get("foreign"):
                meta["annotations"] |= {self.some.choice(GROUP_ANNOTATIONS): obj["gang"]}
            elif obj.get("gang"):
                meta["annotations"] |= {"waggle.dev/gang": obj["gang"], "waggle.dev/gang-min": str(obj["gang_min"])}
        if annotations and self.some.random() < (0.7 if kind == "Pod" else 0.3):
            obj["after"] = self._after(name)
            meta["annotations"][AFTER] = json.dumps([_entry(*each) for each in obj["after"]])
            if self.some.random() < 0.03:
                obj["after"], obj["wrong"] = [], True
                meta["annotations"][AFTER] = "[{kind: Nothing, name: a}]"
        self.objects[kind, name] = obj
        self._show(kind, name, f"{kind}/{name} is made: {json.dumps(spec)} {meta['annotations']} {owner} {labels}")

    def _show(self, kind: str, name: str, what: str) -> None:
        self.history.append(f"{self.oracle.now}: {what}")
        obj = self.objects[kind, name]
        obj["metadata"]["resourceVersion"] = str(next(self.serial))
        self._feed([_seen(kind, obj)])

    def _feed(self, events: Iterable[Any]) -> None:
        """Hand the engine events, and what becomes due at once."""
        for event in events:
            self._take(self.engine.handle(event, self.oracle.now))
            self.oracle.step()
        while (due := self.engine.next_due()) is not None and due <= self.oracle.now:
            self._take(self.engine.handle(Ticked(), self.oracle.now))
        self.oracle.step()

    def _take(self, instructions: list[OrderingInstruction]) -> None:
        for each in instructions:
            if isinstance(each, RemoveGate | MarkMet | ReadPod):
                self._take(self.engine.handle(self._write(each), self.oracle.now))

    def _write(self, write: RemoveGate | MarkMet | ReadPod) -> Any:
        pod = self.objects["Pod", write.key.name]
        assert pod["metadata"]["uid"] == write.uid, self._told(f"a write to a pod that is gone: {write}")
        if isinstance(write, RemoveGate):
            pod["spec"]["schedulingGates"] = []
            pod["metadata"]["annotations"][MET] = "*"
        elif isinstance(write, MarkMet):
            pod["metadata"]["annotations"][MET] = ",".join(write.met)
        pod["metadata"]["resourceVersion"] = str(next(self.serial))
        record = decode_pod(json.dumps(pod).encode())
        self._take(self.engine.handle(PodSeen(record), self.oracle.now))
        if isinstance(write, RemoveGate):
            return GateRemoved(write.token, write.key, write.uid, _DONE, record)
        if isinstance(write, MarkMet):
            return MetMarked(write.token, write.key, write.uid, _DONE)
        return PodRead(write.token, write.key, write.uid, _DONE, record)

    # -- comparing -------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        try:
            self.engine.validate()
        except AssertionError as error:
            raise AssertionError(self._told(str(error))) from error
        held = {each.key.name for each in self.engine.blocked()}
        assert held == self.oracle.waits(), self._told(f"engine: {sorted(held)}, oracle: {sorted(self.oracle.waits())}")
        for pod in self.oracle.pods():
            name = pod["metadata"]["name"]
            if pod["spec"].get("schedulingGates") and not pod["metadata"].get("deletionTimestamp"):
                assert name in held, self._told(f"{name} has its gate, and does not wait")

    def _compare_troubles(self) -> None:
        codes = {each.key.name: each.reason.code.value for each in self.engine.blocked()}
        troubled = {name for name in codes if self.oracle.is_in_trouble(self.objects["Pod", name])}
        told = {name for name, code in codes.items() if code != "WaitsForDependency"}
        assert troubled <= told, self._told(f"in trouble: {sorted(troubled)}, told: {codes}")
        assert troubled or "DependencyCycle" in codes.values() or not told, self._told(f"no trouble, told: {codes}")

    def _told(self, what: str) -> str:
        return "\n".join((*self.history, what))


def _entry(target: Name, state: str, optional: bool, grace: float) -> Object:
    kind, name = target
    found = {"group": name} if kind == "Group" else {"kind": kind, "name": name}
    return {**found, "state": state, "optional": optional, "grace": grace}


def _seen(kind: str, obj: Object) -> PodSeen | WorkloadSeen:
    text = json.dumps(obj).encode()
    if kind == "Pod":
        return PodSeen(decode_pod(text))
    record = decode_workload(text)
    assert record is not None, kind
    return WorkloadSeen(record)


def _gone(kind: str, obj: Object) -> PodGone | WorkloadGone:
    seen = _seen(kind, obj)
    if isinstance(seen, PodSeen):
        return PodGone(seen.pod.key, seen.pod.uid)
    return WorkloadGone(seen.workload.target, seen.workload.uid)


def fault(seed: int, steps: int = 60, *, restless: bool = False) -> str:
    """What is wrong with the course of this seed; "" if nothing."""
    try:
        Course(seed, restless=restless).run(steps)
    except AssertionError as error:
        return f"seed {seed}: {error}"
    return ""
