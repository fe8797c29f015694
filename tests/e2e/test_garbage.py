"""The garbage collector of a real kube-controller-manager does what the embedded one does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.cluster import ControlPlane
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.custom import CRDS, definition
from tests.support.apiserver.garbage import CHECKS, GROUP, owned, owner, reference, widgets

_numbers = itertools.count(1)
#: It looks for new kinds every 30 s, and only then sees what becomes of their objects.
_LEARNING_SECONDS = 90.0


@contextmanager
def namespace(plane: ControlPlane) -> Iterator[Api]:
    api = Api(plane.url, namespace=f"garbage-{next(_numbers)}")
    api.close()
    with plane.client("admin") as api.http:
        api.post("/api/v1/namespaces", {"metadata": {"name": api.namespace}}).raise_for_status()
        yield api
        api.delete(f"/api/v1/namespaces/{api.namespace}")


@pytest.fixture(scope="module")
def kinds(plane: ControlPlane) -> Iterator[None]:
    """The definitions of owners, which the garbage collector knows."""
    made = (definition(GROUP), definition("short.test", kind="Gadget"))
    with namespace(plane) as api:
        for each in made:
            api.post(CRDS, each).raise_for_status()
        eventually(lambda: api.get(widgets(api)).status_code == 200)
        owned(api, "probe", reference(owner(api, "first")))
        api.delete(widgets(api, "/first"))
        eventually(lambda: "probe" not in api.names("configmaps"), seconds=_LEARNING_SECONDS)
        yield
        for each in made:
            api.delete(f"{CRDS}/{each['metadata']['name']}")


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_garbage(plane: ControlPlane, check: Callable[[Api], None]) -> None:
    with namespace(plane) as api:
        check(api)
