"""Guides followed to the letter: the programs that a page starts run, on ports that are free."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.apiserver.api import eventually
from tests.support.pages import ROOT


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def free_ports() -> dict[str, str]:
    """The pages' ports, and free ones to use instead."""
    return {"8001": str(_free_port()), "9096": str(_free_port())}


def substituted(text: str, ports: Mapping[str, str]) -> str:
    """The text with these ports in place of those of the page."""
    for there, here in ports.items():
        text = text.replace(there, here)
    return text


def write_commands(folder: Path, commands: Mapping[str, str]) -> None:
    """Write programs that run our Python with these arguments, by their names."""
    for name, arguments in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)


def environment_of(commands: Path, packages: Path) -> dict[str, str]:
    """The environment in which these commands are found, and the packages of this folder."""
    path = os.pathsep.join((str(commands), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join((str(packages), str(ROOT)))}


@contextmanager
def running(lines: Iterable[str], folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run these lines of a shell side by side in the folder. The first is the cluster: the others start after it."""
    programs: list[subprocess.Popen[bytes]] = []
    try:
        for number, line in enumerate(lines):
            with (folder / f"{number}.log").open("wb") as log:
                programs.append(
                    subprocess.Popen(
                        ["sh", "-c", line], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                )
            if number == 0:
                eventually(lambda: "kubeconfig is" in (folder / "0.log").read_text())
        yield
    finally:
        for program in reversed(programs):
            os.killpg(program.pid, signal.SIGTERM)
        for program in programs:
            program.wait(20)


def get(url: str) -> Any:
    """The JSON at this address."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def ready(url: str) -> bool:
    """Whether the server at this address is ready."""
    try:
        urllib.request.urlopen(f"{url}/readyz", timeout=10).close()
    except (urllib.error.URLError, ConnectionError):
        return False
    return True
