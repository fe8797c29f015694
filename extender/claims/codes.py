"""How a request about a claim ends: the closed set of codes, each with its HTTP status.

The answer, the metric's label and the page use the same code.
"""

from __future__ import annotations

from enum import StrEnum


class ClaimCode(StrEnum):
    """The codes. `status` is the HTTP status."""

    status: int

    def __new__(cls, value: str, status: int) -> ClaimCode:
        member = str.__new__(cls, value)
        member._value_ = value
        member.status = status
        return member

    # Ends of a request for pods. CLAIMED is the only success.
    CLAIMED = "Claimed", 201
    #: No pod was idle, and the request does not wait.
    NO_IDLE_POD = "NoIdlePod", 429
    #: No pod became idle before the request's deadline.
    DEADLINE_EXCEEDED = "DeadlineExceeded", 504
    #: The pool's queue has reached its limit.
    QUEUE_FULL = "QueueFull", 429
    #: The tenant's requests in the queue have reached their limit.
    TENANT_QUEUE_FULL = "TenantQueueFull", 429
    #: The requests in the queue have too many different sets of required labels.
    TOO_MANY_DEMANDS = "TooManyDemands", 429
    #: The caller disconnected, or another call released the claim while its request waited.
    CANCELLED = "Cancelled", 499
    #: This server is shutting down.
    SHUTTING_DOWN = "ShuttingDown", 503
    #: The pods of the cluster are not known yet.
    NOT_READY = "NotReady", 503
    UNKNOWN_POOL = "UnknownPool", 404
    #: The key belongs to a request with another body.
    KEY_REUSED = "KeyReused", 409
    #: It is not known yet who has the key: another claim with it is being decided, or given back.
    KEY_BUSY = "KeyBusy", 503
    #: More pods at once than a claim of this pool may have.
    TOO_MANY_PODS = "TooManyPods", 400
    #: The API server refused the write, and a retry cannot help.
    WRITE_REFUSED = "WriteRefused", 502
    #: It is not known whether the pod was claimed. If it was, it is given back.
    WRITE_UNKNOWN = "WriteUnknown", 504
    #: A pod did not run the claim's images in time, or a pod that was created for the claim was not ready in time.
    START_TIMEOUT = "StartTimeout", 504
    #: No pod of the pool has a container of this name.
    UNKNOWN_CONTAINER = "UnknownContainer", 400
    #: The pool does not change images, or does not create pods for claims.
    NOT_POSSIBLE = "NotPossible", 400
    #: Kubernetes or Waggle does not allow this label or annotation on claimed pods.
    INVALID_METADATA = "InvalidMetadata", 400

    # Ends of a request about a claim that exists.
    RELEASED = "Released", 200
    RENEWED = "Renewed", 200
    UNKNOWN_CLAIM = "UnknownClaim", 404
    NOT_YOURS = "NotYours", 403
    #: The claim's lease has expired, or it is being released.
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
        ClaimCode.KEY_BUSY,
        ClaimCode.KEY_REUSED,
    }
)
