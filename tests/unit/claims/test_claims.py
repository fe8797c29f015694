"""The engine of claims, one behaviour after the other. A name begins with the scenario's number, where it has one."""

from __future__ import annotations

import pytest

from extender.claims.codes import ClaimCode
from extender.claims.events import NodeSeen, PoolsConfigured, ShutdownAsked
from extender.claims.records import Mode, Order
from extender.claims.writes import names
from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.claims.world import POOL, Sent, World

THROTTLED = Outcome(OutcomeKind.THROTTLED, "too many requests", retry_after=1.0)
UNKNOWN = Outcome(OutcomeKind.UNKNOWN, "time-out")
CONFLICT = Outcome(OutcomeKind.LOST, "the object has been modified")
FORBIDDEN = Outcome(OutcomeKind.REJECTED, "forbidden")


def world(*names_of_pods: str, mode: Mode = Mode.DETACH) -> World:
    made = World(mode)
    for name in names_of_pods:
        made.add(name)
    return made.start()


def pods(cluster: World, request: str) -> list[str]:
    answer = cluster.answers[request]
    assert answer.code is ClaimCode.CLAIMED, answer
    return [pod.name for pod in answer.pods]


def code(cluster: World, request: str) -> ClaimCode:
    return cluster.answers[request].code


@pytest.mark.parametrize("mode", list(Mode))
def test_c1_an_idle_pod_is_claimed_with_one_write(mode: Mode) -> None:
    cluster = world("a", mode=mode)
    assert cluster.ask("r") is None
    [sent] = cluster.sent
    cluster.arrive(sent)
    cluster.answer(sent)
    assert pods(cluster, "r") == ["a"]
    assert cluster.answers["r"].expires == 1000.0 + 3600.0
    [uid] = cluster.pods
    labels = cluster.pods[uid]["metadata"]["labels"]
    assert labels[names.CLAIM_LABEL] == "c-r"
    assert ("pool" in labels, "ownerReferences" in cluster.pods[uid]["metadata"]) == (mode is Mode.RECYCLE,) * 2
    assert cluster.writes == 1
    cluster.settle()
    assert cluster.writes == 1


def test_c2_in_the_order_in_which_they_became_idle() -> None:
    cluster = world("a", "b", "c", "d")
    for request in "1234":
        cluster.ask(request)
    cluster.settle()
    assert [pods(cluster, request) for request in "1234"] == [["a"], ["b"], ["c"], ["d"]]


def test_c3_a_pod_that_is_to_go_is_not_given_away() -> None:
    cluster = world("a", "b")
    [a, _] = cluster.pods
    cluster.change(a, lambda pod: pod["metadata"].update(annotations={"waggle.dev/scale-down": "1"}))
    cluster.observe()
    cluster.ask("r")
    cluster.settle()
    assert pods(cluster, "r") == ["b"]


def test_c4_a_conflict_is_looked_into_and_the_same_pod_tried_again() -> None:
    cluster = world("a", "b")
    cluster.ask("r")
    cluster.answer(cluster.sent[0], CONFLICT)
    cluster.settle()
    assert pods(cluster, "r") == ["a"]


def test_c5_a_refused_write_fails_the_request_and_frees_the_pod() -> None:
    cluster = world("a")
    cluster.ask("r")
    cluster.answer(cluster.sent[0], FORBIDDEN)
    cluster.settle()
    assert code(cluster, "r") is ClaimCode.WRITE_REFUSED
    cluster.ask("s")
    cluster.settle()
    assert pods(cluster, "s") == ["a"]


def test_c6_a_deleted_pod_is_replaced_by_another() -> None:
    cluster = world("a", "b")
    cluster.ask("r")
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    assert pods(cluster, "r") == ["b"]


def test_c7_a_pod_that_somebody_else_claimed_is_replaced_by_another() -> None:
    cluster = world("a", "b")
    cluster.ask("r")
    steal(cluster, next(iter(cluster.pods)))
    cluster.settle()
    assert pods(cluster, "r") == ["b"]


def steal(cluster: World, uid: str, tenant: str = "") -> None:
    """Another server claims the pod."""

    def claim(pod: dict) -> None:  # type: ignore[type-arg]
        pod["metadata"]["labels"][names.CLAIM_LABEL] = f"theirs-{uid}"
        mark = f'{{"claim":"theirs-{uid}","pool":"warm","tenant":"{tenant}","expires":9e9}}'
        pod["metadata"].setdefault("annotations", {})[names.CLAIM_ANNOTATION] = mark

    cluster.change(uid, claim)


@pytest.mark.slow
def test_c9_a_hundred_pods_for_five_hundred_requests() -> None:
    cluster = world(*[f"p{n}" for n in range(100)])
    for number in range(500):
        cluster.ask(str(number), wait_seconds=2.0)
    cluster.settle()
    cluster.pass_time(2.0)
    cluster.settle()
    codes = [code(cluster, str(number)) for number in range(500)]
    assert codes.count(ClaimCode.CLAIMED) == 100
    assert codes.count(ClaimCode.DEADLINE_EXCEEDED) == 400
    given = [pod for number in range(100) for pod in pods(cluster, str(number))]
    assert len(set(given)) == 100


def test_c10_c11_pods_that_come_are_given_in_order_by_the_event_alone() -> None:
    cluster = world()
    for request in "12345":
        assert cluster.ask(request) is None
    for name in "abcde":
        cluster.add(name)
    cluster.settle()
    assert [pods(cluster, request) for request in "12345"] == [["a"], ["b"], ["c"], ["d"], ["e"]]
    assert cluster.now == 0.0


def test_c13_a_caller_who_left_before_causes_no_write() -> None:
    cluster = world()
    cluster.ask("r")
    cluster.leave("r")
    cluster.add("a")
    cluster.settle()
    assert cluster.engine.requests.ends == {ClaimCode.CANCELLED: 1}
    assert cluster.writes == 0


def test_c14_who_does_not_wait_is_served_at_once_or_not_at_all() -> None:
    cluster = world("a")
    cluster.ask("r", wait_seconds=0.0)
    assert cluster.ask("s", wait_seconds=0.0) is not None
    assert code(cluster, "s") is ClaimCode.NO_IDLE_POD
    cluster.settle()
    assert pods(cluster, "r") == ["a"]


def test_c15_who_waits_too_long_to_be_sent_causes_no_write() -> None:
    cluster = World()
    cluster.add("a")
    cluster.start(window=0.5)
    cluster.ask("r", wait_seconds=1.0)
    assert cluster.sent == []
    cluster.pass_time(10.0)
    assert code(cluster, "r") is ClaimCode.WRITE_UNKNOWN
    assert cluster.writes == 0
    assert len(cluster.engine.state.pools[POOL].supply) == 1


@pytest.mark.parametrize("answered_first", [True, False])
def test_c16_what_was_claimed_for_a_caller_who_left_is_given_back(answered_first: bool) -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r")
    cluster.arrive(cluster.sent[0])
    cluster.leave("r")
    if answered_first:
        cluster.answer(cluster.sent[0])
    cluster.observe()
    cluster.settle()
    assert cluster.claimed() == {}
    assert len(cluster.engine.state.pools[POOL].supply) == 1


def test_c17_a_full_line_refuses() -> None:
    cluster = world()
    cluster.tell(PoolsConfigured((cluster.pool(max_pending=2),)))
    cluster.ask("1")
    cluster.ask("2")
    answer = cluster.ask("3")
    assert answer is not None
    assert (answer.code, answer.retry_after) == (ClaimCode.QUEUE_FULL, 1.0)
    assert "2 requests wait for default/warm" in answer.detail


def test_c19_everybody_is_answered_at_a_shutdown() -> None:
    cluster = world()
    for number in range(10):
        cluster.ask(str(number))
    cluster.tell(ShutdownAsked())
    assert {code(cluster, str(number)) for number in range(10)} == {ClaimCode.SHUTTING_DOWN}
    assert cluster.ask("late") is not None
    assert code(cluster, "late") is ClaimCode.SHUTTING_DOWN


def test_c24_c25_a_pod_being_claimed_is_nobody_elses_however_long_it_takes() -> None:
    cluster = world("a")
    cluster.ask("r", wait_seconds=300.0)
    sent = cluster.sent[0]
    cluster.ask("s", wait_seconds=300.0)
    cluster.pass_time(100.0)
    cluster.arrive(sent)
    cluster.answer(sent)
    assert cluster.sent == []
    assert "s" not in cluster.answers


def test_c26_a_pod_that_returns_quickly_is_given_again_at_once() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r")
    cluster.settle()
    cluster.release("x", "c-r")
    cluster.ask("s")
    cluster.settle()
    assert pods(cluster, "s") == ["a"]
    assert cluster.now == 0.0


def test_c27_what_the_kubelet_writes_is_no_conflict() -> None:
    cluster = world("a")
    cluster.ask("r")
    cluster.change(next(iter(cluster.pods)), lambda pod: pod["status"].update(podIPs=[{"ip": "10.0.0.1"}]))
    cluster.settle()
    assert pods(cluster, "r") == ["a"]
    assert cluster.writes == 1


def test_c28_a_write_whose_answer_was_lost_is_read_back() -> None:
    cluster = world("a", "b")
    cluster.ask("r")
    cluster.arrive(cluster.sent[0])
    cluster.watch.clear()
    cluster.answer(cluster.sent[0], UNKNOWN)
    cluster.settle()
    assert pods(cluster, "r") == ["a"]
    assert cluster.writes == 1


def test_c29_a_write_that_never_arrived_is_sent_again() -> None:
    cluster = world("a", "b")
    cluster.ask("r")
    cluster.answer(cluster.sent[0], UNKNOWN)
    cluster.settle()
    assert pods(cluster, "r") == ["a"]
    assert cluster.writes == 1


def test_c29b_a_write_that_arrives_after_its_request_failed_leaves_nothing_claimed() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r")
    late = cluster.sent[0]
    cluster.leave("r")
    cluster.answer(late, UNKNOWN)
    cluster.settle()
    assert cluster.writes == 0  # nobody wants the pod any more
    cluster.arrive(late)
    cluster.settle()
    assert cluster.claimed() == {}


def give_up(cluster: World) -> Sent:
    """The API server is not heard of until the pod is given up. Returns a write that still is on its way."""
    for _ in range(5):
        [write] = cluster.sent
        cluster.answer(write, UNKNOWN)
        [read] = cluster.sent
        cluster.arrive(read)
        cluster.answer(read)
    return Sent(write.command)


def test_c29c_a_late_write_to_a_pod_that_was_given_up_is_undone() -> None:
    cluster = world("a", "b", mode=Mode.RECYCLE)
    cluster.ask("r")
    late = give_up(cluster)
    cluster.settle()
    assert pods(cluster, "r") == ["b"]
    cluster.arrive(late)
    assert len(cluster.claimed()["c-r"]) == 2
    cluster.settle()
    assert [cluster.pods[uid]["metadata"]["name"] for uid in cluster.claimed()["c-r"]] == ["b"]


def test_c29d_a_late_write_serves_a_request_that_still_waits() -> None:
    cluster = world("a")
    cluster.ask("r", count=1)
    cluster.tell(NodeSeen("n1", serves=False))  # so that the pod is not chosen again
    late = give_up(cluster)
    assert cluster.sent == []
    cluster.arrive(late)
    cluster.settle()
    assert pods(cluster, "r") == ["a"]
    assert len(cluster.claimed()["c-r"]) == 1


def test_c29e_a_late_write_to_a_pod_that_is_written_for_another_claim_is_undone() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r")
    late = cluster.sent[0]
    cluster.leave("r")
    cluster.answer(late, UNKNOWN)
    cluster.settle()
    cluster.ask("s")
    cluster.arrive(late)
    cluster.observe()
    cluster.settle()
    assert list(cluster.claimed()) == ["c-s"]
    assert pods(cluster, "s") == ["a"]


def test_c36_a_pod_that_was_deleted_before_the_answer_is_not_handed_out() -> None:
    cluster = world("a")
    [uid] = cluster.pods
    cluster.ask("r")
    cluster.arrive(cluster.sent[0])
    cluster.watch.clear()  # the change itself was missed
    cluster.delete(uid)
    cluster.observe()
    cluster.settle()
    assert "r" not in cluster.answers
    assert uid not in cluster.engine.state.pods


def test_a_deleted_pod_stays_deleted_whatever_is_told_of_it_later() -> None:
    cluster = world("a")
    [uid] = cluster.pods
    cluster.change(uid, lambda pod: pod["status"].update(podIPs=[]))
    old = cluster.watch[0]
    cluster.delete(uid)
    cluster.observe()
    cluster.tell(old)
    cluster.ask("r")
    assert cluster.sent == []


def test_c36b_a_pod_that_terminates_is_not_handed_out() -> None:
    cluster = world("a")
    [uid] = cluster.pods
    cluster.ask("r")
    sent = cluster.sent[0]
    cluster.arrive(sent)
    cluster.change(uid, lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-22T00:00:00Z"))
    cluster.watch.popleft()
    cluster.observe()
    cluster.answer(sent)
    assert "r" not in cluster.answers


def test_c30_an_overloaded_api_server_is_given_time() -> None:
    cluster = world("a")
    cluster.ask("r")
    for _ in range(3):
        cluster.answer(cluster.sent[0], THROTTLED)
        assert cluster.sent == []
        cluster.pass_time(1.0)
    cluster.settle()
    assert pods(cluster, "r") == ["a"]
    assert cluster.writes == 1


def test_c31_a_request_that_lost_its_pod_is_before_those_that_came_later() -> None:
    cluster = world("a")
    cluster.ask("1")
    cluster.ask("2")
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    cluster.add("b")
    cluster.settle()
    assert pods(cluster, "1") == ["b"]
    assert "2" not in cluster.answers


def test_c33_a_demand_that_nothing_meets_stops_nobody() -> None:
    cluster = world("a")
    cluster.ask("picky", labels={"gpu": "h100"})
    cluster.ask("plain")
    cluster.settle()
    assert pods(cluster, "plain") == ["a"]
    cluster.add("b", labels={"gpu": "h100"})
    cluster.settle()
    assert pods(cluster, "picky") == ["b"]


def test_c43_the_same_key_is_the_same_claim() -> None:
    cluster = world("a", "b")
    cluster.ask("r", key="k", digest="d")
    cluster.ask("again", key="k", digest="d", claim="c-2")
    cluster.settle()
    assert pods(cluster, "r") == pods(cluster, "again") == ["a"]
    cluster.ask("later", key="k", digest="d", claim="c-3")
    assert pods(cluster, "later") == ["a"]
    cluster.ask("other", key="k", digest="e", claim="c-4")
    assert code(cluster, "other") is ClaimCode.KEY_REUSED
    assert cluster.writes == 1


def test_c43b_a_key_is_known_after_a_restart() -> None:
    cluster = world("a", "b")
    cluster.ask("r", key="k", digest="d")
    cluster.settle()
    cluster.start()
    cluster.ask("again", key="k", digest="d", claim="c-2")
    assert pods(cluster, "again") == ["a"]


def test_c43c_a_key_whose_request_failed_gets_a_claim_of_its_own() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r", key="k")
    cluster.leave("r")
    for _ in ("the pod is claimed", "and given back"):
        cluster.arrive(cluster.sent[0])
        cluster.answer(cluster.sent[0])
    cluster.ask("again", key="k", claim="c-2")
    cluster.settle()
    assert cluster.answers["again"].claim == "c-2"
    assert pods(cluster, "again") == ["a"]


def test_c43d_a_key_whose_lease_is_over_gets_a_claim_of_its_own() -> None:
    cluster = world("a", "b")
    cluster.ask("r", key="k", lease_seconds=60.0)
    cluster.settle()
    cluster.pass_time(60.0)
    cluster.ask("again", key="k", claim="c-2")
    cluster.settle()
    assert pods(cluster, "again") == ["b"]


def test_c44_a_gang_gets_all_or_nothing() -> None:
    cluster = world("a", "b", "c")
    cluster.ask("gang", count=4, wait_seconds=10.0)
    cluster.ask("small", wait_seconds=60.0)
    cluster.settle()
    assert cluster.writes == 0
    cluster.pass_time(10.0)
    assert code(cluster, "gang") is ClaimCode.DEADLINE_EXCEEDED
    cluster.settle()
    assert pods(cluster, "small") == ["a"]
    cluster.ask("gang2", count=4, wait_seconds=10.0)
    for name in "de":
        cluster.add(name)
    cluster.settle()
    assert sorted(pods(cluster, "gang2")) == ["b", "c", "d", "e"]


def test_c44b_a_gang_that_loses_a_pod_for_good_keeps_none() -> None:
    cluster = world("a", "b", mode=Mode.RECYCLE)
    cluster.ask("gang", count=2, wait_seconds=10.0)
    first, second = cluster.sent
    cluster.arrive(first)
    cluster.answer(first)
    cluster.delete(list(cluster.pods)[1])
    cluster.settle()
    assert len(cluster.claimed()["c-gang"]) == 1
    cluster.pass_time(10.0)
    cluster.settle()
    assert code(cluster, "gang") is ClaimCode.DEADLINE_EXCEEDED
    assert cluster.claimed() == {}
    assert second.outcome is not None


def test_what_a_gang_waits_for_is_kept_from_those_behind_it() -> None:
    cluster = world()
    cluster.add("a", labels={"gpu": "0"})
    cluster.ask("gang", count=2)
    cluster.ask("picky", labels={"gpu": "0"})
    cluster.settle()
    assert cluster.writes == 0
    cluster.add("b")
    cluster.add("c", labels={"gpu": "0"})
    cluster.settle()
    assert pods(cluster, "gang") == ["a", "b"]
    assert pods(cluster, "picky") == ["c"]


def test_c48_pods_on_a_cordoned_node_are_not_given_away() -> None:
    cluster = world("a")
    cluster.tell(NodeSeen("n1", serves=False))
    cluster.ask("r")
    cluster.settle()
    assert "r" not in cluster.answers
    cluster.tell(NodeSeen("n1", serves=True))
    cluster.settle()
    assert pods(cluster, "r") == ["a"]


def test_tenants_take_turns() -> None:
    cluster = world()
    for number in range(6):
        cluster.ask(f"a{number}", tenant="a")
    for number in range(2):
        cluster.ask(f"b{number}", tenant="b")
    for name in "stuvwxyz":
        cluster.add(name)
        cluster.settle()
    order = list(cluster.answers)
    assert order == ["a0", "b0", "a1", "b1", "a2", "a3", "a4", "a5"]


def test_weights_are_shares() -> None:
    cluster = world()
    cluster.tell(PoolsConfigured((cluster.pool(weights={"a": 3.0}),)))
    for number in range(12):
        cluster.ask(f"a{number}", tenant="a")
        cluster.ask(f"b{number}", tenant="b")
    for _ in range(12):
        cluster.add()
        cluster.settle()
    assert sum(request.startswith("a") for request in cluster.answers) == 9


def test_priority_comes_before_fairness() -> None:
    cluster = world()
    cluster.ask("low", tenant="a")
    cluster.ask("high", tenant="b", priority=5)
    cluster.add("p")
    cluster.settle()
    assert list(cluster.answers) == ["high"]


def test_a_tenant_has_no_more_pods_than_it_may() -> None:
    cluster = world("p", "q", "r")
    cluster.tell(PoolsConfigured((cluster.pool(max_pods_per_tenant=1),)))
    cluster.ask("a1", tenant="a")
    cluster.ask("a2", tenant="a")
    cluster.ask("b1", tenant="b")
    cluster.settle()
    assert set(cluster.answers) == {"a1", "b1"}
    cluster.release("x", "c-a1")
    cluster.settle()
    assert "a2" not in cluster.answers  # its pod still is there, and terminates
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    assert code(cluster, "a2") is ClaimCode.CLAIMED


def test_a_gang_that_its_tenant_may_no_longer_have_keeps_nothing() -> None:
    cluster = world("a")
    cluster.tell(PoolsConfigured((cluster.pool(max_pods_per_tenant=2),)))
    cluster.ask("gang", tenant="a", count=2)
    cluster.ask("one", tenant="b")
    cluster.settle()
    assert cluster.writes == 0
    steal(cluster, cluster.add("b", seen=False), tenant="a")
    cluster.watch.popleft()
    cluster.settle()
    assert pods(cluster, "one") == ["a"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order.FIFO, ["a", "b", "c", "d"]),
        (Order.OLDEST, ["a", "b", "c", "d"]),
        (Order.NEWEST, ["d", "c", "b", "a"]),
        (Order.PACK, ["a", "c", "b", "d"]),
        (Order.SPREAD, ["a", "b", "c", "d"]),
    ],
)
def test_pods_are_chosen_in_the_order_of_the_pool(order: Order, expected: list[str]) -> None:
    cluster = World()
    for name, node in zip("abcd", ["n1", "n2", "n1", "n2"], strict=True):
        cluster.add(name, node=node)
    cluster.start(cluster.pool(order=order))
    for request in "1234":
        cluster.ask(request)
        cluster.settle()
    assert [pods(cluster, request)[0] for request in "1234"] == expected


@pytest.mark.parametrize("mode", list(Mode))
def test_a_claim_ends_with_its_lease(mode: Mode) -> None:
    cluster = world("a", mode=mode)
    cluster.ask("r", lease_seconds=60.0)
    cluster.settle()
    cluster.pass_time(59.0)
    cluster.settle()
    assert cluster.claimed()
    cluster.pass_time(2.0)
    cluster.settle()
    assert cluster.claimed() == {}
    assert cluster.engine.giving.lapsed == 1


def test_a_lease_that_somebody_else_renewed_goes_on() -> None:
    cluster = world("a")
    cluster.ask("r", lease_seconds=60.0)
    cluster.settle()

    cluster.renew_elsewhere(next(iter(cluster.pods)), 1200)
    unseen = cluster.watch.popleft()
    cluster.pass_time(61.0)
    cluster.settle()
    assert cluster.claimed()
    cluster.tell(unseen)
    cluster.pass_time(200.0)
    cluster.settle()
    assert cluster.claimed() == {}


def test_a_release_while_the_lease_is_verified_is_a_release() -> None:
    cluster = world("a")
    cluster.ask("r", lease_seconds=60.0)
    cluster.settle()
    cluster.pass_time(61.0)
    [look] = cluster.sent
    cluster.release("x", "c-r")

    cluster.renew_elsewhere(next(iter(cluster.pods)), 9000)
    assert look.command.is_read
    cluster.settle()
    assert code(cluster, "x") is ClaimCode.RELEASED
    assert cluster.claimed() == {}


def test_only_its_tenant_ends_a_claim() -> None:
    cluster = world("a")
    cluster.ask("r", tenant="mine")
    cluster.settle()
    cluster.release("x", "c-r", tenant="other")
    assert code(cluster, "x") is ClaimCode.NOT_YOURS
    cluster.release("y", "c-nobody")
    assert code(cluster, "y") is ClaimCode.UNKNOWN_CLAIM
    cluster.release("z", "c-r", tenant="mine")
    cluster.settle()
    assert code(cluster, "z") is ClaimCode.RELEASED
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    cluster.release("again", "c-r", tenant="mine")
    assert code(cluster, "again") is ClaimCode.CLAIM_ENDED


def test_the_release_of_a_request_cancels_it_and_what_is_being_written_is_given_back() -> None:
    cluster = world("a")
    cluster.ask("writing", tenant="mine")
    cluster.ask("waits", tenant="mine")
    cluster.release("foreign", "c-waits", tenant="other")
    assert cluster.answers["foreign"].code is ClaimCode.UNKNOWN_CLAIM
    for request in ("writing", "waits"):
        cluster.release(f"end-{request}", f"c-{request}", tenant="mine")
        assert cluster.answers[request].code is ClaimCode.CANCELLED
        assert cluster.answers[f"end-{request}"].code is ClaimCode.RELEASED
    cluster.settle()
    assert cluster.claimed() == {}


def test_a_release_is_repeated_until_it_is_done() -> None:
    cluster = world("a")
    cluster.ask("r")
    cluster.settle()
    cluster.release("x", "c-r")
    for outcome in (THROTTLED, UNKNOWN, FORBIDDEN):
        cluster.answer(cluster.sent[0], outcome)
        while not cluster.sent or cluster.sent[0].command.is_read:
            if cluster.sent:
                cluster.arrive(cluster.sent[0])
                cluster.answer(cluster.sent[0])
            else:
                cluster.pass_time(1.0)
        assert "x" not in cluster.answers
    cluster.settle()
    assert code(cluster, "x") is ClaimCode.RELEASED
    assert cluster.claimed() == {}


def test_a_pool_that_is_removed_answers_who_waits_for_it() -> None:
    cluster = world()
    cluster.ask("r")
    cluster.tell(PoolsConfigured(()))
    assert code(cluster, "r") is ClaimCode.UNKNOWN_POOL
    assert cluster.ask("s") is not None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"count": 0}, ClaimCode.TOO_MANY_PODS),
        ({"count": 65}, ClaimCode.TOO_MANY_PODS),
        ({"pool": type(POOL)("default", "other")}, ClaimCode.UNKNOWN_POOL),
    ],
)
def test_what_cannot_be_served_is_refused(changes: dict[str, object], expected: ClaimCode) -> None:
    cluster = world("a")
    answer = cluster.ask("r", **changes)
    assert answer is not None
    assert answer.code is expected
    assert answer.detail
    assert cluster.engine.requests.accepted == 0


def test_more_demands_than_are_kept_ready_are_refused_while_they_wait() -> None:
    cluster = world()
    for number in range(64):
        assert cluster.ask(str(number), labels={"n": str(number)}, tenant=f"t{number // 16}") is None
    answer = cluster.ask("one more", labels={"n": "64"})
    assert answer is not None
    assert answer.code is ClaimCode.TOO_MANY_DEMANDS
    cluster.leave("7")
    assert cluster.ask("now", labels={"n": "65"}) is None
