"""Admission of pods: the priority class becomes the number that schedulers compare.

Follows k8s.io/kubernetes plugin/pkg/admission/priority: the class decides, a number given by hand must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.embedded.apiserver.errors import forbidden
from extender.embedded.apiserver.objects import Object, section
from extender.embedded.apiserver.store import Store
from extender.embedded.apiserver.table import PODS, PRIORITY_CLASSES

#: There from the start, as in every cluster.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def admit_pod(store: Store, pod: Object) -> None:
    """Resolve the pod's priority in place. Raises 403 if its class does not exist or its number contradicts it."""
    resolve_priority(pod, _class_of(store, pod["spec"].get("priorityClassName", "")))


def resolve_priority(pod: Object, chosen: Object | None) -> None:
    """Give the pod the priority of its class in place; None: it names none that exists. Raises as `admit_pod`."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    if chosen is None and spec.get("priorityClassName"):
        raise forbidden(PODS, name, f"no PriorityClass with name {spec['priorityClassName']} was found")
    priority = chosen["value"] if chosen else 0
    if spec.get("priority", priority) != priority:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(PODS, name, why)
    spec["priority"] = priority
    if chosen:
        spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["preemptionPolicy"] = chosen["preemptionPolicy"]


def keep_priority(pod: Object, before: Object) -> None:
    """An update that leaves out what admission resolved, as a manifest does, keeps it."""
    spec = section(pod, "spec")
    for key in ("priority", "preemptionPolicy"):
        if key in before["spec"]:
            spec.setdefault(key, before["spec"][key])


def _class_of(store: Store, name: str) -> Object | None:
    classes = store.collection(PRIORITY_CLASSES)
    if name:
        stored = classes.get(("", name))
        return stored.fresh() if stored else None
    return default_class(stored.fresh() for stored in classes)


def default_class(classes: Iterable[Object]) -> Object | None:
    """The class of pods that name none; of several, the lowest."""
    defaults = [each for each in classes if each.get("globalDefault") is True]
    return min(defaults, key=lambda each: int(each["value"]), default=None)
