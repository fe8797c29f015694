"""How a write to the API server ended: the only words in which the I/O layers report it to an engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutcomeKind(StrEnum):
    """How a write to the API server ended. Unknown is an outcome: a write that timed out may have happened."""

    #: The write happened, and it was ours.
    DONE = "done"
    #: Somebody else changed the object first (409). Read back: it may even have been an earlier try of our own.
    LOST = "lost"
    #: The object no longer exists (404).
    GONE = "gone"
    #: The object exists, but it is not the one that was meant (UID or resourceVersion differ): look again.
    STALE = "stale"
    #: Not now (429, or 503 with Retry-After): `retry_after` seconds.
    THROTTLED = "throttled"
    #: Never as it is (400, 403, 422, ...).
    REJECTED = "rejected"
    #: Time-out, connection lost, 5xx: it may have happened. Read back before anything else.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    kind: OutcomeKind
    #: For people and logs; never decides.
    detail: str = ""
    #: Seconds; only with THROTTLED.
    retry_after: float = 0.0
