"""What kube-scheduler wrote on a pod is kept for people, within bounds, and is no news for the engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.kube.informers import unschedulable
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import pods_read_by
from tests.support.apiserver.kube_objects import pod

FULL = "0/3 nodes are available: 3 Insufficient cpu."


def refused(message: str | None = FULL, name: str = "p", **more: Any) -> dict[str, Any]:
    made = pod(name)
    made["metadata"] |= {"uid": f"u-{name}", "resourceVersion": "1"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": "no"}, None, condition]}
    return made | more


def noted(*objects: dict[str, Any], reader: PodReader | None = None) -> PodReader:
    reader = reader or PodReader()
    for each in objects:
        reader.informed(json.dumps(each).encode())
    return reader


def test_the_message_of_a_pod_without_a_node_is_kept():
    assert noted(refused()).messages.of("u-p") == FULL


def test_it_goes_with_the_condition_and_with_the_pod():
    reader = noted(refused())
    noted(refused(status={"conditions": [{"type": "PodScheduled", "status": "True"}]}), reader=reader)
    assert reader.messages.of("u-p") == ""
    noted(refused(), reader=reader)
    noted(refused(spec={"nodeName": "n"}), reader=reader)
    assert reader.messages.of("u-p") == ""
    noted(refused(), refused(name="q"), reader=reader)
    reader.forget_others({"u-q"})
    assert (reader.messages.of("u-p"), reader.messages.of("u-q")) == ("", FULL)
    reader.forget("u-q")
    assert (len(reader.messages), reader.messages.weight) == (0, 0)


def test_equal_messages_are_one_text():
    reader = noted(*(refused(name=f"p{number}") for number in range(50)))
    assert reader.messages.weight == len(FULL)
    assert reader.messages.of("u-p0") is reader.messages.of("u-p49")


def test_a_message_is_one_line_and_has_a_bound():
    reader = noted(refused("a\n\n b " + "x" * 5000))
    assert reader.messages.of("u-p") == "a b " + "x" * (unschedulable.LONGEST - 4) + "..."


def test_all_messages_together_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unschedulable, "TOGETHER", 100)
    reader = noted(*(refused(f"{number:02}" + "x" * 38, name=f"p{number}") for number in range(10)))
    assert (len(reader.messages), reader.messages.weight) == (2, 80)
    reader.forget("u-p0")
    noted(refused("y" * 40, name="later"), reader=reader)
    assert reader.messages.of("u-later") == "y" * 40


@pytest.mark.parametrize(
    "conditions",
    [
        "text",
        {"type": "PodScheduled"},
        [{"type": "PodScheduled", "status": "False", "message": 7}],
        [[]] * 3,
        [{"type": "Other", "status": "False", "message": "x" * unschedulable.MOST_BYTES}, {"type": "PodScheduled"}],
        None,
    ],
)
def test_conditions_that_cannot_be_read_cost_no_pod(conditions: Any):
    reader = PodReader()
    found = reader.informed(json.dumps(refused(status={"conditions": conditions, "phase": "Pending"})).encode())
    assert (found.name, reader.messages.of("u-p")) == ("p", "")


def test_a_new_message_alone_is_no_change_of_the_pod():
    resource = pods_read_by(PodReader(), informer=True)
    before = resource.decode(json.dumps(refused()).encode())
    after = refused("other")
    after["metadata"]["resourceVersion"] = "2"
    assert resource.same(before, resource.decode(json.dumps(after).encode()))
