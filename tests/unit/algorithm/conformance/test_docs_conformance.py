"""docs/conformance.md says what the catalogue says, and its examples work."""

from __future__ import annotations

import re

from algorithm.conformance.catalogue import ABILITIES, CHECKS
from algorithm.conformance.report import listed
from algorithm.registry import API_VERSION
from tests.support.conformance.slots import Settings
from tests.support.pages import blocks, page

PAGE = page("conformance.md")
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (?:`(\w+)`)? ?\|$", re.MULTILINE)


def test_the_page_has_every_check_with_its_promise() -> None:
    assert ROW.findall(PAGE) == [(check.name, check.promise, check.ability) for check in CHECKS]
    assert f"the version of the contract, which is {API_VERSION}." in PAGE


def test_the_list_has_every_check_with_its_promise() -> None:
    text = listed()
    for check in CHECKS:
        assert re.search(rf"^  {check.name} +{re.escape(check.promise)}", text, re.MULTILINE)


def test_abilities_are_optional_methods() -> None:
    assert {check.ability for check in CHECKS} - {""} <= set(ABILITIES)


def test_the_world_on_the_page_draws_pods() -> None:
    (text,) = (block for block in blocks(PAGE, "py") if "def world" in block)
    names: dict[str, object] = {"Settings": Settings}
    exec(compile(text, "docs/conformance.md", "exec"), names)
    worlds = names["WORLDS"]
    made = worlds.make(Settings())  # type: ignore[attr-defined]
    made.nodes("n0").validate()
    made.pods(1).validate()
