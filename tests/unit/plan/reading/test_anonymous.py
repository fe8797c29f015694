"""A world without names: nothing of them is left, and a plan of it has the same shape."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest
import yaml

from algorithm.model import lookup, pairs
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import Requirement
from extender.plan.reading.anonymous import anonymous
from extender.plan.reading.shapes import shaped_nodes
from extender.plan.records import Changes, Options, PlanPod, RawObject, World
from extender.plan.run.making import make_plan
from tests.unit.plan.reading.manifests import Object, containers, expanded, job, pod, pod_spec

_NUMBER = re.compile("[a-z][0-9]{6}")
_HIVED = "hivedscheduler.microsoft.com/pod-scheduling-spec"


def _annotated(text: str, key: str = _HIVED) -> str:
    """The annotation as it is without names."""
    (found,) = expanded(pod("p")).pods
    record = msgspec.structs.replace(found.pod.pod, annotations=pairs({key: text}))
    world = World(pods=(msgspec.structs.replace(found, pod=msgspec.structs.replace(found.pod, pod=record)),))
    return lookup(anonymous(world).world.pods[0].pod.pod.annotations, key) or ""


def _world(seed: int) -> World:
    """Racks, gangs that fit and that do not, selectors, priorities, dependencies; some pods run."""
    chosen = random.Random(seed)
    nodes = shaped_nodes(8, "cpu=8,label:rack=rack-%d/4,taint:secret-key=secret-value:PreferNoSchedule", prefix="host-")
    objects: list[Object] = []
    for number in range(chosen.randint(3, 8)):
        name = f"team-{chosen.choice('abcxyz')}-{number}"
        size = chosen.randint(1, 5)
        gang = {"annotations": {"waggle.dev/gang": name, "waggle.dev/gang-min": str(size)}}
        if number and chosen.random() < 0.3:
            gang["annotations"]["waggle.dev/after"] = f"[{{group: {objects[-1]['metadata']['name']}}}]"
        spec = pod_spec(
            restartPolicy="Never",
            containers=containers(cpu=str(chosen.randint(1, 6))),
            **({"nodeSelector": {"rack": f"rack-{chosen.randint(0, 2)}"}} if chosen.random() < 0.5 else {}),
        )
        objects.append(job(name, size, template={"metadata": gang, "spec": spec}))
    pods = expanded(*objects).pods
    running = (_placed(each, node.name) for each, node in zip(pods[:4], nodes[:4], strict=False))
    return World(nodes=nodes, pods=(*running, *pods[4:]), source="https://api.secret-company.example")


def _placed(pod: PlanPod, node: str) -> PlanPod:
    record = msgspec.structs.replace(pod.pod.pod, node_name=node, phase="Running")
    return msgspec.structs.replace(pod, pod=msgspec.structs.replace(pod.pod, pod=record), ready=True)


def _shape(world: World) -> Any:
    """What happens to each pod, with the places of names in place of names."""
    nodes = {each.name: index for index, each in enumerate(world.nodes)}
    places = {each.pod.key: index for index, each in enumerate(world.pods)}
    plan = make_plan(world, Changes(), Options(seed=3))
    rows = [
        (places.get((each.namespace, each.name), -1), each.sign, each.code, nodes.get(each.node), each.wave)
        for each in plan.rows
    ]
    return sorted(rows), plan.waves, len(plan.critical_path)


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_of_it_has_the_same_shape(seed: int) -> None:
    world = _world(seed)
    assert _shape(anonymous(world).world) == _shape(world)


def _hived(gang: str, tenant: str) -> list[Object]:
    group = {"name": gang, "members": [{"podNumber": 2, "leafCellNumber": 4}]}
    cells = {"leafCellType": "V100", "leafCellNumber": 4}
    spec = {"virtualCluster": tenant, "priority": 1, **cells, "affinityGroup": group}
    return [pod(f"{gang}-{number}", annotations={_HIVED: yaml.safe_dump(spec)}) for number in range(2)]


def test_a_plan_by_hived_has_the_same_shape() -> None:
    racks = [[{"cellAddress": f"worker-{2 * rack + place}"} for place in range(2)] for rack in range(2)]
    settings = {
        "physicalCluster": {
            "cellTypes": {
                "V100-NODE": {"childCellType": "V100", "childCellNumber": 4, "isNodeLevel": True},
                "RACK": {"childCellType": "V100-NODE", "childCellNumber": 2},
            },
            "physicalCells": [{"cellType": "RACK", "cellChildren": cells} for cells in racks],
        },
        "virtualClusters": {
            name: {"virtualCells": [{"cellType": "RACK", "cellNumber": 1}]} for name in ("research", "product")
        },
    }
    world = World(
        nodes=shaped_nodes(4, "cpu=64,label:type=V100-NODE", prefix="worker-"),
        pods=expanded(*_hived("bert", "research"), *_hived("gpt", "product"), *_hived("late", "product")).pods,
        settings=yaml.safe_dump({"algorithm": {"name": "hived", "settings": settings}}),
    )
    rows, *_ = _shape(world)
    assert [row[1] for row in rows] == ["+"] * 4 + ["?"] * 2
    assert _shape(anonymous(world).world) == _shape(world)


def test_no_name_is_left() -> None:
    budget = Budget(namespace="team-a", name="guard-web", selector=(Requirement("app", "In", ("secret-app",)),))
    raw = {
        "metadata": {"name": "pool-one", "namespace": "team-a"},
        "spec": {"workload": "secret-sts", "tenant": "acme"},
    }
    pool = RawObject(
        kind="Pool",
        api_version="waggle.dev/v1alpha1",
        namespace="team-a",
        name="pool-one",
        json=msgspec.json.encode(raw),
    )
    world = msgspec.structs.replace(_world(1), budgets=(budget,), objects=(pool,))
    text = msgspec.json.encode(anonymous(world).world).decode()
    words = (
        "team-",
        "host-",
        "rack-",
        "secret-value",
        "secret-app",
        "secret-sts",
        "secret-company",
        "acme",
        "guard",
        "pool-one",
    )
    assert [word for word in words if word in text] == []
    assert "secret-key" not in text


def test_it_is_the_same_each_time_and_keeps_what_everybody_has() -> None:
    world = _world(2)
    assert anonymous(world).world == anonymous(world).world
    assert {each.pod.pod.namespace for each in anonymous(world).world.pods} == {"default"}


def test_annotations_keep_their_form() -> None:
    group = {"name": "bert", "members": [{"podNumber": 2, "leafCellNumber": 1}]}
    spec = {
        "virtualCluster": "Research",
        "priority": 1,
        "leafCellType": "V100",
        "leafCellNumber": 1,
        "affinityGroup": group,
    }
    hived = yaml.safe_dump(spec, sort_keys=False)
    found = yaml.safe_load(_annotated(hived))
    assert _NUMBER.fullmatch(found["virtualCluster"])
    assert _NUMBER.fullmatch(found["affinityGroup"]["name"])
    assert {**found, "virtualCluster": 0, "affinityGroup": 0} == {
        "virtualCluster": 0,
        "priority": 1,
        "leafCellType": "V100",
        "leafCellNumber": 1,
        "affinityGroup": 0,
    }
    after = yaml.safe_load(_annotated('["job/load", {group: db, state: Ready}]', "waggle.dev/after"))
    assert _NUMBER.fullmatch(after[0].removeprefix("job/"))
    assert _NUMBER.fullmatch(after[1]["group"])
    assert after[1]["state"] == "Ready"
    assert _annotated("3", "waggle.dev/gang-min") == "3"


def test_tenants_and_nodes_in_the_configuration_are_renamed_too() -> None:
    world = World(
        nodes=shaped_nodes(2, prefix="worker-"),
        pods=_tenants("Research"),
        settings=yaml.safe_dump(
            {
                "server": {"tls": {"cert_file": "/secret", "key_file": "/secret"}},
                "algorithm": {
                    "name": "hived",
                    "settings": {
                        "physicalCluster": {"physicalCells": [{"cellType": "NODE", "cellAddress": "worker-1"}]},
                        "virtualClusters": {"Research": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]}},
                    },
                },
            }
        ),
    )
    found = anonymous(world).world
    settings = yaml.safe_load(found.settings)["algorithm"]["settings"]
    (tenant,) = settings["virtualClusters"]
    annotation = lookup(found.pods[0].pod.pod.annotations, _HIVED) or ""
    assert yaml.safe_load(annotation)["virtualCluster"] == tenant != "Research"
    assert settings["physicalCluster"]["physicalCells"] == [{"cellType": "NODE", "cellAddress": found.nodes[1].name}]
    assert "secret" not in found.settings


def _tenants(name: str) -> tuple[PlanPod, ...]:
    return expanded(pod("p", annotations={_HIVED: f"virtualCluster: {name}\npriority: 1\nleafCellNumber: 1"})).pods


def test_the_scheduler_configuration_names_no_host() -> None:
    text = yaml.safe_dump(
        {
            "clientConnection": {"kubeconfig": "/home/secret"},
            "extenders": [
                {"urlPrefix": "https://secret.example:9096/v1", "tlsConfig": {"caFile": "/secret"}, "weight": 1}
            ],
        }
    )
    found = anonymous(World(scheduler=text)).world.scheduler
    assert yaml.safe_load(found) == {"extenders": [{"urlPrefix": "http://127.0.0.1:9096/v1", "weight": 1}]}
