"""Random states of a cluster that HiveD divides among tenants: promises, borrowed devices taken back, cordons."""

from __future__ import annotations

from random import Random
from typing import Any

import yaml

from tests.conformance.plan_truth.states import GPU, Object, State, scheduler
from tests.support.hived.scene import SPEC, racks

_RACKS, _MACHINES, _DEVICES = 2, 3, 8
_TENANTS: dict[str, list[dict[str, Any]]] = {
    "vision": [{"cellType": "rack", "cellNumber": 1}],
    "speech": [{"cellType": "rack.host", "cellNumber": 2}],
}


def hived_state(seed: int) -> State:
    """What waits at first borrows and fills the cluster; what comes then claims what it was promised."""
    some = Random(seed)
    tenants = {
        "vision": [{"cellType": "rack", "cellNumber": 1}],
        "speech": [{"cellType": "rack.host", "cellNumber": 2}],
    }
    settings = racks(_RACKS, _MACHINES, tenants)
    mode = some.choice(("kube-scheduler", "direct", "auto"))
    whole = {"algorithm": {"name": "hived", "settings": settings}, "preemption": {"mode": mode}}
    state = State(seed, yaml.safe_dump(whole), scheduler(ignored=some.random() < 0.4))
    state.nodes = [_node(cell["cellAddress"]) for rack in _racks(settings) for cell in rack["cellChildren"]]
    maker = _Pods(some)
    state.waiting = maker.groups(some.randint(0, 5))
    state.create = maker.groups(some.randint(1, 4))
    if some.random() < 0.25:
        name = some.choice(state.nodes)["metadata"]["name"]
        state.steps.append((some.choice(("cordon", "drain")), name))
    return state


def _racks(settings: dict[str, Any]) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = settings["physicalCluster"]["physicalCells"]
    return cells


def _node(name: str) -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "50", GPU: str(_DEVICES)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class _Pods:
    def __init__(self, some: Random) -> None:
        self.random = some
        self.priorities = list(range(1, 200))
        some.shuffle(self.priorities)
        self.count = 0

    def groups(self, number: int) -> list[Object]:
        return [pod for _ in range(number) for pod in self.group()]

    def group(self) -> list[Object]:
        """Opportunistic pods have the lowest priority, and each group another one of its own."""
        some = self.random
        priority = some.choice((-1, -1, self.priorities.pop()))
        size, devices = some.choice(((1, 1), (1, 8), (2, 4), (2, 8), (3, 8), (1, 4)))
        group = f"group-{self.count}"
        wish = {
            "virtualCluster": some.choice(("vision", "speech")),
            "priority": priority,
            "leafCellNumber": devices,
            "affinityGroup": {"name": group, "members": [{"podNumber": size, "leafCellNumber": devices}]},
        }
        return [self._pod(yaml.safe_dump(wish), devices, priority) for _ in range(size)]

    def _pod(self, wish: str, devices: int, priority: int) -> Object:
        name = f"p{self.count:03}"
        self.count += 1
        requests = {"cpu": "1", "memory": "1Gi", GPU: str(devices)}
        container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": {GPU: str(devices)}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": {SPEC: wish}},
            "spec": {
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                **({"priorityClassName": f"p{priority}"} if priority > 0 else {}),
            },
        }
