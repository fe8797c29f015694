"""The configuration changes under a server that works: bindings in flight, a preemption under way, a broken file."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.server.test_hived import HIVED, devices_of, explain, gang
from tests.support.cluster.local_cluster import LocalCluster, world


def rewrite(w: LocalCluster, change: Any) -> None:
    """Somebody edits the algorithm's settings and sends SIGHUP."""
    whole = json.loads(w.config.read_text())
    change(whole["algorithm"]["settings"])
    w.config.write_text(json.dumps(whole))
    w.waggle.service.reconfiguration.request()


def reloads(w: LocalCluster, result: str) -> float:
    [metric] = [each for each in w.waggle.runtime.model.stats() if each.name == "waggle_configuration_reloads_total"]
    return {labels["result"]: value for labels, value in metric.samples}[result]


def promise(settings: Any, **hosts: int) -> None:
    settings["virtualClusters"] = {
        name: {"virtualCells": [{"cellType": "rack.host", "cellNumber": number}]} for name, number in hosts.items()
    }


def was_just_now(time: str) -> bool:
    return abs(datetime.now(UTC) - datetime.fromisoformat(time)) < timedelta(minutes=5)


def groups(w: LocalCluster) -> dict[str, Any]:
    items = w.waggle.client.get("/v1/inspect/affinitygroups/").json["items"]
    return {item["metadata"]["name"]: item["status"] for item in items}


def hived(**more: Any) -> Any:
    return world(nodes=4, scheduler=True, algorithm={**copy.deepcopy(HIVED), "reload_seconds": 0}, **more)


def test_a_gang_that_was_promised_nothing_runs_once_it_is_promised_something() -> None:
    with hived() as w:
        names = gang(w, "late", "green", 2, 4, 1)
        w.until(
            lambda: all(w.waggle.client.get(f"/v1/explain/default/{name}").json["pod"]["attempts"] for name in names)
        )
        rewrite(w, lambda settings: promise(settings, blue=1, green=2))
        w.until(lambda: w.all_bound(names))
        assert len(set(devices_of(w, names))) == 8
        assert reloads(w, "done") == 1


def test_what_runs_goes_on_and_who_came_first_keeps_the_promise() -> None:
    with hived() as w:
        first = gang(w, "first", "red", 1, 4, 1)
        w.until(lambda: w.all_bound(first))
        second = gang(w, "second", "red", 1, 4, 1)
        w.until(lambda: w.all_bound(second))
        before = devices_of(w, first + second)
        rewrite(w, lambda settings: promise(settings, blue=3, red=1))
        w.until(lambda: reloads(w, "done") == 1)
        assert "lazyPreemptionStatus" not in groups(w)["first"]
        lost = groups(w)["second"]["lazyPreemptionStatus"]
        assert lost["preemptor"] == "second"
        assert was_just_now(lost["preemptionTime"])
        assert devices_of(w, first + second) == before
        owed = gang(w, "owed", "blue", 3, 4, 1)
        w.until(lambda: w.all_bound(owed))
        assert w.cluster.get("pods", "second-0") is None, "what it has now is opportunistic"


def test_a_broken_file_changes_nothing_and_is_told() -> None:
    with hived() as w:
        names = gang(w, "b", "blue", 2, 4, 1)
        w.until(lambda: w.all_bound(names))
        rewrite(w, lambda settings: promise(settings, blue=3, red=3))
        w.until(lambda: reloads(w, "failed") == 1)
        ready = w.waggle.client.get("/readyz")
        assert ready.status == 200
        assert "promised 6 cells host" in ready.json["detail"]
        late = gang(w, "r", "red", 2, 4, 1)
        w.until(lambda: w.all_bound(late))
        assert len(set(devices_of(w, names + late))) == 16


def test_amid_bindings_in_flight_and_twice_quickly() -> None:
    with hived() as w:
        w.faults.inject("delay", method="POST", path="/binding$", seconds=2.0, times=2)
        names = gang(w, "r", "red", 2, 4, 1)
        w.until(lambda: any(state == "committing" for state in w.waggle.holds().values()))
        for hosts in (3, 2, 3):
            rewrite(w, lambda settings, hosts=hosts: promise(settings, blue=1, red=hosts))
        w.until(lambda: reloads(w, "done") >= 1)
        w.faults.clear()
        w.until(lambda: w.all_bound(names))
        assert len(set(devices_of(w, names))) == 8
        w.until(lambda: w.waggle.machine.driver.algorithm.hive.layout.tenants["red"].quota == {"rack": {2: 3}})


def test_amid_a_preemption() -> None:
    with hived() as w:
        borrowed = gang(w, "opp", "red", 4, 4, -1)
        w.until(lambda: w.all_bound(borrowed))
        w.faults.inject("status", method="POST", path="/eviction$", status=503, times=None)
        owed = gang(w, "owed", "blue", 2, 4, 0)
        w.until(lambda: any(pod_info.preemption is not None for pod_info in w.waggle.pod_infos()))
        rewrite(w, lambda settings: settings.update(keepHealthyCellsWhole=True))
        w.until(lambda: reloads(w, "done") == 1)
        w.faults.clear()
        w.until(lambda: w.all_bound(owed))
        assert len(set(devices_of(w, owed))) == 8


def test_a_preemption_whose_tenant_is_gone_is_given_up_and_spares_its_victims() -> None:
    with hived() as w:
        borrowed = gang(w, "opp", "red", 4, 4, -1)
        w.until(lambda: w.all_bound(borrowed))
        w.faults.inject("status", method="POST", path="/eviction$", status=503, times=None)
        owed = gang(w, "owed", "blue", 2, 4, 0)
        w.until(lambda: any(pod_info.preemption is not None for pod_info in w.waggle.pod_infos()))
        rewrite(w, lambda settings: promise(settings, red=4))
        w.until(lambda: reloads(w, "done") == 1)
        w.faults.clear()
        w.until(lambda: all(explain(w, name)["reason"]["code"] == "PodInvalid" for name in owed))
        assert all(w.get(name)["spec"].get("nodeName") for name in borrowed)
