"""Plug-ins that take more and more: memory, output, threads, processes, sockets, time, and texts without end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar

from algorithm.interface import Phase, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin
from tests.support.conformance.rogue import Rogue
from tests.support.conformance.slots import Settings, Slots


class Allocates(Rogue):
    kept: ClassVar[list[bytearray]] = []

    def misbehave(self) -> None:
        while True:
            self.kept.append(bytearray(1 << 26))


class AllocatesAndSwallows(Rogue):
    kept: ClassVar[list[bytearray]] = []

    def misbehave(self) -> None:
        while True:
            with contextlib.suppress(MemoryError):
                self.kept.append(bytearray(1 << 26))


class GrowsWithEachNode(Slots):
    """It never raises MemoryError in a question."""

    kept: ClassVar[list[bytearray]] = []

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.kept.append(bytearray(1 << 27))


class PrintsAGigabyte(Rogue):
    def misbehave(self) -> None:
        for _ in range(1024):
            print("x" * (1 << 20))


class WritesAGigabyte(Rogue):
    """Past `print`."""

    def misbehave(self) -> None:
        for _ in range(1024):
            sys.__stdout__.buffer.write(b"x" * (1 << 20))  # type: ignore[union-attr]


class StartsEndlessThreads(Rogue):
    def misbehave(self) -> None:
        for _ in range(1000):
            threading.Thread(target=time.sleep, args=(3600,)).start()


class Forks(Rogue):
    """Both processes go on."""

    def misbehave(self) -> None:
        os.fork()


class StartsSleepers(Rogue):
    """Processes that no signal to the group reaches."""

    def misbehave(self) -> None:
        for _ in range(10):
            subprocess.Popen(["sleep", "4711"], start_new_session=True)


class OpensManySockets(Rogue):
    opened: ClassVar[list[socket.socket]] = []

    def misbehave(self) -> None:
        for _ in range(100_000):
            self.opened.append(socket.socket())


class TakesItsTime(Slots):
    """Every call returns within the limit, and all of them together never end."""

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        time.sleep(0.8)
        return super().schedule(pod, suggested_nodes, phase)


class RaisesALongError(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        raise ValueError("x" * (1 << 24))


class RaisesWithoutARepr(Slots):
    class Bad(Exception):
        def __repr__(self) -> str:
            raise RuntimeError

        __str__ = __repr__

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        raise self.Bad


class GivesALongReason(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return Wait(reason(Code.OTHER, detail="x" * (1 << 26)))


def _plugin(kind: Any) -> Plugin[Any]:
    return Plugin(settings=Settings, create=kind)


ALLOCATES, ALLOCATES_AND_SWALLOWS, GROWS = map(_plugin, (Allocates, AllocatesAndSwallows, GrowsWithEachNode))
PRINTS, WRITES = map(_plugin, (PrintsAGigabyte, WritesAGigabyte))
THREADS, FORKS, SLEEPERS = map(_plugin, (StartsEndlessThreads, Forks, StartsSleepers))
SOCKETS, SLOW = map(_plugin, (OpensManySockets, TakesItsTime))
LONG_ERROR, NO_REPR, LONG_REASON = map(_plugin, (RaisesALongError, RaisesWithoutARepr, GivesALongReason))
