"""The input of `waggle lint vpods`: sets, and the objects that concern them, from files or from the API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from extender.conversions.vpod_sets import configured_sets, custom_set
from extender.kube.client.api import ApiServer
from extender.operate.document import Section
from extender.operate.scene import Objects, by_kind, name_of, namespace_of, read_cluster, read_text
from extender.resources import ResourceError, VPodSet, read
from extender.settings import Settings
from extender.vpods.records import ObjectKey, SetSettings

#: The kinds that are read of all namespaces, and those of the namespaces of sets.
_EVERYWHERE = {
    "VPodSet": "/apis/waggle.dev/v1alpha1/vpodsets",
    "VPod": "/apis/waggle.dev/v1alpha1/vpods",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_OF_SETS = {
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}


@dataclass(frozen=True)
class LintedSet:
    """A set, from the configuration or from an object. `settings`: None for an object with a `fault`."""

    key: ObjectKey
    settings: SetSettings | None
    fault: str = ""

    def __str__(self) -> str:
        return str(self.key)


@dataclass(frozen=True)
class LintedVPod:
    """A VPod object, read leniently. `wanted`, `spread`: 0 if its field is not a number."""

    key: ObjectKey
    set: ObjectKey
    wanted: int
    spread: int

    def __str__(self) -> str:
        return f"VPod {self.key}"


@dataclass
class SetScene:
    """The input of all rules. `objects`: by kind; None if they were not read.

    `missing_rights`: by namespace, "" for all of them; None if they were not checked. `unread`: what could not be read,
    with the reason.
    """

    sets: list[LintedSet]
    settings: Settings | None = None
    objects: dict[str, list[Section]] | None = None
    missing_rights: dict[str, list[str]] | None = None
    unread: list[str] = field(default_factory=list)

    def of(self, kind: str, namespace: str = "") -> list[Section]:
        """Return the objects of a kind, in `namespace` if one is given."""
        found = (self.objects or {}).get(kind, [])
        return [each for each in found if not namespace or namespace_of(each) == namespace]

    def set(self, key: ObjectKey) -> LintedSet | None:
        """Return the set of this name; None if there is none."""
        return next((each for each in self.sets if each.key == key), None)

    def workload(self, of: LintedSet) -> Section | None:
        """Return the set's StatefulSet; None if it was not found."""
        name = of.settings.workload if of.settings else ""
        return next((each for each in self.of("StatefulSet", of.key.namespace) if name_of(each) == name), None)

    def vpods(self) -> Iterator[LintedVPod]:
        """Return the VPod objects."""
        for each in self.of("VPod"):
            spec, namespace = each.section("spec"), namespace_of(each)
            before, slash, after = spec.text("set").partition("/")
            host = ObjectKey(before, after) if slash else ObjectKey(namespace, before)
            wanted = 1.0 if "vreplicas" not in spec else spec.number("vreplicas") or 0
            spread = spec.number("spread") or 0
            yield LintedVPod(ObjectKey(namespace, name_of(each)), host, int(wanted), int(spread))


def configured(settings: Settings | None) -> list[LintedSet]:
    """Return the sets of the configuration."""
    return [LintedSet(each.key, each) for each in configured_sets(settings.vpods)] if settings else []


def from_text(text: str, settings: Settings | None) -> SetScene:
    """Return the scene of a YAML or JSON text, with several documents or Lists. Raises SceneError."""
    return _scene(read_text(text), settings)


def from_cluster(api: ApiServer, settings: Settings | None, namespaces: Iterable[str] = ()) -> SetScene:
    """Return the scene of all sets, and of `namespaces`. Raises ApiError if the API server does not answer."""
    items, unread = read_cluster(api, _EVERYWHERE, [""])
    sets = _scene(by_kind(items), settings).sets
    looked = sorted({each.key.namespace for each in sets} | set(namespaces)) or ["default"]
    more, also_unread = read_cluster(api, _OF_SETS, looked)
    found = by_kind([*items, *more])
    if not any("customresourcedefinitions" in text for text in unread):
        found.setdefault("CustomResourceDefinition", [])  # none is installed, which is not the same as unknown
    scene = _scene(found, settings)
    scene.unread = [*unread, *also_unread]
    return scene


def _scene(objects: Objects, settings: Settings | None) -> SetScene:
    sets = configured(settings)
    return SetScene(sets + [_linted(each) for each in objects.get("VPodSet", [])], settings, objects)


def _linted(item: Section) -> LintedSet:
    key = ObjectKey(namespace_of(item), name_of(item))
    try:
        found = read(VPodSet, {"metadata": {"namespace": key.namespace, "name": key.name}, "spec": _spec(item)})
    except ResourceError as error:
        return LintedSet(key, None, str(error))
    return LintedSet(key, custom_set(found))


def _spec(item: Section) -> object:
    return dict(item.fields).get("spec")
