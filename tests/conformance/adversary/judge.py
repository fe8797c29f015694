"""What must hold of every answer and every page, whatever happened before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from algorithm.interface import Bind, InvalidArgument, Preempt
from algorithm.model import Pod
from tests.conformance.adversary.instance import (
    Instance,
    Status,
    devices_of,
    gang_of,
    groups,
    is_guaranteed,
    plan_of,
    snapshot,
    wish_of,
)


def check_bind(instance: Instance, pod: Pod, bind: Bind, offered: Collection[str], healthy: Collection[str]) -> None:
    """The pod gets as many free devices as it asks for, on an offered machine, and its gang has a plan."""
    wish, placed = wish_of(pod), pod.placed(bind.node, bind.annotations)
    mine = devices_of(placed)
    assert bind.node in offered, f"{pod.uid} on {bind.node}, which was not offered"
    assert len(mine) == len(set(mine)) == wish["leafCellNumber"], f"{pod.uid} gets {mine}"
    taken = {device: each.uid for each in instance.allocated.values() for device in devices_of(each)}
    for device in mine:
        assert device not in taken, f"{pod.uid} gets {device}, which {taken[device]} has"
    plan = plan_of(placed)
    assert (bind.node, tuple(index for _, index in mine)) in plan, f"{pod.uid}: {mine} is not in {plan}"
    _check_plan_of_gang(instance, pod, wish, plan)
    kin = [each for each in instance.allocated.values() if gang_of(each.uid) == gang_of(pod.uid)]
    if not kin and gang_of(pod.uid) not in groups(instance.algorithm):
        _check_new_plan(instance, pod, plan, healthy)


def _check_plan_of_gang(
    instance: Instance, pod: Pod, wish: Mapping[str, Any], plan: list[tuple[str, tuple[int, ...]]]
) -> None:
    cluster = instance.cluster
    members = wish["affinityGroup"]["members"]
    asked = sorted(each["leafCellNumber"] for each in members for _ in range(each["podNumber"]))
    assert sorted(len(devices) for _, devices in plan) == asked, f"{pod.uid}: plan {plan} for {asked}"
    [chain] = {cluster.machines[node] for node, _ in plan}
    assert wish.get("leafCellType") in (None, cluster.leaf[chain]), f"{pod.uid}: another kind of device in {chain}"
    known = range(cluster.width[chain])
    assert all(index in known for _, devices in plan for index in devices), f"{pod.uid}: no such device in {plan}"


def _check_new_plan(
    instance: Instance, pod: Pod, plan: list[tuple[str, tuple[int, ...]]], healthy: Collection[str]
) -> None:
    bad = {node for node, _ in plan} - set(healthy)
    assert not bad, f"{pod.uid}: a new plan uses bad {bad}"
    if instance.cluster.has("obeyGangRelease"):
        return  # a gang gives back the devices of pods that have ended
    whole = {(node, index) for node, devices in plan for index in devices}
    for other in instance.allocated.values():
        held = {(node, index) for node, devices in plan_of(other) for index in devices} & whole
        assert not held, f"{pod.uid}: its plan has {held} of the gang of {other.uid}"


def check_preemption(instance: Instance, pod: Pod, plan: Preempt) -> None:
    """Victims run, are less important, and have no guarantee of another tenant."""
    shown, wish = groups(instance.algorithm), wish_of(pod)
    for victim in plan.victims:
        assert victim.uid in instance.allocated, f"victim {victim} does not run"
        found = instance.allocated[victim.uid]
        assert found.node_name == victim.node, f"victim {victim} runs on {found.node_name}"
        assert instance.algorithm.priority(found) < instance.algorithm.priority(pod), f"{victim} goes for {pod.uid}"
        theirs = shown[gang_of(victim.uid)]
        if is_guaranteed(theirs):
            whose = f"{pod.uid} of {wish['virtualCluster']} evicts {victim} of {theirs}"
            assert theirs["vc"] == wish["virtualCluster"], whose
            assert theirs["priority"] < wish["priority"], whose


def check_pages(instance: Instance, wishes: Mapping[str, Mapping[str, Any]], before: Mapping[str, Status]) -> int:
    """What all pages say together. `wishes` and `before`: what gangs want, and their pages when last looked at.

    Returns how many gangs lost their quota since.
    """
    _check_devices(instance)
    shown = groups(instance.algorithm)
    for name, status in shown.items():
        pods = sorted(uid for uid in instance.allocated if gang_of(uid) == name)
        if status["state"] != "Preempting":
            assert sorted(status.get("allocatedPods", ())) == pods, f"{name}: {status} for {pods}"
    missing = {gang_of(uid) for uid in instance.allocated} - set(shown)
    assert not missing, f"no page of {missing}"
    if not instance.allocated and not instance.claims:
        assert not shown, f"no pod runs, and there are {shown}"
    instance.algorithm.metrics()
    with pytest.raises(InvalidArgument):
        instance.algorithm.page("affinitygroups/nobody")
    _check_explanation(instance)
    return sum(_has_lost(name, status, shown, wishes) for name, status in before.items())


def _check_devices(instance: Instance) -> None:
    taken: dict[tuple[str, int], str] = {}
    for pod in instance.allocated.values():
        for device in devices_of(pod):
            assert device not in taken, f"{device}: {taken[device]} and {pod.uid}"
            taken[device] = pod.uid


def _has_lost(name: str, before: Status, shown: Mapping[str, Status], wishes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Only who allowed it loses quota, and only to more important gangs of the same tenant."""
    if not is_guaranteed(before) or name not in shown or is_guaranteed(shown[name]):
        return False
    taker = shown[name]["lazyPreemptionStatus"]["preemptor"]
    assert wishes[name]["lazyPreemptionEnable"], f"{name} lost its quota to {taker} and did not allow it"
    assert wishes[taker]["virtualCluster"] == before["vc"], f"{name} lost its quota to {taker} of another tenant"
    assert wishes[taker]["priority"] > before["priority"], f"{name} lost its quota to {taker}"
    return True


def _check_explanation(instance: Instance) -> None:
    for pod in list(instance.waiting.values())[-1:]:
        before = snapshot(instance.algorithm)
        for _ in instance.algorithm.explain(pod):
            pass
        assert snapshot(instance.algorithm) == before, f"explaining {pod.uid} changed something"
