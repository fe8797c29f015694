"""The counter of calls counts what it says, and every way is found in a server that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from algorithm.model import lookup
from extender.core.freshness import older
from tests.bench.path import Profile, Row, Walk, measure, show


def counted(do: Callable[[], object]) -> Walk:
    """The way of a thread that does this once it is told to."""
    profile, go = Profile(), threading.Event()

    def work() -> None:
        go.wait()
        do()

    with profile.installed():
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        walks = profile.of(lambda: (go.set(), thread.join()))
    return walks.get("worker", Walk())


def test_only_functions_of_ours_count_and_each_change_of_module() -> None:
    walk = counted(lambda: (lookup((), "a"), older("1", "2"), older("1", "2"), sorted([3, 1], key=lambda n: -n)))
    assert [function for _, function in walk.calls] == ["lookup", "older", "older"]
    assert (len(walk.modules), walk.changes, walk.depth) == (2, 1, 1)


def test_a_generator_of_ours_counts_once() -> None:
    spaces = {"__name__": "algorithm.made_up"}
    exec("def numbers():\n    yield 1\n    yield 2\n    yield 3\n", spaces)
    walk = counted(lambda: sum(spaces["numbers"]()))
    assert walk.calls == [("algorithm.made_up", "numbers")]


def test_other_threads_and_other_times_do_not_count() -> None:
    profile = Profile()
    with profile.installed():
        thread = threading.Thread(target=lambda: older("1", "2"))
        thread.start()
        thread.join()
        assert profile.of(lambda: older("1", "2")) == {}


def test_what_is_decided_is_shown_beside_the_whole() -> None:
    out = StringIO()
    walk = Walk([("a", "f"), ("b", "g"), ("a", "h")], 7, 3, decided=Walk([("b", "g")], 5, 4))
    show([Row("/filter, placed", walk), Row("other", Walk())], Console(file=out, width=140))
    row = next(line for line in out.getvalue().splitlines() if "/filter" in line)
    assert [each.strip() for each in row.split("│")[2:-1]] == ["3", "2", "2", "4", "1", "1", "0", "1", "180, 18"]


@pytest.fixture(scope="module")
def rows() -> dict[str, Walk]:
    return {row.name: row.walk for row in measure(nodes=20, rounds=1)}


@pytest.mark.slow
def test_every_way_is_found(rows: dict[str, Walk]) -> None:
    assert len(rows) == 10
    for name, walk in rows.items():
        assert len(walk.calls) > len(walk.modules) > 10, name
        assert walk.depth > 5, name
        assert (walk.decided is None) == (name == "watch event: a node's heartbeat"), name


@pytest.mark.slow
def test_a_placed_filter_goes_from_the_connection_to_the_algorithm_and_back(rows: dict[str, Walk]) -> None:
    walk = rows["/filter, placed"]
    assert walk.calls[0][1].endswith("data_received")
    assert any(module.startswith("algorithm.packing") for module, _ in walk.calls)
    assert walk.decided is not None
    assert 50 < len(walk.decided.calls) < len(walk.calls) - 20
