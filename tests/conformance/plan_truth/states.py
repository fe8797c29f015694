"""Random states of a cluster, and what then happens to it: the input of both the plan and the live cluster.

All objects are Kubernetes JSON as a user would create them. Pods have distinct priorities wherever the choice of a node
or of victims would otherwise be a draw between equals: kube-scheduler draws once for each attempt, and how often a live
one tries depends on timing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import yaml

Object = dict[str, Any]

GPU = "example.com/gpu"
#: Seconds since the beginning of the day at which running pods started: each at another one.
_STARTED = "2026-11-23T{:02}:{:02}:{:02}Z"


@dataclass
class State:
    """Objects in the order of their creation. `steps` come after the first rest: (verb, name)."""

    seed: int
    settings: str
    scheduler: str
    nodes: list[Object] = field(default_factory=list)
    bound: list[Object] = field(default_factory=list)
    waiting: list[Object] = field(default_factory=list)
    #: Workloads and budgets that are there before their pods.
    objects: list[Object] = field(default_factory=list)
    #: Nodes and start times of those pods of these workloads that run.
    places: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    steps: list[tuple[str, str]] = field(default_factory=list)
    #: Nodes that are added with the steps.
    added: list[Object] = field(default_factory=list)
    #: Created when Waggle runs already, before the plan is made.
    early: list[Object] = field(default_factory=list)
    #: The server is started again with these settings, or with this algorithm, when what waits has come to rest.
    new_settings: str | None = None
    new_algorithm: str | None = None
    #: New priorities of pods, gangs and workloads, old and new: (kind, name, priority). After the steps.
    priorities: list[tuple[str, str, int]] = field(default_factory=list)
    create: list[Object] = field(default_factory=list)


def packing_state(seed: int) -> State:
    """A cluster for the algorithm `packing`: gangs, preemption, taints and selectors, cordons and drains."""
    return Maker(seed).state()


class Maker:
    """Draws nodes, and pods with and without gangs. `free` has the GPUs that are left of each node."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.priorities = list(range(1, 400))
        self.random.shuffle(self.priorities)
        self.free: dict[str, int] = {}
        self.pods = 0

    def state(self) -> State:
        some = self.random
        ignored = some.random() < 0.4
        state = State(self.seed, _settings(some), scheduler(ignored=ignored))
        state.nodes = [self.node(f"n{number}") for number in range(some.randint(2, 7))]
        for node in state.nodes:
            state.bound += self.running(node)
        state.waiting = self.new_pods(some.choice((0, 0, 2)))
        state.create = self.new_pods(some.randint(1, 5))
        names = [node["metadata"]["name"] for node in state.nodes]
        if some.random() < 0.3:
            state.steps.append((some.choice(("cordon", "drain")), some.choice(names)))
        if some.random() < 0.2 and state.bound:
            state.steps.append(("delete", some.choice(state.bound)["metadata"]["name"]))
        state.steps.sort(key=lambda step: ("delete", "cordon", "drain").index(step[0]))
        return state

    def node(self, name: str) -> Object:
        some = self.random
        gpus = some.choice((2, 4, 8))
        self.free[name] = gpus
        spec: Object = {"unschedulable": True} if some.random() < 0.08 else {}
        if some.random() < 0.2:
            spec["taints"] = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "20", GPU: str(gpus)}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": some.choice("ab")}},
            "spec": spec,
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def running(self, node: Object) -> list[Object]:
        name, made = node["metadata"]["name"], []
        for _ in range(self.random.randint(0, 4)):
            gpus = self.random.choice((1, 1, 2))
            if gpus <= self.free[name]:
                self.free[name] -= gpus
                pod = self.pod(gpus, priority=self.priorities.pop())
                pod["spec"]["nodeName"] = name
                pod["status"] = {"phase": "Running", "startTime": self.started()}
                made.append(pod)
        return made

    def started(self) -> str:
        return _STARTED.format(self.random.randrange(10), self.pods // 60, self.pods % 60)

    def new_pods(self, groups: int) -> list[Object]:
        return [pod for _ in range(groups) for pod in self.group()]

    def group(self) -> list[Object]:
        """A pod, or a gang, of which all members are alike."""
        some = self.random
        gpus = some.choice((1, 2, 4))
        priority = some.choice((0, 0, 500 + self.priorities.pop(), self.priorities.pop()))
        spec: Object = {}
        if some.random() < 0.25:
            spec["nodeSelector"] = {"zone": some.choice("ab")}
        if some.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if some.random() < 0.1:
            spec["preemptionPolicy"] = "Never"
        if some.random() < 0.5:
            return [self.pod(gpus, priority=priority, **spec)]
        size = some.randint(2, 4)
        minimum = size + 1 if some.random() < 0.15 else size
        name = f"gang-{self.pods}"
        return [self.pod(gpus, priority=priority, gang=(name, minimum), **spec) for _ in range(size)]

    def pod(self, gpus: int, *, priority: int, gang: tuple[str, int] | None = None, **spec: Any) -> Object:
        name = f"p{self.pods:03}"
        self.pods += 1
        requests = {"cpu": "500m", "memory": "1Gi", GPU: str(gpus)}
        annotations = {"waggle.dev/gang": gang[0], "waggle.dev/gang-min": str(gang[1])} if gang else {}
        container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": {GPU: str(gpus)}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                **({"priorityClassName": f"p{priority}"} if priority else {}),
                **spec,
            },
        }


def _settings(some: Random) -> str:
    mode = some.choice(("kube-scheduler", "kube-scheduler", "direct", "auto"))
    return yaml.safe_dump({"algorithm": {"name": "packing"}, "preemption": {"mode": mode}})


def scheduler(*, ignored: bool) -> str:
    """kube-scheduler's configuration; `ignored`: it leaves the GPUs to Waggle."""
    extender = {
        "urlPrefix": "http://127.0.0.1:9096",
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": GPU, "ignoredByScheduler": ignored}],
    }
    return yaml.safe_dump({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [extender],
    })  # fmt: skip


def priority_classes(state: State) -> list[Object]:
    """The classes that the pods name."""
    made = (*state.bound, *state.waiting, *state.objects, *state.create)
    names = {_pod_spec(each).get("priorityClassName") for each in made} - {None}
    names |= {f"p{priority}" for _, _, priority in state.priorities}
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": int(name[1:]),
        }
        for name in sorted(names)
    ]


def _pod_spec(body: Object) -> Object:
    """The pod's, or that of the pods that it makes."""
    spec: Object = body["spec"]
    found: Object = spec["template"]["spec"] if "template" in spec else spec
    return found
