"""What the engine says of its pools and claims."""

from __future__ import annotations

from extender.claims.codes import ClaimCode
from extender.claims.events import NodeSeen, PoolsConfigured
from extender.claims.records import Mode, PoolKey
from extender.claims.views import ClaimStage
from tests.unit.claims.test_claims import FORBIDDEN, steal, world
from tests.unit.claims.world import POOL, World


def numbers(cluster: World) -> tuple[int, int, int, int]:
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    return shot.idle, shot.in_flight, shot.claimed, shot.pending


def uid_of(cluster: World, name: str) -> str:
    return next(uid for uid, pod in cluster.pods.items() if pod["metadata"]["name"] == name)


def test_c38_a_snapshot_in_each_state() -> None:
    cluster = world()
    assert numbers(cluster) == (0, 0, 0, 0)
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.last_dispatch, shot.first_waits, shot.unmet) == (None, "", 0)
    cluster.now = 3.0
    cluster.ask("r")
    assert numbers(cluster) == (0, 0, 0, 1)
    cluster.add("a", seen=False)
    cluster.now = 5.0
    cluster.observe()
    assert numbers(cluster) == (0, 1, 0, 1)  # never 0 pending while one is in flight
    cluster.settle()
    assert numbers(cluster) == (0, 0, 1, 0)
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.last_dispatch, shot.accepted, shot.succeeded, shot.failed) == (5.0, 1, 1, {})
    assert shot.idle_rate > 0.0


def test_c40_requests_in_line_are_pending_and_their_pods_unmet() -> None:
    cluster = world()
    for number in range(7):
        cluster.ask(str(number), tenant="ab"[number % 2], count=2)
        cluster.now += 1.0
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.pending, shot.unmet) == (7, 14)
    assert [(each.tenant, each.waiting, each.oldest) for each in shot.tenants] == [("a", 4, 7.0), ("b", 3, 6.0)]
    assert shot.first_waits == "no pod is idle, it lacks 2; 0 more are not ready yet"


def test_c49_a_pod_that_is_coming_is_no_unmet_demand() -> None:
    cluster = world()
    for number in range(6):
        cluster.ask(str(number))
    for _ in range(5):
        uid = cluster.add(seen=False)
        cluster.change(uid, lambda pod: pod["status"]["conditions"][0].update(status="False"))
        del cluster.watch[-2]
    cluster.observe()
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.unready, shot.unmet) == (5, 1)


def test_every_pod_is_counted_once() -> None:
    cluster = world("idle", "cordoned", "surplus", "terminating", "stolen", mode=Mode.RECYCLE)
    _, cordoned, surplus, terminating, stolen = cluster.pods
    cluster.tell(NodeSeen("n2", serves=False))
    cluster.change(cordoned, lambda pod: pod["spec"].update(nodeName="n2"))
    cluster.change(surplus, lambda pod: pod["metadata"].update(annotations={"waggle.dev/scale-down": "1"}))
    cluster.change(terminating, lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-22T00:00:00Z"))
    steal(cluster, stolen)
    cluster.observe()
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.idle, shot.unready, shot.surplus, shot.terminating, shot.claimed) == (1, 1, 1, 1, 1)


def test_counters_are_kept_by_pool_and_reason() -> None:
    cluster = world("a")
    other = PoolKey("default", "other")
    cluster.tell(PoolsConfigured((cluster.pool(), cluster.pool(key=other, selector={"pool": "other"}))))
    cluster.ask("r")
    cluster.answer(cluster.sent[0], FORBIDDEN)
    cluster.settle()
    cluster.ask("s", pool=other, wait_seconds=0.0)
    cluster.ask("t", pool=other, count=0)
    here, there = cluster.engine.snapshot(POOL, 0.0), cluster.engine.snapshot(other, 0.0)
    assert here is not None
    assert there is not None
    assert here.failed == {ClaimCode.WRITE_REFUSED: 1}
    assert there.failed == {ClaimCode.NO_IDLE_POD: 1}
    assert there.refused == {ClaimCode.TOO_MANY_PODS: 1}
    assert cluster.engine.snapshot(PoolKey("default", "none"), 0.0) is None


def test_a_claim_is_seen_on_its_way() -> None:
    cluster = world()
    cluster.ask("first", tenant="a")
    cluster.ask("second", tenant="a")
    cluster.ask("other", tenant="b")
    cluster.ask("urgent", tenant="a", priority=1)
    found = [cluster.engine.claim(f"c-{name}", 2.0) for name in ("urgent", "first", "other", "second")]
    assert [each.position for each in found if each is not None] == [1, 2, 3, 4]
    assert {each.stage for each in found if each is not None} == {ClaimStage.WAITING}
    assert {each.estimate for each in found if each is not None} == {None}
    cluster.now = 10.0
    cluster.add("p")
    view = cluster.engine.claim("c-urgent", 10.0)
    assert view is not None
    assert (view.stage, view.position) == (ClaimStage.CLAIMING, 0)
    cluster.settle()
    view = cluster.engine.claim("c-urgent", 10.0)
    assert view is not None
    assert (view.stage, [pod.name for pod in view.pods]) == (ClaimStage.CLAIMED, ["p"])
    second = cluster.engine.claim("c-second", 20.0)  # one pod came in ten seconds, and it is the third
    assert second is not None
    assert (second.position, second.estimate, second.age) == (3, 30.0, 20.0)
    cluster.release("x", "c-urgent")
    view = cluster.engine.claim("c-urgent", 10.0)
    assert view is not None
    assert view.stage is ClaimStage.ENDING
    assert cluster.engine.claim("c-nobody", 10.0) is None


def test_a_claim_that_loses_a_pod_is_claimed_all_the_same() -> None:
    cluster = world("a", "b")
    other = cluster.another().start()
    cluster.ask("gang", count=2, key="k", digest="d", lease_seconds=60.0)
    cluster.settle()
    other.observe()
    cluster.delete(uid_of(cluster, "a"))
    for server in (cluster, other):
        server.observe()
        view = server.engine.claim("c-gang", server.now)
        assert view is not None
        assert (view.stage, [pod.name for pod in view.pods]) == (ClaimStage.CLAIMED, ["b"])
    other.add("c")
    other.ask("again", count=2, key="k", digest="d", claim="c-other")  # it is no claim whose server died in its midst
    answer = other.answers["again"]
    assert (answer.code, answer.claim, [pod.name for pod in answer.pods]) == (ClaimCode.CLAIMED, "c-gang", ["b"])


def test_a_claim_lasts_as_long_as_the_pods_say_that_are_left() -> None:
    cluster = world("a", "b")
    cluster.ask("gang", count=2, lease_seconds=60.0)
    cluster.settle()
    cluster.renew_elsewhere(uid_of(cluster, "a"), 2000)
    cluster.observe()

    def expires() -> float:
        view = cluster.engine.claim("c-gang", cluster.now)
        assert view is not None
        return view.expires

    assert expires() == 2000.0
    cluster.delete(uid_of(cluster, "a"))
    cluster.observe()
    assert expires() == 1060.0


def test_claims_come_in_pages() -> None:
    cluster = world("a")
    for request in "cab":
        cluster.ask(request)
    cluster.settle()
    assert cluster.engine.claims(POOL, most=2) == ["c-a", "c-b"]
    assert cluster.engine.claims(POOL, after="c-b") == ["c-c"]
