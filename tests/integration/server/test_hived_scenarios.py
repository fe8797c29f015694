"""HiveD's feature list through the whole server, with stand-ins for kube-scheduler and the API server.

The same scenarios run on a real control plane in tests/e2e/test_hived.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.hived.scenarios import EXTENDER, MARKER, NODES, SCENARIOS, WAGGLE, Object, Stage


class StandIns(Stage):
    def __init__(self, w: LocalCluster) -> None:
        self._world = w

    def create(self, name: str, *, annotations: dict[str, str], containers: list[Object]) -> None:
        self._world.pod(name, annotations=annotations, containers=containers)

    def get(self, name: str) -> Object | None:
        return self._world.cluster.get("pods", name)

    def delete(self, name: str) -> None:
        self._world.cluster.delete("pods", name)

    def set_unschedulable(self, node: str, *, unschedulable: bool) -> None:
        spec = {"unschedulable": unschedulable}
        self._world.cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": spec})

    def page(self, path: str) -> Any:
        return self._ask(f"/v1/inspect/{path}")

    def explain(self, name: str) -> Any:
        return self._ask(f"/v1/explain/default/{name}")

    def _ask(self, path: str) -> Any:
        assert self._world.waggle is not None
        return self._world.waggle.client.get(path).json

    def restart(self, configuration: Object) -> None:
        self._world.stop_waggle()
        self._world._sections["algorithm"] = {"name": "hived", "settings": configuration}
        self._world.start_waggle()

    def until(self, condition: Callable[[], Any]) -> None:
        self._world.until(condition)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_hived_as_its_users_know_it(scenario: Callable[[Stage], None]) -> None:
    with world(nodes=len(NODES), scheduler=True, extender=EXTENDER, **WAGGLE) as w:
        w.books.uncounted.add(MARKER)
        scenario(StandIns(w))
