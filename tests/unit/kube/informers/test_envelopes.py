"""Envelopes around objects that are nested more deeply than the decoder goes."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.decoding import DecodeError
from extender.kube.client import bounds, deep
from extender.kube.informers import envelopes as wire

NESTED = b"[" * 100_000 + b"]" * 100_000
META = b'{"name":"bad","namespace":"ns","uid":"u","resourceVersion":"7","odd":%s}'
IN_META = b'{"metadata":' + META % NESTED + b'},"spec":{}}'.replace(b"},", b",", 1)
IN_SPEC = b'{"spec":%s,"metadata":%s}' % (NESTED, META % b"1")
GOOD = b'{"metadata":{"name":"a,]}\\"","uid":"g","resourceVersion":"5"}}'


@pytest.fixture(params=[IN_META, IN_SPEC], ids=["in its metadata", "in its spec"])
def bad(request: pytest.FixtureRequest) -> bytes:
    return request.param


def test_the_other_objects_of_its_page_are_read(bad: bytes) -> None:
    body = b'{"items":[%s, %s ,%s],"metadata":{"resourceVersion":"9","continue":"t"}}' % (GOOD, bad, GOOD)
    page = wire.decode_page(body)
    assert (page.resource_version, page.next) == ("9", "t")
    assert [wire.identify(item).uid for item in page.items or ()] == ["g", "u", "g"]


def test_it_is_known_by_its_name(bad: bytes) -> None:
    assert wire.identify(msgspec.Raw(bad)) == wire.Identity("u", "7", "ns/bad")


def test_the_event_that_it_comes_in_is_read(bad: bytes) -> None:
    line = b'{"type":"MODIFIED","object":%s}\n' % bad
    event = wire.decode_event(line)
    assert (event.type, wire.identify(event.object).uid) == ("MODIFIED", "u")
    with pytest.raises(DecodeError):
        wire.decode_pod_event(line)


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"resourceVersion":"9"},"items":[%s' % NESTED,
        b'{"metadata":{"resourceVersion":"9"},"items":{"a":%s}}' % NESTED,
        b'{"metadata":{"resourceVersion":"9"},"items":%s' % NESTED,
        b'{"metadata":%s,"items":[]}' % NESTED,
        b"[%s]" % NESTED,
        b'{"items":[%s],oops}' % NESTED,
    ],
    ids=["cut off", "no array", "cut off later", "no metadata", "no object", "no member"],
)
def test_a_page_that_is_none_is_not_taken_for_an_empty_one(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode_page(body)


def test_parts_are_those_that_json_has() -> None:
    assert [bytes(each) for each in deep.elements(b' [1, "a,]", [2, {"b": 3}], {} ] ')] == [
        b"1",
        b' "a,]"',
        b' [2, {"b": 3}]',
        b" {} ",
    ]
    members = deep.members(rb'{"a": {"b": [1, 2]}, "c\"d,": "}" }')
    assert {name: bytes(value) for name, value in members.items()} == {"a": b'{"b": [1, 2]}', 'c"d,': b'"}"'}
    assert deep.elements(b"[]") == []
    assert deep.members(b"{ }") == {}


@pytest.mark.parametrize("quotes", [10_000, 20_000])
def test_a_string_that_does_not_end_is_looked_at_once(quotes: int) -> None:
    """Searched for again from each of its quotes it would cost the square of its length, and nobody else could run."""
    text = b"[" + b'"' + b'\\"' * quotes
    assert len(list(deep._TOKEN.finditer(text))) == 2
    with pytest.raises(msgspec.DecodeError, match="does not end"):
        deep.elements(text)


def test_a_large_page_with_a_deep_object_is_to_be_read_with_fewer_items() -> None:
    page = b'{"items":[' + b"[" * 10_000 + b"]" * 10_000 + b"," + b" " * bounds.OBJECT + b"1]}"
    with pytest.raises(bounds.BoundError):
        wire.decode_page(page)
