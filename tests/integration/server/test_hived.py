"""HiveD through the whole server, with a kube-scheduler (stand-in): gangs, tenants, what was borrowed, restart.

CPU is never short here: what is scarce are cells, of which kube-scheduler sees nothing.
"""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.cluster.local_cluster import LocalCluster, world

SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
HIVED: dict[str, Any] = {
    "name": "hived",
    "settings": {
        "physicalCluster": {
            "cellTypes": {
                "host": {"childCellType": "gpu", "childCellNumber": 4, "isNodeLevel": True},
                "rack": {"childCellType": "host", "childCellNumber": 2},
            },
            "physicalCells": [
                {"cellType": "rack", "cellChildren": [{"cellAddress": "n0"}, {"cellAddress": "n1"}]},
                {"cellType": "rack", "cellChildren": [{"cellAddress": "n2"}, {"cellAddress": "n3"}]},
            ],
        },
        "virtualClusters": {
            "blue": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]},
            "red": {"virtualCells": [{"cellType": "rack.host", "cellNumber": 2}]},
        },
    },
}


def gang(w: LocalCluster, name: str, tenant: str, size: int, devices: int, priority: int) -> list[str]:
    wish = {
        "virtualCluster": tenant,
        "priority": priority,
        "leafCellType": "gpu",
        "leafCellNumber": devices,
        "affinityGroup": {"name": name, "members": [{"podNumber": size, "leafCellNumber": devices}]},
    }
    names = [f"{name}-{i}" for i in range(size)]
    for each in names:
        w.pod(each, cpu="10m", annotations={SPEC: yaml.safe_dump(wish)})
    return names


def devices_of(w: LocalCluster, names: list[str]) -> list[tuple[str, str]]:
    """Machine and device of every device that these pods were given."""
    given = [(w.node_of(name), w.get(name)["metadata"]["annotations"][ISOLATION]) for name in names]
    return [(node, device) for node, devices in given for device in devices.split(",")]


def explain(w: LocalCluster, name: str) -> Any:
    assert w.waggle is not None
    return w.waggle.client.get(f"/v1/explain/default/{name}").json


def test_tenants_get_their_cells_and_no_device_is_given_twice() -> None:
    with world(nodes=4, scheduler=True, algorithm=HIVED) as w:
        blue, red = gang(w, "b", "blue", 4, 2, 1), gang(w, "r", "red", 2, 4, 1)
        w.until(lambda: w.all_bound(blue + red))
        given = devices_of(w, blue + red)
        assert len(given) == len(set(given)) == 16
        racks = [{w.node_of(name) in ("n0", "n1") for name in names} for names in (blue, red)]
        assert racks in ([{True}, {False}], [{False}, {True}])


def test_what_was_borrowed_is_evicted_for_whom_it_was_promised_to() -> None:
    with world(nodes=4, scheduler=True, algorithm=HIVED) as w:
        borrowed = gang(w, "opp", "red", 4, 4, -1)
        w.until(lambda: w.all_bound(borrowed))
        owed = gang(w, "owed", "blue", 2, 4, 0)
        w.until(lambda: w.all_bound(owed))
        assert len(set(devices_of(w, owed))) == 8


def test_a_restart_keeps_every_allocation() -> None:
    with world(nodes=4, scheduler=True, algorithm=HIVED) as w:
        first = gang(w, "b", "blue", 2, 4, 1)
        w.until(lambda: w.all_bound(first))
        w.stop_waggle()
        w.start_waggle()
        late = gang(w, "r", "red", 2, 4, 1)
        w.until(lambda: w.all_bound(late))
        assert len(set(devices_of(w, first + late))) == 16


def test_a_gang_that_is_promised_nothing_waits_and_says_why() -> None:
    with world(nodes=4, scheduler=True, algorithm=HIVED) as w:
        names = gang(w, "big", "red", 3, 4, 1)
        w.until(
            lambda: all(w.waggle.client.get(f"/v1/explain/default/{name}").json["pod"]["attempts"] for name in names)
        )
        # On a busy machine the copy that answers may be of before the pod.
        found = w.until(
            lambda: (page := w.waggle.client.get(f"/v1/explain/default/{names[0]}").json)["advice"] and page
        )
        assert found["reason"]["code"] == "CellsExhausted"
        assert found["advice"] == ["big can never run: it needs 12 gpu, and red is promised 8 gpu in rack."]
        assert found["summary"] == found["advice"][0]
        assert found["nearest"] == []


def test_pages_show_devices_tenants_and_the_priority_that_counts() -> None:
    """The pods ask kube-scheduler for cpu alone."""
    with world(nodes=4, scheduler=True, algorithm=HIVED) as w:
        names = gang(w, "r", "red", 2, 4, 1)
        w.until(lambda: w.all_bound(names))
        items = w.waggle.client.get("/v1/inspect/pods").json["items"]
        assert {(item["tenant"], item["devices"], item["priority"], item["gang"]) for item in items} == {
            ("red", 4, 1, "r")
        }
        nodes = w.waggle.client.get("/v1/inspect/nodes").json["items"]
        assert sorted(node["devices"] for node in nodes) == [0, 0, 4, 4]
