"""Cells that combine on one machine, through the whole server."""

from __future__ import annotations

from typing import Any

from tests.integration.server.test_hived import HIVED, devices_of, gang
from tests.support.cluster.local_cluster import world

COMBINING: dict[str, Any] = {
    "name": "hived",
    "settings": {
        "physicalCluster": HIVED["settings"]["physicalCluster"],
        "virtualClusters": {
            "red": {"virtualCells": [{"cellType": "rack.host.gpu", "cellNumber": 4}]},
            "blue": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]},
        },
        "combineCells": True,
    },
}


def test_single_devices_serve_a_pod_of_two_and_a_restart_keeps_it() -> None:
    with world(nodes=4, scheduler=True, algorithm=COMBINING) as w:
        pods = gang(w, "r", "red", 2, 2, 1)
        w.until(lambda: w.all_bound(pods))
        assert len(set(devices_of(w, pods))) == 4

        w.stop_waggle()
        w.start_waggle()

        late = gang(w, "b", "blue", 2, 4, 1)
        w.until(lambda: w.all_bound(late))
        assert len(set(devices_of(w, pods + late))) == 12
        shown = w.waggle.client.get("/v1/inspect/affinitygroups/r").json["status"]
        assert len(shown["virtualPlacement"]) == 4
