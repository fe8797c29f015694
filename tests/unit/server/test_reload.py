"""A changed configuration file: taken into use, refused and told, or named as needing a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from algorithm.registry import create
from extender.scheduling.commands import Command
from extender.scheduling.events import NodeSeen, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.reload import Reconfiguration
from extender.server.runtime import Runtime
from extender.settings import algorithm_settings, load
from tests.support.apiserver.api import eventually
from tests.support.engine.objects import node, pod

CELLS = """
physicalCluster:
  cellTypes: {host: {childCellType: gpu, childCellNumber: 4, isNodeLevel: true}}
  physicalCells: [{cellType: host, cellAddress: 010}]
virtualClusters:
  blue: {virtualCells: [{cellType: host, cellNumber: %d}]}
"""


class Server:
    """A runtime with its configuration file in front of it."""

    def __init__(self, folder: Path, **algorithm: Any) -> None:
        self.path = folder / "waggle.yaml"
        self.write(algorithm={"name": "packing", **algorithm})
        settings = load(self.path)
        used = algorithm_settings(settings.algorithm)
        self.machine = SchedulerStateMachine(create(settings.algorithm.name, used))
        self.commands: list[Command] = []
        self.runtime = Runtime(self.machine, self.commands.append)
        self.reconfiguration = Reconfiguration(self.runtime, settings, used, self.path)
        self.runtime.add_readiness_warning(self.reconfiguration.readiness_warning)
        self.runtime.handle(NodeSeen(node("a")), NodeSeen(node("b")), PodSeen(pod("runs", on="a")), Synced())
        self.look()

    def write(self, **sections: Any) -> None:
        self.path.write_text(yaml.safe_dump(sections))

    def look(self, times: int = 1, **how: Any) -> None:
        for _ in range(times):
            self.reconfiguration.look(**how)

    @property
    def algorithm(self) -> Any:
        return self.machine.driver.algorithm

    @property
    def told(self) -> str:
        ready = self.runtime.readiness()
        assert ready.ready, "a configuration that is not used is no reason to be taken out of service"
        return ready.detail

    def metric(self, name: str) -> dict[str, float]:
        [found] = [each for each in self.reconfiguration.metrics() if each.name == f"waggle_configuration_{name}"]
        return {"".join(labels.values()): value for labels, value in found.samples}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.machine.validate()


def test_a_changed_file_is_used_when_it_is_the_same_at_two_looks(server: Server) -> None:
    before = server.algorithm
    server.write(algorithm={"name": "packing", "settings": {"strategy": "spread"}})
    server.look()
    assert server.algorithm is before
    server.look()
    assert server.algorithm.settings.strategy == "spread"
    assert server.machine.driver.allocated.keys() == {"uid-runs"}
    assert server.metric("reloads_total") == {"done": 1, "failed": 0}
    server.look(3)
    assert server.metric("reloads_total") == {"done": 1, "failed": 0}


def test_at_a_signal_it_is_used_at_once(server: Server) -> None:
    server.write(algorithm={"name": "packing", "settings": {"strategy": "spread"}})
    server.look(at_once=True)
    assert server.algorithm.settings.strategy == "spread"


def test_a_file_that_means_the_same_changes_nothing(server: Server) -> None:
    before = server.algorithm
    server.path.write_text("# a remark\nalgorithm: {name: packing, settings: {}}\n")
    server.look(at_once=True)
    assert server.algorithm is before
    assert server.metric("reloads_total") == {"done": 0, "failed": 0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("algorithm: [", "waggle.yaml: "),
        ("algorithm: {nmae: packing}", "algorithm.nmae: there is no such field"),
        ("algorithm: {settings: {strategy: scatter}}", "strategy: Input should be 'pack' or 'spread'"),
        ("algorithm: {settings_file: /nowhere.yaml}", "algorithm.settings_file: "),
    ],
)
def test_a_broken_file_is_told_and_the_old_one_kept(server: Server, text: str, said: str) -> None:
    before, good = server.algorithm, server.path.read_text()
    server.path.write_text(text)
    server.look()
    assert server.told == "", "it may be half written"
    server.look(3)
    assert server.algorithm is before
    assert said in server.told
    assert server.metric("reload_failing") == {"": 1}
    assert server.metric("reloads_total") == {"done": 0, "failed": 1}
    server.path.write_text(good)
    server.look(2)
    assert server.told == ""
    assert server.metric("reload_failing") == {"": 0}


def test_a_file_that_vanishes_is_told(server: Server) -> None:
    server.path.unlink()
    server.look(2)
    assert "No such file" in server.told


def test_one_that_was_refused_is_tried_again_at_a_signal_only(server: Server) -> None:
    server.write(algorithm={"name": "packing", "settings": {"strategy": "scatter"}})
    server.look(5)
    assert server.metric("reloads_total")["failed"] == 1
    server.look(at_once=True)
    assert server.metric("reloads_total")["failed"] == 2


def test_what_needs_a_restart_is_named_and_the_rest_is_used(server: Server) -> None:
    more = {"server": {"port": 1}, "log": {"level": "debug"}}
    server.write(algorithm={"name": "packing", "settings": {"strategy": "spread"}}, **more)
    server.look(2)
    assert server.algorithm.settings.strategy == "spread"
    assert server.told == "changes of the configuration that need a restart: log.level, server.port"
    assert server.metric("restart_needed") == {"": 2}


def test_another_algorithm_needs_a_restart(server: Server) -> None:
    before = server.algorithm
    server.write(algorithm={"name": "hived", "settings": {}})
    server.look(2)
    assert server.algorithm is before
    assert "need a restart: algorithm.name" in server.told


def test_a_config_map_is_swapped_as_a_link(tmp_path: Path) -> None:
    for name, strategy in (("one", "pack"), ("two", "spread")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "waggle.yaml").write_text(f"algorithm: {{settings: {{strategy: {strategy}}}}}")
    (tmp_path / "data").symlink_to("one")
    server = Server(tmp_path)
    server.path.unlink()
    server.path.symlink_to("data/waggle.yaml")
    server.look(2)
    assert server.algorithm.settings.strategy == "pack"
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "data")
    server.look(2)
    assert server.algorithm.settings.strategy == "spread"


def test_a_settings_file_is_looked_at_too(tmp_path: Path) -> None:
    file = tmp_path / "hivedscheduler.yaml"
    file.write_text(CELLS % 1)
    server = Server(tmp_path, name="hived", settings_file=str(file))
    assert list(server.algorithm.hive.layout.machines) == ["010"], "as the original reads it: a text"
    file.write_text(CELLS % 2)
    server.look(2)
    assert "promised 2 cells host of host (blue 2), but there are 1" in server.told
    file.write_text(CELLS % 0)
    server.look(2)
    assert server.told == ""
    assert server.algorithm.hive.layout.tenants["blue"].quota == {}


def test_nothing_is_looked_at_before_the_cluster_is_known(tmp_path: Path) -> None:
    server = Server(tmp_path)
    engine = SchedulerStateMachine(create("packing", {}))
    young = Reconfiguration(Runtime(engine, lambda _: None), load(server.path), {}, server.path)
    server.write(algorithm={"settings": {"strategy": "spread"}})
    young.look(at_once=True)
    young.look()
    assert engine.driver.algorithm.settings.strategy == "pack"
    engine.handle(Synced(), 0.0)
    young.look()
    assert engine.driver.algorithm.settings.strategy == "spread"


def test_an_algorithm_that_cannot_be_made_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("extender.server.reload.create", fails)
    server.write(algorithm={"settings": {"strategy": "spread"}})
    server.look(2)
    assert "the algorithm cannot be made: ZeroDivisionError: oh" in server.told


def test_the_thread_looks_by_itself_and_at_a_signal(tmp_path: Path) -> None:
    server = Server(tmp_path, reload_seconds=3600)
    server.reconfiguration.start()
    try:
        for strategy in ("spread", "pack", "spread"):
            server.write(algorithm={"reload_seconds": 3600, "settings": {"strategy": strategy}})
            server.reconfiguration.request()
            eventually(lambda wanted=strategy: server.algorithm.settings.strategy == wanted)
    finally:
        server.reconfiguration.stop()


def test_without_a_file_there_is_nothing_to_do(tmp_path: Path) -> None:
    server = Server(tmp_path)
    bare = Reconfiguration(server.runtime, load(server.path), {}, None)
    bare.start()
    bare.look(at_once=True)
    bare.stop()
    assert all(metric.samples == [] for metric in bare.metrics())


def test_an_empty_file_is_all_defaults_not_what_was_there(tmp_path: Path) -> None:
    server = Server(tmp_path, settings={"strategy": "spread"})
    server.path.write_text("")
    server.look(2)
    assert server.algorithm.settings.strategy == "pack"


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "deep", "no text", "key"])
def test_whatever_stands_in_place_of_the_file_is_told_and_changes_nothing(server: Server, kind: str) -> None:
    before = server.algorithm
    server.path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(server.path)
        case "folder":
            server.path.mkdir()
        case "loop":
            server.path.symlink_to(server.path)
        case "deep":
            server.path.write_text("a: " + "[" * 400)
        case "no text":
            server.path.write_bytes(b"\xff\xfe\x00")
        case "key":
            server.path.write_text("? [a]\n: 1")
    server.look(3)
    assert server.algorithm is before
    assert "the new configuration cannot be used, the old one is kept" in server.told
    assert server.metric("reloads_total") == {"done": 0, "failed": 1}


def test_a_fault_while_looking_is_told_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("extender.server.reload.parse", fails)
    server.write(algorithm={"settings": {"strategy": "spread"}})
    server.reconfiguration.request()
    server.reconfiguration.start()
    try:
        eventually(lambda: "looking at it failed: ZeroDivisionError: oh" in server.told)
    finally:
        server.reconfiguration.stop()
