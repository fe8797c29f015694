"""The last minutes of pools: bounded, and forgotten with their pools."""

from __future__ import annotations

from dataclasses import replace

from extender.claims.engine import ClaimEngine
from extender.claims.events import PoolsConfigured
from extender.claims.records import Pool, PoolKey
from extender.server.claims.past import EVERY, KEPT, PoolPast

POOL = PoolKey("default", "warm")


def snapshot_of(key: PoolKey):
    engine = ClaimEngine()
    engine.handle(PoolsConfigured((Pool(key=key, selector={"pool": key.name}),)), 0.0)
    found = engine.snapshot(key, 0.0)
    assert found is not None
    return found


def test_ten_minutes_are_kept_however_long_the_process_runs() -> None:
    shown = snapshot_of(POOL)
    idle = 0

    def take():
        return [replace(shown, idle=idle, claimed=1, starting=2, unready=3, pending=4)]

    past = PoolPast(take)
    for idle in range(3 * KEPT):  # noqa: B007 - `take` reads it
        past.sample()

    samples = past.of(POOL)
    assert (len(samples), (KEPT - 1) * EVERY) == (KEPT, 600)
    assert samples[-1][1:] == (3 * KEPT - 1, 1, 5, 4)
    assert samples[0].idle == 2 * KEPT


def test_a_pool_that_is_gone_is_forgotten() -> None:
    there = [snapshot_of(POOL), snapshot_of(PoolKey("default", "other"))]
    past = PoolPast(lambda: there)
    past.sample()
    there.pop(0)
    past.sample()
    assert past.of(POOL) == []
    assert len(past.of(PoolKey("default", "other"))) == 2
