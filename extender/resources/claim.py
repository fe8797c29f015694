"""The custom resource Claim: a request for pods of a pool, with its result in the status."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from extender.resources.shared import Conditions, Image, Labels, Metadata, Moment, Name, Part, Seen

_Text = Annotated[str, StringConstraints(max_length=16_384)]


class PoolRef(Part):
    """A pool in the claim's namespace."""

    name: Name


class ClaimSpec(Part):
    """What the claim requests. Only a change of leaseSeconds has an effect later: it renews the claim. There is no
    idempotency key, because the object's UID is one."""

    pool_ref: PoolRef
    count: int = Field(1, ge=1, le=1000, description="How many pods, all or none.")
    requires: Labels = Field(default_factory=dict, max_length=16, description="Labels that the pods must have.")
    images: dict[Name, Image] = Field(
        default_factory=dict,
        max_length=16,
        description="The image that each of these containers is to run; only in pools with mode recycle.",
    )
    labels: Labels = Field(
        default_factory=dict, max_length=32, description="Set on the claimed pods, and removed at the end of the claim."
    )
    annotations: dict[Name, _Text] = Field(
        default_factory=dict, max_length=32, description="Set on the claimed pods, and removed at the end of the claim."
    )
    tenant: str = Field("", max_length=253, description="The tenant that gets the pods. Empty: the namespace.")
    priority: int = Field(0, ge=-1000, le=1000, description="Claims with a higher number are served first.")
    lease_seconds: int | None = Field(
        None,
        ge=1,
        le=30 * 86_400,
        description="How long the claim lasts unless it is renewed. Absent: the pool's default.",
    )
    wait_seconds: int | None = Field(
        None, ge=0, le=3600, description="How long it may wait for pods. Absent: the pool's default."
    )
    on_empty: Literal["wait", "fail", "cold"] = Field(
        "wait", description="What happens if too few pods are idle: wait, fail at once, or have pods created (cold)."
    )


class ClaimedPod(Seen):
    """One of the claim's pods."""

    name: str = Field(max_length=253)
    uid: str = Field(max_length=64)
    node: str = Field("", max_length=253)
    addresses: list[Annotated[str, StringConstraints(max_length=64)]] = Field(
        default_factory=list, max_length=16, description="The pod's IP addresses."
    )


class ClaimStatus(Seen):
    """The result of the claim."""

    observed_generation: int = Field(0, ge=0)
    phase: Literal["Waiting", "Claiming", "Claimed", "Ended", "Released", "Failed"] = Field(
        "Waiting", description="The state of the claim. Ended: its lease has expired."
    )
    reason: str = Field("", max_length=64, description="A code, the same as over HTTP and in metrics.")
    message: str = Field("", max_length=32768)
    claim: str = Field("", max_length=63, description="The claim's name, the value of waggle.dev/claim on its pods.")
    pods: list[ClaimedPod] = Field(default_factory=list, max_length=1000)
    lease_expires: Moment | None = Field(None, description="When the lease ends unless it is renewed.")
    position: int = Field(0, ge=0, description="While it waits: its position in the queue, 1 is next.")
    renewal: str = Field(
        "", max_length=256, description="The value of the annotation waggle.dev/renew for which it was renewed last."
    )
    conditions: Conditions = Field(
        default_factory=list, description="Ready: the claim has all its pods, and they run the requested images."
    )


class Claim(Seen):
    """A request for pods of a pool. Deleting it releases the pods."""

    metadata: Metadata
    spec: ClaimSpec
    status: ClaimStatus = Field(default_factory=ClaimStatus)
