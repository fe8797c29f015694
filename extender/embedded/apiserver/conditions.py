"""Conditions in the status of pods, nodes and budgets."""

from __future__ import annotations

from extender.embedded.apiserver.objects import Object, items


def is_ready(obj: Object) -> bool:
    """The Ready condition of a pod or node is True."""
    conditions = items(obj.get("status", {}), "conditions", "status")
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def set_condition(status: Object, kind: str, value: str, *, now: str, **more: str | int) -> None:
    """Set one condition in place; its transition time changes only with its value."""
    conditions = [each for each in status.get("conditions", []) if each.get("type") != kind]
    old = next((each for each in status.get("conditions", []) if each.get("type") == kind), None)
    unchanged = old is not None and old.get("status") == value
    since = old["lastTransitionTime"] if old and unchanged and "lastTransitionTime" in old else now
    conditions.append({"type": kind, "status": value, "lastTransitionTime": since, **more})
    status["conditions"] = conditions
