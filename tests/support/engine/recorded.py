"""An engine that is recorded, as the loop of a server does it, for tests of recordings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithm.interface import SuggestedNodes
from algorithm.registry import create
from extender.recording import checkpointer
from extender.recording import recorder as module
from extender.recording.checkpointer import Source
from extender.recording.log import Recording, open_log
from extender.recording.recorder import Recorder
from extender.recording.replaying import Replay
from extender.scheduling.events import FilterRequested, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.objects import node, pod


class Serving:
    """An engine that is recorded, as the loop of a server does it."""

    def __init__(self, folder: Path, most_bytes: int = 64 << 20, *, attached: bool = True) -> None:
        self.folder, self.now, self.pods = folder, 100.0, 0
        self.lock = threading.Lock()
        self.machine = SchedulerStateMachine(create("packing", {}), Policy(), epoch=1000.0)
        self.recorder = Recorder(folder, "packing", {}, Policy(), most_bytes=most_bytes, epoch=1000.0, release="9")
        if attached:
            self.recorder.attach(Source(self.machine, self.in_turns, threading.Lock()))

    def in_turns(self, pieces: Iterator[bool]) -> Iterator[bool]:
        while True:
            with self.lock:
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def handle(self, *events: Any) -> None:
        for event in events:
            with self.lock:
                self.now += 1
                self.recorder.heard(event, self.now, self.machine.sequence + 1)
                self.recorder.said(self.machine.handle(event, self.now))
                self.machine.next_due()

    def begin(self, nodes: int = 3) -> None:
        self.handle(*(NodeSeen(node(f"n{number}")) for number in range(nodes)), Synced())

    def churn(self, pods: int) -> None:
        """Pods that come, get a place, and go again."""
        for _ in range(pods):
            self.pods += 1
            one = pod(f"p{self.pods}")
            self.handle(PodSeen(one), FilterRequested(one, SuggestedNodes(["n0", "n1", "n2"])))
            self.handle(PodGone(one.namespace, one.name, one.uid))

    def replay(self) -> Recording:
        """Assert that what is left replays to the very same engine."""
        recording = open_log(self.folder).recordings[-1]
        replay = Replay(recording)
        for played in replay:
            assert played.divergence is None, played
        assert replay.number == self.machine.sequence
        assert {p.uid: list(p.history) for p in replay.engine.pod_infos()} == {
            p.uid: list(p.history) for p in self.machine.pod_infos()
        }
        return recording


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small folders, and nothing waits."""
    for name, value in (("LEAST_BYTES", 1000), ("_FLUSH", 0.0), ("_GATHER", 0.001)):
        monkeypatch.setattr(module, name, value)
    # On a busy machine a piece of a checkpoint holds the lock for long, and the next one would wait for seconds.
    monkeypatch.setattr(checkpointer, "_LOCK_SHARE", 0)
