"""The custom resource Pool: pods that were started before they are needed, and the rules for claiming them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from extender.resources.shared import Conditions, Image, Labels, Metadata, Name, Part, Seen

_WorkloadName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


def _are_not_ours(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if name.startswith("waggle.dev/"):
            raise ValueError(f"{name}: expected a label of your own: Waggle changes this one when a pod is claimed")
    return labels


class Selector(Part):
    """Which pods of the namespace are in the pool. Only matchLabels, because a claim in mode detach removes them."""

    match_labels: Annotated[Labels, AfterValidator(_are_not_ours)] = Field(
        min_length=1, max_length=32, description="A pod of the pool has all these labels."
    )


class Limits(Part):
    """Limits of waiting requests and of claimed pods."""

    max_pending: int = Field(8192, ge=1, le=100_000, description="Requests that may wait, of all tenants.")
    max_pending_per_tenant: int = Field(4096, ge=1, le=100_000, description="Requests of one tenant that may wait.")
    max_pods_per_tenant: int = Field(
        0, ge=0, le=100_000, description="Pods that one tenant may have at once; 0: no limit."
    )
    max_pods_per_claim: int = Field(64, ge=1, le=1000, description="Pods that one claim may have.")
    max_cold: int = Field(
        64, ge=0, le=10_000, description="Pods that may be in creation at once for claims that find none idle."
    )


class Defaults(Part):
    """The values for claims that do not set them."""

    wait_seconds: int = Field(30, ge=0, le=3600, description="How long a claim waits for pods; 0: it does not wait.")
    lease_seconds: int = Field(3600, ge=1, le=30 * 86_400, description="How long a claim lasts unless it is renewed.")


class Workload(Part):
    """A workload of apps/v1 in the pool's namespace."""

    kind: Literal["Deployment", "ReplicaSet", "StatefulSet"] = "Deployment"
    name: _WorkloadName


class Autoscaler(Part):
    """Scales the pool's workload by demand: claimed pods, pods that requests lack, and spare pods."""

    max_replicas: int = Field(ge=1, le=100_000, description="The maximum. The minimum is spec.replicas.")
    buffer: Literal["none", "one", "quarter", "half"] = Field(
        "quarter", description="Spare pods beyond the demand: none, one, a quarter or a half of the demand."
    )
    idle_seconds: int = Field(
        300, ge=0, le=86_400, description="How long a pod must be idle before a scale-down may delete it."
    )
    cooldown_seconds: int = Field(
        10, ge=0, le=3600, description="The minimum time between two changes, unless requests lack pods."
    )
    full_cooldown_seconds: int = Field(
        60, ge=0, le=86_400, description="The minimum time until the next scale-up after no node had room for a pod."
    )
    empty_seconds: int = Field(
        5,
        ge=0,
        le=3600,
        description="Time without an idle pod after which spare pods are added while no request waits.",
    )
    quiet_seconds: int = Field(
        300, ge=0, le=86_400, description="Time after the last request for which spare pods are added."
    )
    refill_pods: int = Field(
        0, ge=0, le=100_000, description="Pods that may be added within refillSeconds; 0: no limit."
    )
    refill_seconds: int = Field(60, ge=1, le=86_400, description="See refillPods.")


class PoolSpec(Part):
    """The pods of a namespace that have all labels of the selector, and the rules for claiming them."""

    selector: Selector
    mode: Literal["detach", "recycle"] = Field(
        "detach",
        description=(
            "detach: a claim takes the pod out of its ReplicaSet, which creates another one; its end deletes the pod. "
            "recycle: a claim changes the pod's phase label; its end returns the pod to the pool."
        ),
    )
    order: Literal["fifo", "oldest", "newest", "pack", "spread", "score"] = Field(
        "fifo",
        description=(
            "Which idle pod is claimed first: the one that has been idle for the longest time (fifo), by creation time "
            "(oldest, newest), one on the node with the most (pack) or the fewest (spread) claimed pods of the pool, "
            "or the one that the plug-in of the server's configuration prefers (score)."
        ),
    )
    limits: Limits = Field(default_factory=Limits)
    defaults: Defaults = Field(default_factory=Defaults)
    start_seconds: int = Field(
        120,
        ge=1,
        le=3600,
        description="Time within which a pod must be ready after its images changed, or after it was created.",
    )
    ends_on_restart: bool = Field(
        True, description="Whether a claim ends when a container restarts whose image it chose."
    )
    images: dict[Name, Image] = Field(
        default_factory=dict,
        max_length=16,
        description="Mode recycle: the image that each container gets back when a claim that changed it ends.",
    )
    weights: dict[Name, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict,
        max_length=10_000,
        description="Waiting tenants are served in proportion to their weights; 1 if not given.",
    )
    replicas: int = Field(
        0,
        ge=0,
        le=100_000,
        description="The minimum number of replicas for the autoscaler; `kubectl scale` sets it.",
    )
    workload: Workload | None = Field(
        None,
        description=(
            "The workload that creates the pool's pods. Absent: no pod can be created for a claim (onEmpty: cold), and "
            "nothing is scaled."
        ),
    )
    autoscaler: Autoscaler | None = Field(None, description="Absent: Waggle does not change the workload's replicas.")

    @field_validator("autoscaler")
    @classmethod
    def _has_a_workload(cls, autoscaler: Autoscaler | None, info: ValidationInfo) -> Autoscaler | None:
        if autoscaler is not None and info.data.get("workload") is None:
            raise ValueError("expected `workload` beside it, which names the workload to scale")
        return autoscaler


class PoolStatus(Seen):
    """The pool as the server that writes this status sees it."""

    observed_generation: int = Field(0, ge=0)
    idle: int = Field(0, ge=0, description="Pods that can be claimed now.")
    claimed: int = Field(0, ge=0)
    starting: int = Field(0, ge=0, description="Pods that are not ready yet.")
    pending: int = Field(0, ge=0, description="Requests without an answer, at that server.")
    replicas: int = Field(0, ge=0, description="Pods that the selector matches.")
    selector: str = Field("", max_length=4096, description="The selector as text, for autoscalers.")
    conditions: Conditions = Field(
        default_factory=list,
        description="Ready: claims are served. Misconfigured: the pool is not served because of its spec.",
    )


class Pool(Seen):
    """A pool of warm pods, which claims get in milliseconds."""

    metadata: Metadata
    spec: PoolSpec
    status: PoolStatus = Field(default_factory=PoolStatus)
