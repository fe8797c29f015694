"""All kinds of command of the engine of claims, for the I/O layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.claims.records import WarmPod
from extender.claims.writes import advance, create, give, look, renew, take
from extender.core.commands import CommandKind


def kinds(decode: Callable[[bytes], WarmPod]) -> list[CommandKind[Any, Any, Any]]:
    """Return the kinds. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    reading = (take, look, renew, advance, create)
    return [*(each.kind(decode) for each in reading), give.KIND]
