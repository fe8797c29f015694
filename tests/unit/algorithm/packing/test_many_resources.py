"""What many different resources cost: as much as there are of them, once a node, and nothing where nodes lack them.

The extender gives no pod with more than 32 of them to an algorithm; the algorithm itself is no worse than linear.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from algorithm.interface import Phase, SuggestedNodes, Wait
from algorithm.model import Pod, Resources, pairs
from algorithm.packing.demand import demand_of, least_of
from algorithm.reasons import Code
from tests.support.effort import effort
from tests.support.packing.harness import GPU, PackingHarness, node, pod

MEMBER = pairs({"waggle.dev/gang": "g", "waggle.dev/gang-min": "2"})


def many(number: int) -> Resources:
    return tuple((f"example.org/r{index:05}", 1) for index in range(number))


def asking(name: str, resources: Resources, **more: object) -> Pod:
    return msgspec.structs.replace(pod(name, cpu=1, **more), requests=tuple(sorted((*resources, ("cpu", 1)))))


def world(nodes: int = 10) -> PackingHarness:
    return PackingHarness(*(node(f"n{index}") for index in range(nodes)))


def refused(world: PackingHarness, record: Pod) -> Wait:
    answer = world.algorithm.schedule(record, SuggestedNodes(world.nodes), Phase.FILTERING)
    assert isinstance(answer, Wait)
    return answer


# -- what it costs ------------------------------------------------------------------------------------------------


def single(number: int) -> Callable[[], object]:
    w, record = world(), asking("p", many(number))
    w.submit(record)
    demand_of(record.requests)
    return lambda: refused(w, record)


def of_an_innocent_mate(number: int) -> Callable[[], object]:
    w = world()
    mate, greedy = (asking(name, many(n), annotations=MEMBER) for name, n in (("mate", 0), ("greedy", number)))
    w.submit(mate, greedy)
    demand_of(greedy.requests)
    return lambda: refused(w, mate)


@pytest.mark.parametrize("question", [single, of_an_innocent_mate])
def test_a_refusal_costs_in_proportion_to_the_resources_asked_for(
    question: Callable[[int], Callable[[], object]],
) -> None:
    assert effort(question(400)) < 2.2 * effort(question(200))


def test_on_a_node_that_lacks_them_all_a_refusal_costs_a_step_a_resource() -> None:
    few, more = (effort(question) for question in (single(200), single(400)))
    assert more - few < 10 * 200 * 60  # nodes, resources, bytecodes


def test_what_all_take_at_least_costs_as_much_as_reading_them() -> None:
    def cost(number: int) -> int:
        demands = [demand_of(asking(str(index), many(number + index)).requests) for index in range(3)]
        return effort(lambda: least_of(demands))

    assert cost(400) < 2.2 * cost(200)


# -- what stays of them -------------------------------------------------------------------------------------------


def test_a_node_does_not_count_resources_that_it_does_not_have() -> None:
    w = PackingHarness(node("n", gpu=8))
    before = dict(w.algorithm._state.cluster.rooms["n"].free)
    greedy = w.bound(asking("p", (*many(30), (GPU, 1))), "n")
    after = dict(w.algorithm._state.cluster.rooms["n"].free)
    assert after.keys() == before.keys()
    assert (before[GPU] - after[GPU], before["cpu"] - after["cpu"], before["pods"] - after["pods"]) == (1, 1, 1)
    assert set(w.algorithm.inspect()["resources"]) == {"cpu", "memory", "pods", GPU}
    w.algorithm.delete_allocated_pod(greedy)
    assert w.algorithm._state.cluster.rooms["n"].free == before


def test_a_resource_that_a_node_brings_later_counts_with_the_pods_that_are_there() -> None:
    w = PackingHarness(node("n"))
    w.bound(pod("p", gpu=3), "n")
    w.update_node(node("n", gpu=8))
    assert w.algorithm._state.cluster.rooms["n"].free[GPU] == 5


def test_pods_on_a_node_that_is_not_known_yet_count_once_it_is() -> None:
    w = PackingHarness()
    w.bound(pod("p", gpu=3, cpu=100), "n")
    assert w.algorithm.inspect()["resources"]["pods"]["used"] == 1
    w.add_node(node("n", gpu=8))
    room = w.algorithm._state.cluster.rooms["n"]
    assert (room.free[GPU], room.free["cpu"]) == (5, 7900)


# -- what is said -------------------------------------------------------------------------------------------------


def test_only_the_first_missing_resources_are_named() -> None:
    w, record = world(1), asking("p", many(20))
    w.submit(record)
    why = refused(w, record).reason
    assert why.code is Code.NODE_LACKS_RESOURCE
    named = ", ".join(f"example.org/r0000{index}" for index in range(5))
    assert why.text == f"node never has enough {named} and others"


def test_of_a_gang_the_first_missing_resources_are_named() -> None:
    names = [f"r{index}" for index in range(8)]
    w = PackingHarness(
        msgspec.structs.replace(node("n"), allocatable=tuple(sorted([("pods", 9), *((name, 2) for name in names)])))
    )
    pods = [
        msgspec.structs.replace(pod(name, annotations=MEMBER), requests=tuple((name, 2) for name in names))
        for name in ("a", "b")
    ]
    w.submit(*pods)
    why = refused(w, pods[0]).reason
    assert why.text == "gang ns/g does not fit as a whole: insufficient r0, r1, r2, r3, r4"
