"""How long a copy of the engine with its algorithm takes, and how long it holds the loop's lock meanwhile.

    python -m tests.bench.fork [--algorithm packing|hived] [--nodes 5000] [--pods 20000] [--rounds 5]

*Whole* is `fork`; *in pieces* is `Forking` as a running server uses it, while another thread hands the engine an event
every millisecond. The longest hold is that of one piece, from lock to unlock; its second number leaves out what the
machine took away (CPU time of the thread). Memory is what the process has more while a copy exists.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import resource
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
import yaml

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.registry import create
from extender.scheduling.events import Event, FilterAnswer, FilterRequested, Instruction, NodeSeen, PodSeen, Synced
from extender.scheduling.fork import Forking, fork
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.loop import EngineLoop
from extender.server.runtime import _KINDS
from tests.bench.hived import workload

_MS = 1e3


class Piece(NamedTuple):
    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Piece:
        return cls(time.perf_counter(), time.thread_time())

    def until_now(self) -> Piece:
        return Piece(time.perf_counter() - self.wall, time.thread_time() - self.cpu)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fork", description=__doc__)
    parser.add_argument("--algorithm", choices=["packing", "hived"], default="packing")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    engine = _filled(given.algorithm, given.nodes, given.pods)
    gc.collect()
    gc.freeze()
    _whole(engine, given.rounds)
    _in_pieces(engine, given.rounds)
    return 0


def _whole(engine: SchedulerStateMachine, rounds: int) -> None:
    times, before = [], _memory()
    for _ in range(rounds):
        gc.disable()
        began = Piece.now()
        twin = fork(engine)
        times.append(began.until_now())
        gc.enable()
        grown = _memory() - before
        del twin
    _say("whole", times)
    print(f"memory of a copy: {grown / 2**20:.0f} MiB")


def _in_pieces(engine: SchedulerStateMachine, rounds: int) -> None:
    loop: EngineLoop[Event, Instruction] = EngineLoop(engine, lambda _: None, _KINDS)
    stop = threading.Event()
    busy = threading.Thread(target=_keep_busy, args=(engine, loop, stop), daemon=True)
    busy.start()
    totals, holds, collected = [], [], []
    for _ in range(rounds):
        pieces: list[Piece] = []
        began = Piece.now()
        with Forking(engine) as forking:
            for _ in loop.in_turns(_measured(forking.pieces(), pieces)):
                pass
            twin = forking.result()
            ended = Piece.now()
        collected.append(ended.until_now())
        totals.append(Piece(ended.wall - began.wall, ended.cpu - began.cpu))
        del twin
        holds.append(max(pieces, key=lambda piece: piece.cpu))
        longest = sorted(round(each.cpu * _MS, 1) for each in pieces)[-4:]
        print(f"  {len(pieces)} pieces, the longest ones: {longest}")
    stop.set()
    busy.join()
    _say("in pieces, with the work after them", totals)
    _say("collection of garbage after that", collected)
    _say("longest hold of the lock", holds)


def _measured(pieces: Iterator[bool], times: list[Piece]) -> Iterator[bool]:
    while True:
        began = Piece.now()
        piece = next(pieces, None)
        times.append(began.until_now())
        if piece is None:
            return
        yield piece


def _keep_busy(engine: SchedulerStateMachine, loop: EngineLoop[Event, Instruction], stop: threading.Event) -> None:
    """Pods change all the time: a thousand events a second."""
    pods, turn = [pod_info.pod for pod_info in engine.pod_infos() if pod_info.node], 0
    nodes = SuggestedNodes(engine.driver.nodes)
    while not stop.wait(0.001):
        turn += 1
        pod = pods[turn * 7919 % len(pods)]
        placed = engine.state.pods.get(pod.uid)
        if placed is not None and placed.placed is not None:
            loop.handle(PodSeen(_changed(placed.placed, turn)))
        if turn % 10 == 0:
            loop.ask(FilterRequested(_packing_pod(f"busy-{turn:05}"), nodes))


def _changed(pod: Pod, turn: int) -> Pod:
    return msgspec.structs.replace(pod, labels=(("turn", str(turn)),), resource_version=str(10**9 + turn))


# -- the cluster ------------------------------------------------------------------------------------------------------


def _filled(algorithm: str, nodes: int, pods: int) -> SchedulerStateMachine:
    """An engine whose pods are all bound, as its own decisions have it."""
    began = time.perf_counter()
    if algorithm == "hived":
        engine = SchedulerStateMachine(
            create("hived", yaml.load(workload.config(nodes, workload.LEVELS[0]), yaml.CSafeLoader))
        )
    else:
        engine = SchedulerStateMachine(create("packing", {}))
    names = [workload.node_name(number) for number in range(nodes)]
    amounts = (("cpu", 64_000), ("memory", 256 << 30), ("nvidia.com/gpu", 8), ("pods", 110))
    for name in names:
        engine.handle(NodeSeen(Node(name=name, uid=name, allocatable=amounts, ready=True)), 1.0)
    engine.handle(Synced(), 1.0)
    offered = SuggestedNodes(names)
    refused = 0
    made = [(_hived_pod if algorithm == "hived" else _packing_pod)(f"p{number:05}") for number in range(pods)]
    for pod in made:
        engine.handle(PodSeen(pod), 2.0)
    for pod in made:
        answers = engine.handle(FilterRequested(pod, offered), 2.0)
        node = next((each.node for each in answers if isinstance(each, FilterAnswer)), None)
        pod_info = engine.state.pods.get(pod.uid)
        if node is None or pod_info is None or pod_info.placed is None:
            refused += 1
            continue
        engine.handle(PodSeen(pod_info.placed), 2.0)
    took = time.perf_counter() - began
    print(f"{algorithm}: {nodes} nodes, {pods} pods, {refused} of them wait; filled in {took:.0f} s", flush=True)
    return engine


def _packing_pod(name: str) -> Pod:
    number = int(name[-5:])
    gang = (("waggle.dev/gang", f"g{number // 4}"), ("waggle.dev/gang-min", "4")) if number % 8 < 4 else ()
    requests = (("cpu", 2000), ("memory", 8 << 30), ("nvidia.com/gpu", 1))
    return Pod(namespace="default", name=name, uid=name, requests=requests, annotations=gang, resource_version="1")


def _hived_pod(name: str) -> Pod:
    number = int(name[-5:])
    spec = {
        "virtualCluster": f"vc{number % workload.TENANTS}",
        "priority": 0,
        "leafCellNumber": 1,
        "affinityGroup": {"name": name, "members": [{"podNumber": 1, "leafCellNumber": 1}]},
    }
    annotations = ((workload.SPEC, json.dumps(spec)),)
    return Pod(namespace="default", name=name, uid=name, annotations=annotations, resource_version="1")


# -- figures ----------------------------------------------------------------------------------------------------------


def _memory() -> int:
    """Bytes that this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _say(what: str, times: list[Piece]) -> None:
    wall, cpu = ([getattr(each, kind) * _MS for each in times] for kind in ("wall", "cpu"))
    print(
        f"{what}: median {statistics.median(wall):.1f} ms, worst {max(wall):.1f} ms"
        f" (CPU: median {statistics.median(cpu):.1f} ms, worst {max(cpu):.1f} ms)",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
