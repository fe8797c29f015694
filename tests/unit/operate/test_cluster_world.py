"""The cluster, read from the API server: at one version, and what could not be read is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver.faults import Fault
from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
from extender.operate.cluster_world import Reading, read_cluster
from extender.plan.reading.documents import InputError
from extender.plan.reading.snapshots import read_snapshot
from extender.plan.reading.worlds import WorldReader
from extender.settings import ClusterSettings
from tests.unit.plan.reading.manifests import job, pod, workload


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(controllers=False) as served:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "gpu-seven"},
            "status": {"capacity": {"cpu": "4"}},
        }
        for each in (node, pod("train-one"), job("train"), workload("Deployment", "web", 1)):
            served.create(each)
        yield served


_DEFAULTS = (
    "Waggle's default configuration is used, since no Deployment of the cluster is Waggle's; name its own with --config"
)


def _read(cluster: EmbeddedCluster) -> Reading:
    return read_cluster(ClusterSettings(server=cluster.url))


def test_a_cluster_is_read(cluster: EmbeddedCluster) -> None:
    found = _read(cluster)
    assert found.warnings == (_DEFAULTS,)
    assert [each.name for each in found.world.nodes] == ["gpu-seven"]
    assert [each.pod.pod.name for each in found.world.pods] == ["train-one"]
    assert {each.kind for each in found.world.objects} == {"Job", "Deployment", "PriorityClass"}
    assert found.world.source == cluster.url
    assert found.world.taken


def test_what_changes_while_it_is_read_is_not_seen(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    read = WorldReader.read

    def and_change(reader: WorldReader, api_version: str, kind: str, raw: Any) -> Any:
        if kind == "Node":
            cluster.create(pod("late"))
        return read(reader, api_version, kind, raw)

    monkeypatch.setattr(WorldReader, "read", and_change)
    found = _read(cluster)
    assert [each.pod.pod.name for each in found.world.pods] == ["train-one"]
    assert found.warnings == (_DEFAULTS,)


def test_lists_that_are_newer_are_said(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(Fault(action="status", status=410, path="/pods.*Exact", times=None))
    cluster.faults.add(Fault(action="status", status=400, path="/nodes.*Exact", times=None))
    found = _read(cluster)
    assert found.warnings[1:] == ("the cluster changed while it was read: nodes, pods are newer than the rest",)
    assert len(found.world.pods) == len(found.world.nodes) == 1


def test_lists_that_may_not_be_read_are_said_and_kinds_that_are_not_installed_are_not(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(Fault(action="status", status=403, path="/deployments", message="no right", times=None))
    cluster.faults.add(Fault(action="status", status=404, path="/jobs", times=None))
    found = _read(cluster)
    reading = found.warnings[1:]
    assert len(reading) == 1
    assert reading[0].startswith("deployments may not be listed")
    assert "the plan does not know which pods belong together" in reading[0]
    assert {each.kind for each in found.world.objects} == {"PriorityClass"}


@pytest.mark.parametrize(("status", "path"), [(403, "/pods"), (403, "/nodes"), (500, "/deployments")])
def test_without_nodes_and_pods_there_is_no_plan(cluster: EmbeddedCluster, status: int, path: str) -> None:
    cluster.faults.add(Fault(action="status", status=status, path=path, message="no right", times=None))
    with pytest.raises(InputError, match=f"{path[1:]} cannot be read: .*no right"):
        _read(cluster)


def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"^http://127\.0\.0\.1:1: \[Errno 111\] Connection refused$"):
        read_cluster(ClusterSettings(server="http://127.0.0.1:1"))


def _install(cluster: EmbeddedCluster, name: str = "waggle", **data: str) -> None:
    """A Waggle as the manifests install it."""
    deployment = workload("Deployment", name, 1)
    deployment["metadata"] |= {"namespace": "waggle-system", "labels": {"app.kubernetes.io/part-of": "waggle"}}
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": f"{name}-config"}}]
    deployment["spec"]["template"]["spec"]["volumes"] = volumes
    metadata = {"name": f"{name}-config", "namespace": "waggle-system"}
    files = {key.replace("_", "."): text for key, text in data.items()}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files})
    cluster.create(deployment)


def test_the_configurations_are_those_of_the_installed_waggle(cluster: EmbeddedCluster) -> None:
    _install(cluster, "claims", waggle_yaml="extender: {enabled: false}")
    config = "algorithm: {name: hived, settings_file: /etc/waggle/config/hived.yaml}"
    _install(cluster, "waggle", waggle_yaml=config, hived_yaml="physicalCluster: {}\nvirtualClusters: {}")
    scheduler = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration"
    _install(cluster, "zecond", config_yaml=scheduler)
    found = _read(cluster)
    assert not found.warnings
    assert yaml.safe_load(found.world.settings) == {
        "algorithm": {"name": "hived", "settings": {"physicalCluster": {}, "virtualClusters": {}}}
    }
    assert found.world.scheduler == scheduler
    named = read_cluster(ClusterSettings(server=cluster.url), configuration="log: {}")
    assert (named.world.settings, named.world.scheduler) == ("log: {}", "")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            "algorithm: {name: 3}",
            "that in ConfigMap waggle-system/waggle-config cannot be used: waggle.yaml: ",
        ),
        ("algorithm: {settings_file: /x/own.yaml}", "/x/own.yaml is not in the same ConfigMap"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_said(cluster: EmbeddedCluster, config: str, why: str) -> None:
    _install(cluster, waggle_yaml=config)
    found = _read(cluster)
    assert why in found.warnings[0]
    assert found.world.settings == ""


def test_a_configuration_that_may_not_be_read_is_said(cluster: EmbeddedCluster) -> None:
    _install(cluster, waggle_yaml="log: {}")
    cluster.faults.add(Fault(action="status", status=403, path="/configmaps", message="no right", times=None))
    assert (
        "since its own may not be read (GET /api/v1/namespaces/waggle-system/configmaps" in _read(cluster).warnings[0]
    )


def test_the_command_writes_a_snapshot(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    out = tmp_path / "s.json.gz"
    config = tmp_path / "waggle.yaml"
    config.write_text("pods: {scheduler_names: [waggle]}")
    done = CliRunner().invoke(app, ["snapshot", "--server", cluster.url, "-o", str(out), "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert "1 nodes, 1 pods, 4 other objects" in done.output
    world = read_snapshot(out.read_bytes())
    assert world.settings == "pods: {scheduler_names: [waggle]}"
    assert out.stat().st_mode & 0o077 == 0


def test_a_snapshot_may_be_without_names(cluster: EmbeddedCluster) -> None:
    done = CliRunner().invoke(app, ["snapshot", "--server", cluster.url, "--anonymous"])
    assert done.exit_code == 0, done.stderr
    world = read_snapshot(done.stdout_bytes)
    assert len(world.pods) == 1
    text = repr(world)
    assert not [name for name in ("gpu-seven", "train", "web", "127.0.0.1") if name in text]


def test_a_snapshot_without_names_keeps_a_named_key(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    labels = {"acme.example/rack": "secret-one", "acme-tier": "secret-two"}
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "racked", "labels": labels}})
    out = tmp_path / "s.json.gz"

    def anonymous(*options: str) -> Result:
        return CliRunner().invoke(app, ["snapshot", "--server", cluster.url, "-o", str(out), *options])

    refused = anonymous("--anonymous", "--keep-key", "acme.example/rak")
    assert (refused.exit_code, out.exists()) == (2, False)
    assert "has the key acme.example/rak" in " ".join(refused.stderr.split())
    assert anonymous("--keep-key", "acme.example/rack").exit_code == 2
    kept = anonymous("--anonymous", "--keep-key", "acme.example/rack")
    assert kept.exit_code == 0, kept.output
    text = repr(read_snapshot(out.read_bytes()))
    assert [each for each in ("acme.example/rack", "acme-tier", "secret") if each in text] == ["acme.example/rack"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--config", "none.yaml"], "none.yaml: No such file"),
        (["--kubeconfig", "none.yaml"], "there is no file none.yaml"),
        (["--server", "ftp://x"], "must be http(s)://host:port"),
    ],
)
def test_a_wrong_option_is_an_error_with_status_2(options: list[str], why: str) -> None:
    done = CliRunner().invoke(app, ["snapshot", *options])
    assert done.exit_code == 2
    assert why in done.stderr.replace("\n", " ")
