"""The records of Pool and Claim objects. An object with an invalid spec also has one, with the fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from algorithm.decoding import DecodeError
from extender.claims.records import PoolKey
from extender.core.requests import collection_path, object_path
from extender.kube.informers.reflector import Resource
from extender.resources import (
    GROUP,
    VERSION,
    ClaimSpec,
    ClaimStatus,
    Metadata,
    PoolSpec,
    PoolStatus,
    ResourceError,
    read,
)

#: On every Claim that may have pods: the API server keeps the object until they are given back.
FINALIZER = "waggle.dev/claim"
#: An annotation of a Claim: a change of its value renews the lease.
RENEW = "waggle.dev/renew"
#: How many characters of that value are compared.
MOST_RENEW = 256
#: Memory for each byte of an object, and in addition for each object, bytes, estimated.
_PER_BYTE, _RECORD = 6, 3000

_CLAIM = re.compile(r"c-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[0-9a-z]+-\d+")
_M = TypeVar("_M", bound=BaseModel)


def claim_name(uid: str, server: str, number: int) -> str:
    """Return the name of a server's claim for the Claim object with this UID. `number`: which try of this server."""
    return f"c-{uid}-{server}-{number}"


def object_of(claim: str) -> str:
    """Return the UID of a claim's Claim object, from the claim's name; "" if it has none."""
    found = _CLAIM.fullmatch(claim)
    return found[1] if found is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolObject:
    """A Pool. `fault`: why its `spec` cannot be used; "" if it can."""

    uid: str
    resource_version: str
    key: PoolKey
    generation: int
    created: str
    spec: PoolSpec | None
    fault: str
    status: PoolStatus
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimObject:
    """A Claim. `fault`: why its `spec` cannot be used; "" if it can."""

    uid: str
    resource_version: str
    namespace: str
    name: str
    generation: int
    is_deleting: bool
    finalizers: tuple[str, ...]
    #: The value of the annotation that renews it.
    renewal: str
    spec: ClaimSpec | None
    fault: str
    status: ClaimStatus
    size: int

    @property
    def has_finalizer(self) -> bool:
        return FINALIZER in self.finalizers


def decode_pool(raw: bytes) -> PoolObject:
    """Return the record of a Pool. Raises DecodeError if not even its name can be read."""
    obj, metadata = _decode(raw)
    spec, fault = _read_spec(PoolSpec, obj)
    return PoolObject(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        key=PoolKey(metadata.namespace, metadata.name),
        generation=metadata.generation,
        created=metadata.creation_timestamp,
        spec=spec,
        fault=fault,
        status=_read_status(PoolStatus, obj),
        size=len(raw),
    )


def decode_claim(raw: bytes) -> ClaimObject:
    """Return the record of a Claim. Raises DecodeError if not even its name can be read."""
    obj, metadata = _decode(raw)
    spec, fault = _read_spec(ClaimSpec, obj)
    return ClaimObject(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        namespace=metadata.namespace,
        name=metadata.name,
        generation=metadata.generation,
        is_deleting=metadata.deletion_timestamp is not None,
        finalizers=tuple(metadata.finalizers),
        renewal=metadata.annotations.get(RENEW, "")[:MOST_RENEW],
        spec=spec,
        fault=fault,
        status=_read_status(ClaimStatus, obj),
        size=len(raw),
    )


def _decode(raw: bytes) -> tuple[Mapping[str, Any], Metadata]:
    try:
        obj = msgspec.json.decode(raw)
        return obj, read(Metadata, obj["metadata"])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ResourceError, KeyError, TypeError) as error:
        raise DecodeError(f"metadata: {error}") from error


def _read_spec(model: type[_M], obj: Mapping[str, Any]) -> tuple[_M | None, str]:
    try:
        return read(model, obj.get("spec")), ""
    except ResourceError as error:
        return None, f"spec.{error}".replace("; ", "; spec.").replace("spec.and ", "and ")


def _read_status(model: type[_M], obj: Mapping[str, Any]) -> _M:
    """Return the status; an empty one if it is not valid, which is then overwritten."""
    try:
        return read(model, obj.get("status") or {})
    except ResourceError:
        return model()


def weigh(obj: PoolObject | ClaimObject) -> int:
    """Estimate the bytes of memory that a record takes."""
    return _RECORD + _PER_BYTE * obj.size


POOLS: Resource[PoolObject] = Resource(
    "pools", lambda raw: decode_pool(bytes(raw)), lambda pool: str(pool.key), group=GROUP, version=VERSION, weigh=weigh
)
CLAIMS: Resource[ClaimObject] = Resource(
    "claims",
    lambda raw: decode_claim(bytes(raw)),
    lambda claim: f"{claim.namespace}/{claim.name}",
    group=GROUP,
    version=VERSION,
    weigh=weigh,
)


def pool_path(key: PoolKey, subresource: str = "") -> str:
    collection = collection_path("pools", group=GROUP, version=VERSION, namespace=key.namespace)
    return object_path(collection, key.name, subresource)


def claim_path(namespace: str, name: str, subresource: str = "") -> str:
    collection = collection_path("claims", group=GROUP, version=VERSION, namespace=namespace)
    return object_path(collection, name, subresource)
