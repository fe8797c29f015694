"""Renews the leases of claims: writes a later expiry time on every pod of the claim.

    (claimed) -- ask --> the mark on each pod is changed: see `marking` --> renewed

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
from extender.claims.marking import Command, End, Marking
from extender.claims.records import ClaimMark
from extender.claims.state import Claim, ClaimState
from extender.claims.writes.look import PodLooked
from extender.claims.writes.renew import PodRenewed
from extender.core.deadlines import Deadlines

#: Seconds after which a caller gets the answer WRITE_UNKNOWN.
_PATIENCE = 30.0


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
    #: The tokens of the changes of marks.
    changes: set[int] = field(default_factory=set)
    has_lost: bool = False
    #: Why a write was refused; None: none was.
    refusal: str | None = None


Instruction = Answered | Command


class RenewingClaims:
    """See the module. `epoch`: seconds since 1970 when the engine's clock was 0. `shares`: other servers may have
    claims with the same keys; one that is renewed was answered."""

    def __init__(self, state: ClaimState, epoch: float, *, shares: bool = False) -> None:
        self._shares = shares
        self._state = state
        self._epoch = epoch
        self._renewals: dict[str, _Renewal] = {}
        self._marking = Marking(
            state, "renew", emit=self._emit, changed=self._renewed, is_done=self._is_done, ended=self._ended
        )
        #: The claim of each call that waits for its answer.
        self._claims: dict[str, str] = {}
        #: When renewals are given up, by claim.
        self._patience: Deadlines[str] = Deadlines(state.alarm)
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
        self._patience.set(claim.name, renewal.gives_up)
        for uid in sorted(claim.uids):
            if (token := self._marking.begin(claim.name, uid, now)) is not None:
                renewal.changes.add(token)
        self._end_if_over(renewal, now)

    def _is_done(self, claim: str, mark: ClaimMark) -> bool:
        renewal = self._renewals[claim]
        return mark.expires == renewal.target or (mark.expires > renewal.target and not renewal.may_shorten)

    def _renewed(self, claim: str, mark: ClaimMark) -> ClaimMark:
        is_known = self._shares and bool(mark.key)
        return msgspec.structs.replace(mark, expires=self._renewals[claim].target, is_known=is_known)

    # -- events ---------------------------------------------------------------------------------------------------

    def written(self, report: PodRenewed, now: float) -> list[Instruction]:
        """Handle the report of a write."""
        self._marking.written(report, now)
        return self._said()

    def looked(self, report: PodLooked, now: float) -> list[Instruction]:
        """Handle the report of a read."""
        self._marking.looked(report, now)
        return self._said()

    def seen(self, uid: str, now: float) -> list[Instruction]:
        """Handle a new version of a pod, or its deletion."""
        if not self._renewals:
            return []
        self._marking.seen(uid, now)
        return self._said()

    def again(self, now: float) -> list[Instruction]:
        """Return the instructions that are due."""
        self._marking.again(now)
        while (claim := self._patience.pop(now)) is not None:
            self._finish(self._renewals[claim], ClaimCode.WRITE_UNKNOWN, now)
        return self._said()

    # -- ends -----------------------------------------------------------------------------------------------------

    def leave(self, request: str) -> None:
        """Forget a call whose caller has disconnected. The renewal continues, because its writes were sent."""
        renewal = self._renewals.get(self._claims.pop(request, ""))
        if renewal is not None:
            renewal.callers.pop(request, None)
            renewal.later.pop(request, None)

    def _ended(self, token: int, claim: str, end: End, why: str, now: float) -> None:
        renewal = self._renewals[claim]
        renewal.changes.discard(token)
        if end is End.LOST:
            renewal.has_lost = True
        elif end is End.REFUSED:
            renewal.refusal = why
        self._end_if_over(renewal, now)

    def _end_if_over(self, renewal: _Renewal, now: float) -> None:
        if renewal.changes:
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
        for token in renewal.changes:
            self._marking.drop(token)
        self._patience.discard(renewal.claim)
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

    def _emit(self, command: Command) -> None:
        self._out.append(command)

    def _said(self) -> list[Instruction]:
        said, self._out = self._out, []
        return said

    def validate(self) -> None:
        """Raise AssertionError if a call might never be answered."""
        self._marking.validate()
        for name, renewal in self._renewals.items():
            assert renewal.changes, f"the renewal of {name} has nothing to do"
            assert name in self._patience, f"the renewal of {name} has no time limit"
        waiting = {call: name for name, each in self._renewals.items() for call in (*each.callers, *each.later)}
        assert waiting == self._claims, f"calls {self._claims}, waiting {waiting}"
        changes = {token for renewal in self._renewals.values() for token in renewal.changes}
        assert changes == self._marking.tokens()
