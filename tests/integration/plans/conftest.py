"""A server with nodes and pods behind it, and plans of it over a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.embedded.apiserver.server import serve_in_thread
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.cluster.plans import PlanServer, serving


@pytest.fixture(scope="module")
def server() -> Iterator[PlanServer]:
    """Three nodes with 8 cpus; node n0 is full of one pod, and one pod waits that fits nowhere."""
    with serve_in_thread() as cluster:
        for number in range(3):
            cluster.create(node(f"n{number}", labels={"rack": f"r{number}"}))
        cluster.create(pod("old", requests={"cpu": "8"}, nodeName="n0"))
        cluster.create(pod("giant", requests={"cpu": "64"}))
        with serving(cluster.url) as served:
            yield served
