"""Deletes orphans: pods with a claim's label but no mark that can be decoded, which no lease would ever end.

Waggle writes label and mark at once, so another client has removed or broken the mark. Then it is not known which
tenant has the pod, until when, or which images it had. An orphan is deleted after `patience` seconds, in which the
mark can be repaired, and only if it has not changed since. If a workload owns the pod, it creates another one.
"""

from __future__ import annotations

from extender.claims.records import WarmPod
from extender.claims.state import ClaimState
from extender.claims.writes.give import GivePodBack, PodGivenBack
from extender.core.deadlines import Deadlines
from extender.core.outcomes import OutcomeKind

#: Seconds between two tries to delete an orphan, and by which a server is later for each server that ranks before it.
_AGAIN, _TURN = 30.0, 10.0
_LEASE = 3600.0


class Orphans:
    """See the module. `deleted`: how many orphans this server has deleted; `len`: how many there are."""

    def __init__(self, state: ClaimState, patience: float) -> None:
        self._state = state
        self._patience = patience
        #: When each is deleted, by UID.
        self.timers: Deadlines[str] = Deadlines(state.alarm)
        self._tokens: dict[int, str] = {}
        self.deleted = 0

    def __len__(self) -> int:
        return len(self.timers)

    def seen(self, now: float) -> None:
        """Start or stop the timers of pods that became orphans, or are none any more."""
        for uid in list(self._state.orphans):
            del self._state.orphans[uid]
            pod = self._state.pods.get(uid)
            if pod is None or not pod.is_orphan:
                self.timers.discard(uid)
            elif uid not in self.timers:
                self.timers.set(uid, now + self._patience + _TURN * self._state.members.rank(uid))

    def due(self, now: float) -> list[GivePodBack]:
        """Return the deletions that are due."""
        found = []
        while (uid := self.timers.pop(now)) is not None:
            pod = self._state.pods.get(uid)
            if pod is None or not pod.is_orphan:
                continue  # the event that is being handled has repaired or deleted it
            self.timers.set(uid, now + _AGAIN)
            if self._has_pools(pod) and self._state.ledger.holder(f"orphan:{uid}") is None:
                found.append(self._delete(pod, now))
        return found

    def _has_pools(self, pod: WarmPod) -> bool:
        return any(key.namespace == pod.namespace for key in self._state.pools)

    def _delete(self, pod: WarmPod, now: float) -> GivePodBack:
        hold = self._state.ledger.acquire(f"orphan:{pod.uid}", pod.claim_label, now=now, lease=_LEASE)
        self._tokens[hold.token] = pod.uid
        return GivePodBack(
            token=hold.token,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            claim=pod.claim_label,
            resource_version=pod.resource_version,
        )

    def given(self, report: PodGivenBack) -> None:
        """Handle the report of a deletion. If it failed, the timer tries again."""
        if self._tokens.pop(report.token, None) is not None:
            self._state.ledger.release(report.token)
            self.deleted += report.outcome.kind is OutcomeKind.DONE
