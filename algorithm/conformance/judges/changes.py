"""Judges of changes: that they are accepted, undone, and recovered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from algorithm.conformance.calls import AddNode, Ask, Call, Faulty, FoundBound, Lapse, Submit, Update, UpdateNode
from algorithm.conformance.guard import Guarded
from algorithm.conformance.judge import Judge, PeriodicJudge, promise
from algorithm.conformance.judges.filling import filled, places
from algorithm.conformance.observation import Observation, answers, difference, kinds, numbers, observe
from algorithm.conformance.results import shown
from algorithm.model import Node, Pod

if TYPE_CHECKING:
    from algorithm.conformance.life import Life


class _Raises(Judge):
    """Tells apart whether a change that raised was about a node that the algorithm does not know."""

    unknown_node: bool

    def before(self, call: Call) -> None:
        uid = getattr(call, "uid", "") or getattr(getattr(call, "pod", None), "uid", "")
        pod = self.life.allocated.get(uid) or (call.pod if isinstance(call, FoundBound) else None)
        self._is_about_unknown = pod is not None and pod.node_name not in self.life.nodes
        self._where = pod.node_name if pod is not None else ""

    def raised(self, call: Call, error: Exception) -> None:
        if isinstance(call, Faulty) or self._is_about_unknown is not self.unknown_node:
            return
        about = f" for a pod on node {self._where}, which it does not know" if self.unknown_node else ""
        promise(False, f"{type(call).__name__} raised {shown(error)}{about}")


class ChangesDoNotRaise(_Raises):
    name = "changes-do-not-raise"
    unknown_node = False


class UnknownNodes(_Raises):
    name = "unknown-nodes-accepted"
    unknown_node = True


class EverythingGivenBack(Judge):
    """Compares an algorithm whose pods are all gone with a new one that knows the same nodes."""

    name = "everything-given-back"

    def after(self, call: Call, answer: Any) -> None:
        if self.life.waiting or self.life.allocated or not self.life.seen or isinstance(call, Ask | Submit):
            return
        used, fresh = self.life.algorithm.twin(), self._fresh()
        pods = [probe_of(self.life, pod) for pod in list(self.life.seen.values())[:3]]
        nodes = all_well(self.life, used, fresh) if self.life.history else tuple(sorted(self.life.nodes))
        seen: list[Observation] = []
        for each in (used, fresh):
            for pod in pods:
                each.add_unallocated_pod(pod)
            found = answers(each, {pod.uid: pod for pod in pods}, nodes, halves=not self.life.history)
            seen.append(kinds(found) if self.life.history else found | {"metrics()": numbers(each)["metrics()"]})
        differs = difference(seen[1], seen[0])
        for node in () if differs or self.life.history else sorted(self.life.nodes):
            differs = differs or filled(self.life, fresh, used, pods[0], node)
        promise(not differs, f"all pods are gone, and it is not as without them. {differs}")
        self._is_forgotten()

    def _fresh(self) -> Guarded:
        fresh = Guarded(self.life.create, self.life.guard)
        for name in sorted(self.life.nodes):
            fresh.add_node(self.life.nodes[name])
        if self.life.protected:
            fresh.set_protected_pods(self.life.protected)
        if self.life.lingering:
            fresh.set_lingering_pods(self.life.lingering)
        return fresh

    def _is_forgotten(self) -> None:
        """Whether pages name no pods, and no deleted nodes but those that a new algorithm names, which knows them from
        its settings."""
        shown = str(numbers(self.life.algorithm)["inspect()"])
        named = sorted(uid for uid, pod in self.life.seen.items() if uid in shown or str(pod.key) in shown)
        promise(not named, f"all pods are gone, and inspect() still names {', '.join(named)}")
        nodes = sorted(name for name in self.life.gone_nodes if _names(shown, name))
        new = str(numbers(self._fresh())["inspect()"]) if nodes else ""
        nodes = [name for name in nodes if not _names(new, name)]
        promise(not nodes, f"all pods are gone, and inspect() still names {', '.join(nodes)}, which was deleted")


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text) is not None


class RecoveryInAnyOrder(PeriodicJudge):
    name = "recovery-in-any-order"
    every = 7
    not_after = (Ask,)

    def look(self) -> None:
        nodes = tuple(sorted(self.life.nodes))
        first: Observation | None = None
        for seed in range(4):
            fresh = self.life.restarted(seed)
            seen = answers(fresh, self.life.waiting, nodes) | {"metrics()": numbers(fresh)["metrics()"]}
            differs = difference(first, seen) if first is not None else ""
            promise(not differs, f"after restarts in two orders it decides differently. {differs}")
            first = first or seen


class RecoveryKeepsDecisions(PeriodicJudge):
    """Compares an algorithm with a new one that was told what there is.

    A new one knows no preemptions and no lapsed places. If there are any, it is a twin that is compared, which was told
    of their end. If no pod waits, both are told of one more.
    """

    name = "recovery-keeps-decisions"
    every = 7

    def is_due_after(self, call: Call) -> bool:
        return (self.is_due() or self._may_be_ignored(call)) and not isinstance(call, Ask)

    def _may_be_ignored(self, call: Call) -> bool:
        """Whether a pod was resized, say, or a node has changed, or one came back with pods."""
        if self.life.look != "sometimes" or not isinstance(call, AddNode | UpdateNode | Update):
            return False
        if isinstance(call, AddNode):
            return any(pod.node_name == call.node.name for pod in self.life.allocated.values())
        return True

    def look(self) -> None:
        halves = not self.life.history
        now, fresh = self._now(), self.life.restarted()
        # kube-scheduler may offer a node that has just gone.
        offered = {*self.life.nodes, *sorted(self.life.gone_nodes)[:1]}
        nodes = all_well(self.life, now, fresh) if self.life.history else tuple(sorted(offered))
        waiting = self.life.waiting or self._one_more(now, fresh)
        was = answers(now, waiting, nodes, halves=halves)
        then = answers(fresh, waiting, nodes, halves=halves)
        differs = difference(kinds(was), kinds(then)) if self.life.history else difference(was, then)
        promise(not differs, f"after a restart it decides differently. {differs}")

    def _now(self) -> Guarded:
        """The algorithm; a twin if it has to be told more: that preemptions have ended, say."""
        is_asked_only = self.life.waiting and not self.life.preempting and not self.life.lapsed
        if is_asked_only and not self.life.history:
            return self.life.algorithm
        twin = self.life.algorithm.twin()
        for uid in sorted(self.life.preempting):
            twin.delete_preempting_pod(self.life.waiting[uid])
        if self.life.lapsed:
            twin.set_lapsed_pods(frozenset())
        return twin

    def _one_more(self, *algorithms: Guarded) -> dict[str, Pod]:
        """A pod that waits, like the first one that there was; none if there was none."""
        more = {pod.uid: pod for pod in (probe_of(self.life, seen) for seen in list(self.life.seen.values())[:1])}
        for each in algorithms:
            for pod in more.values():
                each.add_unallocated_pod(pod)
        return more


def all_well(life: Life, *algorithms: Guarded) -> tuple[str, ...]:
    """Tell these that all nodes of the world are there and ready, and return the names of the nodes.

    Where the history decides, it may also decide who goes short while nodes are missing (a doomed cell of HiveD).
    """
    missing = [Node(name=name, uid=f"uid-{name}") for name in life.node_names if name not in life.nodes]
    for each in algorithms:
        for name in sorted(life.nodes):
            known = life.nodes[name]
            if not known.ready or known.unschedulable:
                each.update_node(known, msgspec.structs.replace(known, ready=True, unschedulable=False))
        for node in missing:
            each.add_node(node)
    return tuple(sorted({*life.nodes, *life.node_names}))


def probe_of(life: Life, pod: Pod) -> Pod:
    """A pod that waits and asks for the same as this one."""
    return life.kept(msgspec.structs.replace(pod, uid=f"{pod.uid}-again", node_name=""))


class InstancesIndependent(PeriodicJudge):
    name = "instances-independent"
    every = 8

    def look(self) -> None:
        before = observe(self.life)
        if difference(before, observe(self.life)):
            return
        other = self.life.algorithm.twin()
        changed = difference(before, observe(self.life))
        for pod in [] if changed else list(self.life.allocated.values()):
            other.delete_allocated_pod(pod)
        observe(self.life, other)  # its answers may be remembered where this one looks
        changed = changed or difference(before, observe(self.life))
        promise(not changed, f"another instance was told of changes, and this one noticed. {changed}")


class ReservedPodsWait(Judge):
    name = "reserved-pods-wait"

    def after(self, call: Call, answer: Any) -> None:
        reserved = self.life.algorithm.reserved_pods()
        promise(isinstance(reserved, frozenset), f"reserved_pods() is a {type(reserved).__name__}, not a frozenset")
        strange = sorted(map(str, reserved - self.life.waiting.keys()))
        promise(not strange, f"reserved_pods() names {', '.join(strange)}, which does not wait")
        again = self.life.algorithm.reserved_pods()
        promise(again is reserved, "reserved_pods() returns another object although nothing has changed")


class LapsedNotReserved(Judge):
    name = "lapsed-pods-not-reserved"

    def after(self, call: Call, answer: Any) -> None:
        if isinstance(call, Lapse):
            both = sorted(self.life.algorithm.reserved_pods() & self.life.lapsed)
            promise(not both, f"the places of {', '.join(both)} have lapsed, and reserved_pods() names them")
            for uid in sorted(self.life.lapsed & self.life.waiting.keys())[:2] if self.life.nodes else ():
                self._is_free(uid)

    def _is_free(self, lapsed: str) -> None:
        """Whether as many pods like it get a place as if the lapsed pods did not wait at all."""
        twin, without = self.life.algorithm.twin(), self.life.algorithm.twin()
        for uid in sorted(self.life.lapsed & self.life.waiting.keys()):
            if uid in self.life.preempting:
                return
            without.delete_unallocated_pod(self.life.waiting[uid])
        if twin.reserved_pods() != without.reserved_pods():
            return  # they decided what is kept for others
        pod = self.life.waiting[lapsed]
        found, most = (places(self.life, each, pod) for each in (twin, without))
        promise(
            found >= most,
            f"the place of {pod.key} has lapsed, and room is kept for it: {found} pods like it get a place, and {most} "
            "if the lapsed pods do not wait",
        )
