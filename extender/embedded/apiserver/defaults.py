"""What the API server fills in before it stores an object, by kind: only what scheduling and typed clients read.

Defaults follow k8s.io/kubernetes pkg/apis/core/v1/defaults.go and the DefaultTolerationSeconds admission plug-in.
Every quantity is rewritten canonically here, because stored numbers make typed clients refuse a whole list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from extender.embedded.apiserver.custom.definitions import first_status, set_definition_defaults
from extender.embedded.apiserver.errors import bad_request
from extender.embedded.apiserver.objects import Object, items, section, text
from extender.embedded.apiserver.quantities import QuantityError, stored_amount
from extender.embedded.apiserver.resources import Resource
from extender.embedded.apiserver.workload_defaults import WORKLOAD_KINDS, secret, service, storage_class, workload

_NOT_TOLERATED_FOREVER = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
#: The numbers that a status is born with, all 0.
_FIRST_STATUS: dict[str, tuple[str, ...]] = {
    "PodDisruptionBudget": ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
    "ReplicationController": ("replicas",),
    "ReplicaSet": ("replicas",),
    "StatefulSet": ("replicas", "availableReplicas"),
    "DaemonSet": ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"),
    "Deployment": (),
    "Job": (),
}
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def set_defaults(resource: Resource, obj: Object) -> None:
    """Fill in `obj` in place. Raises 400 naming the field if something cannot be read."""
    defaults = _DEFAULTS.get(resource.kind)
    if defaults and not resource.custom:
        defaults(obj)


def set_creation_defaults(resource: Resource, obj: Object, *, now: str) -> None:
    """What is filled in only when an object is created: its first status. `now` is an RFC 3339 time."""
    if resource.custom:
        if "status" in resource.subresources:
            obj.pop("status", None)
    elif resource.kind == "CustomResourceDefinition":
        obj["status"] = first_status(obj)
    elif resource.kind in _FIRST_STATUS:
        obj["status"] = dict.fromkeys(_FIRST_STATUS[resource.kind], 0)
    elif resource.kind == "Pod":
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj)}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": now}]
    elif resource.kind == "Namespace":
        obj["status"] = {"phase": "Active"}
    elif resource.kind in ("PersistentVolumeClaim", "PersistentVolume"):
        obj["status"] = {"phase": "Pending"}


def pod_containers(obj: Object, path: str = "spec") -> Iterator[tuple[str, Object]]:
    """Every container of a pod with its field path: init containers first, as they run."""
    spec = section(obj, "spec")
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(items(spec, key, path)):
            yield f"{path}.{key}[{index}]", container


def qos_class(obj: Object) -> str:
    """BestEffort, Burstable or Guaranteed, from cpu and memory of all containers."""
    any_set, guaranteed = False, True
    for _, container in pod_containers(obj):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in ("cpu", "memory"):
            any_set |= name in requests or name in limits
            guaranteed &= name in limits and requests.get(name) == limits[name]
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def canonicalise(parent: Object, key: str, path: str) -> None:
    """Rewrite the quantities of the resource list `parent[key]`, if there is one."""
    if key not in parent:
        return
    amounts = section(parent, key, path)
    for name, value in amounts.items():
        amounts[name] = _quantity(value, f"{path}.{key}[{name}]")


def _quantity(value: str | float, path: str) -> str:
    try:
        return stored_amount(value)
    except QuantityError as error:
        raise bad_request(f"{path}: {error}") from None


def _pod(obj: Object) -> None:
    spec = section(obj, "spec")
    _pod_spec(obj)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    _tolerations(spec)


def _pod_spec(obj: Object, path: str = "") -> None:
    """What a pod and the template of one have in common. `path` is where `obj` stands."""
    where = f"{path}.spec".lstrip(".")
    spec = section(obj, "spec", path)
    for each, container in pod_containers(obj, where):
        _container(container, each)
    canonicalise(spec, "overhead", where)
    if "resources" in spec:
        _requirements(section(spec, "resources", where), f"{where}.resources")
    for index, volume in enumerate(items(spec, "volumes", where)):
        empty = volume.get("emptyDir")
        if isinstance(empty, dict) and "sizeLimit" in empty:
            empty["sizeLimit"] = _quantity(empty["sizeLimit"], f"{where}.volumes[{index}].emptyDir.sizeLimit")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec["schedulerName"] = text(spec, "schedulerName", where) or "default-scheduler"


def _container(container: Object, path: str) -> None:
    _requirements(section(container, "resources", path), f"{path}.resources")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(text(container, "image", path))
    for index, port in enumerate(items(container, "ports", path)):
        port.setdefault("protocol", "TCP")
        if "containerPort" not in port:
            raise bad_request(f"{path}.ports[{index}].containerPort is required")


def _requirements(resources: Object, path: str) -> None:
    canonicalise(resources, "limits", path)
    canonicalise(resources, "requests", path)
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _tolerations(spec: Object) -> None:
    tolerations = list(items(spec, "tolerations", "spec"))
    for key in _NOT_TOLERATED_FOREVER:
        if not any(t.get("key", "") in ("", key) and t.get("effect", "") in ("", "NoExecute") for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _node(obj: Object) -> None:
    section(obj, "spec")
    status = section(obj, "status")
    canonicalise(status, "capacity", "status")
    canonicalise(status, "allocatable", "status")
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    items(status, "conditions", "status")
    section(section(status, "daemonEndpoints", "status"), "kubeletEndpoint").setdefault("Port", 0)
    info = section(status, "nodeInfo", "status")
    for name in _NODE_INFO:
        info.setdefault(name, "")


def _namespace(obj: Object) -> None:
    metadata = obj["metadata"]
    section(metadata, "labels", "metadata")["kubernetes.io/metadata.name"] = metadata.get("name", "")
    section(obj, "spec").setdefault("finalizers", ["kubernetes"])


def _priority_class(obj: Object) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _event(obj: Object) -> None:
    section(obj, "source")
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


def _claim(obj: Object) -> None:
    spec = section(obj, "spec")
    resources = section(spec, "resources", "spec")
    canonicalise(resources, "requests", "spec.resources")
    canonicalise(resources, "limits", "spec.resources")
    spec.setdefault("volumeMode", "Filesystem")


def _volume(obj: Object) -> None:
    spec = section(obj, "spec")
    canonicalise(spec, "capacity", "spec")
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")


_DEFAULTS: dict[str, Callable[[Object], None]] = {
    "Pod": _pod,
    "Node": _node,
    "Namespace": _namespace,
    "PriorityClass": _priority_class,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "Event": _event,
    "Service": service,
    "Secret": secret,
    "StorageClass": storage_class,
    "CustomResourceDefinition": set_definition_defaults,
    **{kind: partial(workload, kind=kind, pod_defaults=_pod_spec) for kind in WORKLOAD_KINDS},
}
