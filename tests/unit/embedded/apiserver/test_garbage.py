"""Objects go with their owners, of any kind. tests/e2e/test_garbage.py: so they do in a real cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import Api
from tests.support.apiserver.custom import definition
from tests.support.apiserver.garbage import CHECKS, GROUP

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(kubelet=False) as cluster:
        cluster.create(definition(GROUP))
        yield cluster


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_garbage(cluster: EmbeddedCluster, check: Callable[[Api], None]) -> None:
    api = Api(cluster.url, namespace=f"g{next(_numbers)}")
    check(api)
    api.close()
