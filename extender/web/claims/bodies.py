"""The request and response bodies of the HTTP API of claims. Times are RFC 3339 in UTC."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from extender.claims.codes import ClaimCode
from extender.claims.events import Answered
from extender.claims.records import OnEmpty, WarmPod
from extender.claims.views import ClaimStage, ClaimView, PoolSnapshot
from extender.web.error_answers import ErrorBody

#: The last second that `datetime` supports: every client that may write pods can put any number into a mark.
_LATEST = 253402300799.0
_Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
_Value = Annotated[str, StringConstraints(max_length=63)]
_Text = Annotated[str, StringConstraints(max_length=16_384)]
_Image = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


def _plain(text: str) -> str:
    """A tenant and a key are shown on pages, in logs and by kubectl."""
    if not text.isprintable():
        raise PydanticCustomError("not_printable", "expected printable characters")
    return text


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ClaimRequest(_Request):
    """A request for pods of a pool. Every field is optional; an empty body asks for one pod."""

    count: int = Field(1, ge=1, le=1000, description="How many pods, all or none")
    wait_seconds: float | None = Field(
        None,
        ge=0,
        le=3600,
        description="How long the request may wait for pods; 0: it is served now or never; absent: as the pool says",
    )
    key: Annotated[str, AfterValidator(_plain)] = Field(
        "",
        max_length=253,
        description="Names this request for repetitions: the same key and body is the same claim, also after a crash",
    )
    requires: dict[_Name, _Value] = Field(
        default_factory=dict, max_length=16, description="Labels that the pods must have"
    )
    images: dict[_Name, _Image] = Field(
        default_factory=dict,
        max_length=16,
        description="The image that each of these containers is to run; only in pools with mode recycle",
    )
    labels: dict[_Name, _Value] = Field(
        default_factory=dict, max_length=32, description="Set on the claimed pods, and removed at the end of the claim"
    )
    annotations: dict[_Name, _Text] = Field(
        default_factory=dict, max_length=32, description="Set on the claimed pods, and removed at the end of the claim"
    )
    tenant: Annotated[str, AfterValidator(_plain)] | None = Field(
        None, max_length=253, description="The tenant that gets the pods; only for callers that may act for others"
    )
    priority: int = Field(0, ge=-1000, le=1000, description="Requests with a higher number are served first")
    lease_seconds: float = Field(
        0, ge=0, description="How long the claim lasts unless it is renewed; 0: the pool's lease_seconds"
    )
    on_empty: OnEmpty = Field(
        OnEmpty.WAIT, description="What happens if too few pods are idle: wait, fail at once, or create pods (cold)"
    )

    def digest(self) -> str:
        """Return a digest of the request. A key belongs to the digest with which it was first used."""
        asked = self.model_dump(mode="json", exclude={"key", "wait_seconds", "tenant"}, exclude_defaults=True)
        return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:16]


class RenewRequest(_Request):
    """A request to renew a claim's lease."""

    lease_seconds: float = Field(0, ge=0, description="How long it lasts from now; 0: the pool's lease_seconds")


class PodBody(BaseModel):
    """A claimed pod."""

    name: str
    uid: str
    node: str
    addresses: list[str] = Field(description="The pod's IP addresses")


class ClaimBody(BaseModel):
    """A claim."""

    id: str
    namespace: str
    pool: str
    tenant: str
    state: Literal["waiting", "claiming", "claimed", "ending", "released", "failed"]
    code: str = Field(description="The code of docs/claims.md; the same in metrics; empty while it waits")
    pods: list[PodBody] = Field(default_factory=list)
    expires: str | None = Field(None, description="When the lease ends unless it is renewed")
    position: int | None = Field(None, description="While it waits: its position in the queue, 1 is next")
    estimate_seconds: float | None = Field(
        None, description="While it waits: estimated seconds until it is served; null: unknown"
    )
    detail: str = ""


class TenantBody(BaseModel):
    """One tenant of a pool."""

    tenant: str
    waiting: int = Field(description="Its requests in the queue")
    oldest_seconds: float = Field(description="How long the oldest of them has waited")
    pods: int = Field(description="Pods that it has claimed")


class PoolBody(BaseModel):
    """A pool at one moment."""

    namespace: str
    name: str
    mode: str
    served: bool = Field(description="false: its pods are not known yet")
    idle: int = Field(0, description="Pods that can be claimed now")
    in_flight: int = Field(0, description="Pods that are being written for a request")
    claimed: int = 0
    starting: int = 0
    stopping: int = 0
    unready: int = Field(0, description="Pods that are not ready, or on a node that is not ready or is cordoned")
    surplus: int = Field(0, description="Pods that the autoscaler has marked for deletion")
    terminating: int = 0
    pending: int = Field(0, description="Requests without an answer")
    unmet: int = Field(0, description="Pods that the waiting requests lack, beyond idle and unready ones")
    accepted: int = Field(0, description="accepted = succeeded + failed + pending, always")
    succeeded: int = 0
    failed: dict[str, int] = Field(default_factory=dict, description="Accepted requests that failed, by code")
    refused: dict[str, int] = Field(default_factory=dict, description="Requests that were not accepted, by code")
    idle_rate: float = Field(0.0, description="Pods that became idle per second, over the last five minutes")
    first_waits: str = Field("", description="Why the oldest request in the queue waits; empty if none waits")
    tenants: list[TenantBody] = Field(default_factory=list)


class PoolListBody(BaseModel):
    items: list[PoolBody]


class ClaimListBody(BaseModel):
    items: list[ClaimBody]
    next: str = Field(description="The parameter `after` of the next page; empty if this is the last")


def pool_body(found: PoolSnapshot) -> PoolBody:
    """Return the body of a pool."""
    return PoolBody(
        namespace=found.key.namespace,
        name=found.key.name,
        mode=found.mode.value,
        served=True,
        idle=found.idle,
        in_flight=found.in_flight,
        claimed=found.claimed,
        starting=found.starting,
        stopping=found.stopping,
        unready=found.unready,
        surplus=found.surplus,
        terminating=found.terminating,
        pending=found.pending,
        unmet=found.unmet,
        accepted=found.accepted,
        succeeded=found.succeeded,
        failed={code.value: count for code, count in found.failed.items()},
        refused={code.value: count for code, count in found.refused.items()},
        idle_rate=round(found.idle_rate, 3),
        first_waits=found.first_waits,
        tenants=[
            TenantBody(tenant=each.tenant, waiting=each.waiting, oldest_seconds=round(each.oldest, 3), pods=each.pods)
            for each in found.tenants
        ],
    )


def claim_body(found: ClaimView) -> ClaimBody:
    """Return the body of a claim that exists, or waits."""
    return ClaimBody(
        id=found.name,
        namespace=found.pool.namespace,
        pool=found.pool.name,
        tenant=found.tenant,
        state=found.stage.value,
        code=ClaimCode.CLAIMED.value if found.stage is ClaimStage.CLAIMED else "",
        pods=pod_bodies(found.pods),
        expires=moment(found.expires) if found.expires else None,
        position=found.position or None,
        estimate_seconds=None if found.estimate is None else round(found.estimate, 3),
    )


def pod_bodies(pods: Iterable[WarmPod]) -> list[PodBody]:
    """Return the bodies of claimed pods by name: in the same order in each answer about the same claim."""
    return [
        PodBody(name=pod.name, uid=pod.uid, node=pod.node, addresses=list(pod.addresses))
        for pod in sorted(pods, key=lambda each: each.name)
    ]


def moment(epoch: float) -> str:
    """Return an RFC 3339 time of seconds since 1970."""
    return (
        datetime.fromtimestamp(min(max(epoch, 0.0), _LATEST), UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


#: The error text for each code, used if the engine gives no detail.
_TEXTS = {
    ClaimCode.NO_IDLE_POD: "no pod of this pool is idle, and the request does not wait",
    ClaimCode.DEADLINE_EXCEEDED: "no pod became idle within wait_seconds",
    ClaimCode.QUEUE_FULL: "the pool's queue is full",
    ClaimCode.TENANT_QUEUE_FULL: "this tenant's share of the pool's queue is full",
    ClaimCode.TOO_MANY_DEMANDS: "requests with too many different sets of required labels wait",
    ClaimCode.CANCELLED: "the request was cancelled",
    ClaimCode.SHUTTING_DOWN: "this server is shutting down",
    ClaimCode.NOT_READY: "the pods of the cluster are not known yet",
    ClaimCode.UNKNOWN_POOL: "there is no such pool",
    ClaimCode.KEY_REUSED: "the key belongs to another request",
    ClaimCode.TOO_MANY_PODS: "more pods than a claim of this pool may have",
    ClaimCode.WRITE_REFUSED: "the API server refused to change the pod",
    ClaimCode.WRITE_UNKNOWN: "the API server did not say whether the pod was claimed; if it was, it is released",
    ClaimCode.UNKNOWN_CLAIM: "there is no such claim",
    ClaimCode.NOT_YOURS: "this claim belongs to another tenant",
    ClaimCode.START_TIMEOUT: "the pod did not start in time",
    ClaimCode.KEY_BUSY: "another claim with this key is not decided yet, or is being given back",
    ClaimCode.CLAIM_ENDED: "the claim's lease has expired, or it is being released",
}


def error_of(answer: Answered) -> ErrorBody:
    """Return the body of an answer that is not a success."""
    text = answer.detail or _TEXTS.get(answer.code, answer.code.value)
    name = text.partition(":")[0]
    field = name if name.partition(".")[0] in ClaimRequest.model_fields else None
    return ErrorBody(error=text, field=field, code=answer.code.value, retry_after=answer.retry_after or None)
