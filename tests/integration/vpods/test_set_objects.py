"""VPodSet objects: served like configured sets; what is wrong with one stands in its conditions, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.apiserver.api import eventually
from tests.support.cluster.vpod_world import SETS, VPodWorld, add_set, condition, set_status, vpod_world


@contextmanager
def object_world(**more: Any) -> Iterator[VPodWorld]:
    """The set `default/fleet` is an object, and nothing stands in the configuration."""
    with vpod_world(vpods={"sets": []}, **more) as w:
        yield w


def ready(w: VPodWorld, name: str = "fleet") -> tuple[str, str]:
    return condition(set_status(w, name), "Ready")[:2]


def test_a_set_that_is_an_object_is_served_and_its_status_has_the_numbers() -> None:
    with object_world(replicas=3, capacity=10) as w:
        add_set(w, minReplicas=3)
        w.add_vpod("a", 6)
        assert sorted(w.placed("a", 6).values()) == [2, 2, 2]
        eventually(lambda: ready(w) == ("True", "Served"))
        eventually(lambda: set_status(w)["placed"] == 6)
        status = set_status(w)
        assert (status["replicas"], status["usable"], status["capacity"]) == (3, 3, 30)
        assert (status["pending"], status["free"], status["draining"]) == (0, 24, 0)
        assert status["observedGeneration"] == 1


def test_an_object_that_changes_is_followed_at_once() -> None:
    with object_world(replicas=2, capacity=10) as w:
        add_set(w, minReplicas=2)
        w.add_vpod("a", 4)
        w.placed("a", 4)
        done = w.api.patch(f"{SETS}/fleet", {"spec": {"minReplicas": 4}})
        assert done.status_code == 200
        eventually(lambda: w.replicas() == 4)
        eventually(lambda: set_status(w).get("observedGeneration") == 2)


def test_a_set_without_its_stateful_set_says_so_in_one_condition() -> None:
    with object_world() as w:
        add_set(w, "ghost")
        eventually(lambda: ready(w, "ghost") == ("False", "NoStatefulSet"))
        assert (
            condition(set_status(w, "ghost"), "Ready")[2] == "spec.statefulSet: there is no StatefulSet default/ghost"
        )
        w.add_vpod("a", 1, set="ghost")
        eventually(lambda: w.reason("a") == "NoStatefulSet")
        eventually(lambda: set_status(w, "ghost")["pending"] == 1)
        w.resting()
        before = w.cluster.revision
        time.sleep(1.5)
        assert w.cluster.revision == before  # nothing is written, and no error is repeated, every second
        w.deploy("ghost", 1)
        w.placed("a", 1)
        eventually(lambda: ready(w, "ghost") == ("True", "Served"))


def test_of_two_sets_over_one_stateful_set_the_first_has_it() -> None:
    with object_world() as w:
        add_set(w, "fleet")
        eventually(lambda: ready(w) == ("True", "Served"))
        time.sleep(1)  # ages are whole seconds
        add_set(w, "second", statefulSet="fleet")
        eventually(lambda: ready(w, "second") == ("False", "Misconfigured"))
        expected = "spec.statefulSet: set default/fleet has fleet, and came first; expected another one"
        assert condition(set_status(w, "second"), "Misconfigured") == ("True", "StatefulSetTaken", expected)
        w.api.delete(f"{SETS}/fleet")
        eventually(lambda: ready(w, "second") == ("True", "Served"))


def test_a_set_of_the_configuration_goes_before_an_object_of_its_name() -> None:
    with vpod_world() as w:
        add_set(w, "fleet")
        eventually(lambda: condition(set_status(w), "Misconfigured")[:2] == ("True", "InConfiguration"))
