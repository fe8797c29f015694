"""The table of operations and faults is complete: a call that is added to Waggle without its faults fails here."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from extender.embedded.apiserver import faults
from tests.faults import sites
from tests.faults.table import FAULTS, OPERATIONS, operation_of, pairs, senseless


def test_every_call_in_the_code_is_in_the_table() -> None:
    assert sites.found() == set(sites.SITES), "tests/faults: add the new call to sites.py and its faults to table.py"


def test_every_operation_is_made_somewhere_in_the_code() -> None:
    assert {name for names in sites.SITES.values() for name in names} == {op.name for op in OPERATIONS}


def test_every_action_of_the_api_server_is_a_fault_of_the_table() -> None:
    offered = {action for each in get_args(faults.Action) for action in (get_args(each) or (each,))}
    assert {fault.rule["action"] for fault in FAULTS} | {"page"} == offered, "page comes with 'page token expired'"


def test_every_pair_either_makes_sense_or_has_a_reason_why_not() -> None:
    assert len(pairs()) + len(senseless()) == len(OPERATIONS) * len(FAULTS)
    assert all(why for _, why in senseless())


def test_reasons_name_what_exists() -> None:
    known = {op.name for op in OPERATIONS} | {op.kind for op in OPERATIONS}
    assert {name for fault in FAULTS for name in fault.unless} <= known


def test_the_page_on_reliability_has_the_right_figures() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "reliability.md").read_text(encoding="utf-8").split())
    assert f"Waggle makes {len(OPERATIONS)} kinds of calls" in page
    assert f"{len(FAULTS)} things may go wrong" in page
    assert f"That makes {len(pairs())} pairs; the other {len(senseless())} make no sense" in page


def test_a_request_that_is_not_in_the_table_is_found_out() -> None:
    with pytest.raises(AssertionError, match="DELETE /api/v1/namespaces/x/services/p"):
        operation_of(("DELETE",), "/api/v1/namespaces/x/services/p")
