"""The request and response bodies of the HTTP API of vpods. `answers.py` has the responses of dry runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from extender.vpods import views
from extender.vpods.copies import SetCopy, VPodCopy
from extender.vpods.views import PodView, Sums

#: The largest number of vreplicas of one vpod, and the largest capacity, of a dry run.
MOST_VREPLICAS, MOST_CAPACITY, MOST_REPLICAS = 1_000_000, 1_000_000, 10_000
_Name = Annotated[str, StringConstraints(min_length=1, max_length=640)]
_Count = Annotated[int, Field(ge=0, le=MOST_VREPLICAS)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class VPodChangeBody(_Request):
    """What a vpod wants in a dry run. Fields that are absent stay as they are."""

    vpod: _Name = Field(description="NAME, NAMESPACE/NAME or SOURCE:NAMESPACE/NAME. An unknown one is a new vpod")
    vreplicas: _Count | None = Field(None, description="How many it wants; a new vpod needs it")
    spread: _Count | None = Field(None, description="The minimum number of distinct pods that host it")
    max_per_pod: _Count | None = Field(None, description="How many of its vreplicas one pod may hold; 0: no limit")
    deleted: bool = Field(False, description="The vpod is deleted")


class PlanRequest(_Request):
    """What would change, all of it at once. An empty body asks for the steps that are already due."""

    vpods: list[VPodChangeBody] = Field(default_factory=list, max_length=1000)
    capacity: int | None = Field(None, ge=1, le=MOST_CAPACITY, description="How many vreplicas one pod may hold")
    policy: str | None = Field(None, min_length=1, max_length=253)
    policy_settings: dict[str, Any] | None = Field(None, max_length=64)
    min_replicas: int | None = Field(None, ge=0, le=MOST_REPLICAS)
    max_replicas: int | None = Field(None, ge=1, le=MOST_REPLICAS)
    autoscale: bool | None = Field(None, description="Scale the StatefulSet to the demand of its vpods")
    replicas: int | None = Field(
        None, ge=0, le=MOST_REPLICAS, description="Somebody sets the replicas; the autoscaler goes on from there"
    )
    lost_pods: list[_Name] = Field(
        default_factory=list, max_length=1000, description="Names or ordinals of pods that fail and do not come back"
    )
    closed_pods: list[_Name] = Field(
        default_factory=list, max_length=1000, description="Pods that get the annotation that closes them"
    )
    lost_nodes: list[_Name] = Field(default_factory=list, max_length=1000)
    cordoned_nodes: list[_Name] = Field(default_factory=list, max_length=1000)
    limit: int = Field(200, ge=1, le=10_000, description="How many steps, and how many waiting vpods, are listed")


class ExplainRequest(_Request):
    """Which vpod."""

    vpod: _Name = Field(description="NAME, NAMESPACE/NAME or SOURCE:NAMESPACE/NAME")


class SumsBody(BaseModel):
    """A set in numbers."""

    replicas: int
    usable: int = Field(description="Pods that may hold vreplicas")
    vpods: int
    expected: int = Field(description="Vreplicas that all vpods want")
    placed: int
    pending: int = Field(description="Vreplicas without a pod")
    free: int = Field(description="Vreplicas that still fit on usable pods")
    waiting: int = Field(description="VPods with vreplicas that have no pod")
    spread: int = Field(description="The fullest usable pod minus the emptiest one")
    zone_spread: float = Field(description="The same of zones, in vreplicas per pod of the zone")
    zones: dict[str, int] = Field(description="Vreplicas by zone")


class SetBody(BaseModel):
    """A set."""

    namespace: str
    name: str
    stateful_set: str
    capacity: int
    policy: str
    min_replicas: int
    max_replicas: int
    autoscale: bool
    decides: bool = Field(description="Whether this replica of Waggle decides about it")
    detail: str = Field(description="Why this replica does not decide, or what is wrong with the set")
    sums: SumsBody
    moves: int = Field(description="VPods whose placements are being written")
    draining_to: int | None = Field(description="Pods from this ordinal on are being emptied")
    scaling_to: int | None = Field(description="Replicas that are ordered and not seen yet")


class HostBody(BaseModel):
    """A pod of the set."""

    ordinal: int
    name: str
    node: str
    zone: str
    state: Literal["usable", "resting", "closed", "leaving", "absent"]
    why: str = Field(description="Why it is not usable; empty if it is")
    held: int = Field(description="Vreplicas on it. One that moves counts on both pods")
    free: int


class MoveBody(BaseModel):
    """Vreplicas on their way. `source` null: new; `target` null: given up."""

    source: str | None
    target: str | None
    vreplicas: int


class VPodBody(BaseModel):
    """A vpod."""

    namespace: str
    name: str
    source: str = Field(description="Empty: a VPod object; else the entry of vpods.resources that it is of")
    wanted: int
    scheduled: int = Field(description="Vreplicas with a pod, as its status says")
    pending: int
    spread: int = Field(description="Distinct pods that it wants")
    max_per_pod: int
    placements: dict[str, int] = Field(description="Vreplicas by pod")
    moves: list[MoveBody] = Field(description="What is under way")
    reason: str = Field(description="The reason of its condition Scheduled")
    message: str
    waits_seconds: float | None = Field(description="For how long it has lacked room; null: it has all")


class SetDetailBody(SetBody):
    """A set, with its pods and a page of its vpods."""

    pods: list[HostBody]
    next_pod: int | None = Field(description="The parameter `from_pod` of the next page of pods; null: none")
    vpods: list[VPodBody]
    next: str = Field(description="The parameter `after` of the next page of vpods; empty: this is the last")


class SetListBody(BaseModel):
    items: list[SetBody]


def sums_body(found: Sums) -> SumsBody:
    return SumsBody(
        replicas=found.replicas,
        usable=found.usable,
        vpods=found.vpods,
        expected=found.expected,
        placed=found.placed,
        pending=found.pending,
        free=found.free,
        waiting=found.waiting,
        spread=found.spread,
        zone_spread=found.zone_spread,
        zones=dict(found.zones),
    )


def set_body(copy: SetCopy) -> SetBody:
    """Return the body of a set."""
    settings = copy.settings
    wrong = "" if copy.workload else f"the StatefulSet {copy.key.namespace}/{settings.workload} does not exist"
    return SetBody(
        namespace=copy.key.namespace,
        name=copy.key.name,
        stateful_set=settings.workload,
        capacity=settings.capacity,
        policy=str(settings.policy),
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        autoscale=settings.scales,
        decides=not copy.idle,
        detail=copy.idle or wrong,
        sums=sums_body(views.sums(copy)),
        moves=sum(1 for vpod in copy.vpods if vpod.is_writing),
        draining_to=copy.draining,
        scaling_to=copy.ordered,
    )


def detail_body(copy: SetCopy, shown: list[VPodCopy], *, limit: int, from_pod: int, pod_limit: int) -> SetDetailBody:
    """Return the body of a set with a page of its pods, and this page of its vpods."""
    pods = [pod for pod in views.pods(copy) if pod.ordinal >= from_pod]
    return SetDetailBody(
        **dict(set_body(copy)),
        pods=[host_body(pod) for pod in pods[:pod_limit]],
        next_pod=pods[pod_limit].ordinal if len(pods) > pod_limit else None,
        vpods=[vpod_body(copy, vpod) for vpod in shown],
        next=shown[-1].name if shown and len(shown) == limit else "",
    )


def host_body(pod: PodView) -> HostBody:
    return HostBody(
        ordinal=pod.ordinal,
        name=pod.name,
        node=pod.node,
        zone=pod.zone,
        state=pod.stage.value,
        why=pod.why,
        held=pod.held,
        free=pod.free,
    )


def vpod_body(copy: SetCopy, vpod: VPodCopy) -> VPodBody:
    """Return the body of a vpod."""
    record, since = vpod.record, vpod.waits_since
    return VPodBody(
        namespace=record.key.namespace,
        name=record.key.name,
        source=record.key.source,
        wanted=record.wanted,
        scheduled=vpod.scheduled,
        pending=vpod.pending,
        spread=record.spread,
        max_per_pod=record.max_per_pod,
        placements={pod_of(copy, ordinal): number for ordinal, number in sorted(vpod.committed.items())},
        moves=[
            MoveBody(
                source=None if move.source is None else pod_of(copy, move.source),
                target=None if move.target is None else pod_of(copy, move.target),
                vreplicas=move.vreplicas,
            )
            for move in views.moves(vpod)
        ],
        reason=vpod.reason.value,
        message=vpod.message,
        waits_seconds=None if since is None else round(max(0.0, copy.now - since), 1),
    )


def pod_of(copy: SetCopy, ordinal: int) -> str:
    """Return the name of a pod."""
    return f"{copy.settings.workload}-{ordinal}"
