"""The note in the Lease: what the next leader must have seen, of any resources."""

from __future__ import annotations

import json

import pytest

from extender.server.leadership import _Note


def test_a_note_has_one_version_for_each_resource() -> None:
    versions = {"nodes": "5", "pods": "12", "pools.waggle.example.com": "7"}
    text = _Note(3, versions).text()
    assert json.loads(text) == {"term": 3, **versions}
    assert _Note.read(text) == (3, versions)


def test_a_note_of_an_older_server_is_read() -> None:
    assert _Note.read('{"term":3,"nodes":"5","pods":"12"}') == (3, {"nodes": "5", "pods": "12"})


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", '{"nodes":"5"}', '{"term":"3"}', '{"term":3,"pods":["12"]}', "[" * 100_000],
    ids=["none", "text", "array", "no term", "a term that is none", "a version that is none", "nested"],
)
def test_what_is_no_note_is_ignored(text: str) -> None:
    assert _Note.read(text) is None
