"""Random states of a cluster whose pods have owners: ReplicaSets, Deployments, StatefulSets, disruption budgets, and
drains that budgets slow down; new nodes, and whole workloads or nodes that are deleted.

Names of pods that a controller makes are random letters: all pods of one owner are alike, and their outcomes are
compared together (`outcomes.by_owner`).
"""

from __future__ import annotations

from random import Random

import yaml

from tests.conformance.plan_truth.states import Maker, Object, State, scheduler

_ALGORITHMS = ("packing", "packing", "fgd")


def workload_state(seed: int) -> State:
    """A cluster in which workloads run and wait, and what then happens to it."""
    return _Maker(seed).state()


class _Maker(Maker):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.owners: list[Object] = []

    def state(self) -> State:
        some = self.random
        state = State(self.seed, _settings(some), scheduler(ignored=some.random() < 0.3))
        state.nodes = [self.node(f"n{number}") for number in range(some.randint(2, 6))]
        for node in state.nodes:
            state.bound += self.running(node)
        for _ in range(some.randint(1, 3)):
            self.old_workload(state)
        state.waiting += self.new_pods(some.choice((0, 0, 1)))
        state.create = self.news()
        self.steps(state)
        return state

    # -- what is there --------------------------------------------------------------------------------------------

    def old_workload(self, state: State) -> None:
        """A workload some of whose pods run and the others wait; often with a budget."""
        some = self.random
        gpus = some.choice((1, 1, 2))
        owner = self.workload(some.choice(("ReplicaSet", "ReplicaSet", "StatefulSet")), gpus, some.randint(1, 4))
        if owner["kind"] == "StatefulSet":
            # The pods of one that makes them in order would wait for each other, and a plan reads no pods to come.
            owner["spec"]["podManagementPolicy"] = "Parallel"
        state.objects.append(owner)
        places = state.places[owner["metadata"]["name"]] = []
        for _ in range(owner["spec"]["replicas"]):
            roomy = [name for name, free in self.free.items() if free >= gpus and name not in self.closed(state)]
            if roomy and some.random() < 0.9:
                self.pods += 1
                places.append((some.choice(roomy), self.started()))
                self.free[places[-1][0]] -= gpus
        if some.random() < 0.6:
            state.objects.append(self.budget(owner))

    @staticmethod
    def closed(state: State) -> set[str]:
        """Nodes that a pod of a workload would not be on: cordoned or tainted."""
        return {node["metadata"]["name"] for node in state.nodes if node["spec"]}

    def budget(self, owner: Object) -> Object:
        some = self.random
        rule = some.choice(
            ({"minAvailable": some.randint(0, 3)}, {"maxUnavailable": some.randint(0, 2)}, {"minAvailable": "50%"})
        )
        name = owner["metadata"]["name"]
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {**rule, "selector": {"matchLabels": {"app": name}}},
        }

    # -- what comes -----------------------------------------------------------------------------------------------

    def news(self) -> list[Object]:
        some = self.random
        found: list[Object] = []
        for _ in range(some.randint(1, 4)):
            if some.random() < 0.4:
                found += self.group()
            else:
                kind = some.choice(("ReplicaSet", "Deployment", "StatefulSet"))
                owner = self.workload(kind, some.choice((1, 2, 4)), some.randint(1, 4))
                if kind == "StatefulSet":
                    owner["spec"]["podManagementPolicy"] = some.choice(("Parallel", "OrderedReady"))
                found.append(owner)
        return found

    def workload(self, kind: str, gpus: int, replicas: int) -> Object:
        some = self.random
        name = f"w{len(self.owners)}"
        priority = some.choice((500 + self.priorities.pop(), self.priorities.pop(), self.priorities.pop()))
        pod = self.pod(gpus, priority=priority)
        metadata: Object = {"labels": {"app": name}, "annotations": {}}
        if kind != "StatefulSet" and replicas > 1 and some.random() < 0.3:
            metadata["annotations"] = {"waggle.dev/gang": name, "waggle.dev/gang-min": str(replicas)}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": pod["spec"]},
            **({"serviceName": name} if kind == "StatefulSet" else {}),
        }
        owner = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
        self.owners.append(owner)
        return owner

    # -- what happens ---------------------------------------------------------------------------------------------

    def steps(self, state: State) -> None:
        some = self.random
        names = [node["metadata"]["name"] for node in state.nodes]
        if some.random() < 0.5:
            state.steps.append((some.choice(("cordon", "drain", "drain")), some.choice(names)))
        if some.random() < 0.15:
            left = [name for name in names if not any(name == step[1] for step in state.steps)]
            state.steps.append(("delete-node", some.choice(left)))
        old = [each for each in state.objects if each["kind"] in ("ReplicaSet", "StatefulSet")]
        if some.random() < 0.2:
            state.steps.append(("delete-workload", some.choice(old)["metadata"]["name"]))
        if some.random() < 0.25:
            state.added = [self.node("added")]
        order = ("delete-workload", "delete-node", "cordon", "drain")
        state.steps.sort(key=lambda step: order.index(step[0]))


def _settings(some: Random) -> str:
    mode = some.choice(("kube-scheduler", "kube-scheduler", "direct", "auto"))
    return yaml.safe_dump({"algorithm": {"name": some.choice(_ALGORITHMS)}, "preemption": {"mode": mode}})
