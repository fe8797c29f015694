"""Installs plug-ins for a test, as pip would leave them: metadata on sys.path, which name a module that is there."""

from __future__ import annotations

from pathlib import Path

import pytest


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **algorithms: str) -> None:
    """Make algorithms known by their names; each is `module:attribute`. `folder` is put on sys.path."""
    info = folder / "of_a_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: of-a-test\nVersion: 1\n")
    lines = [f"{name} = {point}" for name, point in algorithms.items()]
    (info / "entry_points.txt").write_text("\n".join(["[waggle.algorithms]", *lines, ""]))
    monkeypatch.syspath_prepend(str(folder))
