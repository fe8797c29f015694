"""The contract's own parts: offered nodes as a sequence, results, and what an algorithm must and need not have."""

from __future__ import annotations

from typing import Any

import pytest

from algorithm.interface import (
    Bind,
    Phase,
    PodRefused,
    Preempt,
    SchedulerAlgorithm,
    SuggestedNodes,
    Victim,
    Wait,
)
from algorithm.model import Pod
from algorithm.reasons import Code, reason

REQUIRED = {
    "add_node",
    "update_node",
    "delete_node",
    "add_unallocated_pod",
    "delete_unallocated_pod",
    "add_allocated_pod",
    "delete_allocated_pod",
    "schedule",
}


def algorithm_with(methods: set[str]) -> type[SchedulerAlgorithm]:
    def nothing(self: Any, *args: Any) -> None:
        """Stands for a method of the author's."""

    return type("Mine", (SchedulerAlgorithm,), dict.fromkeys(methods, nothing))


def test_suggested_nodes_keep_the_order_of_the_caller() -> None:
    nodes = SuggestedNodes(["n3", "n1", "n2"])
    assert list(nodes) == ["n3", "n1", "n2"]
    assert (nodes[0], nodes[-1], nodes[1:]) == ("n3", "n2", ("n1", "n2"))
    assert len(nodes) == 3


def test_suggested_nodes_know_whether_a_name_was_offered() -> None:
    nodes = SuggestedNodes(["n1", "n2"])
    assert "n1" in nodes
    assert "n" not in nodes
    assert None not in nodes
    assert nodes.as_set() == {"n1", "n2"}


def test_the_set_of_suggested_nodes_is_made_once() -> None:
    nodes = SuggestedNodes(["n1"])
    assert nodes.as_set() is nodes.as_set()


def test_offers_of_the_same_names_in_another_order_come_to_have_one_set() -> None:
    first, second = SuggestedNodes(["n1", "n2"]), SuggestedNodes(["n2", "n1"])
    assert second.are(first.as_set())
    assert second.as_set() is first.as_set()


@pytest.mark.parametrize("names", [["n1"], ["n1", "n3"], ["n1", "n2", "n3"], ["n3", "n4"], []])
def test_offers_of_other_names_keep_their_own_set(names: list[str]) -> None:
    first, second = SuggestedNodes(["n1", "n2"]), SuggestedNodes(names)
    assert not second.are(first.as_set())
    assert second.as_set() == set(names)


def test_a_name_that_was_found_is_found_again_and_no_other() -> None:
    nodes = SuggestedNodes(["n1", "n2"])
    assert ["n1" in nodes, "n1" in nodes, "n3" in nodes, "n2" in nodes] == [True, True, False, True]


def test_suggested_nodes_do_not_change_with_the_list_they_were_made_from() -> None:
    names = ["n1"]
    nodes = SuggestedNodes(names)
    names.append("n2")
    assert list(nodes) == ["n1"]
    assert "n2" not in nodes


def test_no_offered_node_is_false_as_an_empty_sequence_is() -> None:
    assert not SuggestedNodes()
    assert SuggestedNodes(["n1"])


def test_a_name_offered_twice_is_no_other_one() -> None:
    known = SuggestedNodes(["a", "b"]).as_set()
    assert not SuggestedNodes(["a", "a"]).are(known)
    assert SuggestedNodes(["a", "b", "a"]).are(known)


def test_a_name_offered_twice_stays_twice() -> None:
    nodes = SuggestedNodes(["n1", "n1"])
    assert len(nodes) == 2
    assert nodes.as_set() == {"n1"}


def test_suggested_nodes_are_equal_by_names_and_order() -> None:
    assert SuggestedNodes(["a", "b"]) == SuggestedNodes(("a", "b"))
    assert hash(SuggestedNodes(["a", "b"])) == hash(SuggestedNodes(("a", "b")))
    assert SuggestedNodes(["a", "b"]) != SuggestedNodes(["b", "a"])
    assert SuggestedNodes(["a"]) != ["a"]


def test_a_long_offer_is_shown_in_short() -> None:
    assert repr(SuggestedNodes(["a", "b"])) == "SuggestedNodes(2: a, b)"
    assert repr(SuggestedNodes(map(str, range(1000)))) == "SuggestedNodes(1000: 0, 1, 2, 3, 4, ...)"


@pytest.mark.parametrize("missing", sorted(REQUIRED))
def test_an_algorithm_that_lacks_a_method_cannot_be_made(missing: str) -> None:
    with pytest.raises(TypeError, match=missing):
        algorithm_with(REQUIRED - {missing})()


def test_no_other_method_is_required() -> None:
    mine = algorithm_with(REQUIRED)()
    pod = Pod(namespace="ns", name="a")
    assert mine.prioritize(pod, SuggestedNodes(["n1"])) == {}
    assert mine.inspect() == {}
    mine.update_allocated_pod(pod, pod)
    mine.add_preempting_pod(pod, (), "")
    mine.delete_preempting_pod(pod)


def test_an_algorithm_that_cannot_be_copied_says_so_by_its_name() -> None:
    with pytest.raises(NotImplementedError, match="Mine does not support what-if"):
        algorithm_with(REQUIRED)().fork()


def test_results_are_records_that_compare_by_value_and_cannot_be_changed() -> None:
    full = reason(Code.NO_NODE_FITS)
    results = [Bind("n1"), Preempt((Victim("n1", "u1"),), full), Wait(full)]
    assert results == [Bind("n1", ()), Preempt((Victim("n1", "u1"),), full), Wait(full, {})]
    for result in results:
        with pytest.raises(AttributeError):
            result.reason = None  # type: ignore[union-attr]


def test_victims_sort_by_node_and_uid() -> None:
    assert sorted([Victim("b", "1"), Victim("a", "2"), Victim("a", "1")]) == [
        Victim("a", "1"),
        Victim("a", "2"),
        Victim("b", "1"),
    ]


def test_a_refused_pod_carries_its_reason() -> None:
    why = reason(Code.POD_INVALID, detail="spec.priority must not be negative")
    assert PodRefused(why).reason is why
    assert str(PodRefused(why)) == "pod cannot be scheduled as declared: spec.priority must not be negative"


def test_phases_are_spelled_as_in_the_interface() -> None:
    assert [phase.value for phase in Phase] == ["Filtering", "Preempting", "Evicting"]
