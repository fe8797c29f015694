"""Plug-ins that do what no algorithm should: hang, end the process, print, start threads, open sockets and files."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from algorithm.interface import Phase, ScheduleResult, SuggestedNodes
from algorithm.model import Pod
from algorithm.registry import Plugin
from tests.support.conformance.slots import Settings, Slots


class Rogue(Slots):
    """Does it at the third decision."""

    decided = 0

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        type(self).decided += 1
        if type(self).decided > 2:
            self.misbehave()
        return super().schedule(pod, suggested_nodes, phase)

    def misbehave(self) -> None:
        raise NotImplementedError


class Hangs(Rogue):
    def misbehave(self) -> None:
        while True:
            pass


class HangsAndSwallows(Rogue):
    """Nothing that is raised in it ends it."""

    def misbehave(self) -> None:
        while True:
            try:
                while True:
                    time.sleep(0.001)
            except BaseException:
                pass


class HangsDeaf(Rogue):
    """No signal but SIGKILL reaches it."""

    def misbehave(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        while True:
            time.sleep(1)


class Exits(Rogue):
    def misbehave(self) -> None:
        os._exit(3)


class ExitsPolitely(Rogue):
    def misbehave(self) -> None:
        sys.exit(3)


class KillsItself(Rogue):
    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Prints(Rogue):
    def misbehave(self) -> None:
        print("here")


class Complains(Rogue):
    def misbehave(self) -> None:
        sys.stderr.write("here\n")


class StartsThreads(Rogue):
    def misbehave(self) -> None:
        threading.Thread(target=int).start()


class StartsProcesses(Rogue):
    def misbehave(self) -> None:
        if os.fork() == 0:
            os._exit(0)


class OpensSockets(Rogue):
    def misbehave(self) -> None:
        socket.socket().close()


class OpensFiles(Rogue):
    def misbehave(self) -> None:
        Path("/dev/null").read_bytes()


class ReadsTheEnvironment(Rogue):
    def misbehave(self) -> None:
        os.environ.get("HOME")


class ReadsTheClock(Rogue):
    def misbehave(self) -> None:
        time.monotonic()


class DrawsLots(Rogue):
    def misbehave(self) -> None:
        random.random()


def _plugin(kind: Any) -> Plugin[Any]:
    return Plugin(settings=Settings, create=kind)


HANGS, HANGS_AND_SWALLOWS, HANGS_DEAF = map(_plugin, (Hangs, HangsAndSwallows, HangsDeaf))
EXITS, EXITS_POLITELY, KILLS_ITSELF = map(_plugin, (Exits, ExitsPolitely, KillsItself))
PRINTS, COMPLAINS = map(_plugin, (Prints, Complains))
STARTS_THREADS, STARTS_PROCESSES = map(_plugin, (StartsThreads, StartsProcesses))
OPENS_SOCKETS, OPENS_FILES = map(_plugin, (OpensSockets, OpensFiles))
READS_THE_ENVIRONMENT, READS_THE_CLOCK, DRAWS_LOTS = map(_plugin, (ReadsTheEnvironment, ReadsTheClock, DrawsLots))
NO_PLUGIN = "text"
