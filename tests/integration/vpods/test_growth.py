"""Sets grow for what vpods want, and shrink only once the pods that go are empty."""

from __future__ import annotations

from tests.support.apiserver.api import eventually
from tests.support.cluster.vpod_world import vpod_world


def test_vpods_are_placed_evenly_and_the_set_grows_for_more() -> None:
    with vpod_world(replicas=3, capacity=4, min_replicas=3) as w:
        w.add_vpod("a", 5)
        assert sorted(w.placed("a", 5).values()) == [1, 2, 2]
        w.want("a", 14)
        w.placed("a", 14)
        assert w.replicas() == 4


def test_a_set_is_drained_before_it_shrinks() -> None:
    with vpod_world(replicas=4, capacity=4, min_replicas=1) as w:
        w.add_vpod("a", 8)
        w.placed("a", 8)
        eventually(lambda: w.replicas() == 2)
        assert w.placements("a") == {"fleet-0": 4, "fleet-1": 4}
        w.want("a", 1)
        eventually(lambda: w.replicas() == 1)
        eventually(lambda: w.placements("a") == {"fleet-0": 1})
