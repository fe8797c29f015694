"""Judges of accepted plans: that their room is kept, and that protected pods are named as what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from algorithm.conformance.calls import Allocate, Ask, Call, Faulty, FoundBound, StartPreempting
from algorithm.conformance.guard import Guarded
from algorithm.conformance.judge import PeriodicJudge, promise
from algorithm.conformance.judges.answers import OfAnswers, preempting_mates
from algorithm.conformance.observation import asked, told
from algorithm.interface import Bind, Phase, Preempt, Wait
from algorithm.model import Pod
from algorithm.reasons import Code

if TYPE_CHECKING:
    from algorithm.conformance.life import Life

#: Pods that try to get the room of one preemptor.
_MOST_COMPETITORS = 40


class PreemptorsRoomKept(PeriodicJudge):
    """Lets all victims go, lets other pods take what they get, and asks whether there is still room for the preemptor.

    The others have the same or a lower priority: the waiting ones, and such as ask for the same as the preemptor. An
    instance without these others shows whether there was room at all, also after the nodes have changed.
    """

    name = "preemptors-room-kept"
    every = 9

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        #: Preemptors whose room a pod of a higher priority may have got since: their plans may be over.
        self._lost: set[str] = set()

    def after(self, call: Call, answer: Any) -> None:
        call = call.change if isinstance(call, Faulty) else call
        if isinstance(call, StartPreempting):
            self._lost.discard(call.uid)
        if isinstance(call, StartPreempting | Allocate):
            self._note_taker(self.life.waiting.get(call.uid) or self.life.allocated.get(call.uid))
        elif isinstance(call, FoundBound):
            self._note_taker(self.life.allocated.get(call.pod.uid))
        super().after(call, answer)

    def _note_taker(self, taker: Pod | None) -> None:
        if taker is not None:
            priority = self.life.algorithm.priority
            own = priority(taker)
            self._lost |= {uid for uid in self.life.preempting if priority(self.life.waiting[uid]) < own}

    def is_due_after(self, call: Call) -> bool:
        accepted = isinstance(call, StartPreempting) and self.life.look != "end"
        return bool(self.life.preempting) and (accepted or self.is_due())

    def look(self) -> None:
        nodes = tuple(sorted(self.life.nodes))
        for uid in sorted(self.life.preempting):
            planned = self.life.cluster.preempting_nodes.get(uid, "")
            if planned in self.life.nodes and uid not in self._lost:
                self._judge(self.life.waiting[uid], planned, nodes)

    def _judge(self, pod: Pod, planned: str, nodes: tuple[str, ...]) -> None:
        cleared = self._cleared()
        if self._has_unplanned_mates(cleared, pod):
            return  # it may wait because they go short, though its own room is kept
        # A pod may stand where the room was to be: one that somebody else has bound, or that was being deleted anyway
        # when the plan was made. Then any other room is for anybody, also that of preemptors of other gangs.
        alone = asked(cleared, pod, nodes if cleared.gang(pod) is not None else (planned,), Phase.FILTERING)
        if not isinstance(alone, Bind) or alone.node not in {planned, *self._nodes_of_gang(cleared, pod)}:
            return
        crowded = self._cleared()
        took = [f"{other.key} on {node}" for other, node in self._compete(crowded, pod, nodes)]
        then = asked(crowded, pod, nodes, Phase.FILTERING)
        kept = isinstance(then, Bind) or not took
        others = f"other pods, none of a higher priority, took it ({', '.join(took)})"
        promise(kept, f"the plan of {pod.key} was accepted, its victims went, and {others}. It answers {told(then)}")

    def _has_unplanned_mates(self, algorithm: Guarded, pod: Pod) -> bool:
        """Whether others of its gang wait that have no accepted plan yet: kube-scheduler asks about one at a time."""
        gang = algorithm.gang(pod)
        others = [other for uid, other in self.life.waiting.items() if uid not in self.life.preempting]
        return gang is not None and any(algorithm.gang(other) == gang for other in others)

    def _nodes_of_gang(self, algorithm: Guarded, pod: Pod) -> set[str]:
        """Where pods of its gang are to go: they may change seats."""
        mates = preempting_mates(self.life, algorithm, pod)
        return {self.life.cluster.preempting_nodes.get(uid, "") for uid in mates}

    def _cleared(self) -> Guarded:
        """An instance that was told the same, and that all victims have gone."""
        twin = self.life.algorithm.twin()
        for uid in sorted({victim.uid for victims in self.life.preempting.values() for victim in victims}):
            if uid in self.life.allocated:
                twin.delete_allocated_pod(self.life.allocated[uid])
        return twin

    def _compete(self, algorithm: Guarded, pod: Pod, nodes: tuple[str, ...]) -> list[tuple[Pod, str]]:
        """Let the others take what they get. Returns them with their nodes."""
        own, gang = algorithm.priority(pod), algorithm.gang(pod)
        took: list[tuple[Pod, str]] = []
        for uid, other in sorted(self.life.waiting.items()):
            competes = uid != pod.uid and uid not in self.life.preempting
            is_member = gang is not None and algorithm.gang(other) == gang
            if competes and not is_member and algorithm.priority(other) <= own:
                took += self._take(algorithm, other, nodes)
        for number in range(_MOST_COMPETITORS):
            like = self._like(pod, number, alone=gang is not None)
            algorithm.add_unallocated_pod(like)
            more = self._take(algorithm, like, nodes) if algorithm.priority(like) <= own else []
            if not more:
                break
            took += more
        return took

    def _take(self, algorithm: Guarded, pod: Pod, nodes: tuple[str, ...]) -> list[tuple[Pod, str]]:
        answer = asked(algorithm, pod, nodes, Phase.FILTERING)
        if not isinstance(answer, Bind):
            return []
        algorithm.add_allocated_pod(self.life.kept(pod.placed(answer.node, answer.annotations)))
        return [(pod, answer.node)]

    def _like(self, pod: Pod, number: int, *, alone: bool) -> Pod:
        """A new pod that asks for the same; `alone`: in no gang, and so without the annotations that may say which."""
        name = f"{pod.name}-like-{number}"
        like = msgspec.structs.replace(pod, name=name, uid=f"{pod.uid}-like-{number}")
        return self.life.kept(msgspec.structs.replace(like, group="", annotations=()) if alone else like)


class ProtectedPlansSaid(OfAnswers):
    """Compares a refusal with the answer of an instance that was told that no pod is protected."""

    name = "protected-plans-said"

    def judge(self, call: Ask, pod: Pod, answer: Any) -> None:
        if call.phase is not Phase.EVICTING or not isinstance(answer, Wait):
            return
        says = answer.reason.code is Code.VICTIM_PROTECTED
        if not says and not self.life.protected:
            return
        free = self._unprotected()
        without = asked(free, pod, call.nodes, call.phase) if free is not None else None
        what = f"schedule({pod.key}, {call.phase.value})"
        if isinstance(without, Preempt):
            promise(says, f"{what} answers {told(answer)}, but only protected pods forbid {told(without)}")
        elif isinstance(without, Wait):
            promise(
                not says, f"{what} answers {told(answer)}, and without protection there is no plan: {told(without)}"
            )

    def _unprotected(self) -> Guarded | None:
        """An instance that was told the same, but for the protection; None if the history may decide there."""
        if not self.life.history:
            free = self.life.algorithm.twin()
        else:
            try:
                free = self.life.algorithm.forked()
            except NotImplementedError:
                return None
        free.set_protected_pods(frozenset())
        return free
