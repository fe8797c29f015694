"""The input of `waggle lint pool`: pools and the objects that concern them, from files or from the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.claim_settings import ClaimSettings
from extender.kube.client.api import ApiServer
from extender.operate.document import Section
from extender.operate.scene import (
    Objects,
    by_kind,
    name_of,
    namespace_of,
    read_cluster,
    read_text,
    selector_of,
    texts,
)
from extender.settings import Settings

#: The kinds that the rules need, with their collections in the API server; {} is the namespace of a namespaced kind.
COLLECTIONS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Pool": "/apis/waggle.dev/v1alpha1/namespaces/{}/pools",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
#: The kinds that create pods from a template.
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")


@dataclass(frozen=True)
class LintedPool:
    """A pool, from the configuration or from an object."""

    namespace: str
    name: str
    selector: Mapping[str, str]
    mode: str = "detach"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether the pool selects pods with these labels."""
        return self.selector.items() <= labels.items()


@dataclass(frozen=True)
class Workload:
    """A workload that creates pods, or a pod without an owner."""

    kind: str
    namespace: str
    name: str
    #: Its own labels, those of its pods, and those of its selector; `selected_by`: all label names in the selector.
    labels: Mapping[str, str]
    pod_labels: Mapping[str, str]
    selector: Mapping[str, str]
    selected_by: frozenset[str]
    pod: Section
    object: Section

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass
class Scene:
    """The input of all rules. `objects`: by kind; None if they were not read.

    `missing_rights`: None if they were not checked. `unread`: what could not be read, with the reason.
    """

    pools: list[LintedPool]
    settings: Settings | None = None
    objects: dict[str, list[Section]] | None = None
    missing_rights: dict[str, list[str]] | None = None
    unread: list[str] = field(default_factory=list)

    def of(self, kind: str, namespace: str = "") -> list[Section]:
        """Return the objects of a kind, in `namespace` if one is given."""
        found = (self.objects or {}).get(kind, [])
        return [each for each in found if not namespace or namespace_of(each) == namespace]

    def workloads(self, namespace: str) -> list[Workload]:
        """Return the workloads of a namespace that no other workload owns, and its pods without an owner."""
        kinds = (*WORKLOADS, "Pod")
        return [_workload(kind, each) for kind in kinds for each in self.of(kind, namespace) if not _is_owned(each)]

    def of_pool(self, pool: LintedPool) -> list[Workload]:
        """Return the workloads whose pods the pool selects."""
        return [each for each in self.workloads(pool.namespace) if pool.takes(each.pod_labels)]


def _is_owned(item: Section) -> bool:
    return any(owner.flag("controller") for owner in item.section("metadata").items("ownerReferences"))


def _workload(kind: str, item: Section) -> Workload:
    template = item if kind == "Pod" else item.section("spec").section("template")
    plain, selected_by = selector_of(item.section("spec").section("selector"))
    return Workload(
        kind,
        namespace_of(item),
        name_of(item),
        texts(item.section("metadata").section("labels")),
        texts(template.section("metadata").section("labels")),
        plain,
        selected_by,
        template.section("spec"),
        item,
    )


# -- pools --------------------------------------------------------------------------------------------------------


def configured(settings: ClaimSettings) -> list[LintedPool]:
    return [LintedPool(each.namespace, each.name, each.selector, each.mode) for each in settings.pools]


def _pool(item: Section) -> LintedPool:
    spec = item.section("spec")
    selector, _ = selector_of(spec.section("selector"))
    return LintedPool(namespace_of(item), name_of(item), selector, spec.text("mode") or "detach")


# -- sources ------------------------------------------------------------------------------------------------------


def from_text(text: str, settings: Settings | None) -> Scene:
    """Return the scene of a YAML or JSON text, with several documents or Lists. Raises SceneError."""
    return _scene(read_text(text), settings)


def _scene(objects: Objects, settings: Settings | None) -> Scene:
    pools = configured(settings.claims) if settings else []
    return Scene(pools + [_pool(each) for each in objects.get("Pool", [])], settings, objects)


def from_cluster(api: ApiServer, settings: Settings | None, namespaces: Iterable[str] = ()) -> Scene:
    """Return the scene of the configured pools' namespaces, and of `namespaces`. Raises ApiError if the API server does
    not answer."""
    pools = configured(settings.claims) if settings else []
    looked = sorted({pool.namespace for pool in pools} | set(namespaces)) or ["default"]
    items, unread = read_cluster(api, COLLECTIONS, looked)
    scene = _scene(by_kind(items), settings)
    scene.unread = unread
    return scene
