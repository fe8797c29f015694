"""What Pool objects cost, whoever makes them: in proportion to their number at most, and others nothing.

Costs are bytecodes (`effort`), for n and for 2n.
"""

from __future__ import annotations

import msgspec

from extender.claims.engine import ClaimEngine
from extender.claims.events import NodeSeen, PodGone, PodSeen, PoolsConfigured, Synced
from extender.claims.records import ClaimMark, Pool, PoolKey, WarmPod
from extender.resources import PoolSpec, PoolStatus
from extender.resources.pool import Selector
from extender.server.claims.objects.pools import MOST_POOLS, judge
from extender.server.claims.objects.records import PoolObject
from tests.support.effort import effort


def pool(number: int, namespace: str = "n") -> Pool:
    return Pool(key=PoolKey(namespace, f"p{number:04}"), selector={"app": "sandbox", "pool": f"p{number}"})


def pod(number: int, pools: int, namespace: str = "n") -> WarmPod:
    labels = {"app": "sandbox", "pool": f"p{number % pools}", "pod-template-hash": "x", "team": "t"}
    return WarmPod(
        uid=f"{namespace}-{number}",
        namespace=namespace,
        name=f"w{number}",
        resource_version="1",
        labels=labels,
        node="a",
    )


def engine(pools: int, pods: int, namespace: str = "n") -> ClaimEngine:
    made = ClaimEngine()
    made.handle(PoolsConfigured(tuple(pool(number, namespace) for number in range(pools))), 0.0)
    made.handle(NodeSeen("a", serves=True), 0.0)
    for number in range(pods):
        made.handle(PodSeen(pod(number, pools, namespace)), 0.0)
    made.handle(Synced(), 0.0)
    made.validate()
    return made


def custom(number: int, namespace: str = "n", **labels: str) -> PoolObject:
    """A Pool object. Without `labels` it has a selector like that of `pool`."""
    selector = Selector(match_labels=labels or {"app": "sandbox", "pool": f"p{number}"})
    return PoolObject(
        uid=f"u{number}",
        resource_version="1",
        key=PoolKey(namespace, f"p{number}"),
        generation=1,
        created=f"2026-11-23T00:{number // 60 % 60:02}:{number % 60:02}Z",
        spec=PoolSpec(selector=selector),
        fault="",
        status=PoolStatus(),
        size=500,
    )


def test_a_pod_costs_the_same_however_many_pools_its_namespace_has() -> None:
    def cost(pools: int) -> int:
        made = engine(pools, 0)
        return effort(lambda: made.handle(PodSeen(pod(pools - 1, pools)), 0.0))

    assert cost(400) < 1.1 * cost(200)


def test_the_pool_of_a_pod_is_the_first_by_name_however_many_there_are() -> None:
    made = engine(30, 0)
    first = Pool(key=PoolKey("n", "a-first"), selector={"pool": "p7", "team": "t"})
    last = Pool(key=PoolKey("n", "z-last"), selector={"pool": "p7"})
    made.handle(PoolsConfigured((last, first, *(pool(number) for number in range(30)))), 0.0)
    made.handle(PodSeen(pod(7, 30)), 0.0)
    made.validate()
    found = made.state.pool_of(pod(7, 30))
    assert found is not None
    assert found.pool.key.name == "a-first"
    other = made.state.pool_of(WarmPod(uid="x", namespace="n", name="x", resource_version="1", labels={"pool": "p7"}))
    assert other is not None
    assert other.pool.key.name == "z-last"


def test_configuring_pools_costs_no_more_than_their_number_and_that_of_their_pods() -> None:
    def cost(pools: int, pods: int) -> int:
        made = engine(pools, pods)
        before = tuple(pool(number) for number in range(pools))
        return effort(lambda: made.handle(PoolsConfigured((*before, pool(pools))), 0.0))

    assert cost(200, 600) < 2.2 * cost(100, 300)


def test_a_pool_of_one_namespace_costs_nothing_for_each_pod_of_another() -> None:
    def cost(pods: int) -> int:
        made = engine(1, pods, "busy")
        return effort(lambda: made.handle(PoolsConfigured((pool(0, "busy"), pool(0, "other"))), 0.0))

    assert cost(600) - cost(300) < 300 * 40


def test_pool_objects_are_judged_in_proportion_to_their_number() -> None:
    def cost(pools: int) -> int:
        objects = [custom(number) for number in range(pools)]
        return effort(lambda: judge((), objects))

    assert cost(400) < 2.2 * cost(200)


def test_pool_objects_beyond_the_most_are_not_compared_with_those_that_are_served() -> None:
    served = tuple(pool(number) for number in range(MOST_POOLS))

    def cost(more: int) -> int:
        objects = [custom(number, "n", **{f"l{number}": "x"}) for number in range(more)]
        assert {verdict.reason for verdict in judge(served, objects).values()} == {"TooManyPools"}
        return effort(lambda: judge(served, objects))

    assert cost(200) - cost(100) < 100 * 1000


def test_selectors_without_a_label_in_common_overlap_also_where_all_others_have_one() -> None:
    objects = [custom(0), custom(1), custom(2, app="sandbox"), custom(3, pool="p1"), custom(4, other="x")]
    reasons = [judge((), objects)[each.uid].reason for each in objects]
    assert reasons == ["", "", "SelectorsOverlap", "SelectorsOverlap", "SelectorsOverlap"]


def test_marks_that_name_ever_new_pools_leave_nothing_behind() -> None:
    made = engine(1, 0)
    for number in range(50):
        mark = ClaimMark(claim=f"c-{number}", pool=f"junk-{number}", expires=1e9)
        seen = msgspec.structs.replace(pod(number, 1), mark=mark, claim_label=mark.claim)
        made.handle(PodSeen(seen), 0.0)
        made.handle(PodGone(seen.uid), 0.0)
    assert not made.state._present
