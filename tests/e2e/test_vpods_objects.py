"""Objects that people and controllers write, on a real API server.

What cannot be is refused by the definitions, or said by one condition that names the field, and everything else goes
on. Consumer groups of Knative are placed like vpods.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.hands import Object, eventually
from tests.e2e.vpod_history import named
from tests.e2e.vpods import WAGGLE, VPodCluster, placements, scheduled, vpod_cluster
from tests.support.kubectl import Kubectl
from tests.unit.vpods.knative import DEFINITION, GROUP, KIND_LABEL, consumer_group

RIGHTS = Path(__file__).parents[2] / "manifests" / "vpods" / "consumergroups.yaml"
GROUPS = f"/apis/{GROUP}/v1alpha1/consumergroups"
KNATIVE = "knative-eventing"
#: As docs/moving-from-knative.md has it, for one of the three kinds.
SOURCES = {
    "name": "sources",
    "group": GROUP,
    "version": "v1alpha1",
    "resource": "consumergroups",
    "set": f"{KNATIVE}/kafka-source-dispatcher",
    "where": {f".metadata.labels['{KIND_LABEL}']": "kafkasource"},
}


@pytest.fixture(scope="module")
def shared(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VPodCluster]:
    home = tmp_path_factory.mktemp("vpods")
    admin = Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home)
    admin("apply -f -", given=DEFINITION)
    admin("apply -f", str(RIGHTS))
    admin(f"wait --for=condition=Established --timeout=30s crd/consumergroups.{GROUP}")
    with vpod_cluster(plane, programs, home, GROUPS, servers=("a",), resources=[SOURCES]) as w:
        yield w


@pytest.fixture
def w(shared: VPodCluster) -> Iterator[VPodCluster]:
    try:
        yield shared
        shared.check()
    finally:
        shared.clear()


# -- bad input


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("VPod", {"set": "fleet", "vreplicas": -1}, "spec.vreplicas"),
        ("VPod", {"set": "fleet", "vreplicas": 2**31}, "spec.vreplicas"),
        ("VPod", {"set": "fleet", "vreplicas": "many"}, "spec.vreplicas"),
        ("VPod", {"set": "fleet", "spread": -1}, "spec.spread"),
        ("VPod", {"set": "a/b/c"}, "spec.set"),
        ("VPod", {"vreplicas": 1}, "spec.set"),
        ("VPodSet", {"statefulSet": "fleet", "capacity": 0}, "spec.capacity"),
        ("VPodSet", {"statefulSet": "fleet", "capacity": 2**31}, "spec.capacity"),
        ("VPodSet", {"statefulSet": "Fleet!", "capacity": 1}, "spec.statefulSet"),
        ("VPodSet", {"capacity": 1}, "spec.statefulSet"),
        ("VPodSet", {"statefulSet": "fleet", "capacity": 1, "namespaces": ["A b"]}, "spec.namespaces"),
    ],
)
def test_the_definitions_refuse_it(w: VPodCluster, kind: str, spec: Mapping[str, Any], field: str) -> None:
    answer = w.make(kind, "bad", spec)
    assert answer.status_code == 422, answer.text
    assert field in answer.json()["message"]


def test_what_the_definitions_cannot_refuse_is_said_by_one_condition(w: VPodCluster) -> None:
    """And every other set goes on."""
    w.fleet(replicas=1, capacity=10)
    w.stateful_set("other", 1)
    head = {"statefulSet": "other", "capacity": 5}
    bad = {
        "less-than-least": {**head, "minReplicas": 5, "maxReplicas": 2},
        "no-such-policy": {**head, "policy": "best"},
        "taken": {"statefulSet": "fleet", "capacity": 5},
        "nowhere": {"statefulSet": "missing", "capacity": 5},
        "elsewhere": {"statefulSet": "late", "capacity": 5},
    }
    w.stateful_set("late", 1, ordinals={"start": 5})
    for name, spec in bad.items():
        describe(w.make("VPodSet", name, spec))
    eventually(lambda: all(name in _ready(w) for name in bad), lambda: str(_ready(w)))
    said = _ready(w)
    assert said["less-than-least"] == ("Misconfigured", "spec.maxReplicas: expected at least minReplicas (5), got 2")
    assert said["no-such-policy"][0] == "Misconfigured"
    assert said["no-such-policy"][1].startswith("spec.policy: ")
    assert said["taken"][0] == "Misconfigured"
    assert said["taken"][1].startswith("spec.statefulSet: set ")
    assert said["nowhere"][0] == "NoStatefulSet"
    assert said["nowhere"][1].endswith(f"there is no StatefulSet {w.namespace}/missing")
    assert said["elsewhere"][1] == f"spec.statefulSet: {w.namespace}/late has spec.ordinals.start 5; expected 0"
    assert said["fleet"] == ("Served", "vpods are placed")
    names = ("taken", "nowhere", "elsewhere", "no-such-set")
    for name in names:
        w.vpod(f"of-{name}", 2, set_name=name)
    w.vpod("good", 4)
    w.placed("good")
    for name in names:
        eventually(lambda name=name: w.reason(f"of-{name}"), f"{name} is said")  # type: ignore[misc]
        condition = scheduled(w.vpods()[f"of-{name}"])
        assert (condition["status"], condition["message"].partition(":")[0]) == ("False", "spec.set"), condition
    assert w.reason("of-nowhere") == w.reason("of-elsewhere") == "NoStatefulSet"
    assert w.reason("of-no-such-set") == "UnknownSet"
    _nothing_goes_on(w)
    w.stateful_set("missing", 2)
    w.placed("of-nowhere")
    w.kubectl("delete vpodset fleet --timeout=20s")  # then the set that came second has the StatefulSet
    w.placed("of-taken")
    eventually(lambda: w.reason("good") == "UnknownSet", lambda: str(w.vpods()["good"]))
    assert sum(placements(w.vpods()["good"]).values()) == 4  # it stays where it was


def test_a_namespace_that_may_not_use_a_set_is_told_so(w: VPodCluster) -> None:
    w.fleet(replicas=1, capacity=10)
    home = w.namespace
    w.enter_namespace()
    guest, w.namespace = w.namespace, home
    spec = {"set": f"{home}/fleet", "vreplicas": 2}
    body = {"apiVersion": "waggle.dev/v1alpha1", "kind": "VPod", "metadata": {"name": "guest"}, "spec": spec}
    path = WAGGLE.format(guest, "vpods")
    describe(w.http.post(path, json=body))

    def condition() -> Object:
        return scheduled(describe(w.http.get(f"{path}/guest")))

    try:
        eventually(lambda: condition().get("reason") == "NotAllowed", lambda: str(condition()))
        assert condition()["message"] == f"spec.set: {home}/fleet does not admit namespace {guest}"
        w.kubectl("patch vpodset fleet --type=merge -p", f'{{"spec": {{"namespaces": ["{guest}"]}}}}')
        eventually(lambda: condition().get("status") == "True", lambda: str(condition()))
    finally:
        describe(w.http.delete(f"{path}/guest"))


def test_placements_that_cannot_be_are_reported_and_replaced(w: VPodCluster) -> None:
    w.fleet(replicas=3, capacity=10, minReplicas=3)
    w.vpod("x", 3)
    w.vpod("y", 3)
    before = w.rest()
    bad = [
        {"podName": "fleet-0", "vreplicas": 1},
        {"podName": "fleet-0", "vreplicas": 1},
        {"podName": "fleet", "vreplicas": 1},
        {"podName": "another-1", "vreplicas": 1},
        {"podName": "fleet-01", "vreplicas": 1},
        {"podName": "fleet-99999999999", "vreplicas": 1},
        {"podName": "fleet-2"},
    ]
    w.http.patch(
        f"{WAGGLE.format(w.namespace, 'vpods')}/x/status",
        json={"status": {"placements": bad}},
        headers={"content-type": "application/merge-patch+json"},
    ).raise_for_status()
    assert w.placed("x") == before["x"]
    w.want("y", 9)
    w.placed("y")
    event = eventually(lambda: w.events("x", "BadPlacements"), "it is said")[0]
    assert "status.placements[2].podName" in event["message"]


# -- resources of others


def test_consumer_groups_are_placed_as_knative_does_it(w: VPodCluster) -> None:
    """Their placements stand in the status beside what others wrote there; those of another kind are left alone."""
    home = w.namespace
    describe(w.http.post("/api/v1/namespaces", json={"metadata": {"name": KNATIVE}}))
    w.namespace = KNATIVE
    try:
        w.bind_rights()
        w.fleet("kafka-source-dispatcher", replicas=3, capacity=20, minReplicas=3, namespaces=["*"])
        _apply(w, consumer_group("orders", replicas=10), home)
        _apply(w, consumer_group("parcels", replicas=None), home)
        _apply(w, consumer_group("trigger", replicas=10, kind="trigger"), home)
        eventually(lambda: _placed(w, home, "orders") == [4, 3, 3], lambda: str(_groups(w, home)["orders"]["status"]))
        eventually(lambda: _placed(w, home, "parcels") == [1], lambda: str(_groups(w, home)["parcels"]["status"]))
        status = _groups(w, home)["orders"]["status"]
        assert status["maxAllowedVReplicas"] == 7
        assert [each["type"] for each in status["conditions"]] == ["ConsumersScheduled", "Ready"]
        assert all(set(each) == {"podName", "vreplicas"} for each in status["placements"])
        Kubectl(w._kubectl, w.plane.kubeconfig("admin"), w.home, home)("scale consumergroup orders --replicas=12")
        eventually(lambda: _placed(w, home, "orders") == [4, 4, 4], lambda: str(_groups(w, home)["orders"]["status"]))
        w.kubectl("annotate pod kafka-source-dispatcher-1 eventing.knative.dev/unschedulable=true")
        eventually(
            lambda: all("kafka-source-dispatcher-1" not in placements(each) for each in _groups(w, home).values()),
            lambda: str(_groups(w, home)),
        )
        assert sorted(_placed(w, home, "orders")) == [6, 6]
        assert not placements(_groups(w, home)["trigger"])
        (found,) = w.counted("waggle_vpods_scheduled_vreplicas", "a").values()
        assert found == 13
        w.laws()
    finally:
        Kubectl(w._kubectl, w.plane.kubeconfig("admin"), w.home, home)("delete consumergroups --all --timeout=20s")
        w.clear()


def _apply(w: VPodCluster, group: Object, namespace: str) -> None:
    """As its controller does: the object, then what stands in its status."""
    metadata = {"name": group["metadata"]["name"], "labels": group["metadata"]["labels"]}
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/consumergroups"
    describe(w.http.post(path, json={**group, "metadata": metadata}))
    describe(
        w.http.patch(
            f"{path}/{metadata['name']}/status",
            json={"status": group["status"]},
            headers={"content-type": "application/merge-patch+json"},
        )
    )


def _groups(w: VPodCluster, namespace: str) -> dict[str, Object]:
    return named(describe(w.http.get(f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/consumergroups"))["items"])


def _placed(w: VPodCluster, namespace: str, name: str) -> list[int]:
    return list(placements(_groups(w, namespace)[name]).values())


def _ready(w: VPodCluster) -> dict[str, tuple[str, str]]:
    """Reason and message of the condition Ready, by set."""
    return {
        name: (condition["reason"], condition["message"])
        for name, found in w.vpod_sets().items()
        for condition in found.get("status", {}).get("conditions") or ()
        if condition["type"] == "Ready"
    }


def _nothing_goes_on(w: VPodCluster) -> None:
    """Neither to the API server nor to the log is anything written again and again. Numbers of sets may follow."""

    def state() -> tuple[dict[str, str], int]:
        sets = {name: found for name, found in w.vpod_sets().items() if name not in ("fleet", "nowhere", "elsewhere")}
        objects = {**w.vpods(), **sets}
        return {name: found["metadata"]["resourceVersion"] for name, found in objects.items()}, w.logged("")

    before = state()
    time.sleep(3)
    assert state() == before, w.servers["a"].last_words()
