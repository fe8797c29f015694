"""How a request about a claim ends: the closed set of codes, each with the HTTP status that it becomes.

The same code stands in the answer, in the label of the metric and on the page.
"""

from __future__ import annotations

from enum import StrEnum


class ClaimCode(StrEnum):
    """Every end there is. `status` is its HTTP status."""

    status: int

    def __new__(cls, value: str, status: int) -> ClaimCode:
        member = str.__new__(cls, value)
        member._value_ = value
        member.status = status
        return member

    # Ends of a request for pods. CLAIMED is the only good one.
    CLAIMED = "Claimed", 201
    #: No pod was idle, and the request does not wait.
    NO_IDLE_POD = "NoIdlePod", 429
    #: No pod became idle before the request's deadline.
    DEADLINE_EXCEEDED = "DeadlineExceeded", 504
    #: As many requests wait as may.
    QUEUE_FULL = "QueueFull", 429
    #: The tenant has as many requests waiting as it may.
    TENANT_QUEUE_FULL = "TenantQueueFull", 429
    #: Requests of too many different requirements wait.
    TOO_MANY_DEMANDS = "TooManyDemands", 429
    #: The caller went away.
    CANCELLED = "Cancelled", 499
    #: This server is going down.
    SHUTTING_DOWN = "ShuttingDown", 503
    #: The pods of the cluster are not known yet.
    NOT_READY = "NotReady", 503
    UNKNOWN_POOL = "UnknownPool", 404
    #: The key belongs to a request with another body.
    KEY_REUSED = "KeyReused", 409
    #: More pods at once than a claim of this pool may have.
    TOO_MANY_PODS = "TooManyPods", 400
    #: The API server refused the write for good.
    WRITE_REFUSED = "WriteRefused", 502
    #: It is not known whether the pod was claimed. If it was, it is given back.
    WRITE_UNKNOWN = "WriteUnknown", 504
    #: The pod did not run with the claim's images in time, or the pod that was created for it was not ready in time.
    START_TIMEOUT = "StartTimeout", 504
    #: No pod of the pool has a container of this name.
    UNKNOWN_CONTAINER = "UnknownContainer", 400
    #: The pool does not change images, or creates no pods for claims.
    NOT_POSSIBLE = "NotPossible", 400
    #: A label or an annotation that Kubernetes or Waggle does not let the claim put on its pods.
    INVALID_METADATA = "InvalidMetadata", 400

    # Ends of a request about a claim that exists.
    RELEASED = "Released", 200
    RENEWED = "Renewed", 200
    UNKNOWN_CLAIM = "UnknownClaim", 404
    NOT_YOURS = "NotYours", 403
    #: The claim's lease is over, or it is being released.
    CLAIM_ENDED = "ClaimEnded", 410


#: The codes with which a request for pods that was accepted can end.
ENDS = frozenset(
    {
        ClaimCode.CLAIMED,
        ClaimCode.NO_IDLE_POD,
        ClaimCode.DEADLINE_EXCEEDED,
        ClaimCode.CANCELLED,
        ClaimCode.SHUTTING_DOWN,
        ClaimCode.UNKNOWN_POOL,
        ClaimCode.WRITE_REFUSED,
        ClaimCode.WRITE_UNKNOWN,
        ClaimCode.START_TIMEOUT,
    }
)
