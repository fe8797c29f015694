"""What an algorithm prints is not in the results of a command, and what it raises is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.lab.results import Results, decode
from extender.lab.workload_file import encode
from extender.operate.plugin_prints import prints_on_stderr
from tests.support.lab.workloads import random_workload

MODULE = """
import os
from pydantic import BaseModel
from algorithm.interface import Bind, SchedulerAlgorithm
from algorithm.registry import Plugin

class Settings(BaseModel): ...
class Panic(BaseException): ...

class Loud(SchedulerAlgorithm):
    def __init__(self, settings):
        self.calls = 0
    def nothing(self, *_): ...
    add_node = update_node = delete_node = add_unallocated_pod = delete_unallocated_pod = nothing
    add_allocated_pod = delete_allocated_pod = nothing
    def schedule(self, pod, suggested_nodes, phase):
        self.calls += 1
        print("{ a print")
        os.write(1, b"{ a write\\n")
        if self.calls == 3:
            raise Panic("at the third call")
        return Bind(next(iter(suggested_nodes)))

print("{ while it is imported")
PLUGIN = Plugin(settings=Settings, create=Loud)
"""


@pytest.fixture
def loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An algorithm that is installed."""
    info = tmp_path / "loud-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[waggle.algorithms]\nloud = loud_of_a_test:PLUGIN\n")
    (tmp_path / "loud_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("loud_of_a_test", None)


def simulate(tmp_path: Path) -> Result:
    (tmp_path / "trace.json").write_bytes(encode(random_workload(1)))
    return CliRunner().invoke(
        app, ["simulate", "--trace", str(tmp_path / "trace.json"), "--algorithm", "loud", "--json", "-"]
    )


def results(done: Result) -> Results:
    assert done.exit_code == 0, done.output
    return decode(done.stdout.encode())


@pytest.mark.usefixtures("loud")
def test_results_on_standard_output_are_json_whatever_the_algorithm_prints(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    results(simulate(tmp_path))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert {"{ while it is imported", "{ a print", "{ a write"} <= set(printed.err.splitlines())


@pytest.mark.usefixtures("loud")
def test_an_exception_of_the_algorithm_is_in_the_results_although_all_jobs_were_done(tmp_path: Path) -> None:
    (run,) = results(simulate(tmp_path)).runs
    (said,) = [each for each in run.remarks if "failed" in each]
    assert said.startswith("the algorithm failed once, in schedule (pod ")
    assert said.endswith("Panic: at the third call")


def test_a_command_without_standard_output_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `>&-` in a shell."""
    monkeypatch.setattr(sys, "stdout", None)
    with prints_on_stderr():
        print("nowhere")


def test_programs_that_it_starts_print_there_too_and_streams_that_it_closes_are_back(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with prints_on_stderr():
        subprocess.run([sys.executable, "-c", "print('a program')"], check=True)
        sys.stdout.close()
        os.close(1)
    print("a result")
    sys.stdout.flush()
    printed = capfd.readouterr()
    assert printed.out == "a result\n"
    assert printed.err == "a program\n"
