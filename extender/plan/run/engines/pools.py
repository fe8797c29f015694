"""The pools of a plan, and what Claim objects ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from extender import resources
from extender.claim_settings import ClaimSettings
from extender.claims.autoscaler import ScalePolicy
from extender.claims.codes import ClaimCode
from extender.claims.events import ClaimAsked
from extender.claims.records import OnEmpty, Pool, PoolKey, demand
from extender.conversions.claim_requests import refusal
from extender.conversions.pools import configured_policies, configured_pools, custom_policies, custom_pool
from extender.ordering.records import Target
from extender.plan.records import RawObject
from extender.resources.reading import read
from extender.settings import Settings

#: Requests wait for ever in a plan, which has no clock.
FOR_EVER = 1e12


class Pools:
    """All pools, those of the settings and Pool objects; with what scales them."""

    def __init__(self, settings: Settings) -> None:
        claims = settings.claims
        self.served: dict[PoolKey, Pool] = {each.key: each for each in configured_pools(claims)}
        self.policies: dict[PoolKey, ScalePolicy] = configured_policies(claims)
        self.workloads: dict[PoolKey, Target] = {
            PoolKey(each.namespace, each.name): Target(each.workload.kind, each.namespace, each.workload.name)
            for each in claims.pools
            if each.workload is not None
        }
        #: What is wrong with Pool objects that are not served.
        self.faults: list[str] = []

    def add(self, objects: Iterable[RawObject]) -> bool:
        """Serve the Pool objects among these. A pool of the settings comes first. False if there are none."""
        found = False
        for raw in objects:
            if raw.kind == "Pool" and PoolKey(raw.namespace, raw.name) not in self.served:
                found = self._add(raw) or found
        return found

    def _add(self, raw: RawObject) -> bool:
        try:
            pool = read(resources.Pool, _object(raw))
        except (ValueError, msgspec.MsgspecError) as error:
            self.faults.append(f"Pool {raw.namespace}/{raw.name} is not served: {error}")
            return False
        made = custom_pool(pool)
        self.served[made.key] = made
        self.policies |= custom_policies({made.key: pool.spec})
        if pool.spec.workload is not None:
            self.workloads[made.key] = Target(pool.spec.workload.kind, raw.namespace, pool.spec.workload.name)
        return True


class Refused(NamedTuple):
    """What a Claim object asks for, and why the server refuses it without asking for pods."""

    asked: ClaimAsked
    code: ClaimCode
    text: str


def asked(raw: RawObject, settings: ClaimSettings, pools: Mapping[PoolKey, Pool]) -> ClaimAsked | Refused | None:
    """Return what a Claim object asks for; None if it is decided already. Raises ValueError, which names the field.

    `pools` have the default of a claim that does not say how long it waits. Images are left out: a plan does not know
    containers.
    """
    claim = read(resources.Claim, _object(raw))
    if claim.status.claim or claim.status.phase in ("Ended", "Released", "Failed"):
        return None
    spec, key = claim.spec, PoolKey(raw.namespace, claim.spec.pool_ref.name)
    seconds = spec.wait_seconds if spec.wait_seconds is not None or key not in pools else pools[key].wait_seconds
    waits = seconds != 0 and spec.on_empty != "fail"
    name = f"{raw.namespace}.{raw.name}"
    made = ClaimAsked(
        request=name,
        claim=name,
        pool=key,
        tenant=spec.tenant or raw.namespace,
        count=spec.count,
        demand=demand(spec.requires),
        priority=spec.priority,
        wait_seconds=FOR_EVER if waits else 0.0,
        lease_seconds=FOR_EVER,
        labels=tuple(sorted(spec.labels.items())),
        # A plan makes no pods of a template: a claim that would have pods created waits for idle ones.
        on_empty=OnEmpty.WAIT if waits else OnEmpty.FAIL,
    )
    refused = refusal(spec, raw.namespace, settings)
    return made if refused is None else Refused(made, *refused)


def _object(raw: RawObject) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(raw.json)
    found.setdefault("metadata", {})["namespace"] = raw.namespace
    return found
