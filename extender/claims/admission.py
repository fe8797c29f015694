"""Decides which requests are refused on arrival: those that can never be served, and those beyond a limit."""

from __future__ import annotations

from extender.claims import metadata
from extender.claims.claim_queue import ClaimQueue
from extender.claims.codes import ClaimCode
from extender.claims.creating import CreatingPods
from extender.claims.events import ClaimAsked
from extender.claims.records import Demand, Mode, OnEmpty
from extender.claims.requests import weight
from extender.claims.state import PoolState

#: How many different demands a pool's waiting requests may have, and for how many its fitting pods are indexed. The
#: last `KEPT_DEMANDS` of them are for tenants with fewer demands than that. Requests without a demand are always
#: allowed. So one tenant's odd demands cannot block the ordinary requests of others.
MOST_DEMANDS, KEPT_DEMANDS = 64, 16
#: How many different demands and priorities the waiting requests of one tenant may have: serving one takes O(places).
MOST_PLACES_OF_TENANT = 256
#: The limit of bytes in labels, annotations, images and demands of all pending requests; a character counts as a byte.
#: Requests with at most `_SMALL` bytes are always allowed, because the queue limits their number.
MOST_BYTES, _SMALL = 64 * 1024 * 1024, 1024
_ANYTHING = Demand()
_COLD = OnEmpty.COLD

Refusal = tuple[ClaimCode, str]


def refusal(asked: ClaimAsked, state: PoolState, creating: CreatingPods, pending: int) -> Refusal | None:
    """Return why the request is refused: a code, and a text that names the field or the limit. None if it is not.

    `pending`: the bytes of all pending requests.
    """
    pool = state.pool
    if not 1 <= asked.count <= pool.max_pods_per_claim:
        return ClaimCode.TOO_MANY_PODS, f"count: expected 1 to {pool.max_pods_per_claim}, got {asked.count}"
    if pool.max_pods_per_tenant and asked.count > pool.max_pods_per_tenant:
        limit = pool.max_pods_per_tenant
        return ClaimCode.TOO_MANY_PODS, f"count: a tenant may have {limit} pods of this pool, got {asked.count}"
    refused = _queue_limits(asked, state) if len(state.queue) else None
    if refused is None and asked.on_empty is _COLD:
        refused = _creation(asked, state, creating)
    if refused is None and (asked.labels or asked.annotations or asked.images):
        refused = _contents(asked, state)
    if refused is None and (mine := weight(asked)) > _SMALL and pending + mine > MOST_BYTES:
        detail = f"the labels, annotations and images of all waiting requests would exceed {MOST_BYTES} bytes"
        refused = ClaimCode.QUEUE_FULL, detail
    return refused


def _queue_limits(asked: ClaimAsked, state: PoolState) -> Refusal | None:
    """Return which limit of the queue is reached. None of them forbids the first request."""
    pool, queue = state.pool, state.queue
    if len(queue) >= pool.max_pending:
        return ClaimCode.QUEUE_FULL, f"{pool.max_pending} requests wait for {asked.pool}: no more may wait"
    if queue.of_tenant(asked.tenant) >= pool.max_pending_per_tenant:
        limit = pool.max_pending_per_tenant
        return ClaimCode.TENANT_QUEUE_FULL, f"{limit} requests of this tenant wait: no more may wait"
    return _demands(asked, queue)


def _demands(asked: ClaimAsked, queue: ClaimQueue) -> Refusal | None:
    places = queue.places_of(asked.tenant)
    if (asked.demand, asked.priority, asked.tenant) in places:
        return None
    if len(places) >= MOST_PLACES_OF_TENANT:
        most = MOST_PLACES_OF_TENANT
        detail = (
            f"waiting requests of this tenant have {most} combinations of required labels and priority: no more may"
        )
        return ClaimCode.TOO_MANY_DEMANDS, detail
    if asked.demand == _ANYTHING or queue.has(asked.demand):
        return None
    waiting = queue.number_of_demands()
    if waiting >= MOST_DEMANDS:
        return ClaimCode.TOO_MANY_DEMANDS, f"waiting requests have {MOST_DEMANDS} sets of required labels: no more may"
    if waiting >= MOST_DEMANDS - KEPT_DEMANDS and len({place[0] for place in places}) >= KEPT_DEMANDS:
        detail = (
            f"waiting requests of this tenant have {KEPT_DEMANDS} or more of the {MOST_DEMANDS} sets of required labels"
        )
        return ClaimCode.TOO_MANY_DEMANDS, detail
    return None


def _creation(asked: ClaimAsked, state: PoolState, creating: CreatingPods) -> Refusal | None:
    pool = state.pool
    if pool.mode is not Mode.DETACH or pool.template is None:
        return ClaimCode.NOT_POSSIBLE, f"on_empty: pool {asked.pool} creates no pods for claims"
    labels = (pool.template.get("metadata") or {}).get("labels") or {}
    lacking = [name for name, value in asked.demand.labels if labels.get(name) != value]
    if lacking:
        return ClaimCode.NOT_POSSIBLE, f"on_empty: the pod template of {asked.pool} lacks the label {lacking[0]}"
    if len(state.supply) < asked.count and creating.number(asked.pool) + asked.count > pool.max_cold:
        return ClaimCode.QUEUE_FULL, f"on_empty: at most {pool.max_cold} pods are created for {asked.pool} at once"
    return None


def _contents(asked: ClaimAsked, state: PoolState) -> Refusal | None:
    wrong = metadata.wrong_labels(asked.labels, reserved=state.pool.selector)
    wrong = wrong or metadata.wrong_annotations(asked.annotations)
    if wrong:
        return ClaimCode.INVALID_METADATA, wrong
    wrong = metadata.wrong_images(asked.images)
    if wrong:
        return ClaimCode.NOT_POSSIBLE, wrong
    if asked.images and state.pool.mode is Mode.DETACH:
        # A change of images needs the phase label. A pod that is deleted after use can be created with the right image.
        return ClaimCode.NOT_POSSIBLE, f"images: pool {asked.pool} has mode detach, which changes no images"
    for container, _ in asked.images:
        if state.containers and container not in state.containers:
            known = ", ".join(sorted(state.containers)[:8])
            return ClaimCode.UNKNOWN_CONTAINER, f"images.{container}: the pool's pods have the containers {known}"
    return None
