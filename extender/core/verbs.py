"""What kube-scheduler asks: filter, preempt, bind. Filter proposes, bind commits.

The rules, each learned from what a real kube-scheduler does:

* the pod may be unknown to the informer yet: the request is proof enough, to be reconciled or verified later;
* a filter answer is a proposal with a lease; a repeated filter renews it, or makes a new one where the node is no
  longer offered, but insists while a write is in flight;
* a node that was not offered is never named: that would fail the pod's whole cycle;
* a filter with only the pod's nominated node is a trial: the full list follows at once, so nothing is given up for it;
* a bind is only for what was proposed; two binds for the same place are one write with two answers;
* victims have lower priority, exist, and run on a candidate; those that are gone already drop out.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence

from algorithm.interface import Bind, Phase, Preempt, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.entry import Entry, State
from extender.core.events import (
    BindAnswer,
    BindRequested,
    Candidate,
    Evict,
    FilterAnswer,
    FilterRequested,
    Instruction,
    PreemptAnswer,
    PreemptRequested,
    WriteBinding,
)
from extender.core.ledger import HoldState
from extender.core.teller import AlgorithmFault
from extender.core.transitions import Facts, Transitions
from extender.core.version import older
from extender.core.waking import Waking

#: Pods of others that passed a filter and may come to be bound through us: how many are remembered.
PASSED = 4096


class Verbs:
    """Answers the scheduler's verbs. Every call returns its answer, and what else is to be done."""

    def __init__(self, transitions: Transitions, waking: Waking, counts: Counter[tuple[str, str]]) -> None:
        self.t = transitions
        self.waking = waking
        self.policy = transitions.policy
        self.teller = transitions.teller
        self.counts = counts
        self._passed: OrderedDict[str, Pod] = OrderedDict()

    # -- filter ---------------------------------------------------------------------------------------------------

    def filter(self, event: FilterRequested, now: float) -> list[Instruction]:
        pod = event.pod
        if not self.policy.ours(pod):
            return [self._pass_on(pod, event.nodes)]
        if (bound := self._bound_to(pod)) is not None:
            return [_refused(reason(Code.ALREADY_BOUND, node=bound))]
        if (over := self._is_over(pod)) is not None:
            return [_refused(over)]
        if (mistaken := self._mistaken_for(pod, now)) is not None:
            return [FilterAnswer(reason=mistaken, error=True)]
        entry = self._meet(pod, now)
        entry.attempts += 1
        entry.insisted = False
        if entry.state is State.BINDING:
            return self._filter_again(entry, event.nodes, now)
        return self._propose(entry, event.nodes, now)

    def _bound_to(self, pod: Pod) -> str | None:
        """The node it is bound to, as we know or as the caller says."""
        entry = self.t.roster.get(pod.uid)
        return entry.node if entry is not None and entry.state is State.BOUND else pod.node_name or None

    def _is_over(self, pod: Pod) -> Reason | None:
        """Whether the pod is beyond scheduling, as the caller says or as we know better."""
        if pod.finished:
            return reason(Code.POD_FINISHED)
        entry = self.t.roster.get(pod.uid)
        ending = pod.terminating or (entry is not None and entry.pod.terminating) or self.t.cache.removed(pod.uid)
        return reason(Code.POD_TERMINATING) if ending else None

    def _mistaken_for(self, pod: Pod, now: float) -> Reason | None:
        """Another pod has this name or this UID. A caller's word alone does not end it: the informer's will.

        Only one that nobody but a caller has spoken of, and that holds nothing, makes way.
        """
        known = self.t.roster.get(pod.uid)
        if known is not None and known.key != pod.key:
            return reason(Code.BAD_REQUEST, detail=f"UID {pod.uid} belongs to {known.key}, not to {pod.key}")
        other = self.t.roster.named(pod.key)
        if other is None or other.uid == pod.uid:
            return None
        if other.informed or other.state is not State.WAITING:
            return reason(Code.UID_MISMATCH, uid=other.uid)
        self.t.move(other, State.UNKNOWN, now, Facts(f"kube-scheduler asks for UID {pod.uid} of that name"))
        return None

    def _meet(self, pod: Pod, now: float) -> Entry:
        """The pod's entry with the younger record, the caller's or ours; the informer may not have shown it yet."""
        entry = self.t.roster.get(pod.uid)
        if entry is None:
            entry = Entry(pod)
            self.t.move(entry, State.WAITING, now, Facts("kube-scheduler asks for it"))
        elif not older(pod.resource_version, entry.pod.resource_version):
            entry.pod = pod
        return entry

    def forget_passed(self) -> None:
        """A bind that comes from now on has to pass a filter first."""
        self._passed.clear()

    def _remember_passed(self, pod: Pod) -> None:
        """All offered nodes passed, so any known node may be bound; the list itself would be thousands of names."""
        self._passed[pod.uid] = pod
        self._passed.move_to_end(pod.uid)
        if len(self._passed) > PASSED:
            self._passed.popitem(last=False)

    def _propose(self, entry: Entry, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        """A pod without a place. A trial that fails leaves everything as it was."""
        ticket = self.waking.asked(entry)
        self.teller.wants_place(entry.pod)
        try:
            result = self.teller.schedule(entry.pod, nodes, Phase.FILTERING)
            if _is_trial(entry, nodes) and not (isinstance(result, Bind) and result.node in nodes):
                return [self._fail_trial(entry, result)]
            if isinstance(result, Bind):
                return self._place(entry, result, nodes, now)
            more = self._wait_or_preempt(entry, result, now)
        except AlgorithmFault as fault:
            return [self._fault(entry, fault)]
        self._remember_reason(entry, result, now)
        if entry.state is State.WAITING:
            self.waking.park(entry, ticket, now)
        self.counts["attempts", "unschedulable"] += 1
        return [_refused(result.reason, result), *more]

    def _fail_trial(self, entry: Entry, result: ScheduleResult) -> FilterAnswer:
        """The full list follows at once: this leaves no trace but the memory that it was tried."""
        entry.tried = entry.pod.nominated_node_name
        if isinstance(result, Bind):
            return _refused(reason(Code.PLACED_ELSEWHERE, node=result.node))
        return _refused(result.reason, result)

    def _wait_or_preempt(self, entry: Entry, result: Preempt | Wait, now: float) -> list[Instruction]:
        entry.tried = ""
        if isinstance(result, Preempt):
            self.t.ledger.renew(entry.token, now=now, lease=self.policy.lease)
            return self._evict(entry, result, now)
        return self._reconsider(entry, result, now)

    def _place(self, entry: Entry, bind: Bind, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        offered = bind.node in nodes
        if not offered and not self.policy.force_bind_unoffered:
            raise self.teller.misbehaved(f"it chose node {bind.node}, which was not offered")
        if not offered and self.t.cache.node(bind.node) is None:
            raise self.teller.misbehaved(f"it chose node {bind.node}, which does not exist")
        placed = entry.pod.placed(bind.node, bind.annotations)
        self.t.move(entry, State.BINDING, now, Facts("placed by the algorithm", placed=placed))
        entry.annotations = bind.annotations
        return self._answer_placed(entry, offered, now)

    def _answer_placed(self, entry: Entry, offered: bool, now: float) -> list[Instruction]:
        """Names the place if it was offered; the server binds by itself where the operator wants that."""
        entry.unanswered += 1
        entry.tried = ""
        self.counts["attempts", "scheduled"] += 1
        tired = 0 < self.policy.force_bind_after < entry.unanswered
        write = [] if offered and not tired else self._write(entry, now)
        if write:
            self.counts["force_binds", "tired" if offered else "unoffered"] += 1
        if offered:
            return [FilterAnswer(node=entry.node), *write]
        return [self._insist(entry), *write]

    def _pass_on(self, pod: Pod, nodes: SuggestedNodes) -> FilterAnswer:
        """None of ours passes, except elsewhere than where we may be binding it: that write may yet arrive."""
        self._remember_passed(pod)
        entry = self.t.roster.get(pod.uid)
        if entry is None or entry.key != pod.key or entry.state is not State.BINDING or not self.t.in_flight(entry):
            return FilterAnswer(untouched=True)
        return FilterAnswer(node=entry.node) if entry.node in nodes else self._insist(entry)

    def _insist(self, entry: Entry) -> FilterAnswer:
        """Its place is not offered, and is not given up: we are binding it there."""
        entry.insisted = True
        return _refused(reason(Code.BIND_IN_FLIGHT, node=entry.node))

    def _filter_again(self, entry: Entry, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        if entry.node in nodes:
            if not self.t.is_writing(entry) and self.t.ledger.renew(entry.token, now=now, lease=self.policy.lease):
                entry.reading = None
            return self._answer_placed(entry, True, now)
        if self.t.in_flight(entry):
            return [self._insist(entry)]
        if self.policy.force_bind_unoffered and not _is_trial(entry, nodes):
            return self._answer_placed(entry, False, now)
        return self._propose_anew(entry, nodes, now)

    def _propose_anew(self, entry: Entry, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        """The proposed node is not offered any more. A trial must not cost the place that the pod has."""
        before = entry.placed
        assert before is not None
        trial = _is_trial(entry, nodes)
        self.t.move(entry, State.WAITING, now, Facts(f"node {before.node_name} is no longer offered"))
        answer = self._propose(entry, nodes, now)
        if trial and entry.state is State.WAITING:
            answer = self._keep_place(entry, before, now)
        if entry.node == before.node_name:
            return answer
        return answer + self.waking.room_freed(now, by=entry)

    def _keep_place(self, entry: Entry, before: Pod, now: float) -> list[Instruction]:
        try:
            self.t.move(entry, State.BINDING, now, Facts("the trial failed, the place is kept", placed=before))
        except AlgorithmFault as fault:
            return [self._fault(entry, fault)]
        return [_refused(reason(Code.PLACED_ELSEWHERE, node=entry.node))]

    def _remember_reason(self, entry: Entry, result: Preempt | Wait, now: float) -> None:
        if result.reason != entry.reason:
            entry.tell(now, f"refused: {result.reason.text}")
        entry.reason = result.reason
        entry.nodes = result.nodes if isinstance(result, Wait) else {}

    def _fault(self, entry: Entry, fault: AlgorithmFault) -> FilterAnswer:
        self.counts["attempts", "error"] += 1
        entry.tried = ""
        entry.reason = reason(Code.ALGORITHM_FAILED, detail=str(fault))
        return FilterAnswer(reason=entry.reason, error=True)

    # -- preempt --------------------------------------------------------------------------------------------------

    def preempt(self, event: PreemptRequested, now: float) -> list[Instruction]:
        pod = event.pod
        if not self.policy.ours(pod):
            return [PreemptAnswer(untouched=True)]
        if (bound := self._bound_to(pod)) is not None:
            return [PreemptAnswer(reason=reason(Code.ALREADY_PLACED, node=bound))]
        if (over := self._is_over(pod)) is not None:
            return [PreemptAnswer(reason=over)]
        if (mistaken := self._mistaken_for(pod, now)) is not None:
            return [PreemptAnswer(reason=mistaken, error=True)]
        entry = self._meet(pod, now)
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
        more = self._reconsider(entry, result, now)
        self._remember_reason(entry, result, now)
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

    def _reconsider(self, entry: Entry, result: Wait, now: float) -> list[Instruction]:
        """If it preempts and is told to wait: for its victims, then it goes on preempting; else preemption is over."""
        if entry.state is not State.PREEMPTING:
            return []
        if result.reason.code is Code.WAITING_FOR_VICTIMS:
            self.t.ledger.renew(entry.token, now=now, lease=self.policy.lease)
            return self._evict_victims(entry)
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

    def _evict(self, entry: Entry, result: Preempt, now: float) -> list[Instruction]:
        """Filter found victims. kube-scheduler will call preempt for them, unless the operator lets us evict."""
        if not self._may_evict(entry):
            return []
        victims = self._checked_victims(entry.pod, result.victims)
        self.t.move(entry, State.PREEMPTING, now, Facts("evicting by ourselves", victims=victims, reason=result.reason))
        return self._evict_victims(entry)

    def _may_evict(self, entry: Entry) -> bool:
        """What only a caller has spoken of may not exist, and must not cost anybody his pod."""
        return self.policy.evict_directly and entry.pod.may_preempt and entry.informed

    def _evict_victims(self, entry: Entry) -> list[Instruction]:
        """Each once; one whose eviction failed is tried again, also if the algorithm only waits for it to go."""
        if not self._may_evict(entry):
            return []
        found = [pod for victim in entry.victims if (pod := self.t.cache.pod(victim.uid)) is not None]
        new = [pod for pod in found if pod.uid not in entry.evicting]
        entry.evicting = {pod.uid: pod.key for pod in found}
        self.counts["victims", "evicted"] += len(new)
        valid = self.policy.write_validity
        return [Evict(entry.token, pod.namespace, pod.name, pod.uid, entry.key, valid_for=valid) for pod in new]

    # -- bind -----------------------------------------------------------------------------------------------------

    def bind(self, event: BindRequested, now: float) -> list[Instruction]:
        entry = self._leave_other_place(self.t.roster.get(event.uid), event, now)
        refusal = self._cannot_bind(event, entry)
        if refusal is None and entry is None:
            try:
                entry = self._adopt(event, now)
            except AlgorithmFault as fault:
                refusal = reason(Code.ALGORITHM_FAILED, detail=str(fault))
        if refusal is not None or entry is None:
            self.counts["binds", "refused"] += 1
            return [BindAnswer(event.request, refusal)]
        if entry.state is State.BOUND:
            return [BindAnswer(event.request)]
        return self._bind_place(entry, event.request, now)

    def _leave_other_place(self, entry: Entry | None, event: BindRequested, now: float) -> Entry | None:
        """A pod that is none of ours goes where kube-scheduler now wants it: its last bind had come to nothing."""
        if entry is None or entry.state is not State.BINDING or event.uid not in self._passed:
            return entry
        if entry.node == event.node or entry.key != event.key or self.t.in_flight(entry):
            return entry
        self.t.move(entry, State.UNKNOWN, now, Facts(f"kube-scheduler now wants it on {event.node}"))
        return None

    def _cannot_bind(self, event: BindRequested, entry: Entry | None) -> Reason | None:
        if entry is None:
            return self._cannot_adopt(event)
        if entry.key != event.key:
            return reason(Code.BAD_REQUEST, detail=f"PodUID {event.uid} belongs to {entry.key}, not to {event.key}")
        if entry.state is State.BOUND:
            return None if entry.node == event.node else reason(Code.ALREADY_BOUND, node=entry.node)
        if entry.state is not State.BINDING:
            return reason(Code.NEVER_PROPOSED, node=event.node)
        if entry.node != event.node:
            return reason(Code.PROPOSED_OTHER_NODE, proposed=entry.node, node=event.node)
        return None

    def _cannot_adopt(self, event: BindRequested) -> Reason | None:
        """Bind of a pod that we know nothing of: only if it passed a filter, untouched, and the node exists."""
        if self.t.cache.removed(event.uid):
            return reason(Code.BIND_GONE)
        passed = self._passed.get(event.uid)
        namesake = self.t.roster.named(event.key)
        if namesake is not None:
            return reason(Code.UID_MISMATCH, uid=namesake.uid)
        if passed is None or passed.key != event.key:
            return reason(Code.NEVER_PROPOSED, node=event.node)
        return None if self.t.cache.node(event.node) else reason(Code.NODE_UNKNOWN)

    def _adopt(self, event: BindRequested, now: float) -> Entry:
        entry = Entry(self._passed.pop(event.uid))
        placed = entry.pod.placed(event.node)
        self.t.move(entry, State.BINDING, now, Facts("none of ours, bound through us", placed=placed))
        return entry

    def _bind_place(self, entry: Entry, request: int, now: float) -> list[Instruction]:
        entry.unanswered = 0
        hold = self.t.ledger.get(entry.token)
        if hold is not None and hold.state is HoldState.COMMITTED:
            return [BindAnswer(request)]
        entry.binds.append(request)
        return self._write(entry, now)

    def _write(self, entry: Entry, now: float) -> list[Instruction]:
        """Starts the binding write, unless one is in flight already: then its outcome answers for both."""
        if not self.t.ledger.commit(entry.token, now=now) or entry.placed is None:
            return []
        entry.tell(now, f"binding to {entry.node} is being written")
        entry.reading = None
        self.t.unresolved[entry.uid] = now + self.policy.write_timeout
        pod = entry.placed
        return [
            WriteBinding(
                entry.token,
                pod.namespace,
                pod.name,
                pod.uid,
                pod.node_name,
                entry.annotations,
                valid_for=self.policy.write_validity,
            )
        ]


def _refused(why: Reason, result: Preempt | Wait | None = None) -> FilterAnswer:
    return FilterAnswer(reason=why, nodes=result.nodes if isinstance(result, Wait) else {})


def _is_trial(entry: Entry, nodes: SuggestedNodes) -> bool:
    """kube-scheduler first tries the nominated node alone; the full list follows in the same cycle.

    Refused twice in a row it is no trial: the full list has no other node.
    """
    return len(nodes) == 1 and nodes[0] == entry.pod.nominated_node_name and nodes[0] != entry.tried
