"""Mistakes when a change is reported: what is forgotten, counted twice, or half done."""

from __future__ import annotations

from collections import Counter

from algorithm.interface import Phase, PodRefused, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from extender.operate.scaffold.slots import Settings, Slots
from tests.conformance.mistakes.everything import SLOT, Everything
from tests.conformance.mistakes.registry import OF_GANGS, TIGHT, mistake, of_everything


@of_everything("only-offered-nodes", "forgets that nodes are deleted, and takes one that is still offered for a moment")
class ForgetsDeletedNodes(Everything):
    def delete_node(self, node: Node) -> None:
        """Its pods are still there."""


@mistake("unknown-nodes-accepted", "counts per node in a dict that only known nodes are in")
class KnowsItsNodesOnly(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.used = {}  # type: ignore[assignment]

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.used.setdefault(node.name, 0)


@mistake("recovery-keeps-decisions", "drops the count of a node together with the node", given={"slots": 1})
class DropsTheCountOfANode(Slots):
    def delete_node(self, node: Node) -> None:
        super().delete_node(node)
        del self.used[node.name]


@mistake("everything-given-back", "counts a pod again when it changes")
class CountsAgainOnUpdate(Slots):
    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self.add_allocated_pod(new)


@mistake("everything-given-back", "frees the room of its own pods only", given={"slots": 1})
class FreesItsOwnOnly(Slots):
    def delete_allocated_pod(self, pod: Pod) -> None:
        if pod.scheduler_name == "default-scheduler":
            super().delete_allocated_pod(pod)


@mistake("recovery-keeps-decisions", "does not count pods of other schedulers when they come, nor when they go")
class CountsWaitingPodsOnly(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.mine = set[str]()

    def add_unallocated_pod(self, pod: Pod) -> None:
        self.mine.add(pod.uid)

    def add_allocated_pod(self, pod: Pod) -> None:
        if pod.uid in self.mine:
            super().add_allocated_pod(pod)

    def delete_allocated_pod(self, pod: Pod) -> None:
        if pod.uid in self.mine:
            super().delete_allocated_pod(pod)


@of_everything("everything-given-back", "leaks: pods that have gone stay in a list of all that were there")
class KeepsPodsThatAreGone(Everything):
    def delete_allocated_pod(self, pod: Pod) -> None:
        self.arrange()


@of_everything("exception-changes-nothing", "changes itself before it has read all of the record")
class RaisesHalfWay(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        self.waiting.pop(pod.uid, None)
        self.claims.pop(pod.uid, None)
        self.pods[pod.uid] = pod
        self.zones = {*getattr(self, "zones", ()), dict(pod.labels).get("app", "")}
        self.arrange()


@mistake("exception-changes-nothing", "counts the pod before it reads what the pod asks for", given={"slots": 2})
class CountsBeforeItReads(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.cores = Counter[str]()

    def add_allocated_pod(self, pod: Pod) -> None:
        super().add_allocated_pod(pod)
        self.cores[pod.node_name] += dict(pod.requests).get("cpu", 0)


@mistake("exception-changes-nothing", "counts the pod between two readings of what it asks for", given={"slots": 2})
class CountsBetweenTwoReadings(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.cores, self.gpus = Counter[str](), Counter[str]()

    def add_allocated_pod(self, pod: Pod) -> None:
        self.cores[pod.node_name] += dict(pod.requests).get("cpu", 0)
        super().add_allocated_pod(pod)
        self.gpus[pod.node_name] += dict(pod.requests).get("example.com/gpu", 0)


@mistake("exception-changes-nothing", "counts a pod that waits before it reads its labels, and shows nothing of it")
class NotesWhoWaitsBeforeItReads(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.came, self.apps = Counter[str](), dict[str, str]()

    def add_unallocated_pod(self, pod: Pod) -> None:
        self.came[pod.uid] += 1
        self.apps[pod.uid] = dict(pod.labels).get("app", "")

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self.came[pod.uid] -= 1

    def add_allocated_pod(self, pod: Pod) -> None:
        super().add_allocated_pod(pod)
        self.came.pop(pod.uid, None)

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if self.came[pod.uid] > 1:
            return Wait(reason(Code.OTHER, detail="it is there twice"))
        return super().schedule(pod, suggested_nodes, phase)


@of_everything("questions-raise-only-refusals", "reads an annotation as a number, which its author may have misspelt")
class ReadsANumber(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        asked = pod.annotation("example.com/zone")
        return super().offered(pod, suggested_nodes)[: int(asked) if asked else None]


@of_everything("schedule-leaves-no-trace", "refuses a pod after it has noted that the pod was asked about")
class RefusesHalfWay(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if pod.priority == 1:
            self.waiting.pop(pod.uid, None)
            raise PodRefused(reason(Code.POD_INVALID, detail="no pod of priority 1"))
        return super().schedule(pod, suggested_nodes, phase)


@of_everything("changes-do-not-raise", "assumes that a pod waited before it was allocated")
class AssumesThatItWaited(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        del self.waiting[pod.uid]
        super().add_allocated_pod(pod)


@of_everything("everything-given-back", "keeps the room of a preemption that is over", world=TIGHT)
class KeepsRoomAfterPreemption(Everything):
    def delete_preempting_pod(self, pod: Pod) -> None:
        """The room will be needed again."""


@of_everything("everything-given-back", "keeps the room of a preemption although the pod has its place", world=TIGHT)
class KeepsRoomAfterAllocation(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.waiting.pop(pod.uid, None)
        self.arrange()


@of_everything("recovery-in-any-order", "numbers the slots in the order of pods", given={"slots": 2})
class NumbersByArrival(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        numbers = dict(getattr(self, "numbers", {}))
        numbers[pod.uid] = max((number for uid, number in numbers.items()), default=-1) + 1
        self.numbers = numbers
        super().add_allocated_pod(pod)

    def decision(self, name: str) -> tuple[tuple[str, str], ...]:
        numbers = getattr(self, "numbers", {})
        here = [numbers[uid] for uid, pod in self.pods.items() if pod.node_name == name and uid in numbers]
        return ((SLOT, str(max(here, default=-1) + 1)),)


@of_everything("recovery-keeps-decisions", "believes decisions that the author of a waiting pod has written")
class RemembersWhoWaited(Everything):
    def add_unallocated_pod(self, pod: Pod) -> None:
        self.came = Counter({**getattr(self, "came", {}), pod.uid: getattr(self, "count", 0)})
        self.count = getattr(self, "count", 0) + 1
        super().add_unallocated_pod(pod)

    def free(self, name: str, pod: Pod) -> int:
        older = [uid for uid in self.waiting if self.came[uid] < self.came[pod.uid]]
        return super().free(name, pod) - (1 if older else 0)


@of_everything("reserved-pods-wait", "keeps pods in the set that have their place")
class ReservesForRunningPods(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        super().add_allocated_pod(pod)
        if pod.group:
            self.reserved = self.reserved | {pod.uid}


@of_everything("reserved-pods-wait", "returns the UIDs as a list")
class ReservesInAList(Everything):
    def reserved_pods(self) -> frozenset[str]:
        return sorted(self.reserved)  # type: ignore[return-value]


@of_everything(
    "lapsed-pods-not-reserved", "keeps room for pods that nobody asks about", given={"slots": 4}, world=OF_GANGS
)
class IgnoresLapsed(Everything):
    def set_lapsed_pods(self, uids: frozenset[str]) -> None:
        """They will come."""


@of_everything("everything-given-back", "keeps the room of pods that preempted and were deleted", world=TIGHT)
class ClaimsWithoutPods(Everything):
    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        super().add_preempting_pod(pod, victims, node)
        self.planned = [*getattr(self, "planned", []), node]

    def free(self, name: str, pod: Pod) -> int:
        return super().free(name, pod) - getattr(self, "planned", []).count(name)
