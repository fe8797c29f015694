"""The scores of each policy, by hand."""

from __future__ import annotations

import pytest

from algorithm.fgd import FgdAlgorithm, FgdSettings
from algorithm.fgd.devices import Devices, Taken, found_free
from algorithm.fgd.fragmentation import Fragmentation
from algorithm.fgd.needs import Need
from algorithm.fgd.policies import bestfit, clustering, dotprod, packing
from algorithm.interface import Bind, Phase, SuggestedNodes
from tests.support.fgd.records import GPU, MODEL_LABEL, node, pod

NOTHING = Fragmentation(())


def devices(free: list[int], cpu: int = 96_000) -> Devices:
    """A node on which pods have left so much of each GPU."""
    made = Devices("n")
    made.set_node(node("n", gpus=len(free), cpu=cpu), GPU, MODEL_LABEL)
    for index, left in enumerate(free):
        if left < 1000:
            made.add(f"u{index}", Taken(Need(0, 0, 1000 - left, 1), (index,)))
    return made


@pytest.mark.parametrize(
    ("free", "need", "score"),
    [
        ([200, 1000, 1000, 500], Need(0, 0, 1000, 2), 48),
        ([1000] * 4, Need(0, 0, 1000, 1), 29),
        ([1000] * 8, Need(0, 0, 1000, 1), 25),
        ([200, 1000, 1000, 500], Need(0, 0, 200, 2), 93),
        ([200, 1000], Need(1000, 0), 0),
    ],
)
def test_packing_prefers_gpus_that_are_in_use(free: list[int], need: Need, score: int) -> None:
    assert packing(need, devices(free), NOTHING).score == score


@pytest.mark.parametrize(
    ("free", "need", "score"),
    [
        ([400], Need(0, 0, 300, 1), 75 + 23),
        ([400, 0], Need(0, 0, 300, 1), 50 + 23),
        ([0, 0], Need(0, 0, 300, 1), 25),
        ([1000, 1000], Need(0, 0, 300, 1), 25 + 18),
        ([1000, 1000], Need(1000, 0), 0),
    ],
)
def test_clustering_prefers_nodes_with_pods_of_the_same_kind(free: list[int], need: Need, score: int) -> None:
    node_ = devices(free)
    if free == [0, 0]:  # another kind only
        node_ = devices([1000, 1000])
        node_.add("u", Taken(Need(0, 0, 1000, 2), (0, 1)))
        assert clustering(need, node_, NOTHING).score == 25
        return
    assert clustering(need, node_, NOTHING).score == score


def test_dotprod_and_bestfit_by_hand() -> None:
    half = devices([1000, 1000, 1000, 1000], cpu=64_000)
    need = Need(32_000, 0, 1000, 2)
    assert dotprod(need, half, NOTHING).score == int(100 * (1 - (0.5 * 0.25 + 0.5 * 0.25) / 2))
    assert bestfit(need, half, NOTHING).score == int(100 * (1 - (0.5 * 0.25 + 0.5 * 0.25)))


def test_a_part_goes_to_the_fullest_gpu_and_whole_ones_to_the_first() -> None:
    assert found_free(Need(0, 0, 300, 1), (1000, 400, 300, 200)) == (2,)
    assert found_free(Need(0, 0, 1000, 2), (500, 1000, 1000, 1000)) == (1, 2)
    assert found_free(Need(0, 0, 1000, 2), (500, 1000)) is None
    assert found_free(Need(0, 0), ()) == ()


def test_fgd_leaves_the_gpu_whole_that_typical_pods_can_use() -> None:
    """A small pod goes beside another small one, since most pods need a whole GPU."""
    typical = [{"cpu_milli": 1000, "gpu_milli": 1000, "gpus": 1, "count": 9}]
    algorithm = FgdAlgorithm(FgdSettings.model_validate({"typical": typical}))
    algorithm.add_node(node("a"))
    algorithm.add_node(node("b"))
    first = pod("first", milli=300)
    algorithm.add_unallocated_pod(first)
    answer = algorithm.schedule(first, SuggestedNodes(["a", "b"]), Phase.FILTERING)
    assert answer == Bind("a", (("waggle.dev/gpu-index", "0"),))
    algorithm.add_allocated_pod(first.placed("b", (("waggle.dev/gpu-index", "1"),)))
    second = pod("second", milli=300)
    algorithm.add_unallocated_pod(second)
    answer = algorithm.schedule(second, SuggestedNodes(["a", "b"]), Phase.FILTERING)
    assert answer == Bind("b", (("waggle.dev/gpu-index", "1"),))
