"""Features of a pod's spec that kube-scheduler obeys and a plan does not: each becomes a warning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]


def unplanned_features(spec: Object) -> Iterator[str]:
    """Yield a sentence for each feature of this pod spec that a plan does not obey."""
    affinity = _section(spec, "affinity")
    for field, name in (("podAffinity", "affinity to pods"), ("podAntiAffinity", "anti-affinity to pods")):
        if _section(affinity, field).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"a plan does not obey its {name} (spec.affinity.{field})"
    spreads = [each for each in _list(spec, "topologySpreadConstraints") if isinstance(each, dict)]
    if any(each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for each in spreads):
        yield "a plan does not obey its spec.topologySpreadConstraints"
    if any(
        isinstance(each, dict) and ("persistentVolumeClaim" in each or "ephemeral" in each)
        for each in _list(spec, "volumes")
    ):
        yield "a plan does not check where its volumes are (spec.volumes with persistentVolumeClaim or ephemeral)"
    if spec.get("resourceClaims"):
        yield "a plan does not allocate its devices (spec.resourceClaims)"


def _section(parent: Object, key: str) -> Object:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def _list(parent: Object, key: str) -> list[Any]:
    found = parent.get(key)
    return found if isinstance(found, list) else []
