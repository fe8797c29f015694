"""The shipped configurations of kube-scheduler are what `waggle kube-scheduler-config` writes, and without traps."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app
from tests.support.manifests import MANIFESTS

SHIPPED = {
    "kube-scheduler": "--topology static-pod --url https://10.96.0.96:9096 --managed-resource example.com/gpu",
    "components/second-scheduler": "--topology second-scheduler",
}


@pytest.mark.parametrize("folder", SHIPPED)
def test_it_is_what_the_command_writes(folder: str, tmp_path: Path) -> None:
    written = tmp_path / "written.yaml"
    arguments = ["kube-scheduler-config", *SHIPPED[folder].split(), "--output", str(written)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    shipped = MANIFESTS / folder / "kube-scheduler-config.yaml"
    assert shipped.read_text(encoding="utf-8") == written.read_text(encoding="utf-8"), (
        f"waggle {' '.join(arguments[:-1])} {shipped}"
    )


#: Waggle's own configuration that is shipped beside each.
WAGGLES = {"kube-scheduler": "base", "components/second-scheduler": "components/second-scheduler"}


@pytest.mark.parametrize("folder", SHIPPED)
def test_it_agrees_with_waggles_own_configuration(folder: str, tmp_path: Path) -> None:
    shipped = MANIFESTS / folder / "kube-scheduler-config.yaml"
    waggle = str(MANIFESTS / WAGGLES[folder] / "waggle.yaml")
    done = CliRunner().invoke(app, ["lint", str(shipped), "--config", waggle])
    assert done.exit_code == 0, done.output
    written = tmp_path / "written.yaml"
    options = SHIPPED[folder].replace("--managed-resource example.com/gpu", "").split()
    arguments = ["kube-scheduler-config", *options, "--config", waggle, "--output", str(written)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert shipped.read_text(encoding="utf-8") == written.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", SHIPPED)
def test_lint_finds_nothing_in_it(folder: str) -> None:
    shipped = MANIFESTS / folder / "kube-scheduler-config.yaml"
    assert CliRunner().invoke(app, ["lint", str(shipped)]).exit_code == 0


def test_every_shipped_configuration_is_among_them() -> None:
    files = (path for path in MANIFESTS.rglob("kube-scheduler-config.yaml") if not path.is_symlink())
    found = {str(path.parent.relative_to(MANIFESTS)) for path in files}
    assert found == SHIPPED.keys()
