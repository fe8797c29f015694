"""The records of the engine of claims: pools, warm pods, and the mark on a claimed pod. Plain data.

What is made for every claim, here and in events and writes, is a msgspec.Struct: it takes a tenth of the time of a
frozen dataclass, of which a claim would need some fifteen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

#: Names with values, in order of the names: labels, annotations, or images by container.
Pairs = tuple[tuple[str, str], ...]


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
    #: The one that a plug-in's function gives the highest score for this request.
    SCORE = "score"


class Phase(StrEnum):
    """The phase label of the pods of pools that recycle.

    idle ---> starting ---> running ---> stopping ---> idle
      |    images change       ^ |    images change     ^
      +------------------------+ +----------------------+
              no image changes in this claim
    """

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class OnEmpty(StrEnum):
    """What a request does that finds too few idle pods."""

    #: It waits for so long as it says.
    WAIT = "wait"
    #: It fails at once.
    FAIL = "fail"
    #: It has the pods created that are missing, and takes a warm one if that is ready earlier. Only in detach pools.
    COLD = "cold"


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
    #: Seconds that a request waits for a pod, if its caller does not say: the layers that make requests read it.
    wait_seconds: float = 30.0
    #: How many requests may wait, of all tenants and of one.
    most_waiting: int = 8192
    most_waiting_of_tenant: int = 4096
    #: How many pods one tenant may have at once; 0: any number.
    most_pods_of_tenant: int = 0
    #: How many pods one claim may have.
    most_pods_of_claim: int = 64
    #: Seconds in which a pod whose images changed, or that was created for a claim, must be ready.
    start_seconds: float = 120.0
    #: The images by container that a pod of a pool that recycles gets back; the ones it had, for containers not named.
    images: Mapping[str, str] = field(default_factory=dict)
    #: Whether a claim ends when a container restarts whose image it chose: what was in it is lost.
    ends_on_restart: bool = True
    #: The pod template of the pool's workload, as JSON values: `metadata` and `spec`. None: no pods can be created.
    template: Mapping[str, Any] | None = None
    #: How many pods may be created at once for claims that find none idle.
    most_cold: int = 64
    #: Tenants that wait are served in proportion to their weights; 1 if not given.
    weights: Mapping[str, float] = field(default_factory=dict)


class Before(NamedTuple):
    """A container whose image a claim changes, as it was before: the next one has another ID."""

    container: str
    container_id: str
    image_id: str


class ClaimMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    #: The labels that the claim put on the pod, with the values to go back to, None where there was none; and the names
    #: of the annotations.
    labels: tuple[tuple[str, str | None], ...] = ()
    annotations: tuple[str, ...] = ()
    #: The images by container that the pod is to run, in this phase, and those that it gets back.
    images: Pairs = ()
    idle_images: Pairs = ()
    before: tuple[Before, ...] = ()
    #: The IDs of the containers that began for this claim: one that has another ID was restarted.
    running: Pairs = ()
    #: When the pod must run, seconds since 1970; 0: it does.
    starts_by: float = 0.0
    #: The pod was created for the claim.
    is_cold: bool = False


class ImageChange(NamedTuple):
    """One container of a pod gets another image. `place`: its index in the specification."""

    place: int
    container: str
    before: str
    after: str


class Container(NamedTuple):
    """A container of a pod: the image that it is to run, and what was reported of it. IDs are "" until it runs."""

    name: str
    image: str
    running_image: str = ""
    image_id: str = ""
    container_id: str = ""
    is_ready: bool = False


class WarmPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod of a pool, as the engine needs it. A claimed pod has a `mark`, and may have lost the pool's labels."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
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
    #: The annotation that `mark` is made of, or `leaving`: a write that depends on it tests it.
    mark_text: str = ""
    #: The annotation of a claimed pod that is for E2B's API; "" if it was claimed otherwise.
    sandbox: str = ""
    #: The claim's label, also where the mark cannot be read.
    claim_label: str = ""
    #: What the phase label says; "" where there is none.
    phase: str = ""
    #: The mark of the claim that the pod was in, while it gets its images back. Such a pod has no `mark`.
    leaving: ClaimMark | None = None
    #: The containers without the initial ones. Only for pods with a phase label; nobody else needs them.
    containers: tuple[Container, ...] = ()
    #: Whether the kubelet has reported on the pod's present specification, as far as it says.
    is_observed: bool = True

    @property
    def is_orphan(self) -> bool:
        """Whether it is in a claim of which nothing is known: somebody has changed its annotation."""
        return bool(self.claim_label) and self.mark is None and self.leaving is None and not self.is_terminating

    @property
    def is_coming(self) -> bool:
        """Whether it was created for its claim and cannot serve yet."""
        return self.mark is not None and self.mark.is_cold and not (self.is_ready and self.node)

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
    """The labels that a pod must have to serve a request, in order of their names, and the names of containers. An
    empty demand fits every pod."""

    labels: Pairs = ()
    containers: tuple[str, ...] = ()

    def fits(self, pod: WarmPod) -> bool:
        if not all(pod.labels.get(name) == value for name, value in self.labels):
            return False
        return not self.containers or set(self.containers) <= {each.name for each in pod.containers}


def demand(labels: Mapping[str, str]) -> Demand:
    """Return the demand for these labels, the same for every order in which they are written."""
    return Demand(tuple(sorted(labels.items())))
