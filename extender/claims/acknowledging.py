"""Makes a claim of another server this server's as well, so that it can answer from it.

               acknowledge                    DONE, or seen on the pod
    (a claim) --------------> each pod: WRITING ------------------------> (known)
                                 ^ |  | LOST, REJECTED, UNKNOWN: the pod is read
                                 | |  v
                                 | |  looked at -- another claim's, nobody's, gone --> (lost)
                                 | +--+ THROTTLED: again after a pause
                                 +----+ still this claim's, with another mark: again

The server that began the claim may not have answered yet, and gives the pods back if its caller goes away, or if the
key is another claim's. It gives back only pods whose mark does not say that the claim is known, and an acknowledgement
tests the mark that it replaces: one of the two wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from extender.claims.records import WarmPod
from extender.claims.state import Claim, ClaimState
from extender.claims.writes import names
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.renew import PodRenewed, RenewPod
from extender.core.deadlines import Deadlines
from extender.core.outcomes import Outcome, OutcomeKind

_TRIES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LEASE = 3600.0

Command = RenewPod | LookAtPod


@dataclass(slots=True)
class _Step:
    """One pod of a acknowledgement."""

    token: int
    pod: WarmPod
    claim: str
    tries: int = 0
    pauses: int = 0
    #: How the write ended that the look has to explain; None: it is being written.
    unclear: Outcome | None = None


@dataclass(slots=True)
class _Acknowledgement:
    claim: Claim
    steps: set[int] = field(default_factory=set)


class AcknowledgingClaims:
    """See the module. When a acknowledgement ends, its claim's key is looked at again."""

    def __init__(self, state: ClaimState) -> None:
        self._state = state
        self._acknowledgements: dict[str, _Acknowledgement] = {}
        self._steps: dict[int, _Step] = {}
        self._by_uid: dict[str, int] = {}
        self.timers: Deadlines[int] = Deadlines(state.alarm)
        #: Why the API server refuses to acknowledge a claim, by its name.
        self.refusals: dict[str, str] = {}

    def acknowledge(self, claim: Claim, now: float) -> list[Command]:
        """Begin to acknowledge a claim, unless that has begun."""
        if claim.name in self._acknowledgements:
            return []
        acknowledgement = self._acknowledgements[claim.name] = _Acknowledgement(claim)
        found: list[Command] = []
        for uid in sorted(claim.uids):
            pod = self._state.pods[uid]
            if pod.mark is None or pod.mark.is_known or pod.is_terminating:
                continue
            hold = self._state.ledger.acquire(f"acknowledge:{uid}", claim.name, now=now, lease=_LEASE)
            step = self._steps[hold.token] = _Step(hold.token, pod, claim.name)
            acknowledgement.steps.add(hold.token)
            self._by_uid[uid] = hold.token
            found.append(self._write(step))
        self._end_if_over(acknowledgement)
        return found

    @staticmethod
    def _write(step: _Step) -> RenewPod:
        pod, mark = step.pod, step.pod.mark
        assert mark is not None
        step.unclear = None
        step.tries += 1
        return RenewPod(
            token=step.token,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            before=pod.mark_text,
            mark=msgspec.structs.replace(names.named_as(pod.claim_label, mark), is_known=True),
        )

    @staticmethod
    def _look(step: _Step) -> LookAtPod:
        return LookAtPod(step.token, step.pod.namespace, step.pod.name)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def written(self, report: PodRenewed, now: float) -> list[Command]:
        """A write ended."""
        step = self._steps.get(report.token)
        if step is None or step.unclear is not None:
            return []
        kind = report.outcome.kind
        if kind is OutcomeKind.DONE and report.pod is not None:
            self._state.see(report.pod)
            self._end(step)
        elif kind in (OutcomeKind.GONE, OutcomeKind.STALE):
            self._state.lose(step.pod.uid)
            self._end(step)
        elif kind is OutcomeKind.THROTTLED:
            step.tries -= 1  # nothing was tried
            self._pause(step, now, report.outcome.retry_after)
        else:
            step.unclear = report.outcome
            return [self._look(step)]
        return []

    def looked(self, report: PodLooked, now: float) -> list[Command]:
        """A pod was read, or could not be."""
        step = self._steps.get(report.token)
        if step is None or step.unclear is None:
            return []
        pod, unclear = report.pod, step.unclear
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != step.pod.uid):
            self._state.lose(step.pod.uid)
            self._end(step)
            return []
        if report.outcome.kind is not OutcomeKind.DONE or pod is None:
            self._pause(step, now)
            return []
        self._state.see(pod)
        if self._is_over(step):
            return []
        before, step.pod = step.pod.mark_text, self._state.pods[pod.uid]
        is_refused = unclear.kind is OutcomeKind.REJECTED and step.pod.mark_text == before
        if is_refused or step.tries >= _TRIES:
            self.refusals[step.claim] = unclear.detail or str(unclear.kind)
            self._end(step)
            return []
        return [self._write(step)]

    def seen(self, uid: str) -> None:
        """The pod was seen, or is gone."""
        token = self._by_uid.get(uid)
        if token is not None:
            self._is_over(self._steps[token])

    def again(self, now: float) -> list[Command]:
        """Return what is due."""
        found: list[Command] = []
        while (token := self.timers.pop(now)) is not None:
            step = self._steps[token]
            if step.unclear is not None:
                found.append(self._look(step))
            elif not self._is_over(step):
                step.pod = self._state.pods[step.pod.uid]
                found.append(self._write(step))
        return found

    def _pause(self, step: _Step, now: float, seconds: float = 0.0) -> None:
        step.pauses += 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(step.pauses - 1, 10))
        self.timers.set(step.token, now + max(seconds, pause))

    # -- ends -----------------------------------------------------------------------------------------------------

    def _is_over(self, step: _Step) -> bool:
        """Whether what is known of the pod ends the step: it is known, or not in this claim any more."""
        pod = self._state.pods.get(step.pod.uid)
        mark = None if pod is None or pod.is_terminating else pod.mark
        if mark is None or mark.claim != step.claim or mark.is_known:
            self._end(step)
            return True
        return False

    def _end(self, step: _Step) -> None:
        acknowledgement = self._acknowledgements[step.claim]
        self.timers.discard(step.token)
        self._state.ledger.release(step.token)
        acknowledgement.steps.discard(step.token)
        del self._steps[step.token], self._by_uid[step.pod.uid]
        self._end_if_over(acknowledgement)

    def _end_if_over(self, acknowledgement: _Acknowledgement) -> None:
        if acknowledgement.steps:
            return
        claim = acknowledgement.claim
        del self._acknowledgements[claim.name]
        self._state.keys_changed[claim.pool, claim.tenant, claim.key] = None

    def validate(self) -> None:
        """Raise AssertionError if a acknowledgement would never end."""
        for name, acknowledgement in self._acknowledgements.items():
            assert acknowledgement.steps, f"the acknowledgement of {name} has nothing to do"
        steps = {token for each in self._acknowledgements.values() for token in each.steps}
        assert steps == set(self._steps) == set(self._by_uid.values())
