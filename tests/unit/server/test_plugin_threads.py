"""A thread that a plug-in starts in a server is said once, with the line that started it. Those of others are not."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from algorithm import registry
from algorithm.interface import SuggestedNodes
from extender.scheduling.events import NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import plugin_threads
from extender.server.runtime import Runtime
from extender.server.service import Service
from extender.server.watchdog import AGAIN
from extender.settings import AlgorithmSettings, ClusterSettings, Settings
from tests.support.engine.objects import node, pod
from tests.support.installed import install

NAME = "starts_threads_in_a_test"
#: The thread of its own starts when the plug-in is made, those of the pool with the first decision.
MODULE = """
import threading
from concurrent.futures import ThreadPoolExecutor

from algorithm.registry import Plugin
from tests.support.engine.plain_algorithm import PlainAlgorithm
from pydantic import BaseModel


class Settings(BaseModel):
    pass


class Threads(PlainAlgorithm):
    def __init__(self):
        super().__init__()
        own = threading.Thread(target=print, args=("",), kwargs={"end": ""}, name="refresher")
        own.start()
        own.join()

    def schedule(self, pod, suggested_nodes, phase):
        with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
            return pool.submit(super().schedule, pod, suggested_nodes, phase).result()


PLUGIN = Plugin(settings=Settings, create=lambda _: Threads())
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of such a plug-in. Nothing is noticed after the test."""
    module = tmp_path / f"{NAME}.py"
    module.write_text(MODULE)
    install(tmp_path, monkeypatch, **{NAME: f"{NAME}:PLUGIN"})
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    monkeypatch.setattr(
        threading.Thread, "start", getattr(threading.Thread.start, "__wrapped__", threading.Thread.start)
    )
    monkeypatch.setattr(plugin_threads, "_found", {})
    return module


class Served:
    """A runtime with the plug-in, and with the clock of the test."""

    def __init__(self) -> None:
        self.now = 100.0
        plugin_threads.notice()
        machine = SchedulerStateMachine(registry.create(NAME, {}))
        self.runtime = Runtime(machine, lambda _: None, clock=lambda: self.now)
        self.runtime.handle(NodeSeen(node("a")), Synced())


def line_of(text: str, path: Path) -> str:
    lines = path.read_text().splitlines()
    return f"{path}:{1 + next(number for number, line in enumerate(lines) if text in line)}"


def test_each_line_that_starts_threads_is_said_once_and_in_readyz(installed: Path) -> None:
    served = Served()
    for name in ("p", "q"):
        served.runtime.filter(pod(name), SuggestedNodes(["a"]))
    with capture_logs() as lines:
        served.runtime.watchdog.look()
        served.runtime.watchdog.look()
    started = [("refresher", line_of("own.start()", installed)), ("pool_0", line_of("pool.submit", installed))]
    assert [(line["event"], line["module"], line["name"], line["at"]) for line in lines] == [
        ("a plug-in has started a thread", NAME, *each) for each in started
    ]
    texts = [f"plug-in {NAME} has started a thread, {name} ({at})" for name, at in started]
    assert served.runtime.readiness().detail == "; ".join(texts)
    served.now += 10 * AGAIN + 1
    assert served.runtime.readiness().detail == ""


@pytest.mark.usefixtures("installed")
def test_the_threads_of_others_are_not_noticed() -> None:
    served = Served()
    known = plugin_threads.known()
    others = threading.Thread(target=served.runtime.watchdog.look)
    others.start()
    others.join()
    assert plugin_threads.known() == known


@pytest.mark.usefixtures("installed")
def test_what_is_kept_is_bounded() -> None:
    """A plug-in can make code as it goes."""
    assert Served().runtime.readiness().ready
    for number in range(plugin_threads.MOST + 5):
        text = "\n" * number + "threading.Thread(target=int).start()"
        exec(compile(text, "made", "exec"), {"__name__": NAME, "threading": threading})
    assert len(plugin_threads.known()) == plugin_threads.MOST


@pytest.mark.usefixtures("installed")
def test_a_server_notices_from_the_beginning() -> None:
    cluster, algorithm = ClusterSettings(server="http://127.0.0.1:1"), AlgorithmSettings(name=NAME)
    service = Service(Settings(cluster=cluster, algorithm=algorithm))
    try:
        assert [thread.name for thread in plugin_threads.known()] == ["refresher"]
    finally:
        service.stop()
