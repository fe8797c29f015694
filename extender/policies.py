"""The policy of the engine of pods, as the operator's configuration says it: for the server, and for plans."""

from __future__ import annotations

from extender.scheduling.policy import Policy, PreemptionMode
from extender.settings import Settings


def policy_of(settings: Settings) -> Policy:
    """Return the engine's policy for the operator's configuration."""
    return Policy(
        scheduler_names=frozenset(settings.pods.scheduler_names),
        resource=settings.pods.resource,
        annotation=settings.pods.annotation,
        lease=settings.holds.lease_seconds,
        verify=settings.holds.verify_seconds,
        reservation_timeout=settings.holds.seat_seconds,
        write_validity=2.0 * settings.cluster.request_timeout_seconds,
        write_timeout=6 * settings.cluster.request_timeout_seconds + 5,
        force_bind_after=settings.force_bind.after_filters,
        force_bind_unoffered=settings.force_bind.when_not_offered,
        preemption=PreemptionMode(settings.preemption.mode),
        patience=settings.preemption.patience_seconds,
        eviction_backoff=settings.preemption.retry_seconds,
        elected=settings.leader_election.enabled,
        ordering=settings.ordering.enabled,
    )
