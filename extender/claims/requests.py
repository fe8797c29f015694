"""Requests for pods, from their acceptance to their one answer, and their counters.

accepted = claimed + failed (by code) + pending        after every event
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from extender.claims.claim_queue import Waiter
from extender.claims.codes import ENDS, ClaimCode
from extender.claims.events import Answered, ClaimAsked, ClaimInstruction
from extender.claims.keys import Key
from extender.claims.records import PoolKey, WarmPod


class Pending(msgspec.Struct, gc=False):
    """A request that has no answer yet. Each of its pods is missing, being written (`writing`), or claimed (`pods`)."""

    asked: ClaimAsked
    sequence: int
    asked_at: float
    #: When it stops waiting for a pod, seconds of the engine's clock.
    deadline: float
    #: UIDs of the pods that are being written for it, by the tokens of their holds.
    writing: dict[int, str] = msgspec.field(default_factory=dict)
    pods: dict[str, WarmPod] = msgspec.field(default_factory=dict)
    #: Pods are being created for it.
    is_cold: bool = False
    #: Another claim may have its key: it takes no pods now. See extender/claims/keyed.py.
    is_parked: bool = False
    #: How often it has given its pods back to such a claim.
    yielded: int = 0
    #: The name of its first claim, by which its caller may know it.
    first_claim: str = ""
    #: Bytes of what its caller has written.
    weight: int = 0
    #: The calls that get the answer: several if a caller has repeated its key.
    callers: dict[str, None] = msgspec.field(default_factory=dict)

    @property
    def claim(self) -> str:
        return self.asked.claim

    @property
    def missing(self) -> int:
        """How many pods no write has been started for."""
        if self.is_parked:
            return 0
        return self.asked.count - len(self.writing) - len(self.pods)

    def waiter(self) -> Waiter:
        asked = self.asked
        return Waiter(asked.claim, asked.tenant, asked.demand, asked.priority, self.sequence, self.missing)


def weight(asked: ClaimAsked) -> int:
    """Return the size of the request's labels, annotations, images and demand, in characters."""
    if not (asked.labels or asked.annotations or asked.images or asked.demand.labels):
        return 0
    pairs = (*asked.labels, *asked.annotations, *asked.images, *asked.demand.labels)
    return sum(len(name) + len(value) for name, value in pairs)


@dataclass(slots=True)
class Counts:
    """The counters of one pool."""

    accepted: int = 0
    ends: Counter[ClaimCode] = field(default_factory=Counter)
    refused: Counter[ClaimCode] = field(default_factory=Counter)

    @property
    def pending(self) -> int:
        return self.accepted - sum(self.ends.values())


class Requests:
    """The pending requests by their claims' names, and the counters."""

    def __init__(self) -> None:
        self.pending: dict[str, Pending] = {}
        self.accepted = 0
        #: The weight of all pending requests.
        self.bytes = 0
        #: Requests that were refused on arrival, and therefore never accepted.
        self.refused: Counter[ClaimCode] = Counter()
        #: All of this by pool, for present and former pools.
        self.counts: dict[PoolKey, Counts] = {}
        self._by_call: dict[str, str] = {}
        self._keys: dict[Key, str] = {}
        #: The claims of requests that have begun again, by the names of their first ones.
        self._renamed: dict[str, str] = {}

    @property
    def ends(self) -> Counter[ClaimCode]:
        """How the accepted requests of all pools have ended."""
        return sum((counts.ends for counts in self.counts.values()), Counter())

    def accept(self, asked: ClaimAsked, now: float) -> Pending:
        self.accepted += 1
        counts = self.counts.get(asked.pool)
        if counts is None:
            counts = self.counts[asked.pool] = Counts()
        counts.accepted += 1
        claim = asked.claim
        made = Pending(
            asked,
            self.accepted,
            now,
            now + asked.wait_seconds,
            first_claim=claim,
            weight=weight(asked),
            callers={asked.request: None},
        )
        self.bytes += made.weight
        self.pending[claim] = made
        self._by_call[asked.request] = claim
        if asked.key:
            self._keys[asked.pool, asked.tenant, asked.key] = claim
        return made

    def with_key(self, key: Key) -> Pending | None:
        """The pending request that has this key."""
        claim = self._keys.get(key)
        return None if claim is None else self.pending[claim]

    def find(self, claim: str) -> Pending | None:
        """Return the pending request of this claim, or of one that began as this claim."""
        return self.pending.get(self._renamed.get(claim, claim))

    def rename(self, pending: Pending, claim: str) -> None:
        """The request begins again, for a claim of another name."""
        asked = pending.asked
        self._renamed[pending.first_claim] = claim
        del self.pending[asked.claim]
        pending.asked = msgspec.structs.replace(asked, claim=claim)
        self.pending[claim] = pending
        self._by_call.update(dict.fromkeys(pending.callers, claim))
        if asked.key:
            self._keys[asked.pool, asked.tenant, asked.key] = claim

    def claim_with_key(self, pool: PoolKey, tenant: str, key: str) -> str:
        """Return the name of the pending claim with this key; "" if there is none."""
        return self._keys.get((pool, tenant, key), "")

    def join(self, pending: Pending, request: str) -> None:
        """Give the answer to one more call."""
        pending.callers[request] = None
        self._by_call[request] = pending.claim

    def leave(self, request: str) -> Pending | None:
        """Forget a call whose caller has disconnected. Return its request if no other call waits for the answer."""
        claim = self._by_call.pop(request, None)
        if claim is None:
            return None
        pending = self.pending[claim]
        del pending.callers[request]
        return None if pending.callers else pending

    def end(
        self,
        pending: Pending,
        code: ClaimCode,
        claim: str = "",
        *,
        pods: tuple[WarmPod, ...] = (),
        expires: float = 0.0,
        detail: str = "",
    ) -> list[ClaimInstruction]:
        """Answer a request, which is then no longer pending. `claim`: the one that it gets, if that is another's."""
        assert code in ENDS, f"{code} cannot end a request that was accepted"
        asked = pending.asked
        del self.pending[asked.claim]
        self._renamed.pop(pending.first_claim, None)
        self.bytes -= pending.weight
        if asked.key:
            del self._keys[asked.pool, asked.tenant, asked.key]
        self.counts[asked.pool].ends[code] += 1
        claim = claim or asked.claim
        answers: list[ClaimInstruction] = []
        for request in pending.callers:
            del self._by_call[request]
            answers.append(Answered(request=request, code=code, claim=claim, pods=pods, expires=expires, detail=detail))
        return answers

    def refuse(
        self, request: str, code: ClaimCode, detail: str = "", retry_after: float = 0.0, pool: PoolKey | None = None
    ) -> Answered:
        """Refuse a request on arrival. `pool`: the pool that it asks for, if that exists."""
        self.refused[code] += 1
        if pool is not None:
            self.counts.setdefault(pool, Counts()).refused[code] += 1
        return Answered(request=request, code=code, detail=detail, retry_after=retry_after)

    def validate(self) -> None:
        """Raise AssertionError if the counters do not add up."""
        ended = sum(self.ends.values())
        assert self.accepted == ended + len(self.pending), f"{self.accepted} != {ended} + {len(self.pending)}"
        for pool, counts in self.counts.items():
            number = sum(each.asked.pool == pool for each in self.pending.values())
            assert counts.pending == number, f"{pool}: {counts}, pending {number}"
        assert self.accepted == sum(counts.accepted for counts in self.counts.values())
        assert self.bytes == sum(pending.weight for pending in self.pending.values())
        calls = {call: claim for claim, pending in self.pending.items() for call in pending.callers}
        assert calls == self._by_call, f"calls {self._by_call}, waiting {calls}"
        assert set(self._renamed.values()) <= set(self.pending), f"{self._renamed}, pending {set(self.pending)}"
        keys = {(p.asked.pool, p.asked.tenant, p.asked.key): c for c, p in self.pending.items() if p.asked.key}
        assert keys == self._keys, f"keys {self._keys}, pending {keys}"
        for pending in self.pending.values():
            assert pending.missing >= 0, f"{pending.claim} has more pods than it asked for"
