"""What of a pod is kept: what is read of it, bounded however much its author wrote."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest

from algorithm.decoding import DecodeError, decode_pod, decode_pods
from algorithm.model import Pod
from algorithm.reads import (
    LABELS_TOGETHER,
    LONGEST_LABEL,
    LONGEST_WISH,
    MOST_KNOWN,
    MOST_LABELS,
    MOST_RESOURCES,
    NATIVE,
    Reads,
)
from tests.support.effort import effort

READS = Reads(
    wishes=frozenset({"wish"}),
    decisions=frozenset({"decision"}),
    looked_for=frozenset({"marker"}),
    resources=NATIVE | {"nvidia.com/gpu"},
)


def raw(metadata: dict[str, Any] | None = None, **spec: Any) -> bytes:
    return json.dumps({"metadata": {"name": "a", "uid": "u", **(metadata or {})}, "spec": spec}).encode()


def asking(*amounts: dict[str, Any], **spec: Any) -> bytes:
    return raw(containers=[{"resources": {"requests": each}} for each in amounts], **spec)


def many(number: int) -> dict[str, str]:
    return {f"example.com/r{index}": "1" for index in range(number)}


def read(data: bytes, reads: Reads = READS) -> Pod:
    return decode_pod(data, reads)


# -- annotations and labels ---------------------------------------------------------------------------------------


def annotated(reads: Reads = READS, node: str = "", **given: str | None) -> dict[str, str]:
    return dict(read(raw({"annotations": given}, nodeName=node), reads).annotations)


def test_annotations_that_nobody_reads_are_not_kept() -> None:
    assert annotated(wish="1", other="2", marker="3") == {"wish": "1", "marker": ""}


def test_an_algorithm_that_says_nothing_reads_every_annotation_in_full() -> None:
    long = "x" * 200_000
    assert annotated(Reads(), anything=long, null=None) == {"anything": long, "null": ""}


def test_a_wish_is_cut_so_that_its_length_tells() -> None:
    assert len(annotated(wish="x" * LONGEST_WISH)["wish"]) == LONGEST_WISH
    assert len(annotated(wish="x" * 200_000)["wish"]) == LONGEST_WISH + 1


def test_the_text_of_a_decision_is_kept_on_pods_that_have_a_node() -> None:
    plan = "x" * 200_000
    assert annotated(node="n", decision=plan) == {"decision": plan}
    assert annotated(decision=plan) == {"decision": ""}


def test_pods_with_the_same_long_decision_have_one_text() -> None:
    one, two = (
        dict(read(raw({"annotations": {"decision": "x" * 60_000}}, nodeName="n")).annotations)["decision"]
        for _ in range(2)
    )
    assert one is two


def test_the_memory_of_a_waiting_pod_has_a_bound() -> None:
    texts = {name: name * (240_000 // len(name)) for name in ("wish", "decision", "marker", "other")}
    labels = {f"label-{index}": "v" * LONGEST_LABEL for index in range(5_000)}
    pod = read(raw({"annotations": texts, "labels": labels}))
    kept = sum(sys.getsizeof(text) for pair in (*pod.annotations, *pod.labels) for text in pair)
    assert kept < 3 * LONGEST_WISH


def test_the_first_labels_by_name_are_kept() -> None:
    labels = {f"label-{index:04}": str(index) for index in range(3 * MOST_LABELS)}
    kept = read(raw({"labels": labels})).labels
    assert kept == tuple(sorted(labels.items()))[:MOST_LABELS]


def test_labels_are_kept_as_far_as_they_have_so_many_characters_together() -> None:
    labels = {f"{index:02}": "v" * 60 for index in range(MOST_LABELS)}
    assert read(raw({"labels": labels})).labels == tuple(labels.items())
    labels = {f"{index:02}{'x' * 298}": "v" * 60 for index in range(MOST_LABELS)}
    assert read(raw({"labels": labels})).labels == tuple(labels.items())[: LABELS_TOGETHER // 360]


def test_a_wish_of_which_less_is_read_is_cut_there() -> None:
    reads = Reads(frozenset({"wish", "short"}), lengths={"short": 10})
    kept = annotated(reads, wish="x" * 200_000, short="y" * 200_000)
    assert (len(kept["wish"]), len(kept["short"])) == (LONGEST_WISH + 1, 11)


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"])
def test_a_name_that_is_longer_than_any_is_refused_by_its_field(field: str) -> None:
    with pytest.raises(DecodeError, match=f"metadata.{field} must have at most 253 characters, not 254"):
        read(raw({field: "x" * 254}))


def test_a_resource_whose_name_is_longer_than_any_is_refused_by_its_field() -> None:
    with pytest.raises(DecodeError, match=r"spec.containers\[0\].resources.requests: the name of a resource must have"):
        read(asking({"x" * 400: "1"}))


def test_what_is_only_compared_with_names_is_cut() -> None:
    pod = read(raw(schedulerName="x" * 9_999, schedulingGroup={"podGroupName": "y" * 9_999}))
    assert (len(pod.scheduler_name), len(pod.group)) == (254, 254)


@pytest.mark.parametrize(("length", "said"), [(64, ""), (65, "the names of its resources have more than 2048 ")])
def test_names_of_resources_have_so_many_characters_together(length: int, said: str) -> None:
    names = [f"e.g/{index:02}".ljust(length, "x") for index in range(MOST_RESOURCES)]
    assert read(asking(dict.fromkeys(names, "1"))).oversized[:46] == said[:46]


# -- resources ----------------------------------------------------------------------------------------------------


def test_as_many_resources_as_are_accepted_are_all_kept() -> None:
    pod = read(asking(many(MOST_RESOURCES)))
    assert (pod.oversized, len(pod.requests)) == ("", MOST_RESOURCES)


@pytest.mark.parametrize(
    "data",
    [
        asking(many(MOST_RESOURCES + 1)),
        asking({"cpu": "1"}, *({name: "1"} for name in many(MOST_RESOURCES))),
        raw(initContainers=[{"resources": {"requests": {name: "1"}}} for name in many(MOST_RESOURCES + 1)]),
        raw(containers=[{"resources": {"limits": many(MOST_RESOURCES + 1)}}]),
        raw(resources={"requests": many(MOST_RESOURCES + 1)}),
        raw(overhead=many(MOST_RESOURCES + 1)),
    ],
    ids=["one container", "all together", "init containers", "limits", "pod level", "overhead"],
)
def test_more_different_resources_make_a_pod_oversized_wherever_they_stand(data: bytes) -> None:
    assert read(data).oversized == "its containers name more than 32 different resources"


def test_a_pod_with_more_amounts_than_are_read_as_numbers_is_oversized() -> None:
    pod = read(asking(*[{"cpu": "1m", "memory": "1Ki"}] * 600))
    assert pod.oversized == "its containers have more than 1024 requests and limits"
    assert dict(read(asking(*[{"cpu": "1m", "memory": "1Ki"}] * 600, nodeName="n")).requests)["cpu"] == 600


def test_of_an_oversized_pod_that_waits_no_amount_is_read() -> None:
    amounts = [{"cpu": f"{each}n", "memory": f"{each}"} for each in range(1_000)]
    waits, runs = asking(*amounts), asking(*amounts, nodeName="n")
    assert read(waits).requests == ()
    assert effort(lambda: read(waits)) < 0.2 * effort(lambda: read(runs))


def test_a_pod_with_more_containers_than_are_looked_at_is_oversized() -> None:
    pod = read(raw(containers=[{}] * 1_000, initContainers=[None] * 25))
    assert pod.oversized == "it has more than 1024 containers"
    assert read(raw(containers=[{}] * 1_024)).oversized == ""
    assert dict(read(asking(*[{"cpu": "1m"}] * 1_100, nodeName="n")).requests) == {"cpu": 1_100}


def test_many_containers_that_ask_for_the_same_are_not_too_much() -> None:
    pod = read(asking(*[{"cpu": "1m", "memory": "1Ki"}] * 500))
    assert (pod.oversized, dict(pod.requests)["cpu"]) == ("", 500)


def test_of_an_oversized_pod_the_resources_count_that_nodes_have() -> None:
    pod = read(asking({"cpu": "2", "nvidia.com/gpu": "8", **many(300)}, {"memory": "1Ki"}, nodeName="n"))
    assert pod.requests == (("cpu", 2000), ("memory", 1024), ("nvidia.com/gpu", 8))


def test_resources_that_nodes_bring_later_count_from_then_on() -> None:
    data = asking({"cpu": "2", "amd.com/gpu": "8", **many(300)}, nodeName="n")
    assert dict(read(data, READS.and_of(["amd.com/gpu", "cpu"])).requests) == {"cpu": 2000, "amd.com/gpu": 8}


def test_nodes_do_not_bring_resources_without_end() -> None:
    reads = READS.and_of(many(1_000)).and_of(["zzz.com/late"])
    assert reads.resources is not None
    assert len(reads.resources) == MOST_KNOWN
    assert reads.resources >= NATIVE


def test_an_oversized_pod_in_a_list_costs_only_itself() -> None:
    found = decode_pods([msgspec.Raw(asking(many(2_000))), msgspec.Raw(asking({"cpu": "1"}))], READS)
    assert [bool(pod.oversized) for pod in found.records] == [True, False]


# -- what it costs ------------------------------------------------------------------------------------------------


def test_reading_a_pod_costs_the_same_however_many_resources_it_asks_for() -> None:
    some, more = asking(many(1_000)), asking(many(200_000))
    assert effort(lambda: read(more)) == effort(lambda: read(some))


def test_reading_a_pod_costs_the_same_however_many_annotations_and_labels_it_has() -> None:
    def with_pairs(number: int) -> bytes:
        pairs = {f"k{index}": "v" for index in range(number)}
        return raw({"annotations": pairs, "labels": pairs})

    some, more = with_pairs(100), with_pairs(10_000)
    assert effort(lambda: read(more)) < 2 * effort(lambda: read(some))


def test_pods_with_the_same_labels_and_requests_share_them() -> None:
    """A cluster of 150,000 pods has a few hundred different ones, and they are most of a record."""
    labels = {f"example.com/label-{number}": "value" for number in range(8)}
    containers = [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}]
    one, another = (read(raw({"labels": labels}, containers=containers, nodeName="n1")) for _ in range(2))
    for field in ("labels", "requests", "limits", "node_name", "scheduler_name"):
        assert getattr(one, field) is getattr(another, field), field


@pytest.mark.parametrize("labels", [{"a": None}, {f"k{number}": "x" * 100 for number in range(60)}])
def test_labels_beyond_what_is_kept_are_cut_and_not_shared(labels: dict[str, str | None]) -> None:
    """What is shared stays in memory when the pods are gone, so it has a bound."""
    one, another = (read(raw({"labels": labels})) for _ in range(2))
    assert one.labels == another.labels
    assert one.labels is not another.labels


@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize("policy", [None, "Always"])
def test_reading_costs_in_proportion_to_the_number_of_containers(field: str, policy: str | None) -> None:
    def with_containers(number: int) -> bytes:
        names = [*many(MOST_RESOURCES)]
        return raw(
            **{
                field: [
                    {"restartPolicy": policy, "resources": {"requests": {names[index % MOST_RESOURCES]: "1"}}}
                    for index in range(number)
                ]
            }
        )

    some, more = with_containers(500), with_containers(1_000)
    assert effort(lambda: read(more)) < 2.2 * effort(lambda: read(some))


def test_sidecars_with_a_resource_each_cost_no_more_than_as_many_with_the_same() -> None:
    def with_sidecars(names: list[str]) -> bytes:
        return raw(initContainers=[{"restartPolicy": "Always", "resources": {"requests": {n: "1"}}} for n in names])

    different, same = with_sidecars([*many(1_000)]), with_sidecars(["cpu"] * 1_000)
    assert effort(lambda: read(different)) < 2 * effort(lambda: read(same))


@pytest.mark.parametrize("text", ["9" * 128, "1e999999999", "1e-999999999", "0." + "0" * 125 + "1", "1E"])
def test_a_quantity_of_any_size_costs_no_more_than_a_common_one(text: str) -> None:
    data, common = asking({"cpu": text}), asking({"cpu": "1500m"})
    assert effort(lambda: read(data)) < 2 * effort(lambda: read(common))


@pytest.mark.parametrize("text", ["9" * 129, "9" * 1_000_000, "1e" + "9" * 1_000_000])
def test_a_quantity_that_is_too_long_is_refused_unread(text: str) -> None:
    with pytest.raises(DecodeError, match=r"spec.containers\[0\].resources.requests\[cpu\]: quantity '(9|1e)"):
        read(asking({"cpu": text}))


def test_a_number_of_a_million_digits_is_no_quantity() -> None:
    data = b'{"metadata":{"name":"a"},"spec":{"overhead":{"cpu":%s}}}' % (b"9" * 1_000_000)
    try:
        pod = read(data)
    except DecodeError:
        return
    assert dict(pod.requests)["cpu"] == 2**63 - 1
