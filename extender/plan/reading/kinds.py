"""Which kinds a plan knows, and what it does with each. What it does not know is listed, and stops nothing."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

JOBSET: Final = "jobset.x-k8s.io"
VOLCANO: Final = "batch.volcano.sh"
WAGGLE: Final = "waggle.dev"
#: The groups whose PodGroups are gangs.
POD_GROUPS: Final = frozenset({"scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh"})


class Role(Enum):
    """What a plan does with objects of a kind."""

    #: It makes the pods that a controller would make (a Pod: itself).
    MAKES_PODS = auto()
    #: It adds the node.
    NODE = auto()
    #: The parts of the plan that know this kind read it.
    READ = auto()
    #: It makes pods by rules that a plan does not follow: said in a warning.
    NOT_PLANNED = auto()
    #: It changes nothing about where pods run.
    PLAIN = auto()
    #: As PLAIN; its content is not kept.
    SECRET = auto()
    #: Listed. It may make pods, or not.
    UNKNOWN = auto()


_ROLES: Final = {
    **dict.fromkeys(
        (
            ("", "Pod"),
            ("", "ReplicationController"),
            ("apps", "ReplicaSet"),
            ("apps", "Deployment"),
            ("apps", "StatefulSet"),
            ("batch", "Job"),
            (JOBSET, "JobSet"),
            (VOLCANO, "Job"),
        ),
        Role.MAKES_PODS,
    ),
    ("", "Node"): Role.NODE,
    **dict.fromkeys(
        (
            ("scheduling.k8s.io", "PriorityClass"),
            ("scheduling.k8s.io", "Workload"),
            ("policy", "PodDisruptionBudget"),
            *((group, "PodGroup") for group in sorted(POD_GROUPS)),
            *((WAGGLE, kind) for kind in ("Pool", "Claim", "VPodSet", "VPod")),
        ),
        Role.READ,
    ),
    ("apps", "DaemonSet"): Role.NOT_PLANNED,
    ("batch", "CronJob"): Role.NOT_PLANNED,
    ("", "Secret"): Role.SECRET,
}
#: Groups whose other kinds change nothing about where pods run, or (volumes, device claims) in a way that the warnings
#: about pods name.
_PLAIN_GROUPS: Final = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "cert-manager.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "gateway.networking.k8s.io",
        "keda.sh",
        "monitoring.coreos.com",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
_CLUSTER_WIDE: Final = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "DeviceClass",
        "GatewayClass",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ResourceSlice",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion; "" is the core group."""
    return api_version.rpartition("/")[0]


def role_of(api_version: str, kind: str) -> Role:
    """Return what a plan does with objects of this kind."""
    group = group_of(api_version)
    return _ROLES.get((group, kind), Role.PLAIN if group in _PLAIN_GROUPS else Role.UNKNOWN)


def is_namespaced(api_version: str, kind: str) -> bool:
    """Whether objects of this kind are in namespaces; of an unknown kind: if they name one."""
    return kind not in _CLUSTER_WIDE and role_of(api_version, kind) is not Role.UNKNOWN
