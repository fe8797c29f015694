"""How long the packing algorithm takes to decide, in a cluster of 5,000 nodes of which nine in ten are full.

    PYTHONPATH=. python tests/bench/packing_decisions.py

Every question comes with its own fresh list of names, as it does over HTTP; making that list is not measured.
"""

from __future__ import annotations

import random
import time

from algorithm.interface import Phase, SuggestedNodes
from algorithm.packing import PackingAlgorithm
from tests.support.packing_world import member, node, pod

NODES, GPUS, GIB = 5_000, 8, 1 << 30


def share(gpus):
    """What comes with so many GPUs."""
    return {"gpu": gpus, "cpu": 7_000 * gpus, "memory": 30 * GIB * gpus}


def cluster():
    algorithm, rng, made = PackingAlgorithm(), random.Random(1), 0
    for i in range(NODES):
        name = f"node-{i:05}"
        algorithm.add_node(node(name, cpu=64_000, memory=256 * GIB, gpu=GPUS))
        left = GPUS if i % 10 else 0
        while left:
            gpus = min(rng.choice([1, 1, 2, 4]), left)
            left, made = left - gpus, made + 1
            algorithm.add_allocated_pod(pod(f"p{made}", node_name=name, priority=5, **share(gpus)))
    return algorithm


def measure(label, algorithm, asking, *, full_only=False, phase=Phase.FILTERING, repeat=100):
    took = []
    for _ in range(repeat):
        offered = SuggestedNodes(f"node-{i:05}" for i in range(NODES) if i % 10 or not full_only)
        start = time.perf_counter()
        answer = algorithm.schedule(asking, offered, phase)
        took.append((time.perf_counter() - start) * 1e3)
    took.sort()
    p50, p99 = took[repeat // 2], took[repeat * 99 // 100]
    print(f"{label:46} {type(answer).__name__:8} p50 {p50:7.3f} ms   p99 {p99:7.3f} ms")


def main():
    algorithm = cluster()
    single, high = pod("single", **share(1)), pod("high", priority=9, **share(1))
    gang = [member(f"m{i}", "g", 8, **share(8)) for i in range(8)]
    high_gang = [member(f"h{i}", "h", 8, priority=9, **share(8)) for i in range(8)]
    for one in (single, high, *gang, *high_gang):
        algorithm.add_unallocated_pod(one)
    measure("single pod", algorithm, single)
    measure("single pod, only full nodes offered", algorithm, single, full_only=True)
    measure("gang of 8", algorithm, gang[0])
    measure("gang of 8, only full nodes offered", algorithm, gang[0], full_only=True)
    measure("single pod, preemption announced", algorithm, high, full_only=True)
    measure("single pod preempts", algorithm, high, full_only=True, phase=Phase.PREEMPTING)
    measure("gang of 8 preempts", algorithm, high_gang[0], full_only=True, phase=Phase.PREEMPTING)


if __name__ == "__main__":
    main()
