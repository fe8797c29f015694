"""The custom resource VPod: a wanted number of vreplicas in a set, with the pods that host them in the status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from extender.resources.shared import Conditions, Metadata, Part, Seen

_MOST = 2**31 - 1
_SetName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    ),
]


class VPodSpec(Part):
    """What the vpod wants. Every field may change at any time."""

    set: _SetName = Field(description="The set that hosts its vreplicas: NAME in its own namespace, or NAMESPACE/NAME.")
    vreplicas: int = Field(
        1, ge=0, le=_MOST, description="How many vreplicas it wants; `kubectl scale` and autoscalers set it."
    )
    spread: int = Field(
        0,
        ge=0,
        le=10_000,
        description="The minimum number of distinct pods that host the vreplicas, if there are that many.",
    )
    max_per_pod: int = Field(
        0, ge=0, le=_MOST, description="The maximum number of its vreplicas on one pod; 0: no limit."
    )


class HostingPod(Seen):
    """A pod of the StatefulSet, and how many vreplicas of this vpod it hosts."""

    pod_name: str = Field("", max_length=253)
    vreplicas: int = Field(0, ge=0, le=_MOST)


class VPodStatus(Seen):
    """Which pods host the vreplicas. Only Waggle writes it."""

    observed_generation: int = Field(0, ge=0)
    placements: list[HostingPod] = Field(
        default_factory=list, max_length=10_000, description="By pod, in the order of their ordinals."
    )
    scheduled: int = Field(
        0, ge=0, description="How many of the wanted vreplicas have a pod; one that moves counts once."
    )
    selector: str = Field(
        "",
        max_length=4096,
        description="For autoscalers, which require one. It selects no pod: vreplicas have no pods of their own.",
    )
    reason: str = Field("", max_length=64, description="A code, the same as over HTTP and in metrics.")
    message: str = Field("", max_length=32768)
    conditions: Conditions = Field(default_factory=list, description="Scheduled: every wanted vreplica is placed.")


class VPod(Seen):
    """Virtual replicas that pods of a StatefulSet host."""

    metadata: Metadata
    spec: VPodSpec
    status: VPodStatus = Field(default_factory=VPodStatus)
