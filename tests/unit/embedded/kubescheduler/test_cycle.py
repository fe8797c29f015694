"""One scheduling cycle with scripted extenders: who is asked what, and where the pod goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from extender.embedded.kubescheduler.cluster import Cluster
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.cycle import (
    Chosen,
    NoNodes,
    Rejected,
    SchedulingCycle,
    feasible_nodes_to_find,
)
from extender.embedded.kubescheduler.diagnosis import fit_error
from extender.embedded.kubescheduler.extenders import ExtenderError, FilterResult
from extender.embedded.kubescheduler.filters import Refusal
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from tests.support.kubescheduler.objects import ScriptedExtender, a_node, a_pod, fail, refuse


def cycle(
    nodes: Sequence[SchedNode], *extenders: ScriptedExtender, pods: Sequence[SchedPod] = (), **config: Any
) -> SchedulingCycle:
    cluster = Cluster()
    for node in nodes:
        cluster.set_node(node)
    for pod in pods:
        cluster.set_bound(pod)
    configuration = SchedulerConfig(extenders=[extender.config for extender in extenders], **config)
    return SchedulingCycle(configuration, cluster, extenders, random=Random(1))


def nodes(*names: str, **given: Any) -> list[SchedNode]:
    return [a_node(name, **given) for name in names]


def rejected(found: Chosen | Rejected) -> Rejected:
    assert isinstance(found, Rejected)
    return found


# -- the sample ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "percentage", "expected"),
    [
        (0, 0, 0),
        (4, 0, 4),
        (99, 0, 99),
        (100, 0, 100),
        (150, 0, 100),
        (400, 0, 188),
        (1000, 0, 420),
        (5000, 0, 500),
        (10000, 0, 500),
        (1000, 100, 1000),
        (1000, 10, 100),
        (1000, 50, 500),
    ],
)
def test_how_many_feasible_nodes_are_enough(count: int, percentage: int, expected: int):
    assert feasible_nodes_to_find(count, percentage) == expected


def test_the_extender_gets_a_sample_that_rotates_from_attempt_to_attempt():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = refuse()
    tried = cycle([a_node(f"n{i}") for i in range(150)], extender)
    for _ in range(3):
        tried.schedule(a_pod("p"))
    first, second, third = [asked[2] for asked in extender.asked]
    assert len(first) == len(second) == len(third) == 100
    assert second[:50] == [f"n{i}" for i in range(100, 150)]
    assert set(first) | set(second) == {f"n{i}" for i in range(150)}


def test_a_pod_whose_affinity_names_its_node_is_only_offered_that():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = refuse()
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = a_pod("p", spec={"affinity": {"nodeAffinity": required}})
    found = rejected(cycle(nodes("a", "b", "c"), extender).schedule(pod))
    assert extender.asked == [("filter", "p", ["b"])]
    assert (
        found.diagnosis.text() == "0/3 nodes are available: 1 busy, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


# -- filter --------------------------------------------------------------------------------------------------


def test_only_nodes_that_pass_in_tree_are_offered():
    extender = ScriptedExtender(filter_verb="filter")
    some = [a_node("small", cpu="1"), a_node("big"), a_node("cordoned", spec={"unschedulable": True})]
    assert cycle(some, extender).schedule(a_pod("p", cpu="2")) == Chosen("big")
    assert extender.asked == [("filter", "p", ["big"])]


def test_the_extender_is_not_called_if_no_node_passes_in_tree():
    extender = ScriptedExtender(filter_verb="filter")
    found = rejected(cycle(nodes("a", "b", cpu="1"), extender).schedule(a_pod("p", cpu="2")))
    assert extender.asked == []
    assert found.diagnosis.text() == "0/2 nodes are available: 2 Insufficient cpu."
    assert found.diagnosis.rejecters == {"NodeResourcesFit"}


def test_reasons_are_counted_grouped_and_sorted():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult((), None, {"a": "busy", "b": "busy"}, {"c": "dead"})
    some = [*nodes("a", "b", "c"), a_node("t", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})]
    found = rejected(cycle(some, extender).schedule(a_pod("p")))
    text = "0/4 nodes are available: 1 dead, 1 node(s) had untolerated taint(s), 2 busy."
    assert found.diagnosis.text() == text
    assert found.diagnosis.rejecters == {"Extender", "TaintToleration"}
    assert {name: refusal.resolvable for name, refusal in found.diagnosis.refusals.items()} == {
        "a": True,
        "b": True,
        "c": False,
        "t": False,
    }


def test_no_nodes_and_no_reasons_leave_no_word_about_the_extender():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult(())
    found = rejected(cycle(nodes("a", "b"), extender).schedule(a_pod("p")))
    assert found.diagnosis.text() == "0/2 nodes are available:"
    assert found.diagnosis.refusals == {}
    assert found.diagnosis.rejecters == {"Extender"}


def test_a_reason_for_what_is_no_node_is_counted_like_a_node():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult((), None, {"hived": "waiting for its group"})
    found = rejected(cycle(nodes("a"), extender).schedule(a_pod("p")))
    assert found.diagnosis.text() == "0/1 nodes are available: 1 waiting for its group."


def test_a_node_that_is_left_and_failed_is_left():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult(("a",), None, {"a": "no", "b": "no"})
    assert cycle(nodes("a", "b"), extender).schedule(a_pod("p")) == Chosen("a")


def test_extenders_are_asked_one_after_the_other_about_what_is_left():
    first, second, third = (ScriptedExtender(filter_verb="filter") for _ in range(3))
    first.on_filter = lambda pod, names: FilterResult(("a", "b"))
    second.on_filter = lambda pod, names: FilterResult((), None, dict.fromkeys(names, "no"))
    rejected(cycle(nodes("a", "b", "c"), first, second, third).schedule(a_pod("p")))
    assert second.asked == [("filter", "p", ["a", "b"])]
    assert third.asked == []


def test_a_failing_extender_fails_the_pod_with_its_text():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = fail("no way")
    with pytest.raises(ExtenderError, match=r"^no way$"):
        cycle(nodes("a"), extender).schedule(a_pod("p"))


def test_a_failing_ignorable_extender_passes_everything():
    extender = ScriptedExtender(filter_verb="filter", ignorable=True)
    extender.on_filter = fail()
    assert cycle(nodes("a"), extender).schedule(a_pod("p")) == Chosen("a")


def test_pods_without_the_managed_resource_pass_by():
    extender = ScriptedExtender(filter_verb="filter", managed_resources=[{"name": "example.com/gpu"}])
    tried = cycle(nodes("a", more={"example.com/gpu": "4"}), extender)
    tried.schedule(a_pod("plain"))
    tried.schedule(a_pod("gpu", requests={"example.com/gpu": "1"}))
    assert extender.asked == [("filter", "gpu", ["a"])]


def test_a_managed_resource_that_the_scheduler_ignores_is_not_checked_in_tree():
    resource = {"name": "example.com/gpu", "ignored_by_scheduler": True}
    extender = ScriptedExtender(filter_verb="filter", managed_resources=[resource])
    assert cycle(nodes("a"), extender).schedule(a_pod("p", requests={"example.com/gpu": "9"})) == Chosen("a")


def test_without_nodes_there_is_nothing_to_do():
    with pytest.raises(NoNodes, match="no nodes available to schedule pods"):
        cycle([]).schedule(a_pod("p"))


def test_nodes_of_an_answer_in_nodes_mode_are_taken_unchecked():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult((), (a_node("zzz"),))
    assert cycle(nodes("a"), extender).schedule(a_pod("p")) == Chosen("zzz")


# -- the nominated node --------------------------------------------------------------------------------------


def test_the_nominated_node_is_asked_about_first_and_alone():
    extender = ScriptedExtender(filter_verb="filter")
    pod = a_pod("p", status={"nominatedNodeName": "b"})
    assert cycle(nodes("a", "b"), extender).schedule(pod) == Chosen("b")
    assert extender.asked == [("filter", "p", ["b"])]


def test_a_refused_nominated_node_is_in_the_normal_list_again():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult(() if names == ["b"] else ("a",))
    pod = a_pod("p", status={"nominatedNodeName": "b"})
    assert cycle(nodes("a", "b"), extender).schedule(pod) == Chosen("a")
    assert [asked[2] for asked in extender.asked] == [["b"], ["a", "b"]]


def test_an_error_about_the_nominated_node_only_means_that_it_is_not_taken():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: (fail() if names == ["b"] else refuse())(pod, names)
    rejected(cycle(nodes("a", "b"), extender).schedule(a_pod("p", status={"nominatedNodeName": "b"})))
    assert len(extender.asked) == 2


# -- prioritize ----------------------------------------------------------------------------------------------


def test_prioritize_is_skipped_when_one_node_is_left():
    extender = ScriptedExtender(prioritize_verb="prioritize", weight=1)
    cycle(nodes("a"), extender).schedule(a_pod("p"))
    assert extender.asked == []


def test_extender_scores_weigh_ten_times_their_weight():
    extender = ScriptedExtender(prioritize_verb="prioritize", weight=1)
    extender.on_prioritize = lambda names: [("full", 6), ("zzz", 10)]
    some = [a_node("full", cpu="2"), a_node("empty", cpu="2")]
    there = [a_pod("there", node="full", cpu="1")]  # half of cpu: 25 points less than the empty node
    assert cycle(some, extender, pods=there).schedule(a_pod("p")) == Chosen("full")
    extender.on_prioritize = lambda names: [("full", 2)]
    assert cycle(some, extender, pods=there).schedule(a_pod("p")) == Chosen("empty")


def test_scores_are_not_clamped_and_a_host_named_twice_counts_twice():
    first, second = (ScriptedExtender(prioritize_verb="prioritize", weight=1) for _ in range(2))
    first.on_prioritize = lambda names: [("a", -1000), ("b", -600), ("b", -600)]
    second.on_prioritize = lambda names: [("c", -2000)]
    assert cycle(nodes("a", "b", "c"), first, second).schedule(a_pod("p")) == Chosen("a")


def test_a_failing_prioritize_drops_its_scores_without_a_word():
    extender = ScriptedExtender(prioritize_verb="prioritize", weight=1)
    extender.on_prioritize = fail()
    assert isinstance(cycle(nodes("a", "b"), extender).schedule(a_pod("p")), Chosen)


def test_ties_are_broken_at_random_but_the_same_for_the_same_seed():
    names = [f"n{i}" for i in range(20)]
    chosen = [cycle(nodes(*names)).schedule(a_pod("p")) for _ in range(2)]
    assert chosen[0] == chosen[1]
    tried = cycle(nodes(*names))
    assert len({tried.schedule(a_pod("p")) for _ in range(20)}) > 1


def test_nodes_returned_in_nodes_mode_are_scored_as_if_they_were_empty():
    full, other = a_node("full", cpu="2"), a_node("other", cpu="2")
    there = [a_pod("there", node="full", cpu="1900m")]
    plain = cycle([full, other], pods=there)
    assert {plain.schedule(a_pod("p")) for _ in range(10)} == {Chosen("other")}
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = lambda pod, names: FilterResult((), (full, other))
    in_nodes_mode = cycle([full, other], extender, pods=there)
    assert {in_nodes_mode.schedule(a_pod("p")) for _ in range(20)} == {Chosen("full"), Chosen("other")}


# -- texts ---------------------------------------------------------------------------------------------------


def test_nodes_without_a_refusal_are_counted_under_the_reason_for_absent_ones():
    refusals = [Refusal("x", ("one", "two")), Refusal("x", ("two",))]
    assert fit_error(5, Counter(refusals), "absent") == "0/5 nodes are available: 1 one, 2 two, 3 absent."
    assert fit_error(2, {}, "") == "0/2 nodes are available:"
