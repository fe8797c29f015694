"""The resource table: what this server serves, as data. A new plain kind is one more row here.

What a kind needs beyond its row is looked up by kind: defaults in `defaults.py` and `workload_defaults.py`, rules in
`validation.py`, the columns that kubectl shows in `printers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.embedded.apiserver.resources import FieldPaths, Resource


def _paths(*names: str) -> FieldPaths:
    return {name: tuple(name.split(".")) for name in names}


_POD_FIELDS = _paths(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = {
    **_paths(*(f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid", "apiVersion", "fieldPath"))),
    **_paths("involvedObject.resourceVersion", "reason", "type"),
    "source": ("source", "component"),
    "reportingComponent": ("reportingComponent",),
}
_EVENTS_V1_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}

NODES = Resource(
    "",
    "v1",
    "nodes",
    "Node",
    namespaced=False,
    subresources={"status": "Node"},
    short_names=("no",),
    selectable=_paths("spec.unschedulable"),
)
PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    subresources={"status": "Pod", "binding": "Binding", "eviction": "Eviction"},
    short_names=("po",),
    in_all=True,
    selectable=_POD_FIELDS,
    generation=True,
)
EVENTS = Resource("", "v1", "events", "Event", short_names=("ev",), selectable=_EVENT_FIELDS)
EVENTS_V1 = Resource(
    "events.k8s.io",
    "v1",
    "events",
    "Event",
    short_names=("ev",),
    selectable={
        **{name.replace("involvedObject", "regarding"): path for name, path in _EVENT_FIELDS.items()},
        "reportingController": ("reportingComponent",),
    },
    stored_as="events",
    renamed=_EVENTS_V1_NAMES,
)
NAMESPACES = Resource(
    "",
    "v1",
    "namespaces",
    "Namespace",
    namespaced=False,
    subresources={"status": "Namespace"},
    short_names=("ns",),
    selectable=_paths("status.phase"),
)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", unconditional_update=False)
POD_DISRUPTION_BUDGETS = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    subresources={"status": "PodDisruptionBudget"},
    short_names=("pdb",),
    generation=True,
    unconditional_update=False,
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    namespaced=False,
    short_names=("pc",),
    generation=True,
)


def _status_of(kind: str) -> Mapping[str, str]:
    return {"status": kind}


def _workload(plural: str, kind: str, *short: str, scale: bool = False) -> Resource:
    """A row of apps/v1."""
    subresources = {"status": kind, **({"scale": "Scale"} if scale else {})}
    return Resource(
        "apps", "v1", plural, kind, subresources=subresources, short_names=short, generation=True, in_all=True
    )


def _of_cluster(group: str, plural: str, kind: str, *short: str, status: bool = False) -> Resource:
    """A row without namespaces."""
    subresources = _status_of(kind) if status else {}
    return Resource(group, "v1", plural, kind, namespaced=False, subresources=subresources, short_names=short)


def _review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=namespaced, is_review=True)


SERVICES = Resource(
    "", "v1", "services", "Service", subresources=_status_of("Service"), short_names=("svc",), in_all=True
)
REPLICATION_CONTROLLERS = Resource(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    subresources={"status": "ReplicationController", "scale": "Scale"},
    short_names=("rc",),
    generation=True,
    in_all=True,
)
REPLICA_SETS = _workload("replicasets", "ReplicaSet", "rs", scale=True)
STATEFUL_SETS = _workload("statefulsets", "StatefulSet", "sts", scale=True)
DEPLOYMENTS = _workload("deployments", "Deployment", "deploy", scale=True)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    subresources=_status_of("CustomResourceDefinition"),
    short_names=("crd", "crds"),
    generation=True,
    unconditional_update=False,
)
JOBS = Resource("batch", "v1", "jobs", "Job", subresources=_status_of("Job"), generation=True, in_all=True)

VALIDATING_ADMISSION_POLICIES = _of_cluster(
    "admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", status=True
)
VALIDATING_ADMISSION_POLICY_BINDINGS = _of_cluster(
    "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
)

TABLE: tuple[Resource, ...] = (
    NODES,
    PODS,
    EVENTS,
    NAMESPACES,
    CONFIG_MAPS,
    SERVICES,
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Resource("", "v1", "secrets", "Secret", selectable=_paths("type")),
    Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Resource(
        "", "v1", "resourcequotas", "ResourceQuota", subresources=_status_of("ResourceQuota"), short_names=("quota",)
    ),
    Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        subresources=_status_of("PersistentVolumeClaim"),
        short_names=("pvc",),
    ),
    _of_cluster("", "persistentvolumes", "PersistentVolume", "pv", status=True),
    REPLICATION_CONTROLLERS,
    EVENTS_V1,
    LEASES,
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", unconditional_update=False),
    Resource(
        "scheduling.k8s.io",
        "v1alpha2",
        "podgroups",
        "PodGroup",
        subresources=_status_of("PodGroup"),
        unconditional_update=False,
    ),
    REPLICA_SETS,
    STATEFUL_SETS,
    DEPLOYMENTS,
    _workload("daemonsets", "DaemonSet", "ds"),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    JOBS,
    _of_cluster("storage.k8s.io", "storageclasses", "StorageClass", "sc"),
    _of_cluster("storage.k8s.io", "csinodes", "CSINode"),
    _of_cluster("storage.k8s.io", "csidrivers", "CSIDriver"),
    Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    _of_cluster("storage.k8s.io", "volumeattachments", "VolumeAttachment", status=True),
    _of_cluster("storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass", "vac"),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        "ResourceClaim",
        subresources=_status_of("ResourceClaim"),
        unconditional_update=False,
    ),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _of_cluster("resource.k8s.io", "resourceslices", "ResourceSlice"),
    _of_cluster("resource.k8s.io", "deviceclasses", "DeviceClass"),
    _of_cluster("node.k8s.io", "runtimeclasses", "RuntimeClass"),
    CUSTOM_RESOURCE_DEFINITIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    _review("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
    _review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
)
