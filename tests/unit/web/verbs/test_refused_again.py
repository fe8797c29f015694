"""A refusal of thousands of nodes is encoded once, until one of its reasons changes; how much is kept is bounded."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm
from algorithm.reasons import Code, FixedReasons, Reason, reason
from extender.scheduling.events import FilterAnswer, FilterRequested, NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.web.verbs.encode import Refusals, encode_filter
from extender.web.verbs.extender_args import FilterArgs

GPU = "example.com/gpu"
POD = Pod(namespace="ns", name="p", uid="u", requests=(("cpu", 1), (GPU, 4)))
BUSY = reason(Code.INSUFFICIENT, resources=["cpu"])


def node(name: str, gpus: int, version: str = "1") -> Node:
    room = (("cpu", 8000), (GPU, gpus), ("pods", 9))
    return Node(name=name, uid=name, resource_version=version, allocatable=room, ready=True)


def offer_of(*names: str, items: bool = False) -> FilterArgs:
    full = [msgspec.Raw(json.dumps({"metadata": {"name": name}}).encode()) for name in names] if items else None
    return FilterArgs(POD, SuggestedNodes(names), full)


class Engine:
    """Two nodes without room for the pod, for different reasons."""

    def __init__(self) -> None:
        self._machine = SchedulerStateMachine(PackingAlgorithm())
        for event in (NodeSeen(node("a", 2)), NodeSeen(node("b", 0)), Synced()):
            self._machine.handle(event, 0.0)

    def see(self, seen: Node) -> None:
        self._machine.handle(NodeSeen(seen), 0.0)

    def filter(self, *names: str, items: bool = False) -> bytes:
        offer = offer_of(*names, items=items)
        answer, *_ = self._machine.handle(FilterRequested(POD, offer.nodes), 0.0)
        assert isinstance(answer, FilterAnswer)
        return encode_filter(answer, offer)


def test_a_pod_that_is_refused_again_gets_the_text_that_was_encoded_before() -> None:
    engine = Engine()
    engine.filter("a", "b", "stranger")
    assert engine.filter("a", "b", "stranger") is engine.filter("stranger", "b", "a")


def refused(answer: bytes) -> dict[str, str]:
    said: dict[str, Any] = json.loads(answer)
    return said["FailedNodes"] | said["FailedAndUnresolvableNodes"]


def test_a_change_of_one_node_changes_the_answer() -> None:
    engine = Engine()
    engine.filter("a", "b", "c")
    before = refused(engine.filter("a", "b", "c"))
    engine.see(node("c", 3))
    after = refused(engine.filter("a", "b", "c"))
    assert before.pop("c") != after.pop("c")
    assert before == after
    engine.see(node("c", 4, "2"))
    assert json.loads(engine.filter("a", "b", "c"))["NodeNames"] == ["c"]


def test_other_nodes_get_an_answer_of_their_own() -> None:
    engine = Engine()
    engine.filter("a", "b", "c")
    engine.filter("a", "b", "c")
    assert set(refused(engine.filter("a", "b", "d"))) == {"a", "b", "d"}


def test_full_nodes_get_an_answer_of_their_own() -> None:
    engine = Engine()
    engine.filter("a", "b", "c")
    engine.filter("a", "b", "c")
    assert json.loads(engine.filter("a", "b", "c", items=True))["Nodes"] == {"metadata": {}, "items": []}


@pytest.mark.parametrize(("most", "kept"), [(10, [False, False]), (30, [False, True]), (40, [True, True])])
def test_the_oldest_texts_are_dropped_beyond_so_many_bytes(most: int, kept: list[bool]) -> None:
    refusals, text = Refusals(most), b"." * 20
    offers = [offer_of("a"), offer_of("b")]
    answers = [FilterAnswer(reason=BUSY, nodes=FixedReasons({name: BUSY})) for name in "ab"]
    for answer, offer in zip(answers, offers, strict=True):
        offer.nodes.as_set()
        refusals.keep(answer, offer, text)
    assert [refusals.find(*each) is not None for each in zip(answers, offers, strict=True)] == kept


def test_nothing_is_kept_of_names_that_nothing_was_compared_with() -> None:
    refusals, offer = Refusals(100), offer_of("a")
    answer = FilterAnswer(reason=BUSY, nodes=FixedReasons({"a": BUSY}))
    refusals.keep(answer, offer, b"text")
    assert refusals.find(answer, offer) is None


def test_an_algorithm_that_changes_its_reasons_in_place_gets_the_answer_of_the_changed_ones() -> None:
    reasons: dict[str, Reason] = {"a": BUSY, "b": BUSY}
    offer = offer_of("a", "b")
    offer.nodes.as_set()
    before = refused(encode_filter(FilterAnswer(reason=BUSY, nodes=reasons), offer))
    reasons["a"] = reason(Code.INSUFFICIENT, resources=["memory"])
    after = refused(encode_filter(FilterAnswer(reason=BUSY, nodes=reasons), offer))
    assert before["a"] != after["a"]
    assert before["b"] == after["b"]
