"""Carries out preemptions of our own, from the first dry run until the preemptors have their places.

`state/preemption_record.py` has the stages and their diagram. The rules:

* No pod is evicted before three conditions hold: every victim's dry run was accepted, every preemptor has the
  annotation of the plan, and the plan, checked again after that, is still what is needed. Half a gang is never evicted
  for nothing.
* If a victim cannot be evicted, the plan is made again without it. If there is no other plan, the preemption is given
  up with one reason. Once a pod was evicted for it, it is retried instead, as long as the policy's patience lasts.
* If anything happens to a preemptor or to a seat, the plan is made again. Victims that are not needed any more are
  spared, unless their eviction was sent already.
* When the last victim is gone, the preemptors are requeued. The room is held for them until kube-scheduler has asked
  about them.
"""

from __future__ import annotations

from collections import Counter

from algorithm.interface import Bind, Preempt, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import PodKey
from algorithm.reasons import Code, reason
from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import EvictFinished, PreemptionRecorded, RecordEvent
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.events import Event, Instruction, PodGone, PodSeen
from extender.scheduling.preemption import eviction_commands
from extender.scheduling.preemption.backoff import EvictionBackoff
from extender.scheduling.preemption.lingering import Lingering
from extender.scheduling.preemption.outcomes import Ending, PreemptionOutcomes
from extender.scheduling.preemption.planner import PreemptionPlanner, member_plans, union, victims_of
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.cache import PodState
from extender.scheduling.state.pod_info import ALLOCATED, PodInfo, Preemption, State
from extender.scheduling.state.preemption_record import Stage, VictimProgress, generation, hears, next_look, waiting_for
from extender.scheduling.state.transitions import SchedulingState


class PreemptionExecutor:
    """All active preemptions of our own."""

    def __init__(self, state: SchedulingState, requeuer: Requeuer, counts: Counter[tuple[str, str]]) -> None:
        self.state = state
        self.policy = state.policy
        self.planner = PreemptionPlanner(state)
        self.requeuer = requeuer
        self.counts = counts
        self.backoff = EvictionBackoff(state)
        self.lingering = Lingering(state, self.planner)
        self.outcomes = PreemptionOutcomes(state, requeuer, self.backoff, counts)
        #: The preemptions that are under way, by number.
        self.active = self.outcomes.active
        self._last = 0
        self._last_plan = 0

    def preemptions(self) -> list[Preemption]:
        """Return all preemptions that are under way, or about to be reviewed."""
        return list({id(each): each for each in (*self.active.values(), *self.state.disturbed)}.values())

    # -- beginning ------------------------------------------------------------------------------------------------

    def plan(self, pod_info: PodInfo, nodes: SuggestedNodes) -> ScheduleResult:
        """Return a plan for the pod and its gang. Raises AlgorithmFault."""
        return self.planner.make(pod_info, nodes, self.backoff.uids | self.lingering.uids)

    def competing(self, pod_info: PodInfo, plan: Preempt) -> Preemption | None:
        """Return another active preemption for a member of this plan; None if there is none."""
        members = self.planner.members({member_plan.uid: member_plan for member_plan in member_plans(pod_info, plan)})
        return next((each.preemption for each in members.values() if each.preemption is not None), None)

    def may_begin(self, pod_info: PodInfo, plan: Preempt) -> bool:
        """Whether the plan has victims, and the informer has reported all its members: no pod is evicted on a request's
        word alone. Members that were not reported yet are deferred."""
        plans = {member_plan.uid: member_plan for member_plan in member_plans(pod_info, plan)}
        members = self.planner.members(plans).values()
        for member in members:
            if not member.informed:
                member.deferred, member.offered = True, pod_info.offered
        return any(member_plan.victims for member_plan in plans.values()) and all(
            member.informed and member.preemption is None for member in members
        )

    def begin(self, pod_info: PodInfo, plan: Preempt, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        """Begin to carry out a plan for which `may_begin` holds. Raises AlgorithmFault, and then changes nothing."""
        preemption = self.open(Stage.CHECKING, nodes, now)
        try:
            out = self._adopt(preemption, pod_info, plan, now)
        except AlgorithmFault:
            self.outcomes.drop(preemption)
            raise
        self.counts["preemptions", "direct started"] += 1
        return out

    def open(self, stage: Stage, nodes: SuggestedNodes, now: float) -> Preemption:
        """Add and return the record of a new active preemption."""
        self._last += 1
        preemption = self.active[self._last] = Preemption(self._last, nodes, stage, now)
        return preemption

    def _adopt(self, preemption: Preemption, leader: PodInfo, plan: Preempt, now: float) -> list[Instruction]:
        """Replace the preemption's plan by this one. Raises AlgorithmFault."""
        plans = {member_plan.uid: member_plan for member_plan in member_plans(leader, plan)}
        members = self.planner.members(plans)
        victims = {v.uid: preemption.victims.get(v.uid) or self.track(v) for v in victims_of(plan)}
        self.planner.claim(members, plans, waiting_for(victim.key for victim in victims.values()), now)
        for uid in preemption.members.keys() - members.keys():
            self.outcomes.let_go(preemption.members[uid], None, now)
        freed = self.requeuer.room_freed(now, by=leader) if preemption.members else []
        for pod_info in members.values():
            pod_info.preemption = preemption
        preemption.follow(members, plans, victims)
        preemption.stage, preemption.since = Stage.CHECKING, now
        return [*freed, *self._advance(preemption, now)]

    def track(self, victim: Victim) -> VictimProgress:
        pod = self.state.cache.pod(victim.uid)
        return VictimProgress(pod.key if pod is not None else PodKey("", ""), victim)

    def try_again(self, pod_info: PodInfo, now: float) -> list[Instruction]:
        """Try again to preempt for a pod whose preemption could not begin. kube-scheduler may see no reason to ask."""
        if pod_info.state is not State.WAITING or not pod_info.pod.may_preempt:
            return []
        try:
            plan = self.plan(pod_info, pod_info.offered)
            if isinstance(plan, Preempt) and self.may_begin(pod_info, plan):
                return self.begin(pod_info, plan, pod_info.offered, now)
            if pod_info.deferred and _is_hopeless(plan):
                return []  # asked again, it would get the same refusal: it stays parked until room becomes free
        except AlgorithmFault as fault:
            pod_info.record(now, f"its preemption could not be planned: {fault}", self.state.sequence)
        self.requeuer.enqueue(pod_info, now)
        return []

    # -- events ---------------------------------------------------------------------------------------------------

    def asked(self, pod_info: PodInfo, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        """Filter found no place for a preemptor. Make the plan again if its room was cleared already."""
        preemption = pod_info.preemption
        if preemption is None or preemption.stage is not Stage.CLEARED:
            return []
        preemption.nodes = union(preemption.nodes, nodes)
        preemption.members = {pod_info.uid: pod_info, **preemption.members}
        return self.replan(preemption, now)

    def after(self, event: Event, now: float) -> list[Instruction]:
        """Review the preemptions that this event concerns. All other handlers have handled it already.

        Called if there is any, or if a pod waits for one: `planner.unbound`, `state.disturbed`, `state.undeferred`.
        """
        out: list[Instruction] = []
        disturbed, self.state.disturbed = self.state.disturbed, []
        for preemption in [*disturbed, *(each for each in self.active.values() if hears(each, event))]:
            out += self._review(preemption, now)
        undeferred, self.state.undeferred = self.state.undeferred, []
        for pod_info in undeferred:
            out += self.try_again(pod_info, now)
            pod_info.deferred = False
        return out + self._unblocked(event, now) if isinstance(event, PodSeen | PodGone) else out

    def reconsider(self, now: float) -> list[Instruction]:
        """Plan all active preemptions again: another algorithm decides now."""
        out: list[Instruction] = []
        for preemption in list(self.active.values()):
            preemption.stale = True
            out += self._review(preemption, now)
        return out

    def _unblocked(self, event: PodSeen | PodGone, now: float) -> list[Instruction]:
        """Retry a preemption that waits for the pod of this event, if that was bound or is gone."""
        uid = event.pod.uid if isinstance(event, PodSeen) else event.uid
        if uid not in self.planner.unbound or self.state.cache.state(uid) is PodState.ASSUMED:
            return []
        waiting = self.state.pods.get(self.planner.unbound.pop(uid))
        return self.try_again(waiting, now) if waiting is not None else []

    def _review(self, preemption: Preemption, now: float) -> list[Instruction]:
        if preemption.over:
            return []
        lost = [pod_info for pod_info in preemption.members.values() if pod_info.preemption is not preemption]
        if any(pod_info.state in ALLOCATED for pod_info in lost):
            return self.outcomes.close(preemption, Ending.PLACED)
        for pod_info in lost:
            del preemption.members[pod_info.uid]
        if not preemption.members:
            return self.outcomes.close(preemption, Ending.CANCELLED)
        if lost or preemption.stale:
            return self.replan(preemption, now)
        return self._advance(preemption, now)

    def _advance(self, preemption: Preemption, now: float) -> list[Instruction]:
        """Advance the preemption as far as possible, and set when it is due again."""
        remaining = [victim for victim in preemption.victims.values() if self.planner.remains(victim.victim)]
        for victim in remaining:
            self._look(victim, now)
        match preemption.stage:
            case Stage.CHECKING if all(victim.allowed for victim in remaining):
                out = self._record(preemption, now)
            case Stage.CHECKING:
                out = eviction_commands.evict(preemption, remaining, self.policy, now, dry_run=True)
            case Stage.RECORDING if preemption.members.keys() <= preemption.shown:
                return self._confirm(preemption, now)
            case Stage.RECORDING:
                out = eviction_commands.mark(preemption, self.policy, now)
            case Stage.EVICTING if late := [victim for victim in remaining if victim.stays_until <= now]:
                return self._refused(preemption, late, Code.VICTIM_STAYS, now)
            case Stage.EVICTING if any(v.sent and not v.evicted and v.retry_at <= now for v in remaining):
                return self._evict_again(preemption, remaining, now)
            case Stage.EVICTING if remaining:
                out = eviction_commands.evict(preemption, remaining, self.policy, now, dry_run=False)
            case Stage.EVICTING:
                out = self._clear(preemption, now)
            case _:
                out = []
        self._look_again(preemption, remaining)
        return out

    def _look_again(self, preemption: Preemption, remaining: list[VictimProgress]) -> None:
        if not preemption.over:
            self.outcomes.reviews.set(preemption.number, next_look(preemption, remaining, self.policy))

    def _look(self, victim: VictimProgress, now: float) -> None:
        """Mark a victim that is being deleted, by us or by others: it needs no eviction any more, only time."""
        pod = self.state.cache.pod(victim.uid)
        if pod is not None and pod.terminating:
            victim.allowed = True
            victim.goes(pod, now, self.policy)

    # -- stage by stage -------------------------------------------------------------------------------------------

    def _record(self, preemption: Preemption, now: float) -> list[Instruction]:
        shown = max(generation(pod_info.pod) for pod_info in preemption.members.values())
        self._last_plan = max(self._last_plan, shown) + 1
        preemption.plan = f"{preemption.leader.uid}/{self._last_plan}"
        preemption.stage, preemption.since = Stage.RECORDING, now
        preemption.shown, preemption.tries, preemption.rewrite_at = set(), 0, now
        preemption.marked |= preemption.members.keys()
        return eviction_commands.mark(preemption, self.policy, now)

    def _confirm(self, preemption: Preemption, now: float) -> list[Instruction]:
        """Check the plan again: the informer has now shown everything from before the annotations were written."""
        result = self._verdict(preemption)
        if not isinstance(result, Preempt) or not self.planner.same(preemption.member_plans, preemption.leader, result):
            return self._take(preemption, result, now)
        preemption.stage, preemption.since = Stage.EVICTING, now
        for victim in preemption.victims.values():
            victim.tries, victim.retry_at = 0, now
        return self._advance(preemption, now)

    def _evict_again(self, preemption: Preemption, remaining: list[VictimProgress], now: float) -> list[Instruction]:
        """Retry evictions after the first try. Much may have changed, so the plan is checked again first, and only
        victims that are still in the way are evicted."""
        result = self._verdict(preemption, once_more=True)
        if not isinstance(result, Preempt) or not self.planner.same(preemption.member_plans, preemption.leader, result):
            return self._take(preemption, result, now)
        out = eviction_commands.evict(preemption, remaining, self.policy, now, dry_run=False)
        self._look_again(preemption, remaining)
        return out

    def _clear(self, preemption: Preemption, now: float) -> list[Instruction]:
        """The last victim is gone: make kube-scheduler requeue the preemptors at once."""
        preemption.stage, preemption.since = Stage.CLEARED, now
        return self.requeue_members(preemption, now)

    def requeue_members(self, preemption: Preemption, now: float) -> list[Instruction]:
        for pod_info in preemption.members.values():
            self.requeuer.enqueue(pod_info, now, at_once=True)
        return self.requeuer.requeue_due(now)

    # -- reports --------------------------------------------------------------------------------------------------

    def evict_finished(self, event: EvictFinished, now: float) -> list[Instruction]:
        """Handle the report of an Evict or of its dry run: go on, retry later, or plan without that victim."""
        kind = event.outcome.kind
        self.counts["eviction_checks" if event.dry_run else "evictions", kind.value] += 1
        preemption = self.active.get(event.token)
        victim = preemption.victims.get(event.uid) if preemption is not None else None
        if preemption is None or victim is None:
            return []  # late: the preemption is over, or the victim is not in its plan any more
        what = "dry run of the eviction" if event.dry_run else "eviction"
        text = f"{what} of {victim.key}: {kind.value} {event.outcome.detail}".rstrip()
        preemption.leader.record(now, text, self.state.sequence)
        if kind in (OutcomeKind.DONE, OutcomeKind.GONE, OutcomeKind.STALE):
            return self._accepted(preemption, victim, event, now)
        if event.dry_run is not (preemption.stage is Stage.CHECKING):
            return []  # late: the report belongs to an earlier plan
        victim.tries += 1
        if kind is OutcomeKind.REJECTED or victim.tries >= self.policy.limits.most_tries:
            return self._refused(preemption, [victim], Code.VICTIM_PROTECTED, now)
        victim.retry_at = now + max(event.outcome.retry_after, self.policy.verify)
        return self._advance(preemption, now)

    def _accepted(
        self, preemption: Preemption, victim: VictimProgress, event: EvictFinished, now: float
    ) -> list[Instruction]:
        victim.allowed, victim.tries = True, 0
        out: list[Instruction] = []
        if not event.dry_run:
            victim.goes(self.state.cache.pod(victim.uid), now, self.policy)
            preemption.eviction_started = True
        if not event.dry_run and event.outcome.kind is OutcomeKind.DONE:
            self.counts["victims", "evicted"] += 1
            why = reason(Code.PREEMPTED, preemptor=str(preemption.leader.key))
            out.append(RecordEvent(victim.key.namespace, victim.key.name, victim.uid, why, warning=False))
        return [*out, *self._advance(preemption, now)]

    def _refused(
        self, preemption: Preemption, victims: list[VictimProgress], code: Code, now: float
    ) -> list[Instruction]:
        """These victims cannot be evicted: plan with others. If there is no other plan, give up; retry instead if a pod
        was evicted for it already, and patience lasts."""
        for victim in victims:
            self.backoff.protect(victim.uid, now)
        if code is Code.VICTIM_STAYS:
            self.lingering.add((victim.uid for victim in victims), now)
        result = self._verdict(preemption)
        if not isinstance(result, Wait):
            return self._take(preemption, result, now)
        patient = code is Code.VICTIM_PROTECTED and now < preemption.since + self.policy.patience
        if preemption.stage is not Stage.EVICTING or not preemption.eviction_started or not patient:
            return self.outcomes.give_up(preemption, reason(code, victims=[str(victim.key) for victim in victims]), now)
        for victim in victims:
            victim.tries, victim.retry_at = 0, now + self.policy.verify
        return self._advance(preemption, now)

    def recorded(self, event: PreemptionRecorded, now: float) -> list[Instruction]:
        """Handle the report of a RecordPreemption. Only failures count: the informer confirms the annotation."""
        kind = event.outcome.kind
        preemption = self.active.get(event.token)
        if preemption is None or preemption.stage is not Stage.RECORDING or event.uid not in preemption.members:
            return []
        if kind in (OutcomeKind.DONE, OutcomeKind.GONE, OutcomeKind.STALE):
            return []
        preemption.tries += 1
        if kind is OutcomeKind.REJECTED or preemption.tries >= self.policy.limits.most_tries * len(preemption.members):
            detail = event.outcome.detail or kind.value
            return self.outcomes.give_up(preemption, reason(Code.PREEMPTION_NOT_RECORDED, detail=detail), now)
        again = now + max(event.outcome.retry_after, self.policy.verify)
        preemption.rewrite_at = min(preemption.rewrite_at, again)
        return self._advance(preemption, now)

    # -- planning again -------------------------------------------------------------------------------------------

    def _verdict(self, preemption: Preemption, *, once_more: bool = False) -> ScheduleResult:
        """Ask the algorithm for the plan now. `once_more`: without back-off for victims of this preemption."""
        protected = self.backoff.uids - (preemption.victims.keys() if once_more else frozenset())
        try:
            with self.backoff.reduced_to(protected):
                return self.planner.make(preemption.leader, preemption.nodes, protected | self.lingering.uids)
        except AlgorithmFault as fault:
            return Wait(reason(Code.ALGORITHM_FAILED, detail=str(fault)))

    def replan(self, preemption: Preemption, now: float) -> list[Instruction]:
        return self._take(preemption, self._verdict(preemption), now)

    def _take(self, preemption: Preemption, result: ScheduleResult, now: float) -> list[Instruction]:
        """Follow the algorithm's new result, whatever was planned before."""
        if isinstance(result, Wait):
            return self.outcomes.give_up(preemption, result.reason, now)
        if isinstance(result, Bind) or not victims_of(result):
            return self._has_room(preemption, now)
        preemption.revisions += 1
        if preemption.revisions > self.policy.limits.most_revisions:
            return self.outcomes.give_up(
                preemption, reason(Code.PREEMPTION_FAILED, detail="no plan lasts long enough"), now
            )
        try:
            return self._adopt(preemption, preemption.leader, result, now)
        except AlgorithmFault as fault:
            return self.outcomes.give_up(preemption, reason(Code.ALGORITHM_FAILED, detail=str(fault)), now)

    def _has_room(self, preemption: Preemption, now: float) -> list[Instruction]:
        """No victims are needed (any more). The preemptors keep cleared room, but not if victims were spared."""
        if preemption.stage is Stage.CLEARED:  # the room is there, but kube-scheduler did not offer it yet
            return []
        if any(self.planner.remains(victim.victim) for victim in preemption.victims.values()):
            return self.outcomes.unneeded(preemption, now)
        out = self._clear(preemption, now)
        return [*out, *self._advance(preemption, now)]

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Instruction]:
        """Handle back-offs and preemptions that are due."""
        out: list[Instruction] = []
        for pod_info in self.backoff.tick(now):
            out += self.try_again(pod_info, now)
        for number in self.outcomes.reviews.due(now):
            if number in self.active:  # the review of another one may have ended it
                out += self._overdue(self.active[number], now)
        return out

    def _overdue(self, preemption: Preemption, now: float) -> list[Instruction]:
        match preemption.stage:
            case Stage.CLEARED:
                return self.outcomes.expire(preemption, now)
            case Stage.CHECKING | Stage.RECORDING if now >= preemption.since + self.policy.patience:
                why = reason(Code.PREEMPTION_FAILED, detail="the API server did not let it begin in time")
                return self.outcomes.give_up(preemption, why, now)
            case _:
                return self._advance(preemption, now)


def _is_hopeless(plan: ScheduleResult) -> bool:
    """Whether no preemption helps, not even a later one: no pods are only protected from eviction for some time."""
    return isinstance(plan, Wait) and plan.reason.code is not Code.VICTIM_PROTECTED
