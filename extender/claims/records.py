"""The records of the engine of claims: pools, warm pods, and the mark on a claimed pod. Plain data.

Every record of which a claim creates new ones is a msgspec.Struct, here and in events and writes: it takes a tenth of
the time of a frozen dataclass, and a claim creates some fifteen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

#: Names with values, sorted by name: labels, annotations, or images by container.
Pairs = tuple[tuple[str, str], ...]


class Mode(StrEnum):
    """How a pod leaves its pool, and what happens to it at the end of its claim."""

    #: The pod's phase label changes, and the pod returns to the pool after use.
    RECYCLE = "recycle"
    #: The pod leaves its ReplicaSet, which creates another one. The end of the claim deletes the pod.
    DETACH = "detach"


class Order(StrEnum):
    """Which idle pod is claimed first."""

    #: The pod that has been idle for the longest time.
    FIFO = "fifo"
    #: The pod that was created first, or last.
    OLDEST = "oldest"
    NEWEST = "newest"
    #: A pod on the node with the most claimed pods of the pool, so that other nodes become empty.
    PACK = "pack"
    #: A pod on the node with the fewest.
    SPREAD = "spread"
    #: The pod to which a plug-in's function gives the highest score for this request.
    SCORE = "score"


class Phase(StrEnum):
    """The phase label of pods in pools in mode `recycle`.

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
    """What happens to a request if too few pods are idle."""

    #: It waits, for its `wait_seconds` at most.
    WAIT = "wait"
    #: It fails at once.
    FAIL = "fail"
    #: The missing pods are created; a warm pod is used instead if one becomes idle earlier. Only in mode `detach`.
    COLD = "cold"


class PoolKey(NamedTuple):
    """A pool's name. A tuple, because hashing takes most of the time of a lookup, and a tuple's hash is fast."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool: the pods of a namespace that have all labels of `selector`, and the rules for claiming them."""

    key: PoolKey
    selector: Mapping[str, str]
    mode: Mode = Mode.DETACH
    order: Order = Order.FIFO
    #: Seconds that a claim lasts unless it is renewed.
    lease_seconds: float = 3600.0
    #: Seconds that a request waits for a pod if its caller does not say. The layers that make requests apply it.
    wait_seconds: float = 30.0
    #: The limits of the queue, in requests: of all tenants, and of one.
    max_pending: int = 8192
    max_pending_per_tenant: int = 4096
    #: How many pods one tenant may have at once; 0: no limit.
    max_pods_per_tenant: int = 0
    #: How many pods one claim may have.
    max_pods_per_claim: int = 64
    #: Seconds within which a pod must be ready after its images changed, or after it was created for a claim.
    start_seconds: float = 120.0
    #: Mode `recycle`: the image that each container gets back when a claim that changed it ends. A container that is
    #: not named gets the image back that it had before.
    images: Mapping[str, str] = field(default_factory=dict)
    #: Whether a claim ends when a container restarts whose image it chose, because the work in it is lost.
    ends_on_restart: bool = True
    #: The pod template of the pool's workload, as JSON values: `metadata` and `spec`. None: no pods can be created.
    template: Mapping[str, Any] | None = None
    #: How many pods may be in creation at once for claims that find none idle.
    max_cold: int = 64
    #: Waiting tenants are served in proportion to their weights; 1 if not given.
    weights: Mapping[str, float] = field(default_factory=dict)


class Before(NamedTuple):
    """A container before a claim changed its image. The container that replaces it has another ID."""

    container: str
    container_id: str
    image_id: str


class ClaimMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The annotation on a claimed pod, from which a server rebuilds the claim after a restart. Called its mark."""

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
    #: The labels that the claim set on the pod, each with its value before the claim, None if it had none; and the
    #: names of the annotations that it set.
    labels: tuple[tuple[str, str | None], ...] = ()
    annotations: tuple[str, ...] = ()
    #: The images by container that the claim chose, and those that the pod gets back at the end of the claim.
    images: Pairs = ()
    idle_images: Pairs = ()
    #: The containers that must be replaced until the present change of images is complete.
    before: tuple[Before, ...] = ()
    #: The containers that run the claim's images, with their IDs. A container with another ID was restarted.
    running: Pairs = ()
    #: By when the pod must run its images, seconds since 1970; 0: it runs them already.
    starts_by: float = 0.0
    #: The pod was created for the claim (`on_empty: cold`).
    is_cold: bool = False
    #: With a key, where several servers share pools: who has the claim is known beyond the server that began it. Such a
    #: claim is not given back because its request failed.
    is_known: bool = False


class ImageChange(NamedTuple):
    """A change of the image of one container. `place`: its index in `spec.containers`."""

    place: int
    container: str
    before: str
    after: str


class Container(NamedTuple):
    """A container of a pod: the image in its specification, and what its status reports. IDs are "" until it runs."""

    name: str
    image: str
    running_image: str = ""
    image_id: str = ""
    container_id: str = ""
    is_ready: bool = False


class WarmPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a pod that the engine needs. A claimed pod has a `mark`, and in mode `detach` no pool labels."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    node: str = ""
    #: The creation time as a number. Only its order matters.
    created: float = 0.0
    #: Whether its phase is Running and its condition Ready is True.
    is_ready: bool = True
    is_terminating: bool = False
    #: Whether it has no claim's label, and its phase label is absent or says idle.
    is_idle: bool = True
    #: Whether the autoscaler has marked it for deletion.
    is_surplus: bool = False
    addresses: tuple[str, ...] = ()
    #: The UID of its controller, such as a ReplicaSet; "" for none.
    owner: str = ""
    #: Whether it has the phase label, and any annotation: the JSON patches depend on both.
    has_phase: bool = False
    has_annotations: bool = True
    mark: ClaimMark | None = None
    #: The text of the annotation from which `mark` or `leaving` was decoded: writes that depend on it test it.
    mark_text: str = ""
    #: The annotation of E2B's API on a claimed pod; "" if the claim was made otherwise.
    sandbox: str = ""
    #: The value of the claim's label, also if the mark cannot be decoded.
    claim_label: str = ""
    #: The value of the phase label; "" if there is none.
    phase: str = ""
    #: The mark of the claim that has ended, while the pod gets its images back. Such a pod has no `mark`.
    leaving: ClaimMark | None = None
    #: The containers without init containers. Only of pods with a phase label; no other pod's images change.
    containers: tuple[Container, ...] = ()
    #: Whether the kubelet has reported on the present specification. True if the status does not say.
    is_observed: bool = True

    @property
    def is_orphan(self) -> bool:
        """Whether it has a claim's label but no mark that can be decoded, so that nothing is known of the claim."""
        return bool(self.claim_label) and self.mark is None and self.leaving is None and not self.is_terminating

    @property
    def is_coming(self) -> bool:
        """Whether it was created for its claim and is not ready yet."""
        return self.mark is not None and self.mark.is_cold and not (self.is_ready and self.node)

    @property
    def can_be_claimed(self) -> bool:
        """Whether the pod itself allows a claim: it is idle and ready. Holds and its node are checked elsewhere."""
        return (
            self.mark is None
            and self.is_idle
            and self.is_ready
            and not self.is_terminating
            and not self.is_surplus
            and bool(self.node)
        )


class Demand(NamedTuple):
    """What a request requires of a pod: labels, sorted by name, and names of containers. Every pod fits an empty
    demand."""

    labels: Pairs = ()
    containers: tuple[str, ...] = ()

    def fits(self, pod: WarmPod) -> bool:
        if not all(pod.labels.get(name) == value for name, value in self.labels):
            return False
        return not self.containers or set(self.containers) <= {each.name for each in pod.containers}


def demand(labels: Mapping[str, str]) -> Demand:
    """Return the demand for these labels. Their order does not matter."""
    return Demand(tuple(sorted(labels.items())))
