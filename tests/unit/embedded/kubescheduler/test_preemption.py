"""Preemption: the dry run, what extenders may answer (hardly checked), and the choice of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from extender.embedded.kubescheduler.cluster import Cluster
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.cycle import Rejected, SchedulingCycle
from extender.embedded.kubescheduler.extenders import MetaVictims, Victims
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.embedded.kubescheduler.preemption import NotPreempted, Preempted, Preemption, pick_one_node
from tests.support.kubescheduler.objects import ScriptedExtender, a_node, a_pod, fail, refuse

NO_CLAIMS = "no new claims to deallocate, preemption: "


def tried(
    pod: SchedPod, nodes: Sequence[SchedNode], pods: Sequence[SchedPod], *extenders: ScriptedExtender
) -> Preempted | NotPreempted:
    cluster = Cluster()
    for node in nodes:
        cluster.set_node(node)
    for other in pods:
        cluster.set_bound(other)
    config = SchedulerConfig(extenders=[extender.config for extender in extenders])
    found = SchedulingCycle(config, cluster, extenders, random=Random(1)).schedule(pod)
    assert isinstance(found, Rejected)
    return Preemption(config, cluster, extenders, random=Random(1)).post_filter(pod, found.diagnosis)


def victims_of(result: Preempted | NotPreempted) -> tuple[str, set[str]]:
    assert isinstance(result, Preempted), result
    return result.node, {victim.key.name for victim in result.victims}


def preemptor(cpu: str = "2", **given: Any) -> SchedPod:
    return a_pod("hi", cpu=cpu, priority=1000, **given)


def low(name: str, node: str = "a", cpu: str = "2", **given: Any) -> SchedPod:
    return a_pod(name, node=node, cpu=cpu, **given)


TWO = [a_node("a"), a_node("b")]
FULL = [low("a1"), low("a2"), low("b1", "b", priority=2), low("b2", "b", priority=1)]


# -- in-tree -------------------------------------------------------------------------------------------------


def test_as_many_as_fit_are_put_back_the_most_important_first():
    pods = [low("important", cpu="1", priority=9), low("young", cpu="1", status={"startTime": "2026-01-02T00:00:00Z"})]
    pods.append(low("old", cpu="2", status={"startTime": "2026-01-01T00:00:00Z"}))
    assert victims_of(tried(preemptor("1"), [a_node("a")], pods)) == ("a", {"young"})


def test_pods_of_the_same_or_higher_priority_are_never_victims():
    pods = [low("same", priority=1000, cpu="3"), low("lower", priority=1, cpu="1")]
    result = tried(preemptor("2"), [a_node("a")], pods)
    text = "0/1 nodes are available: 1 Insufficient cpu."
    assert result == NotPreempted(NO_CLAIMS + text, clear_nomination=True)


def test_nodes_that_are_refused_for_good_are_not_examined():
    nodes = [a_node("small", cpu="1"), a_node("cordoned", spec={"unschedulable": True}), a_node("a")]
    pods = [low("x", "cordoned", "4"), low("y", "a", "4", priority=2000)]
    result = tried(preemptor(), nodes, pods)
    reasons = "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    text = f"0/3 nodes are available: {reasons}"
    assert result == NotPreempted(NO_CLAIMS + text, clear_nomination=True)


def test_a_pod_that_may_not_preempt_does_not():
    result = tried(preemptor(spec={"preemptionPolicy": "Never"}), TWO, FULL)
    assert result == NotPreempted(NO_CLAIMS + "not eligible due to preemptionPolicy=Never.")


def test_while_a_victim_terminates_on_the_nominated_node_nobody_else_is_evicted():
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    going = low("a1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status={"conditions": [condition]})
    result = tried(preemptor(status={"nominatedNodeName": "a"}), TWO, [going, *FULL[1:]])
    text = "not eligible due to a terminating pod on the nominated node."
    assert result == NotPreempted(NO_CLAIMS + text)


def test_the_node_whose_victims_matter_least_is_chosen():
    assert victims_of(tried(preemptor("4"), TWO, FULL)) == ("a", {"a1", "a2"})


def test_more_important_victims_come_first():
    since = [f"2026-01-0{day}T00:00:00Z" for day in (2, 1)]
    started = [low(f"s{day}", cpu="1", status={"startTime": since[day]}) for day in (0, 1)]
    pods = [low("pending-1", cpu="1"), low("pending-2", cpu="1"), *started]
    result = tried(preemptor("4"), [a_node("a")], pods)
    assert isinstance(result, Preempted)
    names = [victim.key.name for victim in result.victims]
    assert names == ["s1", "s0", "pending-2", "pending-1"], "those that have not started are turned round"


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        ({"a": Victims((low("1"),), 1), "b": Victims((low("2", priority=9),), 0)}, "b"),
        ({"a": Victims((low("1", priority=5),)), "b": Victims((low("2", priority=4), low("3", priority=4)))}, "b"),
        ({"a": Victims((low("1", priority=5), low("2", priority=5))), "b": Victims((low("3", priority=5),))}, "b"),
        (
            {
                "a": Victims((low("1", status={"startTime": "2026-01-01T00:00:00Z"}),)),
                "b": Victims((low("2", status={"startTime": "2026-01-02T00:00:00Z"}),)),
            },
            "b",
        ),
    ],
)
def test_the_order_of_the_choice(candidates: dict[str, Victims], best: str):
    assert pick_one_node(candidates, Random(0)) == best


# -- when the extender is asked ------------------------------------------------------------------------------


def test_candidates_are_sent_without_any_filter_call():
    extender = ScriptedExtender(filter_verb="filter", preempt_verb="preempt")
    victims_of(tried(preemptor("4"), TWO, FULL, extender))
    assert extender.asked == [("preempt", "hi", ["a", "b"])]


@pytest.mark.parametrize("config", [{}, {"preempt_verb": "p", "managed_resources": [{"name": "example.com/gpu"}]}])
def test_an_extender_without_the_verb_or_interest_is_not_asked(config: dict[str, Any]):
    extender = ScriptedExtender(**config)
    victims_of(tried(preemptor(), TWO, FULL, extender))
    assert extender.asked == []


def test_shortage_only_in_the_extenders_books_never_leads_to_a_preempt_call():
    extender = ScriptedExtender(filter_verb="filter", preempt_verb="preempt")
    extender.on_filter = refuse("no free cells")
    result = tried(preemptor("1"), [a_node("a")], [low("v", cpu="1")], extender)
    assert result == NotPreempted('preemption: expected at least one victim pod on node "a"')
    result = tried(preemptor("1"), [a_node("a")], [], extender)
    text = "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert result == NotPreempted(NO_CLAIMS + text, clear_nomination=True)
    assert [asked[0] for asked in extender.asked] == ["filter", "filter"]


def test_unresolvable_nodes_of_the_extender_are_not_examined():
    extender = ScriptedExtender(filter_verb="filter", preempt_verb="preempt")
    extender.on_filter = refuse("no", unresolvable=True)
    result = tried(preemptor("1"), [a_node("a")], [low("v", cpu="1")], extender)
    text = "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert result == NotPreempted(NO_CLAIMS + text, clear_nomination=True)


# -- what it may answer --------------------------------------------------------------------------------------

Answer = Callable[[Mapping[str, Victims]], dict[str, MetaVictims]]


def answered(answer: Answer, *, ignorable: bool = False) -> Preempted | NotPreempted:
    extender = ScriptedExtender(preempt_verb="preempt", ignorable=ignorable)
    extender.on_preempt = answer
    nodes = [*TWO, a_node("c", cpu="1")]
    pods = [*FULL, low("critical", "c", "1", priority=2_000_001_000)]
    return tried(preemptor("4"), nodes, pods, extender)


def meta(**victims: list[str]) -> Answer:
    return lambda _: {node: MetaVictims(tuple(f"uid-{name}" for name in names)) for node, names in victims.items()}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (meta(b=["b1", "b2"]), ("b", {"b1", "b2"})),
        (meta(b=["b1"]), ("b", {"b1"})),
        (meta(c=["critical"]), ("c", {"critical"})),
    ],
    ids=["subset of nodes", "fewer victims than needed", "a node not asked for, with a victim of higher priority"],
)
def test_what_is_accepted(answer: Answer, expected: object):
    assert victims_of(answered(answer)) == expected


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (meta(), NO_CLAIMS + "no candidate node for preemption"),
        (meta(zzz=["a1"]), 'preemption: nodeinfo not found for node name "zzz"'),
        (
            meta(a=["b1"]),
            "preemption: extender: http://scripted claims to preempt pod (UID: &{uid-b1}) on node: a, "
            "but the pod is not found on that node",
        ),
        (meta(a=[]), 'preemption: expected at least one victim pod on node "a"'),
        (fail("failed preempt"), "preemption: failed preempt"),
    ],
)
def test_what_fails_ends_in_the_message(answer: Answer, text: str):
    assert answered(answer) == NotPreempted(text)


def test_an_ignorable_extender_that_fails_was_never_asked():
    assert victims_of(answered(fail(), ignorable=True)) == ("a", {"a1", "a2"})


def test_an_ignorable_extender_may_name_nodes_without_victims():
    assert victims_of(answered(meta(a=[], b=["b1"]), ignorable=True)) == ("b", {"b1"})


def test_extenders_are_chained():
    first, second = (ScriptedExtender(preempt_verb="preempt") for _ in range(2))
    first.on_preempt = meta(b=["b1"])
    assert victims_of(tried(preemptor("4"), TWO, FULL, first, second)) == ("b", {"b1"})
    assert second.asked == [("preempt", "hi", ["b"])]


def test_violations_in_the_answer_count_in_the_choice():
    result = answered(lambda _: {"a": MetaVictims(("uid-a1",), 3), "b": MetaVictims(("uid-b1",), 2)})
    assert victims_of(result)[0] == "b"
