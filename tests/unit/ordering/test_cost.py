"""What costs how much: chains, many dependants of one target, large cycles, declarations of strangers."""

from __future__ import annotations

import pytest

from extender.ordering import causes
from extender.ordering.events import PodSeen, Ticked, WorkloadSeen
from extender.ordering.graph import components
from extender.ordering.waiting import LOOKS
from tests.support.effort import effort
from tests.unit.ordering.world import World, pod, running, workload


def world_of(number: int) -> World:
    """So many pods that wait for one Job."""
    world = World()
    world.holds = True
    world.put(workload("Job/a"), *(pod(f"p{index}", "[job/a]") for index in range(number)))
    world.wait(5)
    return world


def test_a_change_that_matters_to_no_pod_costs_the_same_however_many_wait() -> None:
    few, many = world_of(10), world_of(300)
    event = PodSeen(running(pod("other", owner="Job/other")))
    assert effort(lambda: many.engine.handle(event, 6.0)) <= 1.1 * effort(lambda: few.engine.handle(event, 6.0))


def test_one_event_releases_a_bounded_number_of_pods_and_the_next_ones_the_others() -> None:
    world = world_of(3 * LOOKS)
    event = WorkloadSeen(workload("Job/a", complete=True, version="999999"))
    first = world.engine.handle(event, 6.0)
    assert 0 < len(first) <= 2 * LOOKS
    assert world.engine.next_due() == 6.0
    world.now = 6.0
    world.settle()
    assert len(world.released()) == 3 * LOOKS


def test_a_join_of_many_targets_is_looked_at_once_for_each() -> None:
    world = World()
    names = [f"j{number}" for number in range(60)]
    world.put(*(workload(f"Job/{name}") for name in names), pod("p", f"[{', '.join(f'job/{n}' for n in names)}]"))
    for name in names:
        assert world.waits("p")
        world.put(workload(f"Job/{name}", complete=True))
    assert not world.waits("p")


def test_a_deep_chain_is_explained_down_to_its_root() -> None:
    world = World()
    depth = 1_000
    world.put(*(pod(f"p{number}", f"[pod/p{number + 1}]") for number in range(depth)))
    world.wait(100)
    assert world.waits("p0") == f"waits for Pod/ml/p1, and that for Pod/ml/p{depth}, which does not exist"


def test_a_large_cycle_is_told_without_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST_VERTICES", 100)
    world = World()
    number = 200
    world.put(*(pod(f"p{index}", f"[pod/p{(index + 1) % number}]") for index in range(number)))
    world.wait(10)
    assert world.waits("p7") == ("dependencies form a cycle: Pod/ml/p0 -> (more than 100 objects) -> Pod/ml/p0")


def test_a_cycle_with_many_dependencies_is_told_without_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST_LINKS", 100)
    world = World()
    number = 20
    for index in range(number):
        after = ", ".join(f"pod/p{(index + step) % number}" for step in range(1, 9))
        world.put(pod(f"p{index}", f"[{after}]"))
    world.wait(10)
    assert world.waits("p7") == (
        "dependencies form a cycle: Pod/ml/p0 -> (19 more objects with more than 100 dependencies) -> Pod/ml/p0"
    )


def test_components_need_no_recursion() -> None:
    edges = {number: [number + 1] for number in range(20_000)}
    found = [each for each in components([0], lambda number: edges.get(number, [])) if each]
    assert len(found) == 20_001
    assert found[0] == [20_000]


@pytest.mark.slow
def test_a_hundred_thousand_deep_and_wide() -> None:
    world = World()
    for number in range(100_000):
        world.engine.handle(PodSeen(pod(f"p{number}", f"[pod/p{number + 1}]")), 0.0)
    world.wait(200)
    assert world.waits("p0") == "waits for Pod/ml/p1, and that for Pod/ml/p100000, which does not exist"
    wide = world_of(0)
    for number in range(100_000):
        wide.engine.handle(PodSeen(pod(f"p{number}", "[job/a]")), 6.0)
    wide.now = 6.0
    wide.engine.handle(WorkloadSeen(workload("Job/a", complete=True, version="999999")), 6.0)
    wide.settle()
    assert len(wide.released()) == 100_000
    assert isinstance(wide.engine.handle(Ticked(), 7.0), list)
