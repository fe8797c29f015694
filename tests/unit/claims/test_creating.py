"""A request that finds no idle pod fails, waits, or has one created: what it gets then, and what is left."""

from __future__ import annotations

import pytest

from extender.claims.codes import ClaimCode
from extender.claims.records import Mode, OnEmpty, Pool
from extender.claims.writes import names
from extender.claims.writes.create import CreatePod, pod_name
from extender.core.outcomes import Outcome
from tests.unit.claims.test_claims import CONFLICT, FORBIDDEN, THROTTLED, UNKNOWN, code, pods
from tests.unit.claims.world import POOL, World

TEMPLATE = {
    "metadata": {
        "labels": {"pool": "warm", "app": "box", "pod-template-hash": "ab"},
        "annotations": {"from": "template"},
    },
    "spec": {"containers": [{"name": "main", "image": "base:1"}]},
}


def cold(*names_of_pods: str, count: int = 1, **changes: object) -> World:
    cluster = World()
    for name in names_of_pods:
        cluster.add(name)
    cluster.start(pool(cluster, **changes))
    cluster.ask("r", count=count, on_empty=OnEmpty.COLD, wait_seconds=0.0, put=(("team", "mine"),))
    return cluster


def pool(cluster: World, **changes: object) -> Pool:
    return cluster.pool(template=TEMPLATE, **changes)


def created(cluster: World) -> list[str]:
    return [uid for uid, pod in cluster.pods.items() if '"is_cold":true' in str(pod["metadata"].get("annotations"))]


def test_who_wants_no_wait_fails_at_once_however_long_it_says() -> None:
    cluster = World().start()
    answer = cluster.ask("r", on_empty=OnEmpty.FAIL, wait_seconds=60.0)
    assert answer is not None
    assert (answer.code, answer.code.status) == (ClaimCode.NO_IDLE_POD, 429)
    cluster.add("a")
    cluster.ask("s", on_empty=OnEmpty.FAIL, wait_seconds=60.0)
    cluster.settle()
    assert pods(cluster, "s") == ["a"]


def test_a_pod_is_created_and_the_claim_waits_for_it() -> None:
    cluster = cold()
    cluster.settle()
    [uid] = cluster.pods
    metadata = cluster.pods[uid]["metadata"]
    assert metadata["labels"] == {"app": "box", "team": "mine", names.CLAIM_LABEL: "c-r"}
    assert metadata["annotations"]["from"] == "template"
    assert "ownerReferences" not in metadata
    assert "r" not in cluster.answers
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.starting, shot.pending) == (1, 1)
    cluster.become_ready(uid)
    cluster.settle()
    assert pods(cluster, "r") == [metadata["name"]]
    assert cluster.answers["r"].expires == 1000.0 + 120.0 + 3600.0
    assert cluster.writes == 1
    cluster.release("x", "c-r")
    cluster.settle()
    assert cluster.claimed() == {}


def test_an_idle_pod_is_taken_instead_of_creating_one() -> None:
    cluster = cold("a")
    cluster.settle()
    assert (pods(cluster, "r"), created(cluster)) == (["a"], [])


def test_a_warm_pod_that_comes_first_is_taken_and_the_created_one_deleted() -> None:
    cluster = cold()
    cluster.settle()
    [uid] = created(cluster)
    cluster.add("warm")
    cluster.settle()
    assert pods(cluster, "r") == ["warm"]
    assert "deletionTimestamp" in cluster.pods[uid]["metadata"]
    assert len(cluster.claimed()["c-r"]) == 1


def test_a_gang_is_filled_up_with_created_pods() -> None:
    cluster = cold("a", count=3)
    cluster.settle()
    assert len(created(cluster)) == 3  # a gang takes no part of what it needs
    for uid in created(cluster)[:2]:
        cluster.become_ready(uid)
    cluster.settle()
    assert len(pods(cluster, "r")) == 3
    assert "a" in pods(cluster, "r")
    assert len(cluster.claimed()["c-r"]) == 3


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("outcome", [UNKNOWN, CONFLICT, THROTTLED])
def test_an_unknown_end_never_creates_two(outcome: Outcome, applied: bool) -> None:
    cluster = cold()
    [sent] = cluster.sent
    if applied:
        cluster.arrive(sent)
        cluster.watch.clear()
    cluster.answer(sent, outcome)
    cluster.settle()
    cluster.pass_time(2.0)
    cluster.settle()
    [uid] = cluster.pods
    assert cluster.pods[uid]["metadata"]["name"] == pod_name("warm", "c-r", 0)
    cluster.become_ready(uid)
    cluster.settle()
    assert code(cluster, "r") is ClaimCode.CLAIMED


def test_a_refused_creation_says_why() -> None:
    cluster = cold()
    cluster.answer(cluster.sent[0], FORBIDDEN)
    assert code(cluster, "r") is ClaimCode.WRITE_REFUSED
    assert cluster.answers["r"].detail == "a pod could not be created: forbidden"
    assert cluster.engine.creating.number(POOL) == 0


@pytest.mark.parametrize("arrives", ["before", "after"])
def test_who_leaves_has_nothing_created_for_it(arrives: str) -> None:
    cluster = cold()
    [sent] = cluster.sent
    if arrives == "before":
        cluster.arrive(sent)
    cluster.leave("r")
    cluster.settle()
    assert cluster.claimed() == {}
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods.values())


def test_a_created_pod_that_is_never_ready_is_deleted_and_the_request_answered() -> None:
    cluster = cold(start_seconds=30.0)
    cluster.settle()
    cluster.pass_time(31.0)
    cluster.settle()
    assert code(cluster, "r") is ClaimCode.START_TIMEOUT
    assert cluster.claimed() == {}


def test_a_claim_whose_server_died_goes_on_with_the_callers_next_try() -> None:
    cluster = World().start(pool(World()))
    cluster.ask("r", on_empty=OnEmpty.COLD, key="k", digest="d")
    cluster.settle()
    [uid] = cluster.pods
    cluster.start(pool(cluster))
    cluster.ask("again", on_empty=OnEmpty.COLD, key="k", digest="d", claim="c-other")
    assert cluster.engine.claim_with_key(POOL, "", "k") == "c-r"
    cluster.settle()
    assert len(cluster.pods) == 1
    assert "again" not in cluster.answers
    cluster.become_ready(uid)
    cluster.settle()
    assert (cluster.answers["again"].claim, len(pods(cluster, "again"))) == ("c-r", 1)


def test_c43e_half_a_gang_is_completed_by_the_callers_next_try() -> None:
    cluster = World(Mode.RECYCLE)
    cluster.add("a")
    cluster.add("b")
    cluster.start()
    cluster.ask("r", count=2, key="k", digest="d")
    cluster.arrive(cluster.sent[0])
    cluster.sent.clear()
    cluster.start()
    cluster.ask("again", count=2, key="k", digest="d", claim="c-other", wait_seconds=0.0)
    cluster.settle()
    assert sorted(pods(cluster, "again")) == ["a", "b"]
    assert len(cluster.claimed()["c-r"]) == 2


def test_a_tenant_gets_no_created_pods_beyond_its_limit() -> None:
    cluster = cold("a", max_pods_per_tenant=1)
    cluster.settle()
    cluster.ask("s", on_empty=OnEmpty.COLD)
    cluster.settle()
    assert created(cluster) == []
    assert "s" not in cluster.answers


def test_so_many_pods_are_created_at_once_and_no_more() -> None:
    cluster = cold(max_cold=1)
    answer = cluster.ask("s", on_empty=OnEmpty.COLD)
    assert answer is not None
    assert (answer.code, answer.retry_after) == (ClaimCode.QUEUE_FULL, 1.0)
    assert "at most 1 pods are created" in answer.detail


def test_a_pool_without_a_template_creates_nothing() -> None:
    for cluster in (World().start(), World(Mode.RECYCLE).start(World(Mode.RECYCLE).pool(template=TEMPLATE))):
        answer = cluster.ask("r", on_empty=OnEmpty.COLD)
        assert answer is not None
        assert (answer.code, answer.code.status) == (ClaimCode.NOT_POSSIBLE, 400)
        assert "on_empty" in answer.detail


def test_a_template_that_does_not_meet_the_demand_creates_nothing() -> None:
    cluster = cold()
    answer = cluster.ask("s", on_empty=OnEmpty.COLD, labels={"app": "box", "gpu": "h100"})
    assert answer is not None
    assert (answer.code, answer.detail[-3:]) == (ClaimCode.NOT_POSSIBLE, "gpu")


def test_names_of_created_pods_are_valid_and_differ() -> None:
    found = {pod_name("p" * 253, "c-r", number) for number in range(3)} | {pod_name("a.-", "c-s", 0)}
    assert len(found) == 4
    assert all(len(each) <= 63 and each[0].isalnum() and ".-" not in each for each in found)


def test_the_creation_names_no_template_that_is_not_given() -> None:
    cluster = cold()
    command = cluster.sent[0].command.command
    assert isinstance(command, CreatePod)
    assert command.template == TEMPLATE
