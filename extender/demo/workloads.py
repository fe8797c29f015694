"""The demo's nodes and workloads: what is created, in which order, and what must become of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

GPU = "example.com/gpu"
NODES = 32
GPUS_PER_NODE = 8
#: They are in the wheel too.
MANIFESTS = Path(__file__).resolve().parent / "manifests"


_BINDING: Object = {"method": "POST", "path": "/binding$"}
#: Everything that may go wrong with a binding.
BINDING_FAULTS: tuple[Object, ...] = (
    {"action": "drop-after", **_BINDING, "times": 3},
    {"action": "status", "status": 429, "headers": {"Retry-After": "1"}, **_BINDING, "skip": 3, "times": 3},
    {"action": "status", "status": 500, **_BINDING, "skip": 6, "times": 2},
    {"action": "watch-drop", "method": "WATCH", "path": "/api/v1/pods", "times": 1},
)


class WorkloadError(ValueError):
    """A workload file that cannot be used; the message names it."""


class Expect(StrEnum):
    """What must become of the pods of an act."""

    ALL_RUN = "all run"
    NONE_RUNS = "none runs, all wait"
    FILLS_UP = "as many run as there is room for, the others wait"
    #: All that can be said of an algorithm that the demo does not know.
    SETTLES = "each runs, or waits with a reason"


@dataclass(frozen=True)
class Act:
    """One step of the demo: these pods are created, then this must become true of them."""

    title: str
    expect: Expect
    objects: tuple[Object, ...] = ()
    #: Pods of lower priority may have to go for it.
    preempts: bool = False
    #: Faults of the API server that begin with this act.
    faults: tuple[Mapping[str, Any], ...] = ()
    #: Waggle is killed and started again in the middle of it.
    crash: bool = False
    pods: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        """The beginning of its title."""
        return self.title.split(":")[0].split(",")[0].rstrip(".")


def nodes(count: int = NODES) -> list[Object]:
    """Machines with 8 GPUs each, eight machines a zone."""
    amounts = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", GPU: str(GPUS_PER_NODE)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"gpu-{i:02}", "labels": {"topology.kubernetes.io/zone": f"zone-{i // 8}"}},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        for i in range(count)
    ]


def acts(directory: Path) -> list[Act]:
    """The acts, from the files of a folder in the order of their names. Raises WorkloadError."""
    files = sorted(directory.glob("*.yaml")) if directory.is_dir() else []
    if not files:
        raise WorkloadError(f"{directory}: no workload files (*.yaml) are there")
    return [*(_act(path) for path in files), _faults()]


def _act(path: Path) -> Act:
    try:
        text = path.read_text(encoding="utf-8")
        objects = tuple(item for item in yaml.safe_load_all(text) if item)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WorkloadError(f"{path}: {error}") from error
    title = text.splitlines()[0].lstrip("# ").rstrip() if text.startswith("#") else path.stem
    known = _EXPECTED.get(path.name, {"expect": Expect.ALL_RUN})
    return Act(title=title, objects=objects, pods=pod_names(objects), **known)


#: What the shipped workloads must come to. Another file's pods must all run.
_EXPECTED: dict[str, dict[str, Any]] = {
    "30-gang-too-big.yaml": {"expect": Expect.NONE_RUNS},
    "40-low-priority-filler.yaml": {"expect": Expect.FILLS_UP},
    "50-preempting-gang.yaml": {"expect": Expect.ALL_RUN, "preempts": True},
}


def pod_names(objects: tuple[Object, ...]) -> frozenset[str]:
    return frozenset(item["metadata"]["name"] for item in objects if item.get("kind") == "Pod")


def _faults() -> Act:
    """Everything that may go wrong with a binding, and a killed server in between."""
    objects = tuple(_steadfast(i) for i in range(16))
    return Act(
        title="Faults: answers lost after the write, 429, 500, a dropped watch; and Waggle is killed and restarted",
        expect=Expect.ALL_RUN,
        objects=objects,
        faults=BINDING_FAULTS,
        crash=True,
        pods=pod_names(objects),
    )


def _steadfast(number: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"steadfast-{number:02}", "namespace": "default"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ]
        },
    }
