"""Plays a workload with any scheduler on any API server, and tells what was seen: calls phase by phase, and the end.

{"phases": [[call, ...], ...],                 every call in the order of arrival (see `script`)
 "pods": [{name: {...}}, ...],                 each pod after each phase
 "events": [[pod, reason, action, type, note], ...],   without repetitions, sorted
 "ended": true,                                only if the scheduler ended by itself
 "bodies": {verb: body}}                       only if the workload asks for it
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from extender.scheduling.policy import Limits
from extender.settings import Settings
from tests.golden.calls.names import Names
from tests.golden.calls.play import MERGE, Action, Await, Create, Delete, Object, Open, Patch, Pause, Workload
from tests.golden.calls.schedulers import PATIENCE, Scheduler, Start, rest_quietly
from tests.golden.calls.script import Extenders
from tests.support.cluster.waggle import Waggle
from tests.support.cluster.witness import Witness

PODS, NODES, EVENTS = "/api/v1/namespaces/default/pods", "/api/v1/nodes", "/apis/events.k8s.io/v1/events"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_PATHS = {"Pod": PODS, "Node": NODES, "PodDisruptionBudget": _BUDGETS}
_CLASSES: dict[str, Object] = {
    "low": {"value": 100},
    "mid": {"value": 500},
    "high": {"value": 1000},
    "meek": {"value": 1000, "preemptionPolicy": "Never"},
}
_SCHEDULERS = ("default-scheduler", "second-scheduler")
#: Seconds without any change after which a Waggle in threads of ours is taken to have nothing left to do.
_WAGGLES_QUIET = 0.15
#: No pod is nudged because others of its gang have come: the recordings are older than that, and it would depend on how
#: long a phase takes whether such a nudge is within it. tests/unit/scheduling/preemption/test_gathering.py has them.
_NOBODY_GATHERS = Limits(gather=10 * PATIENCE)


class Stage:
    """One API server. `cluster` is how Waggle reaches it (its ClusterSettings), `start` starts the scheduler."""

    def __init__(self, http: httpx.Client, cluster: Mapping[str, Any], start: Start) -> None:
        self._http, self._cluster, self._start = http, cluster, start
        for name, given in _CLASSES.items():
            body = {"metadata": {"name": name}, **given}
            response = http.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=body)
            assert response.status_code in (201, 409), response.text

    def play(self, workload: Workload) -> Object:
        self._clear()
        names = Names()
        with (
            self._waggle(workload) as (forward, ready),
            Extenders(len(workload.extenders), self._http, names, forward=forward, ready=ready) as extenders,
        ):
            with self._start(_configuration(workload, extenders.urls)) as scheduler:
                play = _Play(self._http, names, extenders, scheduler)
                result = play.phases(workload)
                result |= {"ended": True} if scheduler.ended() else {}
            result["events"] = play.events()
            if workload.bodies:
                result["bodies"] = extenders.bodies
        return _without_lots(result, workload.anywhere)

    @contextmanager
    def _waggle(self, workload: Workload) -> Iterator[tuple[str, Callable[[], None]]]:
        """Its URL, and what waits until it has seen all nodes and pods as they are by then.

        Scheduler and Waggle watch the API server each for itself. If the scheduler is faster, it asks about what Waggle
        has not seen yet, and is refused: right, but not what was recorded.
        """
        if workload.waggle is None:
            yield "", lambda: None
            return
        given = {"server": {"port": 0}, "cluster": {**self._cluster, "compare_seconds": 0}, **workload.waggle}
        with tempfile.TemporaryDirectory() as folder:
            waggle = Waggle(Settings.model_validate(given), Witness(), Path(folder) / "log", limits=_NOBODY_GATHERS)
            try:
                waggle.wait_ready()
                yield waggle.url, partial(self._wait_until_seen, waggle)
            finally:
                waggle.stop()

    def _wait_until_seen(self, waggle: Waggle) -> None:
        shown = {
            path: {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in self._items(path)}
            for path in (NODES, PODS)
        }
        deadline = time.monotonic() + PATIENCE
        while not waggle.has_seen(shown[NODES], shown[PODS]):
            assert time.monotonic() < deadline, "Waggle does not see what there is"
            time.sleep(0.002)

    def _items(self, path: str) -> list[Object]:
        items: list[Object] = self._http.get(path).raise_for_status().json()["items"]
        return items

    def _clear(self) -> None:
        for path in (PODS, _BUDGETS, NODES, "/api/v1/namespaces/default/events"):
            self._http.delete(path, params={"gracePeriodSeconds": 0}).raise_for_status()
        assert not self._http.get(PODS).json()["items"], "workloads must remove finalizers by themselves"


def _configuration(workload: Workload, urls: list[str]) -> Object:
    pairs = zip(workload.extenders, urls, strict=True)
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **workload.config,
        "extenders": [{"urlPrefix": url, **extender} for extender, url in pairs],
    }


class _Play:
    """One workload being played."""

    def __init__(self, http: httpx.Client, names: Names, extenders: Extenders, scheduler: Scheduler) -> None:
        self._http, self._names, self._extenders, self._scheduler = http, names, extenders, scheduler

    def phases(self, workload: Workload) -> Object:
        calls, pods = [], []
        done = 0
        for phase in workload.phases:
            self._extenders.answer(phase.answers)
            for action in phase.does:
                self._do(action)
            self._rest(quietly=workload.waggle is not None)
            calls.append(self._extenders.calls[done:])
            done = len(self._extenders.calls)
            pods.append(self.pods())
        return {"phases": calls, "pods": pods}

    def _rest(self, *, quietly: bool) -> None:
        self._scheduler.rest(self._look)
        if quietly:
            rest_quietly(self._look, _WAGGLES_QUIET)
            self._scheduler.rest(self._look)

    def _look(self) -> Any:
        versions = [item["metadata"]["resourceVersion"] for path in (PODS, NODES) for item in self._items(path)]
        return len(self._extenders.calls), versions, len(self._items(EVENTS))

    def _items(self, path: str) -> list[Object]:
        response = self._http.get(path)
        assert response.status_code == 200, response.text
        items: list[Object] = response.json()["items"]
        return items

    # -- actions --------------------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        match action:
            case Create():
                for each in action.objects:
                    self._create(each)
            case Patch():
                media = {"content-type": MERGE}
                body = json.dumps(action.body)
                self._http.patch(f"/api/v1/{action.path}", content=body, headers=media).raise_for_status()
            case Delete():
                query = {} if action.grace is None else {"gracePeriodSeconds": action.grace}
                self._http.delete(f"/api/v1/{action.path}", params=query).raise_for_status()
            case Open():
                self._extenders.open()
            case Pause():
                time.sleep(action.seconds)
            case Await():
                self._await(action)

    def _create(self, manifest: Object) -> None:
        response = self._http.post(_PATHS[manifest["kind"]], json=manifest)
        assert response.status_code == 201, response.text
        if manifest["kind"] == "Pod":
            metadata = response.json()["metadata"]
            self._names.learn(metadata["name"], metadata["uid"])

    def _await(self, what: Await) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._is(what):
            assert time.monotonic() < deadline, (what, self._extenders.calls, self.pods())
            time.sleep(0.02)

    def _is(self, what: Await) -> bool:
        if what.state in ("filter", "prioritize", "preempt", "bind"):
            return self._extenders.asked(what.state, what.pod) >= what.times
        pod = self.pods().get(what.pod)
        if what.state == "gone" or pod is None:
            return what.state == "gone" and pod is None
        if what.state in ("bound", "nominated", "terminating"):
            return bool(pod.get({"bound": "node"}.get(what.state, what.state)))
        return any(what.state in condition for condition in pod.get("conditions", ()))

    # -- what is to be seen ---------------------------------------------------------------------------------

    def pods(self) -> dict[str, Object]:
        found = {}
        for pod in self._items(PODS):
            metadata, status = pod["metadata"], pod.get("status", {})
            conditions = [
                [c["type"], c["status"], c.get("reason", ""), self._names.text(c.get("message", ""))]
                for c in status.get("conditions", [])
            ]
            seen = {
                "node": pod["spec"].get("nodeName", ""),
                "by": metadata.get("annotations", {}).get("bound-by", ""),
                "nominated": status.get("nominatedNodeName", ""),
                "terminating": "deletionTimestamp" in metadata,
                "conditions": sorted(conditions),
            }
            found[self._names.pod(metadata["uid"])] = {key: value for key, value in seen.items() if value}
        return found

    def events(self) -> list[list[str]]:
        """The scheduler's."""
        said = {
            (
                self._names.pod(event["regarding"].get("uid", "")),
                event["reason"],
                event["action"],
                event["type"],
                self._names.text(event["note"]),
            )
            for event in self._items(EVENTS)
            if event.get("reportingController") in _SCHEDULERS and not self._is_luck(event)
        }
        return sorted(list(each) for each in said)

    def _is_luck(self, event: Object) -> bool:
        """A pod without grace is marked as deleted and removed at once: some schedulers see it in between."""
        gone = self._names.pod(event["regarding"].get("uid", "")) not in self.pods()
        return gone and event["note"].startswith("skip schedule deleting pod")


def _without_lots(result: Object, anywhere: tuple[str, ...]) -> Object:
    """Where kube-scheduler drew lots among nodes that were offered last, the node is `<any>`."""
    for pod in anywhere:
        calls = [call for phase in result["phases"] for call in phase if call["pod"] == pod]
        offers = [call["nodes"] for call in calls if call["verb"] in ("filter", "prioritize")]
        chosen = next((pods[pod]["node"] for pods in result["pods"] if "node" in pods.get(pod, {})), "")
        if not chosen or (offers and chosen not in offers[-1]):
            continue
        for call in calls:
            if call["verb"] == "bind":
                call["nodes"] = ["<any>"]
        for pods in result["pods"]:
            if "node" in pods.get(pod, {}):
                pods[pod]["node"] = "<any>"
        for event in result["events"]:
            if event[0] == pod and event[1] == "Scheduled":
                event[-1] = event[-1].removesuffix(f" to {chosen}") + " to <any>"
    return result
