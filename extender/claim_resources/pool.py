"""The Pool: pods that are started ahead of need, and the rules of giving them away."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from extender.claim_resources.shared import Conditions, Image, Labels, Metadata, Name, Part, Seen

_WorkloadName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


def _are_not_ours(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if name.startswith("waggle.dev/"):
            raise ValueError(f"{name}: expected a label of your own: Waggle changes this one when a pod is claimed")
    return labels


class Selector(Part):
    """Which pods of the namespace are the pool's. Plain labels only: a claim that takes a pod out removes them."""

    match_labels: Annotated[Labels, AfterValidator(_are_not_ours)] = Field(
        min_length=1, max_length=32, description="A pod of the pool has all these labels."
    )


class Limits(Part):
    """How much may wait, and how many pods somebody may have."""

    max_pending: int = Field(8192, ge=1, le=100_000, description="Requests that may wait, of all tenants.")
    max_pending_per_tenant: int = Field(4096, ge=1, le=100_000, description="Requests of one tenant that may wait.")
    max_pods_per_tenant: int = Field(
        0, ge=0, le=100_000, description="Pods that one tenant may have at once; 0 is any number."
    )
    max_pods_per_claim: int = Field(64, ge=1, le=1000, description="Pods that one claim may have.")
    max_cold: int = Field(
        64, ge=0, le=10_000, description="Pods that may be created at once for claims that find none idle."
    )


class Defaults(Part):
    """What counts for a claim that does not say it."""

    wait_seconds: int = Field(30, ge=0, le=3600, description="How long it waits for pods; 0 is not at all.")
    lease_seconds: int = Field(3600, ge=1, le=30 * 86_400, description="How long it lasts unless it is renewed.")


class Workload(Part):
    """A workload of apps/v1 in the pool's namespace."""

    kind: Literal["Deployment", "ReplicaSet", "StatefulSet"] = "Deployment"
    name: _WorkloadName


class Autoscaler(Part):
    """How many replicas the pool's workload has: as many as are claimed, wait, and are to be spare."""

    max_replicas: int = Field(ge=1, le=100_000, description="It never has more. The least is spec.replicas.")
    buffer: Literal["none", "one", "quarter", "half"] = Field(
        "quarter", description="Spare pods beyond the demand: none, one, a quarter or a half of the demand."
    )
    idle_seconds: int = Field(300, ge=0, le=86_400, description="How long a pod is idle before it may go.")
    cooldown_seconds: int = Field(10, ge=0, le=3600, description="Time between two changes of the workload.")
    full_cooldown_seconds: int = Field(
        60, ge=0, le=86_400, description="Time until the next try after the cluster was full."
    )
    empty_seconds: int = Field(
        5,
        ge=0,
        le=3600,
        description="Time without an idle pod after which spare pods are ordered although nobody waits.",
    )
    quiet_seconds: int = Field(
        300, ge=0, le=86_400, description="Time after the last request for which spare pods are kept."
    )
    refill_pods: int = Field(
        0, ge=0, le=100_000, description="Pods that are ordered within refillSeconds; 0 is any number."
    )
    refill_seconds: int = Field(60, ge=1, le=86_400, description="See refillPods.")


class PoolSpec(Part):
    """The pods of a namespace that have all labels of the selector, and how they are given away."""

    selector: Selector
    mode: Literal["detach", "recycle"] = Field(
        "detach",
        description=(
            "detach: a claim takes the pod out of its ReplicaSet, which makes another one, and ends with its deletion. "
            "recycle: the pod's phase label changes, and it returns to the pool."
        ),
    )
    order: Literal["fifo", "oldest", "newest", "pack", "spread", "score"] = Field(
        "fifo",
        description=(
            "Which idle pod is given away first: the one that was first seen idle (fifo), by age, on the node with the "
            "most (pack) or the fewest (spread) claimed pods of the pool, or the one that the plug-in of the server's "
            "configuration prefers (score)."
        ),
    )
    limits: Limits = Field(default_factory=Limits)
    defaults: Defaults = Field(default_factory=Defaults)
    start_seconds: int = Field(
        120,
        ge=1,
        le=3600,
        description="Time in which a pod whose images a claim changes, or that is created for one, must be ready.",
    )
    ends_on_restart: bool = Field(
        True, description="A claim ends when a container restarts whose image it chose: what was in it is lost."
    )
    images: dict[Name, Image] = Field(
        default_factory=dict,
        max_length=16,
        description="In pools that recycle: the image that each of these containers gets back when a claim ends.",
    )
    weights: dict[Name, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict,
        max_length=10_000,
        description="Tenants that wait are served in proportion to their weights; 1 for those that are not here.",
    )
    replicas: int = Field(
        0,
        ge=0,
        le=100_000,
        description="The least number of replicas that the autoscaler gives the workload; what `kubectl scale` sets.",
    )
    workload: Workload | None = Field(
        None,
        description=(
            "The workload that makes the pool's pods. Absent: no pod is created for a claim (onEmpty: cold), and "
            "nothing is scaled."
        ),
    )
    autoscaler: Autoscaler | None = Field(None, description="Absent: Waggle leaves the workload's replicas alone.")

    @field_validator("autoscaler")
    @classmethod
    def _has_a_workload(cls, autoscaler: Autoscaler | None, info: ValidationInfo) -> Autoscaler | None:
        if autoscaler is not None and info.data.get("workload") is None:
            raise ValueError("expected `workload` beside it: whose replicas to change")
        return autoscaler


class PoolStatus(Seen):
    """The pool as the leading server sees it."""

    observed_generation: int = Field(0, ge=0)
    idle: int = Field(0, ge=0, description="Pods that can be claimed now.")
    claimed: int = Field(0, ge=0)
    starting: int = Field(0, ge=0, description="Pods that are not ready yet.")
    pending: int = Field(0, ge=0, description="Requests that wait.")
    replicas: int = Field(0, ge=0, description="All pods that the selector finds.")
    selector: str = Field("", max_length=4096, description="The selector as text, for autoscalers.")
    conditions: Conditions = Field(
        default_factory=list,
        description="Ready: claims are served. Misconfigured: the pool cannot work as its spec says.",
    )


class Pool(Seen):
    """Warm pods that are handed out one by one: each claim gets its own, in milliseconds."""

    metadata: Metadata
    spec: PoolSpec
    status: PoolStatus = Field(default_factory=PoolStatus)
