"""A plug-in cannot copy or end the process, however it asks for it; others can, and other programs can be started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algorithm import registry
from algorithm.interface import Phase, SuggestedNodes
from algorithm.model import Pod
from tests.support.installed import install

MODULE = """
import multiprocessing
import os
import subprocess
import sys
import threading
from os import _exit, fork

from algorithm.interface import Bind, Phase, SchedulerAlgorithm, SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.registry import Plugin
from pydantic import BaseModel


class Settings(BaseModel):
    how: str


def in_a_thread():
    failed = []

    def ask():
        try:
            os.fork()
        except PermissionError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    raise failed[0]


HOW = {
    "fork": lambda: os.fork(),
    "imported": lambda: fork(),
    "terminal": lambda: os.forkpty(),
    "multiprocessing": lambda: multiprocessing.get_context("fork").Process(target=print).start(),
    "thread": in_a_thread,
    "exit": lambda: os._exit(0),
    "imported exit": lambda: _exit(status=0),
    "program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
}


class Copying(SchedulerAlgorithm):
    def __init__(self, settings):
        self.how = HOW[settings.how]

    def schedule(self, pod, suggested_nodes, phase):
        self.how()
        return Bind("a")

    def _nothing(self, *_): ...

    add_node = update_node = delete_node = add_unallocated_pod = delete_unallocated_pod = _nothing
    add_allocated_pod = delete_allocated_pod = _nothing


PLUGIN = Plugin(settings=Settings, create=Copying)
"""


NAME = "copies_in_a_test"
#: A process that is no plug-in copies itself. The copy ends with 7, and so does the process.
OTHERS = """
import os
from algorithm import no_forks
no_forks.refuse_forks_in("plugin.of.others")
if not (child := os.fork()):
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def asked(how: str) -> Any:
    algorithm = registry.create(NAME, {"how": how})
    return algorithm.schedule(Pod(namespace="default", name="p", uid="u"), SuggestedNodes(["a"]), Phase.FILTERING)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    install(tmp_path, monkeypatch, **{NAME: f"{NAME}:PLUGIN"})
    monkeypatch.delitem(sys.modules, NAME, raising=False)


@pytest.mark.parametrize(
    ("how", "call"),
    [
        ("fork", "os.fork"),
        ("imported", "os.fork"),
        ("terminal", "os.forkpty"),
        ("multiprocessing", "os.fork"),
        ("thread", "os.fork"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_a_plugin_cannot_copy_the_process(how: str, call: str) -> None:
    me = os.getpid()
    with pytest.raises(PermissionError, match=rf"^{call} in plug-in {NAME}: a copy of this process would decide"):
        asked(how)
    assert os.getpid() == me


@pytest.mark.parametrize("how", ["exit", "imported exit"])
@pytest.mark.usefixtures("installed")
def test_a_plugin_cannot_end_the_process(how: str) -> None:
    with pytest.raises(PermissionError, match=rf"^os\._exit in plug-in {NAME}: it would end this process at once"):
        asked(how)


@pytest.mark.usefixtures("installed")
def test_a_plugin_can_start_another_program() -> None:
    assert asked("program").node == "a"


def test_others_can_copy_the_process() -> None:
    assert subprocess.run([sys.executable, "-c", OTHERS], check=False).returncode == 7
