"""Offers of pods that nobody but the caller has named take bounded memory, whatever the caller sends."""

from __future__ import annotations

import tracemalloc

import pytest

from algorithm.interface import SuggestedNodes
from extender.scheduling.events import PodSeen
from extender.scheduling.verbs import preempt
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod

NAMES = [f"node-{number:05}" for number in range(100)]


def offered(engine: EngineHarness, name: str) -> SuggestedNodes:
    pod_info = engine.machine.state.pods.get(pod(name).uid)
    assert pod_info is not None
    return pod_info.offered


def refuse(engine: EngineHarness, names: list[str], nodes: list[str]) -> None:
    for name in names:
        assert engine.filter(pod(name, cpu=10**9), *nodes).node is None


def test_the_oldest_offers_go_and_never_those_of_pods_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempt, "MOST_UNSEEN", 60_000)
    engine = EngineHarness()
    engine.see(node("a"))
    engine.handle(PodSeen(pod("known", cpu=10**9)))
    refuse(engine, ["known", *(f"p{number}" for number in range(20))], NAMES)
    kept = [number for number in range(20) if offered(engine, f"p{number}")]
    assert kept == list(range(20 - len(kept), 20))
    assert 3 < len(kept) < 8
    assert len(offered(engine, "known")) == 100
    assert engine.machine.counts["offers", "dropped"] == 20 - len(kept)


def test_a_pod_that_is_asked_about_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempt, "MOST_UNSEEN", 60_000)
    engine = EngineHarness()
    engine.see(node("a"))
    refuse(engine, ["p", "q"] * 20, NAMES)
    assert (len(offered(engine, "p")), len(offered(engine, "q"))) == (100, 100)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempt, "MOST_UNSEEN", 500_000)
    grown = []
    for size in (500, 5000):
        engine = EngineHarness()
        engine.see(node("a"))
        tracemalloc.start()
        for call in range(20):
            refuse(engine, [f"p{call}"], [f"{call}-{number}" for number in range(size)])
        grown.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert grown[1] < 2 * grown[0] + 2_000_000
