"""The scenarios C1-C50 of the specification of claims: each has a test with its number in the name.

Here are those that need no file of their own, and the list that says where each one is. Where the specification has a
timer (a poll, a delay, a throttle) that this engine has not, the test shows the guarantee that takes its place.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from extender.claims.codes import ClaimCode
from extender.claims.engine import AUDIT
from extender.claims.events import NodeSeen, PodSeen, PoolsConfigured, ShutdownAsked
from extender.claims.records import Mode
from extender.claims.writes.give import GivePodBack
from extender.core.commands import ApiCommand
from extender.core.outcomes import OutcomeKind
from tests.unit.claims.test_claims import CONFLICT, UNKNOWN, code, pods, world
from tests.unit.claims.world import COMMANDS, POOL, Sent, World

#: Scenarios of the engine's surroundings, with the place of their test.
ELSEWHERE: dict[int, str] = {}


def test_every_scenario_has_a_test() -> None:
    found: set[int] = set(ELSEWHERE)
    for path in Path(__file__).parent.glob("test_*.py"):
        for name in re.findall(r"def (test_\w+)", path.read_text()):
            found.update(int(number) for number in re.findall(r"_c(\d+)", name))
    assert found == set(range(1, 51)), f"without a test: {sorted(set(range(1, 51)) - found)}"


def test_c8_a_held_pod_is_not_offered_until_it_is_let_go() -> None:
    cluster = world("a")
    cluster.ask("r")
    [sent] = cluster.sent
    cluster.ask("s")
    assert cluster.sent == [sent]
    assert cluster.engine.state.ledger.holder(next(iter(cluster.pods))) is not None
    cluster.leave("r")
    cluster.answer(sent, CONFLICT)
    cluster.settle()
    assert pods(cluster, "s") == ["a"]


def test_c12_a_pod_is_given_when_the_event_comes_and_not_at_a_tick() -> None:
    cluster = world()
    cluster.ask("r")
    cluster.add("a", seen=False)
    cluster.pass_time(7.0)
    assert not cluster.sent
    cluster.observe()
    cluster.settle()
    assert (pods(cluster, "r"), cluster.now) == (["a"], 7.0)
    assert not cluster.engine.missed


def test_c18_a_request_that_comes_back_has_its_place_also_in_a_full_line() -> None:
    cluster = world("a")
    cluster.tell(PoolsConfigured((cluster.pool(max_pending=1),)))
    cluster.ask("r")
    cluster.ask("s")
    assert code_or_none(cluster, "s") is None
    cluster.delete(next(iter(cluster.pods)))
    cluster.settle()
    assert len(cluster.engine.state.pools[POOL].queue) == 2
    cluster.pass_time(30.0)
    assert code(cluster, "r") is code(cluster, "s") is ClaimCode.DEADLINE_EXCEEDED  # World: each is answered once


def code_or_none(cluster: World, request: str) -> ClaimCode | None:
    answer = cluster.answers.get(request)
    return None if answer is None else answer.code


@pytest.mark.parametrize("place", [0, 1, 16, 32])
def test_c20_a_request_before_or_after_a_shutdown_is_answered(place: int) -> None:
    cluster = world("a", "b")
    for number in range(33):
        if number == place:
            cluster.tell(ShutdownAsked())
        else:
            cluster.ask(str(number))
    assert len(cluster.answers) == 32
    assert {answer.code for answer in cluster.answers.values()} == {ClaimCode.SHUTTING_DOWN}
    cluster.settle()
    assert cluster.claimed() == {}


def test_c19b_a_second_shutdown_changes_nothing() -> None:
    cluster = world()
    cluster.ask("r")
    cluster.tell(ShutdownAsked())
    assert cluster.tell(ShutdownAsked()) == []


def test_c21_a_thousand_notices_store_nothing() -> None:
    cluster = world("a")
    cluster.ask("r", labels={"gpu": "h100"})
    event = PodSeen(next(iter(cluster.engine.state.pods.values())))
    before = cluster.engine.next_due()
    cluster.validates = False
    for _ in range(1000):
        assert cluster.engine.handle(event, cluster.now) == []
    cluster.engine.validate()
    assert cluster.engine.next_due() == before
    assert not cluster.engine.state.dirty


def test_c22_time_alone_frees_no_hold() -> None:
    cluster = world("a")
    cluster.ask("r", wait_seconds=1e6)
    cluster.pass_time(1e5)
    assert cluster.engine.state.ledger.holder(next(iter(cluster.pods))) is not None
    assert len(cluster.sent) == 1


def test_c23_a_late_report_with_an_old_token_changes_nothing() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r")
    [old] = cluster.sent
    cluster.arrive(old)
    cluster.observe()  # the watch is earlier than the answer
    assert pods(cluster, "r") == ["a"]
    cluster.release("x", "c-r")
    cluster.ask("s")
    for sent in [each for each in cluster.sent if each is not old]:
        cluster.arrive(sent)
        cluster.answer(sent)
    cluster.observe()
    holder = cluster.engine.state.ledger.holder(next(iter(cluster.pods)))
    assert holder is not None
    cluster.answer(old, UNKNOWN)
    assert cluster.engine.state.ledger.holder(next(iter(cluster.pods))) == holder
    cluster.settle()
    assert pods(cluster, "s") == ["a"]


def test_c32_pods_that_changed_are_skipped_and_the_order_stays() -> None:
    cluster = world("a", "b", "c", "d")
    a, b, *_ = cluster.pods
    cluster.delete(a)
    cluster.change(b, lambda pod: pod["status"]["conditions"][0].update(status="False"))
    cluster.observe()
    cluster.ask("1")
    cluster.ask("2")
    cluster.settle()
    assert [pods(cluster, "1"), pods(cluster, "2")] == [["c"], ["d"]]


def test_c34_two_thousand_requests_of_forty_tenants_for_five_hundred_pods() -> None:
    cluster = World(validates=False)
    for _ in range(500):
        cluster.add()
    cluster.start()
    for number in range(2000):
        cluster.ask(str(number), tenant=f"t{number % 40}", wait_seconds=5.0)
    cluster.settle()
    cluster.pass_time(5.0)
    cluster.engine.validate()
    assert cluster.engine.requests.ends == {ClaimCode.CLAIMED: 500, ClaimCode.DEADLINE_EXCEEDED: 1500}
    given = [pod.uid for answer in cluster.answers.values() for pod in answer.pods]
    assert len(given) == len(set(given)) == 500


def test_c35_pods_that_conflict_once_are_all_used() -> None:
    cluster = world(*[f"p{number}" for number in range(30)])
    for number in range(30):
        cluster.ask(str(number))
    for sent in list(cluster.sent)[::3]:
        cluster.answer(sent, CONFLICT)
    cluster.settle()
    assert len({pods(cluster, str(number))[0] for number in range(30)}) == 30


def test_c37_a_storm_and_a_shutdown_leave_nothing_behind() -> None:
    cluster = world()
    cluster.validates = False
    for number in range(600):
        cluster.ask(str(number), tenant=str(number % 7), count=1 + number % 3)
        cluster.tell(NodeSeen("n1", serves=number % 5 > 0))
        if number % 2:
            cluster.add()
        if number % 11 == 0:
            cluster.settle()
    cluster.tell(ShutdownAsked())
    cluster.settle()
    assert len(cluster.answers) == 600
    assert not cluster.engine.requests.pending
    cluster.engine.validate()
    granted = Counter(answer.code for answer in cluster.answers.values())[ClaimCode.CLAIMED]
    assert len(cluster.claimed()) == granted


def test_c39_a_snapshot_is_never_older_than_the_last_event() -> None:
    """Nothing is written that would have to be throttled: whoever asks gets the numbers of this moment."""
    cluster = world()
    seen = []
    for number in range(3):
        cluster.ask(str(number))
        shot = cluster.engine.snapshot(POOL, cluster.now)
        assert shot is not None
        seen.append(shot.pending)
    cluster.leave("0")
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert [*seen, shot.pending] == [1, 2, 3, 2]


def test_c41_nothing_polls() -> None:
    """There is no poll whose interval could grow. A request is due at its deadline, and what waits is audited."""
    cluster = world("a")
    assert cluster.engine.next_due() is None
    cluster.ask("r", labels={"gpu": "h100"}, wait_seconds=20.0)
    assert cluster.engine.next_due() == 20.0
    cluster.pass_time(100.0)
    assert cluster.engine.next_due() is None
    cluster.ask("s", labels={"gpu": "h100"}, wait_seconds=500.0)
    assert cluster.engine.next_due() == 100.0 + AUDIT
    cluster.pass_time(400.0)
    assert not cluster.engine.missed


def test_an_audit_finds_and_counts_what_an_event_should_have_done() -> None:
    cluster = world("a")
    cluster.validates = False
    cluster.ask("r", labels={"gpu": "h100"}, wait_seconds=500.0)
    cluster.engine.state.withdraw(next(iter(cluster.pods)))  # as a bug would
    cluster.ask("s", wait_seconds=500.0)
    assert not cluster.sent
    cluster.pass_time(AUDIT)
    cluster.settle()
    assert pods(cluster, "s") == ["a"]
    assert cluster.engine.missed == {"pod": 1}


def test_c42_a_version_that_is_known_is_not_looked_at_again() -> None:
    """Nothing is listed again, so nothing needs a least interval: the same version of a pod causes no work."""
    cluster = world("a")
    pod = next(iter(cluster.engine.state.pods.values()))
    assert not cluster.engine.state.see(pod)
    assert cluster.engine.state.dirty == {}


def test_c46_a_deletion_of_what_was_just_claimed_is_refused() -> None:
    cluster = world("a")
    [uid] = cluster.pods
    version = cluster.pods[uid]["metadata"]["resourceVersion"]
    command = GivePodBack(token=0, namespace="default", name="a", uid=uid, claim="", resource_version=version)
    found = COMMANDS.find(command)
    assert isinstance(found, ApiCommand)
    scale_down = Sent(found)
    cluster.ask("r")
    cluster.settle()
    cluster.arrive(scale_down)
    assert scale_down.outcome is not None
    assert scale_down.outcome.kind is OutcomeKind.LOST
    assert pods(cluster, "r") == ["a"]
    assert cluster.claimed() == {"c-r": {uid}}


def test_c47_a_pod_that_is_not_to_go_any_more_is_claimable_at_once() -> None:
    cluster = world("a")
    [uid] = cluster.pods
    cluster.change(uid, lambda pod: pod["metadata"].update(annotations={"waggle.dev/scale-down": "1"}))
    cluster.observe()
    cluster.ask("r")
    assert not cluster.sent
    cluster.change(uid, lambda pod: pod["metadata"].update(annotations={}))
    cluster.observe()
    cluster.settle()
    assert (pods(cluster, "r"), cluster.now) == (["a"], 0.0)
