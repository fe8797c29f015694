"""`waggle simulate --trace FILE`, as users call it."""

from __future__ import annotations

import gzip
import json
import re
import signal
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.lab.comparing import Comparison
from extender.lab.results import decode
from extender.lab.workload import GPU, Job, NodeFailure
from extender.lab.workload_file import encode
from tests.support.installed import install
from tests.support.lab.hived import hived_settings
from tests.support.lab.workloads import random_workload


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_bytes(encode(random_workload(1)))
    return path


def simulate(*options: str | Path) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, options)])


def told(done: Result) -> str:
    return done.stderr.replace("\n", " ")


def test_a_run_that_was_stopped_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results are written all the same."""
    install(tmp_path, monkeypatch, raising="tests.support.lab.plugins:RAISING")
    trace = tmp_path / "trace.json"
    trace.write_bytes(encode(random_workload(1, jobs=1200)))
    done = simulate("--trace", trace, "--algorithm", "packing", "--algorithm", "raising", "--json", tmp_path / "out")
    assert done.exit_code == 1, done.output
    assert "raising was stopped: 1000 attempts failed, one after the other" in done.stdout
    assert [run.stopped != "" for run in decode((tmp_path / "out").read_bytes()).runs] == [False, True]


def test_ctrl_c_ends_it_with_130_and_says_so(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_comparison: Comparison) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Comparison, "advance", interrupted)
    done = simulate("--trace", trace, "--algorithm", "packing")
    assert (done.exit_code, done.stderr) == (130, "stopped\n")


def test_algorithms_are_compared_as_text_json_and_page(trace: Path, tmp_path: Path) -> None:
    files = ("--json", tmp_path / "out.json", "--html", tmp_path / "out.html")
    done = simulate("--trace", trace, "--algorithm", "packing", "--algorithm", "shared=fgd", *files)
    assert done.exit_code == 0, done.output
    assert "random 1: 40 jobs with" in done.stdout
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("jobs done")] == [
        ["jobs", "done", "40", "40"]
    ]
    results = decode((tmp_path / "out.json").read_bytes())
    assert [(run.name, run.algorithm) for run in results.runs] == [("packing", "packing"), ("shared", "fgd")]
    assert "shared" in (tmp_path / "out.html").read_text()


def test_json_on_standard_output_is_json_with_any_name_and_controls_no_terminal(tmp_path: Path) -> None:
    workload, name = random_workload(1), "a\x9b31m\u202eb"
    jobs = (replace(workload.jobs[0], name=name), *workload.jobs[1:])
    (tmp_path / "trace.json").write_bytes(encode(replace(workload, jobs=jobs)))
    done = simulate("--trace", tmp_path / "trace.json", "--algorithm", "packing", "--json", "-")

    assert name in {each.name for each in decode(done.stdout.encode()).runs[0].jobs}
    assert done.stdout.replace("\n", "").isprintable()


def test_results_that_cannot_be_written_are_refused_before_the_run(trace: Path, tmp_path: Path) -> None:
    before = trace.read_bytes()
    for option, path, why in (
        ("--html", trace, "is a file that this command reads: expected another file"),
        ("--json", tmp_path / "none" / "out.json", "expected a file in a folder that exists"),
        ("--html", tmp_path, "expected a file in a folder that exists"),
    ):
        done = simulate("--trace", trace, "--algorithm", "packing", option, path)
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"{option}: {path}" in done.stderr
        assert why in done.stderr
    assert trace.read_bytes() == before


@pytest.fixture
def cells(tmp_path: Path) -> str:
    """Settings of HiveD without the tenants of the traces."""
    path = tmp_path / "hived.yaml"
    path.write_text(hived_settings(["n0", "n1"], {"somebody": 1}))
    return f"hived={path}"


def test_jobs_that_never_start_say_why(trace: Path, cells: str, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    done = simulate("--trace", trace, "--algorithm", "hived", "--settings", cells, "--html", page)
    assert done.exit_code == 0, done.output
    why = "never started: PodInvalid: pod cannot be scheduled as declared: VC"
    assert why in done.stdout
    assert why in page.read_text()


def test_json_may_go_to_standard_output(trace: Path) -> None:
    done = simulate("--trace", trace, "--algorithm", "packing", "--limit", "3", "--json", "-")
    found = json.loads(done.stdout)
    assert (found["jobs"], found["remarks"]) == (3, ["only the first 3 of 40 jobs were simulated"])


def test_nodes_may_be_a_number_of_a_shape(trace: Path) -> None:
    shape = ("--nodes", "5", "--node-shape", "cpu=96,nvidia.com/gpu=4,label:rack=r%d/2")
    done = simulate("--trace", trace, "--algorithm", "packing", *shape)
    assert "on 5 nodes with 20 GPUs, 480 cores" in done.stdout
    assert "more for one pod than any node has" in done.stdout


def test_nodes_may_be_those_of_another_workload(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "nodes.json"
    other.write_bytes(encode(replace(random_workload(1, machines=7), jobs=())))
    done = simulate("--trace", trace, "--algorithm", "packing", "--nodes", other)
    assert "on 7 nodes" in done.stdout


def test_nodes_may_be_those_of_a_compressed_workload(trace: Path, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json.gz"
    nodes.write_bytes(gzip.compress(encode(replace(random_workload(2), jobs=()))))
    done = simulate("--trace", trace, "--nodes", nodes, "--algorithm", "packing")
    assert done.exit_code == 0, done.output


def test_a_trace_without_jobs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(encode(replace(random_workload(1), jobs=())))
    done = simulate("--trace", path, "--algorithm", "packing")
    assert done.exit_code == 2
    assert "--trace: expected at least one job, got none" in told(done)


def test_a_horizon_cuts_the_run(trace: Path) -> None:
    done = simulate("--trace", trace, "--algorithm", "packing", "--horizon", "1m", "--json", "-")
    run = json.loads(done.stdout)["runs"][0]
    assert run["measures"]["until"] == 60.0
    assert {job["state"] for job in run["jobs"]} >= {"done", "running"}
    assert all(job["arrival"] <= 60.0 for job in run["jobs"])


def test_settings_are_those_of_a_run(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("strategy: spread\n")
    (tmp_path / "waggle.yaml").write_text("algorithm: {name: packing, settings: {strategy: spread}}\n")
    runs = ("--algorithm", "packing", "--algorithm", "own=packing", "--algorithm", "whole=packing")
    settings = ("--settings", f"own={tmp_path / 'own.yaml'}", "--settings", f"whole={tmp_path / 'waggle.yaml'}")
    done = simulate("--trace", trace, *runs, *settings, "--json", "-")
    packed, own, whole = (run["measures"] for run in json.loads(done.stdout)["runs"])
    assert own == whole
    assert own != packed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--algorithm", "nobody"), "no algorithm named 'nobody' is installed"),
        (("--algorithm", "packing", "--algorithm", "packing"), "there are two runs of the name packing"),
        (("--algorithm", "a b=packing"), "--algorithm: expected ALGORITHM or RUN=ALGORITHM, got 'a b=packing'"),
        (("--algorithm", "packing", "--settings", "x"), "--settings: expected RUN=FILE, got 'x'"),
        (
            ("--algorithm", "packing", "--settings", "fgd=/none"),
            "--settings: fgd: expected the name of a run (packing)",
        ),
        (("--algorithm", "packing", "--settings", "packing=/none"), "/none: No such file or directory"),
        (("--algorithm", "packing", "--horizon", "soon"), "--horizon: expected a time such as 90s, 15m, 12h or 7d"),
        (("--algorithm", "packing", "--horizon", "0s"), "--horizon: expected more than 0 seconds, got '0s'"),
        (
            ("--algorithm", "packing", "--saves-every", "0.0h"),
            "--saves-every: expected more than 0 seconds, got '0.0h'",
        ),
        (("--algorithm", "packing", "--nodes", "0"), "nodes: expected 1 to 20000, got 0"),
        (("--algorithm", "packing", "--node-shape", "cpu=1"), "--node-shape: expected --nodes with a number of nodes"),
        (("--algorithm", "packing", "--nodes", "/none"), "/none: No such file or directory"),
        (("--algorithm", "packing", "--skip-broken"), "a workload of Waggle has no lines to leave out (--skip-broken)"),
        (("--algorithm", "packing", "--resume", "/none"), "/none: No such file or directory"),
        (("--algorithm", "packing", "--json", "/none/out"), "/none/out: expected a file in a folder that exists"),
    ],
)
def test_what_cannot_be_used_is_named(trace: Path, options: tuple[str, ...], message: str) -> None:
    done = simulate("--trace", trace, *options)
    assert done.exit_code == 2, done.output
    assert message in told(done)


@pytest.mark.parametrize(
    ("option", "value", "where"),
    [("--days", "3", "--study"), ("--svg", "x", "--study"), ("--policy", "fgd", "the fgd experiment (--pods)")],
)
def test_an_option_of_something_else_names_only_what_it_is_for(
    trace: Path, option: str, value: str, where: str
) -> None:
    done = simulate("--trace", trace, "--algorithm", "packing", option, value)
    assert done.exit_code == 2, done.output
    assert told(done).rstrip().endswith(f"{option}: does nothing with a trace: it is for {where}")


def test_wrong_settings_within_a_configuration_name_the_file(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "w2.yaml").write_text("algorithm: {name: packing, settings: {strategy: sprea}}\n")
    settings = ("--settings", f"a={tmp_path / 'w2.yaml'}")
    done = simulate("--trace", trace, "--algorithm", "a=packing", *settings)
    assert done.exit_code == 2
    assert f"{tmp_path / 'w2.yaml'}: settings of algorithm 'packing': strategy: " in done.stderr.replace("\n", "")


def test_wrong_settings_name_the_field(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("strategie: spread\n")
    done = simulate("--trace", trace, "--algorithm", "packing", "--settings", f"packing={tmp_path / 'own.yaml'}")
    assert done.exit_code == 2
    assert "strategie: there is no such field" in told(done)


def test_hived_without_cells_is_refused(trace: Path) -> None:
    done = simulate("--trace", trace, "--algorithm", "half=hived")
    assert done.exit_code == 2
    assert "--algorithm half: hived needs settings of its own, with its cells" in told(done)
    assert "--settings half=FILE" in told(done)


def test_a_job_that_an_algorithm_has_no_words_for_is_named(cells: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(encode(replace(random_workload(1), jobs=(Job("a", 0.0, {GPU: 1000}, 1.0),))))
    done = simulate("--trace", path, "--algorithm", "hived", "--settings", cells)
    assert done.exit_code == 2
    assert "job 'a': tenant: hived needs the name of a virtual cluster, and it is empty" in told(done)


# -- checkpoints ---------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_not_overwritten_and_one_of_something_else_is_refused(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    file.write_text("something else\n")
    options = ("--trace", trace, "--algorithm", "packing")
    done = simulate(*options, "--checkpoint", file)
    assert (done.exit_code, file.read_text()) == (2, "something else\n")
    assert f"{file} exists: expected --resume {file}, or another file" in told(done)
    done = simulate(*options, "--resume", file)
    assert done.exit_code == 2
    assert "not a checkpoint of a simulation" in told(done)


def raise_signal_after(moments: int, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send it between two moments of a run."""
    left, advance = [moments], Comparison.advance

    def watched(comparison: Comparison) -> bool:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(number)
        return advance(comparison)

    monkeypatch.setattr(Comparison, "advance", watched)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_run_that_was_interrupted_goes_on_and_gives_the_same_bytes(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    checkpoint, out, whole = tmp_path / "checkpoint", tmp_path / "out.json", tmp_path / "whole.json"
    options = ("--trace", trace, "--algorithm", "packing", "--algorithm", "fgd")
    with monkeypatch.context() as patched:
        raise_signal_after(100, number, patched)
        done = simulate(*options, "--json", out, "--checkpoint", checkpoint)
    assert done.exit_code == status
    assert f"interrupted; --resume {checkpoint} goes on" in told(done)
    assert not out.exists()
    assert simulate(*options, "--json", out, "--resume", checkpoint).exit_code == 0
    assert simulate(*options, "--json", whole).exit_code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not checkpoint.exists()


def test_a_run_that_fails_names_the_checkpoint_from_which_it_was_resumed(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, options = tmp_path / "checkpoint", ("--trace", trace, "--algorithm", "packing")
    with monkeypatch.context() as patched:
        raise_signal_after(30, signal.SIGINT, patched)
        simulate(*options, "--checkpoint", checkpoint)
    lines = gzip.decompress(checkpoint.read_bytes()).splitlines()[:-1]
    changed = [re.sub(rb'(\["list"),\[[0-9]+\]', rb"\1,null", line) for line in lines]
    assert changed != lines
    text = b"".join(line + b"\n" for line in changed)
    checkpoint.write_bytes(gzip.compress(text + b'{"end":"' + sha256(text).hexdigest().encode() + b'"}\n'))
    done = simulate(*options, "--resume", checkpoint)
    assert done.exit_code == 2
    assert told(done).startswith(f"waggle: {checkpoint}: ")


def test_a_workload_may_begin_with_a_byte_order_mark(trace: Path, tmp_path: Path) -> None:
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + trace.read_bytes())
    done = simulate("--trace", marked, "--nodes", marked, "--algorithm", "packing")
    assert done.exit_code == 0, done.output
    assert done.stdout == simulate("--trace", trace, "--nodes", trace, "--algorithm", "packing").stdout


def test_nodes_in_the_place_of_those_that_fail_are_refused_with_the_option(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    workload = random_workload(1)
    path.write_bytes(encode(replace(workload, failures=(NodeFailure(workload.nodes[0].name, 1.0, 2.0),))))
    done = simulate("--trace", path, "--algorithm", "packing", "--nodes", "4")
    assert done.exit_code == 2
    assert "--nodes 4: there is no node" in told(done)
    assert "of which the trace says when it fails" in told(done)
