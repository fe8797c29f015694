"""How long the packing algorithm takes to decide, in a cluster of 5,000 nodes of which nine in ten are full.

    python -m tests.bench.packing_decisions

Every question comes with its own fresh list of names, as it does over HTTP; making that list is not measured.
"""

from __future__ import annotations

import random
import time
from itertools import chain

from algorithm.interface import Phase, SuggestedNodes
from algorithm.packing import PackingAlgorithm
from algorithm.packing.gangs import MOST_MEMBERS
from tests.support.packing.harness import member, node, pod

NODES, GPUS, GIB = 5_000, 8, 1 << 30


def share(gpus):
    """What comes with so many GPUs."""
    return {"gpu": gpus, "cpu": 7_000 * gpus, "memory": 30 * GIB * gpus}


def cluster(important_nodes=0):
    """`important_nodes`: of so many in twenty nodes, the pods have a higher priority than any gang."""
    algorithm, rng, made = PackingAlgorithm(), random.Random(1), 0
    for i in range(NODES):
        name = f"node-{i:05}"
        algorithm.add_node(node(name, cpu=64_000, memory=256 * GIB, gpu=GPUS))
        left = GPUS if i % 10 else 0
        while left:
            gpus = min(rng.choice([1, 1, 2, 4]), left)
            left, made = left - gpus, made + 1
            priority = 99 if i % 20 < important_nodes else 5
            algorithm.add_allocated_pod(pod(f"p{made}", node_name=name, priority=priority, **share(gpus)))
    return algorithm


def offer(full_only):
    return SuggestedNodes(f"node-{i:05}" for i in range(NODES) if i % 10 or not full_only)


def timed(question):
    start = time.thread_time()
    answer = question()
    return (time.thread_time() - start) * 1e3, type(answer).__name__


def report(label, answer, **took):
    print(f"{label:38} {answer:8}", end="")
    for name, ms in took.items():
        ms.sort()
        print(f"  {name}: p50 {ms[len(ms) // 2]:8.3f}  p99 {ms[len(ms) * 99 // 100]:8.3f}", end="")
    print()


def measure(label, algorithm, *asking, full_only=False, phase=Phase.FILTERING, repeat=50):
    """Every round a pod comes somewhere, then all are asked about. `anew`: the first one; `again`: the others."""
    anew, again, answer = [], [], ""
    for i in range(repeat):
        event = pod("event", node_name=f"node-{i * 10 + 1:05}", priority=100, cpu=1)
        algorithm.add_allocated_pod(event)
        for position, one in enumerate(asking):
            nodes = offer(full_only)
            took, answer = timed(lambda one=one, nodes=nodes: algorithm.schedule(one, nodes, phase))
            (again if position else anew).append(took)
        algorithm.delete_allocated_pod(event)
    report(label, answer, anew=anew, again=again)


def main():
    algorithm = cluster()
    single = [pod(f"single{i}", **share(1)) for i in range(4)]
    high = [pod(f"high{i}", priority=9, **share(1)) for i in range(4)]
    level = [pod(f"level{i}", priority=5, **share(8)) for i in range(4)]
    gang, high_gang, level_gang, giant = gangs = [
        [member(f"{name}{i}", name, size, priority=priority, **share(8)) for i in range(size)]
        for name, size, priority in (("g", 8, 0), ("h", 8, 9), ("l", 40, 5), ("giant", MOST_MEMBERS, 9))
    ]
    important = cluster(important_nodes=19)
    for one in chain(single, high, level, *gangs):
        algorithm.add_unallocated_pod(one)
        important.add_unallocated_pod(one)
    preempting = {"phase": Phase.PREEMPTING}
    print("milliseconds of cpu time")
    measure("single pod", algorithm, *single)
    measure("single pod, only full nodes", algorithm, *single, full_only=True)
    measure("single pod, priority forbids", algorithm, *level, full_only=True, **preempting)
    measure("single pod, preemption announced", algorithm, *high, full_only=True)
    measure("single pod preempts", algorithm, *high, full_only=True, **preempting)
    measure("gang of 8", algorithm, *gang)
    measure("gang of 8, only full nodes", algorithm, *gang, full_only=True)
    measure("gang of 8 preempts", algorithm, *high_gang, full_only=True, **preempting)
    measure("gang of 40, priority forbids", algorithm, *level_gang[:8], full_only=True, **preempting)
    for phase in Phase:  # 750 members would find a seat at most
        measure(f"gang of 1,000, too many: {phase.value}", important, *giant[:8], repeat=10, phase=phase)
    offers = [offer(full_only=False) for _ in range(50)]
    report("prioritize", "", took=[timed(lambda o=o: algorithm.prioritize(single[0], o))[0] for o in offers])
    report("inspect", "", took=[timed(algorithm.inspect)[0] for _ in range(50)])


if __name__ == "__main__":
    main()
