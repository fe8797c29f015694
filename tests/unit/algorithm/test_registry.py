"""The registry: installed does not mean active, and whatever cannot be used is refused with a reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from algorithm.reads import Reads
from algorithm.registry import API_VERSION, AlgorithmError, available, create, reads

MODULE = """
from pydantic import BaseModel, ConfigDict, Field
from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import Plugin

class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    spread: bool = False
    limit: int = Field(4, ge=1)

class Mine(SchedulerAlgorithm):
    def __init__(self, settings): self.settings = settings
    def nothing(self, *args): pass
    add_node = update_node = delete_node = add_unallocated_pod = delete_unallocated_pod = nothing
    add_allocated_pod = delete_allocated_pod = schedule = nothing

PLUGIN = Plugin(settings=Settings, create=Mine)
LEAN = Plugin(settings=Settings, create=Mine, annotations=["a", "b"], decisions=["c"])
OLD = Plugin(settings=Settings, create=Mine, api_version=0)
NO_PLUGIN = Mine
"""


class Site:
    """A folder on sys.path where a test installs distributions."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def install(self, name: str, entry_points: str, modules: dict[str, str] | None = None) -> None:
        info = self.root / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[waggle.algorithms]\n{entry_points}\n")
        for module, text in (modules or {}).items():
            (self.root / f"{module}.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        if name.startswith("registry_test_"):
            del sys.modules[name]


@pytest.fixture
def mine(site: Site) -> Site:
    points = "\n".join(f"{key} = registry_test_mine:{key.upper()}" for key in ("plugin", "lean", "old", "no_plugin"))
    site.install("registry_test", points + "\nabsent = registry_test_mine:ABSENT", {"registry_test_mine": MODULE})
    return site


def test_an_algorithm_is_made_from_its_settings(mine: Site) -> None:
    assert create("plugin", {"spread": True}).settings.spread is True  # type: ignore[attr-defined]


def test_settings_may_be_left_out(mine: Site) -> None:
    assert create("plugin").settings.limit == 4  # type: ignore[attr-defined]
    assert create("plugin", {}).settings.spread is False  # type: ignore[attr-defined]


def test_installed_does_not_mean_imported(site: Site, mine: Site) -> None:
    site.install("registry_bomb", "bomb = registry_test_bomb:PLUGIN", {"registry_test_bomb": "raise SystemExit(3)"})
    assert {"bomb", "plugin"} <= set(available())
    create("plugin")
    assert "registry_test_bomb" not in sys.modules


def test_the_installed_ones_are_listed_by_name_in_order(mine: Site) -> None:
    assert list(available()) == sorted(available())


def test_an_unknown_name_is_answered_with_those_that_exist(mine: Site) -> None:
    with pytest.raises(AlgorithmError, match=r"no algorithm named 'plugni' is installed; there are: .*plugin"):
        create("plugni")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"limit": 0}, "limit: "),
        ({"limit": "many"}, "limit: "),
        ({"spraed": True}, "spraed: "),
        ({"limit": 0, "spraed": True}, "; spraed: "),
    ],
)
def test_wrong_settings_are_refused_by_the_name_of_each_field(mine: Site, settings: Any, said: str) -> None:
    with pytest.raises(AlgorithmError, match="settings of algorithm 'plugin'") as caught:
        create("plugin", settings)
    assert said in str(caught.value)


def test_another_version_of_the_interface_is_refused(mine: Site) -> None:
    with pytest.raises(AlgorithmError, match=rf"'old' was written for interface version 0, this is .* {API_VERSION}"):
        create("old")


def test_an_entry_point_that_is_no_plugin_is_refused(mine: Site) -> None:
    with pytest.raises(AlgorithmError, match=r"registry_test_mine:NO_PLUGIN is not an algorithm\.registry\.Plugin"):
        create("no_plugin")


def test_an_entry_point_that_leads_nowhere_is_refused(mine: Site) -> None:
    with pytest.raises(AlgorithmError, match="'absent' cannot be imported: AttributeError"):
        create("absent")


def test_a_plugin_that_cannot_be_imported_is_refused(site: Site) -> None:
    site.install("registry_broken", "broken = registry_test_broken:X", {"registry_test_broken": "import no_such_thing"})
    with pytest.raises(AlgorithmError, match="'broken' cannot be imported: ModuleNotFoundError"):
        create("broken")


def test_a_plugin_that_ends_the_process_when_it_is_imported_is_refused(site: Site) -> None:
    site.install("registry_exits", "exits = registry_test_exits:X", {"registry_test_exits": "raise SystemExit(0)"})
    with pytest.raises(AlgorithmError, match=r"'exits' cannot be imported: SystemExit\(0\)"):
        create("exits")


@pytest.mark.parametrize("where", ["create=lambda _: exit(0)", "create=Mine, settings=Exits"])
def test_a_plugin_that_ends_the_process_when_it_is_made_is_refused(site: Site, where: str) -> None:
    more = """
class Exits(BaseModel):
    def __init__(self, **_): exit(0)
    @classmethod
    def model_validate(cls, *_): exit(0)
"""
    settings = "" if "settings" in where else "settings=Settings, "
    module = f"{MODULE}\nfrom sys import exit\n{more}\nX = Plugin({settings}{where})\n"
    site.install("registry_made", "made = registry_test_made:X", {"registry_test_made": module})
    with pytest.raises(AlgorithmError, match=r"algorithm 'made'.*SystemExit\(0\)"):
        create("made")


def test_a_plugin_whose_exception_fails_to_say_anything_is_refused(site: Site) -> None:
    module = """
class Mute(Exception):
    def __repr__(self): raise RuntimeError
raise Mute
"""
    site.install("registry_mute", "mute = registry_test_mute:X", {"registry_test_mute": module})
    with pytest.raises(AlgorithmError, match="'mute' cannot be imported: Mute"):
        create("mute")


def test_one_name_claimed_by_two_distributions_is_refused(site: Site, mine: Site) -> None:
    site.install("registry_rival", "plugin = registry_test_rival:PLUGIN", {"registry_test_rival": MODULE})
    with pytest.raises(AlgorithmError, match=r"'plugin' is claimed twice: registry_test_mine:PLUGIN, registry"):
        create("plugin")


def test_an_algorithm_that_says_what_it_reads_has_no_more_kept_for_it(mine: Site) -> None:
    assert reads("lean") == Reads(wishes=frozenset({"a", "b"}), decisions=frozenset({"c"}))


def test_for_an_algorithm_that_says_nothing_every_annotation_is_kept(mine: Site) -> None:
    assert reads("plugin") == Reads()
