"""What the algorithm knows: nodes with their pods, and which pods are typical.

Typical pods are those of the settings, or else such as there are now, waiting and running. Then each class counts with
the largest power of two that is not above the number of its pods: so the measure changes seldom, and yet depends on the
present pods only, in whichever order they were reported.
"""

from __future__ import annotations

from collections import Counter
from typing import Self

from algorithm.fgd.devices import Devices, Taken
from algorithm.fgd.fragmentation import Fragmentation, PodClass, class_of, typical_pods
from algorithm.fgd.needs import Need, indexes_of, need_or_plain
from algorithm.fgd.policies import SCORES
from algorithm.fgd.ranking import Ranking
from algorithm.fgd.settings import FgdSettings
from algorithm.model import Node, Pod


class State:
    """Changed by what the extender reports, by nothing else."""

    def __init__(self, settings: FgdSettings) -> None:
        self.settings = settings
        self.nodes: dict[str, Devices] = {}
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        #: Room that is kept for preemptors: the node by UID, and the victims that are not gone yet.
        self.preempting: dict[str, tuple[Pod, str, frozenset[str]]] = {}
        self.lingering: frozenset[str] = frozenset()
        self.protected: frozenset[str] = frozenset()
        #: Grows with each change.
        self.generation = 0
        self._counts: Counter[PodClass] = Counter()
        self._fragmentation: Fragmentation | None = None
        self.ranking = Ranking(self.nodes, SCORES[settings.policy])

    def copy(self) -> Self:
        twin = type(self)(self.settings)
        twin.nodes.update((name, each.copy()) for name, each in self.nodes.items())
        twin.waiting, twin.allocated = dict(self.waiting), dict(self.allocated)
        twin.preempting = dict(self.preempting)
        twin.lingering, twin.protected = self.lingering, self.protected
        twin._counts = Counter(self._counts)
        return twin

    # -- the measure ----------------------------------------------------------------------------------------------

    def fragmentation(self) -> Fragmentation:
        """The measure for the pods that are typical now."""
        if self._fragmentation is None:
            self._fragmentation = Fragmentation(typical_pods(self._expected()))
        return self._fragmentation

    def _expected(self) -> dict[PodClass, int]:
        if not self.settings.typical:
            return {pods: 1 << (number.bit_length() - 1) for pods, number in self._counts.items() if number}
        found: Counter[PodClass] = Counter()
        for each in self.settings.typical:
            found[PodClass(each.cpu_milli, each.gpu_milli if each.gpus else 0, each.gpus, each.models)] += each.count
        return found

    def _counts_need(self, need: Need, change: int) -> None:
        if self.settings.typical:
            return
        pods = class_of(need)
        before = self._counts[pods]
        self._counts[pods] = after = before + change
        if not after:
            del self._counts[pods]
        if before.bit_length() != after.bit_length():
            self._fragmentation = None
            self.ranking.forget()

    # -- nodes ----------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        devices = self.nodes.get(node.name) or Devices(node.name)
        is_new = devices.node is None
        devices.set_node(node, self.settings.resource, self.settings.model_label)
        self.nodes[node.name] = devices
        self._changed(node.name)
        if is_new:
            self.ranking.forget()

    def drop_node(self, name: str) -> None:
        devices = self._devices(name)
        devices.set_node(None, self.settings.resource, self.settings.model_label)
        if devices.is_forgotten:
            del self.nodes[name]
        self._changed(name)
        self.ranking.forget()

    def _devices(self, name: str) -> Devices:
        return self.nodes.setdefault(name, Devices(name))

    def _changed(self, name: str) -> None:
        self.generation += 1
        self.ranking.node_changed(name)

    # -- pods -----------------------------------------------------------------------------------------------------

    def wait(self, pod: Pod) -> None:
        need = need_or_plain(pod, self.settings.resource)
        self.waiting[pod.uid] = pod
        self._counts_need(need, 1)
        self.generation += 1

    def stop_waiting(self, uid: str) -> None:
        pod = self.waiting.pop(uid, None)
        if pod is not None:
            self._counts_need(need_or_plain(pod, self.settings.resource), -1)
            self.generation += 1

    def allocate(self, pod: Pod) -> None:
        self._allocate(pod, self.taken(pod))

    def replace(self, old: Pod, new: Pod) -> None:
        """Replace the record of an allocated pod."""
        taken = self.taken(new)
        self.free(old.uid)
        self._allocate(new, taken)

    def _allocate(self, pod: Pod, taken: Taken) -> None:
        self.stop_waiting(pod.uid)
        self.preempting.pop(pod.uid, None)
        self.allocated[pod.uid] = pod
        self._counts_need(taken.need, 1)
        self._devices(pod.node_name).add(pod.uid, taken)
        self._changed(pod.node_name)

    def taken(self, pod: Pod) -> Taken:
        """What an allocated pod takes. Read before anything changes: what raises changes nothing."""
        need = need_or_plain(pod, self.settings.resource)
        return Taken(need, indexes_of(pod, need))

    def free(self, uid: str) -> None:
        pod = self.allocated.pop(uid, None)
        if pod is None:
            return
        self._counts_need(need_or_plain(pod, self.settings.resource), -1)
        devices = self._devices(pod.node_name)
        devices.remove(uid)
        if devices.is_forgotten:
            del self.nodes[pod.node_name]
        self._changed(pod.node_name)
