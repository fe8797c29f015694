"""The section `claims` of the configuration file: who may claim, the limits, and pools.

Pools can also be objects of the API server, if `claims.custom_resources` is set. Both kinds are served side by side.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_NAMESPACE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
_Image = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
_LABEL_NAME = re.compile(r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class WorkloadSettings(_Section):
    """The workload that makes a pool's pods, in the pool's namespace."""

    kind: Literal["Deployment", "ReplicaSet", "StatefulSet"] = "Deployment"
    name: str = Field(pattern=_NAME, max_length=253)


class AutoscalerSettings(_Section):
    """Scales the pool's workload: a replica for each pod that requests lack, and spare pods."""

    #: The bounds of the number of replicas.
    min_replicas: int = Field(0, ge=0, le=100_000)
    max_replicas: int = Field(ge=1, le=100_000)
    #: Spare pods beyond the demand (claimed pods and pods that requests lack): none, one, a quarter or half of it.
    buffer: Literal["none", "one", "quarter", "half"] = "quarter"
    #: Seconds that a pod must be idle before a scale-down may delete it; between two changes, unless requests lack
    #: pods; and until the next scale-up after the cluster was full.
    idle_seconds: float = Field(300, ge=0, le=86_400)
    cooldown_seconds: float = Field(10, ge=0, le=3600)
    full_cooldown_seconds: float = Field(60, ge=0, le=86_400)
    #: Seconds without an idle pod after which spare pods are added while no request waits.
    empty_seconds: float = Field(5, ge=0, le=3600)
    #: Seconds after the last request for which the pool counts as busy, and spare pods are added.
    quiet_seconds: float = Field(300, ge=0, le=86_400)
    #: How many pods may be added within `refill_seconds`; 0: no limit.
    refill_pods: int = Field(0, ge=0, le=100_000)
    refill_seconds: float = Field(60, gt=0, le=86_400)


class PoolSettings(_Section):
    """One pool: the pods of a namespace that have all labels of `selector`, and the rules for claiming them."""

    namespace: str = Field("default", pattern=_NAMESPACE, max_length=63)
    name: str = Field(pattern=_NAME, max_length=63)
    selector: dict[str, str] = Field(min_length=1, max_length=32)
    #: detach: a claim takes the pod out of its ReplicaSet, which creates another one; its end deletes the pod.
    #: recycle: a claim changes the pod's phase label; its end returns the pod to the pool.
    mode: Literal["detach", "recycle"] = "detach"
    #: Which idle pod is claimed first: the one that has been idle for the longest time, by creation time, by the number
    #: of claimed pods on its node, or by `claims.score`.
    order: Literal["fifo", "oldest", "newest", "pack", "spread", "score"] = "fifo"
    #: The workload that creates the pool's pods. Without it, no pod can be created for a claim (`on_empty: cold`), and
    #: nothing is scaled.
    workload: WorkloadSettings | None = None
    #: Scale the workload by demand. Without it, Waggle does not change the replicas.
    autoscaler: AutoscalerSettings | None = None
    #: Mode recycle: the image that each container gets back when a claim that changed it ends. A container that is not
    #: named gets the image back that it had before.
    images: dict[_Name, _Image] = Field(default_factory=dict, max_length=16)
    #: Seconds within which a pod must be ready after a claim changed its images, or after it was created for a claim.
    start_seconds: float = Field(120, ge=1, le=3600)
    #: Whether a claim ends when a container restarts whose image it chose, because the work in it is lost.
    ends_on_restart: bool = True
    #: Seconds that a request waits for a pod if its caller does not say.
    wait_seconds: float = Field(30, ge=0, le=3600)
    #: Seconds that a claim lasts unless it is renewed, if its caller does not say.
    lease_seconds: float = Field(3600, ge=1, le=30 * 86_400)
    #: The limits of the queue, in requests: of all tenants, and of one.
    max_pending: int = Field(8192, ge=1, le=100_000)
    max_pending_per_tenant: int = Field(4096, ge=1, le=100_000)
    #: How many pods one tenant may have at once; 0: no limit.
    max_pods_per_tenant: int = Field(0, ge=0, le=100_000)
    #: How many pods one claim may have.
    max_pods_per_claim: int = Field(64, ge=1, le=1000)
    #: How many pods may be in creation at once for claims that find none idle (`on_empty: cold`).
    max_cold: int = Field(64, ge=0, le=10_000)
    #: Waiting tenants are served in proportion to their weights; 1 if not given.
    weights: dict[str, float] = Field(default_factory=dict, max_length=10_000)

    @field_validator("autoscaler")
    @classmethod
    def _has_a_workload(cls, autoscaler: AutoscalerSettings | None, info: ValidationInfo) -> AutoscalerSettings | None:
        if autoscaler is not None and info.data.get("workload") is None:
            raise ValueError("expected `workload` beside it, which names the workload to scale")
        return autoscaler

    @field_validator("selector")
    @classmethod
    def _are_labels(cls, selector: dict[str, str]) -> dict[str, str]:
        for name, value in selector.items():
            if not _LABEL_NAME.match(name):
                raise ValueError(f"{name!r}: expected the name of a label")
            if not _LABEL_VALUE.match(value):
                raise ValueError(f"{name}: expected the value of a label, got {value!r}")
            if name.startswith("waggle.dev/"):
                raise ValueError(f"{name}: expected a label of your own: Waggle changes this one when a pod is claimed")
        return selector

    @field_validator("weights")
    @classmethod
    def _are_positive(cls, weights: dict[str, float]) -> dict[str, float]:
        for tenant, weight in weights.items():
            if not 0.001 <= weight <= 1000:
                raise ValueError(f"{tenant}: expected 0.001 to 1000, got {weight:g}")
        return weights


class ScoreSettings(_Section):
    """The installed plug-in that chooses pods in pools with `order: score`. See docs/claim-scores.md."""

    name: str = Field(min_length=1, max_length=253)
    #: Its own settings, checked by its model.
    settings: dict[str, Any] = Field(default_factory=dict)


class E2bSettings(_Section):
    """E2B's API under /e2b, for programs that use E2B's package. See docs/e2b.md."""

    enabled: bool = False
    #: The namespace of the pool if a template's name has none.
    namespace: str = Field("default", pattern=_NAMESPACE, max_length=63)
    #: Seconds that the creation of a sandbox waits for an idle pod.
    wait_seconds: float = Field(20, ge=0, le=600)
    #: The domain of sandboxes that Waggle tells programs; empty: none.
    domain: str = Field("", max_length=253)


class ClaimSettings(_Section):
    """Claims: idle warm pods, handed out over HTTP. See docs/claims.md."""

    enabled: bool = False
    #: The plug-in that chooses pods in pools with `order: score`.
    score: ScoreSettings | None = None
    pools: tuple[PoolSettings, ...] = Field((), max_length=1000)
    #: Serve the Pool and Claim objects of the API server, too. Their CustomResourceDefinitions must be installed.
    custom_resources: bool = False
    #: Who may claim. none: any client that can reach the port, for any tenant. kubernetes: clients with a token that
    #: the API server accepts, and with the right to `create` claims.waggle.dev in the pool's namespace; the tenant is
    #: the token's user.
    authorization: Literal["none", "kubernetes"] = "none"
    e2b: E2bSettings = E2bSettings()
    #: The limits of the seconds that a request may wait for a pod, and that a lease may last.
    max_wait_seconds: float = Field(600, ge=1, le=3600)
    max_lease_seconds: float = Field(7 * 86_400, ge=1, le=365 * 86_400)
    #: The replicas that serve the same pools share the idle pods, and each claims those of its own share first. Each
    #: has a Lease in the namespace of `leader_election`. Without this they are correct, too, but conflict more often.
    share_pools: bool = False
    #: How many writes of claims may be in flight at most. The actual number adapts to the API server.
    concurrent_writes: int = Field(32, ge=1, le=128)
    #: Memory for the records of pods, in MiB, estimated: some 2 KB for each pod. A list that needs more fails.
    cache_mib: int = Field(512, ge=16, le=65_536)

    @field_validator("pools")
    @classmethod
    def _have_a_score(cls, pools: tuple[PoolSettings, ...], info: ValidationInfo) -> tuple[PoolSettings, ...]:
        scored = [pool for pool in pools if pool.order == "score"]
        if scored and info.data.get("score") is None:
            raise ValueError(
                f"{scored[0].namespace}/{scored[0].name}: order: expected `claims.score.name`, the plug-in that scores"
            )
        return pools

    @field_validator("pools")
    @classmethod
    def _have_names_of_their_own(cls, pools: tuple[PoolSettings, ...]) -> tuple[PoolSettings, ...]:
        seen: dict[tuple[str, str], PoolSettings] = {}
        for pool in pools:
            if (pool.namespace, pool.name) in seen:
                raise ValueError(f"{pool.namespace}/{pool.name}: there are two pools of this name")
            for other in seen.values():
                if other.namespace == pool.namespace and _overlap(pool.selector, other.selector):
                    raise ValueError(
                        f"{pool.namespace}/{pool.name} and {other.name}: a pod can have the labels of both selectors; "
                        "expected a label with different values"
                    )
            seen[pool.namespace, pool.name] = pool
        return pools


def _overlap(one: dict[str, str], other: dict[str, str]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())
