"""`waggle cluster`: alone in the foreground, with a kubeconfig that works, and gone without a trace."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from tests.support.apiserver.api import Api


@contextmanager
def waggle_cluster(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, and what it printed until it was ready."""
    command = [sys.executable, "-m", "extender.cli", "cluster", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = ""
            for line in process.stdout:
                said += line
                if "Everything is lost" in line:
                    break
            yield process, said
        finally:
            process.kill()


def test_it_serves_gpu_nodes_to_whoever_has_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    with waggle_cluster("--nodes", "3", "--kubeconfig", str(file)) as (process, said):
        assert "not a Kubernetes" in said
        config = yaml.safe_load(file.read_text())
        assert config["current-context"] == config["contexts"][0]["name"]
        api = Api(config["clusters"][0]["cluster"]["server"])
        nodes = api.get("/api/v1/nodes").json()["items"]
        api.close()
        assert [node["status"]["allocatable"]["example.com/gpu"] for node in nodes] == ["8", "8", "8"]
        assert f"--kubeconfig {file}" in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.slow
def test_its_own_folder_goes_with_it() -> None:
    with waggle_cluster("--nodes", "0") as (process, said):
        file = Path(said.partition("kubeconfig is ")[2].split()[0])
        assert file.exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert not file.parent.exists()


@pytest.mark.slow  # two processes
def test_a_port_that_is_taken_is_said_so() -> None:
    with waggle_cluster("--nodes", "0") as (_, said):
        port = said.partition("http://127.0.0.1:")[2].partition(";")[0]
        command = [sys.executable, "-m", "extender.cli", "cluster", "--port", port]
        second = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert f"port {port}" in second.stderr


def test_a_kubeconfig_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    write_kubeconfig(file, "http://127.0.0.1:1")
    write_kubeconfig(file, "http://127.0.0.1:2")
    assert "127.0.0.1:2" in file.read_text()
    file.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(FileExistsError, match="not a kubeconfig of an embedded API server"):
        write_kubeconfig(file, "http://127.0.0.1:3")
    assert file.read_text() == "apiVersion: v1\nkind: Config\n"
