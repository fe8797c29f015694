"""Mistakes about nodes that go away, or are cordoned, and come back while their pods still run."""

from __future__ import annotations

from typing import Any

from algorithm.fgd.algorithm import FgdAlgorithm
from algorithm.interface import SchedulerAlgorithm, Victim
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm
from extender.operate.scaffold.slots import Settings, Slots
from tests.conformance.mistakes.derived import PACKS, SHARES
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import TIGHT, mistake, of_everything


@of_everything("recovery-keeps-decisions", "forgets the pods of a node together with the node")
class ForgetsThePodsOfANode(Everything):
    def delete_node(self, node: Node) -> None:
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.node_name != node.name}
        super().delete_node(node)


class _ForgetsThePodsOfANode(SchedulerAlgorithm):
    _state: Any

    def delete_node(self, node: Node) -> None:
        super().delete_node(node)
        for uid in [uid for uid, pod in self._state.allocated.items() if pod.node_name == node.name]:
            self._state.free(uid)

    def delete_allocated_pod(self, pod: Pod) -> None:
        if pod.uid in self._state.allocated:
            super().delete_allocated_pod(pod)

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        if new.uid in self._state.allocated:
            super().update_allocated_pod(old, new)


@mistake("recovery-keeps-decisions", "packing: frees the room of all pods of a deleted node", **PACKS)
class PackingForgetsThePodsOfANode(_ForgetsThePodsOfANode, PackingAlgorithm):
    pass


@mistake("recovery-keeps-decisions", "fgd: frees the devices of all pods of a deleted node", **SHARES)
class FgdForgetsThePodsOfANode(_ForgetsThePodsOfANode, FgdAlgorithm):
    pass


@of_everything("recovery-keeps-decisions", "forgets the victims on a deleted node: they have gone with it", world=TIGHT)
class ForgetsVictimsOfANode(Everything):
    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        super().add_preempting_pod(pod, victims, node)
        self.victims = {**getattr(self, "victims", {}), pod.uid: victims}

    def delete_preempting_pod(self, pod: Pod) -> None:
        super().delete_preempting_pod(pod)
        self.victims = {uid: each for uid, each in getattr(self, "victims", {}).items() if uid != pod.uid}

    def delete_node(self, node: Node) -> None:
        named = {victim.uid for each in getattr(self, "victims", {}).values() for victim in each}
        gone = {uid for uid, pod in self.pods.items() if pod.node_name == node.name} & named
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid not in gone}
        super().delete_node(node)


@of_everything("recovery-keeps-decisions", "forgets members of gangs whose node is deleted: the gang goes on without")
class ForgetsGangMembersOfANode(Everything):
    def delete_node(self, node: Node) -> None:
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.node_name != node.name or not pod.group}
        super().delete_node(node)


@of_everything("everything-given-back", "puts pods of a deleted node aside, and keeps them there when they are deleted")
class KeepsPodsOfADeletedNode(Everything):
    def delete_node(self, node: Node) -> None:
        aside = {uid: pod for uid, pod in self.pods.items() if pod.node_name == node.name}
        self.aside = {**getattr(self, "aside", {}), **aside}
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid not in aside}
        super().delete_node(node)

    def add_node(self, node: Node) -> None:
        back = {uid: pod for uid, pod in getattr(self, "aside", {}).items() if pod.node_name == node.name}
        self.aside = {uid: pod for uid, pod in getattr(self, "aside", {}).items() if uid not in back}
        self.pods = {**self.pods, **back}
        super().add_node(node)


@of_everything("recovery-keeps-decisions", "forgets the pods of a node that is cordoned: they will be drained")
class ForgetsOnCordon(Everything):
    def update_node(self, old: Node, new: Node) -> None:
        if new.unschedulable:
            self.pods = {uid: pod for uid, pod in self.pods.items() if pod.node_name != new.name}
        super().update_node(old, new)


@mistake("recovery-keeps-decisions", "restores another amount when a node comes back", given={"slots": 2})
class RestoresAnotherAmount(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.deleted = set[str]()

    def delete_node(self, node: Node) -> None:
        super().delete_node(node)
        self.deleted.add(node.name)

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        if node.name in self.deleted and self.used[node.name] > 1:
            self.used[node.name] -= 1
        self.deleted.discard(node.name)
