from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import Api

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def still_cluster() -> Iterator[EmbeddedCluster]:
    """A server without kubelets: nothing happens by itself. Shared by all tests; each uses its own namespace."""
    with serve_in_thread(kubelet=False, controllers=False, bookmark_seconds=0.2) as cluster:
        yield cluster


@pytest.fixture
def api(still_cluster: EmbeddedCluster) -> Iterator[Api]:
    client = Api(still_cluster.url, namespace=f"t{next(_numbers)}")
    yield client
    client.close()
