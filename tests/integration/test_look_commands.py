"""`waggle explain` and `waggle top` against a Waggle on a socket: what they print, and how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from algorithm.reasons import Code, reason
from extender.cli import app
from extender.operate.certs import create
from extender.operate.look_text import age, number, table, top
from extender.server.rows import PodRow
from extender.server.views import Explanation, PodView
from extender.settings import ServerSettings, Settings, TlsSettings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.scripted_server import ScriptedServer, reply
from tests.support.engine.objects import node, pod
from tests.support.http.fixed_runtime import FixedRuntime

NEVER = "It can never run: a pod needs 16 example.com/gpu on one node, and the largest node has 8."
MESSAGE = "0/1 nodes are available: 1 Insufficient example.com/gpu."
REFUSED = reason(Code.REFUSED_BEFORE, detail=MESSAGE)
WAITS = PodView("ns", "p", "u-1", "Waiting", "", REFUSED, since_seconds=130.0, kube_scheduler=MESSAGE, summary=NEVER)
RUNS = PodView("ns", "q", "u-2", "Bound", "n1", gang="g", since_seconds=5.0)
SETTINGS = Settings(server=ServerSettings(port=0))


@pytest.fixture
def runtime() -> FixedRuntime:
    runtime = FixedRuntime()
    runtime.pod_views = [WAITS, RUNS]
    runtime.explanations = {
        ("ns", "p"): Explanation(WAITS, REFUSED, advice=[NEVER, "Buy a larger one."], story=["1s ago, event 1: came"]),
        ("ns", "q"): Explanation(RUNS),
    }
    runtime.cache.set_node(node("n1", cpu=4000))
    runtime.cache.add_pod(pod("q", cpu=1500, on="n1"))
    return runtime


@pytest.fixture
def url(runtime: FixedRuntime) -> Iterator[str]:
    with serve_in_thread(create_app(runtime, SETTINGS), SETTINGS) as server:
        yield server.url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"WAGGLE_SERVER": None, "PATH": "/nowhere"})


def test_a_pod_that_waits(url: str):
    found = run("explain", "p", "-n", "ns", "--server", url)
    assert (found.exit_code, found.stdout.splitlines()) == (
        0,
        [
            "ns/p: Waiting for 2m",
            f"  {NEVER}",
            "  Buy a larger one.",
            f"Reason: RefusedByKubeScheduler. kube-scheduler wrote: {MESSAGE}",
            "History:",
            "  1s ago, event 1: came",
        ],
    )


def test_a_pod_that_runs(url: str):
    found = run("explain", "ns/q", "--server", url)
    assert (found.exit_code, found.stdout) == (0, "ns/q: Bound on n1 for 5s, gang g\n")


def test_as_json_it_is_the_page(url: str):
    found = json.loads(run("explain", "ns/p", "-o", "json", "--server", url).stdout)
    assert (found["summary"], found["pod"]["name"]) == (NEVER, "p")
    found = json.loads(run("top", "-o", "json", "--server", url).stdout)
    assert [[len(found[part])] for part in ("pods", "nodes")] == [[2], [1]]


def test_the_server_can_be_in_the_environment(url: str):
    assert CliRunner().invoke(app, ["explain", "ns/p"], env={"WAGGLE_SERVER": url}).exit_code == 0


def test_a_misspelt_pod_is_status_1_and_tells_its_neighbours(url: str):
    found = run("explain", "ns/x", "--server", url)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "no pod ns/x is known" in found.stderr
    assert "Did you mean ns/p" in found.stderr


def test_top(url: str):
    found = run("top", "--server", url)
    assert (found.exit_code, found.stdout.splitlines()) == (
        0,
        [
            "Nodes: 1 of 1 can be used. Pods: 1 Bound, 1 Waiting.",
            "",
            "RESOURCE  TAKEN  OF  USE",
            "cpu       1.5    4   37%",
            "",
            "WAIT  AGE  SUCH AS  WHY",
            f"1     2m   ns/p     {NEVER}",
        ],
    )
    assert "1 Bound" not in run("top", "-n", "other", "--server", url).stdout


def test_top_of_a_misspelt_namespace_tells_its_neighbour(url: str, runtime: FixedRuntime):
    runtime.pod_rows = [PodRow("team-red", "p", "Waiting", "", "", "", "", 0, 0, "")]
    found = run("top", "-n", "team-rde", "--server", url)
    assert (found.exit_code, "Nodes: 1 of 1" in found.stdout) == (0, True)
    assert found.stderr == "No pod of namespace team-rde is known; did you mean team-red?\n"
    assert run("top", "--server", url).stderr == ""


def test_what_a_pods_author_wrote_does_not_reach_the_terminal(url: str, runtime: FixedRuntime):
    runtime.explanations["ns", "p"] = Explanation(WAITS, REFUSED, advice=["\x1b[2Jgone"])
    assert "\x1b" not in run("explain", "ns/p", "--server", url).stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--server", "http://127.0.0.1:1"], "`waggle serve` and `waggle demo --stay` print their address"),
        (["--server", "127.0.0.1:9096"], "expected http(s)://host:port"),
        (["--server", "https://127.0.0.1:1", "--ca-file", "/nowhere/ca.crt"], "there is no such file"),
        (["--server", "http://127.0.0.1:1", "--token-file", __file__], "over https only"),
        (["--server", "https://127.0.0.1:1", "--token-file", "/nowhere/token"], "No such file"),
        ([], "For a Waggle on this machine: --server http://127.0.0.1:9096"),
    ],
)
def test_a_waggle_that_cannot_be_reached_is_status_2(arguments: list[str], text: str):
    found = run("explain", "p", *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert text in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("body", [b"<html>hello", b"[]", b'{"pod": {}}', b"[" * 100_000])
def test_a_server_that_is_no_waggle_is_status_2(body: bytes):
    with ScriptedServer() as other:
        other.on("GET", "/v1/explain/default/p", reply(200, body))
        assert run("explain", "p", "--server", other.url).exit_code == 2


def test_who_may_not_look_is_told_so(runtime: FixedRuntime):
    settings = Settings(server=ServerSettings(port=0, inspect_authorization="kubernetes"))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        found = run("top", "--server", server.url)
    assert found.exit_code == 2
    assert "/v1/inspect/pods" in found.stderr


def test_a_server_that_wants_a_certificate(runtime: FixedRuntime, tmp_path: Path):
    create(tmp_path, ["localhost"], ["waggle-viewer"], days=1, ca_days=1, force=False)
    own, mine = tmp_path / "server", tmp_path / "waggle-viewer"
    tls = TlsSettings(cert_file=own / "tls.crt", key_file=own / "tls.key", client_ca_file=own / "ca.crt")
    settings = Settings(server=ServerSettings(port=0, tls=tls))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        options = ["--server", url, "--ca-file", str(mine / "ca.crt")]
        certificate = ["--cert", str(mine / "tls.crt"), "--key", str(mine / "tls.key")]
        assert run("explain", "ns/p", *options, *certificate).exit_code == 0
        for some in (options, ["--server", url, *certificate]):
            assert run("explain", "ns/p", *some).exit_code == 2


def test_ages_numbers_and_tables():
    assert [age(seconds) for seconds in (0, 119, 120, 7199, 7200, 172_800)] == ["0s", "119s", "2m", "119m", "2h", "2d"]
    assert [number("cpu", 2500), number("memory", 3 << 29), number("a.b/gpu", 1024)] == ["2.5", "1.5Gi", "1024"]
    assert table([]) == ""


@pytest.mark.parametrize(
    ("devices", "requested", "rows"),
    [
        (0, {}, ["a.b/gpu", "a.b/nic", "cpu"]),
        (8, {}, ["cpu"]),
        (8, {"a.b/gpu": 8}, ["a.b/gpu", "a.b/nic", "cpu"]),
        (8, {"a.b/gpu": 4}, ["a.b/gpu", "cpu"]),
        (1, {"not.of.the.node/enable": 1}, ["cpu"]),
    ],
    ids=["idle", "nobody requests devices", "all are requested", "some are requested", "requested of no node"],
)
def test_devices_are_hidden_only_if_the_algorithm_counts_more_than_pods_request(
    devices: int, requested: dict[str, int], rows: list[str]
):
    node = {"ready": True, "known": True, "unschedulable": False, "devices": devices}
    amounts = {"allocatable": {"a.b/gpu": 64, "a.b/nic": 8, "cpu": 8000}, "requested": {"cpu": 2000} | requested}
    lines = top([], [node | amounts]).splitlines()
    assert [line.split()[0] for line in lines[3:]] == rows
    assert ("devices in use, as the algorithm counts them" in lines[0]) is ("a.b/nic" not in rows)
