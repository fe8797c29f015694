"""Creates pods for requests with `on_empty: cold` that find too few idle ones.

                create                DONE, or seen
    (missing) ---------> CREATING ----------------------> a pod of the claim, which becomes ready later
                           ^ |  | LOST (the name exists), UNKNOWN: the pod of this name is read
                           | |  v
                           | |  read -- this claim's ---> a pod of the claim
                           | |  |     \\ not found: again, under the same name
                           | +--+
                           +----+ THROTTLED: again after a pause

The pod's name is derived from the claim, so retries never create two pods for the same number. The request uses the pod
that is ready first, the created one or a warm one. Pods that it does not need are given back, which deletes them: a
created pod has neither its pool's labels nor an owner, so it cannot join the pool.
"""

from __future__ import annotations

from dataclasses import dataclass

from extender.claims.records import ClaimMark, PoolKey
from extender.claims.requests import Pending
from extender.claims.state import ClaimState, PoolState
from extender.claims.writes.create import CreatePod, PodCreated, pod_name
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.core.deadlines import Deadlines
from extender.core.outcomes import OutcomeKind

_TRIES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LEASE = 3600.0


@dataclass(slots=True)
class _Creating:
    command: CreatePod
    pool: PoolKey
    tries: int = 1
    looks: int = 0
    is_unclear: bool = False
    #: Its request has ended: the write is not repeated.
    is_abandoned: bool = False


@dataclass(frozen=True, slots=True)
class NotCreated:
    """The claim's pod cannot be created."""

    claim: str
    detail: str


Result = CreatePod | LookAtPod | NotCreated


class CreatingPods:
    """See the module."""

    def __init__(self, state: ClaimState) -> None:
        self._state = state
        self._creating: dict[int, _Creating] = {}
        self._of_claim: dict[str, set[int]] = {}
        self.timers: Deadlines[int] = Deadlines(state.alarm)

    def number(self, pool: PoolKey) -> int:
        """Return how many pods of this pool are being created."""
        return sum(each.pool == pool for each in self._creating.values())

    def create(self, pending: Pending, state: PoolState, expires: float, now: float) -> list[CreatePod]:
        """Start to create the pods that the request lacks. `expires`: when their lease ends, seconds since 1970."""
        asked, pool, found = pending.asked, state.pool, []
        for number in range(pending.missing):
            name = pod_name(pool.key.name, asked.claim, number)
            hold = self._state.ledger.acquire(f"create:{asked.claim}/{number}", asked.claim, now=now, lease=_LEASE)
            command = CreatePod(
                token=hold.token,
                namespace=pool.key.namespace,
                name=name,
                template=pool.template or {},
                without=tuple(pool.selector),
                labels=asked.labels,
                annotations=asked.annotations,
                mark=ClaimMark(
                    claim=asked.claim,
                    pool=pool.key.name,
                    tenant=asked.tenant,
                    key=asked.key,
                    digest=asked.digest,
                    size=asked.count,
                    expires=expires,
                    is_cold=True,
                ),
            )
            self._creating[hold.token] = _Creating(command, pool.key)
            self._of_claim.setdefault(asked.claim, set()).add(hold.token)
            self._state.hold(hold.token, state, asked.tenant)
            found.append(command)
        return found

    def abandon(self, claim: str) -> None:
        """Stop creating pods for a request that has ended. A pod that is created nevertheless is given back."""
        for token in list(self._of_claim.get(claim, ())):
            self._creating[token].is_abandoned = True
            if token in self.timers and not self._creating[token].is_unclear:
                self._end(token)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def created(self, report: PodCreated, now: float) -> list[Result]:
        """Handle the report of a write."""
        creating = self._creating.get(report.token)
        if creating is None or creating.is_unclear:
            return []
        match report.outcome.kind:
            case OutcomeKind.DONE if report.pod is not None:
                self._state.see(report.pod)
                self._end(report.token)
            case OutcomeKind.THROTTLED:
                return self._again(report.token, now, report.outcome.retry_after)
            case OutcomeKind.REJECTED | OutcomeKind.GONE | OutcomeKind.STALE:
                return self._refused(report.token, report.outcome.detail)
            case _:
                creating.is_unclear = True
                return [self._look(report.token)]
        return []

    def looked(self, report: PodLooked, now: float) -> list[Result]:
        """Handle the report of a read."""
        creating = self._creating.get(report.token)
        if creating is None or not creating.is_unclear:
            return []
        command, pod = creating.command, report.pod
        if report.outcome.kind is OutcomeKind.GONE:
            creating.is_unclear = False
            creating.tries += 1
            if creating.tries > _TRIES:
                return self._refused(report.token, f"the pod did not exist after {_TRIES} tries to create it")
            return self._again(report.token, now)
        if report.outcome.kind is not OutcomeKind.DONE or pod is None:
            creating.looks += 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(creating.looks - 1, 10))
            self.timers.set(report.token, now + pause)
            return []
        if pod.mark is None or pod.mark.claim != command.mark.claim:
            return self._refused(report.token, f"a pod {command.name} exists and is not in this claim")
        self._state.see(pod)
        self._end(report.token)
        return []

    def again(self, now: float) -> list[Result]:
        """Return the commands that are due."""
        found: list[Result] = []
        while (token := self.timers.pop(now)) is not None:
            creating = self._creating[token]
            found.append(self._look(token) if creating.is_unclear else creating.command)
        return found

    def _again(self, token: int, now: float, seconds: float = 0.0) -> list[Result]:
        if self._creating[token].is_abandoned:
            self._end(token)
            return []
        self.timers.set(token, now + max(seconds, _FIRST_PAUSE))
        return []

    def _look(self, token: int) -> LookAtPod:
        command = self._creating[token].command
        return LookAtPod(token, command.namespace, command.name)

    def _refused(self, token: int, detail: str) -> list[Result]:
        creating = self._creating[token]
        self._end(token)
        return [] if creating.is_abandoned else [NotCreated(creating.command.mark.claim, detail)]

    def _end(self, token: int) -> None:
        creating = self._creating.pop(token)
        tokens = self._of_claim[creating.command.mark.claim]
        tokens.discard(token)
        if not tokens:
            del self._of_claim[creating.command.mark.claim]
        self.timers.discard(token)
        self._state.ledger.release(token)
        self._state.let_go(token)
