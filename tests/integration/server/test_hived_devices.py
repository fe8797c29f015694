"""Single bad devices through the whole server: from a node's annotation to placements, pages and explanations."""

from __future__ import annotations

from typing import Any

from tests.integration.server.test_hived import HIVED, devices_of, explain, gang
from tests.support.cluster.local_cluster import LocalCluster, world

DEVICES: dict[str, Any] = {**HIVED, "settings": {**HIVED["settings"], "badDevices": {}}}
BAD = "waggle.dev/bad-devices"


def mark(w: LocalCluster, node: str, text: str | None) -> None:
    w.cluster.patch("nodes", node, {"metadata": {"annotations": {BAD: text}}})


def bad_devices(w: LocalCluster) -> set[str]:
    """The addresses of bad devices, as the original's page shows them."""
    assert w.waggle is not None
    tops = w.waggle.client.get("/v1/inspect/clusterstatus/physicalcluster").json
    leafs = [leaf for top in tops for host in top["cellChildren"] for leaf in host["cellChildren"]]
    return {leaf["cellAddress"] for leaf in leafs if leaf["cellHealthiness"] == "Bad"}


def summary(w: LocalCluster) -> Any:
    assert w.waggle is not None
    return w.waggle.client.get("/v1/inspect/algorithm").json["state"]


def test_a_bad_device_is_not_used_and_waiting_pods_have_it_when_it_is_repaired() -> None:
    with world(nodes=4, scheduler=True, algorithm=DEVICES) as w:
        mark(w, "n1", "3")
        w.until(lambda: bad_devices(w) == {"0/n1/3"})
        first = gang(w, "b", "blue", 4, 2, 1) + gang(w, "r", "red", 2, 4, 1)
        w.until(lambda: w.all_bound(first[:4]))
        assert ("n1", "3") not in devices_of(w, first[:4])
        # Its first attempt may be refused because its gang is not complete yet.
        w.until(lambda: any(line.endswith("or bad devices: n1 3.") for line in explain(w, first[4])["advice"]))

        mark(w, "n1", None)

        w.until(lambda: w.all_bound(first))
        assert len(set(devices_of(w, first))) == 16


def test_what_cannot_be_read_is_shown_and_changes_nothing() -> None:
    with world(nodes=4, scheduler=True, algorithm=DEVICES) as w:
        mark(w, "n1", "3")
        w.until(lambda: bad_devices(w) == {"0/n1/3"})

        mark(w, "n1", "three")

        w.until(lambda: "n1" in summary(w)["nodeWarnings"])
        assert "expected device numbers" in summary(w)["nodeWarnings"]["n1"]
        assert bad_devices(w) == {"0/n1/3"}


def test_a_restart_knows_bad_devices_and_who_runs_on_them() -> None:
    with world(nodes=4, scheduler=True, algorithm=DEVICES) as w:
        first = gang(w, "r", "red", 2, 3, 1)
        w.until(lambda: w.all_bound(first))
        node, device = devices_of(w, first)[0]
        mark(w, node, device)
        w.until(lambda: len(bad_devices(w)) == 1)
        before = bad_devices(w)

        w.stop_waggle()
        w.start_waggle()

        assert bad_devices(w) == before
        late = gang(w, "late", "red", 2, 1, 1)
        w.until(lambda: w.all_bound(late))
        given = devices_of(w, first + late)
        assert len(set(given)) == 8
