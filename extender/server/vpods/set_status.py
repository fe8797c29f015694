"""Builds the status of VPodSet objects, and says whether it is worth a write. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from extender.resources import VPodSetStatus
from extender.server import status_writes
from extender.server.conditions import conditions
from extender.server.vpods.set_objects import SetObject
from extender.server.vpods.verdicts import Verdict
from extender.vpods.sets import HostedSet

#: The minimum of seconds between two writes of one status, and the seconds after which exact numbers are written.
PAUSE: Final = 1.0
SETTLED: Final = 30.0
#: The share by which a number must have changed to be worth a write before that.
_SHARE: Final = 0.1
_NUMBERS: Final = ("replicas", "usable", "capacity", "placed", "pending", "free", "draining")


class SetNumbers(msgspec.Struct, frozen=True, gc=False):
    """A served set in numbers. `exists`: whether its StatefulSet does."""

    exists: bool
    replicas: int = 0
    usable: int = 0
    capacity: int = 0
    placed: int = 0
    pending: int = 0
    free: int = 0
    draining: int = 0
    #: Why its StatefulSet cannot be used; "" if it can.
    fault: str = ""


def numbers(hosted: HostedSet) -> SetNumbers:
    """Return the numbers of a set. Takes O(pods)."""
    state = hosted.state
    placed = sum(state.committed.values())
    return SetNumbers(
        exists=hosted.workload is not None,
        replicas=hosted.replicas,
        usable=len(state.usable),
        capacity=len(state.usable) * state.capacity,
        placed=placed,
        pending=max(0, state.total_wanted - placed),
        free=hosted.free(),
        draining=max(0, hosted.replicas - hosted.draining) if hosted.draining is not None else 0,
        fault=hosted.workload.trouble if hosted.workload else "",
    )


def set_status(
    obj: SetObject, verdict: Verdict, found: SetNumbers | None, *, trouble: str = "", now: str
) -> dict[str, Any]:
    """Return the status to write. `found`: None if the set is not served, or not yet, because of `trouble`; `now`: RFC
    3339."""
    status: dict[str, Any] = {"observedGeneration": obj.generation, **dict.fromkeys(_NUMBERS, 0)}
    if found is not None:
        status |= {name: getattr(found, name) for name in _NUMBERS}
    said = {"Ready": _ready(obj, verdict, found, trouble), "Misconfigured": _misconfigured(verdict)}
    status["conditions"] = conditions(said, obj.status.conditions, generation=obj.generation, now=now)
    return status


def _ready(obj: SetObject, verdict: Verdict, found: SetNumbers | None, trouble: str) -> tuple[str, str, str]:
    if verdict.settings is None:
        return "False", "Misconfigured", verdict.message
    if found is None:
        return "False", "NotReady", trouble or f"the pods of namespace {obj.key.namespace} are not known yet"
    if not found.exists:
        name = f"{obj.key.namespace}/{verdict.settings.workload}"
        return "False", "NoStatefulSet", f"spec.statefulSet: there is no StatefulSet {name}"
    if found.fault:
        return "False", "NoStatefulSet", f"spec.statefulSet: {found.fault}"
    return "True", "Served", "vpods are placed"


def _misconfigured(verdict: Verdict) -> tuple[str, str, str]:
    return ("False", "AsExpected", "") if verdict.settings is not None else ("True", verdict.reason, verdict.message)


def is_news(shown: VPodSetStatus, status: Mapping[str, Any], *, is_settled: bool) -> bool:
    """Whether the status is worth a write. `is_settled`: exact numbers are due."""
    return status_writes.is_news(shown, status, _NUMBERS, share=_SHARE, is_settled=is_settled)
