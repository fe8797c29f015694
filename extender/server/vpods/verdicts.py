"""Decides which sets are served. Pure.

Sets of the configuration come first, then VPodSet objects by age. An object is Misconfigured if it is not valid, has
the name of a configured set, names a StatefulSet that an earlier set has, or a policy that cannot be used. Such a set
is not served: its vpods stay where they are, and its StatefulSet is not scaled. All other sets are served.

No earlier configuration of an object is kept while its present one is refused: what a server did would then depend on
how long it has run, and a restart would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from extender.server.vpods.set_objects import SetObject
from extender.vpods.records import ObjectKey, SetSettings

#: Sets that are served at once, those of the configuration included.
MOST_SETS: Final = 1000


class Verdict(msgspec.Struct, frozen=True):
    """The decision on one VPodSet object. `settings`: None if it is not served, because of `reason`."""

    settings: SetSettings | None
    reason: str = ""
    message: str = ""


def judge(
    configured: Iterable[SetSettings], objects: Iterable[SetObject], *, policy_fault: Callable[[SetSettings], str]
) -> dict[str, Verdict]:
    """Return the verdict on each object, by UID. `policy_fault` returns why a set's policy cannot be used, or ""."""
    served = {each.key: each for each in configured}
    in_configuration = frozenset(served)
    hosts = {_workload(each): each.key for each in served.values()}
    verdicts: dict[str, Verdict] = {}
    for obj in sorted(objects, key=lambda each: (each.created, each.key)):
        verdict = _verdict(obj, in_configuration, hosts, len(served))
        if verdict.settings is not None and (fault := policy_fault(verdict.settings)):
            verdict = Verdict(None, "BadPolicy", _in_object(fault))
        verdicts[obj.uid] = verdict
        if verdict.settings is not None:
            served[obj.key] = verdict.settings
            hosts[_workload(verdict.settings)] = obj.key
    return verdicts


def _in_object(fault: str) -> str:
    """A fault of a policy, with the field as an object spells it, not as the configuration does."""
    return "spec." + fault.replace("policy_settings", "policySettings", 1)


def _verdict(
    obj: SetObject, configured: frozenset[ObjectKey], hosts: dict[ObjectKey, ObjectKey], served: int
) -> Verdict:
    if obj.settings is None:
        return Verdict(None, "InvalidSpec", obj.fault)
    if obj.key in configured:
        return Verdict(None, "InConfiguration", "the configuration file has a set of this name, which is served")
    if served >= MOST_SETS:
        return Verdict(None, "TooManySets", f"expected at most {MOST_SETS} sets")
    if (other := hosts.get(_workload(obj.settings))) is not None:
        message = f"spec.statefulSet: set {other} has {obj.settings.workload}, and came first; expected another one"
        return Verdict(None, "StatefulSetTaken", message)
    return Verdict(obj.settings)


def _workload(settings: SetSettings) -> ObjectKey:
    return ObjectKey(settings.key.namespace, settings.workload)
