"""What kube-scheduler asks with preempt: whom to evict? Victims have lower priority, exist, and run on a candidate.

Those that are gone already drop out. The plan is made anew at every call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes, Victim, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.core.callers import Callers
from extender.core.entry import Entry, State
from extender.core.events import Candidate, Evict, Instruction, PreemptAnswer, PreemptRequested
from extender.core.teller import AlgorithmFault
from extender.core.transitions import Facts, Transitions
from extender.core.waking import Waking


class Preempting:
    """Answers preempt."""

    def __init__(self, transitions: Transitions, waking: Waking, counts: Counter[tuple[str, str]]) -> None:
        self.t = transitions
        self.policy = transitions.policy
        self.teller = transitions.teller
        self.waking = waking
        self.callers = Callers(transitions)
        self.counts = counts

    def preempt(self, event: PreemptRequested, now: float) -> list[Instruction]:
        pod = event.pod
        if not self.policy.ours(pod):
            return [PreemptAnswer(untouched=True)]
        if (bound := self.callers.bound_to(pod)) is not None:
            return [PreemptAnswer(reason=reason(Code.ALREADY_PLACED, node=bound))]
        if (over := self.callers.is_over(pod)) is not None:
            return [PreemptAnswer(reason=over)]
        if (mistaken := self.callers.mistaken_for(pod, now)) is not None:
            return [PreemptAnswer(reason=mistaken, error=True)]
        entry = self.callers.meet(pod, now)
        if entry.state is State.BINDING:
            return [PreemptAnswer(reason=reason(Code.ALREADY_PLACED, node=entry.node))]
        return self._answer_preempt(entry, event.candidates, now)

    def _answer_preempt(self, entry: Entry, candidates: Sequence[Candidate], now: float) -> list[Instruction]:
        offered = {candidate.node: candidate for candidate in candidates}
        self.teller.wants_place(entry.pod)
        try:
            result = self.teller.schedule(entry.pod, SuggestedNodes(sorted(offered)), Phase.PREEMPTING)
            if isinstance(result, Preempt):
                return self._start_preempting(entry, result, offered, now)
        except AlgorithmFault as fault:
            entry.reason = reason(Code.ALGORITHM_FAILED, detail=str(fault))
            # The wire has no room for this text, so it is shown as an Event.
            return [PreemptAnswer(reason=entry.reason, error=True), *entry.announce(entry.reason, warning=True)]
        if isinstance(result, Bind):
            return [PreemptAnswer(reason=reason(Code.ALREADY_PLACED, node=result.node))]
        more = self.reconsider(entry, result, now)
        entry.refuse(result, now)
        return [PreemptAnswer(reason=result.reason), *more]

    def _start_preempting(
        self, entry: Entry, result: Preempt, offered: dict[str, Candidate], now: float
    ) -> list[Instruction]:
        victims = self._checked_victims(entry.pod, result.victims)
        changed = entry.state is State.PREEMPTING and set(victims) != set(entry.victims)
        names = ", ".join(sorted({victim.node for victim in victims})) or "others are in the way"
        facts = Facts(f"victims on {names}", victims=victims, seat=result.node, reason=result.reason)
        self.t.move(entry, State.PREEMPTING, now, facts)
        by_node: dict[str, list[str]] = {}
        for victim in victims:
            if victim.node in offered:
                by_node.setdefault(victim.node, []).append(victim.uid)
        self.counts["victims", "proposed"] += sum(map(len, by_node.values()))
        chosen = tuple(
            Candidate(node, tuple(uids), offered[node].pdb_violations) for node, uids in sorted(by_node.items())
        )
        # Where the victims of an earlier plan were, room is no longer held for this pod.
        freed = self.waking.room_freed(now, by=entry) if changed else []
        return [PreemptAnswer(candidates=chosen, reason=result.reason), *freed]

    def reconsider(self, entry: Entry, result: Wait, now: float) -> list[Instruction]:
        """If it preempts and is told to wait: for its victims, then it goes on preempting; else preemption is over."""
        if entry.state is not State.PREEMPTING:
            return []
        if result.reason.code is Code.WAITING_FOR_VICTIMS:
            self.t.ledger.renew(entry.token, now=now, lease=self.policy.lease)
            return []
        self.t.move(entry, State.WAITING, now, Facts("no preemption would help now"))
        return self.waking.room_freed(now, by=entry)

    def _checked_victims(self, pod: Pod, victims: Sequence[Victim]) -> tuple[Victim, ...]:
        """The victims that still exist. Raises AlgorithmFault if one must not be touched: kube-scheduler would."""
        if not pod.may_preempt:
            raise self.teller.misbehaved("it names victims for a pod whose preemptionPolicy is Never")
        alive = []
        for victim in sorted(set(victims)):
            found = self.t.cache.pod(victim.uid)
            if found is None:
                continue
            if found.priority >= pod.priority:
                raise self.teller.misbehaved(
                    f"it names victim {found.key} of priority {found.priority}, the pod has {pod.priority}"
                )
            if found.node_name != victim.node:
                where = f"on {victim.node}, which runs on {found.node_name}"
                raise self.teller.misbehaved(f"it names victim {found.key} {where}")
            alive.append(victim)
        return tuple(alive)

    def evict(self, entry: Entry, result: Preempt, now: float) -> list[Instruction]:
        """Filter found victims. kube-scheduler will call preempt for them, unless the operator lets us evict."""
        if not self.policy.evict_directly or not entry.pod.may_preempt or not entry.informed:
            return []  # what only a caller has spoken of may not exist, and must not cost anybody his pod
        victims = self._checked_victims(entry.pod, result.victims)
        self.t.move(entry, State.PREEMPTING, now, Facts("evicting by ourselves", victims=victims, reason=result.reason))
        found = [pod for victim in victims if (pod := self.t.cache.pod(victim.uid)) is not None]
        new = [pod for pod in found if pod.uid not in entry.evicting]
        entry.evicting = {pod.uid: pod.key for pod in found}
        self.counts["victims", "evicted"] += len(new)
        valid = self.policy.write_validity
        return [Evict(entry.token, pod.namespace, pod.name, pod.uid, entry.key, valid_for=valid) for pod in new]
