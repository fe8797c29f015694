"""The measure against its definition, and which pods are typical."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.fgd.fragmentation import Fragmentation, PodClass, parts, typical_pods
from tests.support.fgd.records import naive_fragmentation

CLASSES = st.builds(
    lambda cpu, size, spec: PodClass(cpu, size[0], size[1], spec if size[1] else ""),
    st.sampled_from([0, 1000, 4000]),
    st.sampled_from([(0, 0), (200, 1), (700, 1), (1000, 1), (1000, 2), (1000, 8)]),
    st.sampled_from(["", "A", "A|B"]),
)
COUNTS = st.dictionaries(CLASSES, st.integers(1, 50), min_size=1, max_size=8)
FREE = st.lists(st.sampled_from([0, 100, 200, 500, 700, 999, 1000]), max_size=8).map(tuple)


@given(COUNTS, st.sampled_from(["", "A", "B", "C"]), st.sampled_from([0, 999, 1000, 5000]), FREE)
def test_fragmentation_is_what_typical_pods_cannot_use(counts, model: str, cpu: int, free: tuple[int, ...]) -> None:
    typical = typical_pods(counts)
    shares = {each.pods: each.share for each in typical}
    expected = naive_fragmentation(shares, model, cpu, free)
    measure = Fragmentation(typical)
    assert measure.of(model, cpu, free) == pytest.approx(expected, abs=1e-6)
    assert measure.of(model, cpu, tuple(reversed(free))) == measure.of(model, cpu, free)
    assert sum(parts(typical, model, cpu, free)) == pytest.approx(sum(free))


@given(COUNTS)
def test_typical_pods_are_the_most_frequent_ones(counts) -> None:
    typical = typical_pods(counts)
    total = sum(counts.values())
    covered = sum(counts[each.pods] for each in typical)
    assert covered * 100 >= 95 * total
    assert (covered - counts[typical[-1].pods]) * 100 < 95 * total
    assert sum(each.share for each in typical) == pytest.approx(1)
    assert [counts[each.pods] for each in typical] == sorted((counts[each.pods] for each in typical), reverse=True)


def test_equally_frequent_classes_come_from_the_largest_down() -> None:
    counts = {PodClass(1, 0, 0, ""): 3, PodClass(2, 1000, 1, ""): 3, PodClass(2, 1000, 1, "A"): 3}
    assert [each.pods for each in typical_pods(counts)] == sorted(counts, reverse=True)


def test_without_any_pod_nothing_is_fragmented() -> None:
    assert Fragmentation(typical_pods({})).of("A", 1000, (500, 1000)) == 0
