"""Vpods in plans: where they are placed, how their sets are scaled, and that the server's own dry run says the same."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from extender.ordering.records import Target
from extender.plan.reading.documents import Source, read_documents
from extender.plan.reading.shapes import shaped_nodes
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import Changes, Options, Plan, RawObject, Sign, World
from extender.plan.run.engines.hosts import host_node, host_pod
from extender.plan.run.making import PlanRun, make_plan
from extender.plan.run.state import PlanState
from extender.vpods.copies import SetCopy, copy_set
from extender.vpods.engine import VPodEngine
from extender.vpods.events import (
    HostNodeSeen,
    HostPodSeen,
    SetsConfigured,
    TermBegun,
    VPodSeen,
    WorkloadSeen,
)
from extender.vpods.names import write_placements
from extender.vpods.records import ObjectKey, SetSettings, Workload
from extender.vpods.simulation import Simulation
from extender.vpods.vpodreader import decode_vpod
from tests.support.plan.worlds import running

WAGGLE = "waggle.dev/v1alpha1"


def stateful_set(replicas: int = 2, *, cpu: str = "1") -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "hosts"},
        "spec": {
            "replicas": replicas,
            "serviceName": "hosts",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "h"}},
            "template": {"metadata": {"labels": {"app": "h"}}, "spec": {"containers": [container]}},
        },
    }


def vpod_set(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": WAGGLE,
        "kind": "VPodSet",
        "metadata": {"name": "s"},
        "spec": {"statefulSet": "hosts", "capacity": 10, "maxReplicas": 5} | spec,
    }


def vpod(name: str, vreplicas: int, **spec: Any) -> dict[str, Any]:
    spec = {"set": "s", "vreplicas": vreplicas} | spec
    return {"apiVersion": WAGGLE, "kind": "VPod", "metadata": {"name": name}, "spec": spec}


def raw(obj: dict[str, Any]) -> RawObject:
    name = obj["metadata"]["name"]
    return RawObject(
        kind=obj["kind"], api_version=obj["apiVersion"], namespace="default", name=name, json=json.dumps(obj).encode()
    )


def plan(*objects: dict[str, Any], cores: int = 20) -> Plan:
    read = read_documents([Source("f.yaml", yaml.safe_dump_all(objects))]).require()
    return make_plan(World(nodes=shaped_nodes(1, f"cpu={cores},memory=8Gi")), Changes(create=read.objects))


def vpods(made: Plan) -> dict[str, tuple[Sign, str, str]]:
    return {row.name: (row.sign, row.node, row.code) for row in made.rows if row.kind == "VPod"}


def test_vpods_are_placed_on_pods_that_the_plan_places() -> None:
    made = plan(stateful_set(2), vpod_set(minReplicas=2), vpod("a", 10))
    assert vpods(made) == {"a": (Sign.RUNS, "hosts-0 x5, hosts-1 x5", "")}


def test_a_set_with_more_pods_than_it_needs_is_scaled_down() -> None:
    made = plan(stateful_set(3), vpod_set(), vpod("a", 10))
    assert vpods(made) == {"a": (Sign.RUNS, "hosts-0 x10", "")}
    assert made.warnings == ("StatefulSet default/hosts would be scaled from 3 to 1 for its vpods",)


def test_a_set_grows_as_far_as_it_may() -> None:
    made = plan(stateful_set(1), vpod_set(), vpod("a", 60))
    assert {row.name for row in made.rows if row.kind == "Pod"} == {f"hosts-{ordinal}" for ordinal in range(5)}
    assert vpods(made)["a"][::2] == (Sign.WAITS, "NotEnoughRoom")
    [row] = [row for row in made.rows if row.kind == "VPod"]
    assert row.fix == "would be placed if set default/s might have 1 pod more than 5"
    assert made.warnings == ("StatefulSet default/hosts would be scaled from 1 to 5 for its vpods",)


def test_pods_that_no_node_has_room_for_host_nothing() -> None:
    made = plan(stateful_set(1, cpu="8"), vpod_set(), vpod("a", 30))
    waiting = {row.name for row in made.rows if row.kind == "Pod" and row.sign is Sign.WAITS}
    assert waiting == {"hosts-2"}
    [row] = [row for row in made.rows if row.kind == "VPod"]
    assert (row.sign, row.node) == (Sign.WAITS, "hosts-0 x10, hosts-1 x10")
    assert row.fix == "would be placed if the pods of StatefulSet hosts that wait had nodes"


def test_a_set_grows_from_zero() -> None:
    made = plan(stateful_set(0), vpod_set(), vpod("a", 3))
    assert vpods(made) == {"a": (Sign.RUNS, "hosts-0 x3", "")}


def test_a_vpod_without_a_set_and_a_second_set_of_a_stateful_set_are_said() -> None:
    other = vpod_set() | {"metadata": {"name": "t"}}
    made = plan(stateful_set(1), vpod_set(), other, vpod("a", 1), vpod("b", 1, set="none"))
    assert vpods(made)["b"] == (Sign.WAITS, "", "UnknownSet")
    assert any("VPodSet default/t is not served" in said for said in made.warnings)


def test_vpods_move_off_a_node_that_is_drained() -> None:
    nodes = shaped_nodes(2, "cpu=2,memory=8Gi")
    owner = Target("StatefulSet", "default", "hosts")
    pods = tuple(
        running(f"hosts-{ordinal}", nodes[ordinal].name, more={"owner": owner}, cpu="2") for ordinal in range(2)
    )
    placed = vpod("a", 4) | {"status": {"placements": [{"podName": f"hosts-{n}", "vreplicas": 2} for n in range(2)]}}
    objects = (raw(stateful_set(2, cpu="2")), raw(vpod_set(autoscale=False)), raw(placed))
    made = make_plan(World(nodes=nodes, pods=pods, objects=objects), Changes(drain=(nodes[1].name,)))
    [row] = [row for row in made.rows if row.kind == "VPod"]
    assert (row.sign, row.before, row.node) == (Sign.MOVES, "hosts-0 x2, hosts-1 x2", "hosts-0 x4")


def drawn(seed: int) -> tuple[World, SetSettings]:
    """A cluster with a set at random, and the set's settings."""
    random = Random(seed)
    replicas, capacity = random.randint(1, 6), random.randint(1, 8)
    nodes = shaped_nodes(3, "cpu=64,memory=64Gi")
    owner = Target("StatefulSet", "default", "hosts")
    pods = tuple(
        running(f"hosts-{ordinal}", nodes[random.randrange(3)].name, more={"owner": owner})
        for ordinal in range(replicas)
    )
    room = [capacity] * replicas
    objects = [stateful_set(replicas), vpod_set(capacity=capacity, maxReplicas=8)]
    for number in range(random.randint(1, 6)):
        counts: dict[int, int] = {}
        for _ in range(random.randint(0, capacity)):
            ordinal = random.randrange(replicas)
            if room[ordinal]:
                room[ordinal] -= 1
                counts[ordinal] = counts.get(ordinal, 0) + 1
        wanted = max(0, sum(counts.values()) + random.randint(-3, 6))
        status = [{"podName": name, "vreplicas": count} for name, count in write_placements(counts, "hosts")]
        objects.append(vpod(f"v{number}", wanted) | {"status": {"placements": status}})
    world = World(nodes=nodes, pods=pods, objects=tuple(map(raw, objects)))
    settings = SetSettings(key=ObjectKey("default", "s"), workload="hosts", capacity=capacity, max_replicas=8)
    return world, settings


def servers_answer(world: World, settings: SetSettings) -> dict[str, int]:
    """What the dry run of the server's own page says, see `summed`."""
    engine = VPodEngine()
    workload = Workload(ObjectKey("default", "hosts"), "w", "1", len(world.pods))
    told: list[Any] = [TermBegun(1), SetsConfigured((settings,)), WorkloadSeen(workload)]
    told += [HostNodeSeen(host_node(each.node)) for each in world.nodes]
    told += [HostPodSeen(host_pod(each)) for each in world.pods]
    for each in world.objects:
        if each.kind == "VPod":
            obj = json.loads(each.json)
            obj["metadata"] |= {"namespace": "default", "uid": each.name, "resourceVersion": "1"}
            record = decode_vpod(json.dumps(obj).encode())
            assert record is not None
            told.append(VPodSeen(record))
    for event in told:
        engine.handle(event, 0.0)
    copy = copy_set(engine, settings.key, 0.0)
    assert copy is not None
    simulation = Simulation(copy)
    for _ in simulation.run():
        pass
    after = copy_set(simulation.engine, settings.key, simulation.now)
    assert after is not None
    return summed(after)


def summed(after: SetCopy) -> dict[str, int]:
    """The replicas, and the vreplicas that have a pod. Of each vpod, if all have: which of them waits depends on which
    pod came first, and a dry run of a set starts all of its pods at once."""
    placed = {each.record.key.name: sum(each.placed.values()) for each in after.vpods}
    lacking = sum(each.pending for each in after.vpods)
    return {"replicas": after.replicas, "placed": sum(placed.values()), "lacking": lacking} | (
        {} if lacking else placed
    )


def plans_answer(world: World) -> dict[str, int]:
    state = PlanState(world, Changes(), Options())
    for _ in PlanRun(state).run():
        pass
    _, vpods = state.engines
    engine = vpods.engine
    after = copy_set(engine, ObjectKey("default", "s"), state.clock.time)
    assert after is not None
    return summed(after)


@pytest.mark.parametrize("seed", range(15))
def test_a_plan_says_what_the_servers_dry_run_says(seed: int) -> None:
    world, settings = drawn(seed)
    assert plans_answer(world) == servers_answer(world, settings)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_a_plan_says_what_the_servers_dry_run_says_at_length(seed: int) -> None:
    world, settings = drawn(seed)
    assert plans_answer(world) == servers_answer(world, settings)


def test_a_set_without_pods_grows_by_pods_with_requests() -> None:
    """The world has no pod to copy: what they need is in the template. Images and commands are not kept."""
    reader = WorldReader()
    for each in (stateful_set(0, cpu="2"), vpod_set(capacity=1)):
        each = {**each, "metadata": {**each["metadata"], "namespace": "default"}}
        reader.add(each["apiVersion"], each["kind"], json.dumps(each).encode())
    assert not reader.faults
    world = msgspec.structs.replace(reader.world(), nodes=shaped_nodes(1, "cpu=5,memory=8Gi"))
    assert not any(b"image" in each.json for each in world.objects)
    read = read_documents([Source("f.yaml", yaml.safe_dump(vpod("a", 3)))]).require()
    made = make_plan(world, Changes(create=read.objects))
    assert {row.name: row.sign for row in made.rows if row.kind == "Pod"} == {
        "hosts-0": Sign.RUNS,
        "hosts-1": Sign.RUNS,
        "hosts-2": Sign.WAITS,
    }
