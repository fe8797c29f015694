"""The records of the engine of claims: pools, warm pods, and the mark on a claimed pod. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Mode(StrEnum):
    """How a pool gives pods away."""

    #: The pod's phase label changes, and it returns to the pool after use.
    RECYCLE = "recycle"
    #: The pod leaves its ReplicaSet, which makes another one. A claim's end deletes it.
    DETACH = "detach"


class Order(StrEnum):
    """Which of the idle pods is given away first."""

    #: The one that was first seen idle.
    FIFO = "fifo"
    #: By the time of the pod's creation.
    OLDEST = "oldest"
    NEWEST = "newest"
    #: On the node with the most claimed pods of the pool, so that other nodes become empty.
    PACK = "pack"
    #: On the node with the fewest.
    SPREAD = "spread"


class PoolKey(NamedTuple):
    """A pool's name. A tuple, as pods' keys are: its hash is what most lookups cost."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool: the pods of a namespace that have all labels of `selector`, and the rules of giving them away."""

    key: PoolKey
    selector: Mapping[str, str]
    mode: Mode = Mode.DETACH
    order: Order = Order.FIFO
    #: Seconds that a claim lasts unless it is renewed.
    lease_seconds: float = 3600.0
    #: How many requests may wait, of all tenants and of one.
    most_waiting: int = 8192
    most_waiting_of_tenant: int = 4096
    #: How many pods one tenant may have at once; 0: any number.
    most_pods_of_tenant: int = 0
    #: How many pods one claim may have.
    most_pods_of_claim: int = 64
    #: Tenants that wait are served in proportion to their weights; 1 if not given.
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimMark:
    """The mark on a claimed pod: enough to know the whole claim after a restart."""

    claim: str
    pool: str
    tenant: str = ""
    #: The caller's idempotency key, and a digest of the request that it belongs to; "" for none.
    key: str = ""
    digest: str = ""
    #: How many pods the claim has.
    size: int = 1
    #: When the lease ends, seconds since 1970.
    expires: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPod:
    """A pod of a pool, as the engine needs it. A claimed pod has a `mark`, and may have lost the pool's labels."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    #: A number that grows with the time of its creation.
    created: float = 0.0
    #: Whether it runs, serves and may be given away, apart from who has it.
    is_ready: bool = True
    is_terminating: bool = False
    #: Whether the pool's phase label, if it has one, says idle.
    is_idle: bool = True
    #: Whether somebody wants to delete it to make the pool smaller.
    is_surplus: bool = False
    addresses: tuple[str, ...] = ()
    #: The UID of its controller, such as a ReplicaSet; "" for none.
    owner: str = ""
    #: Whether it has the phase label and any annotation: a write must know.
    has_phase: bool = False
    has_annotations: bool = True
    mark: ClaimMark | None = None

    @property
    def can_be_claimed(self) -> bool:
        """Whether the pod itself is free and serves. Its node is another question."""
        return (
            self.mark is None
            and self.is_idle
            and self.is_ready
            and not self.is_terminating
            and not self.is_surplus
            and bool(self.node)
        )


class Demand(NamedTuple):
    """The labels that a pod must have to serve a request, in order of their names. An empty demand fits every pod."""

    labels: tuple[tuple[str, str], ...] = ()

    def fits(self, pod: WarmPod) -> bool:
        return all(pod.labels.get(name) == value for name, value in self.labels)


def demand(labels: Mapping[str, str]) -> Demand:
    """Return the demand for these labels, the same for every order in which they are written."""
    return Demand(tuple(sorted(labels.items())))
