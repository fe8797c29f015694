from __future__ import annotations

from typing import Any

import pytest

from extender.embedded.apiserver.custom.paths import JsonPath, names_of

OBJ = {
    "spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "deep": {"er": {"t": "z"}}},
    "metadata": {"labels": {"waggle.dev/claim": "c"}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.deep.er.t", ["z"]),
        (".spec.list[1].v", [2]),
        (".spec.list[*].v", [1, 2]),
        ('.spec.list[?(@.n=="y")].v', [2]),
        (".spec.list[?(@.n == 'x')].v", [1]),
        ('.spec.list[?(@.n=="q")].v', []),
        (r".metadata.labels.waggle\.dev/claim", ["c"]),
        (".metadata.labels['waggle.dev/claim']", ["c"]),
        (".spec.missing.more", []),
        (".spec.list[7]", []),
        (".spec.list.v", []),
    ],
)
def test_what_is_at_a_path(path: str, found: list[Any]) -> None:
    assert JsonPath(path).find(OBJ) == found


@pytest.mark.parametrize("path", ["", "spec.a", ".", ".a[", ".a[1:2]", "..a", ".a[?(@.b)]", "{.a}"])
def test_what_is_not_understood_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        JsonPath(path)


def test_simple_paths_have_names_only() -> None:
    assert names_of(".spec.replicas") == ("spec", "replicas")
    with pytest.raises(ValueError):
        names_of(".spec.list[0]")
