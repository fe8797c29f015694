"""Budgets of manifests: how many pods may be disrupted, as the disruption controller would compute it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from extender.embedded.kubescheduler.budgets import Budget, decode_budget
from extender.plan.records import PlanPod, RawObject

Object = dict[str, Any]


def new_budget(obj: RawObject, pods: Iterable[PlanPod]) -> Budget:
    """Return the budget of a manifest with what it allows now, by those of these pods that are ready.

    `pods`: also those that are new, and not ready yet: they count among the pods that are expected. Raises DecodeError.
    """
    plain = decode_budget(obj.json)
    spec = msgspec.json.decode(obj.json).get("spec", {})
    chosen = [each for each in pods if plain.covers(each.pod) and not each.pod.pod.finished]
    wanted = _wanted(spec, len(chosen))
    return msgspec.structs.replace(plain, allowed=0, lacking=wanted).changed_by(sum(each.ready for each in chosen))


def _wanted(spec: Object, expected: int) -> int:
    """How many of `expected` pods must be healthy."""
    if "maxUnavailable" in spec:
        return max(0, expected - _number(spec["maxUnavailable"], expected))
    return _number(spec.get("minAvailable", 0), expected)


def _number(value: int | str, expected: int) -> int:
    """A number, or a percentage, which is rounded up."""
    return value if isinstance(value, int) else math.ceil(expected * int(value.rstrip("%")) / 100)
