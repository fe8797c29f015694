from __future__ import annotations

import pytest

from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.selectors import Selector, from_label_selector, parse_fields, parse_labels
from extender.embedded.apiserver.table import EVENTS_V1, PODS

LABELS = {"app": "web", "tier": "front", "rank": "5", "example.com/gpu": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("missing!=db", True),
        ("missing=", False),
        ("example.com/gpu=", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("! app", False),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("missing notin (db)", True),
        ("rank>4,rank<6", True),
        ("rank > 5", False),
        ("app>4", False),
        ("app=web,tier=front,!missing", True),
        ("app=web,tier=back", False),
    ],
)
def test_label_selectors(selector: str, matches: bool) -> None:
    assert Selector(parse_labels(selector)).matches("", LABELS, {}) is matches


@pytest.mark.parametrize(
    "selector", ["app=we b", "=web", "app in web", "app in (a", "app>x", ",", "app=web,,", "a=b=c"]
)
def test_malformed_label_selectors_are_refused(selector: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_labels(selector)
    assert refused.value.code == 400


def test_field_selectors_compare_text_and_know_escapes() -> None:
    fields = {"metadata.name": "a,b=c\\", "status.phase": "Running"}
    terms = parse_fields(r"metadata.name=a\,b\=c\\,status.phase!=Pending", PODS)
    assert Selector(fields=terms).matches("", {}, fields)
    assert not Selector(fields=parse_fields("status.phase!=Running", PODS)).matches("", {}, fields)


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.color"):
        parse_fields("spec.color=red", PODS)


def test_events_of_either_group_are_selected_by_what_they_are_about() -> None:
    terms = parse_fields("regarding.name=p1", EVENTS_V1)
    assert Selector(fields=terms).matches("", {}, {"involvedObject.name": "p1"})


def test_label_selector_objects_mean_the_same_as_their_text() -> None:
    expressions = [{"key": "tier", "operator": "In", "values": ["front"]}, {"key": "x", "operator": "DoesNotExist"}]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": expressions}
    assert sorted(from_label_selector(selector)) == sorted(parse_labels("app=web,tier in (front),!x"))
