"""The picture of a hive: what it shows of devices and promises, and that what is kept of it is never stale."""

from __future__ import annotations

import json
from itertools import chain
from random import Random
from typing import Any

import yaml

from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.hived.insight.ui_snapshot import PART, UiSnapshot
from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes
from algorithm.model import Node, Pod
from tests.support.hived.scene import SPEC, racks, small


class BareAlgorithm:
    """An algorithm without anything around it."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.algorithm = HivedAlgorithm(HivedSettings.model_validate(configuration))
        self.machines = list(self.algorithm.hive.layout.machines)
        for name in self.machines:
            self.health(name, True)
        self.placed: list[Pod] = []
        self.preempting: list[Pod] = []

    def health(self, name: str, ready: bool) -> None:
        self.algorithm.add_node(Node(name=name, uid=name, ready=ready))

    def ask(self, name: str, tenant: str, priority: int, devices: int, *, preempt: bool = False, **more: Any) -> None:
        wish = {"virtualCluster": tenant, "priority": priority, "leafCellNumber": devices, **more}
        pod = Pod(namespace="ns", name=name, uid=name, annotations=((SPEC, yaml.safe_dump(wish)),))
        self.algorithm.add_unallocated_pod(pod)
        phase = Phase.PREEMPTING if preempt else Phase.FILTERING
        found = self.algorithm.schedule(pod, SuggestedNodes(self.machines), phase)
        if isinstance(found, Bind):
            pod = Pod(
                namespace="ns",
                name=name,
                uid=name,
                node_name=found.node,
                annotations=tuple(sorted((*pod.annotations, *found.annotations))),
            )
            self.algorithm.add_allocated_pod(pod)
            self.placed.append(pod)
        elif isinstance(found, Preempt) and preempt:
            self.algorithm.add_preempting_pod(pod, found.victims, found.node)
            self.preempting.append(pod)

    def shown(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(b"".join(self.algorithm.page("cells")))
        return found

    def devices(self) -> list[list[Any]]:
        """Each device, by its kind."""
        parts = [part for part in self.shown() if "devices" in part]
        return [part["kinds"][number] for part in parts for number in part["devices"]]

    def promises(self, tenant: str) -> list[list[Any]]:
        return list(chain.from_iterable(part["cells"] for part in self.shown() if part.get("tenant") == tenant))


def test_the_hardware_is_described_once() -> None:
    shape, names, pins, *_ = BareAlgorithm(small()).shown()

    [rack] = shape["chains"]
    assert [level["type"] for level in rack["levels"]] == ["gpu", "socket", "host", "rack"]
    assert [level["leafs"] for level in rack["levels"]] == [1, 4, 8, 32]
    assert (rack["machineLevel"], rack["machines"]) == (3, 16)
    assert rack["above"] == {"4": ["rack-000", "rack-001", "rack-002", "rack-003"]}
    assert names["machines"][:5] == ["n000-00", "n000-01", "n000-02", "n000-03", "n001-00"]
    assert pins["pinned"] == [["searches-own", 0, 120, 8]]


def test_parts_of_machines_that_have_names_of_their_own_are_named() -> None:
    configuration = racks(1, 2, {})
    configuration["physicalCluster"]["physicalCells"][0]["cellChildren"][1]["cellChildren"] = [
        {"cellAddress": "left", "cellChildren": [{"cellAddress": str(number)} for number in (8, 9, 10, 11)]},
        {"cellAddress": "right"},
    ]

    _, names, *_ = BareAlgorithm(configuration).shown()

    assert names["machines"] == [
        "n000-00",
        ["n000-01", [["left", "right"], ["8", "9", "10", "11", "4", "5", "6", "7"]]],
    ]


def test_a_device_says_who_uses_it_and_whose_it_is() -> None:
    world = BareAlgorithm(small())
    world.ask("p", "speech", 3, 2)
    world.ask("q", "vision", -1, 1)

    kinds = world.devices()

    assert kinds.count(["Used", 3, True, "speech", "ns/p", "", "", "speech"]) == 2
    assert kinds.count(["Used", -1, True, "vision", "ns/q", "", "", ""]) == 1
    assert kinds.count(["Free", -2, True, "", "", "", "", "speech"]) == 6  # the rest of the machine
    assert kinds.count(["Free", -2, True, "", "", "", "", "search"]) == 8  # the pinned one


def test_a_bad_machine_is_shown_as_bad() -> None:
    world = BareAlgorithm(small())
    world.health("n000-01", False)

    assert [number for number, kind in enumerate(world.devices()) if not kind[2]] == list(range(8, 16))


def test_who_waits_for_a_device_stands_there_too() -> None:
    world = BareAlgorithm(racks(1, 1, {"a": [{"cellType": "rack", "cellNumber": 1}]}))
    world.ask("low", "a", 1, 8)
    world.ask("high", "a", 5, 4, preempt=True)

    assert world.devices().count(["Reserving", 5, True, "a", "ns/low", "a", "ns/high", "a"]) == 4


def test_a_virtual_cell_says_which_hardware_it_is() -> None:
    world = BareAlgorithm(small())
    world.ask("p", "search", 1, 2, pinnedCellId="searches-own")

    *sockets, pinned = world.promises("search")

    assert [cell[-2] for cell in sockets] == [-1] * 4
    address, chain_number, level, pinned_id, used, priority, first, leafs = pinned
    assert (address, chain_number, level, pinned_id, used, priority, first) == (
        "search/4",
        0,
        3,
        "searches-own",
        2,
        1,
        120,
    )
    assert sorted(leaf for leaf in leafs if leaf >= 0) == [0, 1]


def test_a_tenant_to_whom_nothing_is_promised_is_shown() -> None:
    assert BareAlgorithm(racks(1, 1, {"poor": []})).promises("poor") == []


def test_what_has_not_changed_is_not_written_again() -> None:
    world = BareAlgorithm(racks(4, 20, {"a": [{"cellType": "rack", "cellNumber": 2}]}))
    before = list(world.algorithm.page("cells"))
    world.ask("p", "a", 1, 1)
    after = list(world.algorithm.page("cells"))

    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert len(before) > 4
    assert changed == 2 + 1  # a rack of 160 devices is in two parts of the hardware, and is promised in one


def test_no_part_shows_more_devices_than_it_may() -> None:
    parts = [part["devices"] for part in BareAlgorithm(racks(1, 200, {})).shown() if "devices" in part]

    assert sum(map(len, parts)) == 1600
    assert max(map(len, parts)) <= PART


def test_what_is_kept_is_never_stale() -> None:
    """Random work; after each step it is held against a picture that was made anew."""
    for seed in range(3):
        random, world = Random(seed), BareAlgorithm(small())
        for step in range(120):
            _disturb(world, random, step)
            kept = b"".join(world.algorithm.page("cells"))
            assert kept == b"".join(UiSnapshot(world.algorithm.hive).pieces()), f"seed {seed}, step {step}"


def _disturb(world: BareAlgorithm, random: Random, step: int) -> None:
    dice = random.random()
    if dice < 0.15:
        world.health(random.choice(world.machines), random.random() < 0.6)
    elif dice < 0.35 and world.placed:
        world.algorithm.delete_allocated_pod(world.placed.pop(random.randrange(len(world.placed))))
    elif dice < 0.4 and world.preempting:
        pod = world.preempting.pop()
        world.algorithm.delete_preempting_pod(pod)
        world.algorithm.delete_unallocated_pod(pod)
    else:
        tenant, devices = random.choice(["vision", "speech", "search"]), random.choice([1, 2, 4, 8])
        priority, lazy = random.choice([-1, 1, 1, 5]), random.random() < 0.5
        world.ask(f"p{step}", tenant, priority, devices, preempt=dice > 0.85, lazyPreemptionEnable=lazy)
