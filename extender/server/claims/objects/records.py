"""The records of Pool and Claim objects. An object with an invalid spec also has one, with the fault."""

from __future__ import annotations

import re
from dataclasses import dataclass

from extender.claims.records import PoolKey
from extender.core.requests import collection_path, object_path
from extender.kube.informers.reflector import Resource
from extender.resources import (
    GROUP,
    VERSION,
    ClaimSpec,
    ClaimStatus,
    PoolSpec,
    PoolStatus,
)
from extender.server.custom_objects import decode, read_spec, read_status
from extender.server.custom_objects import weigh as weigh_bytes

#: On every Claim that may have pods: the API server keeps the object until they are given back.
FINALIZER = "waggle.dev/claim"
#: An annotation of a Claim: a change of its value renews the lease.
RENEW = "waggle.dev/renew"
#: How many characters of that value are compared.
MOST_RENEW = 256

_CLAIM = re.compile(r"c-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[0-9a-z]+-\d+")


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
    obj, metadata = decode(raw)
    spec, fault = read_spec(PoolSpec, obj)
    return PoolObject(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        key=PoolKey(metadata.namespace, metadata.name),
        generation=metadata.generation,
        created=metadata.creation_timestamp,
        spec=spec,
        fault=fault,
        status=read_status(PoolStatus, obj),
        size=len(raw),
    )


def decode_claim(raw: bytes) -> ClaimObject:
    """Return the record of a Claim. Raises DecodeError if not even its name can be read."""
    obj, metadata = decode(raw)
    spec, fault = read_spec(ClaimSpec, obj)
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
        status=read_status(ClaimStatus, obj),
        size=len(raw),
    )


def weigh(obj: PoolObject | ClaimObject) -> int:
    """Estimate the bytes of memory that a record takes."""
    return weigh_bytes(obj.size)


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
