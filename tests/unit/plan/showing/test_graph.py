"""The graph: waves as columns, arrows from what is waited for, in SVG and for Graphviz; all within bounds."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from extender.plan.records import Plan, Sign
from extender.plan.showing.dot import dot
from extender.plan.showing.graph import MOST_ARROWS, MOST_BOXES, graph
from extender.plan.showing.svg import svg
from tests.unit.plan.showing.plans import HOSTILE, gang, mixed, plan, row


def drawn(text: str) -> list[str]:
    """All texts of an image; it is well-formed."""
    root = ElementTree.fromstring(text)
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_boxes_stand_in_the_columns_of_their_waves() -> None:
    found = graph(mixed())
    assert found.titles == ("not in the plan", "at once", "wave 1")
    columns = {box.name: box.column for box in found.boxes}
    assert columns["Job/default/old"] == 0
    assert columns["Job/default/train"] == 1
    assert columns["Pod/default/late"] == 2
    assert {(a.before, a.after, a.state) for a in found.arrows} == {
        ("Job/default/train", "Pod/default/late", "Ready"),
        ("Job/default/old", "Pod/default/late", "Complete"),
    }


def test_a_gang_with_one_workload_is_that_box() -> None:
    rows = [*gang("a", 2), *gang("b", 2, wave=1)]
    found = graph(plan(rows, edges=(("Group/default/b", "Group/default/a", "Ready"),)))
    assert [(a.before, a.after) for a in found.arrows] == [("Job/default/a", "Job/default/b")]
    assert len(found.boxes) == 2


def test_what_waits_stands_after_what_it_waits_for_and_a_cycle_is_drawn() -> None:
    rows = [row(name, Sign.WAITS, code="DependencyCycle") for name in "abc"]
    edges = (
        ("Pod/default/a", "Pod/default/b", "Ready"),
        ("Pod/default/b", "Pod/default/a", "Ready"),
        ("Pod/default/c", "Pod/default/late", "Ready"),
    )
    found = graph(plan([row("late"), *rows], edges=edges))
    columns = {box.name: box.column for box in found.boxes}
    assert columns["Pod/default/c"] == columns["Pod/default/late"] + 1
    assert len(found.arrows) == 3


def test_what_does_not_exist_is_said() -> None:
    lost = row("a", Sign.WAITS, code="DependencyNotFound", root=("Job/default/none",))
    edges = (("Pod/default/a", "Job/default/none", "Ready"), ("Pod/default/a", "Job/default/old", "Ready"))
    boxes = {box.name: (box.sign, box.detail) for box in graph(plan([lost], edges=edges)).boxes}
    assert boxes["Job/default/none"] == (Sign.WAITS, "does not exist")
    assert boxes["Job/default/old"] == (Sign.STAYS, "")


def test_an_image_shows_names_reasons_and_sums() -> None:
    texts = drawn(svg(mixed()))
    assert "Plan: 4 will run, 1 will move, 1 will be evicted, 4 will wait" in texts
    assert "? Job/default/big" in texts
    assert "4 pods, GangDoesNotFit" in texts


@pytest.mark.parametrize("image", [svg, dot])
def test_nothing_of_a_stranger_is_more_than_text(image: object) -> None:
    assert callable(image)
    found = plan(
        [row(HOSTILE, Sign.WAITS, code="Other", workload=HOSTILE)],
        edges=((HOSTILE, HOSTILE + "2", HOSTILE),),
    )
    text = image(found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    if image is svg:
        assert "<script" not in text
        drawn(text)
    else:
        assert '\\"' in text
        assert all(line.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0 for line in text.splitlines())


def test_an_image_stands_alone() -> None:
    text = svg(mixed())
    assert "style=" not in text
    assert "href" not in text
    assert text.count("http") == 1  # the name of the language


def test_an_image_is_wide_enough_for_its_caption() -> None:
    text = svg(mixed())
    caption = next(each for each in drawn(text) if each.startswith("Plan: "))
    (width,) = re.findall(r'^<svg [^>]* width="(\d+)"', text)
    assert int(width) > 20 + 8 * len(caption)


def large() -> Plan:
    names = [f"p{n}" for n in range(3000)]
    edges = tuple((f"Pod/default/{a}", f"Pod/default/{b}", "Ready") for b in names[:50] for a in names[50:150])
    return plan([row(name) for name in names], edges=edges)


def test_large_plans_are_drawn_in_part_and_say_so() -> None:
    found = graph(large())
    assert len(found.boxes) == MOST_BOXES
    assert len(found.arrows) == MOST_ARROWS
    assert (found.more_boxes, found.more_arrows) == (2600, 3000)
    assert "not drawn: 2600 more boxes, 3000 more arrows" in drawn(svg(large()))
    assert "// not drawn: 2600 more boxes" in dot(large())


def test_an_empty_plan_is_an_image_too() -> None:
    assert drawn(svg(plan([]))) == ["Plan: nothing happens"]
    assert dot(plan([])).startswith("digraph plan {")
