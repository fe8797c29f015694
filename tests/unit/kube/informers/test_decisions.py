"""What decisions on pods may take in memory: one namespace's texts do not fill the room of the others."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import structlog

from algorithm.decisions import decision, is_shortened
from algorithm.hived import BIND_INFO
from algorithm.hived.state.lazy_preemption import LAZILY_PREEMPTED
from algorithm.model import Pod
from algorithm.registry import gang_texts, reads
from extender.kube.informers.decisions import SHORT, Decisions
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import Resource, pods_read_by
from extender.kube.informers.room import MemoryBudget
from extender.kube.informers.store import Store, weigh
from extender.scheduling.policy import Policy
from extender.scheduling.reads import reads_for

NODES = 50


def plan(own: int, *, pods: int, salt: str = "") -> str:
    """The text on a pod of a gang; `salt` makes its common part different."""
    places = "".join(
        f"  - physicalNode: node-{number}{salt}\n    physicalLeafCellIndices:\n    - 0\n    - 1\n"
        f"    preassignedCellTypes:\n    - box\n    - box\n"
        for number in range(pods)
    )
    head = f"node: node-{own}{salt}\nleafCellIsolation:\n- 0\n- 1\ncellChain: rack\n"
    return f"{head}affinityGroupBindInfo:\n- podPlacements:\n{places}"


def bound(name: str, text: str, *, namespace: str = "ns", annotation: str = BIND_INFO) -> Pod:
    return Pod(
        namespace=namespace,
        name=name,
        uid=f"{namespace}-{name}",
        resource_version="1",
        node_name="node-0",
        annotations=((annotation, text),),
    )


@pytest.fixture
def decisions() -> Decisions:
    return Decisions(reads("hived").decisions, gang_texts("hived"), MemoryBudget(1024, lambda: NODES).for_decisions())


def fill(decisions: Decisions, namespace: str, *, pods: int = 60) -> list[Pod]:
    """Every one with another quarter of a megabyte."""
    texts = (plan(0, pods=1900, salt=f"x{number}") for number in range(pods))
    return [decisions.keep(bound(f"p{number}", text, namespace=namespace)) for number, text in enumerate(texts)]


def test_the_plan_of_a_gang_is_in_memory_once(decisions: Decisions) -> None:
    texts = [plan(number, pods=100) for number in range(100)]
    kept = [decisions.keep(bound(f"p{number}", text)) for number, text in enumerate(texts)]
    assert [decision(pod, BIND_INFO) for pod in kept] == texts
    assert len({id(text) for pod in kept for _, text in pod.annotations if len(text) > SHORT}) == 1
    assert len(texts[0]) < decisions.weight < 10 * len(texts[0])
    assert decisions.shortened == 0


def test_short_texts_are_kept_as_they_are(decisions: Decisions) -> None:
    pod = bound("p", plan(0, pods=2))
    assert decisions.keep(pod) is pod
    assert decisions.as_kept(pod) is pod
    assert decisions.weight == 0


def test_what_a_namespace_has_too_much_of_is_shortened_to_the_devices_of_each_pod(decisions: Decisions) -> None:
    for pod in fill(decisions, "ns"):
        assert decision(pod, BIND_INFO).startswith("node: node-0x")
        assert decision(pod, BIND_INFO).count("physicalNode") == 1
        assert is_shortened(pod, BIND_INFO)
    assert decisions.shortened == 60


def test_one_namespace_pays_for_itself(decisions: Decisions) -> None:
    fill(decisions, "ns")
    text = plan(3, pods=100)
    kept = decisions.keep(bound("p", text, namespace="other"))
    assert decision(kept, BIND_INFO) == text
    assert not is_shortened(kept, BIND_INFO)


def test_all_namespaces_together_have_a_bound(decisions: Decisions) -> None:
    most = MemoryBudget(1024, lambda: NODES).for_decisions().total()
    for number in range(100):
        decisions.keep(bound("p", "," * 50_000, namespace=f"ns-{number}", annotation=LAZILY_PREEMPTED))
    assert 0 < decisions.weight <= most
    assert decisions.shortened > 0


@pytest.mark.parametrize("annotation", [LAZILY_PREEMPTED, "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"])
def test_any_other_decision_is_emptied_where_there_is_no_room(decisions: Decisions, annotation: str) -> None:
    texts = [str(number) * 50_000 for number in range(100)]
    kept = [decisions.keep(bound(text[:2], text, annotation=annotation)) for text in texts]
    found = [decision(pod, annotation) for pod in kept]
    assert {*found} <= {"", *texts}
    assert found.count("") > 10
    assert decisions.weight <= 8 * (512 + 8 * NODES) * 1024


def test_pods_that_are_gone_count_no_more(decisions: Decisions) -> None:
    texts = [plan(0, pods=400, salt=f"x{number}") for number in range(20)]
    for number, text in enumerate(texts):
        decisions.keep(bound(f"p{number}", text))
    shortened = decisions.shortened
    assert 0 < shortened < 20
    for number in range(20 - shortened):
        decisions.forget(f"ns-p{number}")
    assert decisions.weight == 0
    assert not is_shortened(decisions.keep(bound("p19", texts[19])), BIND_INFO)
    assert decisions.shortened == shortened - 1
    decisions.forget_others({"ns-p18"})
    assert (decisions.weight, decisions.shortened) == (0, 1)


def test_a_pod_that_is_shown_again_counts_once(decisions: Decisions) -> None:
    first = decisions.keep(bound("p", plan(0, pods=100)))
    weight = decisions.weight
    assert decisions.keep(bound("p", plan(0, pods=100))) == first
    assert decisions.weight == weight
    decisions.keep(bound("p", plan(0, pods=2)))
    assert decisions.weight == 0


def test_pods_that_have_ended_keep_no_room_and_are_not_spoken_of(decisions: Decisions) -> None:
    running = bound("p", plan(0, pods=100))
    decisions.keep(running)
    ended = decisions.keep(msgspec.structs.replace(running, phase="Succeeded"))
    assert is_shortened(ended, BIND_INFO)
    assert (decisions.weight, decisions.shortened) == (0, 0)


def test_another_reader_has_the_same_record_and_counts_nothing(decisions: Decisions) -> None:
    kept = [*fill(decisions, "ns", pods=5), decisions.keep(bound("q", plan(0, pods=50)))]
    weight = decisions.weight
    again = [plan(0, pods=1900, salt=f"x{number}") for number in range(5)] + [plan(0, pods=50)]
    names = [pod.name for pod in kept]
    assert [decisions.as_kept(bound(name, text)) for name, text in zip(names, again, strict=True)] == kept
    assert decisions.weight == weight


def test_a_namespace_is_told_about_once_and_shown_as_long_as_it_has_too_much(decisions: Decisions) -> None:
    with structlog.testing.capture_logs() as logged:
        fill(decisions, "greedy", pods=5)
    assert [(line["namespace"], line["first"]) for line in logged] == [("greedy", "p0")]
    assert decisions.readiness_warning().endswith("greedy (5)")
    decisions.forget_others(())
    assert decisions.readiness_warning() == ""


def pods(decisions: Decisions) -> Resource[Pod]:
    return pods_read_by(PodReader(reads_for(reads("hived"), Policy()), decisions), informer=True)


def raw(text: str, name: str) -> bytes:
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
    return json.dumps({"metadata": {**meta, "annotations": {BIND_INFO: text}}, "spec": {"nodeName": "n"}}).encode()


@pytest.mark.slow
def test_600_pods_of_250_kilobytes_do_not_fill_the_room_for_pods(decisions: Decisions) -> None:
    resource = pods(decisions)
    store = Store(resource.key, resource.same, resource.weigh, resource.forget)
    for number in range(600):
        pod = resource.keep(resource.decode(raw(plan(0, pods=1900, salt=f"x{number}"), f"p{number}")))
        assert list(store.seen(pod))
    assert store.weight + decisions.weight < 0.02 * MemoryBudget(1024, lambda: NODES).for_pods()
    for pod in store.records():
        assert list(store.gone(pod))
    assert (store.weight, decisions.weight, decisions.shortened) == (0, 0, 0)


def test_what_is_weighed_does_not_depend_on_what_else_is_known(decisions: Decisions) -> None:
    resource = pods(decisions)
    kept = decisions.keep(bound("p", plan(0, pods=100)))
    weight = resource.weigh(kept)
    decisions.forget(kept.uid)
    assert resource.weigh(kept) == weight < weigh(bound("p", "")) + SHORT
