"""Pods as large as they are in a cluster in use: 7 KB of JSON each, made from one template, so that 50,000 cost little.

What makes them large is what makes real ones large: managedFields, environment, volumes, conditions, statuses. The
pages of a list are made before anybody asks, so that the API server of the bench only has to send them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.bench import world

#: Pods in a page, which is what the informers ask for.
PAGE = 500
#: What the pods on one node take, in cpus and GPUs; a larger number of pods takes a tenth of a cpu each.
_FIRST = ((4, 1), (6, 2), (7, 1), (6, 2))


def pod(name: str, version: int, *, cpu: str, gpus: int, on: str) -> dict[str, Any]:
    """A running pod of a deployment, with all that the API server and the kubelet write on it."""
    small = world.pod(name, version, on=on, gpus=gpus)
    container = {**small["spec"]["containers"][0], **_container(cpu, gpus)}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "service-67d4cbf9b7",
        "uid": world.uid_of("service"),
    }
    metadata = {
        **small["metadata"],
        "generateName": "service-67d4cbf9b7-",
        "labels": {f"example.com/label-{number}": f"value-of-{number}" for number in range(8)},
        "annotations": {f"example.com/annotation-{number}": "a note " * 8 for number in range(4)},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "managedFields": [_managed("kube-controller-manager", 24), _managed("kubelet", 16)],
    }
    spec = {**small["spec"], "containers": [container], "initContainers": [], "volumes": _volumes()}
    return {"metadata": metadata, "spec": spec, "status": _status(name)}


def _container(cpu: str, gpus: int) -> dict[str, Any]:
    limits = {world.GPU: str(gpus)} if gpus else {}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    return {
        "resources": {"limits": limits, "requests": {"cpu": cpu, "memory": "64Mi", **limits}},
        "env": [{"name": f"SETTING_{number}", "value": "some value " * 3} for number in range(12)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/var/lib/{number}"} for number in range(4)],
    }


def _volumes() -> list[dict[str, Any]]:
    return [
        {"name": f"volume-{number}", "configMap": {"name": f"settings-{number}", "defaultMode": 420}}
        for number in range(4)
    ]


def _managed(manager: str, fields: int) -> dict[str, Any]:
    tree = {f'k:{{"name":"SETTING_{number}"}}': {".": {}, "f:name": {}, "f:value": {}} for number in range(fields)}
    head = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-20T23:41:14Z"}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": {"f:env": tree}}}}


def _status(name: str) -> dict[str, Any]:
    at = "2026-11-20T23:41:14Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    started = {"running": {"startedAt": at}}
    image = {"image": "registry.k8s.io/pause:3.10", "imageID": "registry.k8s.io/pause@sha256:" + "7c" * 32}
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": at} for kind in kinds
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "startTime": at,
        "containerStatuses": [
            {"name": "c", "state": started, "ready": True, "restartCount": 0, "started": True, **image}
            | {"containerID": f"containerd://{world.uid_of(name).replace('-', '') * 2}"}
        ],
        "qosClass": "Burstable",
    }


class Bulk:
    """`count` running pods, spread evenly over `nodes` nodes, as rendered JSON."""

    def __init__(self, nodes: int, count: int, version: int) -> None:
        self._nodes = nodes
        self._versions = [version] * count
        self._labels = [0] * count
        self._templates: dict[tuple[str, int], bytes] = {}
        self._next = 0
        self.pages: list[bytes] = []
        self.render()

    def __len__(self) -> int:
        return len(self._versions)

    def render(self) -> None:
        """Makes the pages of the next list: the items of each, separated by commas."""
        count = len(self)
        self.pages = [
            b",".join(self._pod(number) for number in range(start, min(start + PAGE, count)))
            for start in range(0, count, PAGE)
        ]

    def change(self, number: int, version: int, *, label: bool = False) -> list[bytes]:
        """The next so many pods, in turn, each a version further, and perhaps with another label, which an algorithm
        may care for. Returns them as they are then."""
        changed = []
        for step in range(number):
            self._versions[self._next] = version + step
            self._labels[self._next] += label
            changed.append(self._pod(self._next))
            self._next = (self._next + 1) % len(self)
        return changed

    def _pod(self, number: int) -> bytes:
        turn, on = divmod(number, self._nodes)
        cpu, gpus = _FIRST[turn] if turn < len(_FIRST) else ("100m", 0)
        name = f"service-{number:06d}"
        return self._template(str(cpu), gpus) % {
            b"name": name.encode(),
            b"uid": world.uid_of(name).encode(),
            b"version": b"%d" % self._versions[number],
            b"label": b"%d" % self._labels[number],
            b"node": world.node_name(on).encode(),
        }

    def _template(self, cpu: str, gpus: int) -> bytes:
        if (cpu, gpus) not in self._templates:
            like = pod("%(name)s", 0, cpu=cpu, gpus=gpus, on="%(node)s")
            like["metadata"] |= {"uid": "%(uid)s", "resourceVersion": "%(version)s"}
            like["metadata"]["labels"]["example.com/revision"] = "%(label)s"
            self._templates[cpu, gpus] = msgspec.json.encode(like)
        return self._templates[cpu, gpus]
