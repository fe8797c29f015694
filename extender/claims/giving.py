"""Ends the claims of pods: each pod is given back, with retries until that has succeeded.

                give                               DONE
    (claimed) --------> [ read, if a lease expired ] ---> GIVING ------> LEFT ---------------> (over)
                               |                            ^  |           the watch shows it
                               +--> the lease was renewed   |  | THROTTLED, UNKNOWN, LOST, REJECTED
                                    elsewhere: (claimed)    +--+ again after a pause

A pod that was deleted, or has another mark, is done. The write is idempotent, so it is repeated after every outcome but
success.

When a lease expires, all pods of the claim are read before the first one is given back, because a renewal of one pod
keeps them all. Each write tests that the pod has not changed since it was read, so a renewal in between wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.claims import images
from extender.claims.records import Mode, Phase, PoolKey, WarmPod
from extender.claims.state import ClaimState, Recent
from extender.claims.writes import names
from extender.claims.writes.give import GivePodBack, PodGivenBack
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.core.deadlines import Deadlines
from extender.core.outcomes import OutcomeKind

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
#: Seconds after which a pod is read if the watch has not shown that it was given back.
_SHOWN_WITHIN = 10.0
_LEASE = 3600.0


@dataclass(slots=True)
class Giving:
    """One pod that is being given back. `epoch`: only if its lease ends by this time, seconds since 1970; None:
    whatever its lease."""

    token: int
    pod: WarmPod
    claim: str
    epoch: float | None
    #: Give it back only if it has not started.
    must_start: bool = False
    #: Only while its mark does not say that the claim is known.
    unless_known: bool = False
    is_looking: bool = False
    #: It was read, and its lease has expired. It waits until all pods of the claim have been read.
    is_verified: bool = False
    #: The write succeeded, and the watch has not shown it yet.
    is_left: bool = False
    tries: int = 0

    @property
    def is_guarded(self) -> bool:
        """Whether it is only given back as it was read."""
        return self.epoch is not None or self.must_start or self.unless_known


Command = GivePodBack | LookAtPod


class GivingPods:
    """See the module. `finished(claim, uid)` is called when a pod was given back, or need not be any more."""

    def __init__(self, state: ClaimState, finished: Callable[[str, str], None]) -> None:
        self._state = state
        self._finished = finished
        self._givings: dict[int, Giving] = {}
        self._by_uid: dict[str, int] = {}
        self.timers: Deadlines[int] = Deadlines(state.alarm)
        #: The claims of which a pod was given back before they were known beyond this server: they never will be.
        self.unknown = Recent()
        #: How many pods were given back because their lease expired.
        self.lapsed = 0

    @property
    def has_unsent(self) -> bool:
        """Whether the write of a pod has not succeeded yet."""
        return any(not each.is_left for each in self._givings.values())

    def is_giving(self, uid: str) -> bool:
        return uid in self._by_uid

    def give(
        self,
        pod: WarmPod,
        claim: str,
        now: float,
        *,
        epoch: float | None = None,
        must_start: bool = False,
        unless_known: bool = False,
    ) -> list[Command]:
        """Begin to give a pod back, unless that has begun. With `epoch`, it is read first: its lease may have been
        renewed elsewhere. `must_start`: only if it still has not started; `unless_known`: only if the claim is not
        known beyond this server."""
        token = self._by_uid.get(pod.uid)
        if token is not None:
            is_guarded = epoch is not None or must_start or unless_known
            return [] if is_guarded else self._hurry(self._givings[token])
        hold = self._state.ledger.acquire(pod.uid, f"give:{claim}", now=now, lease=_LEASE)
        giving = self._givings[hold.token] = Giving(hold.token, pod, claim, epoch, must_start, unless_known)
        self._by_uid[pod.uid] = hold.token
        return [self._look(giving) if epoch is not None else self._command(giving)]

    def _hurry(self, giving: Giving) -> list[Command]:
        """It is given back whatever its lease says."""
        giving.epoch, giving.must_start, giving.unless_known = None, False, False
        if not giving.is_verified:
            return []
        giving.is_verified = False
        return [self._command(giving)]

    def _command(self, giving: Giving) -> Command:
        giving.is_looking = False
        pod = giving.pod
        is_guarded = giving.is_guarded
        changes = () if pod.mark is None else images.changes(pod, pod.mark.idle_images)
        mark = pod.mark if pod.mark is None or not changes else images.stopping(pod.mark, pod)
        pool = self._state.pools.get(PoolKey(pod.namespace, pod.mark.pool)) if pod.mark is not None else None
        mark = None if mark is None else names.named_as(pod.claim_label, mark)
        return GivePodBack(
            token=giving.token,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            claim=pod.claim_label or giving.claim,
            # Without a mark, the pod's idle images are unknown, so it is deleted.
            recycle=pod.mark is not None and (pod.has_phase if pool is None else pool.pool.mode is Mode.RECYCLE),
            mark=mark,
            images=changes,
            before=pod.mark_text if is_guarded else "",
            resource_version=pod.resource_version if is_guarded else "",
        )

    def _look(self, giving: Giving) -> Command:
        giving.is_looking = True
        return LookAtPod(giving.token, giving.pod.namespace, giving.pod.name)

    def given(self, report: PodGivenBack, now: float) -> None:
        """Handle the report of a write."""
        giving = self._givings.get(report.token)
        if giving is None or giving.is_looking or giving.is_verified:
            return
        match report.outcome.kind:
            case OutcomeKind.GONE | OutcomeKind.STALE:
                self._state.lose(giving.pod.uid)
                self._end(giving)
            case OutcomeKind.DONE:
                giving.is_left = True
                if giving.unless_known:
                    self.unknown.add(giving.claim)
                self.timers.set(giving.token, now + _SHOWN_WITHIN)
                self._finished(giving.claim, giving.pod.uid)
            case OutcomeKind.THROTTLED:
                self.timers.set(giving.token, now + max(report.outcome.retry_after, _FIRST_PAUSE))
            case _:
                self._pause(giving, now)

    def looked(self, report: PodLooked, now: float) -> list[Command]:
        """Handle the report of a read."""
        giving = self._givings.get(report.token)
        if giving is None or not giving.is_looking:
            return []
        pod = report.pod
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != giving.pod.uid):
            self._state.lose(giving.pod.uid)
            self._end(giving)
            return self._verified(giving.claim)
        if report.outcome.kind is not OutcomeKind.DONE or pod is None:
            self._pause(giving, now)
            return []
        self._state.see(pod)
        if self._is_over(giving):
            return self._verified(giving.claim)
        if giving.epoch is None:
            return [self._command(giving)]
        giving.is_looking, giving.is_verified = False, True
        return self._verified(giving.claim)

    def _verified(self, claim: str) -> list[Command]:
        """Return the writes for the claim's pods once all of them have been read and their lease has expired."""
        ours = [each for each in self._givings.values() if each.claim == claim and each.epoch is not None]
        ours = [each for each in ours if not self._is_over(each)]
        if any(each.is_looking for each in ours):
            return []
        found: list[Command] = []
        for each in ours:
            if each.is_verified:
                each.is_verified = False
                self.lapsed += 1
                found.append(self._command(each))
        return found

    def seen(self, uid: str) -> None:
        """Handle a new version of a pod, or its deletion."""
        token = self._by_uid.get(uid)
        if token is not None:
            self._is_over(self._givings[token])

    def _is_over(self, giving: Giving) -> bool:
        pod = self._state.pods.get(giving.pod.uid)
        mark = None if pod is None else pod.mark
        is_guarded = giving.is_guarded
        if pod is not None and pod.is_orphan and pod.claim_label == giving.claim and not is_guarded:
            giving.pod = pod  # its mark cannot be decoded, but it is still in the claim
            return False
        if pod is None or pod.is_terminating or mark is None or mark.claim != giving.claim:
            self._end(giving)
            return True
        if giving.epoch is not None and self._state.claims[giving.claim].expires > giving.epoch:
            self._end(giving)
            return True
        if giving.unless_known and mark.is_known and not giving.is_left:
            self._end(giving)
            return True
        if giving.must_start and pod.phase != Phase.STARTING:
            self._end(giving)
            return True
        giving.pod = pod
        return False

    def again(self, now: float) -> list[Command]:
        """Return the commands that are due."""
        found: list[Command] = []
        while (token := self.timers.pop(now)) is not None:
            giving = self._givings[token]
            must_look = giving.is_looking or giving.is_left or giving.tries > 0
            found.append(self._look(giving) if must_look else self._command(giving))
        return found

    def validate(self) -> None:
        """Raise AssertionError if a pod that was read waits although no other pod of its claim is being read."""
        for giving in self._givings.values():
            others = [each for each in self._givings.values() if each.claim == giving.claim and each.is_looking]
            assert others or not giving.is_verified, f"{giving.pod.name} waits for nothing"

    def _pause(self, giving: Giving, now: float) -> None:
        giving.tries += 1
        self.timers.set(giving.token, now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(giving.tries - 1, 10)))

    def _end(self, giving: Giving) -> None:
        self.timers.discard(giving.token)
        self._state.ledger.release(giving.token)
        del self._givings[giving.token], self._by_uid[giving.pod.uid]
        self._state.offer(giving.pod.uid)
        self._finished(giving.claim, giving.pod.uid)
