"""A real ReplicaSet controller releases and adopts pods as the embedded one does."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.e2e.cluster import ControlPlane
from tests.support.apiserver.api import Api
from tests.support.apiserver.ownership import CHECKS

_numbers = itertools.count(1)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_ownership(plane: ControlPlane, check: Callable[[Api], None]) -> None:
    api = Api(plane.url, namespace=f"ownership-{next(_numbers)}")
    api.close()
    with plane.client("admin") as api.http:
        for name in (api.namespace, f"{api.namespace}-x"):
            api.post("/api/v1/namespaces", {"metadata": {"name": name}}).raise_for_status()
        check(api)
        for name in (api.namespace, f"{api.namespace}-x"):
            api.delete(f"/api/v1/namespaces/{name}")
