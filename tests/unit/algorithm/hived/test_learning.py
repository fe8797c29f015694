"""HiveD learns what is there while pods come and go, as at a change of the configuration: in one go, or in several.

With the same configuration it ends up with what a restart would give; with another one, its accounts are right,
and every pod that runs is accounted for or named.
"""

from __future__ import annotations

import random

import pytest

from algorithm.hived import HivedAlgorithm
from algorithm.hived.insight.outcomes import outcomes
from algorithm.interface import Bind
from extender.scheduling.bootstrap import ClusterState, bootstrap
from extender.scheduling.driver import AlgorithmDriver
from tests.support.hived.audit import audit
from tests.support.hived.harness import RACKS, HivedHarness, allocations, gang, node, racks, settings_of

OTHERS = (
    racks(a="rack.host 1", b="rack.host 1"),
    racks(b="rack 1"),
    racks(a="rack.host 3", c="rack.host.socket 2"),
    RACKS.replace("{cellAddress: m4}", "{cellAddress: m9}"),
    RACKS.replace("{childCellType: gpu, childCellNumber: 2}", "{childCellType: gpu, childCellNumber: 1}"),
)


class Course:
    """Pods come and go by a random generator."""

    def __init__(self, seed: int) -> None:
        self.rng, self.world, self.number = random.Random(seed), HivedHarness(), 0

    def goes_on(self, steps: int) -> None:
        for _ in range(steps):
            if self.world.allocated and self.rng.random() < 0.35:
                self.world.delete(self.rng.choice(list(self.world.allocated.values())))
            else:
                self._comes()

    def _comes(self) -> None:
        self.number += 1
        tenant, priority = self.rng.choice("ab"), self.rng.choice((-1, 0, 5))
        pods, leafs = self.rng.choice(((1, 1), (1, 2), (2, 2), (1, 4)))
        for each in gang(f"g{self.number}", tenant=tenant, pods=pods, leafs=leafs, priority=priority):
            answer = self.world.ask(each)
            if not isinstance(answer, Bind):
                return
            self.world.take(each, answer)

    @property
    def truth(self) -> ClusterState:
        waiting = {pod.uid: pod for pod in self.world.waiting.values()}
        return ClusterState({name: node(name) for name in self.world.nodes}, dict(self.world.allocated), waiting)


@pytest.mark.parametrize("seed", range(12))
def test_the_same_configuration_gives_the_same_allocations(seed: int) -> None:
    course = Course(seed)
    algorithm = HivedAlgorithm(settings_of(RACKS))
    driver = AlgorithmDriver(algorithm)
    for _ in range(3):
        course.goes_on(8)
        bootstrap(driver, course.truth)
        audit(algorithm.hive)
    assert driver.faults == 0, driver.last_fault
    assert allocations(algorithm.hive) == allocations(course.world.hive)
    assert not any(each.changed for each in outcomes(course.world.algorithm.hive, algorithm.hive))


@pytest.mark.parametrize("config", OTHERS)
@pytest.mark.parametrize("seed", range(4))
def test_another_configuration_gives_sound_books_and_forgets_nobody(seed: int, config: str) -> None:
    course = Course(seed)
    algorithm = HivedAlgorithm(settings_of(config))
    driver = AlgorithmDriver(algorithm)
    for _ in range(2):
        course.goes_on(10)
        bootstrap(driver, course.truth)
        audit(algorithm.hive)
    assert driver.faults == 0, driver.last_fault
    members = {member.uid for group in algorithm.hive.groups.values() for member in group.members()}
    assert members | algorithm.unrecoverable_pods.keys() == course.world.allocated.keys()
    for pod in list(course.world.allocated.values()):
        driver.remove(pod.uid)
        audit(algorithm.hive)
    assert algorithm.hive.groups == {}
