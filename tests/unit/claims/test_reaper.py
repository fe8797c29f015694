"""Nothing stays claimed for ever: leases that end, pools that are gone, broken marks, servers that died."""

from __future__ import annotations

import pytest

from extender.claims.events import PoolsConfigured
from extender.claims.records import Mode, Phase
from extender.claims.writes import names
from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.claims.test_claims import steal, world
from tests.unit.claims.test_replicas import meet, servers
from tests.unit.claims.world import World

LOST = Outcome(OutcomeKind.LOST, "precondition failed: resourceVersion")


@pytest.mark.parametrize("mode", list(Mode))
def test_a_claim_of_a_pool_that_is_gone_ends_with_its_lease(mode: Mode) -> None:
    cluster = world("a", mode=mode)
    [uid] = cluster.pods
    cluster.ask("r", lease_seconds=60.0)
    cluster.settle()
    cluster.tell(PoolsConfigured(()))
    cluster.renew("x", "c-r", 100.0)
    cluster.settle()
    cluster.pass_time(99.0)
    cluster.settle()
    assert cluster.claimed() == {"c-r": {uid}}
    cluster.pass_time(2.0)
    cluster.settle()
    assert cluster.claimed() == {}
    assert (cluster.phase(uid) == Phase.IDLE) == (mode is Mode.RECYCLE)


def orphan(cluster: World) -> str:
    [uid] = cluster.pods
    steal(cluster, uid)
    cluster.change(uid, lambda pod: pod["metadata"]["annotations"].update({names.CLAIM_ANNOTATION: "{broken"}))
    cluster.observe()
    return uid


@pytest.mark.parametrize("mode", list(Mode))
def test_a_pod_whose_mark_cannot_be_read_is_deleted_in_the_end(mode: Mode) -> None:
    cluster = world("a", mode=mode)
    uid = orphan(cluster)
    cluster.ask("r", wait_seconds=9000.0)
    assert len(cluster.engine.orphans) == 1
    cluster.pass_time(3599.0)
    assert not cluster.sent
    cluster.pass_time(2.0)
    cluster.settle()
    assert "deletionTimestamp" in cluster.pods[uid]["metadata"]
    assert (cluster.engine.orphans.deleted, len(cluster.engine.orphans)) == (1, 0)


def test_a_mark_that_is_repaired_in_time_counts() -> None:
    cluster = world("a")
    uid = orphan(cluster)
    cluster.pass_time(3000.0)
    steal(cluster, uid)
    cluster.observe()
    cluster.pass_time(10_000.0)
    cluster.settle()
    assert "deletionTimestamp" not in cluster.pods[uid]["metadata"]
    assert len(cluster.engine.orphans) == 0


def test_a_mark_that_is_repaired_at_the_last_moment_wins() -> None:
    cluster = world("a")
    uid = orphan(cluster)
    cluster.pass_time(3601.0)
    steal(cluster, uid)
    cluster.settle()
    assert "deletionTimestamp" not in cluster.pods[uid]["metadata"]
    assert (cluster.engine.orphans.deleted, len(cluster.engine.orphans)) == (0, 0)


@pytest.mark.parametrize("news", ["repaired", "gone"])
def test_news_that_comes_when_the_time_is_over_counts(news: str) -> None:
    cluster = world("a")
    uid = orphan(cluster)
    cluster.now = 4000.0
    if news == "gone":
        cluster.delete(uid)
    else:
        steal(cluster, uid)
    cluster.settle()
    assert len(cluster.engine.orphans) == 0
    assert cluster.writes == 0


@pytest.mark.parametrize("news", ["runs", "gone", "stopping"])
def test_news_of_a_start_that_comes_when_the_time_is_over_counts(news: str) -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    [uid] = cluster.pods
    cluster.ask("r", images=(("main", "job:7"),))
    cluster.settle()
    cluster.start()
    cluster.now = 1000.0
    if news == "gone":
        cluster.delete(uid)
    elif news == "runs":
        cluster.kubelet(uid)
        cluster.change(uid, lambda pod: pod["metadata"]["labels"].update({names.PHASE_LABEL: Phase.RUNNING}))
        cluster.watch.popleft()
    else:
        cluster.change(uid, lambda pod: pod["metadata"]["labels"].update({names.PHASE_LABEL: Phase.STOPPING}))
    cluster.observe()
    assert not cluster.sent


@pytest.mark.parametrize("mode", list(Mode))
def test_a_pod_whose_mark_breaks_while_it_is_released_is_given_back_all_the_same(mode: Mode) -> None:
    cluster = world("a", mode=mode)
    [uid] = cluster.pods
    cluster.ask("r")
    cluster.settle()
    cluster.release("x", "c-r")
    [lost] = cluster.sent
    cluster.change(uid, lambda pod: pod["metadata"]["annotations"].update({names.CLAIM_ANNOTATION: ""}))
    cluster.observe()
    assert "x" not in cluster.answers
    cluster.answer(lost, Outcome(OutcomeKind.UNKNOWN, "time-out"))
    cluster.pass_time(5.0)
    cluster.settle()
    assert "x" in cluster.answers
    assert cluster.claimed() == {}


def test_a_deletion_that_fails_is_tried_again() -> None:
    cluster = world("a")
    orphan(cluster)
    cluster.pass_time(3601.0)
    cluster.answer(cluster.sent[0], LOST)
    cluster.pass_time(31.0)
    cluster.settle()
    assert cluster.engine.orphans.deleted == 1


def test_one_server_ends_a_lease_and_another_one_if_that_is_gone() -> None:
    first, second = servers(2, 1, mode=Mode.DETACH)
    meet([first, second])
    first.pass_time(1.0)
    second.pass_time(1.0)
    first.ask("r", lease_seconds=60.0)
    first.settle()
    second.settle()
    [uid] = first.pods
    meet([first, second])
    second.pass_time(60.5)
    is_second = bool(second.engine.members.rank(uid))
    assert bool(second.sent) is not is_second
    second.pass_time(60.0)
    second.settle()
    assert second.claimed() == {}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_server_that_starts_ends_a_whole_claim_at_once(mode: Mode) -> None:
    cluster = world("a", "b", "c", mode=mode)
    cluster.ask("gang", count=3, lease_seconds=60.0)
    cluster.settle()
    other = cluster.another()
    other.now = 100.0
    other.start()
    other.settle()
    assert other.claimed() == {}
