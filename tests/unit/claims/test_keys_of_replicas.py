"""The same key at several servers that share a pool: one claim, whatever fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.claims.codes import ClaimCode
from extender.claims.engine import PATIENCE
from extender.claims.records import Mode, Phase
from extender.claims.writes import names
from extender.claims.writes.give import GivePodBack
from extender.claims.writes.renew import RenewPod
from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.claims.world import World


def servers(number: int = 2, mode: Mode = Mode.RECYCLE, gangs: int = 1) -> list[World]:
    """Servers that have seen some pods for each of them: they choose different ones, as they do by their shares."""
    first = World(mode, shares=True)
    found = [first, *(first.another() for _ in range(number - 1))]
    for place in range(number):
        for _ in range(gangs):
            first.add(labels={"share": str(place)}, seen=False)
    for each in found:
        each.start()
    return found


def ask(world: World, place: int, request: str = "r", **changes: Any) -> None:
    changes.setdefault("digest", "d")
    world.ask(request, claim=f"c{place}-{request}", key="k", labels={"share": str(place)}, **changes)


def write(world: World) -> None:
    """What is on its way arrives, and is answered; no watch shows it yet."""
    for sent in list(world.sent):
        world.arrive(sent)
        world.answer(sent)


def both_write(one: World, two: World, **changes: Any) -> None:
    """Both have written a pod for the same key, `one` first."""
    ask(one, 0, **changes)
    ask(two, 1, **changes)
    write(one)
    write(two)
    assert one.standing() == {"c0-r", "c1-r"}
    assert code(one) is code(two) is None


def rest(*worlds: World) -> None:
    while any(each.sent or each.watch for each in worlds):
        for each in worlds:
            each.settle()


def code(world: World, request: str = "r") -> ClaimCode | None:
    answer = world.answers.get(request)
    return None if answer is None else answer.code


def claim(world: World, request: str = "r") -> str:
    assert code(world, request) is ClaimCode.CLAIMED
    return world.answers[request].claim


def commands(world: World, kind: type) -> list[Any]:
    return [sent.command.command for sent in world.sent if isinstance(sent.command.command, kind)]


# -- the answer waits for the watch -----------------------------------------------------------------------------------


def test_a_claim_is_answered_when_the_watch_has_shown_it_and_costs_one_write() -> None:
    world, _ = servers()
    ask(world, 0)
    write(world)
    assert code(world) is None
    world.observe()
    assert code(world) is ClaimCode.CLAIMED
    assert (world.writes, world.now, world.sent) == (1, 0.0, [])


def test_the_watch_may_be_faster_than_the_answer_to_the_write() -> None:
    world, _ = servers()
    ask(world, 0)
    world.arrive(world.sent[0])
    world.observe()
    assert code(world) is ClaimCode.CLAIMED


@pytest.mark.parametrize(("key", "shares"), [("", True), ("k", False)])
def test_without_a_key_or_without_other_servers_nothing_waits(key: str, shares: bool) -> None:
    world = World(Mode.RECYCLE, shares=shares)
    world.add(seen=False)
    world.start()
    world.ask("r", key=key)
    write(world)
    assert code(world) is ClaimCode.CLAIMED


def test_a_watch_that_shows_nothing_ends_the_request_and_the_pod_is_given_back() -> None:
    world, _ = servers()
    ask(world, 0, wait_seconds=1.0)
    write(world)
    world.pass_time(1.0 + PATIENCE)
    assert code(world) is ClaimCode.KEY_BUSY
    rest(world)
    assert world.claimed() == {}


def test_a_watch_that_broke_is_replaced_by_a_list() -> None:
    world, _ = servers()
    ask(world, 0)
    write(world)
    world.relist()
    assert claim(world) == "c0-r"


# -- which claim has the key ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(Mode))
def test_the_claim_that_was_written_first_has_the_key(mode: Mode) -> None:
    one, two = servers(mode=mode)
    both_write(one, two)
    rest(two, one)
    assert claim(one) == claim(two) == "c0-r"
    assert one.answers["r"].pods[0].uid == two.answers["r"].pods[0].uid
    assert one.standing() == {"c0-r"}
    # A write for each pod, one that gives a pod back, and one by which the second server makes the claim its own.
    assert (one.writes, two.writes) == (1, 3)


def test_of_three_servers_one_has_the_key() -> None:
    worlds = servers(3)
    for place, world in enumerate(worlds):
        ask(world, place)
    for world in worlds[::-1]:
        write(world)
    rest(*worlds)
    assert {claim(world) for world in worlds} == {"c2-r"} == worlds[0].standing()


def test_another_body_is_refused_and_its_pod_given_back() -> None:
    one, two = servers()
    ask(one, 0)
    ask(two, 1, digest="another")
    write(one)
    write(two)
    rest(one, two)
    assert (code(one), code(two)) == (ClaimCode.CLAIMED, ClaimCode.KEY_REUSED)
    assert one.standing() == {"c0-r"}


def test_a_request_that_waits_for_a_pod_is_answered_by_the_claim_that_another_server_gets() -> None:
    one, two = servers(2)
    two.ask("r", claim="c1-r", key="k", digest="d", labels={"share": "none"})
    ask(one, 0)
    rest(one, two)
    assert claim(one) == claim(two) == "c0-r"


def test_pods_that_are_kept_for_a_gang_serve_others_when_another_server_gets_its_key() -> None:
    one, two = servers(2)
    ask(two, 1, count=2)
    two.ask("behind", labels={"share": "1"})
    assert two.sent == []
    ask(one, 0, count=1)
    write(one)
    two.observe()
    write(two)
    assert code(two, "behind") is ClaimCode.CLAIMED


def test_a_gang_is_waited_for_until_it_is_complete() -> None:
    one, two = servers(2, gangs=2)
    ask(one, 0, count=2)
    ask(two, 1, count=2)
    first, second = one.sent
    one.arrive(first)
    one.answer(first)
    write(two)
    two.observe()
    write(two)
    rest(two)
    assert code(two) is None
    assert two.standing() == {"c0-r"}, "it has given its pods back"
    one.arrive(second)
    one.answer(second)
    rest(one, two)
    assert claim(one) == claim(two) == "c0-r"
    assert len(two.answers["r"].pods) == 2


def test_a_gang_that_fails_leaves_the_key_to_the_request_that_waits() -> None:
    one, two = servers(2, gangs=2)
    ask(one, 0, count=2, wait_seconds=1.0)
    ask(two, 1, count=2)
    first, second = one.sent
    one.arrive(first)
    one.answer(first)
    one.sent.remove(second)
    rest(two)
    assert (code(two), two.standing()) == (None, {"c0-r"})
    one.pass_time(1.0 + PATIENCE)
    assert code(one) is ClaimCode.WRITE_UNKNOWN
    rest(one, two)
    assert claim(two) == "c1-r-1"
    assert two.standing() == {"c1-r-1"}


def test_a_repeated_key_gets_the_claim_of_another_server_and_acknowledges_it_once() -> None:
    one, two = servers()
    ask(one, 0)
    rest(one, two)
    for request in ("s", "t"):
        ask(two, 1, request)
        rest(one, two)
        assert claim(two, request) == "c0-r"
    assert (one.writes, two.writes) == (1, 1)


def test_a_key_can_be_used_again_as_soon_as_its_claim_is_given_back() -> None:
    one, two = servers()
    ask(one, 0)
    rest(one, two)
    one.release("x", "c0-r")
    ask(one, 0, "s", wait_seconds=0.0)
    ask(two, 1, "t", wait_seconds=0.0)
    rest(one, two)
    assert claim(one, "s") == claim(two, "t") != "c0-r"


def test_a_key_can_be_used_again_after_the_lease() -> None:
    one, two = servers()
    ask(one, 0, lease_seconds=10.0)
    rest(one, two)
    one.engine.state.members.set(("a", "b"), "a")
    two.now = 10.0  # the first server is dead
    ask(two, 1, "s")
    two.pass_time(0.0)
    rest(two)
    assert claim(two, "s") == "c1-s"


# -- a list shows both at once ----------------------------------------------------------------------------------------


def test_where_the_order_is_unknown_nobody_is_answered_until_one_of_them_has_begun_again() -> None:
    one, two = servers()
    both_write(one, two)
    one.relist()
    two.relist()
    assert code(one) is code(two) is None
    assert len(commands(one, GivePodBack)) == len(commands(two, GivePodBack)) == 1
    rest(one, two)
    assert {claim(one)} == {claim(two)} == one.standing()


def test_a_claim_that_was_answered_stays_whatever_a_list_shows() -> None:
    one, two = servers()
    both_write(one, two)
    one.observe()
    assert claim(one) == "c0-r"
    one.relist()
    two.relist()
    rest(two, one)
    assert one.standing() == {"c0-r"}
    assert claim(two) == "c0-r"


def test_two_claims_that_killed_servers_leave_stay_and_the_key_waits_until_one_of_them_has_ended() -> None:
    one, two = servers()
    both_write(one, two, lease_seconds=100.0)
    one.start()
    two.start()
    ask(one, 0, "s", wait_seconds=1.0)
    one.pass_time(1.0 + PATIENCE)
    assert code(one, "s") is ClaimCode.KEY_BUSY
    assert one.standing() == {"c0-r", "c1-r"}
    two.release("x", "c1-r")
    ask(one, 0, "t")
    rest(one, two)
    assert claim(one, "t") == "c0-r"


def test_a_gang_that_a_killed_server_has_begun_has_the_key_until_it_is_ended_by_it() -> None:
    one, two = servers(2, gangs=2)
    ask(one, 0, count=2)
    one.arrive(one.sent[0])
    one.sent.clear()
    one.start()
    two.observe()
    ask(two, 1, count=2, wait_seconds=1.0)
    two.pass_time(1.0 + PATIENCE)
    assert code(two) is ClaimCode.KEY_BUSY
    (left,) = two.engine.claims_with_key(two.pool().key, "", "k")
    two.release("x", left)
    ask(two, 1, "s", count=2)
    rest(one, two)
    assert claim(two, "s") == "c1-s"
    assert two.standing() == {"c1-s"}


# -- a request that fails while another server answers from its claim -------------------------------------------------


def test_a_claim_that_another_server_has_acknowledged_is_not_given_back_when_its_caller_goes_away() -> None:
    one, two = servers()
    ask(one, 0)
    write(one)
    two.observe()
    ask(two, 1)
    assert [each.mark.is_known for each in commands(two, RenewPod)] == [True]
    one.leave("r")
    assert len(commands(one, GivePodBack)) == 1
    write(two)
    assert claim(two) == "c0-r"
    rest(one, two)
    one.pass_time(60.0)
    rest(one, two)
    assert one.standing() == {"c0-r"}
    one.renew("n", "c0-r", 4000.0)
    rest(one, two)
    assert code(one, "n") is ClaimCode.RENEWED


def test_a_claim_that_is_given_back_first_is_not_answered_by_another_server() -> None:
    one, two = servers()
    ask(one, 0)
    write(one)
    two.observe()
    ask(two, 1)
    one.leave("r")
    write(one)
    rest(one, two)
    assert claim(two) == "c1-r"
    assert one.standing() == {"c1-r"}


def test_a_write_that_arrives_late_is_given_back() -> None:
    one, two = servers()
    ask(one, 0, wait_seconds=1.0)
    late = one.sent[0]
    one.pass_time(1.0 + PATIENCE)
    assert code(one) is ClaimCode.WRITE_UNKNOWN
    ask(two, 1)
    rest(two)
    one.arrive(late)
    rest(one, two)
    assert claim(two) == "c1-r"
    assert one.standing() == {"c1-r"}


def test_an_acknowledgement_that_the_api_server_refuses_is_told() -> None:
    one, two = servers()
    ask(one, 0)
    rest(one, two)
    ask(two, 1)
    two.answer(two.sent[0], Outcome(OutcomeKind.REJECTED, "forbidden"))
    rest(two)
    assert (code(two), two.answers["r"].detail) == (ClaimCode.WRITE_REFUSED, "forbidden")
    assert one.standing() == {"c0-r"}


def test_a_pod_that_comes_to_another_claim_while_it_is_acknowledged_is_acknowledged_for_that_one() -> None:
    """A read shows it, before the watch does: the acknowledgement for the claim before ends, and gives its hold up."""
    one, two = servers()
    ask(one, 0)
    rest(one, two)
    ask(two, 1)
    [acknowledgement] = two.sent
    two.renew("n", "c0-r", 4000.0)
    renewal = two.sent[-1]
    first, second = two.pods

    two.change(second, lambda pod: mark_for(pod, "theirs"))
    two.observe()
    two.ask("s", claim="c1-s", key="theirs", digest="d")
    two.change(first, lambda pod: mark_for(pod, "theirs"))
    two.answer(renewal, Outcome(OutcomeKind.LOST, "conflict"))
    [look] = [sent for sent in two.sent if sent.command.is_read]
    two.arrive(look)
    two.answer(look)
    assert [sent.mark.claim for sent in commands(two, RenewPod)] == ["c0-r", "theirs", "theirs"]

    two.arrive(acknowledgement)
    rest(two)
    assert claim(two, "s") == "theirs"
    assert code(two, "n") is ClaimCode.CLAIM_ENDED


def mark_for(pod: dict[str, Any], name: str) -> None:
    """Another server claims the pod as one of two; the claim's key is its name."""
    pod["metadata"]["labels"].update({names.CLAIM_LABEL: name, names.PHASE_LABEL: Phase.RUNNING})
    mark = {"claim": name, "pool": "warm", "key": name, "digest": "d", "size": 2, "expires": 9000.0}
    pod["metadata"].setdefault("annotations", {})[names.CLAIM_ANNOTATION] = json.dumps(mark)


def test_a_renewed_claim_needs_no_acknowledgement() -> None:
    one, two = servers()
    ask(one, 0)
    rest(one, two)
    one.renew("n", "c0-r", 4000.0)
    rest(one, two)
    ask(two, 1)
    assert claim(two) == "c0-r"
    uid = next(iter(one.claimed()["c0-r"]))
    mark = names.mark_of(one.pods[uid]["metadata"]["annotations"])
    assert mark is not None
    assert mark.is_known
