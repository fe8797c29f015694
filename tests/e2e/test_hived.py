"""HiveD's feature list behind a real kube-scheduler: Waggle binds, and evicts by itself what kube-scheduler cannot see.

The same scenarios run on stand-ins in tests/integration/server/test_hived_scenarios.py, always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.world import RealCluster, eventually
from tests.support.hived.scenarios import CONFIGURATION, EXTENDER, NODES, SCENARIOS, WAGGLE, Object, Stage

WORLD = {"settings": WAGGLE, "extender": EXTENDER}


class RealThing(Stage):
    def __init__(self, w: RealCluster) -> None:
        self._world = w

    def create(self, name: str, *, annotations: dict[str, str], containers: list[Object]) -> None:
        self._world.pod(name, annotations=annotations, containers=containers)

    def get(self, name: str) -> Object | None:
        found = self._world.get(name)
        return None if found is None or found["metadata"].get("deletionTimestamp") else found

    def delete(self, name: str) -> None:
        self._world.delete(name)

    def set_unschedulable(self, node: str, *, unschedulable: bool) -> None:
        self._world.patch(node, {"spec": {"unschedulable": unschedulable}}, "Node")

    def page(self, path: str) -> Any:
        return self._world.ask_waggle(f"/v1/inspect/{path}")

    def explain(self, name: str) -> Any:
        # Waggle may not have heard of the pod yet.
        return self._world.ask_waggle(f"/v1/explain/{self._world.namespace}/{name}", strict=False) or {}

    def restart(self, configuration: Object) -> None:
        assert self._world.waggle is not None
        self._world.waggle.stop()
        self._world.start_waggle(algorithm={"name": "hived", "settings": configuration})

    def until(self, condition: Callable[[], Any]) -> None:
        eventually(condition, self._world.story)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_hived_as_its_users_know_it(w: RealCluster, scenario: Callable[[Stage], None]) -> None:
    w.nodes(len(NODES))
    stage = RealThing(w)
    stage.until(lambda: all(stage.health(node) == "Healthy" for node in NODES))
    scenario(stage)
    if w.settings["algorithm"] != WAGGLE["algorithm"]:
        stage.restart(CONFIGURATION)
