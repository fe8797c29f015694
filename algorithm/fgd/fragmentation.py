"""Fragmentation: how much of a node's free GPU time the pods that are expected to come could not use.

The measure of "Beware of Fragmentation" (USENIX ATC 2023). For each typical pod a node is in one class, and so many of
its free thousandths count as fragmented; the sum over the typical pods, weighted by their shares, is F.

| the pod | class | fragmented |
|---|---|---|
| needs no GPU; CPU suffices, or not | XL, XR | all that is free |
| cannot use this model | NA | all |
| finds enough GPUs; CPU suffices | Q3 (its stranded part: Q2) | what is free on GPUs that are too full for it |
| finds enough GPUs; CPU does not suffice | Q4 | all |
| finds too few GPUs; CPU suffices, or not | Q2, Q1 | all |

The order of the additions is part of the measure: scores are truncated, so the last bit shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from algorithm.fgd.needs import Need

#: Of all pods, so many per cent count as typical.
COVERED = 95
#: Results that are kept.
_MOST_KEPT = 200_000


class PodClass(NamedTuple):
    """Pods with the same needs but memory, which plays no part."""

    cpu: int
    milli: int
    gpus: int
    spec: str


def class_of(need: Need) -> PodClass:
    return PodClass(need.cpu, need.milli, need.gpus, need.spec)


class Typical(NamedTuple):
    """A class of pods with its share of all typical pods, 0 to 1."""

    pods: PodClass
    share: float
    models: frozenset[str]


def typical_pods(counts: Mapping[PodClass, int]) -> tuple[Typical, ...]:
    """The most frequent classes that together are 95 % of all pods, with their shares, the most frequent first."""
    total = sum(counts.values())
    found, running = [], 0
    for count, pods in sorted(((count, pods) for pods, count in counts.items()), reverse=True):
        if running * 100 >= COVERED * total:
            break
        running += count
        found.append((count, pods))
    covered = running / total if total else 1.0
    return tuple(
        Typical(pods, count / total / covered, frozenset(filter(None, pods.spec.split("|")))) for count, pods in found
    )


class Fragmentation:
    """F of a node, for one set of typical pods. Results are kept by what they depend on."""

    def __init__(self, typical: tuple[Typical, ...]) -> None:
        self.typical = typical
        self._cpus = sorted({each.pods.cpu for each in typical})
        self._kept: dict[tuple[str, int, tuple[int, ...]], float] = {}
        models = {model for each in typical for model in each.models}
        self._models = frozenset(models)

    def forget(self) -> None:
        """Drop the results that are kept."""
        self._kept.clear()

    def of(self, model: str, cpu: int, free: tuple[int, ...]) -> float:
        """Fragmented thousandths of a GPU on a node with this much left."""
        # A model that no typical pod names is as good as any other such model; CPU counts only against their requests.
        key = (model if model in self._models else "", bisect_right(self._cpus, cpu), tuple(sorted(free)))
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            known = self._kept[key] = sum_of(parts(self.typical, model, cpu, key[2]))
        return known


class Parts(NamedTuple):
    """F by class."""

    q1: float
    q2: float
    q3: float
    q4: float
    xl: float
    xr: float
    na: float


def parts(typical: tuple[Typical, ...], model: str, cpu: int, free: tuple[int, ...]) -> Parts:
    """Thousandths by class; those of Q3 are not fragmented."""
    total = sum(free)
    q1 = q2 = q3 = q4 = xl = xr = na = 0.0
    for pods, share, models in typical:
        enough = cpu >= pods.cpu
        if not pods.gpus:
            if enough:
                xl += share * total
            else:
                xr += share * total
        elif models and model not in models:
            na += share * total
        elif sum(1 for left in free if left >= pods.milli) >= pods.gpus:
            if enough:
                stranded = sum(left for left in free if left < pods.milli)
                q2 += share * stranded
                q3 += share * (total - stranded)
            else:
                q4 += share * total
        elif enough:
            q2 += share * total
        else:
            q1 += share * total
    return Parts(q1, q2, q3, q4, xl, xr, na)


def sum_of(each: Parts) -> float:
    return each.q1 + each.q2 + each.q4 + each.xl + each.xr + each.na
