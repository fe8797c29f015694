"""Random clusters of all kinds of objects against an oracle that reads their JSON by the words of docs/ordering.md."""

from __future__ import annotations

import pytest

from extender.ordering import tree
from tests.conformance.ordering_adversary import courses


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 50), marks=pytest.mark.slow)], ids=["few", "many"])
def test_random_courses_end_as_the_documents_say(seeds: range) -> None:
    assert [each for seed in seeds if (each := courses.fault(seed))] == []


@pytest.mark.parametrize(
    "seeds", [range(20_000, 20_002), pytest.param(range(20_002, 20_040), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_a_server_that_starts_anew_after_each_step_decides_the_same(seeds: range) -> None:
    assert [each for seed in seeds if (each := courses.fault(seed, restless=True))] == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_many_random_courses_end_as_the_documents_say(block: int) -> None:
    seeds = range(10_000 + 1_000 * block, 10_200 + 1_000 * block)
    assert [each for seed in seeds if (each := courses.fault(seed, 100))] == []


def test_a_fault_of_the_engine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adversary that finds nothing proves nothing: here pods that are being deleted count as ready."""
    share = tree.share_of_pod
    monkeypatch.setattr(
        tree, "share_of_pod", lambda pod: (1, 1, 1, 0, 0, 0) if pod.terminating and pod.node else share(pod)
    )
    assert any(courses.fault(seed) for seed in range(100))
