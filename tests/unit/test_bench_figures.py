"""What `make bench-e2e` says of what it measured."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from tests.bench.e2e.figures import Found, Throughput, aims, show
from tests.bench.e2e.throughput import Round
from tests.bench.e2e.variants import ALL_NODES, BIND, FILTER, LIMITED, NONE, SAMPLE, VARIANTS, Variant, variants_for

ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
POINT = 'scheduler_framework_extension_point_duration_seconds{{extension_point="{}",profile="p",status="{}"}}'


def round_of(rate: float) -> Round:
    means = {ALGORITHM: 3.0}
    means |= {POINT.format(name, "Success"): 0.5 for name in ("PreFilter", "Filter", "PreScore", "Score", "Bind")}
    means[POINT.format("Filter", "Unschedulable")] = 100.0
    return Round(rate=rate, cpu={"kube-scheduler": 1.0, "etcd": 0.5}, means=means)


def found(*, filter_rates: list[float], bind_rates: list[float], nodes: int = 100) -> Found:
    """In one configuration; in another, all is ten times as fast without an extender."""
    rates = {NONE: [100.0] * len(filter_rates), FILTER: filter_rates, BIND: bind_rates}
    measured = [
        Throughput(nodes, Variant(ALL_NODES, name), [round_of(rate) for rate in each]) for name, each in rates.items()
    ]
    other = Throughput(nodes, Variant(SAMPLE, NONE), [round_of(1000.0) for _ in filter_rates])
    return Found([other, *measured], gangs=[0.1, 0.2, 0.6], gang_nodes=100)


def test_the_aims_are_held_against_the_median_of_the_rounds() -> None:
    filters, binds = aims(found(filter_rates=[90.0, 20.0, 95.0], bind_rates=[74.0, 74.0, 99.0]))
    assert (filters.found, filters.met) == (0.90, True)
    assert (binds.found, binds.met) == (0.74, False)


def test_nothing_is_aimed_at_in_clusters_of_other_sizes() -> None:
    assert aims(found(filter_rates=[1.0], bind_rates=[1.0], nodes=20)) == []


def test_what_is_in_no_plugin_is_told_apart() -> None:
    one = round_of(100.0)
    assert (one.algorithm, one.filters, one.scores) == (3.0, 1.0, 1.0)


def test_every_configuration_is_measured_where_it_tells_something() -> None:
    small, large = variants_for(100, 100), variants_for(1000, 100)
    assert {each.configuration.name for each in small} == {ALL_NODES.name, LIMITED.name}
    assert {each.configuration.name for each in large} == {ALL_NODES.name, SAMPLE.name}
    assert all(variant in small + large for variant in VARIANTS)
    for measured in (small, large):
        bare = [each.configuration.name for each in measured if each.name == NONE]
        assert sorted(bare) == sorted({each.configuration.name for each in measured}), "each has something to be over"


SHOWN = ["filter + bind", "all nodes", "0.74", "MISSED", "median 0.20 s, p90 0.52 s (3 times)"]


@pytest.mark.parametrize("text", SHOWN)
def test_everything_is_shown(text: str) -> None:
    output = StringIO()
    show(Console(file=output, width=132), found(filter_rates=[90.0], bind_rates=[74.0]))
    assert text in output.getvalue()
