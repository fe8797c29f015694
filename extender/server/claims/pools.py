"""Where the workloads of pools are, and their templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from extender import resources
from extender.claim_settings import ClaimSettings
from extender.claims.records import Pool, PoolKey
from extender.server.claims.workloads import WorkloadRef, Workloads


def configured_workloads(settings: ClaimSettings) -> dict[PoolKey, WorkloadRef]:
    """Return the references to the workloads of these pools."""
    return {
        PoolKey(each.namespace, each.name): WorkloadRef(each.namespace, each.workload.kind, each.workload.name)
        for each in settings.pools
        if each.workload is not None
    }


def custom_workloads(specs: Mapping[PoolKey, resources.PoolSpec]) -> dict[PoolKey, WorkloadRef]:
    """Return where the workloads of these Pools are."""
    return {
        key: WorkloadRef(key.namespace, spec.workload.kind, spec.workload.name)
        for key, spec in specs.items()
        if spec.workload is not None
    }


def with_templates(pools: Iterable[Pool], workloads: Workloads) -> tuple[Pool, ...]:
    """Return the pools, each with the pod template of its workload if that is known."""
    found = []
    for pool in pools:
        workload = workloads.find(pool.key)
        found.append(replace(pool, template=workload.template) if workload is not None else pool)
    return tuple(found)
