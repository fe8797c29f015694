"""Knative's consumer groups as vpods: read and written as their own controller would, on the definition it installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.apiserver.api import eventually
from tests.support.cluster.vpod_world import VPodWorld, vpod_world
from tests.unit.vpods.knative import DEFINITION, GROUP, KIND_LABEL, consumer_group

GROUPS = f"/apis/{GROUP}/v1alpha1/namespaces/user/consumergroups"
Object = dict[str, Any]


def source(kind: str) -> Object:
    return {
        "name": kind,
        "group": GROUP,
        "version": "v1alpha1",
        "resource": "consumergroups",
        "set": "default/fleet",
        "where": {f".metadata.labels['{KIND_LABEL}']": kind},
    }


@contextmanager
def kafka(**more: Any) -> Iterator[VPodWorld]:
    """The set `default/fleet` hosts consumer groups of KafkaSources."""
    with vpod_world(
        namespaces=["*"],
        vpods={"resources": [source("kafkasource")], "custom_resources": False},
        is_witnessed=False,
        prepare=lambda w: w.cluster.create(DEFINITION),
        **more,
    ) as w:
        yield w


def add(w: VPodWorld, name: str, replicas: Any, **more: Any) -> None:
    """As the controller does: first the object, then its own part of the status."""
    group = consumer_group(name, replicas=replicas, **more)
    status = group.pop("status")
    group["metadata"] = {key: group["metadata"][key] for key in ("name", "labels")}
    made = w.api.post(GROUPS, group)
    assert made.status_code == 201, made.text
    assert w.api.patch(f"{GROUPS}/{name}/status", {"status": status}).status_code == 200


def status(w: VPodWorld, name: str) -> Object:
    found: Object = w.api.get(f"{GROUPS}/{name}").json().get("status", {})
    return found


def placements(w: VPodWorld, name: str) -> list[tuple[str, int]]:
    found = status(w, name).get("placements", ())
    return [(each["podName"], each["vreplicas"]) for each in found if isinstance(each, dict)]


def placed(w: VPodWorld, name: str, number: int) -> list[tuple[str, int]]:
    eventually(
        lambda: sum(count for _, count in placements(w, name)) == number, why=lambda: f"{name}: {status(w, name)}"
    )
    return placements(w, name)


def test_a_consumer_group_is_placed_and_the_rest_of_its_status_stays() -> None:
    with kafka(replicas=3, min_replicas=3) as w:
        add(w, "orders", 6)
        assert placed(w, "orders", 6) == [("fleet-0", 2), ("fleet-1", 2), ("fleet-2", 2)]
        before = consumer_group("orders")["status"]
        found = status(w, "orders")
        assert {name: found[name] for name in before} == before


def test_it_is_scaled_as_keda_does_by_steps_of_one_and_stays_even() -> None:
    with kafka(replicas=3, min_replicas=3) as w:
        add(w, "orders", 1)
        for number in range(1, 11):
            done = w.api.patch(f"{GROUPS}/orders/scale", {"spec": {"replicas": number}})
            assert done.status_code == 200, done.text
            placed(w, "orders", number)
        assert sorted((count for _, count in placements(w, "orders")), reverse=True) == [4, 3, 3]


def test_one_for_another_kind_is_left_alone_and_followed_when_its_kind_changes() -> None:
    with kafka(replicas=2, min_replicas=2) as w:
        add(w, "trigger", 2, kind="trigger")
        add(w, "orders", 2)
        placed(w, "orders", 2)
        assert placements(w, "trigger") == []
        w.api.patch(f"{GROUPS}/trigger", {"metadata": {"labels": {KIND_LABEL: "kafkasource"}}})
        placed(w, "trigger", 2)


def test_a_pod_with_knatives_annotation_takes_nothing_and_what_it_has_moves() -> None:
    with kafka(replicas=2, min_replicas=2) as w:
        add(w, "orders", 4)
        placed(w, "orders", 4)
        note = {"metadata": {"annotations": {"eventing.knative.dev/unschedulable": "true"}}}
        assert w.api.patch("/api/v1/namespaces/default/pods/fleet-0", note).status_code == 200
        eventually(lambda: "fleet-0" not in dict(placements(w, "orders")))
        placed(w, "orders", 4)


def test_placements_of_somebody_else_are_corrected_and_a_bad_number_stops_nobody() -> None:
    with kafka(replicas=2, min_replicas=2) as w:
        odd = [
            {"podName": "kafka-other-7", "vreplicas": 3},
            {"podName": "fleet-0", "vreplicas": 1},
            {"podName": "fleet-0", "vreplicas": 1},
            "no entry",
        ]
        add(w, "odd", 2, placements=odd)
        add(w, "broken", "two")
        add(w, "well", 2)
        placed(w, "well", 2)
        eventually(lambda: sum(count for _, count in placements(w, "odd")) == 2)
        eventually(lambda: all(name.startswith("fleet-") for name, _ in placements(w, "odd")))
        assert placements(w, "broken") == []


def test_another_leader_moves_nothing() -> None:
    with kafka(replicas=3, min_replicas=3) as w:
        for number in range(5):
            add(w, f"g{number}", number)
            placed(w, f"g{number}", number)
        w.resting()
        before = {f"g{number}": placements(w, f"g{number}") for number in range(5)}
        w.end(w.server)
        revision = w.cluster.revision
        w.serve()
        w.resting()
        assert {name: placements(w, name) for name in before} == before
        assert w.cluster.revision == revision


PILED = [{"podName": f"fleet-{ordinal}", "vreplicas": number} for ordinal, number in enumerate((8, 1, 1))]


def test_what_knatives_scheduler_has_placed_stays_under_its_policy() -> None:
    with kafka(replicas=3, min_replicas=3, policy="head", serve=False) as w:
        add(w, "orders", 10, placements=PILED)
        w.serve()
        w.resting()
        assert placements(w, "orders") == [("fleet-0", 8), ("fleet-1", 1), ("fleet-2", 1)]


def test_and_is_evened_out_by_balanced() -> None:
    with kafka(replicas=3, min_replicas=3, serve=False) as w:
        add(w, "orders", 10, placements=PILED)
        w.serve()
        eventually(lambda: sorted((count for _, count in placements(w, "orders")), reverse=True) == [4, 3, 3])
