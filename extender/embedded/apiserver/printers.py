"""The columns that `kubectl get` shows, for each kind: a name, how the cell is made, and whether only `-o wide` has it.

Names, order and wording follow k8s.io/kubernetes pkg/printers/internalversion. Kinds without a row here show NAME and
AGE.
"""

from __future__ import annotations

from typing import Any

from extender.embedded.apiserver.ages import age
from extender.embedded.apiserver.cells import Cell, Column
from extender.embedded.apiserver.objects import Object


def columns(kind: str) -> tuple[Column, ...]:
    return _COLUMNS.get(kind, (_NAME, _AGE))


def _at(*path: str, empty: Any = "<none>") -> Cell:
    """The value at a path; `empty` if there is none."""

    def cell(obj: Object, _now: float) -> Any:
        value: Any = obj
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return empty if value is None or value == "" else value

    return cell


def _since(*path: str) -> Cell:
    value = _at(*path, empty="")
    return lambda obj, now: age(value(obj, now), now)


def _size(key: str) -> Cell:
    return lambda obj, _now: len(obj.get(key) or ())


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, wide=True)


def _number(name: str, *path: str) -> Column:
    return Column(name, _at(*path, empty=0), type="integer")


_NAME = Column("Name", _at("metadata", "name"))
_AGE = Column("Age", _since("metadata", "creationTimestamp"))


# -- pods ---------------------------------------------------------------------------------------------------------


def _pod_ready(pod: Object, _now: float) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(pod['spec'].get('containers', []))}"


def _pod_status(pod: Object, _now: float) -> str:
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    shown: str = status.get("reason") or status.get("phase", "Unknown")
    if pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName"):
        return "SchedulingGated"
    for each in status.get("containerStatuses", []):
        state = each.get("state", {})
        why = state.get("waiting", state.get("terminated", {})).get("reason")
        shown = why or shown
    return shown


def _pod_restarts(pod: Object, _now: float) -> str:
    return str(sum(each.get("restartCount", 0) for each in pod.get("status", {}).get("containerStatuses", [])))


# -- nodes ---------------------------------------------------------------------------------------------------------


def _node_status(node: Object, _now: float) -> str:
    conditions = {each["type"]: each.get("status") for each in node.get("status", {}).get("conditions", [])}
    ready = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready") or "", "Unknown")
    if "Ready" in conditions and ready == "Unknown":
        ready = "NotReady"
    return ready + (",SchedulingDisabled" if node["spec"].get("unschedulable") else "")


def _node_roles(node: Object, _now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = [key.removeprefix(prefix) for key in node["metadata"].get("labels", {}) if key.startswith(prefix)]
    return ",".join(sorted(roles)) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(node: Object, _now: float) -> str:
        found = [each["address"] for each in node["status"].get("addresses", []) if each.get("type") == kind]
        return found[0] if found else "<none>"

    return cell


def _node_info(field: str) -> Column:
    names = {"osImage": "OS-Image", "kernelVersion": "Kernel-Version", "containerRuntimeVersion": "Container-Runtime"}
    return _wide(names[field], _at("status", "nodeInfo", field, empty="<unknown>"))


# -- events ---------------------------------------------------------------------------------------------------------


def _event_object(event: Object, _now: float) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_seen(*paths: tuple[str, ...]) -> Cell:
    def cell(event: Object, now: float) -> str:
        for path in paths:
            value = _at(*path, empty="")(event, now)
            if value:
                return age(value, now)
        return "<unknown>"

    return cell


def _event_source(event: Object, _now: float) -> str:
    source = event.get("source") or {}
    said_by = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    return said_by + (f", {source['host']}" if source.get("host") else "")


def _event_text(event: Object, _now: float) -> str:
    text: str = event.get("message") or event.get("note") or ""
    return text.strip()


def _event_count(event: Object, _now: float) -> int:
    series = event.get("series") or {}
    count: int = series.get("count") or event.get("count") or 1
    return count


# -- workloads ---------------------------------------------------------------------------------------------------------


def _ready_of_wanted(obj: Object, _now: float) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


def _containers(field: str) -> Cell:
    def cell(obj: Object, _now: float) -> str:
        return ",".join(each.get(field, "") for each in obj["spec"]["template"]["spec"].get("containers", []))

    return cell


def _selector(obj: Object, _now: float) -> str:
    selector = obj["spec"].get("selector") or {}
    labels = selector.get("matchLabels", selector)
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


_TEMPLATE = (_wide("Containers", _containers("name")), _wide("Images", _containers("image")))
_SELECTOR = _wide("Selector", _selector)


def _job_status(job: Object, _now: float) -> str:
    for each in job.get("status", {}).get("conditions", []):
        if each.get("status") == "True" and each.get("type") in ("Complete", "Failed", "Suspended"):
            return str(each["type"])
    return "Running"


def _job_completions(job: Object, _now: float) -> str:
    return f"{job.get('status', {}).get('succeeded', 0)}/{job['spec'].get('completions', 1)}"


def _job_duration(job: Object, now: float) -> str:
    started = job.get("status", {}).get("startTime")
    return age(started, now) if started else ""


# -- the rest ---------------------------------------------------------------------------------------------------------


def _ports(service: Object, _now: float) -> str:
    ports = service["spec"].get("ports", [])
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _access_modes(obj: Object, _now: float) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in obj["spec"].get("accessModes", []))


_COLUMNS: dict[str, tuple[Column, ...]] = {
    "Pod": (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        _wide("IP", _at("status", "podIP")),
        _wide("Node", _at("spec", "nodeName")),
        _wide("Nominated Node", _at("status", "nominatedNodeName")),
        _wide("Readiness Gates", lambda _obj, _now: "<none>"),
    ),
    "Node": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion", empty="")),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _node_info("osImage"),
        _node_info("kernelVersion"),
        _node_info("containerRuntimeVersion"),
    ),
    "Event": (
        Column("Last Seen", _event_seen(("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",))),
        Column("Type", _at("type", empty="")),
        Column("Reason", _at("reason", empty="")),
        Column("Object", _event_object),
        _wide("Subobject", _at("involvedObject", "fieldPath", empty="")),
        _wide("Source", _event_source),
        Column("Message", _event_text),
        _wide("First Seen", _event_seen(("firstTimestamp",), ("eventTime",))),
        _wide("Count", _event_count),
        _wide("Name", _at("metadata", "name")),
    ),
    "Namespace": (_NAME, Column("Status", _at("status", "phase")), _AGE),
    "StatefulSet": (_NAME, Column("Ready", _ready_of_wanted), _AGE, *_TEMPLATE),
    "Deployment": (
        _NAME,
        Column("Ready", _ready_of_wanted),
        _number("Up-to-date", "status", "updatedReplicas"),
        _number("Available", "status", "availableReplicas"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    **dict.fromkeys(
        ("ReplicaSet", "ReplicationController"),
        (
            _NAME,
            _number("Desired", "spec", "replicas"),
            _number("Current", "status", "replicas"),
            _number("Ready", "status", "readyReplicas"),
            _AGE,
            *_TEMPLATE,
            _SELECTOR,
        ),
    ),
    "DaemonSet": (
        _NAME,
        _number("Desired", "status", "desiredNumberScheduled"),
        _number("Current", "status", "currentNumberScheduled"),
        _number("Ready", "status", "numberReady"),
        _number("Up-to-date", "status", "updatedNumberScheduled"),
        _number("Available", "status", "numberAvailable"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "Job": (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
        *_TEMPLATE,
    ),
    "Lease": (_NAME, Column("Holder", _at("spec", "holderIdentity", empty="")), _AGE),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", _at("spec", "minAvailable", empty="N/A")),
        Column("Max Unavailable", _at("spec", "maxUnavailable", empty="N/A")),
        _number("Allowed Disruptions", "status", "disruptionsAllowed"),
        _AGE,
    ),
    "PriorityClass": (
        _NAME,
        _number("Value", "value"),
        Column("Global-Default", _at("globalDefault", empty=False), type="boolean"),
        _AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy", empty="")),
    ),
    "CustomResourceDefinition": (_NAME, Column("Created At", _at("metadata", "creationTimestamp"), type="date")),
    "ConfigMap": (_NAME, Column("Data", _size("data")), _AGE),
    "Secret": (_NAME, Column("Type", _at("type", empty="")), Column("Data", _size("data")), _AGE),
    "Service": (
        _NAME,
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _at("spec", "clusterIP")),
        Column("External-IP", lambda _obj, _now: "<none>"),
        Column("Port(s)", _ports),
        _AGE,
        _SELECTOR,
    ),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", _at("status", "phase", empty="")),
        Column("Volume", _at("spec", "volumeName", empty="")),
        Column("Capacity", _at("status", "capacity", "storage", empty="")),
        Column("Access Modes", _access_modes),
        Column("StorageClass", _at("spec", "storageClassName", empty="")),
        _AGE,
    ),
}

__all__ = ["Column", "columns"]
