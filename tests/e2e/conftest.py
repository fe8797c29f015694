"""The control plane of a test run, and worlds on it. See docs/testing.md."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import audit
from tests.e2e.build import BuildError, build
from tests.e2e.cluster import ControlPlane, Embedded
from tests.e2e.matrix import NEWEST, Entry
from tests.e2e.runs import run_folder
from tests.e2e.world import RealCluster, world

_HERE = Path(__file__).parent
#: Within which the control plane is to be up, so that a single test can be tried again and again.
READY_SECONDS = 15.0
#: The modules that take longest begin first, so that no worker is alone with one of them at the end. Each worker takes
#: one of the first three, then one of the next three, and then whatever is next.
_FIRST = (
    *("test_claims", "test_plan", "test_claims_objects"),
    *("test_bench", "test_direct_preemption", "test_install_guide"),
    *("test_refusal", "test_network", "test_vpods", "test_preemption", "test_vpods_drains", "test_gangs"),
    *("test_placement", "test_traps", "test_hived", "test_lint", "test_manifests", "test_restarts"),
)
_notes: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return _FIRST.index(item.path.stem) if item.path.stem in _FIRST else len(_FIRST)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # in a worker of xdist only
    if output is not None:
        output["notes"] = _notes


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _notes.extend(getattr(node, "workeroutput", {}).get("notes", ()))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int) -> None:
    for note in _notes:
        terminalreporter.write_line(note)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    folder = next((str(note).removeprefix("logs: ") for note in _notes if note.startswith("logs: ")), "")
    if report.failed and folder:
        report.sections.append(("logs of all components", folder))
    if report.when == "call":
        _notes.extend(f"measured: {text}" for name, text in item.user_properties if name == "measured")
    return report


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """The control plane's executables, built if they are not there yet."""
    try:
        return build()
    except BuildError as error:
        pytest.exit(f"e2e: {error}", returncode=2)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with run_folder() as path:
        _notes.append(f"logs: {path}")
        yield path


@pytest.fixture(scope="session")
def plane(programs: Mapping[str, Path], folder: Path) -> Iterator[ControlPlane]:
    """The real control plane, one for the whole run."""
    begun = time.monotonic()
    with ControlPlane(programs, folder) as running:
        took = time.monotonic() - begun
        _notes.append(f"the control plane was ready after {took:.1f} s")
        assert took < READY_SECONDS, f"the control plane was ready after {took:.1f} s; mostly it takes 3"
        yield running
        running.check()
        assert not (refused := audit.refused(running)), f"Waggle asked for what its role does not allow: {refused}"


@pytest.fixture(scope="module")
def entry(request: pytest.FixtureRequest) -> Entry:
    """The entry of the matrix that the module runs on now; see `matrix.every_entry`."""
    return getattr(request, "param", NEWEST)


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, entry: Entry, programs: Mapping[str, Path], folder: Path
) -> Iterator[RealCluster]:
    """The world of a module, as the quick start configures it. A module may say otherwise in WORLD."""
    given = dict(getattr(request.module, "WORLD", {}))
    if entry.scheduler not in programs:
        pytest.skip(f"WAGGLE_CONTROLPLANE_BIN has no {entry.scheduler}")
    name = f"{request.path.stem}-{entry.name}"
    if not entry.names:
        given["extender"] = {**given.get("extender", {}), "nodeCacheCapable": False}
    with ExitStack() as stack:
        if entry.cluster == "real":
            cluster = request.getfixturevalue("plane")
        else:
            (folder / name).mkdir()
            cluster = stack.enter_context(Embedded(folder / name))
        yield stack.enter_context(world(cluster, programs, scheduler=entry.scheduler, folder=name, **given))


@pytest.fixture
def w(shared: RealCluster) -> Iterator[RealCluster]:
    """The module's world, empty."""
    try:
        yield shared
        shared.check()
        assert not shared.overcommitted()
    finally:
        shared.clear()
