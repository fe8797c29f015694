"""A recording that a test writes event by event: the engine says what it answers, so that reports can name tokens."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from algorithm.interface import SuggestedNodes
from algorithm.model import CPU, PODS, Node, Pod
from algorithm.registry import create
from extender.core.outcomes import Outcome, OutcomeKind
from extender.recording.checkpoint import CheckpointHead, encode_checkpoint
from extender.recording.encoding import LineWriter, header_of
from extender.recording.files import CHECKPOINT, LOG, name_of
from extender.recording.records import FORMAT
from extender.scheduling.commands import BindFinished, WriteBinding
from extender.scheduling.events import (
    BindRequested,
    Event,
    FilterRequested,
    Instruction,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.objects import pod

GPU = "nvidia.com/gpu"


class ScriptedLog:
    """Write it with `write`. Times are seconds of the engine's clock."""

    def __init__(self, algorithm: str = "packing", settings: dict[str, Any] | None = None) -> None:
        self.algorithm, self.settings, self.policy = algorithm, settings or {}, Policy()
        self.machine = SchedulerStateMachine(create(algorithm, self.settings), self.policy)
        self.steps: list[tuple[Event, float, list[Instruction]]] = []
        self._requests = 0
        #: Of its header.
        self.header: dict[str, Any] = {"recording": "scripted"}

    def at(self, now: float, event: Event) -> list[Instruction]:
        """Let the engine handle an event; returns what it says."""
        out = self.machine.handle(event, now)
        self.steps.append((event, now, out))
        return out

    def see(self, now: float, pod: Pod) -> None:
        self.at(now, PodSeen(pod))

    def place(self, now: float, pod: Pod, *nodes: str) -> str:
        """Filter, bind, its report, and the watch event; returns the node, "" if the pod was refused."""
        [answer] = self.at(now, FilterRequested(pod, SuggestedNodes(nodes)))
        if not answer.node:  # type: ignore[union-attr]
            return ""
        self._requests += 1
        place: str = answer.node  # type: ignore[union-attr,assignment]
        out = self.at(now, BindRequested(self._requests, pod.namespace, pod.name, pod.uid, place))
        write = next(each for each in out if isinstance(each, WriteBinding))
        self.at(now + 0.01, BindFinished(write.token, Outcome(OutcomeKind.DONE)))
        self.see(now + 0.02, pod.placed(place, write.annotations))
        return place

    def end(self, now: float, pod: Pod) -> None:
        self.at(now, PodGone(pod.namespace, pod.name, pod.uid))

    def write(self, path: Path) -> Path:
        writer = LineWriter()
        lines = [writer.header(header_of(self.algorithm, self.settings, self.policy, **self.header))]
        lines += [writer.event(number, now, event, out) for number, (event, now, out) in enumerate(self.steps, start=1)]
        path.write_bytes(b"".join(lines))
        return path

    def write_folder(self, folder: Path, every: int) -> Path:
        """As `serve --record` leaves it: a segment for so many events each, with a checkpoint at its beginning."""
        folder.mkdir()
        header = header_of(self.algorithm, self.settings, self.policy, **self.header)
        engine = SchedulerStateMachine(create(self.algorithm, self.settings), self.policy)
        for segment, first in enumerate(range(0, len(self.steps), every), start=1):
            at = self.steps[first - 1][1] if first else 0.0
            if first:
                head = CheckpointHead(FORMAT, header.recording, first, at, self.algorithm)
                _zip(folder / name_of(segment, CHECKPOINT), encode_checkpoint(engine, head))
            writer = LineWriter()
            lines = [writer.header(replace(header, segment=segment, first=first + 1))]
            for number, (event, now, out) in enumerate(self.steps[first : first + every], start=first + 1):
                lines.append(writer.event(number, now, event, out))
                engine.handle(event, now)
            _zip(folder / name_of(segment, LOG), lines)
        return folder


def _zip(path: Path, lines: Iterable[bytes]) -> None:
    path.write_bytes(gzip.compress(b"".join(lines)))


def gpu_node(name: str, gpus: int = 4) -> Node:
    amounts = {CPU: 64_000, GPU: gpus, PODS: 110}
    return Node(name=name, uid=f"uid-{name}", allocatable=tuple(sorted(amounts.items())))


def gpu_pod(name: str, gpus: int = 1, **fields: Any) -> Pod:
    return pod(name, requests=((CPU, 1000), (GPU, gpus)), **fields)


def two_nodes() -> ScriptedLog:
    """Two nodes of four GPUs from 100 s on; a and b run, b ends at 400 s; c needs eight GPUs and waits. Sixteen events.

    | event | at | |
    |---|---|---|
    | 1-3 | 100 | n1, n2, synced |
    | 4-8 | 160 | a comes, is placed and bound |
    | 9-13 | 220 | b, too |
    | 14, 15 | 280 | c comes and is refused |
    | 16 | 400 | b ends |
    """
    log = ScriptedLog()
    for name in ("n1", "n2"):
        log.at(100.0, NodeSeen(gpu_node(name)))
    log.at(100.0, Synced())
    pods = [gpu_pod("a", 3), gpu_pod("b", 4), gpu_pod("c", 8)]
    for when, each in zip((160.0, 220.0, 280.0), pods, strict=True):
        log.see(when, each)
        log.place(when, each, "n1", "n2")
    log.end(400.0, pods[1])
    return log
