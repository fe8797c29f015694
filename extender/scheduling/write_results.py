"""Handles write results, and holds whose deadline has passed. Unknown is an outcome; nothing expires unverified.

WriteBinding --> done -------------------------------> committed, wait for the informer to confirm
             --> gone, stale ------------------------> the pod is no more
             --> throttled --------------------------> held again, kube-scheduler retries
             --> rejected ---------------------------> the place is free again
             --> lost, unknown --> ReadPod --> bound here -------> confirmed: our write, or another to the same node
                                           --> bound elsewhere --> bound there, the place is free
                                           --> not bound --------> lost: refused for another reason; free
                                                                   unknown: held, the write may yet arrive
                                           --> gone -------------> the pod is no more
                                           --> not readable -----> callers are answered, we read again later

a hold is due --> ReadPod --> not bound --> expired, the place is free
"""

from __future__ import annotations

from collections import Counter

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.ledger import HoldState
from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import BindFinished, PodRead, ReadPod, RecordEvent
from extender.scheduling.events import Instruction, PodSeen
from extender.scheduling.informer_handler import InformerHandler
from extender.scheduling.policy import PreemptionMode
from extender.scheduling.state.pod_info import PodInfo, State, Why
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class WriteResultHandler:
    """Handles the committer's reports, and holds and writes that are due."""

    def __init__(
        self, state: SchedulingState, informer_handler: InformerHandler, counts: Counter[tuple[str, str]]
    ) -> None:
        self.state = state
        self.policy = state.policy
        self.informer_handler = informer_handler
        self.requeuer = informer_handler.requeuer
        self.counts = counts
        self._reads = 0
        #: Live reads in flight: the pod's UID by the read's token.
        self._reading: dict[int, str] = {}

    # -- reports --------------------------------------------------------------------------------------------------

    def bind_finished(self, event: BindFinished, now: float) -> list[Instruction]:
        """Handle the report of a WriteBinding, as in the module's diagram. A report with an old token is late."""
        outcome = event.outcome
        self.counts["binds", outcome.kind.value] += 1
        pod_info = self._committing(event.token)
        if pod_info is None:
            return []  # late: the pod is gone, or was already found bound
        pod_info.record(
            now, f"bind to {pod_info.node}: {outcome.kind.value} {outcome.detail}".rstrip(), self.state.sequence
        )
        match outcome.kind:
            case OutcomeKind.DONE:
                self.state.ledger.committed(event.token, now=now, lease=self.policy.lease)
                self.state.unresolved.discard(pod_info.uid)
                return self.informer_handler.answer_binds(pod_info, None)
            case OutcomeKind.GONE | OutcomeKind.STALE:
                return self._vanished(pod_info, outcome.kind, now)
            case OutcomeKind.THROTTLED:
                return self._hold_again(pod_info, reason(Code.BIND_THROTTLED), now)
            case OutcomeKind.REJECTED:
                return self._rejected(pod_info, outcome.detail, now)
            case OutcomeKind.LOST | OutcomeKind.UNKNOWN:
                if outcome.kind is OutcomeKind.UNKNOWN:
                    pod_info.doubt_until = now + self.policy.arrival
                pod_info.lost = outcome.detail or "conflict" if outcome.kind is OutcomeKind.LOST else ""
                return [self._read_outcome(pod_info, now)]

    def pod_read(self, event: PodRead, now: float) -> list[Instruction]:
        """Handle the report of a ReadPod, as in the module's diagram. Only the pod's latest read counts."""
        pod_info = self.state.pods.get(self._reading.pop(event.token, ""))
        if pod_info is None or pod_info.reading is None or pod_info.read_token != event.token:
            return []  # superseded by a bind, a filter, an event or a younger read
        why, pod_info.reading = pod_info.reading, None
        pod = event.pod
        if event.outcome.kind is OutcomeKind.GONE:
            return self._vanished(pod_info, OutcomeKind.GONE, now)
        if event.outcome.kind is not OutcomeKind.DONE or pod is None:
            return self._unreadable(pod_info, why, now)
        if pod.uid != pod_info.uid:
            return self._vanished(pod_info, OutcomeKind.STALE, now) + self.informer_handler.pod_seen(PodSeen(pod), now)
        if pod.node_name or pod.finished:
            self.state.renew(pod_info, now)
            return self.informer_handler.pod_found(pod_info, pod, now)
        if pod.terminating:
            return self._vanished(pod_info, OutcomeKind.GONE, now)
        if why is Why.UNSEEN:
            return self._exists(pod_info, pod, now)
        return self._not_bound(pod_info, why, now)

    # -- results of reads -----------------------------------------------------------------------------------------

    def _exists(self, pod_info: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """A pod known only from kube-scheduler exists. Verify it again later; remove it if it wants no place."""
        if not self.policy.should_schedule(pod):
            return self.informer_handler.pod_gone(pod_info, "it is gated or not ours", now, tombstone=False)
        self.state.renew(pod_info, now)
        return []

    def _not_bound(self, pod_info: PodInfo, why: Why, now: float) -> list[Instruction]:
        if why is Why.OUTCOME:
            return self._not_written(pod_info, now)
        hold = self.state.ledger.get(pod_info.token)
        if hold is not None and hold.state is HoldState.COMMITTED:
            self.counts["anomalies", "written_but_unbound"] += 1
        self.counts["holds", "expired"] += 1
        expired = reason(Code.HOLD_EXPIRED, node=pod_info.node)
        shown = pod_info.announce(expired, warning=False)
        self.informer_handler.let_go(pod_info, expired, now, expired=True)
        return [*shown, *self.requeuer.room_freed(now)]

    def _not_written(self, pod_info: PodInfo, now: float) -> list[Instruction]:
        """The read shows the pod unbound. A refused write never arrives; one that timed out still may."""
        if pod_info.lost:
            return self._rejected(pod_info, pod_info.lost, now)
        pod_info.record(now, "the bind has not arrived so far; the place is kept", self.state.sequence)
        return self._hold_again(pod_info, reason(Code.BIND_UNKNOWN), now)

    def _hold_again(self, pod_info: PodInfo, why: Reason, now: float) -> list[Instruction]:
        if pod_info.term != self.state.term:  # its place was decided in an earlier term
            answers = self.informer_handler.answer_binds(pod_info, why)
            self.informer_handler.let_go(pod_info, why, now)
            return [*answers, *self.requeuer.room_freed(now)]
        self.state.ledger.abort(pod_info.token, now=now, lease=self.policy.lease)
        self.state.unresolved.discard(pod_info.uid)
        pod_info.reason = why
        if pod_info.pod.terminating:
            answers = self.informer_handler.answer_binds(pod_info, why)
            return answers + self.informer_handler.pod_gone(pod_info, "it is being deleted", now, tombstone=False)
        if pod_info.place_pinned:
            self.requeuer.enqueue(pod_info, now)
        return self.informer_handler.answer_binds(pod_info, why)

    def _unreadable(self, pod_info: PodInfo, why: Why, now: float) -> list[Instruction]:
        """The live read failed. Answer the callers now rather than let them wait, and read again later."""
        self.counts["reads", "failed"] += 1
        if why is not Why.OUTCOME:
            return []  # the hold is due again at its verification deadline
        self.state.unresolved.set(pod_info.uid, now + self.policy.verify)
        pod_info.reason = reason(Code.BIND_UNKNOWN)
        return self.informer_handler.answer_binds(pod_info, pod_info.reason)

    def _vanished(self, pod_info: PodInfo, kind: OutcomeKind, now: float) -> list[Instruction]:
        code = Code.BIND_STALE if kind is OutcomeKind.STALE else Code.BIND_GONE
        answers = self.informer_handler.answer_binds(pod_info, reason(code))
        # "Gone" is about the name. It ends this UID for good only if the API server has shown this UID before.
        tombstone = bool(self.state.shown(pod_info))
        return answers + self.informer_handler.pod_gone(
            pod_info, "the API server has it no more", now, tombstone=tombstone
        )

    def _rejected(self, pod_info: PodInfo, detail: str, now: float) -> list[Instruction]:
        """The write was refused. Free the place, unless an earlier, unanswered write may still arrive there."""
        why = reason(Code.BIND_REJECTED, detail=detail or "no reason given")
        shown = RecordEvent(pod_info.key.namespace, pod_info.key.name, pod_info.uid, why)
        if pod_info.doubt_until is not None:
            return [*self._hold_again(pod_info, why, now), shown]
        answers = self.informer_handler.answer_binds(pod_info, why)
        self.informer_handler.let_go(pod_info, why, now)
        return [*answers, shown, *self.requeuer.room_freed(now)]

    def _committing(self, token: int) -> PodInfo | None:
        hold = self.state.ledger.get(token)
        return self.state.pods.holding(token) if hold is not None and hold.state is HoldState.COMMITTING else None

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Instruction]:
        """Verify holds that are due, and read pods whose write or read was never reported."""
        out: list[Instruction] = []
        for hold in self.state.ledger.due(now):
            pod_info = self.state.pods.holding(hold.token)
            if pod_info is not None and self.state.ledger.get(hold.token) is not None:
                out += self._due(pod_info, now)
        due = set(self.state.unresolved.due(now))
        for uid in [uid for uid in self.state.unresolved if uid in due]:  # in the order in which the writes began
            pod_info = self.state.pods.get(uid)
            if pod_info is not None:
                pod_info.doubt_until = now + self.policy.arrival
                if pod_info.reading is Why.OUTCOME:  # the read was not answered either: answer the callers now
                    out += self.informer_handler.answer_binds(pod_info, reason(Code.BIND_UNKNOWN))
                out.append(self._read_outcome(pod_info, now))
        return out

    def _due(self, pod_info: PodInfo, now: float) -> list[Instruction]:
        if pod_info.state is State.PREEMPTING:
            if pod_info.preemption is not None or self._victims_are_going(pod_info):
                self.state.renew(pod_info, now)
                return []
            self.counts["holds", "preemption_expired"] += 1
            if self.policy.preemption is not PreemptionMode.KUBE_SCHEDULER:  # kube-scheduler may see no reason to retry
                self.requeuer.enqueue(pod_info, now)
            self.state.move(pod_info, State.WAITING, now, TransitionContext("nobody asked for its preemption any more"))
            return self.requeuer.room_freed(now)
        if pod_info.doubt_until is not None and now < pod_info.doubt_until:
            self.state.ledger.renew(pod_info.token, now=now, lease=pod_info.doubt_until - now)
            return []
        self.state.ledger.renew(pod_info.token, now=now, lease=self.policy.verify)
        return [self._read(pod_info, Why.EXPIRY if pod_info.state is State.BINDING else Why.UNSEEN)]

    def _victims_are_going(self, pod_info: PodInfo) -> bool:
        """Whether a victim is terminating. kube-scheduler does not ask again before the victims are gone, and their
        grace periods may be longer than any lease."""
        victims = (self.state.cache.pod(victim.uid) for victim in pod_info.victims)
        return any(victim is not None and victim.terminating for victim in victims)

    def _read_outcome(self, pod_info: PodInfo, now: float) -> ReadPod:
        self.state.unresolved.set(pod_info.uid, now + self.policy.write_timeout)
        return self._read(pod_info, Why.OUTCOME)

    def _read(self, pod_info: PodInfo, why: Why) -> ReadPod:
        """Return a live read with a token of its own, so that the result of an earlier read is ignored."""
        self._reads += 1
        self._reading.pop(pod_info.read_token, None)
        pod_info.reading, pod_info.read_token = why, self._reads
        self._reading[self._reads] = pod_info.uid
        return ReadPod(self._reads, pod_info.key.namespace, pod_info.key.name, pod_info.uid)
