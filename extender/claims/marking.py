"""Changes the marks on the pods of claims, and finds out how each write ended. Renewals and acknowledgements use it.

                 begin                 DONE, or seen on the pod
    (claimed) ---------> WRITING ----------------------------------> End.DONE
                          ^ |  | LOST, REJECTED, UNKNOWN: the pod is read
                          | |  v
                          | |  read -- in another claim, in none, or gone --> End.LOST
                          | |  |  +--- refused, or tried too often ----------> End.REFUSED
                          | +--+ THROTTLED: again after a pause
                          +----+ in this claim, with another mark: again

A write tests the mark that it replaces. So of two changes at the same moment one wins, and the other one is judged by
what it has left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from extender.claims.records import ClaimMark, WarmPod
from extender.claims.state import ClaimState
from extender.claims.writes import names
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.renew import PodRenewed, RenewPod
from extender.core.deadlines import Deadlines
from extender.core.outcomes import Outcome, OutcomeKind

#: How often one mark is written, at most.
_TRIES = 5
#: Seconds until a pod is read or written again: the first value, doubled each time up to the second.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LEASE = 3600.0

Command = RenewPod | LookAtPod


class End(Enum):
    """How a change ends."""

    #: The pod has the mark, or one that is as good.
    DONE = auto()
    #: The pod is not in the claim any more.
    LOST = auto()
    #: The API server refuses the write, or it was tried too often. The mark is as it was.
    REFUSED = auto()


@dataclass(slots=True)
class _Change:
    """The change of the mark on one pod."""

    token: int
    pod: WarmPod
    claim: str
    tries: int = 0
    pauses: int = 0
    #: The outcome of the write because of which the pod is being read; None: it is being written.
    unclear: Outcome | None = None


class Marking:
    """See the module.

    `name`: what the changes are for, in the ledger. `emit` gets the commands. `changed(claim, mark)` returns the mark
    that replaces this one, `is_done(claim, mark)` whether the pod needs no other mark. `ended(token, claim, end, why,
    now)` is called once for each change that was begun and not dropped; `why`: why the API server refuses it.
    """

    def __init__(
        self,
        state: ClaimState,
        name: str,
        *,
        emit: Callable[[Command], None],
        changed: Callable[[str, ClaimMark], ClaimMark],
        is_done: Callable[[str, ClaimMark], bool],
        ended: Callable[[int, str, End, str, float], None],
    ) -> None:
        self._state = state
        self._name = name
        self._emit = emit
        self._changed = changed
        self._is_done = is_done
        self._ended = ended
        self._changes: dict[int, _Change] = {}
        self._by_uid: dict[str, int] = {}
        self._timers: Deadlines[int] = Deadlines(state.alarm)

    def begin(self, claim: str, uid: str, now: float) -> int | None:
        """Change the mark on a pod of the claim. Return the token of the change; None if there is nothing to do."""
        pod = self._state.pods[uid]
        if pod.is_terminating or (pod.mark is not None and self._is_done(claim, pod.mark)):
            return None
        if (other := self._by_uid.get(uid)) is not None:
            # A read has shown that the pod came to this claim while its mark was changed for the one before.
            self._settled(self._changes[other], now)
        hold = self._state.ledger.acquire(f"{self._name}:{uid}", claim, now=now, lease=_LEASE)
        change = self._changes[hold.token] = _Change(hold.token, pod, claim)
        self._by_uid[uid] = hold.token
        self._write(change)
        return hold.token

    def drop(self, token: int) -> None:
        """Forget a change. Its write may have been sent, and may take effect."""
        change = self._changes.pop(token)
        del self._by_uid[change.pod.uid]
        self._timers.discard(token)
        self._state.ledger.release(token)

    def tokens(self) -> set[int]:
        """Return the tokens of the changes that have not ended."""
        return set(self._changes)

    def _write(self, change: _Change) -> None:
        pod, mark = change.pod, change.pod.mark
        assert mark is not None
        change.unclear = None
        change.tries += 1
        self._emit(
            RenewPod(
                token=change.token,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                before=pod.mark_text,
                mark=self._changed(change.claim, names.named_as(pod.claim_label, mark)),
            )
        )

    def _look(self, change: _Change) -> None:
        self._emit(LookAtPod(change.token, change.pod.namespace, change.pod.name))

    # -- outcomes -------------------------------------------------------------------------------------------------

    def written(self, report: PodRenewed, now: float) -> None:
        """Handle the report of a write, which may be another user's."""
        change = self._changes.get(report.token)
        if change is None or change.unclear is not None:
            return
        kind = report.outcome.kind
        if kind is OutcomeKind.DONE and report.pod is not None:
            self._state.see(report.pod)
            self._end(change, End.DONE, now)
        elif kind in (OutcomeKind.GONE, OutcomeKind.STALE):
            self._state.lose(change.pod.uid)
            self._end(change, End.LOST, now)
        elif kind is OutcomeKind.THROTTLED:
            change.tries -= 1  # the API server did not process it
            self._pause(change, now, report.outcome.retry_after)
        else:
            change.unclear = report.outcome
            self._look(change)

    def looked(self, report: PodLooked, now: float) -> None:
        """Handle the report of a read, which may be another user's."""
        change = self._changes.get(report.token)
        if change is None or change.unclear is None:
            return
        pod = report.pod
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != change.pod.uid):
            self._state.lose(change.pod.uid)
            self._end(change, End.LOST, now)
        elif report.outcome.kind is not OutcomeKind.DONE or pod is None:
            self._pause(change, now)
        else:
            self._state.see(pod)
            self._judge(change, change.unclear, now)

    def _judge(self, change: _Change, unclear: Outcome, now: float) -> None:
        """Decide what follows after a write failed and its pod was read."""
        if self._settled(change, now):
            return
        before, change.pod = change.pod.mark_text, self._state.pods[change.pod.uid]
        is_refused = unclear.kind is OutcomeKind.REJECTED and change.pod.mark_text == before
        if is_refused or change.tries >= _TRIES:
            self._end(change, End.REFUSED, now, unclear.detail or str(unclear.kind))
        else:
            self._write(change)

    def seen(self, uid: str, now: float) -> None:
        """Handle a new version of a pod, or its deletion."""
        token = self._by_uid.get(uid)
        if token is not None:
            self._settled(self._changes[token], now)

    def again(self, now: float) -> None:
        """Emit the commands that are due."""
        while (token := self._timers.pop(now)) is not None:
            change = self._changes[token]
            if change.unclear is not None:
                self._look(change)
            elif not self._settled(change, now):
                change.pod = self._state.pods[change.pod.uid]
                self._write(change)

    def _pause(self, change: _Change, now: float, seconds: float = 0.0) -> None:
        change.pauses += 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(change.pauses - 1, 10))
        self._timers.set(change.token, now + max(seconds, pause))

    def _settled(self, change: _Change, now: float) -> bool:
        """End the change if the pod has the mark already, or is no longer in this claim. Return whether it ended."""
        pod = self._state.pods.get(change.pod.uid)
        if pod is None or pod.is_terminating or pod.mark is None or pod.mark.claim != change.claim:
            self._end(change, End.LOST, now)
            return True
        if self._is_done(change.claim, pod.mark):
            self._end(change, End.DONE, now)
            return True
        return False

    def _end(self, change: _Change, end: End, now: float, why: str = "") -> None:
        self.drop(change.token)
        self._ended(change.token, change.claim, end, why, now)

    def validate(self) -> None:
        """Raise AssertionError if the indexes differ, or a change has no hold."""
        assert {change.pod.uid: token for token, change in self._changes.items()} == self._by_uid
        for token, change in self._changes.items():
            hold = self._state.ledger.get(token)
            assert hold is not None, f"{change} has no hold"
            assert hold.owner == change.claim, f"{change}: its hold is {hold}"
