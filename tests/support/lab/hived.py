"""Settings of HiveD for simulated machines: racks of machines with eight GPUs, and virtual clusters."""

from __future__ import annotations

import yaml

_CELL_TYPES = {
    "socket": {"childCellType": "gpu", "childCellNumber": 4},
    "host": {"childCellType": "socket", "childCellNumber": 2, "isNodeLevel": True},
    "rack": {"childCellType": "host", "childCellNumber": 2},
}


def hived_settings(nodes: list[str], promised: dict[str, int]) -> str:
    """A waggle.yaml for these nodes, in racks of two; `promised`: machines of each virtual cluster."""
    racks = [
        {"cellType": "rack", "cellChildren": [{"cellAddress": name} for name in nodes[at : at + 2]]}
        for at in range(0, len(nodes), 2)
    ]
    clusters = {
        tenant: {"virtualCells": [{"cellType": "rack.host", "cellNumber": number}]}
        for tenant, number in promised.items()
    }
    physical = {"cellTypes": _CELL_TYPES, "physicalCells": racks}
    settings = {"physicalCluster": physical, "virtualClusters": clusters}
    return yaml.safe_dump({"algorithm": {"name": "hived", "settings": settings}})
