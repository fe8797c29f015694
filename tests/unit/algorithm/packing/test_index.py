"""The index finds what a look at every node finds, and takes nodes out as it took them in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.model import fits
from algorithm.packing.index import FreeIndex

GPU, FPGA = "example.com/gpu", "example.com/fpga"


class Only:
    """Allows the given nodes."""

    few = None

    def __init__(self, names):
        self.names = set(names)
        self.check = self.names.__contains__

    def __call__(self, name):
        return name in self.names


def free_amounts():
    return st.fixed_dictionaries(
        {
            "cpu": st.integers(-2, 8),
            "memory": st.integers(-2, 8),
            "pods": st.integers(0, 3),
            GPU: st.sampled_from([-1, 0, 1, 2, 4, 31, 32, 33, 63, 64, 1000]),
            FPGA: st.integers(0, 2),
        }
    )


demands = st.fixed_dictionaries(
    {"pods": st.just(1)},
    optional={
        "cpu": st.integers(1, 6),
        "memory": st.integers(1, 6),
        GPU: st.sampled_from([1, 2, 32, 33, 500]),
        FPGA: st.integers(1, 2),
        "ephemeral-storage": st.just(1),
    },
).map(lambda amounts: tuple(sorted(amounts.items())))


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    frees=st.lists(free_amounts(), min_size=1, max_size=25),
    demand=demands,
    spread=st.booleans(),
    hidden=st.sets(st.integers(0, 24)),
)
def test_a_node_is_found_exactly_if_one_fits_and_is_the_best(frees, demand, spread, hidden):
    cluster = {f"n{i:02}": free for i, free in enumerate(frees)}
    index = FreeIndex(spread=spread)
    for name, free in cluster.items():
        index.add(name, free)
    allowed = [name for i, name in enumerate(cluster) if i not in hidden]
    fitting = [name for name in allowed if fits(demand, cluster[name])]
    found = index.best(demand, Only(allowed), cluster.__getitem__)
    assert (found in fitting) if fitting else found is None
    if found is None:
        return
    asked = dict(demand)
    left = {name: [cluster[name][r] for r in (FPGA, GPU) if r in asked] for name in fitting}
    if len(left[found]) == 1 and max(cluster[name][GPU] for name in fitting) < 32:
        unasked = {name: sum(cluster[name][r] > 0 for r in (FPGA, GPU) if r not in asked) for name in fitting}
        if spread:
            assert left[found] == max(left.values())
        else:
            assert (unasked[found], left[found]) == min((unasked[name], left[name]) for name in fitting)


@pytest.mark.parametrize("offered", [["n015"], ["n016"], ["n199"], ["n150", "n170"], []])
def test_an_offered_node_is_found_behind_any_number_of_others(offered):
    index = FreeIndex(spread=False)
    for number in range(200):
        index.add(f"n{number:03}", {"cpu": 4, "pods": 9})
    found = index.best((("cpu", 1), ("pods", 1)), Only(offered), lambda _: {"cpu": 4, "pods": 9})
    assert found == next(iter(offered), None)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(frees=st.lists(free_amounts(), min_size=1, max_size=12), spread=st.booleans())
def test_what_is_taken_out_leaves_nothing_behind(frees, spread):
    index = FreeIndex(spread=spread)
    for i, free in enumerate(frees):
        index.add(f"n{i:02}", free)
    for i in reversed(range(len(frees))):
        index.remove(f"n{i:02}")
    assert index.contents() == {}
    assert index.best((("pods", 1),), Only(["n00"]), lambda name: frees[int(name[1:])]) is None


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(frees=st.lists(free_amounts(), min_size=1, max_size=12), demand=demands, spread=st.booleans())
def test_a_look_at_each_of_a_few_nodes_finds_a_node_exactly_if_the_search_does(frees, demand, spread):
    cluster = {f"n{i:02}": free for i, free in enumerate(frees)}
    index = FreeIndex(spread=spread)
    for name, free in cluster.items():
        index.add(name, free)
    looked = index.best_of(cluster, demand, cluster.__getitem__)
    assert index.best_of(["gone", *cluster, "other"], demand, cluster.__getitem__) == looked
    found = index.best(demand, Only(cluster), cluster.__getitem__)
    assert (looked is None) == (found is None)
    assert looked is None or fits(demand, cluster[looked])
