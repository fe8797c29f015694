"""PriorityClasses: the ones of the cluster and of the manifests, and what admission makes of a pod's class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.embedded.apiserver.admission import SYSTEM_CLASSES, default_class, resolve_priority
from extender.plan.reading.checking import as_object
from extender.plan.records import RawObject

Object = dict[str, Any]


class PriorityClasses:
    """The classes by name. Of two with one name, the later counts."""

    def __init__(self, objects: Iterable[RawObject]) -> None:
        self._classes = {name: _class(name, value) for name, value in SYSTEM_CLASSES.items()}
        for each in objects:
            if each.kind == "PriorityClass" and (found := _read(each)) is not None:
                self._classes[each.name] = found
        self._default = default_class(self._classes.values())

    def resolve(self, pod: Object) -> None:
        """Give the pod its priority in place. Raises the embedded API server's ApiError if its class does not exist,
        or if its number contradicts the class."""
        name = pod["spec"].get("priorityClassName", "")
        resolve_priority(pod, self._classes.get(name) if name else self._default)


def _read(obj: RawObject) -> Object | None:
    try:
        found = as_object(obj.json)
    except DecodeError:
        return None
    value = found.get("value", 0)
    if not isinstance(value, int):
        return None
    policy = str(found.get("preemptionPolicy", "PreemptLowerPriority"))
    return {**_class(obj.name, value, policy), "globalDefault": found.get("globalDefault") is True}


def _class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}


def lean_class(obj: RawObject) -> bytes:
    """Return the JSON of a PriorityClass with only what admission reads."""
    found = _read(obj) or _class(obj.name, 0)
    return msgspec.json.encode(found)
