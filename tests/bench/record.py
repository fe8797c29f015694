"""What a recording costs: CPU time of a /filter with and without it, of the recorder's thread, and of a checkpoint.

    python -m tests.bench.record [--calls 300] [--rounds 7] [--pods 20000] [--only calls|turns|served|aa|checkpoint]

Calls: one /filter is what the event loop's thread does for it, without HTTP: decode the body, decide, encode the
answer. Calls with and without a recording take turns in rounds (A B A B), and the CPU time of the thread is measured;
each figure is that of the best round, as neighbours on the machine only add to it. *Python* is the part of the
recorder's thread in which no other thread of Python runs, the rest is zlib. *In the call* is what the recorder itself
takes on the thread of the call, the median by the clock. Each round's pods are deleted at its end.

Turns: over HTTP, of one process that records and does not in turns, with pauses between calls and without
(`record_turns.py`). Served: of two processes (`record_served.py`); aa: of two that do not record, to see the noise.

* **same**: all names in the same order, as a kube-scheduler without filters of its own sends them
* **rotated**: all names, beginning elsewhere each time
* **mixed**: in another order each time: 500 of 5,000 are what kube-scheduler sends unless it is told otherwise
* **refused**: the pod fits nowhere, and each node has a reason of its own
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from unittest.mock import patch

import msgspec
import structlog

from algorithm.model import Node
from algorithm.registry import create
from extender.recording import files
from extender.recording.checkpointer import Source
from extender.recording.files import files_in
from extender.recording.recorder import Recorder
from extender.scheduling.events import Event, Instruction, NodeSeen, PodGone, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.server.runtime import Runtime
from extender.server.service import _COLLECT_AFTER
from extender.web.verbs.handler import _filter
from tests.bench import record_served, record_turns
from tests.bench.fork import _filled
from tests.bench.record_served import OFFERS, Offer, names_of

_US = 1e6
#: Seconds between two calls: kube-scheduler has work of its own for each pod.
_THINK = 0.002
_GPU = "example.com/gpu"


#: What no node has.
_TOO_MANY = 99


class TimedZlib:
    """Stands for the module in `files.py`, and adds up the CPU seconds that compression takes."""

    DEFLATED, Z_SYNC_FLUSH, Z_FINISH = zlib.DEFLATED, zlib.Z_SYNC_FLUSH, zlib.Z_FINISH

    def __init__(self) -> None:
        self.seconds = 0.0

    def compressobj(self, *how: int) -> TimedZlib:
        self._deflate = zlib.compressobj(*how)
        return self

    def compress(self, text: bytes) -> bytes:
        began = time.thread_time()
        done = self._deflate.compress(text)
        self.seconds += time.thread_time() - began
        return done

    def flush(self, mode: int) -> bytes:
        return self._deflate.flush(mode)


class TimedRecord:
    """A recorder, and the seconds that it takes in each call by the clock."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.failed = recorder, recorder.failed
        self.seconds: list[float] = []

    def heard(self, event: Event, at: float, number: int) -> None:
        began = time.perf_counter()
        self._recorder.heard(event, at, number)
        self.seconds.append(time.perf_counter() - began)

    def said(self, answer: Sequence[Instruction]) -> None:
        began = time.perf_counter()
        self._recorder.said(answer)
        self.seconds[-1] += time.perf_counter() - began


class Server:
    """A runtime with so many nodes, whose calls are measured."""

    def __init__(self, nodes: Sequence[str], recorder: Recorder | None) -> None:
        machine = SchedulerStateMachine(create("packing", {}), Policy())
        self.record = TimedRecord(recorder) if recorder else None
        self.runtime = Runtime(machine, lambda _: None, record=self.record)
        amounts = (("cpu", 64_000), (_GPU, 8), ("memory", 1 << 38), ("pods", 110))
        self.runtime.handle(*(NodeSeen(Node(name=name, uid=name, allocatable=amounts)) for name in nodes), Synced())
        self.in_the_call = 0.0

    def round(self, offer: Offer, bodies: Sequence[bytes]) -> float:
        """CPU seconds of a call, on the mean."""
        gc.collect()
        gc.freeze()
        took = 0.0
        for body in bodies:
            time.sleep(_THINK)
            began = time.thread_time()
            _filter(self.runtime, body)
            took += time.thread_time() - began
        if self.record is not None:
            self.in_the_call = statistics.median(self.record.seconds[-len(bodies) :])
        self.runtime.handle(*(PodGone("default", f"p{number}", f"uid-{number}") for number in range(len(bodies))))
        return took / len(bodies)


def bodies_of(offer: Offer, calls: int, nodes: Sequence[str]) -> list[bytes]:
    draws = random.Random(7)
    return [_body(number, offer, names_of(offer, nodes, draws)) for number in range(calls)]


def _body(number: int, offer: Offer, names: list[str]) -> bytes:
    amounts = {"cpu": "1", "memory": "1Gi", _GPU: str(_TOO_MANY if offer.is_refused else 1)}
    labels = {f"label-{each}": f"value-{each}" for each in range(8)}
    metadata = {"name": f"p{number}", "namespace": "default", "uid": f"uid-{number}", "labels": labels}
    container = {"name": "main", "image": "registry/image:tag", "resources": {"requests": amounts, "limits": amounts}}
    pod = {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": "Pending"}}
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})


def compare(offer: Offer, calls: int, rounds: int, nodes: Sequence[str]) -> None:
    bodies = bodies_of(offer, calls, nodes)
    timed = TimedZlib()
    with tempfile.TemporaryDirectory() as folder, patch.object(files, "zlib", timed):
        recorder = Recorder(Path(folder) / "log", "packing", {}, Policy())
        servers = Server(nodes, None), Server(nodes, recorder)
        for server in servers:
            server.round(offer, bodies[:50])
        _settled(recorder)
        size, took, used, inside = recorder.status.bytes, _times(), [], []
        for _ in range(rounds):
            cpu, compressed = recorder.status.cpu, timed.seconds
            for server, times in zip(servers, took, strict=True):
                times.append(server.round(offer, bodies))
                _settled(recorder)
            inside.append(servers[1].in_the_call)
            used.append((recorder.status.cpu - cpu, timed.seconds - compressed))
        lost = recorder.status.lost
        recorder.close()
        thread, compression = (seconds / calls for seconds in min(used))
        stored = (sum(each.path.stat().st_size for each in files_in(Path(folder) / "log")) - size) / calls / rounds
        plain, recorded = map(min, took)
        print(
            f"{offer.title:<22} {plain * _US:8.0f} µs {recorded * _US:8.0f} µs {100 * (recorded / plain - 1):+6.1f} % "
            f"{statistics.median(inside) * _US:8.1f} µs "
            f"{thread * _US:8.0f} µs {(thread - compression) * _US:6.0f} µs {stored:8.0f} bytes"
            + (f"   {lost} events lost" if lost else "")
        )


def _times() -> tuple[list[float], list[float]]:
    return [], []


def _settled(recorder: Recorder) -> None:
    while recorder.status.queued:
        time.sleep(0.02)
    time.sleep(0.1)


def checkpoint(pods: int) -> None:
    engine = _filled("packing", 5000, pods)
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "log", "packing", {}, Policy())
        holds: list[float] = []
        recorder.attach(Source(engine, partial(_timed, holds=holds), Lock()))
        cpu, began = recorder.status.cpu, time.monotonic()
        recorder._want_checkpoint()
        while not recorder.status.checkpoints:
            time.sleep(0.05)
        took = time.monotonic() - began
        recorder.close()
        status = recorder.status
        assert recorder._checkpointer is not None
        print(
            f"a checkpoint of 5,000 nodes and {pods:,} pods: {recorder._checkpointer.last_bytes / 1e6:.1f} MB, "
            f"{status.cpu - cpu:.1f} s of CPU time in {took:.0f} s; the longest hold of the engine's lock: "
            f"{max(holds) * 1e3:.1f} ms of CPU time"
        )


def _timed(pieces: Iterator[bool], holds: list[float]) -> Iterator[bool]:
    while True:
        began = time.thread_time()
        piece = next(pieces, None)
        holds.append(time.thread_time() - began)
        if piece is None:
            return
        yield piece


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.record", description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--only", choices=("calls", "turns", "served", "aa", "checkpoint"))
    given = parser.parse_args()
    gc.set_threshold(_COLLECT_AFTER)  # as a server does
    sys.setswitchinterval(0.0005)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start")
    if given.only in (None, "calls"):
        without_http(given.calls, given.rounds)
    if given.only in (None, "turns"):
        record_turns.compare(given.rounds, nodes=5000)
    if given.only in (None, "served", "aa"):
        record_served.compare(OFFERS, given.calls, given.rounds, aa=given.only == "aa")
    if given.only in (None, "checkpoint"):
        checkpoint(given.pods)
    return 0


def without_http(calls: int, rounds: int) -> None:
    nodes = [f"gpu-node-{number:05}" for number in range(5000)]
    print(
        f"{'':<22} {'without':>11} {'recorded':>11} {'more':>8} {'in the call':>11} {'recorder':>11} {'Python':>9} "
        f"{'in the log':>14}"
    )
    for offer in OFFERS:
        compare(offer, calls, rounds, nodes[:100] if offer.names == 100 else nodes)


if __name__ == "__main__":
    raise SystemExit(main())
