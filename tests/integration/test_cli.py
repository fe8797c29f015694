"""`waggle` as people and operators start it: a process, its exit status, what it prints."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.recording.log import open_log
from extender.recording.replaying import Replay
from extender.settings import load
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.http.certificates import Files, https
from tests.support.http.fixed_runtime import Client, exchange

runner = CliRunner()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def configuration(folder: Path, **sections: Any) -> Path:
    path = folder / "waggle.yaml"
    path.write_text(yaml.safe_dump(sections))
    return path


def waggle(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process that ends by itself: `serve` configures logging for good, which must not happen in this one."""
    command = [sys.executable, "-m", "extender.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Serving:
    """A `waggle serve` process. `url` is where; `said` what it wrote to standard error so far."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process, self.client, self._log = process, Client(f"http://127.0.0.1:{port}"), log

    @property
    def said(self) -> str:
        return self._log.read_text()

    def ready(self) -> bool:
        assert self.process.poll() is None, self.said
        try:
            return self.client.get("/readyz").status == 200
        except OSError:
            return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


@contextmanager
def serving(folder: Path, server: str, *arguments: str, **sections: Any) -> Iterator[Serving]:
    port = free_port()
    config = configuration(folder, server={"port": port}, cluster={"server": server}, **sections)
    command = [sys.executable, "-m", "extender.cli", "serve", "--config", str(config), *arguments]
    log = folder / "stderr.log"
    with log.open("w") as errors, subprocess.Popen(command, stdout=errors, stderr=errors, text=True) as process:
        try:
            yield Serving(process, port, log)
        finally:
            process.kill()


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread() as made:
        made.create(node("n0"))
        yield made


def place(serving: Serving, cluster: EmbeddedCluster, name: str) -> None:
    made = cluster.create(pod(name, requests={"cpu": "1"}))
    [chosen] = serving.client.post("/filter", {"Pod": made, "NodeNames": ["n0"]}).json["NodeNames"]
    uid = made["metadata"]["uid"]
    body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": chosen}
    assert serving.client.post("/bind", body).json == {"Error": ""}


def test_serve_places_pods_until_a_signal_comes(tmp_path: Path, cluster: EmbeddedCluster):
    with serving(tmp_path, cluster.url) as waggle:
        eventually(waggle.ready)
        place(waggle, cluster, "p")

        assert waggle.end() == 0
        assert "http://127.0.0.1:" in waggle.said
        assert "Traceback" not in waggle.said
    assert cluster.get("pods", "p")["spec"]["nodeName"] == "n0"


@pytest.mark.slow
def test_serve_shows_what_certs_made_and_tells_of_it(tmp_path: Path, cluster: EmbeddedCluster):
    assert waggle("certs", "-o", str(tmp_path), "--days", "3").returncode == 0
    ours, caller = Files(tmp_path / "server"), Files(tmp_path / "kube-scheduler")
    server = {
        "port": 0,
        "tls": {"cert_file": str(ours.certificate), "key_file": str(ours.key), "client_ca_file": str(ours.ca)},
        "inspect_authorization": "kubernetes",
    }
    config = configuration(tmp_path, server=server, cluster={"server": cluster.url})
    url_file = tmp_path / "url"
    command = [sys.executable, "-m", "extender.cli", "serve", "--config", str(config), "--url-file", str(url_file)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(url_file.exists)
            with closing(https(url_file.read_text(), caller.ca, caller)) as connection:
                eventually(lambda: exchange(connection, "GET", "/readyz").status == 200)
                assert "certificate server ends in 2 days" in exchange(connection, "GET", "/readyz").json["detail"]
                assert (
                    'expiry_timestamp_seconds{certificate="client_ca"}' in exchange(connection, "GET", "/metrics").text
                )
                assert exchange(connection, "GET", "/v1/inspect/pods").status == 401
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.slow
def test_serve_ends_at_ctrl_c(tmp_path: Path, cluster: EmbeddedCluster):
    with serving(tmp_path, cluster.url) as waggle:
        eventually(waggle.ready)

        assert waggle.end(signal.SIGINT) == 0
        assert "Traceback" not in waggle.said


@pytest.mark.slow
def test_serve_finishes_the_binding_that_is_being_written(tmp_path: Path, cluster: EmbeddedCluster):
    with serving(tmp_path, cluster.url) as waggle:
        eventually(waggle.ready)
        slow = cluster.faults.inject("delay", seconds=0.7, method="POST", path="/binding$")
        made = cluster.create(pod("p", requests={"cpu": "1"}))
        waggle.client.post("/filter", {"Pod": made, "NodeNames": ["n0"]})
        body = {"PodName": "p", "PodNamespace": "default", "PodUID": made["metadata"]["uid"], "Node": "n0"}
        connection = waggle.client.connect()
        connection.request("POST", "/bind", json.dumps(body), {"Content-Type": "application/json"})
        eventually(lambda: cluster.faults.fired(slow))
        waggle.process.terminate()

        answer = json.loads(connection.getresponse().read())
        connection.close()

        assert answer == {"Error": ""}
        assert waggle.process.wait(30) == 0


@pytest.mark.slow
def test_serve_waits_for_an_api_server_that_is_not_there(tmp_path: Path):
    with serving(tmp_path, f"http://127.0.0.1:{free_port()}") as waggle:
        eventually(lambda: waggle.client.get("/livez").status == 200 if "serving" in waggle.said else False)

        assert waggle.client.get("/readyz").status == 503
        assert waggle.end() == 0


@pytest.mark.slow
def test_serve_records_what_can_be_replayed(tmp_path: Path, cluster: EmbeddedCluster):
    log = tmp_path / "recording"
    with serving(tmp_path, cluster.url, "--record", str(log)) as waggle:
        eventually(waggle.ready)
        place(waggle, cluster, "p")
        assert waggle.end() == 0
    (recording,) = open_log(log).recordings
    played = list(Replay(recording))

    assert "WriteBinding" in {type(item).__name__ for each in played for item in each.instructions}
    assert not [each.divergence for each in played if each.divergence]
    assert (recording.ended, recording.remarks) == (len(played), [])


@pytest.mark.slow
def test_a_recording_has_no_annotation_that_nobody_reads_and_is_nobody_elses(tmp_path: Path, cluster: EmbeddedCluster):
    """By every way on which pods come: the list at the start, the watch, and the verbs."""
    log = tmp_path / "recording"
    planted = {"example.com/password": "hunter2", "kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    cluster.create(pod("listed", annotations=planted))
    cluster.patch("nodes", "n0", {"metadata": {"annotations": planted}})
    before = os.umask(0)
    try:
        with serving(tmp_path, cluster.url, "--record", str(log)) as waggle:
            eventually(waggle.ready)
            cluster.create(pod("bound", annotations=planted, nodeName="n0"))
            made = cluster.create(pod("asked", annotations=planted | {"waggle.dev/gang": "mine"}))
            waggle.client.post("/filter", {"Pod": made, "NodeNames": ["n0"]})
            eventually(lambda: all(name in plain(log) for name in (b'"listed"', b'"bound"', b'"asked"')))
            assert waggle.end() == 0
    finally:
        os.umask(before)

    assert b"hunter2" not in plain(log)
    assert b"example.com/password" not in plain(log)
    assert b'"mine"' in plain(log)
    assert stat.S_IMODE(log.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in log.iterdir()} == {0o600}


def plain(folder: Path) -> bytes:
    """All that is in the folder of a recording, uncompressed."""
    return b"".join(zlib.decompressobj(31).decompress(each.read_bytes()) for each in folder.iterdir())


@pytest.mark.slow
def test_sigusr2_compares_the_cache(tmp_path: Path, cluster: EmbeddedCluster):
    with serving(tmp_path, cluster.url) as waggle:
        eventually(waggle.ready)
        os.kill(waggle.process.pid, signal.SIGUSR2)

        eventually(lambda: "waggle_cache_comparisons_total 1.0" in waggle.client.get("/metrics").text)
        assert waggle.end() == 0


@pytest.mark.slow
def test_serve_refuses_a_port_that_is_taken_before_it_starts_anything(tmp_path: Path, cluster: EmbeddedCluster):
    recording = tmp_path / "recording"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = configuration(tmp_path, server={"port": port}, cluster={"server": cluster.url})
        result = waggle("serve", "--config", str(config), "--record", str(recording))

    assert result.returncode == 2
    assert f"server.port: cannot listen on 127.0.0.1:{port}: Address already in use" in result.stderr
    assert f"ss -ltnp 'sport = :{port}'" in result.stderr
    assert "ready" not in result.stderr.replace("already", "")
    assert not recording.exists()


@pytest.mark.slow
def test_serve_looks_at_its_certificates_before_it_starts_anything(tmp_path: Path, cluster: EmbeddedCluster):
    missing = {"cert_file": str(tmp_path / "tls.crt"), "key_file": str(tmp_path / "tls.key")}
    config = configuration(tmp_path, server={"port": 0, "tls": missing}, cluster={"server": cluster.url})
    result = waggle("serve", "--config", str(config))

    assert result.returncode == 2
    assert "server.tls.cert_file: no such file" in result.stderr
    assert "ready" not in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server: {port: many}", "server.port"),
        ("sever: {}", "sever"),
        ("server: {keep_alive_seconds: 10}", "server.keep_alive_seconds"),
        ("algorithm: {name: nonsense}", "nonsense"),
        ("algorithm: {settings: {strategy: heap}}", "strategy"),
        ("[]", "waggle.yaml"),
        ("{", "waggle.yaml"),
        ("\0", "waggle.yaml"),
    ],
)
def test_a_bad_configuration_is_refused_by_naming_its_field(tmp_path: Path, text: str, said: str):
    path = tmp_path / "waggle.yaml"
    path.write_text(text)

    result = runner.invoke(app, ["check", "--config", str(path)])

    assert result.exit_code == 2
    assert said in result.output.replace("\n", "")
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_serve_refuses_settings_that_the_algorithm_does_not_have(tmp_path: Path):
    result = waggle(
        "serve",
        "--config",
        str(configuration(tmp_path, server={"port": 0}, algorithm={"settings": {"strategy": "heap"}})),
    )

    assert result.returncode == 2
    assert "strategy" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_configuration_that_is_not_there_is_refused(tmp_path: Path):
    result = runner.invoke(app, ["check", "--config", str(tmp_path / "nowhere.yaml")])

    assert result.exit_code == 2
    assert "nowhere.yaml" in result.output.replace("\n", "")


@pytest.mark.slow
def test_a_record_that_cannot_be_written_is_refused(tmp_path: Path, cluster: EmbeddedCluster):
    config = configuration(tmp_path, server={"port": 0}, cluster={"server": cluster.url})

    result = waggle("serve", "--config", str(config), "--record", str(tmp_path / "no" / "such" / "log"))

    assert result.returncode == 2
    assert "such" in result.stderr


def test_check_says_what_will_be_served(tmp_path: Path):
    pools = "pools: [{name: a, selector: {pool: a}}]"
    server = "cluster: {server: 'http://127.0.0.1:1'}"
    for sections, told in (
        (f"claims: {{enabled: true, {pools}}}", "algorithm packing, claims of 1 configured pool"),
        (
            "extender: {enabled: false}\nclaims: {enabled: true, custom_resources: true}\nserver: {host: 0.0.0.0}",
            "claims of 0 configured pools and of Pool objects",
        ),
    ):
        config = tmp_path / "waggle.yaml"
        config.write_text(f"{server}\n{sections}\n")
        result = runner.invoke(app, ["check", "--config", str(config)])
        assert result.exit_code == 0, result.output
        assert result.output.endswith(f"is fine: {told}\n")
        assert "bind pods" not in result.stderr
        assert ("claim pods" in " ".join(result.stderr.split())) == ("0.0.0.0" in sections)


def test_check_likes_the_shipped_and_the_empty_configuration(tmp_path: Path):
    shipped = Path(__file__).parents[2] / "manifests" / "base" / "waggle.yaml"
    small = tmp_path / "small.yaml"
    small.write_text("cluster: {server: 'http://127.0.0.1:1'}")

    result = runner.invoke(app, ["check", "--config", str(small)])
    assert (result.exit_code, "is fine: algorithm packing\n" in result.output) == (0, True), result.output
    assert load(shipped).server.tls is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster: {server: foo}", "cluster.server: 'foo' must be http(s)://host:port"),
        ("cluster: {kubeconfig: /nope}", "cluster.kubeconfig: there is no file /nope"),
        ("cluster: {server: 'http://h:1'}\nserver: {tls: {cert_file: a, key_file: b}}", "cert_file: no such file: a"),
        ("claims: {score: {name: nope}}", "claims.score.name: no score named 'nope' is installed"),
        ("server: {port: 1}\nserver: {port: 2}", "server: appears twice"),
    ],
)
def test_check_refuses_what_serve_would_refuse(tmp_path: Path, text: str, said: str):
    path = tmp_path / "waggle.yaml"
    path.write_text(text)
    result = runner.invoke(app, ["check", "--config", str(path)])
    assert result.exit_code == 2
    assert said in result.output.replace("\n", " ").replace("  ", " ")


def test_algorithms_lists_those_that_come_with_it():
    result = runner.invoke(app, ["algorithms"])

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == ["fgd", "hived", "packing"]


def test_version_is_printed():
    result = runner.invoke(app, ["version"])

    assert result.exit_code == 0
    assert result.output.startswith("waggle ")


def test_help_names_every_command():
    result = runner.invoke(app, ["--help"])

    assert result.exit_code == 0
    for command in ("serve", "check", "algorithms", "version", "demo"):
        assert command in result.output


def test_without_a_command_help_is_shown():
    assert "waggle demo" in runner.invoke(app, []).output


def test_demo_refuses_a_folder_without_workloads(tmp_path: Path):
    result = runner.invoke(app, ["demo", "--workloads", str(tmp_path)])

    assert result.exit_code == 2
    assert "no workload files" in " ".join(result.output.split())
