"""`waggle simulate --study`, as users call it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app
from extender.lab.studies.sharing.study import TENANTS, run
from extender.lab.studies.sharing.trace import draw


@pytest.mark.slow
def test_a_study_prints_its_table_and_draws_its_figure(tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    options = ["--study", "sharing", "--days", "1", "--seed", "3", "--svg", str(figure)]
    done = CliRunner().invoke(app, ["simulate", *options])
    assert done.exit_code == 0, done.output
    assert "| research |" in done.stdout
    assert "HiveD: beside them" in done.stdout
    assert figure.read_text().startswith("<svg ")


def test_a_figure_that_cannot_be_written_is_named() -> None:
    done = CliRunner().invoke(app, ["simulate", "--study", "sharing", "--days", "1", "--svg", "/none/x.svg"])
    assert done.exit_code == 2
    assert "--svg: /none/x.svg: expected a file in a folder that exists" in done.stderr


def test_too_few_days_for_a_job_of_each_tenant_are_refused() -> None:
    seed = next(seed for seed in range(1000) if not any(job.tenant == "language" for job in draw(TENANTS, 1, seed)))
    with pytest.raises(ValueError, match="no job of language comes within 1 days: expected more days"):
        run(1, seed)


@pytest.mark.parametrize("options", [[], ["--nodes", "x"], ["--trace", "x"], ["--algorithm", "packing"]])
def test_neither_a_trace_nor_a_study_is_refused(options: list[str]) -> None:
    done = CliRunner().invoke(app, ["simulate", *options])
    assert done.exit_code == 2
    assert "expected --trace and --algorithm, or --study" in done.stderr


def test_a_folder_named_like_the_experiment_has_another_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "openb").mkdir()
    done = CliRunner().invoke(app, ["simulate", "--trace", "openb", "--algorithm", "packing"])
    assert done.exit_code == 2
    assert "a folder of this name is ./openb" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    "options", [["--pods", "x"], ["--trace", "openb"], ["--nodes", "x", "--pods", "y", "--algorithm", "packing"]]
)
def test_the_published_experiment_needs_both_files_and_fgd(options: list[str]) -> None:
    done = CliRunner().invoke(app, ["simulate", *options])
    assert done.exit_code == 2
    assert "expected --nodes NODES.csv, --pods PODS.csv, and no algorithm but fgd" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--study", "sharing", "--html", "x.html"], "--html: does nothing with --study"),
        (["--study", "sharing", "--algorithm", "fgd"], "--algorithm: does nothing with --study"),
        (["--nodes", "x", "--pods", "y", "--html", "x.html"], "--html: does nothing in the fgd experiment (--pods)"),
        (["--trace", "x", "--algorithm", "fgd", "--policy", "random"], "--policy: does nothing with a trace"),
        (["--trace", "x", "--algorithm", "fgd", "--svg", "x.svg"], "--svg: does nothing with a trace"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["simulate", *options])
    assert done.exit_code == 2
    assert said in done.stderr
