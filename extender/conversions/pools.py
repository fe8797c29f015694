"""Converts the pools of the configuration file and Pool objects to the engine's records."""

from __future__ import annotations

from collections.abc import Mapping

from extender import resources
from extender.claim_settings import AutoscalerSettings, ClaimSettings, PoolSettings
from extender.claims.autoscaler import Buffer, ScalePolicy
from extender.claims.records import Mode, Order, Pool, PoolKey


def configured_pools(settings: ClaimSettings) -> tuple[Pool, ...]:
    """Return the pools of the configuration."""
    return tuple(_pool(each) for each in settings.pools)


def configured_policies(settings: ClaimSettings) -> dict[PoolKey, ScalePolicy]:
    """Return the scaling policies of these pools."""
    return {
        PoolKey(each.namespace, each.name): _policy(rules, least=rules.min_replicas, most=rules.max_replicas)
        for each in settings.pools
        if (rules := each.autoscaler) is not None
    }


def custom_policies(specs: Mapping[PoolKey, resources.PoolSpec]) -> dict[PoolKey, ScalePolicy]:
    """Return the scaling policies of these Pools."""
    return {
        key: _policy(rules, least=spec.replicas, most=rules.max_replicas)
        for key, spec in specs.items()
        if (rules := spec.autoscaler) is not None
    }


def _policy(rules: AutoscalerSettings | resources.Autoscaler, *, least: int, most: int) -> ScalePolicy:
    return ScalePolicy(
        least=least,
        most=most,
        buffer=Buffer(rules.buffer),
        idle_seconds=rules.idle_seconds,
        cooldown=rules.cooldown_seconds,
        full_cooldown=rules.full_cooldown_seconds,
        empty_seconds=rules.empty_seconds,
        quiet_seconds=rules.quiet_seconds,
        refill_pods=rules.refill_pods,
        refill_seconds=rules.refill_seconds,
    )


def _pool(settings: PoolSettings) -> Pool:
    return Pool(
        key=PoolKey(settings.namespace, settings.name),
        selector=dict(settings.selector),
        mode=Mode(settings.mode),
        order=Order(settings.order),
        lease_seconds=settings.lease_seconds,
        start_seconds=settings.start_seconds,
        images=dict(settings.images),
        ends_on_restart=settings.ends_on_restart,
        wait_seconds=settings.wait_seconds,
        max_pending=settings.max_pending,
        max_pending_per_tenant=settings.max_pending_per_tenant,
        max_pods_per_tenant=settings.max_pods_per_tenant,
        max_pods_per_claim=settings.max_pods_per_claim,
        max_cold=settings.max_cold,
        weights=dict(settings.weights),
    )


def custom_pool(found: resources.Pool) -> Pool:
    """Return the pool of a Pool object."""
    spec, limits = found.spec, found.spec.limits
    return Pool(
        key=PoolKey(found.metadata.namespace, found.metadata.name),
        selector=dict(spec.selector.match_labels),
        mode=Mode(spec.mode),
        order=Order(spec.order),
        lease_seconds=float(spec.defaults.lease_seconds),
        wait_seconds=float(spec.defaults.wait_seconds),
        max_pending=limits.max_pending,
        max_pending_per_tenant=limits.max_pending_per_tenant,
        max_pods_per_tenant=limits.max_pods_per_tenant,
        max_pods_per_claim=limits.max_pods_per_claim,
        max_cold=limits.max_cold,
        start_seconds=float(spec.start_seconds),
        images=dict(spec.images),
        ends_on_restart=spec.ends_on_restart,
        weights={tenant: float(weight) for tenant, weight in spec.weights.items()},
    )
