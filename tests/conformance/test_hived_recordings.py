"""Every recording of the original: the same answers, cells and groups, except where the list of deviations says so."""

import pytest

from tests.conformance.hived_deviations import NOT_HERE, REASONS, deviations, play
from tests.conformance.hived_recordings import recordings
from tests.conformance.hived_states import KINDS, observe_group
from tests.support.hived.harness import HivedHarness, one


def cases():
    """One in eight of the random ones in `make test`, all others always."""
    number = 0
    for name in recordings():
        number += name.startswith("rand-")
        is_quick = not name.startswith("rand-") or number % 8 == 0 or "answer" in deviations().get(name, {})
        yield pytest.param(name, id=name, marks=[] if is_quick else [pytest.mark.slow])


@pytest.mark.parametrize("name", list(cases()))
def test_decides_as_recorded(name):
    assert play(name) == deviations().get(name, {})


def test_every_deviation_has_a_reason_and_every_reason_a_deviation():
    assert {kind for kinds in deviations().values() for kind in kinds} == REASONS.keys() - NOT_HERE.keys()


def test_whatever_may_be_found_to_differ_has_a_reason_but_for_what_never_may():
    """Also in recordings that are not here. A group's tenant and priority are what its first pod says."""
    never = {"group vc", "group priority"}

    assert REASONS.keys() == {"answer", *KINDS} - never


def test_of_a_group_nothing_is_compared_that_has_no_kind():
    world = HivedHarness()
    world.bind(one("g", leafs=1))

    assert {f"group {field}" for field in observe_group(world.group("g"))} < KINDS


def test_only_one_answer_differs():
    """A recovered group whose places are mixed up: the pod would get the devices of one that still runs."""
    answers = {name: kinds["answer"] for name, kinds in deviations().items() if "answer" in kinds}
    assert answers == {"rand-c16-lead-15": "49"}


def test_names_of_virtual_cells_differ_only_where_the_original_draws_lots():
    named = {name for name, kinds in deviations().items() if "names" in kinds}
    assert not any(recordings()[name]["hidden_state_deterministic"] for name in named)
