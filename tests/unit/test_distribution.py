"""What the index would show of the distribution: complete metadata, links that work away from the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from algorithm.interface import SchedulerAlgorithm
from extender.cli import DISTRIBUTION
from extender.demo.workloads import MANIFESTS

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = PROJECT["urls"]["Homepage"]
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def test_the_program_knows_its_own_distribution() -> None:
    assert PROJECT["name"] == DISTRIBUTION


def test_the_commands_are_waggle_and_a_plug_in_of_kubectl() -> None:
    assert set(PROJECT["scripts"]) == {"waggle", "kubectl-waggle"}


def test_every_url_is_below_the_repository() -> None:
    assert [url for url in PROJECT["urls"].values() if not url.startswith(REPOSITORY)] == []


def test_an_url_of_a_page_names_a_file_that_is_there() -> None:
    urls = {*re.findall(r"https?://[^\s)>]+", README), *PROJECT["urls"].values()}
    pages = {page for url in urls if (page := url.partition(f"{REPOSITORY}/blob/main/")[2])}
    assert len(pages) > 10
    assert [page for page in sorted(pages) if not (ROOT / page.partition("#")[0]).exists()] == []


def test_no_link_of_the_readme_needs_the_repository_beside_it() -> None:
    """The index renders the README alone."""
    inline = re.findall(r"\]\(([^)]+)\)", README)
    defined = dict(re.findall(r"^\[([^]]+)\]: (\S+)$", README, re.MULTILINE))
    used = set(re.findall(r"\]\[([^]]+)\]", README))
    assert used == set(defined)
    assert [target for target in [*inline, *defined.values()] if not target.startswith(("https://", "#"))] == []


def test_the_classifiers_name_every_python_from_the_lowest_on() -> None:
    lowest = int(PROJECT["requires-python"].removeprefix(">=3."))
    named = {int(each) for each in re.findall(r":: 3\.(\d+)", " ".join(PROJECT["classifiers"]))}
    assert named == set(range(lowest, max(named) + 1))
    assert "Typing :: Typed" in PROJECT["classifiers"]


@pytest.mark.parametrize("package", ["algorithm", "extender"])
def test_both_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def test_the_demo_has_its_workloads_within_its_package() -> None:
    assert list(MANIFESTS.glob("*.yaml"))
    assert MANIFESTS.is_relative_to(ROOT / "extender")


@pytest.mark.parametrize("text", [README, SchedulerAlgorithm.__doc__ or ""], ids=["README", "interface"])
def test_the_number_of_methods_that_an_algorithm_has_to_implement_is_told_right(text: str) -> None:
    (told,) = re.findall(r"(\w+) methods", text)
    assert told == NUMBERS[len(SchedulerAlgorithm.__abstractmethods__) - 1]
