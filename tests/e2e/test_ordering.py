"""Start-up ordering on the real control plane: gates that go in time, pods without a gate, controllers, and a restart.

Waggle has the account and the rights that manifests/base and components/ordering ship.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.bench.plan.gates import measure
from tests.e2e.cluster import describe
from tests.e2e.hands import Object
from tests.e2e.world import RealCluster, eventually

WORLD = {"settings": {"ordering": {"enabled": True, "grace_seconds": 1}}}
GATE = [{"name": "waggle.dev/after"}]


def after(text: str) -> dict[str, str]:
    return {"waggle.dev/after": text}


def gates(w: RealCluster, name: str) -> list[Object]:
    found: Object = describe(w.http.get(f"/api/v1/namespaces/{w.namespace}/pods/{name}"))
    gates: list[Object] = found["spec"].get("schedulingGates", [])
    return gates


def held(w: RealCluster) -> dict[str, str]:
    """The codes of the pods of this test that are held back."""
    page: Any = w.ask_waggle("/v1/inspect/ordering")
    return {each["name"]: each["reason"]["code"] for each in page["items"] if each["namespace"] == w.namespace}


def waits(w: RealCluster, name: str, code: str = "") -> None:
    """Wait until a pod is held back; with this code if one is given: after its grace a target is missing."""
    eventually(lambda: name in held(w) and code in held(w)[name], lambda: f"{name} waits with {code}: {held(w)}")


def test_a_gate_goes_when_the_other_pod_is_ready(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("b", gpus=1, annotations=after("[{kind: Pod, name: a}]"), schedulingGates=GATE)
    waits(w, "b")
    assert not w.node_of("b")
    w.pod("a", gpus=1)
    w.all_placed(["a", "b"])
    assert gates(w, "b") == []


def test_a_pod_without_a_gate_is_refused_by_filter_and_tried_again(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("b", gpus=1, annotations=after("[{kind: Pod, name: a}]"))
    w.refused("b", "waits for")
    begun = time.monotonic()
    w.pod("a", gpus=1)
    w.all_placed(["a", "b"])
    assert time.monotonic() - begun < 15


def test_a_missing_target_is_told_in_an_event(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("b", annotations=after("[{kind: Job, name: prepare, state: Complete}]"), schedulingGates=GATE)
    waits(w, "b", "DependencyNotFound")
    (event,) = eventually(lambda: w.events("b", "DependencyNotFound"), "the Event is there")
    assert "prepare" in event["message"]


@pytest.mark.parametrize("state", ["Ready", "Scheduled"])
def test_a_deployment_of_the_real_controllers(w: RealCluster, state: str) -> None:
    """All pods of a ReplicaSet, made by its controller and run by KWOK."""
    w.nodes(2)
    w.pod("b", annotations=after(f"[{{kind: ReplicaSet, name: web, state: {state}}}]"), schedulingGates=GATE)
    labels = {"app": "web"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": w.pod_spec()}}
    w.create({"kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": {"replicas": 3, **spec}})
    w.place("b")


def test_pods_inherit_what_their_replica_set_declares(w: RealCluster) -> None:
    w.nodes(2)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": w.pod_spec(schedulingGates=GATE)}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "annotations": after("[{kind: Pod, name: a}]")}
    w.create({"kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    eventually(lambda: len(held(w)) == 2, lambda: f"two pods wait: {held(w)}")
    names = list(held(w))
    w.pod("a")
    w.all_placed(["a", *names])


def test_a_restart_loses_nothing(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("b", annotations=after("[{kind: Pod, name: a}]"), schedulingGates=GATE)
    waits(w, "b")
    assert w.waggle is not None
    w.waggle.kill()
    w.pod("a", schedulerName="nobody")
    describe(
        w.http.post(
            f"/api/v1/namespaces/{w.namespace}/pods/a/binding",
            json={"metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"}},
        )
    )
    w.start_waggle()
    w.place("b")


def test_gates_go_within_the_round_trip_of_the_event(w: RealCluster, record_property: Any) -> None:
    """The aim is two round trips and 20 ms for 99 of 100. On a busy machine the median has to do."""
    w.nodes(1, pods="1000")
    w.quiet()
    found = measure(w.cluster.client, w.namespace, "n0")
    record_property("measured", f"gates: {found.text()}")
    assert found.p50 <= found.aim, found.text()
