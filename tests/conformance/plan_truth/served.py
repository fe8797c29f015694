"""What really happens from a state on where Waggle's other engines take part: claims, vpods, start-up ordering.

All is live, with sockets and threads: the embedded API server with its controllers, Waggle as it is served with the
engines that the settings switch on, and the stand-in for kube-scheduler.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import httpx
import msgspec
import yaml

from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver import serve_in_thread as serve_cluster
from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import connect
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from extender.server.process import ServerProcess
from extender.settings import ClusterSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import ServerHandle, serve_in_thread
from tests.conformance.plan_truth.states import State, priority_classes
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import QUICK
from tests.support.cluster.definitions import definition

Object = dict[str, Any]
#: What a plan reads, owners before what they own: (resource, API version, kind).
KINDS = (
    ("priorityclasses", "scheduling.k8s.io/v1", "PriorityClass"),
    ("jobsets", "jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("jobs.batch.volcano.sh", "batch.volcano.sh/v1alpha1", "Job"),
    ("jobs", "batch/v1", "Job"),
    ("replicasets", "apps/v1", "ReplicaSet"),
    ("statefulsets", "apps/v1", "StatefulSet"),
    ("pools", "waggle.dev/v1alpha1", "Pool"),
    ("claims", "waggle.dev/v1alpha1", "Claim"),
    ("vpodsets", "waggle.dev/v1alpha1", "VPodSet"),
    ("vpods", "waggle.dev/v1alpha1", "VPod"),
    ("nodes", "v1", "Node"),
    ("pods", "v1", "Pod"),
)
_OWN = ("pools", "claims", "vpodsets", "vpods")
_OWNED = re.compile(r"^(w\d+)-")


class ServedCluster:
    """A cluster with the nodes, workloads and other objects of a state. `serve` starts Waggle, `place` lets pods run,
    and `schedule` starts kube-scheduler; `settle` returns at rest."""

    def __init__(self, cluster: EmbeddedCluster, state: State) -> None:
        self.cluster, self.state = cluster, state
        self.process: ServerProcess | None = None
        self.scheduler: KubeSchedulerStandIn | None = None
        self._handle: ServerHandle | None = None
        for name in _OWN:
            cluster.create(definition(name))
        for each in (*priority_classes(state), *state.nodes, *state.objects):
            cluster.create(deepcopy(each))

    def objects(self, resource: str) -> list[Object]:
        """The objects of a resource; none if it is not served."""
        try:
            return self.cluster.objects(resource)
        except KeyError:
            return []

    # -- the beginning --------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Let pods run on the nodes of the state, one after the other, so that Waggle hears of them in this order."""
        for owner, places in self.state.places.items():
            [wanted] = {
                each["spec"].get("replicas", len(places))
                for each in self.state.objects
                if each["metadata"]["name"] == owner and "template" in each["spec"]
            }
            eventually(lambda owner=owner, wanted=wanted: len(self._owned_by(owner)) >= wanted)
            pods = self._owned_by(owner)
            for name, (node, _) in zip(pods, places, strict=False):
                self.bind(name, node)
                eventually(lambda name=name: self._is_ready(name))
        for each in (*self.state.bound, *self.state.waiting):
            self.cluster.create(deepcopy(each))
        bound = [each["metadata"]["name"] for each in self.state.bound]
        eventually(lambda: all(map(self._is_ready, bound)), seconds=60)

    def _is_ready(self, name: str) -> bool:
        pod = self.cluster.get("pods", name) or {}
        conditions = pod.get("status", {}).get("conditions", ())
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    def bind(self, name: str, node: str) -> None:
        path = f"{self.cluster.url}/api/v1/namespaces/default/pods/{name}/binding"
        body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        answer = httpx.post(path, json=body)
        assert answer.status_code == 201, answer.text

    def _owned_by(self, owner: str) -> list[str]:
        """The names of the pods of an owner."""
        pods = [pod["metadata"] for pod in self.cluster.objects("pods")]
        return sorted(m["name"] for m in pods if any(each["name"] == owner for each in m.get("ownerReferences", ())))

    def world(self) -> World:
        """The cluster as a plan reads it."""
        reader = WorldReader(self.state.settings, self.state.scheduler)
        for resource, version, kind in KINDS:
            for each in self.objects(resource):
                reader.add(version, kind, msgspec.json.encode(each))
        assert not reader.faults, reader.faults
        return reader.world(source="truth")

    # -- what runs ------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Start Waggle, and wait until it knows all."""
        sections = yaml.safe_load(self.state.settings)
        settings = Settings.model_validate(
            {"server": {"port": 0}, **sections, "cluster": {"server": self.cluster.url, "compare_seconds": 0}}
        )
        process = self.process = ServerProcess(settings, timing=QUICK)
        process.start()
        assert process.service is not None
        runtime = process.service.runtime
        app = create_app(runtime, settings, claims=process.claims, vpods=process.vpods, ordering=process.ordering)
        self._handle = serve_in_thread(app, settings)
        parts = [each for each in (process.claims, process.vpods, process.ordering) if each is not None]
        eventually(lambda: runtime.readiness().ready and all(each.readiness().ready for each in parts))

    def schedule(self) -> None:
        """Start kube-scheduler."""
        assert self._handle is not None
        document = yaml.safe_load(self.state.scheduler)
        document["extenders"][0]["urlPrefix"] = self._handle.url
        config = from_kube_scheduler_configuration(document, seed=self.state.seed)
        api = connect(ClusterSettings(server=self.cluster.url), agent="kube-scheduler")
        self.scheduler = KubeSchedulerStandIn(api, config)
        self.scheduler.start()

    def settle(self, quiet: float, then: Callable[[], bool] = lambda: False) -> None:
        """Return when nothing has been written for `quiet` seconds, and `then` has nothing more to do."""
        before, since, deadline = -1, 0.0, time.monotonic() + 120
        while True:
            assert time.monotonic() < deadline, f"seed {self.state.seed}: it never comes to rest"
            assert self.scheduler is None or self.scheduler.wait_idle(60)
            now = self.cluster.revision
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() > since + quiet:
                if not then():
                    return
                before = -1
            time.sleep(0.03)

    def stop(self) -> None:
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler._api.close()
        if self.process is not None:
            self.process.end_calls()
        if self._handle is not None:
            self._handle.stop()
        if self.process is not None:
            self.process.stop()


@contextmanager
def served(state: State, **apiserver: Any) -> Iterator[ServedCluster]:
    """A cluster with everything of the state but `create`."""
    with serve_cluster(**{"binds": False, "stop_delay": 0.02, **apiserver}) as cluster:
        made = ServedCluster(cluster, state)
        try:
            yield made
        finally:
            made.stop()


def owner_or_name(name: str, known: Mapping[str, Any] | set[str]) -> str:
    """A pod that was there at the beginning by its name; of others, whose names are drawn, the owner."""
    found = _OWNED.match(name)
    return found[1] if found and name not in known else name
