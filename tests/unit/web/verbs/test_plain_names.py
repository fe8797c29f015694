"""An offer whose names are not decoded says the same as one whose names are."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.web.errors import BadRequest
from extender.web.verbs.extender_args import MOST_NODES, decode_filter
from extender.web.verbs.plain_names import SHORT, plain_names

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
MANY = [f"node-{number}" for number in range(2000)]


def body(**fields: Any) -> bytes:
    """As Go writes it: no blanks."""
    return json.dumps(fields, separators=(",", ":")).encode()


def offered(names: list[str]) -> bytes:
    return body(Pod=POD, Nodes=None, NodeNames=names)


@given(
    names=st.lists(st.text("ab-.", min_size=1, max_size=4), min_size=1, max_size=6),
    asked=st.lists(st.text('ab-.,"é\ud800', max_size=5), max_size=25),
)
def test_it_has_the_names_that_were_offered_and_no_others(names: list[str], asked: list[str]) -> None:
    plain = plain_names(offered(names))
    assert plain is not None
    assert [name in plain.names for name in asked] == [name in names for name in asked]
    assert all(name in plain.names for name in names)
    assert (len(plain.names), list(plain.names)) == (len(names), names)
    assert msgspec.json.decode(plain.head) == {"Pod": POD, "Nodes": None}


@given(st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none(), st.lists(st.text("a"))), max_size=4))
def test_an_offer_is_only_taken_as_it_is_if_all_of_it_are_names(names: list[Any]) -> None:
    is_plain = bool(names) and all(
        isinstance(name, str) and name and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.") for name in names
    )
    assert (plain_names(offered(names)) is not None) is is_plain


@pytest.mark.parametrize(
    "sent",
    [
        b'{"Pod":{},"NodeNames":["a""b"]}',
        b'{"Pod":{},"NodeNames":["a",,"b"]}',
        b'{"Pod":{},"NodeNames":["a","b",]}',
        b'{"Pod":{},"NodeNames":["a"],"b"]}',
        b'{"Pod":{},"NodeNames":["a"b"]}',
        b'{"Pod":{},"NodeNames":["a","b"]}}',
        b'{"Pod":{},"NodeNames":["a","b"]} ',
        b'{"NodeNames":["a","b"]}',
        b'{"Pod":{},"NodeNames":["x"],"NodeNames":["a"]}',
    ],
)
def test_what_is_not_the_end_of_an_object_is_left_to_the_decoder(sent: bytes) -> None:
    assert plain_names(sent) is None


@pytest.mark.parametrize(
    ("head", "field"),
    [
        (b"{", "body"),
        (b'{"Pod":"', "body"),
        (b'{"Pod":{"metadata":{}', "body"),
        (b'{"Pod":null', "Pod"),
        (b'{"Pod":{"metadata":{"name":"p"}}', "Pod.metadata.uid"),
        (b"[{}", "body"),
    ],
)
def test_names_behind_something_wrong_do_not_make_it_right(head: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_filter(head + b',"NodeNames":%s}' % body(n=MANY)[5:-1])
    assert refused.value.field == field


def test_an_error_among_many_names_is_named() -> None:
    for wrong, text in ((1, "Expected str"), ("", "length >= 1")):
        with pytest.raises(BadRequest) as refused:
            decode_filter(offered([*MANY, wrong]))
        assert (refused.value.field, text in refused.value.text) == (f"NodeNames[{len(MANY)}]", True)


def test_names_that_stand_in_the_pod_are_not_those_that_are_offered() -> None:
    inner = body(Pod=POD, NodeNames=MANY)
    pod = {"metadata": POD["metadata"] | {"annotations": {"a": inner.decode()}}, "NodeNames": ["inner"]}
    sent = body(Pod=pod, NodeNames=["a", "b"])
    assert len(sent) > SHORT
    assert list(decode_filter(sent).nodes) == ["a", "b"]


def test_too_many_names_are_refused() -> None:
    with pytest.raises(BadRequest, match="20001 names; expected at most 20000"):
        decode_filter(offered([f"n{number}" for number in range(MOST_NODES + 1)]))
