"""JSON and YAML have every field, and are read back as they were."""

from __future__ import annotations

import msgspec
import yaml

from extender.plan.records import Plan
from extender.plan.showing.difference import Difference, difference
from extender.plan.showing.encoding import to_json, to_yaml
from tests.unit.plan.showing.plans import HOSTILE, mixed, plan, row

#: A C1 control that begins an escape sequence, DEL, a bidirectional override, a tag outside of the first plane.
ODD = "\x9b31m \x7f \u202e \U000e0041"


def test_json_is_the_plan() -> None:
    for found in (mixed(), plan([row(HOSTILE + ODD)])):
        assert msgspec.json.decode(to_json(found), type=Plan) == found
    assert to_json(mixed()).endswith(b"}\n")


def test_yaml_is_the_plan() -> None:
    words = [
        row(each)
        for each in ("", "no", "Null", "1", "1e3", "a: b", "- a", "a#b", "0x1", "~", "a/b", ".nan", ODD, "é", "😀")
    ]
    for found in (mixed(), plan([row(HOSTILE)]), plan([]), plan(words)):
        assert msgspec.convert(yaml.safe_load(to_yaml(found)), Plan) == found
    assert to_yaml(mixed()).startswith("version: 1\n")


def test_the_difference_is_a_field_of_both() -> None:
    found = difference(mixed(), plan([]))
    as_json, as_yaml = msgspec.json.decode(to_json(mixed(), found)), yaml.safe_load(to_yaml(mixed(), found))
    assert as_json == as_yaml
    assert msgspec.convert(as_json["difference"], Difference) == found


def test_nothing_of_a_stranger_controls_the_terminal() -> None:
    for found in (to_json(plan([row(HOSTILE + ODD)])).decode(), to_yaml(plan([row(HOSTILE + ODD)]))):
        assert all(each.isprintable() or each == "\n" for each in found)
