"""The same seed draws the same lives, however the kit is called: few or many of them, whatever is loaded."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from algorithm.conformance.calls import encode
from algorithm.conformance.life import Life
from algorithm.conformance.machine import live
from algorithm.conformance.world import World
from algorithm.conformance.worlds.plain import node_of, pod_of
from extender.operate.scaffold.slots import Settings, Slots

#: Numbers that stand in the code of a module, as many as Hypothesis reads there: it likes to draw such numbers.
_NUMBERS = range(100, 1 << 16, 100)


def lived(lives: int, seed: int = 0) -> list[bytes]:
    """The calls of each life."""
    world = World(nodes=node_of, pods=lambda number: pod_of(f"p{number}").map(lambda pod: (pod,)))
    found: list[bytes] = []

    def begin() -> Life:
        return Life(lambda: Slots(Settings()))

    live(world, begin, lambda life: found.append(encode(life.calls)), lives=lives, steps=10, at=seed)
    return found


@pytest.mark.slow
def test_fewer_lives_are_the_first_of_more() -> None:
    most = lived(12)
    assert lived(6) == most[:6]
    assert lived(2) == most[:2]
    assert len(set(most)) > 8


def test_another_seed_draws_other_lives() -> None:
    assert not set(lived(6)[1:]) & set(lived(6, seed=1)[1:])


@pytest.mark.slow
def test_what_is_loaded_does_not_matter(tmp_path: Path) -> None:
    before = lived(8)
    path = tmp_path / "numbers_of_an_author.py"
    path.write_text(f"NUMBERS = {[*_NUMBERS]}\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        assert lived(8) == before
    finally:
        del sys.modules[path.stem]
