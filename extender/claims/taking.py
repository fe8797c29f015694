"""Claims pods: holds them, writes them, and finds out how each write ended.

                 pair                send                     DONE
    (idle pod) --------> HELD ------------------> COMMITTING --------------------------------> (claimed)
                         ^ |                       |      |
                         | | withdrawn: free again |      | LOST, REJECTED, UNKNOWN: the pod is read
                         | +--> (idle)             |      v
                         |        THROTTLED        |    read ------ it has this claim's mark --> (claimed)
                         +-------------------------+      |  |
                         +--------------------------------+  +----- another claim has it, or gone: (lost)
                            it is idle: write it again

A hold in HELD waits until the window allows its write. A hold in COMMITTING ends by evidence from the pod, never by
time.

A write can take effect after its request has failed. Such a pod has the mark of a claim that ended: it is given back.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from extender.claims import images
from extender.claims.events import ClaimAsked
from extender.claims.records import ClaimMark, Mode, Phase, PoolKey, WarmPod
from extender.claims.requests import Pending
from extender.claims.state import ClaimState, PoolState
from extender.claims.window import Window
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.take import PodTaken, TakePod
from extender.core.deadlines import Deadlines
from extender.core.ledger import Hold, HoldState
from extender.core.outcomes import OutcomeKind

#: How often one pod is written for one claim, at most. It is written again only if it was read and is idle.
_TRIES = 5
#: Seconds until a pod that could not be read is read again: the first value, doubled each time up to the second.
_FIRST_LOOK, _LONGEST_LOOK = 0.25, 8.0
#: A hold is never freed by time.
_LEASE = math.inf
#: Every claim needs these, and Python 3.11 takes as long for an attribute of an enum as for a call.
_DETACH, _DONE = Mode.DETACH, OutcomeKind.DONE


class Taking(msgspec.Struct, gc=False):
    """One pod that is being written for one claim."""

    token: int
    claim: str
    pool: PoolKey
    pod: WarmPod
    #: The mark without the fields that depend on the pod.
    mark: ClaimMark
    asked: ClaimAsked
    tries: int = 0
    #: Its hold is in COMMITTING.
    is_sent: bool = False
    #: Its request has ended: the write is not repeated.
    is_abandoned: bool = False
    #: The outcome of the write because of which the pod is being read; None: it is not being read.
    unclear: OutcomeKind | None = None
    looks: int = 0


class Taken(msgspec.Struct, frozen=True, gc=False):
    """The pod is claimed."""

    taking: Taking
    pod: WarmPod


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The pod was deleted, or is not idle any more."""

    taking: Taking


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The API server refused the write, and a retry cannot help."""

    taking: Taking
    detail: str


End = Taken | Lost | Refused


class TakingPods:
    """See the module. A method that ends a `Taking` returns its End, and the caller updates the request."""

    def __init__(self, state: ClaimState, window: Window, epoch: float) -> None:
        self._epoch = epoch
        self._state = state
        self._window = window
        self._takings: dict[int, Taking] = {}
        #: Tokens in HELD, in the order in which they are to be sent.
        self.outbox: deque[int] = deque()
        self._in_flight = 0
        #: When pods are read again.
        self.timers: Deadlines[int] = Deadlines(state.alarm)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def is_due(self) -> float | None:
        """When the window opens for the next write; None if no write waits, or too many are in flight."""
        return self._window.opens_at if self.outbox and self._in_flight + 1 <= self._window.size else None

    # -- choosing -------------------------------------------------------------------------------------------------

    def pair(self, pool: PoolState, pending: Pending, pods: list[WarmPod], expires: float, now: float) -> None:
        """Hold these idle pods of the pool for the request, all or none, and queue their writes."""
        asked = pending.asked
        mark = ClaimMark(
            claim=asked.claim,
            pool=asked.pool.name,
            tenant=asked.tenant,
            key=asked.key,
            digest=asked.digest,
            size=asked.count,
            expires=expires,
        )
        for pod, hold in zip(pods, self._holds(pods, asked.claim, now), strict=True):
            token = hold.token
            self._takings[token] = Taking(token, asked.claim, asked.pool, pod, mark, asked)
            pending.writing[token] = pod.uid
            self.outbox.append(token)
            self._state.hold(token, pool, asked.tenant)
            self._state.withdraw(pod.uid)

    def _holds(self, pods: list[WarmPod], claim: str, now: float) -> tuple[Hold[None], ...]:
        ledger = self._state.ledger
        if len(pods) == 1:
            return (ledger.acquire(pods[0].uid, claim, now=now, lease=_LEASE),)
        return ledger.acquire_group({pod.uid: claim for pod in pods}, now=now, lease=_LEASE)

    def send(self, now: float) -> list[TakePod]:
        """Return the writes that the window allows now."""
        sent: list[TakePod] = []
        outbox, window = self.outbox, self._window
        while outbox and self._in_flight + 1 <= window.size and window.opens_at <= now:
            taking = self._takings[outbox.popleft()]
            self._state.ledger.commit(taking.token, now=now)
            self._in_flight += 1
            taking.is_sent = True
            taking.tries += 1
            sent.append(self._command(taking, now))
        return sent

    def _command(self, taking: Taking, now: float) -> TakePod:
        pod, state, asked = taking.pod, self._state.pools[taking.pool], taking.asked
        pool = state.pool
        detaches = pool.mode is _DETACH
        phase: str = Phase.RUNNING if pod.has_phase or not detaches else ""
        mark, changes = taking.mark, images.changes(pod, asked.images) if asked.images else ()
        if asked.images:
            mark = images.started(mark, pod, pool, asked.images, now + self._epoch)
            phase = Phase.STARTING if changes else phase
        if not detaches and (asked.labels or asked.annotations):
            labels = tuple((name, pod.labels.get(name)) for name, _ in asked.labels)
            annotations = tuple(name for name, _ in asked.annotations)
            mark = msgspec.structs.replace(mark, labels=labels, annotations=annotations)
        return TakePod(
            token=taking.token,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            mark=mark,
            has_phase=pod.has_phase,
            has_annotations=pod.has_annotations,
            phase=phase,
            images=changes,
            labels=asked.labels,
            annotations=asked.annotations,
            detach=state.selector if detaches else (),
            owner=pod.owner if detaches else "",
        )

    def abandon(self, token: int) -> None:
        """Drop the write if it was not sent. A write that was sent is followed to its end, but not repeated."""
        taking = self._takings[token]
        if taking.is_sent:
            taking.is_abandoned = True
            return
        self.outbox.remove(token)
        self._end(taking)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def taken(self, report: PodTaken, now: float) -> tuple[End | None, list[LookAtPod]]:
        """Handle the report of a write."""
        taking = self._takings.get(report.token)
        if taking is None or taking.unclear is not None or not taking.is_sent:
            return None, []
        outcome = report.outcome
        if outcome.kind is _DONE and report.pod is not None:
            self._window.succeeded()
            return self._claimed(taking, report.pod), []
        match outcome.kind:
            case OutcomeKind.GONE | OutcomeKind.STALE:
                self._state.lose(taking.pod.uid)
                return Lost(self._end(taking)), []
            case OutcomeKind.THROTTLED:
                self._window.overloaded(now, outcome.retry_after)
                taking.tries -= 1  # the API server did not process it
                return self._again(taking, now), []
            case kind:
                if kind is OutcomeKind.UNKNOWN:
                    self._window.overloaded(now)
                taking.unclear = kind
                taking.looks = 0
                return None, [self._look(taking)]

    def looked(self, report: PodLooked, now: float) -> tuple[End | None, list[LookAtPod]]:
        """Handle the report of a read."""
        taking = self._takings.get(report.token)
        if taking is None or taking.unclear is None:
            return None, []
        pod = report.pod
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != taking.pod.uid):
            self._state.lose(taking.pod.uid)
            return Lost(self._end(taking)), []
        if report.outcome.kind is not OutcomeKind.DONE or pod is None:
            taking.looks += 1
            self.timers.set(taking.token, now + min(_LONGEST_LOOK, _FIRST_LOOK * 2 ** (taking.looks - 1)))
            return None, []
        if pod.mark is not None and pod.mark.claim == taking.claim:
            return self._claimed(taking, pod), []
        return self._not_ours(taking, pod, report.outcome.detail, now), []

    def _not_ours(self, taking: Taking, pod: WarmPod, detail: str, now: float) -> End | None:
        unclear, before = taking.unclear, taking.pod
        self._state.see(pod)
        if not pod.can_be_claimed:
            return Lost(self._end(taking))
        is_as_it_was = pod.resource_version == before.resource_version
        if unclear is OutcomeKind.REJECTED and (is_as_it_was or taking.tries >= _TRIES):
            return Refused(self._end(taking), detail)
        if taking.tries >= _TRIES:
            return Lost(self._end(taking))
        taking.pod = pod
        return self._again(taking, now)

    def seen(self, uid: str) -> End | None:
        """Handle a new version of a pod. If it has the mark that is being written, the write has succeeded."""
        hold = self._state.ledger.holder(uid)
        taking = None if hold is None else self._takings.get(hold.token)
        pod = self._state.pods.get(uid)
        if taking is None or not taking.is_sent:
            return None
        if pod is None:
            return Lost(self._end(taking))
        if pod.mark is not None and pod.mark.claim == taking.claim:
            return self._claimed(taking, pod)
        return None

    def look_again(self, now: float) -> list[LookAtPod]:
        """Return the reads that are due."""
        found = []
        while (token := self.timers.pop(now)) is not None:
            found.append(self._look(self._takings[token]))
        return found

    def _look(self, taking: Taking) -> LookAtPod:
        return LookAtPod(taking.token, taking.pod.namespace, taking.pod.name)

    def _again(self, taking: Taking, now: float) -> End | None:
        """Send the write again, before all queued ones: as far as is known, it had no effect."""
        if taking.is_abandoned:
            return Lost(self._end(taking))
        taking.unclear = None
        self._state.ledger.abort(taking.token, now=now, lease=_LEASE)
        self._in_flight -= 1
        taking.is_sent = False
        self.outbox.appendleft(taking.token)
        return None

    def _claimed(self, taking: Taking, pod: WarmPod) -> End:
        """End the hold of a write that succeeded. Lost: the pod was deleted, or its claim has ended, meanwhile."""
        self._state.see(pod)
        self._end(taking)
        known = self._state.pods.get(pod.uid)
        if known is None or known.is_terminating or known.mark is None or known.mark.claim != taking.claim:
            return Lost(taking)
        return Taken(taking, known)

    def _end(self, taking: Taking) -> Taking:
        """End the hold. From now on the state of the pod counts."""
        state, uid = self._state, taking.pod.uid
        if taking.is_sent:
            self._in_flight -= 1
        if taking.unclear is not None:
            self.timers.discard(taking.token)
        state.ledger.release(taking.token)
        state.let_go(taking.token)
        del self._takings[taking.token]
        pod = state.pods.get(uid)
        if pod is not None and pod.mark is not None:
            state.changed[pod.mark.claim] = None  # it may have to be given back, which the hold prevented
        else:
            state.offer(uid)
        return taking

    def validate(self) -> None:
        """Raise AssertionError if a pod is held but its write is neither queued nor in flight."""
        assert all(self._takings[token].unclear is not None for token in self.timers)
        for token, taking in self._takings.items():
            hold = self._state.ledger.get(token)
            is_sent = hold is not None and hold.state is HoldState.COMMITTING
            assert is_sent == taking.is_sent, f"{taking}: its hold is {hold}"
        held = [token for token, taking in self._takings.items() if not taking.is_sent]
        assert sorted(held) == sorted(self.outbox), f"held {held}, to be sent {list(self.outbox)}"
        sent = len(self._takings) - len(held)
        assert sent == self._in_flight, f"{sent} are sent, counted {self._in_flight}"
