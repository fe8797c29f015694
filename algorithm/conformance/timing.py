"""Measures how long decisions take, as a multiple of the time of `packing` in the same world and the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, Verbosity, given, seed, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st

from algorithm.conformance.results import Result
from algorithm.conformance.world import World
from algorithm.interface import Bind, Phase, SchedulerAlgorithm, SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.registry import create

#: Submissions of pods; each algorithm places those that it can.
_SUBMISSIONS = 40
#: The smallest of so many runs counts.
_RUNS = 5
#: The time limit of one run.
_SECONDS_OF_A_RUN = 20.0
#: What a decision of packing is taken to cost at least: in a world without requests it only looks one thing up.
_LEAST_SECONDS = 20e-6


def decides_in_time(trial: Any, abilities: Iterable[str]) -> Result:
    """Compare the CPU time of decisions, each the smallest of several runs."""
    nodes, pods = _drawn(trial.world, trial.request.seed)
    packing = max(min(_seconds(lambda: create("packing"), nodes, pods) for _ in range(_RUNS)), _LEAST_SECONDS)
    before, trial.guard.limit = trial.guard.limit, max(_SECONDS_OF_A_RUN, trial.guard.limit)
    theirs = float("inf")
    try:
        for _ in range(_RUNS):
            one = trial.guard.call("schedule", _seconds, trial.create, nodes, pods, trial.guard.before)
            theirs = min(theirs, one)
            if one > 2 * trial.request.fail_ratio * packing:
                break  # no other run will be quick enough
    finally:
        trial.guard.limit = before
    ratio = theirs / packing
    text = (
        f"a decision takes {theirs * 1e6:.0f} microseconds, {ratio:.1f} times as long as of `packing` "
        f"({packing * 1e6:.0f}), with {len(nodes)} nodes and {len(pods)} pods"
    )
    name, request = "decides-in-time", trial.request
    if ratio > request.fail_ratio:
        return Result(check=name, status="failed", text=f"{text}; at most {request.fail_ratio:g} times are accepted")
    if ratio > request.warn_ratio:
        return Result(check=name, status="warned", text=f"{text}; more than {request.warn_ratio:g} times is slow")
    return Result(check=name, status="passed", text=text)


def _seconds(
    make: Callable[[], SchedulerAlgorithm],
    nodes: list[Node],
    pods: list[Pod],
    tick: Callable[[str], None] | None = None,
) -> float:
    """CPU seconds of a decision, the mean over all pods; each pod is asked about twice and placed if it can be."""
    algorithm = make()
    for node in nodes:
        algorithm.add_node(node)
    for pod in pods:
        algorithm.add_unallocated_pod(pod)
    offered = tuple(node.name for node in nodes)
    spent, questions = 0.0, 0
    for pod in pods:
        if tick is not None:
            tick("schedule")  # so that a slow algorithm is not taken for one that hangs
        begun = time.process_time()
        try:
            algorithm.schedule(pod, SuggestedNodes(offered), Phase.PREEMPTING)
            answer: Any = algorithm.schedule(pod, SuggestedNodes(offered), Phase.FILTERING)
        except Exception:
            answer = None
        spent += time.process_time() - begun
        questions += 2
        if isinstance(answer, Bind):
            algorithm.add_allocated_pod(pod.placed(answer.node, answer.annotations))
    return spent / max(1, questions)


def _drawn(world: World, at: int) -> tuple[list[Node], list[Pod]]:
    """The nodes and the pods of a large world: of the last of some examples, as the first one is the simplest."""
    found: list[tuple[list[Node], list[Pod]]] = []

    @seed(at)
    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=(HypothesisPhase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        nodes = [data.draw(world.nodes(name)) for name in world.crowd]
        pods = [pod for number in range(_SUBMISSIONS) for pod in data.draw(world.pods(10_000 + number))]
        found.append((nodes, pods))

    draw()
    return found[-1]
