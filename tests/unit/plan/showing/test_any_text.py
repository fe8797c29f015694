"""Whatever names and texts a plan has: every form is well-formed, and shows the text or its escape."""

from __future__ import annotations

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.plan.records import Plan, Sign
from extender.plan.showing.dot import dot
from extender.plan.showing.encoding import to_json, to_yaml
from extender.plan.showing.markdown import markdown
from extender.plan.showing.svg import svg
from extender.plan.showing.table import table
from tests.unit.plan.showing.plans import plan, row
from tests.unit.plan.showing.test_graph import drawn

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A few rows and edges between any names."""
    names = draw(st.lists(TEXTS, min_size=1, max_size=3))
    some = st.sampled_from(names)
    rows = [
        row(draw(some), draw(st.sampled_from(Sign)), workload=draw(some), node=draw(some), text=draw(some), wave=wave)
        for wave in range(draw(st.integers(0, 2)))
    ]
    edges = draw(st.lists(st.tuples(some, some, some), max_size=3))
    return plan(rows, edges=tuple(edges), warnings=tuple(names), critical_path=tuple(names), source=names[0])


@settings(max_examples=30)
@given(plans())
def test_every_form_is_well_formed(found: Plan) -> None:
    assert msgspec.json.decode(to_json(found), type=Plan) == found
    assert msgspec.convert(yaml.safe_load(to_yaml(found)), Plan) == found
    drawn(svg(found))
    for form in (to_json(found).decode(), to_yaml(found), svg(found), dot(found), markdown(found)):
        assert all(each.isprintable() or each == "\n" for each in form)
    table(found)
