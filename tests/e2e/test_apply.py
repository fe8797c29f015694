"""`waggle plan` and `waggle apply` on a real API server: what was planned is created, and happens there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from extender.cli import app
from tests.e2e.hands import GPU, eventually
from tests.e2e.world import RealCluster


def waggle(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def replica_set(name: str, pods: int, gpus: int) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"limits": {GPU: str(gpus)}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def planned(w: RealCluster, folder: Path, *objects: dict[str, Any]) -> tuple[Result, Path]:
    manifest, out = folder / "all.yaml", folder / "plan.json"
    manifest.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    kubeconfig = w.cluster.kubeconfig("admin")
    made = waggle("plan", "-f", manifest, "--kubeconfig", kubeconfig, "-n", w.namespace, "--out", out)
    return made, out


def test_what_was_planned_is_created_and_happens(w: RealCluster, tmp_path: Path) -> None:
    w.nodes(2)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    made, out = planned(w, tmp_path, config, replica_set("a", 3, 4), replica_set("b", 1, 16))
    assert made.exit_code == 2, made.output
    lines = made.stdout.splitlines()  # the sums may count pods of other tests, which use the same cluster
    own = [line.split()[:4] for line in lines if f"ReplicaSet/{w.namespace}/" in line]
    assert own == [
        ["+", f"ReplicaSet/{w.namespace}/a", "3", "pods"],
        ["?", f"ReplicaSet/{w.namespace}/b", "1", "pod"],
    ], made.stdout
    kubeconfig = w.cluster.kubeconfig("admin")
    shown = waggle("apply", out, "--kubeconfig", kubeconfig)
    assert shown.exit_code == 0, shown.output
    assert f"ConfigMap/{w.namespace}/settings created" in shown.stdout
    eventually(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in w.list("Pod")) == 3, w.story)
    again = waggle("apply", out, "--kubeconfig", kubeconfig)
    assert again.exit_code == 0, again.output
    assert again.stdout.count("exists already") == 3


def test_a_changed_cluster_is_noticed(w: RealCluster, tmp_path: Path) -> None:
    w.nodes(1)
    made, out = planned(w, tmp_path, replica_set("a", 1, 8))
    assert made.exit_code == 0, made.output
    w.pod("other", gpus=4, nodeName="n0")
    shown = waggle("apply", out, "--kubeconfig", w.cluster.kubeconfig("admin"))
    assert (shown.exit_code, w.list("ReplicaSet")) == (2, []), shown.output
    assert f"Pod/{w.namespace}/other on n0 is new" in shown.stdout


def test_what_the_api_server_refuses_is_told_before_anything_is_created(w: RealCluster, tmp_path: Path) -> None:
    w.nodes(1)
    claim = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}
    made, out = planned(w, tmp_path, replica_set("a", 1, 1), claim)
    assert made.exit_code == 0, made.output
    shown = waggle("apply", out, "--kubeconfig", w.cluster.kubeconfig("admin"))
    assert (shown.exit_code, w.list("ReplicaSet")) == (1, []), shown.output
    assert "spec.ports: Required value" in shown.stderr.replace("\n", " ")
