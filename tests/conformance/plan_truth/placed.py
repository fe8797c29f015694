"""Random states with sets of vpods: where the vreplicas of each vpod are placed, which vpods lack room and why, and how
many replicas each StatefulSet has at the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import yaml

from extender.plan.records import Options, Plan, Sign, World
from extender.plan.run import make_plan
from tests.conformance.plan_truth.outcomes import changes_of
from tests.conformance.plan_truth.served import ServedCluster, served
from tests.conformance.plan_truth.states import Maker, Object, State, scheduler

_API = "waggle.dev/v1alpha1"
_SETTINGS = {"algorithm": {"name": "packing"}, "vpods": {"enabled": True, "custom_resources": True}}
#: Seconds; the longest time of a set is one second.
_QUIET = 2.6


class VPodOutcome(NamedTuple):
    """The pods with the numbers that they host, and the code if not all vreplicas are placed."""

    pods: tuple[tuple[str, int], ...] = ()
    code: str = ""


def vpod_state(seed: int) -> State:
    """One or two sets, vpods that are placed already, and new ones; at times a node is cordoned."""
    return _Maker(seed).vpods()


class _Maker(Maker):
    def vpods(self) -> State:
        some = self.random
        state = State(self.seed, yaml.safe_dump(_SETTINGS), scheduler(ignored=False))
        state.nodes = [self._zoned(f"n{number}") for number in range(some.randint(2, 4))]
        sets = [self._set(state, f"w{number}") for number in range(some.choice((1, 1, 2)))]
        vpods = [self._vpod(f"v{number}", sets) for number in range(some.randint(1, 5))]
        old = some.randint(0, len(vpods))
        # A set without vpods shrinks at once: those that it has are there before it.
        rules = [each for each in state.objects if each["kind"] == "VPodSet"]
        state.objects = [each for each in state.objects if each["kind"] != "VPodSet"]
        state.early, state.create = [*vpods[:old], *rules], vpods[old:]
        if some.random() < 0.3:
            state.steps.append(("cordon", some.choice(state.nodes)["metadata"]["name"]))
        return state

    def _zoned(self, name: str) -> Object:
        node = self.node(name)
        node["spec"] = {}
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = self.random.choice("ab")
        return node

    def _set(self, state: State, name: str) -> str:
        some = self.random
        pod = self.pod(1, priority=self.priorities.pop())
        replicas = some.randint(0, 4)
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": {}}, "spec": pod["spec"]},
        }
        state.objects.append({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _named(name), "spec": spec})
        rules: Object = {
            "statefulSet": name,
            "capacity": some.randint(1, 6),
            "minReplicas": some.choice((0, 0, replicas)),
            "maxReplicas": max(1, replicas, some.randint(1, 7)),
            "unreadySeconds": some.choice((0, 1)),
            "scaleDownSeconds": some.choice((0, 1)),
            "overlapSeconds": some.choice((0, 0, 1)),
            "zones": some.random() < 0.5,
            "autoscale": some.random() < 0.7,
        }
        if some.random() < 0.2:
            rules |= {"scaleUpStep": some.randint(1, 2), "scaleUpSeconds": 1}
        state.objects.append({"apiVersion": _API, "kind": "VPodSet", "metadata": _named(name), "spec": rules})
        state.places[name] = []
        for _ in range(replicas):
            roomy = [node for node, free in self.free.items() if free]
            if roomy and some.random() < 0.9:
                node = some.choice(roomy)
                self.free[node] -= 1
                state.places[name].append((node, ""))
        return name

    def _vpod(self, name: str, sets: list[str]) -> Object:
        some = self.random
        spec: Object = {
            "set": "nowhere" if some.random() < 0.05 else some.choice(sets),
            "vreplicas": some.randint(0, 9),
        }
        if some.random() < 0.2:
            spec["spread"] = some.randint(1, 3)
        if some.random() < 0.2:
            spec["maxPerPod"] = some.randint(1, 3)
        return {"apiVersion": _API, "kind": "VPod", "metadata": _named(name), "spec": spec}


def _named(name: str) -> Object:
    return {"name": name, "namespace": "default"}


Found = tuple[dict[str, VPodOutcome], dict[str, str]]


def what_happens(state: State) -> tuple[World, Found]:
    """The world at the beginning, what has become of every vpod at the end, and the node of every pod."""
    with served(state) as cluster:
        cluster.serve()
        cluster.place()
        cluster.schedule()
        cluster.settle(_QUIET)
        for each in state.early:
            cluster.cluster.create(each)
        cluster.settle(_QUIET)
        world = cluster.world()
        if state.steps:
            for _, node in state.steps:
                cluster.cluster.patch("nodes", node, {"spec": {"unschedulable": True}}, namespace="")
            cluster.settle(_QUIET)
        for each in state.create:
            cluster.cluster.create(each)
        cluster.settle(_QUIET)
        return world, _outcomes(cluster, world)


def _outcomes(cluster: ServedCluster, world: World) -> Found:
    vpods = {each["metadata"]["name"]: _live(each) for each in cluster.objects("vpods")}
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in cluster.objects("pods")}
    return _comparable(cluster.state, vpods, nodes, world)


def _comparable(state: State, vpods: dict[str, VPodOutcome], nodes: dict[str, str], world: World) -> Found:
    """What is free where pods are new is left out, since which of several is ready first is a matter of milliseconds.

    Of a new pod remains whether it runs, of the vpods of a set that has grown how many vreplicas are placed, and of
    those of one that then lacks room how many together.
    """
    known = {pod.pod.pod.name for pod in world.pods if pod.pod.pod.node_name}
    grown = {name.rpartition("-")[0] for name, node in nodes.items() if node and name not in known}
    sets = {each["metadata"]["name"]: each["spec"]["set"] for each in _vpods_of(state)}
    lacks = {sets[name] for name, each in vpods.items() if each.code == "NotEnoughRoom"} & grown
    hosted, found = Counter[str](), dict[str, VPodOutcome]()
    for name, (pods, code) in vpods.items():
        hosted.update(dict(pods))
        placed = sum(number for _, number in pods)
        if sets[name] in lacks:
            before = sum(number for _, number in found[sets[name]].pods) if sets[name] in found else 0
            found[sets[name]] = VPodOutcome((("any", before + placed),), "NotEnoughRoom")
        else:
            found[name] = VPodOutcome((("any", placed),), code) if sets[name] in grown else VPodOutcome(pods, code)
    where = {name: node if name in known or not node else "runs" for name, node in nodes.items()}
    numbers = {name: f" x{hosted[name]}" for name in where if name.rpartition("-")[0] not in grown}
    return found, {name: f"{node}{numbers.get(name, '')}" for name, node in where.items()}


def _vpods_of(state: State) -> list[Object]:
    return [each for each in (*state.early, *state.create) if each["kind"] == "VPod"]


def _live(vpod: Object) -> VPodOutcome:
    status: dict[str, Any] = vpod.get("status", {})
    placements = {each["podName"]: each["vreplicas"] for each in status.get("placements", ()) if each["vreplicas"]}
    code = status.get("reason", "")
    # One that is placed, but on a pod that it is to leave, is placed all the same: a plan says where.
    return VPodOutcome(tuple(sorted(placements.items())), "" if code in ("Placed", "Moving") else code)


def planned(state: State, world: World) -> tuple[Plan, Found]:
    """The same as the plan says it. A vpod without a row is where it was."""
    plan = make_plan(world, changes_of(state), Options(seed=state.seed))
    vpods: dict[str, VPodOutcome] = {}
    for raw in world.objects:
        if raw.kind == "VPod":
            vpods[raw.name] = _live(yaml.safe_load(raw.json))
    nodes = {pod.pod.pod.name: pod.pod.pod.node_name for pod in world.pods}
    for row in plan.rows:
        if row.kind == "VPod":
            vpods[row.name] = VPodOutcome(_pods(row.node), row.code)
        elif row.sign is Sign.EVICTED and "; made again" not in row.text:
            nodes.pop(row.name, None)
        else:
            nodes[row.name] = row.node
    return plan, _comparable(state, vpods, nodes, world)


def _pods(text: str) -> tuple[tuple[str, int], ...]:
    """The pods of a row, "w0-0 x4, w0-1 x2"."""
    pairs = (each.rsplit(" x", 1) for each in text.split(", ") if each)
    return tuple(sorted((name, int(number)) for name, number in pairs))
