"""Mistakes of an algorithm that reads a record while it changes itself, or that catches what the record raises."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm
from extender.operate.scaffold.slots import Slots
from tests.conformance.mistakes.derived import PACKS
from tests.conformance.mistakes.everything import SLOT, Everything
from tests.conformance.mistakes.registry import mistake, of_everything


@mistake("exception-changes-nothing", "skips a bound pod that it cannot read, and does not say so", given={"slots": 1})
class SkipsWhatItCannotRead(Slots):
    def add_allocated_pod(self, pod: Pod) -> None:
        try:
            dict(pod.requests)
        except Exception:
            return
        super().add_allocated_pod(pod)


@of_everything("exception-changes-nothing", "takes a node that it cannot read for one without labels")
class TakesUnreadableLabelsForNone(Everything):
    def add_node(self, node: Node) -> None:
        try:
            dict(node.labels)
        except Exception:
            node = msgspec.structs.replace(node, labels=())
        super().add_node(node)

    def update_node(self, old: Node, new: Node) -> None:
        self.add_node(new)


@of_everything("exception-changes-nothing", "ends an update in the middle when it cannot read the pod")
class EndsAnUpdateHalfWay(Everything):
    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self.pods.pop(old.uid)
        with suppress(Exception):
            dict(new.requests)
            self.pods[new.uid] = new
        self.arrange()


@mistake("exception-changes-nothing", "packing: catches whatever a bound pod raises", **PACKS)
class PackingCatchesEverything(PackingAlgorithm):
    def add_allocated_pod(self, pod: Pod) -> None:
        with suppress(Exception):
            super().add_allocated_pod(pod)


@of_everything("exception-changes-nothing", "takes a pod that it has placed before it reads all of it")
class TakesAPlacedPodBeforeItReads(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        if pod.uid in self.waiting:
            self.pods[pod.uid] = pod
        dict(pod.requests)
        super().add_allocated_pod(pod)


@of_everything("exception-changes-nothing", "takes a pod that it finds after a restart before it reads all of it")
class TakesAFoundPodBeforeItReads(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        slot = pod.annotation(SLOT)
        if pod.uid not in self.waiting and slot is not None and slot.isdigit():
            self.pods[pod.uid] = pod
        dict(pod.requests)
        super().add_allocated_pod(pod)


@of_everything("exception-changes-nothing", "takes a pod away before it reads what it was resized to")
class TakesAResizedPodAwayBeforeItReads(Everything):
    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self.delete_allocated_pod(old)
        dict(new.requests)
        self.add_allocated_pod(new)
