"""Fingerprints: the same for what schedules the same, another one for what does not; and changes by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from extender.plan.fingerprint import MOST_PARTS, changes, fingerprint
from extender.plan.records import World
from tests.unit.plan.worlds import node, pod, raw_object, world


def base(**fields: Any) -> World:
    return world([node("n1"), node("n2")], [pod("a", on="n1"), pod("w1"), pod("w2")], **fields)


def told(before: World, after: World) -> list[str]:
    return list(changes(fingerprint(before).parts, fingerprint(after).parts))


def test_versions_and_heartbeats_do_not_matter() -> None:
    noise = {"resourceVersion": "9", "managedFields": [{"manager": "kubectl"}]}
    before = base(objects=(raw_object("Job", "j"),), taken="now")
    after = world(
        [node("n1", version="7"), node("n2")],
        [pod("a", on="n1", version="8"), pod("w1"), pod("w2")],
        objects=(raw_object("Job", "j", metadata=noise),),
    )
    assert fingerprint(before) == fingerprint(after)


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (world([node("n1"), node("n2", unschedulable=True)], [pod("a", on="n1")]), "Node/n2 changed"),
        (world([node("n1"), node("n2", cpu="9")], [pod("a", on="n1")]), "Node/n2 changed"),
        (world([node("n1")], [pod("a", on="n1")]), "Node/n2 is gone"),
        (world([node("n1"), node("n2")], [pod("a", on="n2")]), "Pod/default/a on n1 is now on n2"),
        (world([node("n1"), node("n2")], [pod("a")]), "Pod/default/a on n1 is now on no node"),
        (world([node("n1"), node("n2")], []), "Pod/default/a on n1 is gone"),
        (world([node("n1"), node("n2")], [pod("a", on="n1", priority=7)]), "Pod/default/a on n1 changed"),
        (world([node("n1"), node("n2")], [pod("a", on="n1"), pod("b", on="n2")]), "Pod/default/b on n2 is new"),
        (world([node("n1"), node("n2")], [pod("a", on="n1")], settings="x"), "the settings changed"),
        (
            world([node("n1"), node("n2")], [pod("a", on="n1")], scheduler="x"),
            "kube-scheduler's configuration changed",
        ),
    ],
)
def test_what_matters_changes_it_and_is_named(after: World, sentence: str) -> None:
    before = world([node("n1"), node("n2")], [pod("a", on="n1")])
    assert fingerprint(before).text != fingerprint(after).text
    assert told(before, after) == [sentence]


def test_the_order_of_waiting_pods_is_named_only_if_it_alone_changed() -> None:
    other = world([node("n1"), node("n2")], [pod("a", on="n1"), pod("w2"), pod("w1")])
    assert told(base(), other) == ["the order of waiting pods changed"]
    more = world([node("n1"), node("n2")], [pod("a", on="n1"), pod("w1"), pod("w2"), pod("w3")])
    assert told(base(), more) == ["Pod/default/w3 is new"]


def test_objects_that_cannot_be_read_are_compared_by_their_bytes() -> None:
    good = raw_object("Job", "j")
    bad = type(good)(kind="Job", api_version="v1", namespace="default", name="j", json=b"{")
    assert told(base(objects=(good,)), base(objects=(bad,))) == ["Job/default/j changed"]


def test_it_is_the_same_in_every_process() -> None:
    script = (
        "from tests.unit.plan.test_fingerprint import base; from extender.plan.fingerprint import fingerprint;"
        "print(fingerprint(base()).text)"
    )
    asked = [sys.executable, "-c", script]
    found = {subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)}
    assert found == {fingerprint(base()).text}


def test_parts_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PARTS >= 200_000
    whole = fingerprint(base())
    monkeypatch.setattr("extender.plan.fingerprint.MOST_PARTS", 2)
    cut = fingerprint(base())
    assert cut.text == whole.text
    assert len(cut.parts) == 2
