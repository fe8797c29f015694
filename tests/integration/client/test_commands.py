"""`waggle claim`, `pools` and `release` against a server of claims on a socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli import app
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world


@pytest.fixture(scope="module")
def shared() -> Iterator[ClaimWorld]:
    with claim_world(pods=3, mode="recycle") as world:
        yield world


@pytest.fixture
def world(shared: ClaimWorld) -> Iterator[ClaimWorld]:
    yield shared
    shared.idle(3)
    assert shared.claimed() == {}


def run(world: ClaimWorld, *arguments: str) -> Result:
    environment = {"WAGGLE_SERVER": world.server.handle.url, "PATH": os.environ["PATH"]}
    return CliRunner().invoke(app, arguments, env=environment)


def start(world: ClaimWorld, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "extender.cli", *arguments, "--server", world.server.handle.url]
    if "--" in arguments:
        cut = arguments.index("--")
        command = [sys.executable, "-m", "extender.cli", *arguments[:cut], "--server", world.server.handle.url]
        command += arguments[cut:]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_a_command_has_its_pod_in_the_environment_and_the_claim_ends_with_it(world: ClaimWorld, tmp_path: Path) -> None:
    out = tmp_path / "environment"
    found = run(world, "claim", "default/warm", "--", "sh", "-c", f"env > {out}; exit 7")
    assert found.exit_code == 7, found.output
    seen = dict(line.split("=", 1) for line in out.read_text().splitlines() if line.startswith("WAGGLE_"))
    pod = world.api.get(f"pods/{seen['WAGGLE_POD_NAME']}").json()
    assert pod["metadata"]["uid"] == seen["WAGGLE_POD_UID"]
    assert pod["status"]["podIP"] == seen["WAGGLE_POD_IP"]
    assert (seen["WAGGLE_POD_NODE"], seen["WAGGLE_POD_NAMESPACE"]) == ("n1", "default")
    assert seen["WAGGLE_CLAIM"].startswith("c-")


def test_a_command_that_is_not_there_is_127_as_in_a_shell(world: ClaimWorld) -> None:
    assert run(world, "claim", "default/warm", "--", "/no/such/command").exit_code == 127


def test_a_detached_claim_stays_until_it_is_released(world: ClaimWorld) -> None:
    found = run(world, "claim", "default/warm", "--count", "2", "--detach", "-o", "json", "--label", "job=x")
    assert found.exit_code == 0, found.output
    claim = json.loads(found.stdout)
    assert {claim["id"]: sorted(pod["name"] for pod in claim["pods"])} == {
        name: sorted(pods) for name, pods in world.claimed().items()
    }
    released = run(world, "release", claim["id"])
    assert (released.exit_code, released.stdout.startswith(f"{claim['id']} is released: ")) == (0, True)
    again = run(world, "release", claim["id"])
    assert again.exit_code == 1
    assert "there is no claim" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_without_a_command_it_is_held_until_ctrl_c(world: ClaimWorld, sent: signal.Signals) -> None:
    held = start(world, "claim", "default/warm")
    eventually(world.claimed)
    assert held.stdout is not None
    line = held.stdout.readline()
    held.send_signal(sent)
    _, complaint = held.communicate(timeout=30)
    assert (held.returncode, line.startswith("claim c-")) == (0, True), complaint
    assert world.claimed() == {}


@pytest.mark.slow
def test_a_command_whose_claim_is_lost_is_ended(world: ClaimWorld) -> None:
    running = start(world, "claim", "default/warm", "--lease", "1", "--", "sleep", "60")
    (claim,) = eventually(world.claimed)
    assert world.server.http.delete(f"/v1/claims/{claim}").status_code == 200
    _, complaint = running.communicate(timeout=30)
    assert running.returncode == 1
    assert "ClaimEnded" in complaint or "no claim" in complaint


def test_pools(world: ClaimWorld) -> None:
    found = run(world, "pools")
    assert found.exit_code == 0, found.output
    head, row = found.stdout.splitlines()
    assert head.split() == ["POOL", "MODE", "IDLE", "CLAIMED", "UNREADY", "WAITING", "WHY"]
    assert row.split() == ["default/warm", "recycle", "3", "0", "0", "0"]
    one = run(world, "pools", "default/warm").stdout
    assert one.startswith("default/warm, recycle: 3 idle\nRequests: ")
    assert json.loads(run(world, "pools", "-o", "json").stdout)["items"][0]["idle"] == 3
    assert run(world, "pools", "-n", "other").stdout == "There are no pools.\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["claim", "default/warmm"], 1, "Did you mean warm"),
        (["pools", "default/warmm"], 1, "Did you mean warm"),
        (["claim", "warm"], 2, "expected NAMESPACE/POOL"),
        (["claim", "default/warm", "--count", "100"], 2, "count"),
        (["claim", "default/warm", "--require", "x"], 2, "LABEL=VALUE"),
        (["claim", "default/warm", "--require", "no=such", "--timeout", "0"], 1, "NoIdlePod"),
        (["claim", "default/warm", "--detach", "--", "ls"], 2, "--detach"),
        (["claim", "default/warm", "--token-file", "/dev/null"], 2, "https only"),
        (["pools", "--server", "http://127.0.0.1:1"], 2, "does not answer"),
        (["pools", "--server", "127.0.0.1:1"], 2, "expected http"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_claimed(
    world: ClaimWorld, arguments: list[str], status: int, said: str
) -> None:
    found = run(world, *arguments)
    assert (found.exit_code, said in found.stderr) == (status, True), found.output
