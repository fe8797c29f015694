"""Builds the conditions of a Kubernetes status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from extender.resources import Condition

#: The last second that `datetime` supports: every client that may write pods can put any number into a mark.
_LATEST = 253402300799.0


def conditions(
    said: Mapping[str, tuple[str, str, str]], before: Iterable[Condition], *, generation: int, now: str
) -> list[dict[str, Any]]:
    """Return the conditions for (status, reason, message) by type. The time changes only with the status."""
    known = {each.type: each for each in before}
    found = []
    for type_, (status, reason, message) in said.items():
        old = known.get(type_)
        is_same = old is not None and old.status == status and old.last_transition_time
        found.append(
            {
                "type": type_,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": old.last_transition_time if old is not None and is_same else now,
                "reason": reason,
                "message": message[:32_000],
            }
        )
    return found


def moment(epoch: float) -> str:
    """Return seconds since 1970 as an RFC 3339 time in whole seconds, as the API server writes times."""
    return datetime.fromtimestamp(min(max(epoch, 0.0), _LATEST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
