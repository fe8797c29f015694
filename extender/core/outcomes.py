"""The outcome of a write to the API server, as the I/O layers report it to an engine."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class OutcomeKind(StrEnum):
    """The kinds of outcome. UNKNOWN is one of them: a write that timed out may have happened."""

    #: The write happened, and it was ours.
    DONE = "done"
    #: Another write changed the object first (409). Read it back: that write may even be an earlier try of our own.
    LOST = "lost"
    #: The object no longer exists (404).
    GONE = "gone"
    #: The object exists, but not with the expected UID or resourceVersion: read it again.
    STALE = "stale"
    #: Not now (429, or 503 with Retry-After): retry after `retry_after` seconds.
    THROTTLED = "throttled"
    #: Refused for good: this request can never succeed (400, 403, 422, ...).
    REJECTED = "rejected"
    #: Time-out, connection lost, 5xx: the write may have happened. Read the object back before anything else.
    UNKNOWN = "unknown"


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one write."""

    kind: OutcomeKind
    #: For display and logs only; no decision depends on it.
    detail: str = ""
    #: Seconds; only with THROTTLED.
    retry_after: float = 0.0
    #: Only with DONE: the resourceVersion of the object that was written or read; "" if the response has none, as that
    #: to a Binding or an Eviction.
    resource_version: str = ""
