"""docs/placement-policies.md does what it says."""

import re
import sys
import types
from pathlib import Path

import pytest

from algorithm.placements.model import SetState

PAGE = (Path(__file__).parents[4] / "docs" / "placement-policies.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def packed(monkeypatch):
    module = types.ModuleType("packed")
    module.__dict__["__name__"] = "packed"
    monkeypatch.setitem(sys.modules, "packed", module)
    exec(compile(CODE[0], "docs/placement-policies.md", "exec"), module.__dict__)
    return module


def test_the_example_packs(packed):
    state = SetState(capacity=4, replicas=3)
    for ordinal in range(3):
        state.set_usable(ordinal, True)
    state.put("b", 2, {1: 2})
    vpod = state.put("a", 5, {})
    place = packed.PLUGIN.create(packed.Settings())
    assert {ordinal: number for ordinal, number in place(vpod, state).items() if number} == {1: 2, 0: 3}


@pytest.mark.usefixtures("packed")
def test_its_test_passes():
    names = {}
    exec(compile(CODE[1], "docs/placement-policies.md", "exec"), names)
    names["test_it_keeps_the_promises_of_a_policy"]()


def test_the_entry_point_is_the_one_that_is_looked_for():
    from algorithm.placements.policy import GROUP

    assert f'[project.entry-points."{GROUP}"]' in PAGE
