"""Start-up ordering on real sockets: which pods run in the end, and for which reason others do not.

There is room for all, and of a pod that runs the node is not compared: which of two independent pods comes first is a
matter of milliseconds, and Waggle packs.
"""

from __future__ import annotations

import json
import time
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import yaml

from extender.core.ordering_names import AFTER, GATE
from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import connect
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from extender.settings import ClusterSettings
from tests.conformance.plan_truth.outcomes import Outcome
from tests.conformance.plan_truth.states import GPU, Object, State, scheduler
from tests.support.cluster.ordering_world import OrderingWorld, ordering_world

#: Seconds; longer than any grace.
_QUIET = 1.0


def ordered_state(seed: int) -> State:
    """Pods and gangs that wait for each other: chains, joins, cycles, what does not exist, what is optional."""
    some = Random(seed)
    state = State(seed, yaml.safe_dump({"ordering": {"enabled": True, "grace_seconds": 0.2}}), scheduler(ignored=False))
    state.nodes = [_node(f"n{number}") for number in range(2)]
    count = some.randint(3, 9)
    # A pod that is in a cycle and also waits for nothing that exists has two reasons; which one is told may differ.
    cyclic = some.random() < 0.5
    gangs = [some.random() < 0.4 for _ in range(count)]
    for number in range(count):
        entries = [_entry(some, gangs, number, count, cyclic=cyclic) for _ in range(some.choice((0, 1, 1, 2)))]
        after = list({(each.get("group"), each.get("name")): each for each in entries}.values())
        state.waiting += _pods(number, after, gated=some.random() < 0.7, gang=gangs[number])
    return state


def _entry(some: Random, gangs: list[bool], number: int, count: int, *, cyclic: bool) -> dict[str, Any]:
    """Mostly something earlier; at times something later, which may close a cycle, or nothing that exists."""
    chance = some.random()
    if chance < 0.12 and not cyclic:
        return {"kind": "Pod", "name": "nowhere", "optional": some.random() < 0.5}
    others = [each for each in range(count) if each != number]
    if not number and not cyclic:
        return {"kind": "Pod", "name": "nowhere", "optional": True}
    chosen = some.choice(others if cyclic and (chance < 0.3 or not number) else others[:number])
    target = {"group": f"g{chosen}"} if gangs[chosen] else {"kind": "Pod", "name": f"p{chosen}"}
    return {**target, "state": some.choice(("Ready", "Scheduled"))}


def _pods(number: int, after: list[dict[str, Any]], *, gated: bool, gang: bool) -> list[Object]:
    annotations = {AFTER: json.dumps(after)} if after else {}
    if gang:
        annotations |= {"waggle.dev/gang": f"g{number}", "waggle.dev/gang-min": "2"}
    spec: Object = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}],
        "terminationGracePeriodSeconds": 0,
    }
    if after and gated:
        spec["schedulingGates"] = [{"name": GATE}]
    names = [f"p{number}-{index}" for index in range(2)] if gang else [f"p{number}"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": deepcopy(spec),
        }
        for name in names
    ]


def _node(name: str) -> Object:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "100", GPU: "64"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def what_happens(state: State) -> tuple[World, dict[str, Outcome]]:
    """The world at the beginning, and what has become of every pod at the end."""
    sections = yaml.safe_load(state.settings)
    with ordering_world(nodes=0, serve=False, ordering=sections["ordering"], apiserver={"binds": False}) as w:
        for each in (*state.nodes, *state.waiting):
            w.cluster.create(deepcopy(each))
        world = _read(w, state)
        w._extends = True
        w.serve()
        w.scheduler = _scheduler(w, state)
        try:
            _settle(w)
            return world, _outcomes(w)
        finally:
            w.stop_scheduler()


def _read(w: OrderingWorld, state: State) -> World:
    reader = WorldReader(state.settings, state.scheduler)
    for resource, kind in (("nodes", "Node"), ("pods", "Pod")):
        for each in w.cluster.objects(resource):
            reader.add("v1", kind, msgspec.json.encode(each))
    assert not reader.faults, reader.faults
    return reader.world(source="truth")


def _scheduler(w: OrderingWorld, state: State) -> KubeSchedulerStandIn:
    document = yaml.safe_load(state.scheduler)
    document["extenders"][0]["urlPrefix"] = w.server.handle.url
    config = from_kube_scheduler_configuration(document, seed=state.seed)
    made = KubeSchedulerStandIn(connect(ClusterSettings(server=w.cluster.url), agent="kube-scheduler"), config)
    made.start()
    return made


def _settle(w: OrderingWorld) -> None:
    """Until nothing has changed for longer than any grace."""
    assert w.scheduler is not None
    before = None
    while before != (before := (w.cluster.objects("pods"), w.reasons())):
        assert w.scheduler.wait_idle(30)
        time.sleep(_QUIET)


def _outcomes(w: OrderingWorld) -> dict[str, Outcome]:
    held = w.reasons()
    names = [pod["metadata"]["name"] for pod in w.cluster.objects("pods")]
    return {name: Outcome("runs") if w.node_of(name) else Outcome("", held.get(name, "?")) for name in names}
