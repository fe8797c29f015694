"""Decides who leads from observations of one Lease; never two at once. No I/O, no threads, no clock.

               look: held by another, and that changes        look: held by another, released, or spoilt
              +------+                                       +-----------------------------------------+
              v      |                                       |   its own deadline has passed, resigned |
    start --> Follower --- take: written, and answered --> Leader(term) ---+---------------------------+--> Follower
                 ^  |      within the deadline             ^   |   |
                 |  +--- take: refused, or no answer --+   |   |   +--- renew: refused, or no answer: look again;
                 +----------- look again --------------+   +---+        nothing of the deadline is gained by it
                                                        renew: written

    take is tried when the Lease is     released (by its holder, on its way out)
                                        ours already (a write whose answer was lost, a deadline that was missed)
                                        unchanged, or without a holder, for a whole lease, *as seen from here*

    If there is no Lease, any replica creates one at once, without a holder: a creation starts no leadership.

Why there are never two leaders. A leader's deadline counts from the moment *before* its last successful write was sent;
a follower's patience counts from the moment *after* it first saw the result. The deadline (7 s) is shorter than the
patience (10 s), so the leader has stopped before another replica may follow it, whatever the delays, pauses and
time-outs are, as long as one clock does not run faster than the other by more than `lease / renew_deadline` (settings
hold that to 1.25). Clocks are only read locally, never compared between machines; the Lease's own timestamps are used
only to see that they change. A write replaces only the version that was observed: of two replicas that take the Lease,
the second is refused. Only a creation replaces nothing, and it could arrive late, after the Lease was deleted by hand;
so a creation starts no leadership.

Every leadership has its own *term*, a number that only grows, also when the Lease was deleted by hand in between.
Reading the Lease never extends a leadership: if the response to a renewal is lost, the renewal does not count.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Upper bound, in seconds, of the lease duration of another holder that is waited for.
LONGEST_LEASE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Seconds. `settings.LeaderElectionSettings` checks their order."""

    lease: float = 10.0
    renew_deadline: float = 7.0
    retry: float = 1.5


@dataclass(frozen=True, slots=True)
class Record:
    """The content of the Lease. Two records that differ in anything were written at different times.

    `term` is its leaseTransitions; `duration` in seconds; `beat` is whatever text its holder changes when it renews.
    `released`: its holder gave it up in order. A Lease that is neither released nor held was just created, or is
    spoilt. `note` is what a releasing holder left for the next leader; it means nothing in this module.
    """

    holder: str = ""
    term: int = 0
    duration: float = 0.0
    beat: str = ""
    released: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A Record as it was read. `version` and `uid` are the API server's; if `record` is None, there is no Lease."""

    record: Record | None = None
    version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Lease. The result is passed to `saw` or `failed`."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write to the Lease that we hold it in this `term`, or that it is released, if it is still at `base`.

    If `base` has no record, the Lease is created, without a holder. The result is passed to `wrote`, `refused` (the
    Lease is not at `base` any more) or `failed` (any other error, including no response).
    """

    base: Seen
    term: int
    release: bool = False

    @property
    def creates(self) -> bool:
        return self.base.record is None


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing before `until`."""

    until: float


Action = Look | Write | Wait


@dataclass(slots=True)
class Election:
    """The election as one replica sees it. All times are seconds of one clock of this process that never goes back."""

    identity: str
    timing: LeaseTiming
    rng: random.Random
    #: The present term; 0, and no deadline, if this replica does not lead.
    term: int = 0
    deadline: float = float("-inf")
    #: The note that the previous leader left for this term.
    note: str = ""
    _seen: Seen | None = None
    _since: float = float("-inf")
    #: The observation may be out of date: look before anything else.
    _blind: bool = True
    _due: float = float("-inf")
    _failures: int = 0
    #: The highest term that was ever seen, and the last that began here.
    _highest: int = 0
    _begun: int = 0

    @property
    def holder(self) -> str:
        """The holder of the Lease when it was last seen; "" if there was none."""
        record = self._seen.record if self._seen else None
        return record.holder if record else ""

    # -- actions --------------------------------------------------------------------------------------------------

    def step(self, now: float) -> Action:
        """The action for this moment. Ends the leadership if its deadline has passed."""
        if self.term and now >= self.deadline:
            self.lapse()
        if now < self._due:
            return Wait(min(self._due, self.deadline) if self.term else self._due)
        if self._blind or self._seen is None:
            return Look()
        if self._seen.record is None:
            return Write(self._seen, self._highest)
        if self.term:
            return Write(self._seen, self.term)
        return Write(self._seen, self._highest + 1) if now >= self._free_at(self._seen.record) else Look()

    def _free_at(self, record: Record | None) -> float:
        """When the Lease may be written. A Lease that another replica holds must first stay unchanged for its whole
        duration."""
        if record is None or record.released or record.holder == self.identity:
            return self._since
        return self._since + max(self.timing.lease, min(record.duration, LONGEST_LEASE))

    # -- results --------------------------------------------------------------------------------------------------

    def saw(self, seen: Seen, now: float) -> None:
        """Record an observation: the Lease had this content at some moment since the Look. `now` is when the response
        arrived."""
        if self._seen is None or (seen.record, seen.uid) != (self._seen.record, self._seen.uid):
            self._since = now
        self._seen, self._blind = seen, False
        if seen.record is not None:
            self._highest = max(self._highest, seen.record.term)
        if self.term and not self._is_ours(seen.record):
            self.lapse()
        free_at = self._free_at(seen.record)
        if self.term or free_at <= now:
            self._due = now
        else:
            self._failures = 0
            self._due = min(self._soon(now), free_at)

    def _is_ours(self, record: Record | None) -> bool:
        """Whether the leadership can go on. No other replica takes a Lease without a holder before our deadline."""
        if record is None or not (record.holder or record.released):
            return True
        return record.holder == self.identity and record.term == self.term

    def wrote(self, write: Write, seen: Seen, *, started: float, now: float) -> None:
        """The write succeeded, and the Lease is as in `seen`. `started` is a moment before it was sent.

        A response after the deadline saves no leadership, and no term begins twice: the Lease is ours all the same, and
        is taken at once in a new term.
        """
        self._seen, self._since, self._blind = seen, now, False
        self._highest = max(self._highest, write.term)
        self._failures = 0
        self._due = now
        if write.creates:
            self._due = now if self.term else min(self._soon(now), self._free_at(seen.record))
            return
        deadline = started + self.timing.renew_deadline
        in_time = now < deadline and (now < self.deadline if self.term else write.term > self._begun)
        if write.release or not in_time:
            self.lapse()
            return
        if self.term != write.term:
            self.note = write.base.record.note if write.base.record else ""
        self.term = self._begun = write.term
        self.deadline = deadline
        self._due = self._soon(started)

    def refused(self, now: float) -> None:
        """Another replica was quicker, or the Lease is gone: nothing was written. After the first refusal, look again
        at once."""
        self._blind = True
        self._failures += 1
        self._due = now if self._failures == 1 else now + self._pause()

    def failed(self, now: float, *, retry_after: float = 0.0) -> None:
        """No response, or an inconclusive one: a write may have been applied. `retry_after`: seconds that the server
        asks for."""
        self._blind = True
        self._failures += 1
        self._due = now + max(self._pause(), min(retry_after, self.timing.retry))

    def _soon(self, now: float) -> float:
        return now + self.rng.uniform(0.8, 1.0) * self.timing.retry

    def _pause(self) -> float:
        """Seconds to back off: a quarter of `retry` after the first failure, doubling up to it, less up to a half by
        chance."""
        return self.rng.uniform(0.5, 1.0) * self.timing.retry * min(1.0, 2.0 ** (self._failures - 3))

    # -- end of leadership ----------------------------------------------------------------------------------------

    def lapse(self) -> None:
        """End the leadership, whatever the Lease says."""
        self.term, self.deadline = 0, float("-inf")

    def resign(self) -> Action | None:
        """End the leadership. Returns the Write that releases the Lease, or a Look that is due first; None if it is not
        ours."""
        self.lapse()
        if self._blind or self._seen is None:
            return Look()
        record = self._seen.record
        if record is None or record.holder != self.identity or record.released:
            return None
        return Write(self._seen, record.term, release=True)
