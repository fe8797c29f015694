"""The section `vpods` of the configuration file: sets, and resources that are placed like VPod objects.

Sets and vpods can also be objects of the API server, if `vpods.custom_resources` is set. Both are served side by side.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

from extender.core import field_paths

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_GROUP_OR_EMPTY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"
_SET = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_Namespace = Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?|\*)$", max_length=63)]
_Value = Annotated[str, StringConstraints(max_length=1024)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class VPodSetSettings(_Section):
    """One set: a StatefulSet whose pods host vreplicas, and the rules for placing them."""

    namespace: str = Field("default", pattern=_LABEL, max_length=63)
    name: str = Field(pattern=_NAME, max_length=253)
    #: The name of the StatefulSet, in the set's namespace.
    stateful_set: str = Field(pattern=_NAME, max_length=253)
    #: How many vreplicas one pod may hold.
    capacity: int = Field(ge=1, le=1_000_000)
    #: How vreplicas are placed: balanced, or as a version of Knative's scheduler did (head, v0.43.1, v0.43.0), or the
    #: name of an installed plug-in.
    policy: str = Field("balanced", min_length=1, max_length=253)
    #: The policy's own settings, checked by the policy.
    policy_settings: dict[str, Any] = Field(default_factory=dict, max_length=64)
    #: The bounds of the StatefulSet's replicas.
    min_replicas: int = Field(0, ge=0, le=10_000)
    max_replicas: int = Field(100, ge=1, le=10_000)
    #: Whether the number of replicas follows what vpods want. False: Waggle does not change it.
    autoscale: bool = True
    #: How many vreplicas may move at once only to make the numbers even.
    max_moves: int = Field(16, ge=1, le=100_000)
    #: Seconds that a pod that was ready may be away, or not ready, before its vreplicas are placed elsewhere.
    unready_seconds: float = Field(60, ge=0, le=86_400)
    #: Seconds for which fewer replicas must be enough before a scale-down begins.
    scale_down_seconds: float = Field(300, ge=0, le=86_400)
    #: How many replicas one step may add or remove; 0: any number.
    scale_up_step: int = Field(0, ge=0, le=10_000)
    scale_down_step: int = Field(0, ge=0, le=10_000)
    #: Seconds between two steps up.
    scale_up_seconds: float = Field(0, ge=0, le=86_400)
    #: Seconds that a vpod without room for all its vreplicas keeps the part that has room; none: for ever.
    partial_seconds: float | None = Field(None, ge=0, le=86_400)
    #: Seconds that a vreplica that moves stays on both pods, so that the new one serves before the old one stops.
    overlap_seconds: float = Field(0, ge=0, le=3600)
    #: Whether vreplicas are spread over the zones of the nodes, too.
    zones: bool = True
    #: Further namespaces whose vpods may use the set; "*": all.
    namespaces: tuple[_Namespace, ...] = Field((), max_length=1000)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @field_validator("max_replicas")
    @classmethod
    def _is_not_less_than_the_minimum(cls, value: int, info: ValidationInfo) -> int:
        least = info.data.get("min_replicas")
        if least is not None and value < least:
            raise ValueError(f"expected at least min_replicas ({least}), got {value}")
        return value


class VPodResourceSettings(_Section):
    """Objects of any resource that has a wanted number, and placements in its status, placed as vpods."""

    #: The name of this entry, which is the `source` of its vpods in metrics and over HTTP.
    name: str = Field(pattern=_LABEL, max_length=63)
    #: The resource, whose objects are in namespaces; `resource` is its plural name.
    group: str = Field(pattern=_GROUP_OR_EMPTY, max_length=253)
    version: str = Field(pattern=_LABEL, max_length=63)
    resource: str = Field(pattern=_LABEL, max_length=63)
    #: The path of the wanted number of vreplicas, and its value if an object has none there.
    wanted: str = ".spec.replicas"
    default_wanted: int = Field(1, ge=0, le=2**31 - 1)
    #: The path of the placements, a list of {podName, vreplicas}; a field of the status.
    placements: str = ".status.placements"
    #: On how many distinct pods the vreplicas of each object are to be, if it wants so many.
    spread: int = Field(0, ge=0, le=10_000)
    #: NAMESPACE/NAME of the set that hosts them.
    set: str = Field(pattern=_SET, max_length=317)
    #: Only objects that have these values at these paths. Booleans and numbers are compared as text.
    where: dict[str, _Value] = Field(default_factory=dict, max_length=16)

    @field_validator("group")
    @classmethod
    def _is_of_somebody_else(cls, group: str) -> str:
        if group == "waggle.dev":
            raise ValueError(
                "expected the group of another resource; VPod objects are served by vpods.custom_resources"
            )
        return group

    @field_validator("wanted")
    @classmethod
    def _is_a_path(cls, wanted: str) -> str:
        field_paths.parse(wanted)
        return wanted

    @field_validator("placements")
    @classmethod
    def _is_a_path_in_the_status(cls, placements: str) -> str:
        path = field_paths.parse(placements)
        if not path.has_names_only or len(path.steps) < 2 or path.steps[0] != "status":
            raise ValueError("expected a field of the status, such as .status.placements, without items of lists")
        return placements

    @field_validator("where")
    @classmethod
    def _are_paths(cls, where: dict[str, str]) -> dict[str, str]:
        for path in where:
            try:
                field_paths.parse(path)
            except ValueError as error:
                raise ValueError(f"{path[:64]!r}: {error}") from None
        return where


class VPodSettings(_Section):
    """Vpods: virtual replicas on the pods of StatefulSets. See docs/vpods.md."""

    enabled: bool = False
    #: Serve the VPod and VPodSet objects of the API server, too. Their CustomResourceDefinitions must be installed.
    custom_resources: bool = False
    sets: tuple[VPodSetSettings, ...] = Field((), max_length=1000)
    resources: tuple[VPodResourceSettings, ...] = Field((), max_length=100)
    #: How many writes of vpods may be in flight at most. The actual number adapts to the API server.
    concurrent_writes: int = Field(32, ge=1, le=128)
    #: Memory for the records of vpods and of pods, in MiB, estimated. A list that needs more fails.
    cache_mib: int = Field(512, ge=16, le=65_536)

    @field_validator("sets")
    @classmethod
    def _differ(cls, sets: tuple[VPodSetSettings, ...]) -> tuple[VPodSetSettings, ...]:
        names: set[str] = set()
        hosts: dict[tuple[str, str], str] = {}
        for each in sets:
            if each.full_name in names:
                raise ValueError(f"{each.full_name}: there are two sets of this name")
            names.add(each.full_name)
            other = hosts.setdefault((each.namespace, each.stateful_set), each.full_name)
            if other != each.full_name:
                raise ValueError(
                    f"{each.full_name} and {other}: stateful_set: both name {each.stateful_set}; "
                    "expected a StatefulSet of its own for each set"
                )
        return sets

    @field_validator("resources")
    @classmethod
    def _have_a_set(
        cls, resources: tuple[VPodResourceSettings, ...], info: ValidationInfo
    ) -> tuple[VPodResourceSettings, ...]:
        sets, custom = info.data.get("sets"), info.data.get("custom_resources")
        if sets is not None and not custom:
            known = {each.full_name for each in sets}
            for each in resources:
                if each.set not in known:
                    raise ValueError(f"{each.name}: set: expected one of vpods.sets, got {each.set}")
        return resources

    @field_validator("resources")
    @classmethod
    def _select_different_objects(cls, resources: tuple[VPodResourceSettings, ...]) -> tuple[VPodResourceSettings, ...]:
        seen: dict[str, VPodResourceSettings] = {}
        for each in resources:
            if each.name in seen:
                raise ValueError(f"{each.name}: there are two resources of this name")
            for other in seen.values():
                if (each.group, each.resource) == (other.group, other.resource) and _overlap(each.where, other.where):
                    raise ValueError(
                        f"{each.name} and {other.name}: an object can match both; "
                        "expected different values of one path in `where`"
                    )
            seen[each.name] = each
        return resources


def _overlap(one: dict[str, str], other: dict[str, str]) -> bool:
    values = {field_paths.parse(path): value for path, value in other.items()}
    return all(values.get(field_paths.parse(path), value) == value for path, value in one.items())
