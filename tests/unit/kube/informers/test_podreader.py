"""One reader makes all records of pods, and keeps what algorithm and server read."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from algorithm.interface import PodRefused
from algorithm.model import Node, Pod
from algorithm.packing.gangs import membership
from algorithm.reads import NATIVE, Reads
from algorithm.registry import reads
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import nodes_read_by
from extender.kube.informers.store import weigh
from extender.scheduling.policy import Policy
from extender.scheduling.reads import reads_for
from extender.scheduling.writes.preemption_mark import ANNOTATION

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
    assert (dict(pod.annotations), policy.manages(pod)) == ({"team.example.com/mine": ""}, True)


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


def largest(algorithm: str, character: str = "x", scale: int = 1) -> Pod:
    """A pod that waits, of everything so much that as much as possible of it is kept."""
    reads_of_it = reader(algorithm)
    amounts = {f"e.g/{index:02}".ljust(64, "r"): "1" for index in range(32)}
    labels = {f"{index:04}": "v" * 59 for index in range(64 * scale)}
    annotations = dict.fromkeys(reads_of_it.reads.wishes or (), character + "x" * 100_000 * scale)
    body = {
        "metadata": {"name": "a" * 253, "uid": "u" * 253, "labels": labels, "annotations": annotations},
        "spec": {"containers": [{"resources": {"requests": amounts, "limits": amounts}}]},
    }
    pod = reads_of_it.pod(json.dumps(body).encode())
    assert not pod.oversized
    assert len(pod.labels) == 64
    return pod


@pytest.mark.parametrize(("algorithm", "kib"), [("packing", 32), ("hived", 48)])
def test_the_largest_pod_that_waits_weighs_so_much_whatever_its_author_writes(algorithm: str, kib: int) -> None:
    assert weigh(largest(algorithm)) < kib * 1024
    assert weigh(largest(algorithm, scale=2)) == weigh(largest(algorithm))


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
def test_a_text_with_one_character_beyond_ascii_weighs_what_it_takes(algorithm: str) -> None:
    pod = largest(algorithm, "\U0001f600")
    assert weigh(pod) > sum(sys.getsizeof(text) for pair in pod.annotations for text in pair)


def test_of_a_gangs_name_no_more_is_kept_than_shows_that_it_is_too_long() -> None:
    kept = dict(read(reader(), {"waggle.dev/gang": "x" * 9_999, "waggle.dev/gang-min": "1" * 9_999}).annotations)
    assert {name: len(text) for name, text in kept.items()} == {"waggle.dev/gang": 254, "waggle.dev/gang-min": 254}
    with pytest.raises(PodRefused, match="annotation waggle.dev/gang must be a name of 1 to 253 plain characters"):
        membership(read(reader(), {"waggle.dev/gang": "x" * 9_999, "waggle.dev/gang-min": "2"}))
    with pytest.raises(PodRefused, match="annotation waggle.dev/gang-min must be a positive integer"):
        membership(read(reader(), {"waggle.dev/gang": "x", "waggle.dev/gang-min": "1" * 9_999}))
