"""Ends the claims of pods: each pod is given back, however often that takes.

                give                               DONE
    (claimed) --------> [ read, if a lease is over ] ---> GIVING ------> LEFT ---------------> (over)
                               |                            ^  |           the pod is seen
                               +--> the lease was renewed   |  | THROTTLED, UNKNOWN, LOST, REJECTED
                                    by somebody: (claimed)  +--+ again after a pause

A pod that is gone, or bears another mark, needs no more. Giving back can be repeated, so no outcome needs an
explanation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.claims.records import Mode, PoolKey, WarmPod
from extender.claims.state import ClaimState
from extender.claims.writes.give import GivePodBack, PodGivenBack
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.core.deadlines import Deadlines
from extender.core.outcomes import OutcomeKind

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
#: Seconds in which the cluster should show that a pod was given back; then it is read.
_SHOWN_WITHIN = 10.0
_LEASE = 3600.0


@dataclass(slots=True)
class Giving:
    """One pod that is being given back. `epoch`: only if its lease ends before this time, seconds since 1970."""

    token: int
    pod: WarmPod
    claim: str
    epoch: float | None
    is_looking: bool = False
    is_left: bool = False
    tries: int = 0


Command = GivePodBack | LookAtPod


class GivingPods:
    """See the module. `finished` is called with the claim and the pod's UID when a pod is given back, or was kept."""

    def __init__(self, state: ClaimState, finished: Callable[[str, str], None]) -> None:
        self._state = state
        self._finished = finished
        self._givings: dict[int, Giving] = {}
        self._by_uid: dict[str, int] = {}
        self.timers: Deadlines[int] = Deadlines()

    def is_giving(self, uid: str) -> bool:
        return uid in self._by_uid

    def give(self, pod: WarmPod, claim: str, now: float, *, epoch: float | None = None) -> list[Command]:
        """Begin to give a pod back, unless that has begun. With `epoch`, it is read first: its lease may have been
        renewed elsewhere."""
        token = self._by_uid.get(pod.uid)
        if token is not None:
            self._givings[token].epoch = None if epoch is None else self._givings[token].epoch
            return []
        hold = self._state.ledger.acquire(pod.uid, f"give:{claim}", now=now, lease=_LEASE)
        giving = self._givings[hold.token] = Giving(hold.token, pod, claim, epoch)
        self._by_uid[pod.uid] = hold.token
        return [self._look(giving) if epoch is not None else self._command(giving)]

    def _command(self, giving: Giving) -> Command:
        giving.is_looking = False
        pod = giving.pod
        pool = self._state.pools.get(PoolKey(pod.namespace, pod.mark.pool)) if pod.mark is not None else None
        return GivePodBack(
            token=giving.token,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            claim=giving.claim,
            recycle=pod.has_phase if pool is None else pool.pool.mode is Mode.RECYCLE,
        )

    def _look(self, giving: Giving) -> Command:
        giving.is_looking = True
        return LookAtPod(giving.token, giving.pod.namespace, giving.pod.name)

    def given(self, report: PodGivenBack, now: float) -> None:
        """A write ended."""
        giving = self._givings.get(report.token)
        if giving is None or giving.is_looking:
            return
        match report.outcome.kind:
            case OutcomeKind.GONE | OutcomeKind.STALE:
                self._state.lose(giving.pod.uid)
                self._end(giving)
            case OutcomeKind.DONE:
                giving.is_left = True
                self.timers.set(giving.token, now + _SHOWN_WITHIN)
                self._finished(giving.claim, giving.pod.uid)
            case OutcomeKind.THROTTLED:
                self.timers.set(giving.token, now + max(report.outcome.retry_after, _FIRST_PAUSE))
            case _:
                self._pause(giving, now)

    def looked(self, report: PodLooked, now: float) -> list[Command]:
        """A pod was read, or could not be."""
        giving = self._givings.get(report.token)
        if giving is None or not giving.is_looking:
            return []
        pod = report.pod
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != giving.pod.uid):
            self._state.lose(giving.pod.uid)
            self._end(giving)
            return []
        if report.outcome.kind is not OutcomeKind.DONE or pod is None:
            self._pause(giving, now)
            return []
        self._state.see(pod)
        if not self._is_over(giving):
            return [self._command(giving)]
        return []

    def seen(self, uid: str) -> None:
        """The pod was seen, or is gone."""
        token = self._by_uid.get(uid)
        if token is not None:
            self._is_over(self._givings[token])

    def _is_over(self, giving: Giving) -> bool:
        pod = self._state.pods.get(giving.pod.uid)
        mark = None if pod is None else pod.mark
        if pod is None or pod.is_terminating or mark is None or mark.claim != giving.claim:
            self._end(giving)
            return True
        if giving.epoch is not None and mark.expires > giving.epoch:
            self._end(giving)
            return True
        giving.pod = pod
        return False

    def again(self, now: float) -> list[Command]:
        """Return what is due."""
        found: list[Command] = []
        while (token := self.timers.pop(now)) is not None:
            giving = self._givings[token]
            must_look = giving.is_looking or giving.is_left or giving.tries > 0
            found.append(self._look(giving) if must_look else self._command(giving))
        return found

    def _pause(self, giving: Giving, now: float) -> None:
        giving.tries += 1
        self.timers.set(giving.token, now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(giving.tries - 1, 10)))

    def _end(self, giving: Giving) -> None:
        self.timers.discard(giving.token)
        self._state.ledger.release(giving.token)
        del self._givings[giving.token], self._by_uid[giving.pod.uid]
        self._state.offer(giving.pod.uid)
        self._finished(giving.claim, giving.pod.uid)
