"""Plays a gang's preemption out: its victims go, and what becomes of the gang is seen in another instance.

    [ each waiting pod of the gang: FILTERING --Bind--> it has its place
                                    or its plan -----> accepted, and its victims go ]    until nothing happens any more

As by kube-scheduler, no plan is asked for a pod that must not preempt, and no other pod comes in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from algorithm.conformance.observation import asked
from algorithm.interface import Bind, MemberPlan, Phase, Preempt
from algorithm.model import Pod

if TYPE_CHECKING:
    from algorithm.conformance.life import Life


class Outcome(NamedTuple):
    """The pods of the gang that got a place, and the pods that were evicted for it: their names, in this order."""

    placed: list[str]
    evicted: list[str]


def play_out(life: Life, gang: list[Pod], phase: Phase, *, all_may_preempt: bool = False) -> Outcome:
    """What comes of the preemption of these waiting pods, in this order. `phase` is that of the questions for plans.

    With `all_may_preempt`, the instance is told from the beginning that each of them may preempt.
    """
    return _Play(life, gang, phase, all_may_preempt=all_may_preempt).outcome()


class _Play:
    def __init__(self, life: Life, gang: list[Pod], phase: Phase, *, all_may_preempt: bool) -> None:
        self._life, self._phase = life, phase
        self._nodes = tuple(sorted(life.nodes))
        self._waiting = {pod.uid: _free(pod) if all_may_preempt else pod for pod in gang}
        self._running = dict(life.allocated)
        self._algorithm = life.algorithm.twin(self._told if all_may_preempt else None)
        self._outcome = Outcome([], [])

    def _told(self, name: str, args: tuple[Any, ...]) -> list[tuple[str, tuple[Any, ...]]]:
        freed = (_free(arg) if isinstance(arg, Pod) and arg.uid in self._waiting else arg for arg in args)
        return [(name, tuple(freed))]

    def outcome(self) -> Outcome:
        self._go(self._victims(self._life.preempting.keys() - self._waiting.keys()))
        self._outcome.evicted.clear()  # they went for others
        self._go(self._victims(self._life.preempting.keys() & self._waiting.keys()))
        # Each pod gets its place once, and its victims go once: more rounds bring nothing.
        for _ in range(2 * len(self._waiting) + 1):
            goes_on = [self._goes_on(pod) for pod in list(self._waiting.values())]
            if not any(goes_on):
                break
        return self._outcome

    def _victims(self, preemptors: set[str]) -> set[str]:
        """The victims of plans that were accepted before."""
        return {victim.uid for uid in preemptors for victim in self._life.preempting[uid]}

    def _goes_on(self, pod: Pod) -> bool:
        """Ask about one pod as kube-scheduler does. Whether anything has happened."""
        answer = asked(self._algorithm, pod, self._nodes, Phase.FILTERING)
        if not isinstance(answer, Bind) and pod.may_preempt:
            answer = asked(self._algorithm, pod, self._nodes, self._phase)
        if isinstance(answer, Bind):
            self._algorithm.add_allocated_pod(self._life.kept(pod.placed(answer.node, answer.annotations)))
            self._outcome.placed.append(str(self._waiting.pop(pod.uid).key))
            return True
        return isinstance(answer, Preempt) and self._accept(pod, answer)

    def _accept(self, pod: Pod, answer: Preempt) -> bool:
        plans = [MemberPlan(pod.uid, answer.node, answer.victims), *answer.gang_members]
        for plan in plans:
            if plan.uid in self._waiting:
                self._algorithm.add_preempting_pod(self._waiting[plan.uid], plan.victims, plan.node)
        return self._go({victim.uid for plan in plans for victim in plan.victims})

    def _go(self, uids: set[str]) -> bool:
        """These pods end. Whether there were any."""
        going = sorted(uids & self._running.keys())
        for uid in going:
            pod = self._running.pop(uid)
            self._algorithm.delete_allocated_pod(pod)
            self._outcome.evicted.append(str(pod.key))
        return bool(going)


def _free(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, may_preempt=True)
