"""The image: built from hashes, without what is for development, and not run as root."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.manifests import MANIFESTS, ROOT, documents

DOCKERFILE = (MANIFESTS / "image" / "Dockerfile").read_text(encoding="utf-8")
IGNORE = (MANIFESTS / "image" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", DOCKERFILE)
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def copied() -> list[str]:
    """What is copied out of the repository."""
    return [source for copy in instructions("COPY") if "--from" not in copy for source in copy.split()[:-1]]


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    kept = [line[1:] for line in IGNORE if line.startswith("!")]
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    assert sorted(copied()) == sorted(kept)


def test_nothing_else_gets_into_the_build() -> None:
    assert "*" in IGNORE
    assert not any(fnmatch.fnmatch(name, source) for name in (".git", "tests", "manifests") for source in copied())


def test_whatever_is_fetched_is_held_against_its_hash() -> None:
    fetching = [run for run in instructions("RUN") if re.search(r"pip (install|download)", run)]
    assert all("--require-hashes" in run or "--no-index" in run for run in fetching)
    assert sum("--require-hashes" in run and "requirements.lock" in run for run in fetching) == 1


def test_the_last_stage_is_small_and_its_user_is_the_one_of_the_deployment() -> None:
    last = DOCKERFILE.split("\nFROM ")[-1]
    assert "RUN" not in last
    (deployment,) = documents(MANIFESTS / "base" / "deployment.yaml")
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert instructions("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]


def test_both_stages_are_the_same_python() -> None:
    assert [line.split()[0] for line in instructions("FROM")] == ["${PYTHON_IMAGE}@${PYTHON_DIGEST}"] * 2
    lowest = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    chosen = re.search(r"python:3\.(\d+)", instructions("ARG")[0])
    assert lowest
    assert chosen
    assert int(chosen[1]) >= int(lowest[1])


def test_there_is_no_build_without_a_digest() -> None:
    """A reference that ends with an at sign is none, for docker, podman and buildah alike."""
    assert instructions("ARG")[1:] == ["PYTHON_DIGEST"]
    assert "@" not in instructions("ARG")[0]


@pytest.mark.parametrize("page", ["docs/install.md", "manifests/image/Dockerfile"])
def test_every_build_that_is_shown_has_a_digest(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", "")
    shown = re.findall(r"docker build .*", text)
    assert shown
    assert [line for line in shown if "PYTHON_DIGEST=" not in line] == []


@pytest.mark.skipif(shutil.which("buildah") is None, reason="needs buildah")
@pytest.mark.parametrize("arguments", [[], ["--build-arg", "PYTHON_DIGEST=latest"]])
def test_buildah_refuses_to_build_without_a_digest(tmp_path: Path, arguments: list[str]) -> None:
    places = ["--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]
    file = ["-f", str(MANIFESTS / "image" / "Dockerfile"), str(tmp_path)]
    done = subprocess.run(
        ["buildah", *places, "bud", "--isolation=chroot", *arguments, *file],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "invalid reference format" in done.stderr


def test_the_ports_are_those_of_the_configuration() -> None:
    server = yaml.safe_load((MANIFESTS / "base" / "waggle.yaml").read_text(encoding="utf-8"))["server"]
    assert instructions("EXPOSE") == [f"{server['port']} {server['health_port']}"]
