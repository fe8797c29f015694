"""Paths of the API server's resources: no name leaves its collection."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.requests import collection_path, object_path, pod_path


@given(st.text())
@pytest.mark.parametrize("plain", ["", "warm-1", "waggle.dev"])
def test_a_name_is_quoted_as_a_segment(plain: str, other: str) -> None:
    for name in (plain, other, plain + other):
        assert object_path("/pods", name) == f"/pods/{quote(name, safe='')}"
        assert pod_path(name or "n", "p") == f"/api/v1/namespaces/{quote(name or 'n', safe='')}/pods/p"


def test_the_path_of_a_collection() -> None:
    assert collection_path("deployments", group="apps", namespace="a b") == "/apis/apps/v1/namespaces/a%20b/deployments"
    assert collection_path("nodes") == "/api/v1/nodes"
