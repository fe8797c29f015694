"""Ends changes of images: a starting pod becomes running, and a stopping pod becomes idle, once it runs its new images.

    starting --- the kubelet reports the claim's images ---> running      the request is answered
    stopping --- the kubelet reports the idle images ------> idle         everything that the claim set is removed

The pod has all that is needed, so any server can do this, also if the server that began has restarted. The server with
the request does it at once. Otherwise the server with rank 0 does (see `Members`), and the others later, by rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from extender.claims import images
from extender.claims.members import Members
from extender.claims.records import ClaimMark, Phase, WarmPod
from extender.claims.state import ClaimState
from extender.claims.writes import names
from extender.claims.writes.advance import AdvancePod, PodAdvanced
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.core.deadlines import Deadlines
from extender.core.outcomes import OutcomeKind

#: Seconds by which a server is later for each server that ranks before it.
_TURN = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LEASE = 3600.0


@dataclass(slots=True)
class _Step:
    """One pod whose images change. It is being written if `token` is not 0."""

    uid: str
    claim: str
    #: When it was first seen to run its new images, seconds of the engine's clock.
    since: float | None = None
    token: int = 0
    #: The outcome of the write is unknown, and the pod is being read.
    is_unclear: bool = False
    tries: int = 0


Command = AdvancePod | LookAtPod


class AdvancingPods:
    """See the module. `is_ours(claim)`: whether the claim's request is pending at this server."""

    def __init__(self, state: ClaimState, members: Members, is_ours: Callable[[str], bool]) -> None:
        self._state = state
        self._members = members
        self._is_ours = is_ours
        self._steps: dict[str, _Step] = {}
        self._by_token: dict[int, _Step] = {}
        #: When pods are written or read, by UID.
        self.timers: Deadlines[str] = Deadlines(state.alarm)
        #: How many pods this server has moved to each phase.
        self.counts: Counter[Phase] = Counter()

    def seen(self, uid: str, now: float) -> list[Command]:
        """Handle a new version of a pod, or its deletion."""
        pod = self._state.pods.get(uid)
        mark = None if pod is None else pod.leaving or pod.mark
        step = self._steps.get(uid)
        if pod is None or mark is None or not images.is_between(pod):
            if step is not None:
                self._end(step)
            return []
        if step is not None and step.claim != mark.claim:
            self._end(step)
            step = None
        if step is None:
            step = self._steps[uid] = _Step(uid, mark.claim)
        if not self._is_done(pod):
            step.since = None
            if not step.token:
                self.timers.discard(uid)
            return []
        if step.since is None:
            step.since = now
        return [] if step.token or uid in self.timers else self._turn(step, now)

    @staticmethod
    def _is_done(pod: WarmPod) -> bool:
        if pod.leaving is not None:
            return images.runs(pod, pod.leaving.idle_images, pod.leaving.before)
        return pod.mark is not None and images.runs(pod, pod.mark.images, pod.mark.before)

    def _turn(self, step: _Step, now: float) -> list[Command]:
        """Write the pod, or wait for the servers of lower rank."""
        rank = 0 if self._is_ours(step.claim) else self._members.rank(step.uid)
        since = now if step.since is None else step.since
        if rank and now < since + rank * _TURN:
            self.timers.set(step.uid, since + rank * _TURN)
            return []
        return [self._write(step, now)]

    def members_changed(self, now: float) -> list[Command]:
        """Rank the servers again for every pod that waits for another server."""
        found: list[Command] = []
        for step in list(self._steps.values()):
            if step.since is not None and not step.token:
                found += self._turn(step, now)
        return found

    def _write(self, step: _Step, now: float) -> Command:
        pod = self._state.pods[step.uid]
        if not step.token:
            hold = self._state.ledger.acquire(f"advance:{step.uid}", step.claim, now=now, lease=_LEASE)
            step.token = hold.token
            self._by_token[step.token] = step
        self.timers.discard(step.uid)
        step.is_unclear = False
        step.tries += 1
        mark = self._mark(pod)
        return AdvancePod(
            token=step.token,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            phase=Phase.IDLE if pod.leaving is not None else Phase.RUNNING,
            before=pod.mark_text,
            mark=mark,
        )

    @staticmethod
    def _mark(pod: WarmPod) -> ClaimMark:
        if pod.leaving is not None:
            return pod.leaving
        assert pod.mark is not None
        return names.named_as(pod.claim_label, images.running(pod.mark, pod))

    # -- outcomes -------------------------------------------------------------------------------------------------

    def advanced(self, report: PodAdvanced, now: float) -> list[Command]:
        """Handle the report of a write."""
        step = self._by_token.get(report.token)
        if step is None or step.is_unclear:
            return []
        match report.outcome.kind:
            case OutcomeKind.DONE if report.pod is not None:
                self.counts[Phase.IDLE if report.pod.mark is None else Phase.RUNNING] += 1
                self._state.see(report.pod)
                self._end(step)
                return self.seen(step.uid, now)
            case OutcomeKind.GONE | OutcomeKind.STALE:
                self._state.lose(step.uid)
                self._end(step)
            case OutcomeKind.THROTTLED:
                self._pause(step, now, report.outcome.retry_after)
            case _:
                step.is_unclear = True
                pod = self._state.pods[step.uid]
                return [LookAtPod(step.token, pod.namespace, pod.name)]
        return []

    def looked(self, report: PodLooked, now: float) -> list[Command]:
        """Handle the report of a read."""
        step = self._by_token.get(report.token)
        if step is None or not step.is_unclear:
            return []
        pod = report.pod
        if report.outcome.kind is OutcomeKind.GONE or (pod is not None and pod.uid != step.uid):
            self._state.lose(step.uid)
            self._end(step)
        elif report.outcome.kind is not OutcomeKind.DONE or pod is None:
            self._pause(step, now)
        else:
            self._state.see(pod)
            found = self.seen(step.uid, now)
            if self._by_token.get(report.token) is step:
                step.is_unclear = False
                self._pause(step, now)
            return found
        return []

    def again(self, now: float) -> list[Command]:
        """Return the commands that are due."""
        found: list[Command] = []
        while (uid := self.timers.pop(now)) is not None:
            step, pod = self._steps[uid], self._state.pods.get(uid)
            if pod is None or not images.is_between(pod):
                continue  # the event that is being handled has ended the change
            if step.is_unclear:
                found.append(LookAtPod(step.token, pod.namespace, pod.name))
            elif self._is_done(pod):
                found.append(self._write(step, now))
            elif step.token:
                self._end(step)
                found += self.seen(uid, now)
        return found

    def _pause(self, step: _Step, now: float, seconds: float = 0.0) -> None:
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(step.tries, 10))
        self.timers.set(step.uid, now + max(seconds, pause))

    def _end(self, step: _Step) -> None:
        self.timers.discard(step.uid)
        if step.token:
            self._state.ledger.release(step.token)
            del self._by_token[step.token]
        del self._steps[step.uid]

    def validate(self) -> None:
        """Raise AssertionError if a pod that runs its new images would never be written."""
        for uid, pod in self._state.pods.items():
            step = self._steps.get(uid)
            assert (step is not None) == images.is_between(pod), f"{pod.name} is {pod.phase}: {step}"
            if step is not None and self._is_done(pod):
                assert step.token or uid in self.timers, f"{pod.name} stays {pod.phase}"
