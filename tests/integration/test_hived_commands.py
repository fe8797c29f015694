"""From a cluster's nodes to a server that is reconfigured while it runs: commands and processes as operators have them.

`waggle hived init` writes a file, `waggle serve` points at it, pods are bound by it; `waggle hived diff` says what the
next file would do to them, and SIGHUP does just that.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.integration.test_cli import Serving, serving, waggle
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod

SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"


def wish(name: str) -> dict[str, str]:
    group = {"name": name, "members": [{"podNumber": 1, "leafCellNumber": 8}]}
    spec = {"virtualCluster": "default", "leafCellNumber": 8, "affinityGroup": group}
    return {SPEC: yaml.safe_dump(spec)}


def place(server: Serving, cluster: EmbeddedCluster, name: str) -> None:
    made = cluster.create(pod(name, annotations=wish(name)))
    nodes = [f"gpu-{number}" for number in range(4)]
    [chosen] = server.client.post("/filter", {"Pod": made, "NodeNames": nodes}).json["NodeNames"]
    uid = made["metadata"]["uid"]
    body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": chosen}
    assert server.client.post("/bind", body).json == {"Error": ""}


def uncovered(server: Serving) -> list[str]:
    items = server.client.get("/v1/inspect/affinitygroups/").json["items"]
    return [item["metadata"]["name"] for item in items if "lazyPreemptionStatus" in item["status"]]


@pytest.mark.slow
def test_from_nodes_to_a_server_that_is_reconfigured(tmp_path: Path) -> None:
    file, new = tmp_path / "hivedscheduler.yaml", tmp_path / "new.yaml"
    with serve_in_thread() as cluster:
        cluster.create(node("cpu-0"))
        for number in range(4):
            labels = {"nvidia.com/gpu.product": "A100", "example.com/rack": f"r{number // 2}"}
            cluster.create(node(f"gpu-{number}", capacity={"nvidia.com/gpu": "8"}, labels=labels))
        options = ("--server", cluster.url, "--level", "example.com/rack", "--settings-only", "-o", str(file))
        made = waggle("hived", "init", *options)
        assert made.returncode == 0, made.stderr
        assert "Left out, as they have no nvidia.com/gpu: cpu-0." in made.stderr

        algorithm: dict[str, Any] = {"name": "hived", "settings_file": str(file), "reload_seconds": 0}
        with serving(tmp_path, cluster.url, algorithm=algorithm) as server:
            eventually(server.ready)
            for name in ("a", "b", "c"):
                place(server, cluster, name)
            assert uncovered(server) == []

            new.write_text(file.read_text().replace("cellNumber: 2}", "cellNumber: 1}"))
            said = waggle("hived", "diff", str(tmp_path / "waggle.yaml"), str(new), "--server", cluster.url, "--json")
            assert said.returncode == 1, said.stderr
            loses = [each["group"] for each in json.loads(said.stdout)["groups"]]
            assert len(loses) == 1

            file.write_text(new.read_text())
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: uncovered(server) == loses)

            file.write_text(file.read_text().replace("cellNumber: 1}", "cellNumber: 7}"))
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: "promised 7 cells" in server.client.get("/readyz").json["detail"])
            assert uncovered(server) == loses
            assert "waggle_configuration_reload_failing 1.0" in server.client.get("/metrics").body.decode()

            assert server.end() == 0
            assert "Traceback" not in server.said
            assert f"group {loses[0]} of default" in server.said
