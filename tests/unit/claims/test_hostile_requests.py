"""Requests that are made to break the engine, or to be dear for others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.claims.admission import KEPT_DEMANDS, MOST_DEMANDS, MOST_PLACES_OF_TENANT
from extender.claims.codes import ClaimCode
from extender.claims.records import Mode
from extender.claims.writes import names
from extender.claims.writes.look import LookAtPod
from tests.support.effort import effort
from tests.unit.claims.test_claims import code, pods, world
from tests.unit.claims.world import POOL, World


def unchecked() -> World:
    """A world without pods whose engine does not derive all again after every event: for long lines."""
    made = World(validates=False)
    return made.start()


def junk(cluster: World, number: int, **changes: Any) -> None:
    """Requests that nobody can serve, each with a demand of its own."""
    for each in range(number):
        cluster.ask(f"junk{each}", labels={f"j{each}": "v"}, wait_seconds=600.0, **changes)


def test_a_request_that_comes_back_finds_its_place_though_all_demands_are_taken() -> None:
    cluster = world("a")
    cluster.ask("first", labels={"pool": "warm"}, tenant="mine")
    for tenant in range(MOST_DEMANDS // KEPT_DEMANDS):
        for number in range(KEPT_DEMANDS):
            cluster.ask(f"{tenant}-{number}", labels={f"j{tenant}-{number}": "v"}, tenant=f"t{tenant}")
    assert cluster.engine.state.pools[POOL].queue.number_of_demands() == MOST_DEMANDS
    cluster.delete(next(iter(cluster.pods)))
    cluster.observe()
    cluster.add("b")
    cluster.settle()
    assert pods(cluster, "first") == ["b"]


def test_junk_of_one_tenant_refuses_no_ordinary_request_of_another() -> None:
    cluster = world()
    junk(cluster, MOST_DEMANDS, tenant="junk")
    assert code(cluster, f"junk{MOST_DEMANDS - KEPT_DEMANDS}") is ClaimCode.TOO_MANY_DEMANDS
    cluster.add("a", labels={"gpu": "1"})
    cluster.add("b")
    assert cluster.ask("special", labels={"gpu": "1"}, tenant="other") is None
    assert cluster.ask("ordinary", tenant="other") is None
    assert cluster.ask("own", tenant="junk") is None
    cluster.settle()
    assert (pods(cluster, "special"), pods(cluster, "ordinary")) == (["a"], ["b"])


def test_priorities_of_one_tenant_are_bounded_as_serving_it_costs_their_number() -> None:
    cluster = unchecked()
    for number in range(MOST_PLACES_OF_TENANT):
        assert cluster.ask(f"p{number}", tenant="many", priority=number) is None
    refused = cluster.ask("one more", tenant="many", priority=-1)
    assert refused is not None
    assert refused.code is ClaimCode.TOO_MANY_DEMANDS
    assert cluster.ask("same", tenant="many", priority=7) is None
    assert cluster.ask("other", tenant="other", priority=-1) is None


def test_looking_at_a_waiting_claim_costs_no_more_in_a_long_line() -> None:
    def cost(waiting: int) -> int:
        cluster = unchecked()
        for number in range(waiting):
            cluster.ask(f"r{number}", tenant=f"t{number % 7}", wait_seconds=600.0)
        engine = cluster.engine
        assert engine.claim("c-r5", 0.0) is not None
        return effort(lambda: [engine.claim(f"c-r{number}", 0.5) for number in range(200)])

    assert cost(2000) < 1.1 * cost(1000)


def test_a_place_in_a_long_line_is_right_a_second_later() -> None:
    cluster = unchecked()
    for number in range(400):
        cluster.ask(f"r{number}", tenant=f"t{number % 2}", wait_seconds=600.0)

    def place(request: str, now: float) -> int:
        view = cluster.engine.claim(f"c-{request}", now)
        assert view is not None
        return view.position

    assert [place(f"r{number}", 10.0) for number in (0, 1, 399)] == [1, 2, 400]
    cluster.ask("new", tenant="new", wait_seconds=600.0)
    assert place("new", 10.5) == 401
    assert place("new", 11.0) < 10


@pytest.mark.parametrize("mode", list(Mode))
def test_a_pod_that_came_to_another_claim_while_it_was_renewed_can_be_renewed_again(mode: Mode) -> None:
    """The renewal is on its way when the lease ends; another server gives the pod back and away again; and the look at
    the end of the lease shows it before any watch does."""
    cluster = world("a", mode=mode)
    cluster.ask("r", lease_seconds=60.0)
    cluster.settle()
    [uid] = cluster.pods
    cluster.pass_time(59.0)
    cluster.renew("late", "c-r", 60.0)
    cluster.pass_time(2.0)

    def taken(pod: dict[str, Any]) -> None:
        pod["metadata"]["labels"][names.CLAIM_LABEL] = "c-other"
        mark = {"claim": "c-other", "pool": "warm", "expires": 1500.0}
        pod["metadata"]["annotations"][names.CLAIM_ANNOTATION] = json.dumps(mark)

    cluster.change(uid, taken)
    [look] = [each for each in cluster.sent if isinstance(each.command.command, LookAtPod)]
    cluster.arrive(look)
    cluster.answer(look)
    cluster.renew("now", "c-other", 900.0)
    assert code(cluster, "late") is ClaimCode.CLAIM_ENDED
    cluster.settle()
    assert code(cluster, "now") is ClaimCode.RENEWED
