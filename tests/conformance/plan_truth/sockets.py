"""What really happens from a state on, with real sockets and threads: the embedded API server, Waggle as it is served,
and the stand-in for kube-scheduler, each in threads of their own.

Everything exists before Waggle and kube-scheduler start, so that both hear of all at once. What is to come to rest only
after minutes (a back-off, a seat that lapses) is compared without sockets: see `live`.
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import replace
from typing import Any

import msgspec
import yaml

from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import connect
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from extender.settings import ClusterSettings
from tests.conformance.plan_truth.outcomes import Outcome, live_outcome
from tests.conformance.plan_truth.states import State, priority_classes
from tests.support.cluster.local_cluster import LocalCluster
from tests.support.cluster.local_cluster import world as local_world

Object = dict[str, Any]
#: Seconds for which nothing may happen before it counts as rest.
_QUIET = 0.15
_KINDS = {"priorityclasses": "PriorityClass", "nodes": "Node", "pods": "Pod"}


def all_at_once(state: State) -> State:
    """The same objects, all of which exist from the beginning on, and no further steps."""
    return replace(state, waiting=[*state.waiting, *state.create], create=[], steps=[])


def what_happens(state: State) -> tuple[World, dict[str, Outcome]]:
    """The world at the beginning, and what has become of every pod at the end."""
    found: list[World] = []

    def prepare(cluster: LocalCluster) -> None:
        for each in (*priority_classes(state), *state.nodes, *state.bound, *state.waiting):
            cluster.cluster.create(deepcopy(each))
        bound = {pod["metadata"]["name"] for pod in state.bound}
        cluster.until(lambda: bound == {pod["metadata"]["name"] for pod in _running(cluster)})
        found.append(_read(cluster, state))

    with local_world(prepare=prepare, **yaml.safe_load(state.settings)) as cluster:
        cluster.scheduler = _scheduler(cluster, state)
        _settle(cluster)
        outcomes = _outcomes(cluster)
        assert cluster.waggle is not None
        cluster.may_hold = set(cluster.waggle.holds())
        return found[0], outcomes


def _running(cluster: LocalCluster) -> list[Object]:
    return [pod for pod in cluster.cluster.objects("pods") if pod["status"].get("phase") == "Running"]


def _read(cluster: LocalCluster, state: State) -> World:
    """The cluster as a plan reads it."""
    reader = WorldReader(state.settings, state.scheduler)
    for resource, version in (("priorityclasses", "scheduling.k8s.io/v1"), ("nodes", "v1"), ("pods", "v1")):
        for each in cluster.cluster.objects(resource):
            reader.add(version, _KINDS[resource], msgspec.json.encode(each))
    assert not reader.faults, reader.faults
    return reader.world(source="truth")


def _scheduler(cluster: LocalCluster, state: State) -> KubeSchedulerStandIn:
    assert cluster.waggle is not None
    document = yaml.safe_load(state.scheduler)
    document["extenders"][0]["urlPrefix"] = cluster.waggle.url
    config = from_kube_scheduler_configuration(document, seed=state.seed)
    made = KubeSchedulerStandIn(connect(ClusterSettings(server=cluster.cluster.url), agent="kube-scheduler"), config)
    made.start()
    return made


def _settle(cluster: LocalCluster) -> None:
    """Until nothing has been written for a while."""
    before = None
    while before != (before := cluster.cluster.objects("pods")):
        cluster.settle()
        time.sleep(_QUIET)


def _outcomes(cluster: LocalCluster) -> dict[str, Outcome]:
    assert cluster.waggle is not None
    assert cluster.scheduler is not None
    infos = {info.uid: info for info in cluster.waggle.pod_infos()}
    found = {}
    for pod in cluster.cluster.objects("pods"):
        name = pod["metadata"]["name"]
        last = cluster.scheduler.attempts(f"default/{name}")[-1:]
        asked = any(call.kind == "filter" for attempt in last for call in attempt.calls)
        found[name] = live_outcome(pod, infos.get(pod["metadata"]["uid"]), refused_by_waggle=asked)
    return found
