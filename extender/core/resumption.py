"""Takes up the preemptions that stand on the pods when a term begins: a process crashed, or another replica led.

What was evicted for it is gone or going, and its room is at once kept for the preemptors again. Whoever still runs is
evicted only after kube-scheduler has asked and the algorithm has named him anew: the annotation is a pod's own, and its
owner may have written anything there.
"""

from __future__ import annotations

from algorithm.interface import SuggestedNodes, Victim
from extender.core.entry import Entry, State
from extender.core.events import Instruction
from extender.core.evictions import Evictions
from extender.core.preemption import Intention, Stage, read, waiting_for
from extender.core.teller import AlgorithmFault
from extender.core.transitions import Facts


class Resumption:
    """Reads what stands on the pods that wait, once at the beginning of a term."""

    def __init__(self, evictions: Evictions) -> None:
        self.evictions = evictions
        self.t = evictions.t

    def resume(self, now: float) -> list[Instruction]:
        plans: dict[str, list[tuple[Entry, Intention]]] = {}
        for entry in sorted(self.t.roster, key=lambda entry: (-entry.pod.priority, entry.key)):
            intention = read(entry.pod) if entry.state is State.WAITING and entry.informed else None
            if intention is not None:
                plans.setdefault(intention.plan, []).append((entry, intention))
        out: list[Instruction] = []
        for found in plans.values():
            out += self._resume(found, now)
        return out

    def _resume(self, found: list[tuple[Entry, Intention]], now: float) -> list[Instruction]:
        leaving = [victim for _, intention in found for victim in intention.share.victims if self._leaves(victim)]
        for entry, _ in found:
            self.evictions.waking.line_up(entry, now, at_once=True)
        if leaving:
            self._keep_room(found, leaving, now)
        return self.evictions.waking.nudge(now)

    def _leaves(self, victim: Victim) -> bool:
        pod = self.t.cache.pod(victim.uid)
        return pod is None or pod.terminating or not self.evictions.plans.stands(victim)

    def _keep_room(self, found: list[tuple[Entry, Intention]], leaving: list[Victim], now: float) -> None:
        preemption = self.evictions.open(Stage.RESUMED, SuggestedNodes(), now)
        victims = {victim.uid: self.evictions.condemn(victim) for victim in leaving}
        members, shares = {}, {}
        why = waiting_for(victim.key for victim in victims.values() if victim.key.name)
        for entry, intention in found:
            share, entry_victims = intention.share, tuple(v for v in intention.share.victims if v in leaving)
            facts = Facts("its preemption goes on", victims=entry_victims, seat=share.node, reason=why)
            try:
                self.t.move(entry, State.PREEMPTING, now, facts)
            except AlgorithmFault:
                continue
            entry.preemption = preemption
            members[entry.uid], shares[entry.uid] = entry, share
        preemption.follow(members, shares, victims)
        preemption.marked = set(members)
        preemption.due = now + self.t.policy.lease
        if not members:
            del self.evictions.endings.active[preemption.number]
