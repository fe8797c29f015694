"""Defaults of what creates pods, and of the small kinds around them: services, secrets, volumes.

They follow k8s.io/kubernetes pkg/apis/{apps,batch,core,policy,storage}/v1/defaults.go, as far as clients read them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

from extender.embedded.apiserver.objects import Object, items, section

#: Fills in a pod spec in place; `defaults.py` gives its own, which this module must not import.
PodDefaults = Callable[[Object, str], None]


def workload(obj: Object, kind: str, pod_defaults: PodDefaults) -> None:
    """Fill in an object of apps/v1, batch/v1 or a replication controller, with its pod template, in place."""
    spec = section(obj, "spec")
    template = section(spec, "template", "spec")
    section(template, "metadata", "spec.template")
    pod_defaults(template, "spec.template")
    if kind not in ("DaemonSet", "Job"):
        spec.setdefault("replicas", 1)
    _BY_KIND[kind](spec)


def _replication_controller(spec: Object) -> None:
    spec.setdefault("selector", dict(spec["template"]["metadata"].get("labels", {})))


def _replica_set(spec: Object) -> None:
    """Nothing beyond what all workloads have."""


def _deployment(spec: Object) -> None:
    strategy = section(spec, "strategy", "spec")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = section(strategy, "rollingUpdate", "spec.strategy")
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _stateful_set(spec: Object) -> None:
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = section(spec, "updateStrategy", "spec")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        section(strategy, "rollingUpdate", "spec.updateStrategy").setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = section(spec, "persistentVolumeClaimRetentionPolicy", "spec")
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")


def _daemon_set(spec: Object) -> None:
    strategy = section(spec, "updateStrategy", "spec")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = section(strategy, "rollingUpdate", "spec.updateStrategy")
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _job(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for key, value in (("parallelism", 1), ("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False)):
        spec.setdefault(key, value)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")


_BY_KIND: dict[str, Callable[[Object], None]] = {
    "ReplicationController": _replication_controller,
    "ReplicaSet": _replica_set,
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
}
WORKLOAD_KINDS = tuple(_BY_KIND)


def service(obj: Object) -> None:
    spec = section(obj, "spec")
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in items(spec, "ports", "spec"):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def secret(obj: Object) -> None:
    """`stringData` is a way to write `data`, and is never read back."""
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", {})
    if plain:
        section(obj, "data").update({key: b64encode(value.encode()).decode() for key, value in plain.items()})


def storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")
