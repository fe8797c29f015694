"""Reading what kube-scheduler sends: the exact form, the lenient one, and what is said about neither."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.scheduling.events import Candidate
from extender.web.errors import BadRequest
from extender.web.verbs.extender_args import BindRequest, decode_bind, decode_filter, decode_preempt
from tests.support.http.fixed_runtime import capture

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u-1"}, "spec": {"containers": [{"name": "c"}]}}


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def refusal(decode: Any, sent: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        decode(sent)
    return caught.value


# -- filter and prioritize ----------------------------------------------------------------------------------------


def test_node_names_are_read_in_their_order():
    offer = decode_filter(capture("filter-nodenames"))

    assert list(offer.nodes) == ["n2", "n0", "n1"]
    assert offer.items is None
    assert offer.pod.uid == "c33539da-5f60-4a91-99f2-af0f8f82abca"
    assert dict(offer.pod.requests)["cpu"] == 2000


def test_full_nodes_are_kept_as_they_came_and_only_their_names_are_read():
    sent = capture("filter-nodes")

    offer = decode_filter(sent)

    assert offer.items is not None
    assert list(offer.nodes) == [item["metadata"]["name"] for item in json.loads(sent)["Nodes"]["items"]]
    assert [json.loads(bytes(item)) for item in offer.items] == json.loads(sent)["Nodes"]["items"]


@pytest.mark.parametrize(
    "names", [("pod", "nodenames"), ("POD", "NODENAMES"), ("pod", "nodeNames"), ("Pod", "nodenames")]
)
def test_outer_names_are_found_in_any_case(names: tuple[str, str]):
    offer = decode_filter(body(**{names[0]: POD, names[1]: ["a", "b"]}))

    assert (offer.pod.name, list(offer.nodes)) == ("p", ["a", "b"])


def test_the_exact_name_wins_over_another_case():
    assert list(decode_filter(body(Pod=POD, nodenames=["other", None], NodeNames=["exact", None])).nodes) == ["exact"]


def test_nulls_are_absent():
    offer = decode_filter(body(Pod=POD, Nodes=None, NodeNames=["a", None, "b"]))

    assert list(offer.nodes) == ["a", "b"]


def test_null_nodes_and_null_names_offer_nothing():
    assert decode_filter(body(Pod=POD, Nodes=None, NodeNames=None)) == decode_filter(body(Pod=POD))
    assert list(decode_filter(body(Pod=POD)).nodes) == []


def test_nodes_without_items_expect_nodes_back():
    offer = decode_filter(body(Pod=POD, Nodes={"metadata": {}, "items": None}))

    assert (list(offer.nodes), offer.items) == ([], [])


def test_null_items_are_left_out():
    offer = decode_filter(body(Pod=POD, Nodes={"items": [None, {"metadata": {"name": "a"}}]}))

    assert list(offer.nodes) == ["a"]
    assert offer.items is not None
    assert len(offer.items) == 1


def test_names_win_if_names_and_full_nodes_are_both_given():
    offer = decode_filter(body(Pod=POD, Nodes={"items": [{"metadata": {"name": "a"}}]}, NodeNames=["b"]))

    assert (list(offer.nodes), offer.items) == (["b"], None)


def test_duplicate_names_stay():
    assert list(decode_filter(body(Pod=POD, NodeNames=["a", "a"])).nodes) == ["a", "a"]


def test_unknown_fields_are_ignored():
    assert list(decode_filter(body(Pod=POD | {"kind": "Pod"}, NodeNames=["a"], Future={"x": [1]})).nodes) == ["a"]


def test_a_pod_without_containers_asks_for_nothing():
    pod = {"metadata": POD["metadata"]}

    assert decode_filter(body(Pod=pod, NodeNames=["a"])).pod.requests == ()


@pytest.mark.parametrize(
    ("sent", "field", "expected"),
    [
        (b"", "body", "empty"),
        (b"  \n", "body", "empty"),
        (b'{"Pod":', "body", "truncated"),
        (b"{} {}", "body", "trailing"),
        (b"[]", "body", "object"),
        (b"null", "body", "object"),
        (b'"text"', "body", "object"),
        (b"\xff\xfe{}", "body", "malformed"),
        (b'{"Pod": "\xff"}', "Pod", "Expected object"),
        (b'{"Pod": {"metadata": {"name": "\xff"}}}', "Pod", "UTF-8"),
        (b"[" * 200_000, "body", "object"),
        (b'{"Pod":' * 100_000, "body", "nested too deeply"),
        (body(), "Pod", "missing"),
        (body(Pod=None, NodeNames=["a"]), "Pod", "missing"),
        (body(Pod=[], NodeNames=["a"]), "Pod", "got array"),
        (body(Pod={}, NodeNames=["a"]), "Pod.metadata.name", "must not be empty"),
        (body(Pod={"metadata": {"name": "p"}}, NodeNames=["a"]), "Pod.metadata.uid", "must not be empty"),
        (body(Pod=POD | {"spec": {"containers": {}}}, NodeNames=[]), "Pod.spec.containers", "Expected array"),
        (body(Pod=POD | {"spec": {"priority": "1"}}, NodeNames=[]), "Pod.spec.priority", "Expected int"),
        (body(Pod=POD, NodeNames="a"), "NodeNames", "Expected array"),
        (body(Pod=POD, NodeNames=["a", 1]), "NodeNames[1]", "Expected str"),
        (body(Pod=POD, NodeNames=["a", ""]), "NodeNames[1]", "length >= 1"),
        (body(Pod=POD, Nodes=[]), "Nodes", "Expected object"),
        (body(Pod=POD, Nodes={"items": {}}), "Nodes.items", "Expected array"),
        (body(Pod=POD, Nodes={"items": [{}]}), "Nodes.items[0].metadata.name", "must not be empty"),
        (body(Pod=POD, Nodes={"items": [{"metadata": {"name": 1}}]}), "Nodes.items[0].metadata.name", "Expected str"),
        (body(Pod=POD, Nodes={"items": [7]}), "Nodes.items[0]", "Expected object"),
    ],
)
def test_what_cannot_be_read_is_named(sent: bytes, field: str, expected: str):
    error = refusal(decode_filter, sent)

    assert error.field == field
    assert error.text.startswith(field)
    assert expected in error.text
    assert error.status == 400


@pytest.mark.parametrize("quantity", ["1e3", "0.1", "100m", "1Ei", 2, 0.5])
def test_every_kubernetes_quantity_is_read(quantity: Any):
    spec = {"containers": [{"resources": {"requests": {"cpu": quantity, "example.com/gpu": 1}}}]}

    assert dict(decode_filter(body(Pod=POD | {"spec": spec}, NodeNames=["a"])).pod.requests)["cpu"] > 0


@pytest.mark.parametrize("quantity", ["-1", "1 Gi", "x", "", "1e", "Ki", "NaN"])
def test_what_is_no_quantity_is_named_by_its_path(quantity: str):
    spec = {"containers": [{"resources": {"requests": {"cpu": quantity}}}]}

    error = refusal(decode_filter, body(Pod=POD | {"spec": spec}, NodeNames=["a"]))

    assert error.field == "Pod.spec.containers[0].resources.requests[cpu]"
    assert repr(quantity) in error.text


# -- preempt ------------------------------------------------------------------------------------------------------


def test_victims_are_read_by_uid():
    request = decode_preempt(capture("preempt-meta-victims"))

    assert request.pod.priority == 1000
    assert request.candidates == (
        Candidate("a", ("4a06ff90-3483-4b07-9009-5c2767f3f6f7", "d6fc237b-a497-4897-8483-ae6d066f37b4"), 2),
        Candidate("b", ("7657d259-9859-4667-9e60-760657da61e4", "bff741b7-a07d-447a-a161-ab05672afb46"), 2),
    )


def test_victims_are_read_from_full_pods():
    sent = json.loads(capture("preempt-victims"))

    candidates = decode_preempt(capture("preempt-victims")).candidates

    assert {each.node: list(each.victims) for each in candidates} == {
        node: [pod["metadata"]["uid"] for pod in victims["Pods"]] for node, victims in sent["NodeNameToVictims"].items()
    }


def test_preempt_names_are_found_in_any_case():
    request = decode_preempt(body(pod=POD, nodeNameToMetaVictims={"a": {"Pods": [{"UID": "v"}]}}))

    assert request.candidates == (Candidate("a", ("v",)),)


def test_null_victims_are_none():
    request = decode_preempt(body(Pod=POD, NodeNameToMetaVictims={"a": None, "b": {"Pods": None}}))

    assert request.candidates == (Candidate("b", ()),)


def test_no_victims_at_all_are_no_candidates():
    assert decode_preempt(body(Pod=POD, NodeNameToVictims=None, NodeNameToMetaVictims=None)).candidates == ()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (body(), "Pod"),
        (body(Pod=POD, NodeNameToMetaVictims=[]), "NodeNameToMetaVictims"),
        (body(Pod=POD, NodeNameToMetaVictims={"a": 1}), "NodeNameToMetaVictims[...]"),
        (body(Pod=POD, NodeNameToMetaVictims={"a": {"pods": []}}), "NodeNameToMetaVictims[...]"),
        (body(Pod=POD, NodeNameToMetaVictims={"a": {"Pods": [{}]}}), "NodeNameToMetaVictims[...].Pods[0]"),
        (body(Pod=POD, NodeNameToMetaVictims={"a": {"Pods": [{"UID": ""}]}}), "NodeNameToMetaVictims[...].Pods[0].UID"),
        (
            body(Pod=POD, NodeNameToMetaVictims={"a": {"Pods": [], "NumPDBViolations": 10**30}}),
            "NodeNameToMetaVictims[...].NumPDBViolations",
        ),
        (
            body(Pod=POD, NodeNameToMetaVictims={"a": {"Pods": [], "NumPDBViolations": -1}}),
            "NodeNameToMetaVictims[...].NumPDBViolations",
        ),
        (body(Pod=POD, NodeNameToVictims={"a": {"Pods": [POD, {}]}}), "NodeNameToVictims[a].Pods[1].metadata.uid"),
    ],
)
def test_unreadable_victims_are_named(sent: bytes, field: str):
    assert refusal(decode_preempt, sent).field == field


# -- bind ---------------------------------------------------------------------------------------------------------


def test_bind_is_read():
    assert decode_bind(capture("bind")) == BindRequest(
        namespace="default", name="p-names", uid="c33539da-5f60-4a91-99f2-af0f8f82abca", node="n0"
    )


def test_bind_names_are_found_in_any_case():
    sent = body(podName="p", podnamespace="ns", podUID="u", NODE="n")

    assert decode_bind(sent) == BindRequest("ns", "p", "u", "n")


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize("value", ["", None, "absent", 7])
def test_bind_needs_all_of_its_fields(missing: str, value: Any):
    fields: dict[str, Any] = {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}
    if value == "absent":
        del fields[missing]
    else:
        fields[missing] = value

    assert refusal(decode_bind, body(**fields)).field == missing


@pytest.mark.parametrize("size", [10, 63])
def test_what_a_refusal_quotes_is_cut_and_controls_no_terminal(size: int):
    node = "\x1b[2J" * size
    sent = body(Pod={"metadata": {"name": "p", "namespace": "n", "uid": "u"}}, NodeNameToVictims={node: {"Pods": [{}]}})

    refused = refusal(decode_preempt, sent)

    assert refused.text.startswith(r"NodeNameToVictims[\x1b[2J\x1b[2J")
    assert (refused.field or "").startswith(r"NodeNameToVictims[\x1b[2J\x1b[2J")
    assert refused.text.isprintable()
    assert len(refused.text) + len(refused.field or "") < 3000


# -- how large a pod may be -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Pod", pytest.param("pod", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("decode", "rest"), [(decode_filter, {"NodeNames": ["a"]}), (decode_preempt, {"NodeNameToMetaVictims": {}})]
)
def test_a_pod_of_more_bytes_than_any_has_is_not_read(decode: Any, rest: Any, name: str) -> None:
    spec = {"containers": [{"resources": {"requests": {f"example.com/r{index}": "1" for index in range(100_000)}}}]}
    error = refusal(decode, body(**{name: POD | {"spec": spec}}, **rest))
    assert error.field == "Pod"
    assert error.text.endswith("bytes; expected at most 2097152")


def test_many_nodes_may_take_as_many_bytes_as_they_like() -> None:
    names = [f"node-{index}-{'x' * 200}" for index in range(20_000)]
    assert list(decode_filter(body(Pod=POD, NodeNames=names)).nodes) == names


# -- what is refused before it is decoded -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece", ["[[[[[[[[[[]]]]]]]]]]", '{"a":{"b":{"c":{}}}}', '"' + '\\"' * 20 + '"', " " * 40 + "1"]
)
@pytest.mark.parametrize(("decode", "rest"), [(decode_filter, "NodeNames"), (decode_preempt, "NodeNameToMetaVictims")])
def test_a_large_body_that_is_long_to_decode_is_refused_unread(decode: Any, rest: str, piece: str) -> None:
    costly = ",".join([piece] * (2_000_000 // len(piece)))
    sent = f'{{"Pod":{json.dumps(POD)},"{rest}":null,"X":[{costly}]}}'.encode()
    assert "of which more than a t" in refusal(decode, sent).text


@pytest.mark.parametrize(
    "fields",
    [
        {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u" * 254}]}}},
        {"NodeNameToMetaVictims": {"n" * 254: {"Pods": [{"UID": "u"}]}}},
        {"NodeNameToVictims": {"n": {"Pods": [{"metadata": {"uid": "u" * 254}}]}}},
    ],
)
@pytest.mark.parametrize("more", [0, 2_000_000])
def test_a_name_that_is_longer_than_any_is_refused(fields: Any, more: int) -> None:
    refused = refusal(decode_preempt, body(Pod=POD, X="x" * more, **fields))
    assert (refused.field or "").startswith(next(iter(fields)))
    assert "length <= 253" in refused.text


@pytest.mark.parametrize("length", [61, 64, 125, 128])
def test_a_large_body_is_not_refused_for_names_that_all_have_the_same_length(length: int) -> None:
    names = [f"{index:0{length}}" for index in range(2_000_000 // length)][:20_000]
    assert list(decode_filter(body(Pod=POD | {"spec": {"x": "y" * 500_000}}, NodeNames=names)).nodes) == names


def test_names_of_more_bytes_than_all_may_have_are_not_decoded() -> None:
    refused = refusal(decode_filter, body(Pod=POD, NodeNames=["x" * (6 << 20)]))
    assert refused.field == "NodeNames"
    assert "expected at most 20000 names of 253" in refused.text


def test_victims_of_a_large_body_are_read_in_both_forms() -> None:
    uids = [f"{index:036}" for index in range(30_000)]
    by_uid = {"n": {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}}
    full = {"n": {"Pods": [{"metadata": {"uid": uid}} for uid in uids], "NumPDBViolations": 1}}
    for field, victims in (("NodeNameToMetaVictims", by_uid), ("NodeNameToVictims", full)):
        sent = body(Pod=POD, **{field: victims})
        assert len(sent) > 1 << 20
        assert decode_preempt(sent).candidates == (Candidate("n", tuple(uids), 1),)
