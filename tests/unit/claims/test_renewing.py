"""Renewals: the lease on every pod of a claim goes on, and a renewal that meets the end of the lease has one winner."""

from __future__ import annotations

import json

import pytest

from extender.claims.codes import ClaimCode
from extender.claims.records import Mode
from extender.claims.writes import names
from extender.claims.writes.give import GivePodBack
from extender.claims.writes.renew import RenewPod
from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.claims.test_claims import CONFLICT, FORBIDDEN, THROTTLED, UNKNOWN, code, world
from tests.unit.claims.world import Sent, World

GONE = Outcome(OutcomeKind.GONE, "not found")


def claimed(count: int = 1, mode: Mode = Mode.DETACH, lease: float = 60.0) -> World:
    cluster = world(*"abcd"[:count], mode=mode)
    cluster.ask("r", count=count, lease_seconds=lease, tenant="mine")
    cluster.settle()
    assert code(cluster, "r") is ClaimCode.CLAIMED
    return cluster


def leases(cluster: World) -> list[float]:
    texts = [pod["metadata"].get("annotations", {}).get(names.CLAIM_ANNOTATION) for pod in cluster.pods.values()]
    return [json.loads(text)["expires"] for text in texts if text]


def renewals(cluster: World) -> list[Sent]:
    return [each for each in cluster.sent if isinstance(each.command.command, RenewPod)]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("count", [1, 3])
def test_a_claim_that_is_renewed_lasts_longer_on_all_its_pods(mode: Mode, count: int) -> None:
    cluster = claimed(count, mode)
    cluster.pass_time(50.0)
    cluster.renew("x", "c-r", 60.0)
    cluster.settle()
    assert (code(cluster, "x"), cluster.answers["x"].expires) == (ClaimCode.RENEWED, 1110.0)
    assert leases(cluster) == [1110.0] * count
    cluster.pass_time(55.0)
    cluster.settle()
    assert len(cluster.claimed()["c-r"]) == count
    cluster.pass_time(6.0)
    cluster.settle()
    assert cluster.claimed() == {}


def test_who_may_not_renew_is_told_why() -> None:
    cluster = claimed()
    cluster.renew("other", "c-r", 60.0, tenant="other")
    cluster.renew("none", "c-none", 60.0)
    assert (code(cluster, "other"), code(cluster, "none")) == (ClaimCode.NOT_YOURS, ClaimCode.UNKNOWN_CLAIM)
    cluster.release("x", "c-r")
    cluster.renew("late", "c-r", 60.0)
    assert code(cluster, "late") is ClaimCode.CLAIM_ENDED
    cluster.settle()
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    cluster.renew("later", "c-r", 60.0)
    assert code(cluster, "later") is ClaimCode.CLAIM_ENDED


def test_a_lease_that_is_over_is_not_renewed() -> None:
    cluster = claimed()
    cluster.now = 60.0
    cluster.renew("x", "c-r", 60.0)
    assert code(cluster, "x") is ClaimCode.CLAIM_ENDED
    assert not renewals(cluster)


def test_a_renewal_shortens_only_if_it_says_so() -> None:
    cluster = claimed(2)
    cluster.renew("x", "c-r", 5.0)
    assert (code(cluster, "x"), cluster.answers["x"].expires) == (ClaimCode.RENEWED, 1060.0)
    assert not cluster.sent
    cluster.renew("y", "c-r", 5.0, shorten=True)
    cluster.settle()
    assert (code(cluster, "y"), cluster.answers["y"].expires) == (ClaimCode.RENEWED, 1005.0)
    cluster.pass_time(6.0)
    cluster.settle()
    assert cluster.claimed() == {}


def test_without_seconds_it_lasts_as_the_pool_says() -> None:
    cluster = claimed()
    cluster.renew("x", "c-r", 0.0)
    cluster.settle()
    assert cluster.answers["x"].expires == 1000.0 + 3600.0


def test_renewals_at_once_are_written_once_and_the_longer_one_after() -> None:
    cluster = claimed()
    for request, seconds in (("1", 100.0), ("2", 100.0), ("3", 50.0), ("4", 200.0), ("5", 150.0)):
        cluster.renew(request, "c-r", seconds)
    before = cluster.writes
    cluster.settle()
    assert cluster.writes == before + 2
    assert [cluster.answers[each].expires for each in "12345"] == [1100.0, 1100.0, 1100.0, 1200.0, 1200.0]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("outcome", [UNKNOWN, CONFLICT, THROTTLED])
def test_an_unknown_end_is_read_back(outcome: Outcome, applied: bool) -> None:
    cluster = claimed(2)
    cluster.renew("x", "c-r", 100.0)
    first = renewals(cluster)[0]
    if applied:
        cluster.arrive(first)
        cluster.watch.clear()
    cluster.answer(first, outcome)
    cluster.settle()
    cluster.pass_time(2.0)
    cluster.settle()
    assert (code(cluster, "x"), leases(cluster)) == (ClaimCode.RENEWED, [1100.0, 1100.0])


def test_a_part_of_a_gang_that_is_refused_keeps_all_of_it_and_is_repaired_later() -> None:
    cluster = claimed(3)
    cluster.renew("x", "c-r", 100.0)
    for number, sent in enumerate(renewals(cluster)):
        if number != 1:
            cluster.arrive(sent)
        cluster.answer(sent, FORBIDDEN if number == 1 else None)
    cluster.settle()
    assert code(cluster, "x") is ClaimCode.WRITE_REFUSED
    assert "forbidden" in cluster.answers["x"].detail
    assert leases(cluster) == [1100.0, 1060.0, 1100.0]
    cluster.pass_time(61.0)
    cluster.settle()
    assert len(cluster.claimed()["c-r"]) == 3
    cluster.start()  # another server, or this one after a restart, sees it in the same way
    cluster.pass_time(10.0)
    cluster.settle()
    assert len(cluster.claimed()["c-r"]) == 3
    cluster.renew("y", "c-r", 100.0)
    cluster.settle()
    assert leases(cluster) == [1171.0] * 3


def test_a_gang_whose_pod_was_deleted_is_renewed_without_it() -> None:
    cluster = claimed(2)
    cluster.renew("x", "c-r", 100.0)
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    assert (code(cluster, "x"), leases(cluster)) == (ClaimCode.RENEWED, [1100.0])


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("renewal_is_first", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_renewal_and_the_end_of_the_lease_have_one_winner(mode: Mode, renewal_is_first: bool, count: int) -> None:
    cluster = claimed(count, mode)
    cluster.now = 59.0
    cluster.renew("x", "c-r", 100.0)
    writes = renewals(cluster)
    cluster.pass_time(2.0)
    for sent in [each for each in cluster.sent if each.command.is_read]:  # the lease is over as it is read
        cluster.arrive(sent)
        cluster.answer(sent)
    gives = [each for each in cluster.sent if isinstance(each.command.command, GivePodBack)]
    assert len(gives) == count
    for sent in [*writes, *gives] if renewal_is_first else [*gives, *writes]:
        cluster.arrive(sent)
    cluster.settle()
    cluster.pass_time(5.0)
    cluster.settle()
    if renewal_is_first:
        assert code(cluster, "x") is ClaimCode.RENEWED
        assert len(cluster.claimed()["c-r"]) == count
    else:
        assert code(cluster, "x") is ClaimCode.CLAIM_ENDED
        assert cluster.claimed() == {}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_gang_that_the_race_has_torn_apart_ends_whole(mode: Mode) -> None:
    cluster = claimed(2, mode)
    cluster.now = 59.0
    cluster.renew("x", "c-r", 100.0)
    first, second = renewals(cluster)
    cluster.pass_time(2.0)
    for sent in [each for each in cluster.sent if each.command.is_read]:
        cluster.arrive(sent)
        cluster.answer(sent)
    gives = [each for each in cluster.sent if isinstance(each.command.command, GivePodBack)]
    for sent in (first, gives[1], second):
        cluster.arrive(sent)
    cluster.settle()
    cluster.pass_time(5.0)
    cluster.settle()
    assert code(cluster, "x") is ClaimCode.CLAIM_ENDED
    assert cluster.claimed() == {}


def test_a_pod_of_a_gang_that_was_renewed_elsewhere_keeps_all_of_it() -> None:
    """Another server has renewed one pod, and this one has not heard of it when the lease is over."""
    cluster = claimed(3)
    changed = list(cluster.pods)[2]

    cluster.renew_elsewhere(changed, 1200)
    cluster.watch.clear()
    cluster.pass_time(61.0)
    cluster.settle()
    assert len(cluster.claimed()["c-r"]) == 3
    cluster.pass_time(200.0)
    cluster.settle()
    assert cluster.claimed() == {}


def test_a_release_beats_a_renewal_that_is_on_its_way() -> None:
    cluster = claimed(2, Mode.RECYCLE)
    cluster.renew("x", "c-r", 100.0)
    cluster.release("y", "c-r")
    for sent in sorted(cluster.sent, key=lambda each: isinstance(each.command.command, RenewPod)):
        cluster.arrive(sent)
    cluster.settle()
    assert (code(cluster, "y"), code(cluster, "x")) == (ClaimCode.RELEASED, ClaimCode.CLAIM_ENDED)
    assert cluster.claimed() == {}


def test_a_caller_is_answered_though_the_api_server_is_silent() -> None:
    cluster = claimed()
    cluster.renew("x", "c-r", 100.0)
    cluster.pass_time(31.0)
    assert code(cluster, "x") is ClaimCode.WRITE_UNKNOWN
    [sent] = renewals(cluster)
    cluster.arrive(sent)
    cluster.answer(sent)
    cluster.settle()
    assert leases(cluster) == [1100.0]


def test_a_caller_who_left_is_not_answered() -> None:
    cluster = claimed()
    cluster.renew("x", "c-r", 100.0)
    cluster.leave("x")
    cluster.settle()
    assert "x" not in cluster.answers
    assert leases(cluster) == [1100.0]
