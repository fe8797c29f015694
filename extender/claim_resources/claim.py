"""The Claim: a request for pods of a pool, and what became of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from extender.claim_resources.shared import Conditions, Image, Labels, Metadata, Moment, Name, Part, Seen

_Text = Annotated[str, StringConstraints(max_length=16_384)]


class PoolRef(Part):
    """A pool of the claim's namespace."""

    name: Name


class ClaimSpec(Part):
    """What is asked for, read once: only leaseSeconds counts afterwards, and a change of it renews the claim.
    There is no idempotency key, since the object's UID is one."""

    pool_ref: PoolRef
    count: int = Field(1, ge=1, le=1000, description="How many pods, all or none.")
    requires: Labels = Field(default_factory=dict, max_length=16, description="Labels that the pods must have.")
    images: dict[Name, Image] = Field(
        default_factory=dict,
        max_length=16,
        description="The image that each of these containers is to run; only in pools that recycle.",
    )
    labels: Labels = Field(
        default_factory=dict, max_length=32, description="Put on the claimed pods, and removed at the claim's end."
    )
    annotations: dict[Name, _Text] = Field(
        default_factory=dict, max_length=32, description="Put on the claimed pods, and removed at the claim's end."
    )
    tenant: str = Field("", max_length=253, description="In whose name; empty is the namespace.")
    priority: int = Field(0, ge=-1000, le=1000, description="Higher is served first.")
    lease_seconds: int | None = Field(
        None, ge=1, le=30 * 86_400, description="How long the claim lasts; absent is as the pool says."
    )
    wait_seconds: int | None = Field(
        None, ge=0, le=3600, description="How long it may wait for pods; absent is as the pool says."
    )
    on_empty: Literal["wait", "fail", "cold"] = Field(
        "wait", description="If too few pods are idle: wait in line, fail at once, or have pods created (cold)."
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
    """What became of the claim."""

    observed_generation: int = Field(0, ge=0)
    phase: Literal["Waiting", "Claiming", "Claimed", "Ended", "Released", "Failed"] = Field(
        "Waiting", description="Where the claim stands. Ended: its lease is over."
    )
    reason: str = Field("", max_length=64, description="One of a closed set of codes, as over HTTP and in metrics.")
    message: str = Field("", max_length=32768)
    claim: str = Field("", max_length=63, description="The claim's name, as it stands on its pods (waggle.dev/claim).")
    pods: list[ClaimedPod] = Field(default_factory=list, max_length=1000)
    lease_expires: Moment | None = Field(None, description="When the lease ends unless it is renewed.")
    position: int = Field(0, ge=0, description="While it waits: its place in the line, 1 is next.")
    renewal: str = Field(
        "", max_length=256, description="The value of the annotation waggle.dev/renew that was carried out last."
    )
    conditions: Conditions = Field(
        default_factory=list, description="Ready: all pods are the claim's, and run as it asked."
    )


class Claim(Seen):
    """A request for pods of a pool. Deleting it gives the pods back."""

    metadata: Metadata
    spec: ClaimSpec
    status: ClaimStatus = Field(default_factory=ClaimStatus)
