"""Figures of the dependency engine: how often a join runs, and how long a graph takes that is found while it runs."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import msgspec

from extender.fixpoint import Done, Engine, Need, Report, Status
from extender.fixpoint.records import Outcome
from extender.fixpoint.visit import Body, Visit


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One shape of graph: what it cost with one worker."""

    shape: str
    nodes: int
    edges: int
    dispatches: int
    #: How often the node ran that needs most others.
    hub_runs: int
    #: CPU seconds of the fastest of the runs.
    seconds: float


def chain(length: int = 1_000) -> Figure:
    """Each node needs the next; the first one is asked first."""
    names = [f"n{number:06d}" for number in range(length)]
    return measure("chain", {name: names[at + 1 : at + 2] for at, name in enumerate(names)}, names, {}, names[0])


def diamond() -> Figure:
    """a before b and c, both before d; d is asked first."""
    needs: dict[str, Sequence[str]] = {"d-join": ["b", "c"], "b": ["a-start"], "c": ["a-start"], "a-start": []}
    return measure("diamond", needs, sorted(needs, reverse=True), {}, "d-join")


def join(width: int = 1_000) -> Figure:
    """A hub that needs 1,000 nodes, which become ready one after the other. The hub is asked first."""
    blockers = [f"n{number:06d}" for number in range(width)]
    needs: dict[str, Sequence[str]] = {name: blockers[max(0, at - 1) : at] for at, name in enumerate(blockers)}
    needs["hub"] = blockers
    return measure(f"{width:,}-way join", needs, ["hub", *blockers], {}, "hub")


def discovered(nodes: int = 10_000, degree: int = 4, seed: int = 0, runs: int = 3) -> Figure:
    """A graph of which one node is known at first. Each node reports two others when it is ready, and needs `degree`
    nodes of its layer, in a random order: many are reported later than it, or wait themselves."""
    draw = random.Random(seed)
    names = [f"n{number:06d}" for number in range(nodes)]
    emits = {name: names[2 * at + 1 : 2 * at + 3] for at, name in enumerate(names)}
    needs: dict[str, list[str]] = {}
    for first in (2**depth - 1 for depth in range(nodes.bit_length())):
        layer = names[first : 2 * first + 1]
        draw.shuffle(layer)
        for rank, name in enumerate(layer):
            needs[name] = draw.sample(layer[:rank], min(degree, rank))
    return measure("discovered while running", needs, names[:1], emits, names[-1], runs=runs)


def wakes(number: int = 1_000_000) -> Figure:
    """A status that changes so many times while one node waits for something else: no change dispatches it."""
    changes = iter(range(number))

    def change() -> bool:
        for each in changes:
            engine.status("data", Status.FAILED if each % 2 else Status.READY)
        return False

    engine: Engine[str] = Engine(lambda visit: visit.gate([Need("never")]) or Done(), at_rest=change)
    began = time.process_time()
    report = engine.run(["a"])
    seconds = time.process_time() - began
    return Figure(
        shape=f"{number:,} changes that wake nobody",
        nodes=1,
        edges=1,
        dispatches=report.dispatches,
        hub_runs=report.by_id["a"].runs,
        seconds=seconds,
    )


def measure(
    shape: str,
    needs: Mapping[str, Sequence[str]],
    seeds: Sequence[str],
    emits: Mapping[str, Sequence[str]],
    hub: str,
    runs: int = 3,
) -> Figure:
    """Return what the graph costs. Raises AssertionError unless all nodes are ready in the end."""
    best, report = min((_timed(needs, seeds, emits) for _ in range(runs)), key=lambda pair: pair[0])
    assert len(report.ready) == len(needs), f"{shape}: {len(report.ready)} of {len(needs)} are ready"
    return Figure(
        shape=shape,
        nodes=len(needs),
        edges=sum(len(each) for each in needs.values()),
        dispatches=report.dispatches,
        hub_runs=report.by_id[hub].runs,
        seconds=best,
    )


def _timed(
    needs: Mapping[str, Sequence[str]], seeds: Sequence[str], emits: Mapping[str, Sequence[str]]
) -> tuple[float, Report[str]]:
    engine = Engine(_body(needs, emits))
    for seed in seeds:
        engine.arrive(seed)
    began = time.process_time()
    report = engine.run()
    return time.process_time() - began, report


def _body(needs: Mapping[str, Sequence[str]], emits: Mapping[str, Sequence[str]]) -> Body[str]:
    def body(visit: Visit[str]) -> Outcome[str]:
        blocked = visit.gate([Need(each) for each in needs[visit.id]])
        if blocked is not None:
            return blocked
        for emitted in emits.get(visit.id, ()):
            visit.arrive(emitted)
        return Done()

    return body


def all_figures() -> list[Figure]:
    """The figures of the engine, in the order of the issue's table."""
    return [chain(), diamond(), join(), discovered(), wakes()]
