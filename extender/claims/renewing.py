"""Renews the leases of claims: writes a later expiry time on every pod of the claim.

                 ask                        DONE, or seen on the pod
    (claimed) --------> each pod: WRITING ---------------------------> renewed
                             ^ |  | LOST, REJECTED, UNKNOWN: the pod is read
                             | |  v
                             | |  read -- in another claim, in none, or gone --> lost
                             | |  |
                             | +--+ THROTTLED: again after a pause
                             +----+ in this claim, with another mark: again

A claim lasts until the latest expiry time on any of its pods, for every server. So a renewal that reached only some
pods of a gang keeps all of them, and the next renewal repairs the others.

A renewal tests the mark that it replaces, and an expiry tests the mark that has expired, so exactly one of them wins.
If a pod is lost after the old lease expired, the claim has ended, and the pods that were renewed are given back. If a
pod was lost earlier, another client has deleted it: the claim goes on without it, as it would without a renewal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from extender.claims.codes import ClaimCode
from extender.claims.events import Answered
from extender.claims.records import WarmPod
from extender.claims.state import Claim, ClaimState
from extender.claims.writes import names
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.renew import PodRenewed, RenewPod
from extender.core.deadlines import Deadlines
from extender.core.outcomes import Outcome, OutcomeKind

#: Seconds after which a caller gets the answer WRITE_UNKNOWN.
_PATIENCE = 30.0
_TRIES = 5
#: Seconds until a pod is read or written again: the first value, doubled each time up to the second.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LEASE = 3600.0


@dataclass(slots=True)
class _Step:
    """One pod of a renewal."""

    token: int
    pod: WarmPod
    claim: str
    tries: int = 0
    pauses: int = 0
    #: The outcome of the write because of which the pod is being read; None: it is being written.
    unclear: Outcome | None = None


@dataclass(slots=True)
class _Renewal:
    """The renewal of one claim. `target`: the new expiry time, seconds since 1970."""

    claim: str
    target: float
    #: The old expiry time, seconds since 1970.
    was: float
    may_shorten: bool
    #: When it is given up, seconds of the engine's clock.
    gives_up: float
    #: The calls that this renewal answers.
    callers: dict[str, None] = field(default_factory=dict)
    #: Calls for another expiry time, which a later renewal answers: the time, and whether it may be earlier.
    later: dict[str, tuple[float, bool]] = field(default_factory=dict)
    steps: dict[int, _Step] = field(default_factory=dict)
    has_lost: bool = False
    #: Why a write was refused; None: none was.
    refusal: str | None = None


Instruction = Answered | RenewPod | LookAtPod


class RenewingClaims:
    """See the module. `epoch`: seconds since 1970 when the engine's clock was 0. `shares`: other servers may have
    claims with the same keys; one that is renewed was answered."""

    def __init__(self, state: ClaimState, epoch: float, *, shares: bool = False) -> None:
        self._shares = shares
        self._state = state
        self._epoch = epoch
        self._renewals: dict[str, _Renewal] = {}
        self._steps: dict[int, _Step] = {}
        self._by_uid: dict[str, int] = {}
        #: The claim of each call that waits for its answer.
        self._claims: dict[str, str] = {}
        #: When pods are written or read again, and when renewals are given up.
        self.timers: Deadlines[int] = Deadlines(state.alarm)
        self.patience: Deadlines[str] = Deadlines(state.alarm)
        self._out: list[Instruction] = []

    def ask(self, claim: Claim, request: str, seconds: float, now: float, *, may_shorten: bool) -> list[Instruction]:
        """Start a renewal to `seconds` from now, or join a running one that gives as much."""
        target = now + self._epoch + seconds
        renewal = self._renewals.get(claim.name)
        self._claims[request] = claim.name
        if renewal is None:
            self._begin(claim, {request: None}, target, now, may_shorten)
        elif may_shorten or target > renewal.target:
            renewal.later[request] = (target, may_shorten)
        else:
            renewal.callers[request] = None
        return self._said()

    def _begin(self, claim: Claim, callers: dict[str, None], target: float, now: float, may_shorten: bool) -> None:
        renewal = _Renewal(claim.name, target, claim.expires, may_shorten, now + _PATIENCE, dict(callers))
        self._renewals[claim.name] = renewal
        self.patience.set(claim.name, renewal.gives_up)
        for uid in sorted(claim.uids):
            pod = self._state.pods[uid]
            if pod.is_terminating or self._is_done(renewal, pod):
                continue
            if (other := self._by_uid.get(uid)) is not None:
                # A read has shown that the pod came to this claim while it was renewed for the one before.
                self._settled(self._steps[other], now)
            hold = self._state.ledger.acquire(f"renew:{uid}", claim.name, now=now, lease=_LEASE)
            step = renewal.steps[hold.token] = self._steps[hold.token] = _Step(hold.token, pod, claim.name)
            self._by_uid[uid] = hold.token
            self._write(step)
        self._end_if_over(renewal, now)

    @staticmethod
    def _is_done(renewal: _Renewal, pod: WarmPod) -> bool:
        expires = pod.mark.expires if pod.mark is not None else 0.0
        return expires == renewal.target or (expires > renewal.target and not renewal.may_shorten)

    def _write(self, step: _Step) -> None:
        pod, mark = step.pod, step.pod.mark
        assert mark is not None
        step.unclear = None
        step.tries += 1
        target = self._renewals[step.claim].target
        self._out.append(
            RenewPod(
                token=step.token,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                before=pod.mark_text,
                mark=msgspec.structs.replace(
                    names.named_as(pod.claim_label, mark),
                    expires=target,
                    is_known=self._shares and bool(mark.key),
                ),
            )
        )

    def _look(self, step: _Step) -> None:
        self._out.append(LookAtPod(step.token, step.pod.namespace, step.pod.name))

    # -- outcomes -------------------------------------------------------------------------------------------------

    def renewed(self, report: PodRenewed, now: float) -> list[Instruction]:
        """Handle the report of a write."""
        step = self._steps.get(report.token)
        if step is None or step.unclear is not None:
            return []
        kind = report.outcome.kind
        if kind is OutcomeKind.DONE and report.pod is not None:
            self._state.see(report.pod)
            self._leave(step, now)
        elif kind in (OutcomeKind.GONE, OutcomeKind.STALE):
            self._state.lose(step.pod.uid)
            self._leave(step, now, is_lost=True)
        elif kind is OutcomeKind.THROTTLED:
            step.tries -= 1  # the API server did not process it
            self._pause(step, now, report.outcome.retry_after)
        else:
            step.unclear = report.outcome
            self._look(step)
        return self._said()

    def looked(self, report: PodLooked, now: float) -> list[Instruction]:
        """Handle the report of a read."""
        step = self._steps.get(report.token)
        if step is None or step.unclear is None:
            return []
        pod = report.pod
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != step.pod.uid):
            self._state.lose(step.pod.uid)
            self._leave(step, now, is_lost=True)
        elif report.outcome.kind is not OutcomeKind.DONE or pod is None:
            self._pause(step, now)
        else:
            self._state.see(pod)
            self._judge(step, step.unclear, now)
        return self._said()

    def _judge(self, step: _Step, unclear: Outcome, now: float) -> None:
        """Decide what follows after a write failed and its pod was read."""
        if self._settled(step, now):
            return
        pod, before = self._state.pods[step.pod.uid], step.pod.mark_text
        step.pod = pod
        is_refused = unclear.kind is OutcomeKind.REJECTED and pod.mark_text == before
        if is_refused or step.tries >= _TRIES:
            self._renewals[step.claim].refusal = unclear.detail or str(unclear.kind)
            self._leave(step, now)
        else:
            self._write(step)

    def seen(self, uid: str, now: float) -> list[Instruction]:
        """Handle a new version of a pod, or its deletion."""
        token = self._by_uid.get(uid)
        if token is None:
            return []
        self._settled(self._steps[token], now)
        return self._said()

    def _settled(self, step: _Step, now: float) -> bool:
        """End the step if the pod is renewed, or no longer in this claim. Return whether it ended."""
        pod = self._state.pods.get(step.pod.uid)
        if pod is None or pod.is_terminating or pod.mark is None or pod.mark.claim != step.claim:
            self._leave(step, now, is_lost=True)
            return True
        if self._is_done(self._renewals[step.claim], pod):
            self._leave(step, now)
            return True
        return False

    # -- time -----------------------------------------------------------------------------------------------------

    def again(self, now: float) -> list[Instruction]:
        """Return the instructions that are due."""
        while (token := self.timers.pop(now)) is not None:
            step = self._steps[token]
            if step.unclear is not None:
                self._look(step)
            elif not self._settled(step, now):
                step.pod = self._state.pods[step.pod.uid]
                self._write(step)
        while (claim := self.patience.pop(now)) is not None:
            self._finish(self._renewals[claim], ClaimCode.WRITE_UNKNOWN, now)
        return self._said()

    def _pause(self, step: _Step, now: float, seconds: float = 0.0) -> None:
        step.pauses += 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(step.pauses - 1, 10))
        self.timers.set(step.token, now + max(seconds, pause))

    # -- ends -----------------------------------------------------------------------------------------------------

    def leave(self, request: str) -> None:
        """Forget a call whose caller has disconnected. The renewal continues, because its writes were sent."""
        renewal = self._renewals.get(self._claims.pop(request, ""))
        if renewal is not None:
            renewal.callers.pop(request, None)
            renewal.later.pop(request, None)

    def _leave(self, step: _Step, now: float, *, is_lost: bool = False) -> None:
        renewal = self._renewals[step.claim]
        self._drop(renewal, step)
        renewal.has_lost |= is_lost
        self._end_if_over(renewal, now)

    def _drop(self, renewal: _Renewal, step: _Step) -> None:
        self.timers.discard(step.token)
        self._state.ledger.release(step.token)
        del renewal.steps[step.token], self._steps[step.token], self._by_uid[step.pod.uid]

    def _end_if_over(self, renewal: _Renewal, now: float) -> None:
        if renewal.steps:
            return
        claim = self._state.claims.get(renewal.claim)
        if claim is not None and renewal.has_lost and now + self._epoch >= renewal.was:
            claim.is_ending = True
            self._state.changed[claim.name] = None
        if claim is None or claim.is_ending:
            self._finish(renewal, ClaimCode.CLAIM_ENDED, now)
        elif renewal.refusal is not None:
            self._finish(renewal, ClaimCode.WRITE_REFUSED, now, renewal.refusal)
        else:
            self._finish(renewal, ClaimCode.RENEWED, now)

    def _finish(self, renewal: _Renewal, code: ClaimCode, now: float, detail: str = "") -> None:
        for step in list(renewal.steps.values()):
            self._drop(renewal, step)
        self.patience.discard(renewal.claim)
        del self._renewals[renewal.claim]
        claim = self._state.claims.get(renewal.claim)
        expires = 0.0 if claim is None or code is not ClaimCode.RENEWED else claim.expires
        callers = dict(renewal.callers)
        if code is not ClaimCode.RENEWED:
            callers.update(dict.fromkeys(renewal.later))
        for each in callers:
            del self._claims[each]
        self._out += [
            Answered(request=each, code=code, claim=renewal.claim, expires=expires, detail=detail) for each in callers
        ]
        if claim is not None and code is ClaimCode.RENEWED and renewal.later:
            target, _ = next(reversed(renewal.later.values()))
            may_shorten = any(each for _, each in renewal.later.values())
            target = target if may_shorten else max(each for each, _ in renewal.later.values())
            self._begin(claim, dict.fromkeys(renewal.later), target, now, may_shorten)

    def _said(self) -> list[Instruction]:
        said, self._out = self._out, []
        return said

    def validate(self) -> None:
        """Raise AssertionError if a call might never be answered."""
        for name, renewal in self._renewals.items():
            assert renewal.steps, f"the renewal of {name} has no steps"
            assert name in self.patience, f"the renewal of {name} has no time limit"
        waiting = {call: name for name, each in self._renewals.items() for call in (*each.callers, *each.later)}
        assert waiting == self._claims, f"calls {self._claims}, waiting {waiting}"
        steps = {token for renewal in self._renewals.values() for token in renewal.steps}
        assert steps == set(self._steps) == set(self._by_uid.values())
