"""Random HiveD clusters with groups of all kinds, bad machines and preemptions, and gangs that ask for room."""

from __future__ import annotations

import random
from collections.abc import Iterable

from algorithm.hived.formats.podspec import SPEC, PodSpec, parse_spec
from algorithm.interface import Bind, Phase, PodRefused, Preempt
from algorithm.model import Pod
from tests.support.hived.harness import RACKS, HivedHarness, gang, racks

#: Machine m4 is pinned for a tenant c.
PINNED = (
    racks(a="rack.host 2", b="rack.host 1").replace("{cellAddress: m4}", "{cellAddress: m4, pinnedCellId: corner}")
    + "  c:\n    pinnedCells: [{pinnedCellId: corner}]\n"
)


def crowded(seed: int) -> HivedHarness:
    """A cluster with groups of all kinds, bad machines, and preemptions under way."""
    rng = random.Random(seed)
    quotas = [RACKS, PINNED, racks(a="rack 1", b="rack.host.socket 3"), racks(a="rack.host 2", b="rack.host 2")]
    more = ["", "", "combineCells: true\n", "keepHealthyCellsWhole: true\n", "badDevices: {}\n"]
    world = HivedHarness(rng.choice(quotas) + rng.choice(more))
    for number in range(rng.randint(3, 9)):
        if rng.random() < 0.25:
            world.turn(rng.choice(["m1", "m2", "m3", "m4"]), healthy=rng.random() < 0.4)
        if world.settings.bad_devices is not None and rng.random() < 0.4:
            world.mark(rng.choice(["m1", "m2", "m3", "m4"]), rng.choice(["0", "1,3", "0,1,2"]))
        admit(world, wish(rng, f"g{number}"))
        if rng.random() < 0.2 and world.allocated:
            world.delete(world.allocated[rng.choice(sorted(world.allocated))])
    return world


def wish(rng: random.Random, name: str) -> list[Pod]:
    members = {rng.choice([1, 2, 3, 4]): rng.randint(1, 3)}
    if rng.random() < 0.3:
        members[rng.choice([1, 2, 4])] = rng.randint(1, 2)
    tenant = rng.choice("aabbc")
    more = {"pinnedCellId": "corner"} if tenant == "c" else {}
    priority = rng.choice([-1, 0, 0, 1, 2]) if not more else rng.choice([0, 1])
    lazy = rng.random() < 0.2
    return gang(name, tenant=tenant, members=members, priority=priority, lazyPreemptionEnable=lazy, **more)


def admit(world: HivedHarness, pods: list[Pod]) -> None:
    """Places them if there is room, or lets them preempt; else they are gone again."""
    for each in pods:
        try:
            answer = world.ask(each, phase=Phase.PREEMPTING)
        except PodRefused:
            return world.delete(each)
        if isinstance(answer, Bind):
            world.take(each, answer)
        elif isinstance(answer, Preempt):
            world.take_preemption(each, answer)
            return None
        else:
            world.delete(each)
    return None


def asked(seed: int) -> Iterable[tuple[Pod, PodSpec]]:
    rng = random.Random(f"asks {seed}")
    for number in range(4):
        each = wish(rng, f"new{number}")[0]
        yield each, parse_spec(each.annotation(SPEC), namespace="ns", name=each.name)
