"""One reader makes all records of pods, and keeps what algorithm and server read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from algorithm.model import Node, Pod
from algorithm.reads import NATIVE, Reads
from algorithm.registry import reads
from extender.core.policy import Policy
from extender.core.preemption import ANNOTATION
from extender.kube.podreader import PodReader, reads_for
from extender.kube.reflection import nodes_read_by

GPU = "nvidia.com/gpu"


def reader(algorithm: str = "packing", policy: Policy | None = None) -> PodReader:
    return PodReader(reads_for(reads(algorithm), policy or Policy()))


def read(reader: PodReader, annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    return reader.pod(json.dumps({"metadata": {"name": "a", "annotations": annotations}, "spec": spec}).encode())


@pytest.mark.parametrize(
    ("algorithm", "wishes"),
    [
        ("packing", {"waggle.dev/gang", "waggle.dev/gang-min"}),
        ("hived", {"hivedscheduler.microsoft.com/pod-scheduling-spec", "waggle.dev/gang"}),
    ],
)
def test_wishes_of_the_algorithm_and_the_server_are_kept(algorithm: str, wishes: set[str]) -> None:
    given = dict.fromkeys([*wishes, ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration"], "text")
    assert dict(read(reader(algorithm), given).annotations) == dict.fromkeys([*wishes, ANNOTATION], "text")


@pytest.mark.parametrize(
    ("algorithm", "decisions"),
    [
        ("packing", ["waggle.dev/gang-plan"]),
        (
            "hived",
            [
                "hivedscheduler.microsoft.com/pod-bind-info",
                "hivedscheduler.microsoft.com/pod-leaf-cell-isolation",
                "waggle.dev/hived-lazily-preempted",
                "waggle.dev/hived-order",
            ],
        ),
    ],
)
def test_decisions_are_kept_on_pods_that_have_a_node(algorithm: str, decisions: list[str]) -> None:
    given = dict.fromkeys(decisions, "text")
    assert dict(read(reader(algorithm), given, nodeName="n").annotations) == given
    assert dict(read(reader(algorithm), given).annotations) == dict.fromkeys(decisions, "")


def test_of_the_annotation_that_makes_a_pod_ours_only_its_presence_is_kept() -> None:
    policy = Policy(annotation="team.example.com/mine")
    pod = read(reader(policy=policy), {"team.example.com/mine": "x" * 100_000})
    assert (dict(pod.annotations), policy.ours(pod)) == ({"team.example.com/mine": ""}, True)


@pytest.mark.parametrize(("algorithm", "kept"), [("packing", ()), ("hived", (("anything", "text"),))])
def test_annotations_of_nodes_are_kept_if_the_algorithm_reads_any(algorithm: str, kept: Any) -> None:
    known = reader(algorithm)
    raw = json.dumps({"metadata": {"name": "n", "annotations": {"anything": "text"}}}).encode()
    assert known.node(raw).annotations == kept
    assert nodes_read_by(known).decode_event(b'{"type": "ADDED", "object": %s}' % raw)[1].annotations == kept


def test_named_annotations_of_nodes_are_kept() -> None:
    known = PodReader(reads_for(Reads(of_nodes=frozenset({"a"})), Policy()))
    raw = json.dumps({"metadata": {"name": "n", "annotations": {"a": None, "b": "text"}}}).encode()
    assert known.node(raw).annotations == (("a", ""),)


def test_for_an_algorithm_that_says_nothing_everything_is_kept() -> None:
    known = PodReader(reads_for(Reads(), Policy()))
    assert dict(read(known, {"anything": "x" * 100_000}).annotations) == {"anything": "x" * 100_000}


def test_resources_of_nodes_count_of_a_pod_that_asks_for_too_many() -> None:
    known = reader(policy=Policy(resource="waggle.dev/mine"))
    asked = {f"example.com/{index}": 1 for index in range(100)} | {"cpu": "1", GPU: 8, "waggle.dev/mine": 1}
    spec = {"nodeName": "n", "containers": [{"resources": {"requests": asked}}]}
    assert dict(read(known, **spec).requests) == {"cpu": 1000, "waggle.dev/mine": 1}
    known.learn(Node(name="n", allocatable=((GPU, 8), ("cpu", 1))))
    assert dict(read(known, **spec).requests) == {"cpu": 1000, GPU: 8, "waggle.dev/mine": 1}


def test_a_node_that_brings_nothing_new_changes_nothing() -> None:
    known = reader()
    before = known.reads
    known.learn(Node(name="n", allocatable=tuple((name, 1) for name in sorted(NATIVE))))
    assert known.reads is before


def test_of_texts_that_keep_room_for_others_none_is_kept_where_little_room_is_left() -> None:
    reader = PodReader(Reads(frozenset({"wish"}), frozenset({"claim", "seat"}), claims=frozenset({"claim"})))
    pod = Pod(namespace="n", name="p", node_name="a", annotations=(("claim", "x" * 9), ("seat", "s"), ("wish", "w")))
    assert reader.lighter(pod).annotations == (("claim", ""), ("seat", "s"), ("wish", "w"))
    assert reader.lighter(reader.lighter(pod)) == reader.lighter(pod)
