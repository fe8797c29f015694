"""The package that `waggle new-algorithm` writes: it is installed, its tests pass, and its workload is simulated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.new_algorithm import done, install, made

WAGGLE = (sys.executable, "-m", "extender.cli")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("new"), "gpu_quota")


@pytest.fixture(scope="module")
def environment(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return install(project, tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_its_tests_pass_at_once(project: Path, environment: dict[str, str]) -> None:
    said = done(
        *(sys.executable, "-m", "pytest", "-q", "--conformance-lives", "3"), folder=project, environment=environment
    )
    assert " passed" in said
    assert "failed" not in said


@pytest.mark.slow
def test_it_is_found_by_its_name_and_runs_its_workload(project: Path, environment: dict[str, str]) -> None:
    options = ("--trace", "trace.json", "--algorithm", "gpu_quota", "--settings", "gpu_quota=waggle.yaml")
    said = done(*WAGGLE, "simulate", *options, folder=project, environment=environment)
    assert "40 jobs with 45 pods" in said
    assert "jobs done                            40" in said


@pytest.mark.slow
def test_linters_find_nothing_in_it(project: Path) -> None:
    done(sys.executable, "-m", "ruff", "check", "--no-cache", folder=project)
    done(sys.executable, "-m", "ruff", "format", "--check", "--no-cache", folder=project)
    done(sys.executable, "-m", "mypy", "--cache-dir", str(project.parent / "mypy"), folder=project)


@pytest.mark.slow
def test_it_keeps_the_contract(project: Path, environment: dict[str, str]) -> None:
    done(*WAGGLE, "conformance", "gpu_quota", "--lives", "30", folder=project, environment=environment)
