"""How good a node is for a pod, and which of its GPUs the pod gets: fragmentation gradient descent, and the policies
that its paper compares it with. All scores are whole numbers. The highest wins, among equals the first node by name.

| policy | score |
|---|---|
| fgd | how little the node's fragmentation grows |
| random | none: the pod's UID decides |
| dotprod | the less the pod's needs and what is left point the same way |
| clustering | nodes that have pods of the same kind of GPU use |
| packing | nodes whose started GPUs suffice, the fullest first |
| bestfit | nodes with the least left |

CPU counts against 128 cores and GPUs against eight, whatever the node's size, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import NamedTuple

from algorithm.fgd.devices import Devices, after, found_free, tag
from algorithm.fgd.fragmentation import Fragmentation
from algorithm.fgd.needs import WHOLE, Need

_CPU, _GPUS = 128_000, 8_000


class Choice(NamedTuple):
    """The score of a node, and the GPUs there."""

    score: float
    gpus: tuple[int, ...]


#: Scores a node on which the pod fits.
Score = Callable[[Need, Devices, Fragmentation], Choice]


def fgd(need: Need, node: Devices, fragmentation: Fragmentation) -> Choice:
    before = fragmentation.of(node.model, node.cpu, node.free)
    left = node.cpu - need.cpu

    def change(where: tuple[int, ...]) -> int:
        grown = fragmentation.of(node.model, left, after(node.free, where, need.milli))
        return int(100 / (1 + exp(-(before - grown) / 1000)))

    if not need.is_shared:
        where = found_free(need, node.free) or ()
        return Choice(change(where), where)
    best, found, seen = -1, 0, set()
    for index, free in enumerate(node.free):
        if free >= need.milli and free not in seen:
            seen.add(free)  # GPUs with as much left are alike, and the first of them counts
            score = change((index,))
            if score > best:
                best, found = score, index
    return Choice(best, (found,))


def random(need: Need, node: Devices, _: Fragmentation) -> Choice:
    return Choice(0, found_free(need, node.free) or ())


def dotprod(need: Need, node: Devices, _: Fragmentation) -> Choice:
    product = node.cpu / _CPU * (need.cpu / _CPU) + sum(node.free) / _GPUS * (need.all_milli / _GPUS)
    return Choice(int(100 * (1 - product / 2)), found_free(need, node.free) or ())


def clustering(need: Need, node: Devices, _: Fragmentation) -> Choice:
    if not need.gpus:
        return Choice(0, ())
    tags = {name for name, number in node.tags.items() if number}
    if not tags:
        base = 25
    elif tag(need) not in tags:
        base = 0
    else:
        base = 75 if len(tags) == 1 else 50
    return Choice(base + int(25 * (_GPUS - sum(node.free)) / _GPUS), found_free(need, node.free) or ())


def packing(need: Need, node: Devices, _: Fragmentation) -> Choice:
    if not need.gpus:
        return Choice(0, ())
    where = found_free(need, node.free) or ()
    whole = sum(1 for left in node.free if left >= WHOLE)
    if whole == len(node.free):
        return Choice(max(33 - whole, whole), where)
    fullest = sorted(left for left in node.free if left >= need.milli)[: need.gpus]
    unused = sum(1 for left in fullest if left >= WHOLE)
    if unused:
        return Choice(max(50 - unused, 33), where)
    shares = sum(int(100 * left / WHOLE) for left in fullest)
    return Choice(max(100 - int(shares / 10), 50), where)


def bestfit(need: Need, node: Devices, _: Fragmentation) -> Choice:
    left = 0.5 * (node.cpu - need.cpu) / _CPU + 0.5 * (sum(node.free) - need.all_milli) / _GPUS
    return Choice(int(100 * (1 - left)), found_free(need, node.free) or ())


SCORES: dict[str, Score] = {
    "fgd": fgd,
    "random": random,
    "dotprod": dotprod,
    "clustering": clustering,
    "packing": packing,
    "bestfit": bestfit,
}
