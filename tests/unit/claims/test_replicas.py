"""Several servers serve one pool: no pod twice, hardly a conflict, and each goes on without the others."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable

import pytest

from extender.claims.codes import ClaimCode
from extender.claims.events import MembersSeen
from extender.claims.members import Members
from extender.claims.records import Mode
from extender.claims.state import RESERVED
from extender.claims.writes.take import TakePod
from extender.core.outcomes import OutcomeKind
from tests.unit.claims.test_claims import pods
from tests.unit.claims.world import Sent, World

RTT, LAG = 0.015, 0.07


def servers(number: int, pods_of_pool: int, *, mode: Mode = Mode.RECYCLE, validates: bool = True) -> list[World]:
    first = World(mode, validates=validates)
    for _ in range(pods_of_pool):
        first.add()
    found = [first, *(first.another() for _ in range(number - 1))]
    for each in found:
        each.start()
    return found


def meet(worlds: list[World]) -> None:
    names = tuple(f"server-{number}" for number in range(len(worlds)))
    for name, world in zip(names, worlds, strict=True):
        world.tell(MembersSeen(names, name))


class Simulation:
    """Servers with a round trip to the API server, watches that lag, and claims that last for a while."""

    def __init__(self, worlds: list[World], seed: int) -> None:
        self.worlds = worlds
        self.random = random.Random(seed)
        self.takes: Counter[OutcomeKind] = Counter()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._known: list[Sent] = []
        self._number = 0
        self._now = 0.0
        for world in worlds:
            world.watch.clear()

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (time, self._number, action))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            time, _, action = heapq.heappop(self._queue)
            self._now = time
            for world in self.worlds:
                world.pass_time(max(0.0, time - world.now))
            action()
            self._dispatch()

    def _dispatch(self) -> None:
        for world in self.worlds:
            for sent in world.sent:
                if sent not in self._known:
                    self._known.append(sent)
                    half = RTT / 2 * self.random.uniform(0.7, 1.3)
                    self.at(self._now + half, lambda w=world, s=sent, h=half: self._arrive(w, s, h))
            while world.watch:
                event = world.watch.popleft()
                lag = LAG  # one watch keeps its order
                self.at(self._now + lag, lambda w=world, e=event: w.tell(e) and None)  # type: ignore[misc]

    def _arrive(self, world: World, sent: Sent, half: float) -> None:
        world.arrive(sent)
        if isinstance(sent.command.command, TakePod) and sent.outcome is not None:
            self.takes[sent.outcome.kind] += 1

        def answer() -> None:
            self._known.remove(sent)
            world.answer(sent)

        self.at(self._now + half, answer)

    def conflicts(self) -> float:
        """Claims' writes that lost, for each one that did not."""
        return self.takes[OutcomeKind.REJECTED] / self.takes[OutcomeKind.DONE]


def churn(worlds: list[World], rate: float, seconds: float, use: float, seed: int = 1) -> Simulation:
    """Claims come to the servers at random and are released after `use` seconds."""
    simulation = Simulation(worlds, seed)
    time, number = 0.0, 0
    while time < seconds:
        time += simulation.random.expovariate(rate)
        number += 1
        world, request = simulation.random.choice(worlds), f"r{number}"
        simulation.at(time, lambda w=world, r=request: _ask(simulation, w, r, use))  # type: ignore[misc]
    simulation.run(seconds + 60.0)
    return simulation


def _ask(simulation: Simulation, world: World, request: str, use: float) -> None:
    world.ask(request)

    def release() -> None:
        answer = world.answers.get(request)
        if answer is None:
            simulation.at(world.now + 0.1, release)
        elif answer.code is ClaimCode.CLAIMED:
            world.release(f"x{request}", answer.claim)

    simulation.at(world.now + use, release)


@pytest.mark.parametrize("known", [True, False])
def test_c45_two_replicas_give_no_pod_twice(known: bool) -> None:
    worlds = servers(2, 60, validates=False)
    if known:
        meet(worlds)
    simulation = churn(worlds, rate=40.0, seconds=8.0, use=1.0)
    ends = Counter(answer.code for world in worlds for answer in world.answers.values())
    assert set(ends) == {ClaimCode.CLAIMED, ClaimCode.RELEASED}
    assert ends[ClaimCode.CLAIMED] == ends[ClaimCode.RELEASED] == simulation.takes[OutcomeKind.DONE]
    assert worlds[0].claimed() == {}
    if known:
        assert simulation.conflicts() < 0.02
    for world in worlds:
        world.engine.validate()
        world.engine.requests.validate()


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "most"), [(65.0, 0.001), (139.0, 0.02)])
def test_c45_three_replicas_and_300_pods_conflict_in_less_than_2_of_100_claims(rate: float, most: float) -> None:
    worlds = servers(3, 300, validates=False)
    meet(worlds)
    simulation = churn(worlds, rate=rate, seconds=20.0, use=2.0)
    assert simulation.takes[OutcomeKind.DONE] > 19.0 * rate
    assert simulation.conflicts() < most, simulation.takes


def test_each_takes_its_own_first_and_steals_when_it_has_none() -> None:
    one, two = servers(2, 10)
    meet([one, two])
    mine = [uid for uid in one.pods if not one.engine.members.rank(uid)]
    assert 0 < len(mine) < 10
    one.pass_time(RESERVED)
    for number in range(10):
        one.ask(str(number))
        one.settle()
    taken = [one.answers[str(number)].pods[0].uid for number in range(10)]
    assert set(taken[: len(mine)]) == set(mine)
    assert set(taken) == set(one.pods)


def test_a_pod_that_just_became_idle_is_the_first_servers_for_a_moment() -> None:
    worlds = servers(2, 0)
    meet(worlds)
    uid = worlds[0].add("a", seen=False)
    ranks = {world.engine.members.rank(uid): world for world in worlds}
    ranks[1].observe()
    ranks[1].ask("late")
    assert not ranks[1].sent
    assert ranks[1].engine.next_due() == RESERVED
    ranks[0].observe()
    ranks[0].ask("first")
    ranks[0].settle()
    ranks[1].settle()
    ranks[1].pass_time(1.0)
    assert (pods(ranks[0], "first"), ranks[1].sent) == (["a"], [])


def test_a_server_that_is_gone_keeps_nothing() -> None:
    worlds = servers(2, 0)
    meet(worlds)
    uid = worlds[0].add("a", seen=False)
    world = next(each for each in worlds if each.engine.members.rank(uid))
    world.observe()
    world.ask("r")
    assert not world.sent
    world.tell(MembersSeen(("me",), "me"))
    world.settle()
    assert pods(world, "r") == ["a"]


def test_members_share_evenly_and_a_new_one_moves_only_what_it_gets() -> None:
    names = ("a", "b", "c")
    uids = [f"pod-{number}" for number in range(3000)]
    first = {uid: next(name for name in names if rank(names, name, uid) == 0) for uid in uids}
    assert all(900 < number < 1100 for number in Counter(first.values()).values())
    more = (*names, "d")
    moved = {uid for uid in uids if rank(more, first[uid], uid)}
    assert moved == {uid for uid in uids if rank(more, "d", uid) == 0}


def rank(names: tuple[str, ...], me: str, uid: str) -> int:
    members = Members()
    members.set(names, me)
    return members.rank(uid)
