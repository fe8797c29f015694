"""HiveD's switches for several tenants, through the whole server with a kube-scheduler (stand-in), and restarts."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import yaml

from tests.support.cluster.local_cluster import LocalCluster, world

SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"


def hived(**settings: Any) -> dict[str, Any]:
    """Two racks of two machines with four devices each."""
    cluster = {
        "cellTypes": {
            "host": {"childCellType": "gpu", "childCellNumber": 4, "isNodeLevel": True},
            "rack": {"childCellType": "host", "childCellNumber": 2},
        },
        "physicalCells": [
            {"cellType": "rack", "cellChildren": [{"cellAddress": "n0"}, {"cellAddress": "n1"}]},
            {"cellType": "rack", "cellChildren": [{"cellAddress": "n2"}, {"cellAddress": "n3"}]},
        ],
    }
    promised = {
        "blue": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]},
        "red": {"virtualCells": [{"cellType": "rack.host", "cellNumber": 2}]},
    }
    return {"name": "hived", "settings": {"physicalCluster": cluster, "virtualClusters": promised, **settings}}


def gang(
    w: LocalCluster,
    name: str,
    tenant: str,
    *,
    size: int,
    devices: int,
    priority: int = 0,
    prefix: str = "",
    **more: Any,
) -> list[str]:
    """The names of the pods of a gang, which begin with `prefix` if there is another gang of that name."""
    members = [{"podNumber": size, "leafCellNumber": devices}]
    wish = {"virtualCluster": tenant, "priority": priority, "leafCellType": "gpu", "leafCellNumber": devices}
    wish |= {"affinityGroup": {"name": name, "members": members}, **more}
    names = [f"{prefix}{name}-{number}" for number in range(size)]
    for each in names:
        w.pod(each, cpu="10m", annotations={SPEC: yaml.safe_dump(wish)})
    return names


def devices_of(w: LocalCluster, *names: str) -> list[tuple[str, str]]:
    given = [(w.node_of(name), w.get(name)["metadata"]["annotations"][ISOLATION]) for name in names]
    return [(node, device) for node, devices in given for device in devices.split(",")]


def page(w: LocalCluster, path: str) -> Any:
    assert w.waggle is not None
    answer = w.waggle.client.get(f"/v1/{path}")
    assert answer.status == 200, answer.text
    return answer.json


def why(w: LocalCluster, name: str) -> Any:
    """Once the pod was asked about."""
    w.until(lambda: page(w, f"explain/default/{name}")["pod"]["attempts"])
    return page(w, f"explain/default/{name}")


def gauges(w: LocalCluster) -> dict[tuple[str, str], float]:
    """HiveD's numbers at /metrics, by name and virtual cluster."""
    assert w.waggle is not None
    text = w.waggle.client.get("/metrics").text
    rows = re.findall(r'^waggle_hived_(\w+)\{.*virtual_cluster="(\w+)".*\} (\S+)$', text, re.MULTILINE)
    return {(name, tenant): float(value) for name, tenant, value in rows}


def restart(w: LocalCluster) -> None:
    w.stop_waggle()
    w.start_waggle()


def test_two_tenants_use_the_same_name_and_each_sees_its_own() -> None:
    with world(nodes=4, scheduler=True, algorithm=hived(groupNamesPer=["virtualCluster"])) as w:
        blue = gang(w, "train", "blue", size=2, devices=4, prefix="b-")
        red = gang(w, "train", "red", size=2, devices=4, prefix="r-")
        w.until(lambda: w.all_bound(blue + red))
        assert len(set(devices_of(w, *blue, *red))) == 16
        before = page(w, "inspect/affinitygroups/")["items"]
        assert [each["metadata"]["path"] for each in before] == [
            "/v1/inspect/affinitygroups/blue/train",
            "/v1/inspect/affinitygroups/red/train",
        ]
        assert page(w, "inspect/affinitygroups/red/train")["status"]["vc"] == "red"
        restart(w)
        after = page(w, "inspect/affinitygroups/")["items"]
        assert [each["metadata"] for each in after] == [each["metadata"] for each in before]
        for shown, known in zip(after, before, strict=True):
            assert shown["status"]["physicalPlacement"] == known["status"]["physicalPlacement"]


def test_a_namespace_that_may_not_use_a_virtual_cluster_is_told_who_may_and_bound_pods_stay() -> None:
    with world(nodes=4, scheduler=True, algorithm=hived()) as w:
        early = gang(w, "early", "blue", size=1, devices=4)
        w.until(lambda: w.all_bound(early))
        w.stop_waggle()
        w._sections["algorithm"] = hived(allowedNamespaces={"blue": ["team-blue"]})
        w.start_waggle()
        late, open_one = gang(w, "late", "blue", size=1, devices=4), gang(w, "red", "red", size=1, devices=4)
        w.until(lambda: w.all_bound(open_one))
        found = why(w, late[0])
        text = "namespace default may not use virtual cluster blue; allowed: team-blue"
        assert found["reason"]["code"] == "PodInvalid"
        assert found["reason"]["text"].endswith(text)
        w.until(lambda: text in w.message(late[0]))
        assert page(w, "inspect/affinitygroups/early")["status"]["physicalPlacement"]
        assert not page(w, "inspect/algorithm")["state"]["strangers"]


def test_opportunistic_pods_stop_at_their_limit_and_go_on_when_one_ends() -> None:
    with world(nodes=4, scheduler=True, algorithm=hived(opportunisticLimits={"cluster": "50%"})) as w:
        first, second = (gang(w, name, "red", size=1, devices=4, priority=-1) for name in ("x", "y"))
        w.until(lambda: w.all_bound(first + second))
        third = gang(w, "z", "blue", size=1, devices=4, priority=-1)
        found = why(w, third[0])
        assert found["reason"]["code"] == "BorrowingLimited"
        limit = "opportunistic pods may have at most 8 devices of the cluster (opportunisticLimits.cluster)"
        assert f"{limit}, which red have now" in found["reason"]["text"]
        assert any("8 are used: x of red (4), y of red (4)" in line for line in found["advice"])
        restart(w)
        assert gauges(w)["borrowed_devices", "red"] == 8
        assert limit in str(w.filter(third[0]))
        w.cluster.delete("pods", first[0])
        w.until(lambda: w.all_bound(third))


def test_a_gang_gives_devices_back_pod_by_pod_also_across_a_restart() -> None:
    with world(nodes=4, scheduler=True, algorithm=hived(obeyGangRelease=True)) as w:
        sweep = gang(w, "sweep", "blue", size=2, devices=4)
        training = gang(w, "training", "red", size=2, devices=4, gangReleaseEnable=True)
        w.until(lambda: w.all_bound(sweep + training))
        freed = devices_of(w, sweep[0])
        w.cluster.delete("pods", sweep[0])
        w.cluster.delete("pods", training[0])
        w.until(lambda: (gauges(w)["used_devices", "blue"], gauges(w)["used_devices", "red"]) == (4, 8))
        restart(w)
        # What has ended is not known any more, only what runs: one place of four devices each.
        w.until(lambda: gauges(w)["used_devices", "blue"] == 4)
        assert gauges(w)["used_devices", "red"] == 8
        following = gang(w, "following", "blue", size=1, devices=4)
        w.until(lambda: w.all_bound(following))
        assert devices_of(w, *following) == freed


def test_metrics_tell_what_each_tenant_has_and_waits_for() -> None:
    with world(nodes=4, scheduler=True, algorithm=hived()) as w:
        assert gauges(w)["guaranteed_devices", "blue"] == gauges(w)["guaranteed_devices", "red"] == 8
        used = gang(w, "g", "blue", size=1, devices=4)
        borrowed = gang(w, "o", "red", size=1, devices=2, priority=-1)
        w.until(lambda: w.all_bound(used + borrowed))
        waiting = gang(w, "big", "red", size=3, devices=4)
        w.until(lambda: gauges(w)["waiting_devices", "red"] == 12)
        why(w, waiting[0])
        found = gauges(w)
        assert found["used_devices", "blue"] == 4
        assert found["borrowed_devices", "red"] == 2
        assert found["waiting_pods", "red"] == 3
        assert found["bad_devices", "blue"] == 0
        node = deepcopy(w.cluster.get("nodes", w.node_of(used[0])))
        node["spec"]["unschedulable"] = True
        w.cluster.apply(node)
        w.until(lambda: gauges(w)["bad_devices", "blue"] == 4)
        restart(w)
        w.until(lambda: gauges(w)["waiting_devices", "red"] == 12)
        after = gauges(w)
        assert after["used_devices", "blue"] == 4
        assert after["borrowed_devices", "red"] == 2
        assert after["bad_devices", "blue"] == 4
