"""Forks: exact, independent, also with everything that can be under way."""

import pytest

from algorithm.hived.state.fork import Fork
from algorithm.interface import Bind, SuggestedNodes
from tests.support.hived.audit import audit
from tests.support.hived.crowd import crowded
from tests.support.hived.dump import dump
from tests.support.hived.harness import FILTERING, PREEMPTING, RACKS, HivedHarness, gang, one, snapshot


@pytest.fixture
def world():
    """With gangs, a lazy preemption, a preemption under way, a bad machine, and a stranger."""
    world = HivedHarness(RACKS)
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True), one("taker", leafs=2, priority=3))
    world.bind(one("low", tenant="b", leafs=4), one("o", tenant="b", priority=-1, leafs=1))
    assert world.group("lazy").lazily_preempted_by == "taker"
    world.turn("m1", healthy=False)
    world.preempt(one("high", tenant="b", leafs=4, priority=5))
    world.found(one("stranger").placed("m1"))
    return world


def forked(world):
    twin = HivedHarness(RACKS, nodes=False)
    twin.algorithm = world.algorithm.fork()
    for known in ("nodes", "waiting", "allocated", "preempting"):
        setattr(twin, known, dict(getattr(world, known)))
    return twin


def test_a_fork_knows_what_its_original_knows(world):
    twin = world.algorithm.fork()

    audit(twin.hive)
    assert snapshot(twin.hive) == snapshot(world.hive)
    assert twin.unrecoverable_pods == world.algorithm.unrecoverable_pods
    assert twin.inspect() == world.algorithm.inspect()


@pytest.mark.parametrize("seed", range(20))
def test_a_fork_has_the_same_state_in_the_same_order(seed):
    """Every attribute of every object that can be reached."""
    hive = crowded(seed).algorithm
    twin = hive.fork()

    assert dump(twin.hive, lists=True) == dump(hive.hive, lists=True)


def test_pages_of_a_fork_show_the_fork_also_if_they_were_written_before(world):
    def pages(algorithm):
        return [b"".join(algorithm.page(path)) for path in ("clusterstatus", "cells")]

    before = pages(world.algorithm)
    twin = forked(world)
    assert pages(twin.algorithm) == before
    twin.delete(*list(twin.allocated.values()))

    assert pages(world.algorithm) == before
    assert before != pages(twin.algorithm) == pages(twin.algorithm.fork())


def test_the_same_calls_give_the_same_answers_on_both(world):
    twin = forked(world)
    for each in (world, twin):
        each.turn("m1", healthy=True)
        each.delete(next(pod for pod in each.allocated.values() if pod.name == "low-0"))
    for number in range(12):
        pod = one(f"n{number}", tenant="ab"[number % 2], leafs=1 + number % 3, priority=number % 4 - 1)
        answers = [each.ask(pod) for each in (world, twin)]
        assert answers[0] == answers[1]
        if isinstance(answers[0], Bind):
            assert world.take(pod, answers[0]) == twin.take(pod, answers[1])
    assert snapshot(twin.hive) == snapshot(world.hive)


def test_neither_sees_what_happens_to_the_other(world):
    before = snapshot(world.hive)
    twin = forked(world)
    twin.delete(*list(twin.allocated.values()))
    twin.turn("m1", healthy=True)
    twin.turn("m3", "m2", healthy=False)
    assert snapshot(world.hive) == before

    after = snapshot(twin.hive)
    world.delete(*list(world.allocated.values()))
    assert snapshot(twin.hive) == after


def test_the_order_between_equal_machines_is_copied():
    """What was asked before decides between machines that are equal now."""
    world = HivedHarness()
    for number in range(6):
        pod = one(f"g{number}", leafs=4, priority=-1, ignoreK8sSuggestedNodes=False)
        world.ask(pod, offered=[f"m{1 + number % 3}"])
    pod = one("next", leafs=4, priority=-1)

    assert world.algorithm.fork().schedule(pod, SuggestedNodes(world.nodes), FILTERING) == world.ask(pod)


def test_a_proposed_preemption_can_be_taken_on_the_fork():
    world = HivedHarness()
    world.bind(*gang("low", pods=2, leafs=4))
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    answer = world.ask(high, phase=PREEMPTING)
    twin = forked(world)

    assert twin.take_preemption(high, answer) == {"u-low-0", "u-low-1"}
    assert "high" in twin.hive.groups
    assert "high" not in world.hive.groups


def test_a_fork_of_a_fork_is_one_too(world):
    assert snapshot(world.algorithm.fork().fork().hive) == snapshot(world.hive)


def test_a_long_chain_of_pointers_is_no_recursion():
    """Cells point to each other in all directions: copy.deepcopy would recurse through the whole cluster."""
    hosts = "\n".join(f"    - {{cellAddress: m{number}}}" for number in range(2000))
    world = HivedHarness(
        "physicalCluster:\n  cellTypes:\n    host: {childCellType: gpu, childCellNumber: 1, isNodeLevel: true}\n"
        "    row: {childCellType: host, childCellNumber: 2000}\n"
        f"  physicalCells:\n  - cellType: row\n    cellChildren:\n{hosts}\nvirtualClusters: {{}}\n",
        nodes=False,
    )

    assert snapshot(world.algorithm.fork().hive) == snapshot(world.hive)


def test_what_is_shared_is_shared():
    first: list[object] = []
    second = [first, first]
    fork = Fork(second, shared=())
    assert list(fork.pieces()) == [None]
    copied = fork.result()

    assert copied[0] is copied[1]
    assert copied[0] is not first


def test_a_proposal_that_is_older_than_the_hive_is_copied_too(world):
    """While a server starts, another hive replaces the first one; what was proposed in that one is planned again."""
    before = HivedHarness(RACKS)
    before.bind(one("low", tenant="b", leafs=4))
    pod = one("late", tenant="b", leafs=4, priority=7)
    before.submit(pod)
    before.ask(pod, phase=PREEMPTING)
    assert before.algorithm._proposed
    world.algorithm._proposed.update(before.algorithm._proposed)
    twin = forked(world)

    audit(twin.algorithm.hive)
    assert dump(twin.algorithm.hive, lists=True) == dump(world.algorithm.hive, lists=True)
    assert twin.algorithm._proposed.keys() == world.algorithm._proposed.keys()
