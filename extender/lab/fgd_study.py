"""The experiment of "Beware of Fragmentation" (USENIX ATC 2023), with the algorithm `fgd` that also runs live.

    trace --> shuffled, tuned to 1.3 times the cluster's GPUs --> pods come, none leaves --> a line for each
                                                               lines --> columns 0 to 130 (per cent)

With the seeds of the published runs the pods come in the same order, and ties are decided by the same ranks of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from algorithm.fgd import FgdAlgorithm
from algorithm.fgd.needs import MILLI, MODEL
from algorithm.fgd.settings import MOST_TYPICAL, FgdSettings, Policy, TypicalPod
from algorithm.interface import Bind, Phase
from algorithm.model import CPU, MEMORY, PODS, Node, Pod
from algorithm.suggested_nodes import SuggestedNodes
from extender.lab.gorand import GoRandom
from extender.lab.openb import NodeLine, PodLine, TraceError
from extender.lab.published_numbers import mean, rounded

#: The requests of all pods, as a multiple of the cluster's GPUs.
TUNED = 1.3
#: Pods that are added at most until they ask for so much; a published trace gets some 3,600.
MOST_ADDED = 1_000_000
#: Columns of a result: per cent of the cluster's GPUs that have been requested.
COLUMNS = 131
_GPU, _MODEL_LABEL = "nvidia.com/gpu", "nvidia.com/gpu.product"
#: Pods that a node admits in the experiment, and draws of the simulator that no decision depends on.
_PODS_PER_NODE, _LOST_DRAWS = 1001, 10


class Line(NamedTuple):
    """The cluster after one pod: thousandths of GPUs requested so far and allocated, and fragmented."""

    arrived: int
    used: int
    fragmented: float


class Columns(NamedTuple):
    """By per cent of arrived requests: allocation and fragmentation in per cent of the cluster, and fragmentation in
    per cent of what is idle. None where no pod came in that per cent."""

    allocation: list[float | None]
    amount: list[float | None]
    ratio: list[float | None]


def arrivals(pods: Sequence[PodLine], total_milli: int, random: GoRandom) -> list[PodLine]:
    """The pods in the order in which they come, tuned to the target. Raises TraceError if that takes too many pods."""
    random.int63()
    found = sorted(pods, key=lambda pod: pod.name)
    originals = list(found)
    random.shuffle(found)
    target = int(total_milli * 1000 * TUNED) // 1000
    asked = sum(pod.all_milli for pod in found)
    if asked > target:
        while asked > target:
            asked -= found.pop(random.below(len(found))).all_milli
    elif asked and asked < target:
        # One GPU of the drawn pod is compared, all of them are added: so it was when the results were published.
        while asked + (drawn := originals[random.below(len(originals))]).gpu_milli <= target:
            found.append(drawn)
            asked += drawn.all_milli
            if len(found) > len(pods) + MOST_ADDED:
                raise TraceError(
                    f"expected pods that ask for {target} thousandths of GPUs with {MOST_ADDED:,} more of them"
                )
    return found


class Study:
    """One run: one trace, one policy, one seed.

    Raises TraceError without GPUs or pods, and for too many classes of pods.
    """

    def __init__(self, nodes: Sequence[NodeLine], pods: Sequence[PodLine], *, policy: Policy, seed: int) -> None:
        self.total = sum(node.gpus for node in nodes) * 1000
        if not self.total:
            raise TraceError("expected nodes with GPUs, got none")
        if not pods:
            raise TraceError("expected at least one pod, got none")
        random = GoRandom(seed)
        self.pods = arrivals(pods, self.total, random)
        for _ in range(_LOST_DRAWS):
            random.int63()
        in_order = sorted(nodes, key=lambda node: node.name)
        self.ranks = random.permutation(len(in_order))
        self.algorithm = FgdAlgorithm(FgdSettings(policy=policy, seed=seed, typical=typical(pods)))
        width = len(str(len(in_order)))
        for node, rank in zip(in_order, self.ranks, strict=True):
            self.algorithm.add_node(_node(node, f"{rank:0{width}}-{node.name}"))
        names = (f"{rank:0{width}}-{node.name}" for node, rank in zip(in_order, self.ranks, strict=True))
        self._offered = SuggestedNodes(names)
        #: How many pods found no place.
        self.failed = 0

    def lines(self) -> Iterator[Line]:
        """Place one pod after the other; yields after each."""
        algorithm, arrived, used = self.algorithm, 0, 0
        for number, line in enumerate(self.pods):
            pod = _pod(line, number)
            algorithm.add_unallocated_pod(pod)
            answer = algorithm.schedule(pod, self._offered, Phase.FILTERING)
            if isinstance(answer, Bind):
                algorithm.add_allocated_pod(pod.placed(answer.node, answer.annotations))
                used += line.all_milli
            else:
                algorithm.delete_unallocated_pod(pod)
                self.failed += 1
            arrived += line.all_milli
            yield Line(arrived, used, algorithm.fragmented_milli())


def typical(pods: Sequence[PodLine]) -> tuple[TypicalPod, ...]:
    """The classes of a trace's pods with their numbers, the most frequent first. Raises TraceError for too many."""
    counts = Counter((pod.cpu_milli, pod.gpu_milli, pod.gpus, pod.spec) for pod in pods)
    if len(counts) > MOST_TYPICAL:
        raise TraceError(f"expected at most {MOST_TYPICAL} different pods by CPU, GPUs and models, got {len(counts)}")
    return tuple(
        TypicalPod(cpu_milli=cpu, gpu_milli=milli, gpus=gpus, models=spec, count=count)
        for (cpu, milli, gpus, spec), count in counts.most_common()
    )


def columns(lines: Sequence[Line], total: int) -> Columns:
    """The result in columns, each the mean of the lines in its per cent, or of those beside it."""
    found: dict[int, list[Line]] = {}
    gpus = total // 1000
    for line in lines:
        found.setdefault(round(line.arrived / gpus / 10), []).append(line)
    made = Columns([], [], [])
    for k in range(COLUMNS):
        here = found.get(k) or [line for near in (k - 1, k, k + 1) for line in found.get(near, ())]
        allocation = mean([round(line.used / gpus / 10, 2) for line in here])
        amount = mean([round(line.fragmented, 2) for line in here])
        ratio = mean([round(100 * line.fragmented / (total - line.used), 2) for line in here if total > line.used])
        made.allocation.append(None if allocation is None else rounded(allocation))
        made.amount.append(None if amount is None else rounded(100 * amount / 1000 / gpus))
        made.ratio.append(ratio)
    return made


def _node(line: NodeLine, name: str) -> Node:
    amounts = {CPU: line.cpu_milli, MEMORY: line.memory_mib << 20, PODS: _PODS_PER_NODE, _GPU: line.gpus}
    labels = ((_MODEL_LABEL, line.model),) if line.model else ()
    return Node(name=name, allocatable=tuple(sorted(amounts.items())), labels=labels)


def _pod(line: PodLine, number: int) -> Pod:
    amounts = {CPU: line.cpu_milli, MEMORY: line.memory_mib << 20}
    annotations = {MODEL: line.spec} if line.spec else {}
    if line.gpus and line.gpu_milli < 1000:
        annotations[MILLI] = str(line.gpu_milli)
    elif line.gpus:
        amounts[_GPU] = line.gpus
    return Pod(
        namespace="trace",
        name=line.name,
        uid=f"{number}",
        requests=tuple(sorted(amounts.items())),
        annotations=tuple(sorted(annotations.items())),
    )
