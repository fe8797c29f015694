"""The custom resource VPodSet: a StatefulSet whose pods host vreplicas, and the rules for placing them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from extender.resources.shared import Conditions, Metadata, Name, Part, Seen

_WorkloadName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
_Namespace = Annotated[str, StringConstraints(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?|\*)$")]


class VPodSetSpec(Part):
    """A StatefulSet whose pods host vreplicas, and the rules for placing them. Times are seconds."""

    stateful_set: _WorkloadName = Field(
        description="The StatefulSet, in the namespace of the set. No two sets may have the same one."
    )
    capacity: int = Field(ge=1, le=1_000_000, description="How many vreplicas one pod may hold.")
    policy: Name = Field(
        "balanced",
        description=(
            "How vreplicas are placed. balanced: even numbers with the fewest moves. head, v0.43.1, v0.43.0: as these "
            "versions of Knative's scheduler did. Or the name of a plug-in that the server has."
        ),
    )
    policy_settings: dict[str, Any] = Field(
        default_factory=dict,
        max_length=64,
        description="The policy's own settings.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
    min_replicas: int = Field(0, ge=0, le=10_000, description="The minimum number of the StatefulSet's replicas.")
    max_replicas: int = Field(100, ge=1, le=10_000, description="The maximum number of the StatefulSet's replicas.")
    autoscale: bool = Field(
        True,
        description="Scale the StatefulSet to the demand of its vpods. False: Waggle does not change its replicas.",
    )
    max_moves: int = Field(
        16, ge=1, le=100_000, description="How many vreplicas may move at once only to make the numbers even."
    )
    unready_seconds: int = Field(
        60,
        ge=0,
        le=86_400,
        description=(
            "How long a pod that was ready may be away, or not ready, before its vreplicas are placed elsewhere."
        ),
    )
    scale_down_seconds: int = Field(
        300, ge=0, le=86_400, description="For how long fewer replicas must be enough before a scale-down begins."
    )
    scale_up_step: int = Field(0, ge=0, le=10_000, description="How many replicas one step may add; 0: any number.")
    scale_down_step: int = Field(
        0, ge=0, le=10_000, description="How many replicas one step may remove; 0: any number."
    )
    scale_up_seconds: int = Field(0, ge=0, le=86_400, description="The minimum time between two steps up.")
    partial_seconds: int | None = Field(
        None,
        ge=0,
        le=86_400,
        description=(
            "How long a vpod without room for all its vreplicas keeps the part that has room. Absent: for ever."
        ),
    )
    overlap_seconds: int = Field(
        0,
        ge=0,
        le=3600,
        description=(
            "How long a vreplica that moves stays on both pods, so that the new one serves before the old one stops."
        ),
    )
    zones: bool = Field(True, description="Whether vreplicas are spread over the zones of the nodes, too.")
    namespaces: list[_Namespace] = Field(
        default_factory=list,
        max_length=1000,
        description='Further namespaces whose vpods may use the set; "*": all. Its own namespace always may.',
    )

    @field_validator("max_replicas")
    @classmethod
    def _is_not_less_than_the_minimum(cls, value: int, info: ValidationInfo) -> int:
        least = info.data.get("min_replicas")
        if least is not None and value < least:
            raise ValueError(f"expected at least minReplicas ({least}), got {value}")
        return value


class VPodSetStatus(Seen):
    """The set as the server that writes this status sees it."""

    observed_generation: int = Field(0, ge=0)
    replicas: int = Field(0, ge=0, description="spec.replicas of the StatefulSet.")
    usable: int = Field(0, ge=0, description="Pods that can host vreplicas now.")
    capacity: int = Field(0, ge=0, description="How many vreplicas the usable pods can hold.")
    placed: int = Field(0, ge=0, description="Vreplicas that have a pod.")
    pending: int = Field(0, ge=0, description="Vreplicas that are wanted and have no pod.")
    free: int = Field(0, ge=0, description="How many more vreplicas the usable pods can take.")
    draining: int = Field(
        0, ge=0, description="Pods that are being drained because the StatefulSet is about to shrink."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description="Ready: vpods are placed. Misconfigured: the set is not served because of its spec.",
    )


class VPodSet(Seen):
    """A StatefulSet whose pods host the vreplicas of VPods."""

    metadata: Metadata
    spec: VPodSetSpec
    status: VPodSetStatus = Field(default_factory=VPodSetStatus)
