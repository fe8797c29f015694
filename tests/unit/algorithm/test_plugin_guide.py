"""docs/plugin-authors.md shows what `waggle new-algorithm` writes, and that does what the page says."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from algorithm.conformance.report import as_text
from algorithm.conformance.results import Request
from algorithm.conformance.session import run
from algorithm.interface import Bind, Phase, SchedulerAlgorithm, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from algorithm.registry import AlgorithmError, create
from extender.operate.scaffold.writing import contents
from extender.settings import Settings
from tests.support.pages import blocks, page

PAGE = page("plugin-authors.md")
ALGORITHM, CONTRACT, TEST, EXPLAIN = blocks(PAGE, "python")
(ENTRY_POINT,) = blocks(PAGE, "toml")
CONFIG, SCHEDULER = blocks(PAGE, "yaml")
PACKAGE = contents("slots")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package and its entry point on sys.path, as pip would leave them."""
    (tmp_path / "slots").mkdir()
    for path in ("slots/__init__.py", "slots/algorithm.py"):
        (tmp_path / path).write_text(PACKAGE[path], encoding="utf-8")
    project = tomllib.loads(PACKAGE["pyproject.toml"])["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (group, points) = next(iter(project["entry-points"].items()))
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("slots", "slots.algorithm"):
        sys.modules.pop(name, None)


def configured() -> SchedulerAlgorithm:
    wanted = Settings.model_validate(yaml.safe_load(CONFIG)).algorithm
    return create(wanted.name, wanted.settings)


def pod(name: str, node: str = "") -> Pod:
    return Pod(namespace="default", name=name, uid=name, node_name=node)


def test_the_algorithm_is_as_short_as_the_page_promises() -> None:
    assert len(ALGORITHM.splitlines()) <= 40


@pytest.mark.slow  # three seconds of CPU; what follows calls it, too
def test_the_algorithm_keeps_the_contract(tmp_path: Path) -> None:
    """With all checks of the conformance kit, none opted out."""
    report = run(Request(plugin=f"{tmp_path / 'slots' / 'algorithm.py'}:PLUGIN", settings={"slots": 2}, lives=2))
    assert report.conforms, as_text(report)
    assert not {each.status for each in report.results} & {"excused", "warned"}


def test_the_page_shows_the_files_of_the_package() -> None:
    assert PACKAGE["slots/algorithm.py"] == ALGORITHM
    assert PACKAGE["tests/test_contract.py"] == CONTRACT
    assert PACKAGE["tests/test_algorithm.py"] == TEST
    assert PACKAGE["waggle.yaml"] == CONFIG
    assert PACKAGE["scheduler.yaml"] == SCHEDULER
    assert ENTRY_POINT in PACKAGE["pyproject.toml"]
    listed = set(re.findall(r"^\| `([^|]*)` \|", PAGE.partition("## The first 40 lines")[0], re.MULTILINE))
    named = {path for cell in listed for path in cell.split("`, `")}
    assert named == PACKAGE.keys() - {"slots/__init__.py", "slots/py.typed"}


def test_it_explains_with_numbers() -> None:
    algorithm = configured()
    algorithm.add_node(Node(name="a", allocatable=()))
    names: dict[str, object] = {"Pod": Pod}
    exec(compile(EXPLAIN, "docs/plugin-authors.md", "exec"), names)
    explain = names["explain"]
    assert callable(explain)
    assert explain(algorithm, pod("p"))[0].startswith("0 of ")


def test_the_configured_algorithm_schedules_within_its_slots() -> None:
    slots = configured()
    slots.add_node(Node(name="n1"))
    for name in ("a", "b"):
        assert slots.schedule(pod(name), SuggestedNodes(["n1"]), Phase.FILTERING) == Bind("n1")
        slots.add_unallocated_pod(pod(name))
        slots.add_allocated_pod(pod(name, "n1"))
    assert isinstance(slots.schedule(pod("c"), SuggestedNodes(["n1"]), Phase.FILTERING), Wait)
    slots.delete_allocated_pod(pod("a", "n1"))
    assert slots.schedule(pod("c"), SuggestedNodes(["n1"]), Phase.FILTERING) == Bind("n1")


def test_schedule_leaves_no_trace() -> None:
    slots = configured()
    slots.add_node(Node(name="n1"))
    before = repr(vars(slots))
    for phase in Phase:
        slots.schedule(pod("a"), SuggestedNodes(["n1", "never-seen"]), phase)
    assert repr(vars(slots)) == before


def test_nodes_may_be_unknown_or_gone() -> None:
    slots = configured()
    slots.add_allocated_pod(pod("a", "late"))
    assert isinstance(slots.schedule(pod("b"), SuggestedNodes(["late"]), Phase.FILTERING), Wait)
    slots.add_node(Node(name="late"))
    assert slots.schedule(pod("b"), SuggestedNodes(["late"]), Phase.FILTERING) == Bind("late")
    slots.delete_node(Node(name="late"))
    slots.delete_allocated_pod(pod("a", "late"))


@pytest.mark.parametrize("settings", [{"slots": 0}, {"slot": 2}])
def test_a_wrong_setting_stops_the_start(settings: dict[str, int]) -> None:
    with pytest.raises(AlgorithmError, match="settings of algorithm 'slots'"):
        create("slots", settings)


def test_the_test_on_the_page_passes() -> None:
    namespace: dict[str, Callable[[], None]] = {}
    exec(compile(TEST, "docs/plugin-authors.md", "exec"), namespace)
    tests = [function for name, function in namespace.items() if name.startswith("test_")]
    assert tests
    for function in tests:
        function()
