"""Requests with a key where several servers share pools: one claim for a key, whichever servers are asked.

    asked -- no claim has the key --> pods are taken --> all its own, and shown by the watch -- FIRST --> answered
      |                                  ^     |                  |
      |                                  |     | another claim    | LATER: its pods are given back
      +-- a claim has it --> PARKED <----+-----+------------------+
                              | | | |
                              | | | +-- no claim has it any more: pods are taken (by a claim of a new name, if pods
                              | | |     were given back)
                              | | +---- the request of that claim was another one: KEY_REUSED
                              | +------ the claim is complete: acknowledged, and answered from
                              +-------- time is over: KEY_BUSY

The watch decides which claim has a key (`keys`), so a claim with a key costs no further request; its answer waits until
the watch has shown the last of its pods. To acknowledge a claim is a write, once for a key that is repeated elsewhere.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from extender.claims import images
from extender.claims.acknowledging import AcknowledgingClaims
from extender.claims.codes import ClaimCode
from extender.claims.keys import Key, KeyOrder, Verdict
from extender.claims.marking import Command
from extender.claims.records import WarmPod
from extender.claims.requests import Pending, Requests
from extender.claims.state import Claim, ClaimState


class Step(Enum):
    """What a request with a key that holds no pods can do."""

    #: No claim has the key.
    TAKE = auto()
    #: It is not known which claim has the key, or that claim is not complete, or it is being given back.
    WAIT = auto()
    #: The lease of the claim that has the key is over.
    END = auto()
    ACKNOWLEDGE = auto()
    ANSWER = auto()
    REUSED = auto()


class Host(Protocol):
    """What the engine does for this module."""

    def begin(self, pending: Pending, claim: str, now: float) -> None:
        """Take pods for a request that was parked, for a claim of this name."""

    def park(self, pending: Pending) -> None:
        """The request wants no pods now. Those that it has are given back."""

    def fail(self, pending: Pending, code: ClaimCode, detail: str) -> None:
        """Answer the request: it gets nothing."""

    def answer_from(self, pending: Pending, claim: Claim, pods: tuple[WarmPod, ...]) -> None:
        """Answer the request with another claim."""

    def answer_if_complete(self, pending: Pending) -> None:
        """Answer the request if it has all its pods."""

    def end_lease(self, claim: Claim, now: float) -> None:
        """See whether the claim's lease is over, and give it back."""

    def has_granted(self, claim: str) -> bool:
        """Whether this server has answered with the claim."""

    def is_over(self, claim: str) -> bool:
        """Whether this server gives the claim back, or has."""


class KeyedRequests:
    """See the module. `epoch`: seconds since 1970 when the engine's clock was 0."""

    def __init__(self, state: ClaimState, requests: Requests, host: Host, epoch: float) -> None:
        self._state = state
        self._requests = requests
        self._host = host
        self._epoch = epoch
        self.order = KeyOrder(state.keys_changed)
        self.acknowledging = AcknowledgingClaims(state)

    def is_first(self, pending: Pending) -> bool:
        """Whether the watch has shown that the request's claim has the key."""
        return self.order.verdict(pending.claim, pending.pods) is Verdict.FIRST

    def is_taken(self, key: Key, but: str = "") -> bool:
        """Whether a claim stands that has this key, except for one."""
        return any(name != but for name in self._standing(key))

    def _standing(self, key: Key) -> set[str]:
        """By the watch, or by answers to writes, which know more."""
        names = {name for name in self._state.keys.get(key, ()) if self._pods(self._state.claims[name])}
        return names | set(self.order.names(key))

    def _pods(self, claim: Claim) -> tuple[WarmPod, ...]:
        pods = (self._state.pods[uid] for uid in sorted(claim.uids))
        return tuple(pod for pod in pods if not pod.is_terminating)

    # -- decisions ------------------------------------------------------------------------------------------------

    def decide(self, key: Key, digest: str, now: float) -> tuple[Step, Claim | None]:
        """Return what a request without pods can do, and the claim that has its key, as far as that is known."""
        if not self.is_taken(key):
            return Step.TAKE, None
        claim = self._owner(key)
        if claim is None:
            return Step.WAIT, None
        return self._decide_about(claim, digest, now), claim

    def _decide_about(self, claim: Claim, digest: str, now: float) -> Step:
        pods, is_granted = self._pods(claim), self._host.has_granted(claim.name)
        if claim.is_ending or self._host.is_over(claim.name) or not pods:
            return Step.WAIT
        if claim.expires <= now + self._epoch:
            return Step.END
        if claim.digest != digest:
            return Step.REUSED
        if not is_granted and any(images.is_between(pod) or pod.is_coming for pod in pods):
            return Step.WAIT
        if is_granted or all(pod.mark is not None and pod.mark.is_known for pod in pods):
            return Step.ANSWER
        return Step.ACKNOWLEDGE if claim.was_whole and len(pods) <= claim.size else Step.WAIT

    def _owner(self, key: Key) -> Claim | None:
        claims = [self._state.claims[name] for name in self._state.keys.get(key, ())]
        for claim in claims:
            if self._host.has_granted(claim.name):
                return claim
        for claim in claims:
            if any(pod.mark is not None and pod.mark.is_known for pod in self._pods(claim)):
                return claim
        return self._state.claims.get(self.order.first(key))

    # -- requests -------------------------------------------------------------------------------------------------

    def look(self, key: Key, now: float) -> list[Command]:
        """Something has changed that may matter to the request with this key, if there is one."""
        pending = self._requests.with_key(key)
        if pending is None:
            return []
        if pending.is_parked:
            return self._look_at_parked(pending, key, now)
        has_none = not (pending.pods or pending.writing or pending.is_cold)
        if self.order.verdict(pending.claim, pending.pods) is Verdict.LATER:
            pending.yielded += 1
            self._host.park(pending)
        elif has_none and self.is_taken(key, but=pending.claim):
            self._host.park(pending)
        else:
            self._host.answer_if_complete(pending)
            return []
        return self._look_at_parked(pending, key, now)

    def _look_at_parked(self, pending: Pending, key: Key, now: float) -> list[Command]:
        step, claim = self.decide(key, pending.asked.digest, now)
        if step is Step.TAKE:
            self._host.begin(pending, self._name(pending), now)
        elif claim is None or step is Step.WAIT:
            return []
        elif step is Step.END:
            self._host.end_lease(claim, now)
        elif step is Step.REUSED:
            self._host.fail(pending, ClaimCode.KEY_REUSED, "key: expected the same request as when it was first used")
        elif step is Step.ANSWER:
            self._host.answer_from(pending, claim, self._pods(claim))
        elif why := self.acknowledging.refusals.pop(claim.name, ""):
            self._host.fail(pending, ClaimCode.WRITE_REFUSED, why)
        else:
            return self.acknowledging.acknowledge(claim, now)
        return []

    @staticmethod
    def _name(pending: Pending) -> str:
        """A name for the request's next claim: pods of the one before may still be on their way back."""
        return f"{pending.first_claim}-{pending.yielded}" if pending.yielded else pending.claim
