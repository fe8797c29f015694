"""Sets of vpods, for the page: a piece with their number, then for each set its pods, and its vpods in groups.

A vpod's counts are pairs of ordinal and vreplicas in one list, so that a heat map of 200 pods and 1,000 vpods is some
100 KB after compression, once; then only groups that changed are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Any

import msgspec

from extender.server.vpods.planner import Looked
from extender.vpods import views
from extender.vpods.copies import SetCopy, VPodCopy, copy_sets
from extender.web.ui.waiting import AGES

#: How many sets are shown, those first in which most vreplicas wait; how many vpods of all of them, those first that
#: wait or move; how many counts of them; and how many pods of all of them, whose number is in their StatefulSets.
SETS, VPODS, COUNTS, PODS = 50, 2000, 200_000, 20_000
#: VPods of a piece, moves of a vpod, and characters of a message.
GROUP, MOVES, MESSAGE = 25, 20, 300


def vpod_pieces(runtime: Looked) -> Iterator[bytes]:
    """Yield the pieces of a server of vpods."""
    copies = runtime.look(lambda engine, now: copy_sets(engine, list(engine.sets), now))
    sums = {copy.key: views.sums(copy) for copy in copies}
    totals = [sum(numbers) for numbers in zip(*((s.placed, s.pending, s.free) for s in sums.values()), strict=True)]
    head = {"vpodSetCount": len(copies), "vpodTotals": totals or [0] * 3}
    yield msgspec.json.encode(head)
    shown = nlargest(SETS, copies, key=lambda copy: (sums[copy.key].pending, sums[copy.key].expected, copy.key))
    room = _Room()
    for copy in sorted(shown, key=lambda each: each.key):
        chosen = room.choose(copy)
        yield msgspec.json.encode({"vpodSet": _set(copy, sums[copy.key], room.pods(copy))})
        for start in range(0, len(chosen), GROUP):
            rows = [_row(copy, vpod) for vpod in chosen[start : start + GROUP]]
            yield msgspec.json.encode({"vpodRows": rows, "of": str(copy.key)})


class _Room:
    """How many more vpods, counts and pods are shown."""

    def __init__(self) -> None:
        self._vpods, self._counts, self._pods = VPODS, COUNTS, PODS

    def pods(self, copy: SetCopy) -> list[views.PodView]:
        """Return the pods of a set that are shown, the first ones."""
        shown = views.pods(copy)[: self._pods]
        self._pods -= len(shown)
        return shown

    def choose(self, copy: SetCopy) -> list[VPodCopy]:
        """Return the vpods of a set that are shown, by name."""
        chosen = []
        for vpod in nlargest(self._vpods, copy.vpods, key=_rank):
            self._counts -= len(vpod.placed)
            if self._counts < 0:
                break
            chosen.append(vpod)
        self._vpods -= len(chosen)
        return sorted(chosen, key=_name)


def _name(vpod: VPodCopy) -> str:
    return vpod.name


def _rank(vpod: VPodCopy) -> tuple[Any, ...]:
    return vpod.pending > 0 or not vpod.is_admitted, vpod.placed != vpod.committed, vpod.wanted, vpod.name


def _set(copy: SetCopy, sums: views.Sums, pods: Iterable[views.PodView]) -> dict[str, Any]:
    settings = copy.settings
    wrong = "" if copy.workload else f"the StatefulSet {copy.key.namespace}/{settings.workload} does not exist"
    return {
        "namespace": copy.key.namespace,
        "name": copy.key.name,
        "statefulSet": settings.workload,
        "capacity": settings.capacity,
        "policy": settings.policy,
        "detail": copy.idle or wrong,
        "replicas": sums.replicas,
        "usable": sums.usable,
        "expected": sums.expected,
        "placed": sums.placed,
        "pending": sums.pending,
        "free": sums.free,
        "spread": sums.spread,
        "vpods": sums.vpods,
        "waiting": sums.waiting,
        "drainingTo": copy.draining,
        "scalingTo": copy.ordered,
        "pods": [(pod.ordinal, pod.zone, pod.node, pod.stage.value, pod.why, pod.held) for pod in pods],
    }


def _row(copy: SetCopy, vpod: VPodCopy) -> tuple[Any, ...]:
    """Return name, wanted, placed, pending, reason, message, seconds of waiting, moves, and counts by ordinal."""
    since = vpod.waits_since
    waits = None if since is None else max(age for age in AGES if age <= max(0.0, copy.now - since))
    return (
        vpod.name,
        vpod.record.wanted,
        vpod.scheduled,
        vpod.pending,
        vpod.reason.value,
        vpod.message[:MESSAGE],
        waits,
        [(move.source, move.target, move.vreplicas) for move in views.moves(vpod)[:MOVES]],
        _flat(sorted(vpod.placed.items())),
    )


def _flat(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [number for pair in pairs for number in pair]
