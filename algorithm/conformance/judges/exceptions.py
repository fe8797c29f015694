"""The judge of changes that raise: they are all or nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.conformance.calls import Allocate, Ask, Call, Faulty, Submit
from algorithm.conformance.guard import Guarded
from algorithm.conformance.judge import Judge, promise
from algorithm.conformance.judges.filling import filled
from algorithm.conformance.judges.traces import comparable
from algorithm.conformance.observation import Observation, answers, difference
from algorithm.conformance.results import shown
from algorithm.model import Pod


class ExceptionChangesNothing(Judge):
    """Compares two twins: one was told of the changes that raised, the other was not.

    An algorithm that catches the exception of a record, and goes on, must have made the change: it is compared with a
    twin that could read the record.

    What an exception leaves may be seen only later, when somebody asks or a node is full. So both are told of pods
    until nodes are full, and it looks when a change has raised, when it was reported once more, and just before the
    next question; and when another judge has found something.
    """

    name = "exception-changes-nothing"
    wants_faults = True

    def __init__(self, life: Any) -> None:
        super().__init__(life)
        #: What raised last, in words, and the pod that it was about.
        self._what = ""
        self._pod: Pod | None = None
        self._is_asked_since = True
        self._raised_before = 0
        self._has_swallowed = False

    def raised(self, call: Call, error: Exception) -> None:
        if not isinstance(call, Faulty):
            self._is_once_only(error)
            return
        self._what, self._is_asked_since = f"{type(call.change).__name__} raised {type(error).__name__}", False
        self._pod = self._pod_of(call.change)
        self._look("left its state changed.", fills=True)

    def swallowed(self, call: Call) -> None:
        change = call.change if isinstance(call, Faulty) else call
        self._what = f"{type(change).__name__} caught the exception of a record that could not be read"
        self._has_swallowed, self._is_asked_since = True, False
        self._pod = self._pod_of(change)
        self._look("went on without it, and did not raise.", fills=True)

    def after(self, call: Call, answer: Any) -> None:
        if len(self.life.algorithm.raised) > self._raised_before and self._what:
            self._look("was reported again, and counted otherwise.")

    def before(self, call: Call) -> None:
        self._raised_before = len(self.life.algorithm.raised)
        if isinstance(call, Ask) and not self._is_asked_since:
            self._is_asked_since = True
            self._look("left its state changed: the next question shows it.")

    def cause(self) -> None:
        self._look("left its state changed.", fills=True)

    def end(self) -> None:
        if not self._is_asked_since:
            self._look("left its state changed.")

    def _is_once_only(self, error: Exception) -> None:
        """A change that raises although nobody made it to: an exception before may have left what it stumbles over."""
        _, name, args = self.life.algorithm.raised[-1]
        if len(self.life.algorithm.raised) == 1:
            return
        try:
            getattr(self.life.algorithm.twin(), name)(*args)
        except Exception:
            return  # it raises anyway: `changes-do-not-raise` says so
        promise(False, f"{self._what}, and left its state changed: {name} then raised {shown(error)}")

    def _look(self, how: str, *, fills: bool = False) -> None:
        if not self.life.algorithm.raised and not self._has_swallowed:
            return
        told = self.life.algorithm.twin_that_raised()
        if told is None:
            return
        twin = self.life.algorithm.twin
        changed = self._difference(twin(), told, fills)
        is_sure = changed and not self._difference(twin(), twin(), fills)
        promise(not is_sure, f"{self._what}, and {how} {changed}")

    def _difference(self, one: Guarded, other: Guarded, fills: bool) -> str:
        differs = difference(self._seen(one), self._seen(other))
        pod = self._pod or next(iter(self.life.seen.values()), None)
        is_enough = differs or pod is None or not fills or self.life.history
        return differs if is_enough or pod is None else self._filled(one, other, pod)

    def _seen(self, algorithm: Guarded) -> Observation:
        """What can be seen of it, and what it answers about the pod: `comparable` asks about a few only."""
        about = {uid: pod for uid, pod in self.life.waiting.items() if self._pod is not None and uid == self._pod.uid}
        more = {} if self.life.history else answers(algorithm, about, tuple(sorted(self.life.nodes)))
        return comparable(self.life, algorithm) | more

    def _filled(self, one: Guarded, other: Guarded, like: Pod) -> str:
        """What differs while both are told that all pods go, and others come until a node is full: a wrong count does.

        The node is that of the pod, also if it is not known, or each.
        """
        for each in (one, other):
            for pod in self.life.allocated.values():
                each.delete_allocated_pod(pod)
        for node in [like.node_name] if like.node_name else sorted(self.life.nodes):
            if node not in self.life.nodes and self.life.nodes:
                known = min(self.life.nodes.values(), key=lambda each: each.name)
                for each in (one, other):
                    each.add_node(msgspec.structs.replace(known, name=node, uid=f"uid-{node}"))
            if differs := filled(self.life, one, other, like, node):
                return differs
        return ""

    def _pod_of(self, change: Call) -> Pod | None:
        match change:
            case Submit(pods=(first, *_)):
                return first
            case Allocate(uid=uid):
                return self.life.waiting.get(uid) or self.life.allocated.get(uid)
            case _:
                return getattr(change, "pod", None)
