"""A slice of what the adversary of vpods does, and proof that its judge notices what is wrong."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.conformance.vpods_adversary.history import Write
from tests.conformance.vpods_adversary.judge import GRACE, Judge
from tests.conformance.vpods_adversary.search import attempt
from tests.conformance.vpods_adversary.world import Draw, SetDraw

FLEET = SetDraw(
    name="fleet",
    replicas=3,
    capacity=3,
    policy="balanced",
    autoscale=True,
    least=1,
    most=4,
    max_moves=16,
    up_step=0,
    down_step=0,
    zones=True,
    is_object=False,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 7])
def test_every_promise_is_kept_in_a_storm(seed: int) -> None:
    """Such storms found vpods that waited beside free room, and a write that was refused for nothing and never sent
    again.
    """
    outcome = attempt(seed, storms=1, steps=50)
    assert not outcome.found, "\n".join([str(outcome.draw), *outcome.found[:5], *outcome.trace[-100:]])


def test_a_seed_is_a_world() -> None:
    assert Draw.of(7) == Draw.of(7)
    draws = [Draw.of(seed) for seed in range(200)]
    assert {draw.servers for draw in draws} == {1, 2, 3}
    assert all(each.least <= each.replicas <= each.most for draw in draws for each in draw.sets)


class Story:
    """A history as the API server would have written it: three well pods, and vpods."""

    def __init__(self) -> None:
        self.judge = Judge({"fleet": FLEET}, set())
        self._revisions = count(1)
        self.now = 100.0
        self.scale(3, own=True)
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.write("nodes", "n0", {"metadata": {"name": "n0"}, "spec": {}, "status": status})
        for ordinal in range(4):
            self.pod(ordinal, ready=True)

    def write(self, kind: str, name: str, body: dict[str, Any], *, own: bool = False) -> None:
        revision = next(self._revisions)
        if own:
            self.judge.own.add(revision)
        self.judge.take(Write(revision, self.now, kind, name, False, body))

    def pod(self, ordinal: int, *, ready: bool) -> None:
        name = f"fleet-{ordinal}"
        conditions = [{"type": "Ready", "status": str(ready)}]
        metadata = {"name": name, "namespace": "default"}
        body = {"metadata": metadata, "spec": {"nodeName": "n0"}, "status": {"conditions": conditions}}
        self.write("pods", f"default/{name}", body)

    def scale(self, replicas: int, *, own: bool = False) -> None:
        body = {"metadata": {"name": "fleet"}, "spec": {"replicas": replicas}}
        self.write("statefulsets", "default/fleet", body, own=own)

    def vpod(self, name: str, wanted: int, *placed: tuple[str, int], own: bool = False, **status: Any) -> None:
        placements = [{"podName": pod, "vreplicas": number} for pod, number in placed]
        full = {"placements": placements, "scheduled": sum(n for _, n in placed), "observedGeneration": 1, **status}
        metadata = {"name": name, "namespace": "default", "generation": 1}
        body = {"metadata": metadata, "spec": {"set": "fleet", "vreplicas": wanted}, "status": full}
        self.write("vpods", f"default/{name}", body, own=own)

    def whole(self, name: str, *placed: tuple[str, int]) -> None:
        """A vpod as it is at rest."""
        conditions = [{"type": "Scheduled", "status": "True"}]
        self.vpod(name, sum(number for _, number in placed), *placed, reason="Placed", conditions=conditions)


def one(found: list[str], text: str) -> None:
    assert len(found) == 1, found
    assert text in found[0]


def test_what_is_right_is_not_complained_of() -> None:
    story = Story()
    story.whole("a", ("fleet-0", 1), ("fleet-1", 1), ("fleet-2", 1))
    story.whole("b", ("fleet-0", 2), ("fleet-1", 2), ("fleet-2", 2))
    assert [*story.judge.found, *story.judge.at_rest()] == []


def test_a_pod_that_holds_too_much_is_noticed() -> None:
    story = Story()
    story.vpod("a", 2, ("fleet-0", 2))
    story.vpod("b", 2, ("fleet-0", 2))
    one(story.judge.found, "fleet-0 has 4 of 3")


def test_somebody_elses_nonsense_is_not_waggles() -> None:
    story = Story()
    story.vpod("a", 2, ("fleet-0", 9), ("other", 1), own=True)
    assert story.judge.found == []
    story.vpod("a", 2, ("fleet-0", 2))
    assert story.judge.found == []


def test_a_vreplica_that_is_placed_twice_is_noticed() -> None:
    story = Story()
    story.vpod("a", 2, ("fleet-0", 2), ("fleet-1", 1))
    one(story.judge.found, "more than it wants")


@pytest.mark.parametrize("placed", [[("other-0", 1)], [("fleet-01", 1)], [("fleet-0", 1), ("fleet-0", 1)]])
def test_a_wrong_list_is_noticed(placed: list[tuple[str, int]]) -> None:
    story = Story()
    story.vpod("a", 2, *placed)
    one(story.judge.found, "a list of placements that is wrong")


def test_a_set_that_shrinks_over_vreplicas_is_noticed() -> None:
    story = Story()
    story.whole("a", ("fleet-2", 1))
    story.scale(2)
    one(story.judge.found, "from 3 to 2 while {'fleet-2': 1} were there")


def test_somebody_else_may_shrink_the_set() -> None:
    story = Story()
    story.whole("a", ("fleet-2", 1))
    story.scale(2, own=True)
    assert story.judge.found == []


def test_what_somebody_else_places_at_the_last_moment_is_not_waggles_fault() -> None:
    story = Story()
    story.vpod("a", 1, ("fleet-2", 1), own=True)
    story.scale(2)
    assert story.judge.found == []


def test_replicas_out_of_bounds_are_noticed() -> None:
    story = Story()
    story.scale(5)
    one(story.judge.found, "out of 1 to 4")


def test_vreplicas_on_a_pod_that_is_away_are_noticed() -> None:
    story = Story()
    story.pod(1, ready=False)
    story.now += GRACE / 2
    story.vpod("a", 2, ("fleet-1", 1))
    assert story.judge.found == []
    story.now += GRACE
    story.vpod("a", 2, ("fleet-1", 2))
    one(story.judge.found, "has not been well for")


def test_what_is_not_balanced_at_rest_is_noticed() -> None:
    story = Story()
    story.whole("a", ("fleet-0", 3))
    story.whole("b", ("fleet-0", 0), ("fleet-1", 1))
    assert any("a is not balanced" in text for text in story.judge.at_rest())


def test_free_room_beside_a_vpod_that_waits_is_noticed() -> None:
    story = Story()
    conditions = [{"type": "Scheduled", "status": "False"}]
    story.vpod("a", 5, ("fleet-0", 3), reason="NotEnoughRoom", conditions=conditions)
    assert any("there is room for 5" in text for text in story.judge.at_rest())


def test_replicas_that_are_not_needed_are_noticed() -> None:
    story = Story()
    story.whole("a", ("fleet-0", 1))
    one([text for text in story.judge.at_rest() if "replicas" in text], "3 replicas, and 1 are needed")
