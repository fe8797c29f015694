"""An author who changes a Pool all the time takes nothing from the pools of others."""

from __future__ import annotations

import itertools
from dataclasses import replace

from extender.claims.engine import ClaimEngine
from extender.claims.records import PoolKey
from extender.server.claims.objects.pool_objects import PoolObjects
from extender.server.claims.objects.writes import WritePoolStatus
from extender.server.claims.runtime import ClaimRuntime
from tests.unit.server.claims.test_pool_bounds import custom


def pool_objects(sent: list[WritePoolStatus]) -> PoolObjects:
    runtime = ClaimRuntime(ClaimEngine(), lambda _: None)
    return PoolObjects(runtime, (), has_score=False, epoch=0.0, tokens=itertools.count(1), send=sent.append)


def test_only_a_pool_that_is_new_is_coming() -> None:
    pools = pool_objects([])
    pools.seen(custom(0))
    assert PoolKey("n", "p0") in pools.new
    assert pools.pools()
    pools.seen(replace(custom(0), resource_version="2", generation=2))
    assert pools.is_stale
    assert not pools.new


def test_the_status_of_a_pool_that_is_not_served_is_looked_at_until_it_says_so() -> None:
    sent: list[WritePoolStatus] = []
    pools = pool_objects(sent)
    wrong = replace(custom(0), spec=None, fault="spec.selector: missing")
    pools.seen(wrong)
    pools.pools()
    pools.write_all(0.0)
    assert len(sent) == 1
    status = type(wrong.status).model_validate(sent[0].status)
    [tracked] = pools._tracked.values()
    tracked.status.in_flight = False
    pools.seen(replace(wrong, resource_version="2", status=status))
    pools.write_all(100.0)
    assert tracked.said == ("2", tracked.verdict)
    pools.seen(replace(wrong, resource_version="3"))
    pools.write_all(200.0)
    assert len(sent) == 2
