"""How much of the cluster is used: GPUs and cores that pods hold, and fragmentation, as levels over time.

Fragmentation is that of `algorithm.fgd`, for the pods of the workload, under any algorithm. Pods whose binding does not
name their GPUs have those that all policies but two would give them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from algorithm.fgd.devices import Devices, Taken, found_free
from algorithm.fgd.fragmentation import Fragmentation, PodClass, class_of, typical_pods
from algorithm.fgd.needs import Need, indexes_of
from algorithm.model import Node, Pod
from extender.lab.series import SeriesMaker
from extender.lab.translate import GPUS, MODEL_LABEL, need_of
from extender.lab.workload import CPU, Job


class _Placed(NamedTuple):
    node: str
    need: Need


class ClusterUsage:
    """The present levels. The caller reports every change of a pod or a node, and every step of time."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        classes: Counter[PodClass] = Counter()
        for job in jobs:
            classes[class_of(need_of(job))] += job.pods
        self._fragmentation = Fragmentation(typical_pods(classes))
        self.series = SeriesMaker()
        self._nodes: dict[str, Devices] = {}
        self._fragmented: dict[str, float] = {}
        self._placed: dict[str, _Placed] = {}
        self._present = self._gpus = self._cpus = 0
        self._gpus_taken = self._cpus_taken = 0
        self.gpus_running = self.cpus_running = 0
        self.waiting_jobs = self.waiting_pods = self.running_jobs = 0
        self._all_fragmented = 0.0

    def forget(self) -> None:
        """Drop caches, before a checkpoint."""
        self._fragmentation.forget()

    def pass_to(self, to: float) -> None:
        """Add the present levels to the series, until `to`."""
        self.series.pass_to(
            to,
            (
                self._gpus,
                self._gpus_taken,
                self.gpus_running,
                max(0.0, self._all_fragmented),
                self._cpus,
                self._cpus_taken,
                self.cpus_running,
                self.waiting_jobs,
                self.waiting_pods,
                self.running_jobs,
                self._present,
            ),
        )

    # -- nodes ----------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        devices = self._nodes.setdefault(node.name, Devices(node.name))
        devices.set_node(node, GPUS, MODEL_LABEL)
        self._present += 1
        self._gpus += devices.gpu_milli
        self._cpus += dict(node.allocatable).get(CPU, 0)
        self._weigh(devices)

    def remove_node(self, name: str) -> list[str]:
        """Remove a node. Returns the UIDs of its pods, in the order in which they were placed."""
        devices = self._nodes[name]
        self._present -= 1
        self._gpus -= devices.gpu_milli
        self._cpus -= dict(devices.node.allocatable).get(CPU, 0) if devices.node is not None else 0
        self._all_fragmented -= self._fragmented.pop(name, 0.0)
        devices.set_node(None, GPUS, MODEL_LABEL)
        return list(devices.taken)

    def has_devices(self, node: str, need: Need) -> bool:
        """Return whether the node has enough free GPUs of a suitable model."""
        devices = self._nodes[node]
        if not need.gpus:
            return True
        return found_free(need, devices.free) is not None and (not need.models or devices.model in need.models)

    # -- pods -----------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, need: Need) -> None:
        """Add a pod to its node."""
        devices = self._nodes[pod.node_name]
        named = indexes_of(pod, need) or found_free(need, devices.free) or ()
        devices.add(pod.uid, Taken(need, named))
        self._placed[pod.uid] = _Placed(pod.node_name, need)
        self._gpus_taken += need.all_milli
        self._cpus_taken += need.cpu
        self._weigh(devices)

    def leave(self, uid: str) -> None:
        """Remove a pod from its node."""
        node, need = self._placed.pop(uid)
        devices = self._nodes[node]
        devices.remove(uid)
        self._gpus_taken -= need.all_milli
        self._cpus_taken -= need.cpu
        self._weigh(devices)

    def _weigh(self, devices: Devices) -> None:
        if devices.node is None or not devices.free:
            return
        now = self._fragmentation.of(devices.model, devices.cpu, devices.free)
        self._all_fragmented += now - self._fragmented.get(devices.name, 0.0)
        self._fragmented[devices.name] = now
