"""`waggle replay` with options: a moment, its pages, single steps, what would have been different; and bad input."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.lab.results import decode
from extender.operate.replay_modes import refusing
from tests.support.engine.scripted_log import two_nodes

HEAD = "Replay of waggle.log at +4m0s, after event 15; algorithm packing."


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_nodes().write(Path(tmp_path_factory.mktemp("log")) / "waggle.log")


def run(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)], input=stdin)


def test_a_moment_as_text_and_as_json(log: Path):
    text = run(log, "--at", "+4m")
    assert (text.exit_code, text.stdout.splitlines()[0]) == (0, HEAD)

    found = json.loads(run(log, "--at", "+4m", "-o", "json").stdout)
    assert [(pod["name"], pod["state"]) for pod in found["pods"]] == [("a", "Bound"), ("b", "Bound"), ("c", "Waiting")]


def test_a_pod_at_a_moment(log: Path):
    text = run(log, "--at", "+4m", "--pod", "default/c")
    assert text.stdout.splitlines()[1] == "default/c: Waiting for 60s"
    assert json.loads(run(log, "--at", "15", "--pod", "a", "-o", "json").stdout)["pod"]["node"] == "n1"


def test_a_port_that_is_taken_is_named_by_its_option(log: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = run(log, "--at", "+4m", "--serve", "--port", taken.getsockname()[1])
    assert found.exit_code == 2
    assert found.output.startswith("waggle: --port: cannot listen on 127.0.0.1:")


def test_steps_by_piped_commands(log: Path):
    found = run(log, "--step", "--at", "+2m", stdin="n\nq\n")
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "+2m0.010s  #12  report: binding of default/b: done")
    assert run(log, "--step", stdin="").stdout == ""


def test_what_would_have_been_different(log: Path, tmp_path: Path):
    files = [tmp_path / name for name in ("t.svg", "t.html", "t.json")]
    found = run(log, "--algorithm", "fgd", "--svg", files[0], "--html", files[1], "--json", files[2])

    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[0].split() == ["as", "recorded", "recorded", "settings", "fgd"]
    assert "agrees for 3 of 3 jobs (100 %)" in found.stdout
    ElementTree.fromstring(files[0].read_text())
    assert "<html" in files[1].read_text()
    assert [each.name for each in decode(files[2].read_bytes()).runs] == ["as recorded", "recorded settings", "fgd"]


@pytest.mark.parametrize("text", ["algorithm: {name: packing, settings: {strategy: spread}}\n", "strategy: spread\n"])
def test_other_settings_and_json_on_standard_output(log: Path, tmp_path: Path, text: str):
    """The file is a configuration, or has the settings of the recorded algorithm."""
    new = tmp_path / "new.yaml"
    new.write_text(text)
    found = run(log, "--settings", new, "--json", "-")
    assert decode(found.stdout.encode()).runs[2].name == str(new)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", "+1h"], "+1h is after the end of the log: it has 16 events, from +0s to +5m0s (+5m0s)"),
        (["--at", "2026-01-01T00:00:00Z"], "this log does not know the time of day"),
        (["--at", "soon"], "'soon': expected a time like"),
        (["--at", "+1m", "--pod", "default/z"], "no pod default/z is known in waggle.log at +1m0s"),
        (["--pod", "a"], "--pod needs --at"),
        (["--serve"], "--serve needs --at"),
        (["-o", "json"], "--output needs --at"),
        (["--svg", "x.svg"], "--svg needs --algorithm or --settings"),
        (["--step", "--algorithm", "fgd"], "--step cannot be combined with --algorithm"),
        (["--jobs", "2", "--at", "+1s"], "--jobs cannot be combined with --at"),
        (["--port", "9"], "--port needs --serve"),
        (["--port", "9096", "--at", "end"], "--port needs --serve"),
        (["--seed", "0"], "--seed needs --algorithm or --settings"),
        (["--algorithm", "pakcing"], "there are: fgd, hived, packing; did you mean packing?"),
        (["--algorithm", "hived"], "hived needs settings of its own"),
        (["--settings", "/nowhere.yaml"], "/nowhere.yaml"),
        (
            ["--algorithm", "fgd", "--svg", "/nowhere/x.svg"],
            "--svg: /nowhere/x.svg: expected a file in a folder that exists",
        ),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_ends_with_status_2_and_says_why(log: Path, options: list[str], said: str):
    found = run(log, *options)
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())
    assert found.stdout == ""


@pytest.mark.parametrize("option", ["--svg", "--html", "--json"])
def test_a_recording_is_not_overwritten(log: Path, option: str):
    before = log.read_bytes()
    found = run(log, "--algorithm", "fgd", option, str(log))
    assert found.exit_code == 2
    assert f"{option}: {log} is a file that this command reads: expected another file" in " ".join(found.stderr.split())
    assert log.read_bytes() == before


def test_a_file_that_is_no_recording_is_named(tmp_path: Path):
    foreign = tmp_path / "foreign.log"
    foreign.write_text("hello\n")
    for options in (["--at", "end"], ["--step"], ["--algorithm", "fgd"]):
        found = run(foreign, *options)
        assert (found.exit_code, "foreign.log" in found.stderr) == (2, True)


def test_settings_that_do_not_parse_are_named(log: Path, tmp_path: Path):
    new = tmp_path / "new.yaml"
    new.write_text("algorithm: {name: packing, settings: {strategy: up}}\n")
    found = run(log, "--settings", new)
    assert (found.exit_code, "strategy" in found.stderr) == (2, True)


def test_ctrl_c_ends_with_status_130(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as ended, refusing():
        raise KeyboardInterrupt
    assert (ended.value.exit_code, capsys.readouterr().err) == (130, "stopped\n")


@pytest.mark.slow
def test_pages_are_served_until_ctrl_c(log: Path):
    command = [sys.executable, "-m", "extender.cli", "replay", str(log), "--at", "+4m", "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            line = served.stdout.readline()
            assert line.endswith("/ui shows waggle.log at +4m0s, after event 15, read-only. Ctrl-C ends it.\n")
            url = line.partition("/ui")[0]
            assert url.startswith("http://127.0.0.1:")
            with urlopen(f"{url}/v1/explain/default/a", timeout=20) as answer:
                assert json.load(answer)["pod"]["node"] == "n1"
            with pytest.raises(HTTPError, match="403"):
                urlopen(Request(f"{url}/filter", b"{}"), timeout=20)
        finally:
            served.send_signal(signal.SIGINT)
        assert served.wait(20) == 0
