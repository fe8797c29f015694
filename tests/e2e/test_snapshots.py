"""The cluster as a plan reads it, from a real API server: all lists at one version, and what it has as it has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from extender.operate.cluster_world import Reading, read_cluster
from extender.ordering.records import Target
from extender.plan.reading.anonymous import anonymous
from extender.plan.reading.snapshots import read_snapshot, write_snapshot
from extender.plan.reading.worlds import WorldReader
from extender.settings import ClusterSettings
from tests.e2e.cluster import ControlPlane
from tests.support.kubectl import Kubectl

_NAMESPACE = "snapshots"


def _pod(name: str) -> dict[str, Any]:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x", "command": ["do-not-keep"]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def kubectl(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")
    Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home)(f"create namespace {_NAMESPACE}")
    made = Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home, _NAMESPACE)
    made("apply -f -", given=_pod("first"))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": _pod("")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    made("apply -f -", given=web)
    made("wait --for=jsonpath={.status.replicas}=1 deployment/web")
    yield made
    made(f"delete namespace {_NAMESPACE} --wait=false")


def _read(plane: ControlPlane) -> Reading:
    return read_cluster(ClusterSettings(kubeconfig=plane.kubeconfig("admin")), configuration="log: {}")


def _names(found: Reading) -> set[str]:
    return {each.pod.pod.name for each in found.world.pods if each.pod.pod.namespace == _NAMESPACE}


def test_what_changes_while_it_is_read_is_not_seen(
    plane: ControlPlane, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, done = WorldReader.read, []

    def and_change(reader: WorldReader, api_version: str, kind: str, raw: Any) -> Any:
        if not done:
            done.append(kubectl("apply -f -", given=_pod("late")))
        return read(reader, api_version, kind, raw)

    monkeypatch.setattr(WorldReader, "read", and_change)
    found = _read(plane)
    assert not [each for each in found.warnings if "changed while it was read" in each]
    assert "first" in _names(found)
    assert "late" not in _names(found)
    assert "late" in _names(_read(plane))


def test_a_snapshot_has_owners_and_no_commands(plane: ControlPlane, kubectl: Kubectl) -> None:
    world = _read(plane).world
    ours = [each for each in world.pods if each.pod.pod.namespace == _NAMESPACE]
    (pod,) = [each for each in ours if each.pod.pod.name.startswith("web-")]
    assert pod.owner is not None
    assert pod.owner.kind == "ReplicaSet"
    assert pod.above == (Target("Deployment", _NAMESPACE, "web"),)
    assert "do-not-keep" not in repr(world)
    assert read_snapshot(write_snapshot(world)) == world
    assert _NAMESPACE not in repr(anonymous(world).world)
