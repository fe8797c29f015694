"""The texts of manifests: files, folders, standard input, and kustomize folders."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from extender.operate import plan_sources
from extender.operate.plan_sources import sources
from extender.plan.reading.documents import InputError


def _write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def _kubectl(tmp_path: Path, script: str) -> str:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_a_folder_is_read_by_name_and_recursively(tmp_path: Path) -> None:
    _write(tmp_path, b_yaml="b", a_json="a", c__d_yml="d", c__e_txt="no", _hidden_yaml="no", z_yaml="z")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = sources([str(tmp_path)])
    assert [(Path(each.name).name, each.text) for each in found] == [
        ("a.json", b"a"),
        ("b.yaml", b"b"),
        ("d.yml", b"d"),
        ("z.yaml", b"z"),
    ]


def test_files_come_in_the_order_in_which_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, a_yaml="a", b_txt="b")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"in")))
    found = sources([str(tmp_path / "b.txt"), "-", str(tmp_path / "a.yaml"), "-"])
    assert [each.text for each in found] == [b"b", b"in", b"a"]


@pytest.mark.parametrize("name", ["none.yaml", "empty"])
def test_what_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        sources([str(tmp_path / name)])


def test_all_texts_together_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_sources, "MOST_BYTES", 10)
    _write(tmp_path, a_yaml="123456", b_yaml="123456")
    with pytest.raises(InputError, match=r"b\.yaml: all files together"):
        sources([str(tmp_path)])
    monkeypatch.setattr(plan_sources, "_MOST_FILES", 1)
    monkeypatch.setattr(plan_sources, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="more than 1 files"):
        sources([str(tmp_path)])


def test_a_kustomization_is_built_by_kubectl(tmp_path: Path) -> None:
    folder = _write(tmp_path / "app", kustomization_yaml="resources: []", other_yaml="not read")
    program = _kubectl(tmp_path, 'echo "$1 $2 $3"')
    (found,) = sources([str(tmp_path / "app")], kubectl=program)
    assert found.text == f"kustomize -- {folder}\n".encode()
    assert found.name == f"{folder} (kustomize)"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no such base >&2; exit 1", "kubectl kustomize failed: no such base"),
        ("exit 3", "kubectl kustomize failed: it said nothing"),
        ("yes", "all files together have more than"),
        ("sleep 60", "kubectl kustomize took more than 0 s"),
    ],
)
def test_a_kustomization_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(plan_sources, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(plan_sources, "_PATIENCE", 0.2 if "sleep" in script else 20)
    _write(tmp_path / "app", kustomization_yaml="")
    with pytest.raises(InputError, match=why):
        sources([str(tmp_path / "app")], kubectl=_kubectl(tmp_path, script))


def test_without_kubectl_a_kustomization_says_what_to_do(tmp_path: Path) -> None:
    _write(tmp_path / "app", kustomization_yaml="")
    with pytest.raises(InputError, match=r"kubectl kustomize .*app > all\.yaml"):
        sources([str(tmp_path)], kubectl=str(tmp_path / "none"))
