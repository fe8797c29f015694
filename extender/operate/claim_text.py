"""The texts of `waggle pools` and `waggle claim`."""

from __future__ import annotations

from collections.abc import Sequence

from extender.client import ClaimRecord, PoolStatus
from extender.operate.look_text import age, table


def pools_text(pools: Sequence[PoolStatus]) -> str:
    """Return a table of all pools, one per line."""
    rows = [
        (
            f"{pool.namespace}/{pool.name}",
            pool.mode,
            str(pool.idle),
            str(pool.claimed + pool.starting),
            str(pool.unready),
            str(pool.pending),
            pool.first_waits if pool.served else "its pods are not known yet",
        )
        for pool in pools
    ]
    head = ("POOL", "MODE", "IDLE", "CLAIMED", "UNREADY", "WAITING", "WHY")
    return table([head, *rows]) if rows else "There are no pools."


def pool_text(pool: PoolStatus) -> str:
    """Return the text of one pool, with its counters and its tenants."""
    counts = {
        "idle": pool.idle,
        "being claimed": pool.in_flight,
        "claimed": pool.claimed,
        "starting": pool.starting,
        "stopping": pool.stopping,
        "not ready": pool.unready,
        "to be deleted": pool.surplus,
        "terminating": pool.terminating,
    }
    present = ", ".join(f"{number} {name}" for name, number in counts.items() if number or name == "idle")
    ends = ", ".join(f"{number} {code}" for code, number in sorted({**pool.failed, **pool.refused}.items()))
    lines = [
        f"{pool.namespace}/{pool.name}, {pool.mode}: {present if pool.served else 'its pods are not known yet'}",
        f"Requests: {pool.accepted} accepted, {pool.succeeded} served, {pool.pending} waiting"
        + (f", {pool.unmet} pods short" if pool.unmet else "")
        + (f"; not served: {ends}" if ends else ""),
    ]
    if pool.first_waits:
        lines.append(f"The oldest request waits: {pool.first_waits}.")
    rows = [
        (each.tenant or "(none)", str(each.pods), str(each.waiting), age(each.oldest_seconds) if each.waiting else "")
        for each in pool.tenants
    ]
    tenants = table([("TENANT", "PODS", "WAITING", "OLDEST"), *rows]) if rows else ""
    return "\n\n".join(filter(None, ("\n".join(lines), tenants)))


def claim_text(claim: ClaimRecord) -> str:
    """Return the text of a claim with its pods."""
    until = f", until {claim.expires:%Y-%m-%d %H:%M:%S} UTC" if claim.expires else ""
    rows = [(pod.name, pod.node, " ".join(pod.addresses)) for pod in claim.pods]
    return f"claim {claim.id}{until}\n" + table([("POD", "NODE", "ADDRESSES"), *rows])
