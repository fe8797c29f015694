"""A stand-in for all kubelets: what happens on nodes, as far as the API server gets to see it.

    pod bound to a node that exists --start_delay--> Running, Ready, with an IP
        annotation waggle.dev/run-seconds: "2"  --2 s--> Succeeded
        another image in its specification --start_delay--> the container runs it, under another ID
    pod with a deletionTimestamp    --stop_delay--> gone      (never later than its own grace period)
    node without a Ready condition  --------------> Ready

A pod on a node that does not exist stays Pending until the node appears; a terminating one finishes all the same, as
the pod garbage collector would see to.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.conditions import is_ready, set_condition
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Change, Key, Stored
from extender.embedded.apiserver.table import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Hashable

#: Annotation of a pod: seconds that it runs before it ends as Succeeded. Without it a pod runs for ever.
RUN_SECONDS = "waggle.dev/run-seconds"


class Kubelet:
    """Reacts to the store's changes. Delays are in seconds. Lives on the event loop of the store."""

    def __init__(self, cluster: Cluster, *, start_delay: float = 0.0, stop_delay: float = 0.2) -> None:
        self._cluster = cluster
        self._start_delay = start_delay
        self._stop_delay = stop_delay
        #: By what they are about and what they do, so that nothing is planned twice.
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._addresses = self._containers = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._cluster.store.listeners.append(self._notice)
        for resource in (NODES, PODS):
            for stored in self._cluster.store.collection(resource):
                self._notice(Change("ADDED", resource, stored, None))

    def stop(self) -> None:
        with contextlib.suppress(ValueError):
            self._cluster.store.listeners.remove(self._notice)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _notice(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        if change.resource is PODS and change.new.fields["spec.nodeName"]:
            self._notice_pod(change.new)
        elif change.resource is NODES and change.old is None:
            self._plan(0.0, "node", change.new, self._register)

    def _notice_pod(self, stored: Stored) -> None:
        phase = stored.fields["status.phase"]
        if phase == "Pending" and self._node_exists(stored):
            self._plan(self._start_delay, "run", stored, self._run)
        elif phase == "Running" and _other_images(stored.fresh()):
            self._plan(self._start_delay, "images", stored, self._change_images)
        if b'"deletionTimestamp"' in stored.raw:
            grace = stored.fresh()["metadata"].get("deletionGracePeriodSeconds")
            if grace is not None:
                self._plan(min(self._stop_delay, grace), "stop", stored, self._stop)

    def _node_exists(self, stored: Stored) -> bool:
        return self._cluster.store.collection(NODES).get(("", stored.fields["spec.nodeName"])) is not None

    def _plan(self, delay: float, what: str, stored: Stored, action: Callable[[Key, str], None]) -> None:
        key = (what, stored.uid)
        if key not in self._timers and self._loop is not None:
            self._timers[key] = self._loop.call_later(delay, self._fire, key, stored.key, action)

    def _fire(self, timer: tuple[str, str], key: Key, action: Callable[[Key, str], None]) -> None:
        self._timers.pop(timer, None)
        action(key, timer[1])

    def _find(self, key: Key, uid: str) -> Stored | None:
        stored = self._cluster.store.collection(PODS).get(key)
        return stored if stored is not None and stored.uid == uid else None

    def _run(self, key: Key, uid: str) -> None:
        stored = self._find(key, uid)
        if stored is None or stored.fields["status.phase"] != "Pending" or not self._node_exists(stored):
            return
        pod, now = stored.fresh(), self._cluster.now()
        if "deletionTimestamp" in pod["metadata"]:
            return
        status = pod["status"]
        status |= {"phase": "Running", "startTime": now, "hostIP": "127.0.0.1", "podIP": self._address()}
        status["podIPs"] = [{"ip": status["podIP"]}]
        for condition in ("Initialized", "ContainersReady", "Ready"):
            set_condition(status, condition, "True", now=now)
        running = {"ready": True, "restartCount": 0, "started": True, "state": {"running": {"startedAt": now}}}
        status["containerStatuses"] = [
            {"name": each["name"], **self._container(each["image"]), **running} for each in pod["spec"]["containers"]
        ]
        self._cluster.store.put(PODS, pod)
        self._plan_end(pod, stored)

    def _change_images(self, key: Key, uid: str) -> None:
        """Containers whose image was changed are replaced. In between the pod is not ready."""
        stored = self._find(key, uid)
        if stored is None or stored.fields["status.phase"] != "Running" or b'"deletionTimestamp"' in stored.raw:
            return
        pod, now = stored.fresh(), self._cluster.now()
        wanted = _other_images(pod)
        for each in pod["status"]["containerStatuses"]:
            if each["name"] in wanted:
                each |= {**self._container(wanted[each["name"]]), "restartCount": each["restartCount"] + 1}
                each["state"] = {"running": {"startedAt": now}}
        self._cluster.store.put(PODS, pod)

    def _container(self, image: str) -> Object:
        """The image of a container that begins, and the IDs that it gets."""
        self._containers += 1
        digest = hashlib.sha256(image.encode()).hexdigest()
        return {
            "image": image,
            "imageID": f"{image.partition(':')[0]}@sha256:{digest}",
            "containerID": f"containerd://{self._containers:064x}",
        }

    def _plan_end(self, pod: Object, stored: Stored) -> None:
        with contextlib.suppress(ValueError, OverflowError):
            seconds = pod["metadata"].get("annotations", {}).get(RUN_SECONDS)
            if seconds is not None:
                self._plan(max(0.0, float(seconds)), "end", stored, self._end)

    def _end(self, key: Key, uid: str) -> None:
        stored = self._find(key, uid)
        if stored is None or stored.fields["status.phase"] != "Running":
            return
        pod, now = stored.fresh(), self._cluster.now()
        pod["status"]["phase"] = "Succeeded"
        for condition in ("ContainersReady", "Ready"):
            set_condition(pod["status"], condition, "False", now=now, reason="PodCompleted")
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
        for each in pod["status"].get("containerStatuses", []):
            each |= {"ready": False, "started": False, "state": ended}
        self._cluster.store.put(PODS, pod)

    def _stop(self, key: Key, uid: str) -> None:
        stored = self._find(key, uid)
        if stored is None:
            return
        pod = stored.fresh()
        if pod["metadata"].get("finalizers"):
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
            self._cluster.store.put(PODS, pod)
        else:
            self._cluster.delete(Target(PODS, *key), DeleteOptions(grace_period_seconds=0))

    def _register(self, key: Key, uid: str) -> None:
        """The node reports in, and the pods that were waiting for it start."""
        stored = self._cluster.store.collection(NODES).get(key)
        if stored is None or stored.uid != uid:
            return
        node, now = stored.fresh(), self._cluster.now()
        conditions = node["status"].get("conditions", [])
        if not is_ready(node) and not any(each.get("type") == "Ready" for each in conditions):
            more = {"reason": "KubeletReady", "message": "stand-in kubelet", "lastHeartbeatTime": now}
            set_condition(node["status"], "Ready", "True", now=now, **more)
            self._cluster.store.put(NODES, node)
        for pod in list(self._cluster.store.collection(PODS)):
            if pod.fields["spec.nodeName"] == key[1]:
                self._notice_pod(pod)

    def _address(self) -> str:
        self._addresses += 1
        return f"10.{self._addresses >> 16 & 255}.{self._addresses >> 8 & 255}.{self._addresses & 255}"


def _other_images(pod: Object) -> dict[str, str]:
    """The containers of a running pod that run another image than they should, with that image."""
    runs = {each["name"]: each["image"] for each in pod["status"].get("containerStatuses", [])}
    wanted = {each["name"]: each["image"] for each in pod["spec"]["containers"]}
    return {name: image for name, image in wanted.items() if name in runs and runs[name] != image}
