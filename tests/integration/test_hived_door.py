"""HiveD's door, as a newcomer goes through it: `hived init`, `kube-scheduler-config`, pods, with nothing else said.

kube-scheduler is the stand-in, which counts resources as the real one does. Without Waggle's configuration it was told
nothing about the resource that marks HiveD's pods, and all of them waited on `Insufficient` that resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.integration.test_cli import serving, waggle
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod

pytestmark = pytest.mark.slow

MARKER = "hivedscheduler.microsoft.com/pod-scheduling-enable"
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"


@contextmanager
def kube_scheduler(url: str, configuration: str) -> Iterator[KubeSchedulerStandIn]:
    api = connect(ClusterSettings(server=url), agent="kube-scheduler")
    scheduler = KubeSchedulerStandIn(api, from_kube_scheduler_configuration(yaml.safe_load(configuration)))
    scheduler.start()
    try:
        assert scheduler.wait_synced(30)
        yield scheduler
    finally:
        scheduler.stop()
        api.close()


def a_pod(cluster: EmbeddedCluster) -> None:
    wish = yaml.safe_dump({"virtualCluster": "default", "leafCellNumber": 8})
    cluster.create(pod("p", annotations={SPEC: wish}, requests={MARKER: "1"}, limits={MARKER: "1"}))


def message(cluster: EmbeddedCluster) -> str:
    found = cluster.get("pods", "p")
    conditions = found["status"].get("conditions", []) if found else []
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


@pytest.mark.parametrize("told", [True, False], ids=["with-config", "without"])
def test_from_nodes_to_a_pod_that_runs(tmp_path: Path, told: bool) -> None:
    with serve_in_thread() as cluster:
        for number in range(2):
            labels = {"nvidia.com/gpu.product": "A100"}
            cluster.create(node(f"gpu-{number}", capacity={"nvidia.com/gpu": "8"}, labels=labels))
        made = waggle("hived", "init", "--server", cluster.url)
        assert made.returncode == 0, made.stderr
        assert "kube-scheduler-config --topology TOPOLOGY --config FILE" in made.stderr
        sections: dict[str, Any] = yaml.safe_load(made.stdout)

        with serving(tmp_path, cluster.url, **sections) as server:
            file, config = tmp_path / "scheduler.yaml", tmp_path / "waggle.yaml"
            port = server.client.port
            options = ("--config", str(config)) if told else ("--url", f"http://127.0.0.1:{port}")
            assert waggle("kube-scheduler-config", "--topology", "local", *options, "-o", str(file)).returncode == 0
            linted = waggle("lint", str(file), "--config", str(config))
            assert ("WL601" in linted.stdout, linted.returncode) == (not told, int(not told))

            eventually(server.ready)
            with kube_scheduler(cluster.url, file.read_text()):
                a_pod(cluster)
                if told:
                    eventually(lambda: cluster.get("pods", "p")["spec"].get("nodeName"))
                else:
                    eventually(lambda: f"Insufficient {MARKER}" in message(cluster))
