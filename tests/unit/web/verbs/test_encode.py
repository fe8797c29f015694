"""What kube-scheduler is answered: Go's names, every node accounted for, never a null that it would crash on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.scheduling.events import BindAnswer, Candidate, FilterAnswer, PreemptAnswer
from extender.web.verbs.encode import encode_bind, encode_filter, encode_preempt, encode_prioritize
from extender.web.verbs.extender_args import FilterArgs, PreemptRequest

POD = Pod(namespace="ns", name="p", uid="u")
BUSY = reason(Code.INSUFFICIENT, resources=["cpu"])
CORDONED = reason(Code.NODE_CORDONED)


def by_name(*names: str) -> FilterArgs:
    return FilterArgs(POD, SuggestedNodes(names))


def in_full(*names: str) -> FilterArgs:
    items = [msgspec.Raw(json.dumps({"metadata": {"name": n}}).encode()) for n in names]
    return FilterArgs(POD, SuggestedNodes(names), items)


def filtered(answer: FilterAnswer, offer: FilterArgs) -> Any:
    return json.loads(encode_filter(answer, offer))


def test_a_chosen_node_is_the_only_one_that_passes():
    assert filtered(FilterAnswer(node="b"), by_name("a", "b")) == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_a_chosen_node_comes_back_in_full_if_it_came_in_full():
    answer = filtered(FilterAnswer(node="b"), in_full("a", "b", "b"))

    assert answer["NodeNames"] is None
    assert answer["Nodes"] == {"metadata": {}, "items": [{"metadata": {"name": "b"}}]}


def test_an_untouched_pod_passes_everywhere():
    assert filtered(FilterAnswer(pass_through=True), by_name("b", "a", "a"))["NodeNames"] == ["b", "a", "a"]
    assert len(filtered(FilterAnswer(pass_through=True), in_full("b", "a"))["Nodes"]["items"]) == 2


def test_every_node_is_refused_with_the_shared_reason():
    answer = filtered(FilterAnswer(reason=BUSY), by_name("a", "b"))

    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {"a": BUSY.text, "b": BUSY.text}
    assert answer["FailedAndUnresolvableNodes"] == {}


@pytest.mark.parametrize("names", [("a",), ("a,b", ","), ('a","b', "c"), ("", 'q"'), ("back\\", "ü"), ("a", "a")])
def test_names_and_texts_that_no_node_has_are_refused_unharmed(names: tuple[str, ...]):
    for detail in ('x","y', ","):
        why = reason(Code.CELLS_EXHAUSTED, group='g"', detail=detail)

        answer = filtered(FilterAnswer(reason=why), by_name(*names))

        assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(names, why.text)


def test_where_eviction_cannot_help_the_refusal_is_unresolvable():
    answer = filtered(FilterAnswer(reason=CORDONED), by_name("a"))

    assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ({}, {"a": CORDONED.text})


def test_a_node_with_a_reason_of_its_own_is_refused_with_that():
    answer = filtered(FilterAnswer(reason=BUSY, nodes={"b": CORDONED, "unoffered": CORDONED}), by_name("a", "b"))

    assert answer["FailedNodes"] == {"a": BUSY.text}
    assert answer["FailedAndUnresolvableNodes"] == {"b": CORDONED.text}


def test_full_nodes_are_refused_by_name():
    answer = filtered(FilterAnswer(reason=BUSY), in_full("a"))

    assert answer["Nodes"] == {"metadata": {}, "items": []}
    assert answer["FailedNodes"] == {"a": BUSY.text}


def test_a_refusal_without_any_node_still_says_why():
    answer = filtered(FilterAnswer(reason=reason(Code.NOTHING_OFFERED)), by_name())

    assert answer["FailedAndUnresolvableNodes"] == {"waggle": "kube-scheduler offered no node"}


def test_an_error_is_told_as_one():
    answer = filtered(FilterAnswer(error=True, reason=reason(Code.NOT_READY, detail="pods")), in_full("a"))

    assert answer["Error"] == "extender is not ready: pods"
    assert answer["FailedNodes"] == {}


def test_every_offered_node_has_a_score():
    answer = json.loads(encode_prioritize({"b": 10, "unoffered": 3}, ["a", "b", "b"]))

    assert answer == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}]


def test_victims_are_answered_by_uid():
    answer = PreemptAnswer(candidates=(Candidate("a", ("v1", "v2"), 1),))

    assert json.loads(encode_preempt(answer, PreemptRequest(POD, ()))) == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v1"}, {"UID": "v2"}], "NumPDBViolations": 1}}
    }


def test_an_untouched_preemption_is_kube_schedulers_own():
    request = PreemptRequest(POD, (Candidate("a", ("v",), 2), Candidate("b", ())))

    assert json.loads(encode_preempt(PreemptAnswer(pass_through=True), request)) == {
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 2},
            "b": {"Pods": [], "NumPDBViolations": 0},
        }
    }


def test_nobody_to_evict_is_an_empty_map():
    assert encode_preempt(PreemptAnswer(), PreemptRequest(POD, (Candidate("a", ("v",)),))) == (
        b'{"NodeNameToMetaVictims":{}}'
    )


def test_bound_is_an_empty_error():
    assert encode_bind(BindAnswer(request=1)) == b'{"Error":""}'


def test_a_failed_bind_never_has_an_empty_error():
    assert encode_bind(BindAnswer(1, reason(Code.BIND_GONE))) == b'{"Error":"pod was deleted before it could be bound"}'
    assert encode_bind(BindAnswer(1, reason(Code.OTHER, detail=""))) == b'{"Error":"Other"}'
