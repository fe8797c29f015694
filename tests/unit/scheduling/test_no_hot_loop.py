"""A pod that waits is told the same text at every attempt while nothing changes.

kube-scheduler writes the text into the pod's condition, that write makes it try the pod again, and a text that moves
makes it do so hundreds of times a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from algorithm.interface import SchedulerAlgorithm, SuggestedNodes
from algorithm.model import CPU, MEMORY, Pod
from algorithm.registry import create
from extender.scheduling.events import (
    Candidate,
    FilterAnswer,
    FilterRequested,
    NodeSeen,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    Synced,
    Ticked,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm

NODES = [f"n{number:02}" for number in range(8)]
ALGORITHMS: dict[str, Callable[[], SchedulerAlgorithm]] = {
    "plain": PlainAlgorithm,
    "packing": lambda: create("packing", {}),
}


def a_full_cluster(make: Callable[[], SchedulerAlgorithm], rng: random.Random) -> SchedulerStateMachine:
    engine = SchedulerStateMachine(make(), Policy())
    for name in NODES:
        engine.handle(NodeSeen(node(name, cpu=rng.choice((2000, 4000)), memory=8 << 30, pods=20)), 0.0)
        for number in range(rng.randint(0, 3)):
            engine.handle(PodSeen(pod(f"{name}-{number}", cpu=1000, on=name, priority=rng.choice((0, 5)))), 0.0)
    engine.handle(Synced(), 0.0)
    return engine


def some_pods(rng: random.Random) -> list[Pod]:
    """Single pods that fit or not, gangs that fit, do not fit, are incomplete or declared wrongly."""
    pods = [pod(f"single{n}", cpu=rng.choice((1000, 3000, 9000)), priority=rng.choice((0, 9))) for n in range(4)]
    for gang, size, minimum in (("small", 2, "2"), ("large", 6, "6"), ("half", 2, "4"), ("wrong", 2, "many")):
        notes = (("waggle.dev/gang", gang), ("waggle.dev/gang-min", minimum))
        cpu, priority = rng.choice((1000, 2500)), rng.choice((0, 9))
        pods += [pod(f"{gang}{n}", cpu=cpu, annotations=notes, priority=priority) for n in range(size)]
    return [msgspec.structs.replace(p, requests=((CPU, dict(p.requests)[CPU]), (MEMORY, 1 << 30))) for p in pods]


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("seed", range(12))
def test_while_nothing_changes_every_attempt_gives_the_same_texts(name: str, seed: int) -> None:
    rng = random.Random(seed)
    engine = a_full_cluster(ALGORITHMS[name], rng)
    pods = some_pods(rng)
    for p in pods:
        engine.handle(PodSeen(p), 1.0)
    attempts(engine, pods, rng, 2.0)
    settled = attempts(engine, pods, rng, 3.0)
    for number in range(4):
        again = attempts(engine, pods, rng, 4.0 + number)
        assert again == settled
    assert any(texts for texts in settled.values()), "somebody has to wait, or this test says nothing"


def attempts(
    engine: SchedulerStateMachine, pods: list[Pod], rng: random.Random, now: float
) -> dict[str, dict[str, str]]:
    """By pod: what each node is refused with. One attempt each, then a preempt, offers in an order that moves."""
    texts = {}
    for p in pods:
        offer = rng.sample(NODES, len(NODES))
        answer = next(
            x for x in engine.handle(FilterRequested(p, SuggestedNodes(offer)), now) if isinstance(x, FilterAnswer)
        )
        texts[p.name] = refused(answer)
        if answer.node is None:
            candidates = tuple(Candidate(name) for name in rng.sample(NODES, len(NODES)))
            out = engine.handle(PreemptRequested(p, candidates), now)
            reply = next(x for x in out if isinstance(x, PreemptAnswer))
            texts[p.name]["preempt"] = f"{reply.reason and reply.reason.text} {reply.candidates}"
        engine.handle(Ticked(), now)
    engine.validate()
    return texts


def refused(answer: FilterAnswer) -> dict[str, str]:
    if answer.node is not None or answer.reason is None:
        return {}
    return {name: answer.nodes.get(name, answer.reason).text for name in NODES}
