"""Lazily preempted groups get their quota back through the whole server, and restarts come to the same."""

from __future__ import annotations

from typing import Any

import yaml

from tests.integration.server.test_hived import HIVED, SPEC
from tests.support.cluster.local_cluster import LocalCluster, world

PROMOTING: dict[str, Any] = {
    "name": "hived",
    "settings": {
        "physicalCluster": HIVED["settings"]["physicalCluster"],
        "virtualClusters": {
            "red": {"virtualCells": [{"cellType": "rack.host.gpu", "cellNumber": 2}]},
            "blue": {"virtualCells": [{"cellType": "rack.host.gpu", "cellNumber": 8}]},
        },
        "promoteLazilyPreempted": True,
    },
}


def single(w: LocalCluster, name: str, tenant: str, priority: int) -> str:
    """A pod that wants one device, and goes on without quota if need be."""
    wish = {"virtualCluster": tenant, "priority": priority, "leafCellNumber": 1, "lazyPreemptionEnable": True}
    wish["affinityGroup"] = {"name": name, "members": [{"podNumber": 1, "leafCellNumber": 1}]}
    w.pod(name, cpu="10m", annotations={SPEC: yaml.safe_dump(wish)})
    return name


def group(w: LocalCluster, name: str) -> Any:
    assert w.waggle is not None
    return w.waggle.client.get(f"/v1/inspect/affinitygroups/{name}").json["status"]


def test_a_group_has_its_quota_back_when_there_is_room_and_a_restart_knows() -> None:
    with world(nodes=4, scheduler=True, algorithm=PROMOTING) as w:
        running = [single(w, name, "red", 0) for name in ("g", "h")]
        w.until(lambda: w.all_bound(running))
        scattered = [single(w, f"b{number}", "blue", 0) for number in range(8)]
        w.until(lambda: w.all_bound(scattered))
        for name in scattered[::2]:
            w.cluster.delete("pods", name)
        single(w, "boss", "red", 9)
        w.until(lambda: w.node_of("boss"))
        [lost] = [name for name in running if "lazyPreemptionStatus" in group(w, name)]
        assert group(w, lost)["lazyPreemptionStatus"]["preemptor"] == "boss"

        w.stop_waggle()
        w.start_waggle()
        assert group(w, lost)["lazyPreemptionStatus"]["preemptor"] == "boss"

        w.cluster.delete("pods", "boss")
        w.until(lambda: "lazyPreemptionStatus" not in group(w, lost))
        assert group(w, lost)["virtualPlacement"]

        w.stop_waggle()
        w.start_waggle()
        assert all("virtualPlacement" in group(w, name) for name in running)
