"""The commands for Pool and Claim objects: three kinds of writes, and a read.

WritePoolStatus   PATCH  pools/NAME/status    numbers and conditions; the last write wins
WriteClaimStatus  PATCH  claims/NAME/status   with the resourceVersion as its precondition
WriteFinalizer    PATCH  claims/NAME          the same, for the finalizer
ReadClaim         GET    claims/NAME          after a write that failed

Each patch also has the UID as a precondition, so it fails for a later object with the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extender.claims.records import PoolKey
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, patch_request
from extender.server.claims.objects.records import (
    ClaimObject,
    PoolObject,
    claim_path,
    decode_claim,
    decode_pool,
    pool_path,
)


class WritePoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Reported by ObjectWritten."""

    token: int
    key: PoolKey
    uid: str
    status: Mapping[str, Any]
    term: int = 0
    valid_for: float = 20.0


class WriteClaimStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Reported by ObjectWritten."""

    token: int
    namespace: str
    name: str
    uid: str
    resource_version: str
    status: Mapping[str, Any]
    term: int = 0
    valid_for: float = 20.0


class WriteFinalizer(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the finalizers. Reported by ObjectWritten."""

    token: int
    namespace: str
    name: str
    uid: str
    resource_version: str
    finalizers: tuple[str, ...]
    term: int = 0
    valid_for: float = 20.0


class ReadClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Reported by ObjectWritten."""

    token: int
    namespace: str
    name: str


class ObjectWritten(msgspec.Struct, frozen=True):
    """The report of each of them. `obj`: the API server's version after the write; only with DONE."""

    token: int
    what: str
    outcome: Outcome
    obj: PoolObject | ClaimObject | None = None


ClaimWrite = WriteClaimStatus | WriteFinalizer | ReadClaim


def _pool_status(write: WritePoolStatus) -> Request:
    return patch_request(pool_path(write.key, "status"), {"metadata": {"uid": write.uid}, "status": write.status})


def _claim_status(write: WriteClaimStatus) -> Request:
    body = {"metadata": _precondition(write), "status": write.status}
    return patch_request(claim_path(write.namespace, write.name, "status"), body)


def _finalizer(write: WriteFinalizer) -> Request:
    body = {"metadata": {**_precondition(write), "finalizers": list(write.finalizers) or None}}
    return patch_request(claim_path(write.namespace, write.name), body)


def _precondition(write: WriteClaimStatus | WriteFinalizer) -> dict[str, str]:
    return {"uid": write.uid, "resourceVersion": write.resource_version}


def _read(read: ReadClaim) -> Request:
    return Request("GET", claim_path(read.namespace, read.name))


def _report(command: Any, outcome: Outcome, obj: Any) -> ObjectWritten:
    return ObjectWritten(command.token, type(command).__name__, outcome, obj)


KINDS: tuple[CommandKind[Any, Any, ObjectWritten], ...] = (
    CommandKind(
        command=WritePoolStatus, request=_pool_status, report=_report, reported_as=ObjectWritten, decode=decode_pool
    ),
    CommandKind(
        command=WriteClaimStatus, request=_claim_status, report=_report, reported_as=ObjectWritten, decode=decode_claim
    ),
    CommandKind(
        command=WriteFinalizer, request=_finalizer, report=_report, reported_as=ObjectWritten, decode=decode_claim
    ),
    CommandKind(
        command=ReadClaim, request=_read, report=_report, reported_as=ObjectWritten, decode=decode_claim, is_read=True
    ),
)
