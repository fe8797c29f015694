"""Random runs with the tenants' switches on: what `tests/conformance/hived_machine.py` promises holds with them, too.

Besides, limits are not exceeded by what is placed anew. A restart keeps every device that a pod has, and of the vacant
places of gangs that release pod by pod those for pods that wait.
"""

import random

import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.conformance.hived_machine import CONFIGS, HivedMachine, yaml_of
from tests.support.examples import few
from tests.support.hived.harness import HivedHarness, in_any_order, snapshot

SCOPES = [[], ["virtualCluster"], ["namespace"], ["virtualCluster", "namespace"]]


class SwitchesMachine(HivedMachine):
    @initialize(
        config=st.sampled_from(CONFIGS),
        scope=st.sampled_from(SCOPES),
        limit=st.sampled_from(["100%", "50%", "25%", "0"]),
        calm=st.booleans(),
        luck=st.integers(0, 1 << 32),
    )
    def start(self, config, scope, limit, calm, luck):
        self.limit = limit
        self.config = yaml.safe_load(yaml_of(config)) | {
            "obeyGangRelease": True,
            "groupNamesPer": scope,
            "opportunisticLimits": {"cluster": limit},
        }
        self.world = HivedHarness(yaml.safe_dump(self.config))
        self.first = in_any_order(snapshot(self.world.hive))
        self.random = random.Random(luck)
        self.groups, self.calm = 0, calm
        self.reconfigured = False

    def take(self, each, answer):
        before = set(self.world.hive.groups)
        super().take(each, answer)
        for name in self.world.hive.groups.keys() - before:
            if self.world.hive.groups[name].priority < 0:
                self.assert_within_limit()

    @rule()
    @precondition(lambda self: self.world.allocated)
    def crash(self):
        before, kept, had = occupied(self.world), promised(self.world), held(self.world)
        self.world.restart(self.random)
        self.counted["crashed"] += 1
        if not self.reconfigured:
            assert occupied(self.world) == before
            # A gang may have its quota back: the places of the one that took it need not be held any more.
            assert kept <= promised(self.world)
            assert all(devices <= had[name] for name, devices in held(self.world).items())
            self.assert_places_for_those_that_wait(had)
        self.check()

    @rule()
    @precondition(lambda self: self.world.allocated)
    def crash_before_all_are_bound(self):
        """What was proposed and not written is lost; its pods wait again, and their places are held for them."""
        had = held(self.world)
        for uid in [uid for uid in self.world.allocated if self.random.random() < 0.3]:
            self.world.waiting[uid] = self.world.allocated.pop(uid)
        before = occupied(self.world, self.world.allocated)
        self.world.restart(self.random)
        self.counted["crashed"] += 1
        if not self.reconfigured:
            assert occupied(self.world) == before
            self.assert_places_for_those_that_wait(had)
        self.check()

    def assert_places_for_those_that_wait(self, had):
        """As many as before, or as there are pods for them."""
        for group in self.world.hive.groups.values():
            for devices, slots in group.slots.items():
                vacant = [n for n, member in enumerate(slots) if member is None]
                now = sum((devices, n) not in group.given_up for n in vacant)
                waiting_members = self.world.algorithm._waiting.waiting_members(group, devices)
                could = sum(had_place(had[group.name], group.places[devices][n]) for n in vacant)
                assert now >= min(waiting_members, could), (group.name, now, waiting_members, could)

    def assert_within_limit(self):
        devices = sum(len(chain.full[1]) for chain in self.world.hive.layout.chains.values())
        most = devices * int(self.limit[:-1]) // 100 if self.limit.endswith("%") else int(self.limit)
        assert sum(self.world.hive.usage.borrowed.values()) <= most


def occupied(world, among=None):
    """Each pod's devices, and for whom; of pods with these UIDs, if only they count."""
    return {
        (group.name, member.uid): (
            (group.tenant, group.priority),
            sorted(device.address for device in group.physical[devices][number] if device is not None),
        )
        for group in world.hive.groups.values()
        for devices, slots in group.slots.items()
        for number, member in enumerate(slots)
        if member is not None and (among is None or member.uid in among)
    }


def promised(world):
    return {group.name for group in world.hive.groups.values() if group.virtual is not None and any(group.members())}


def held(world):
    """Machine and index of every device, by group."""
    return {
        group.name: {(device.nodes[0], device.indices[0]) for device, _ in group.leafs()}
        for group in world.hive.groups.values()
    }


def had_place(devices, place):
    return all((place.node, index) in devices for index in place.indices)


FEW = few(5, 40)


class TestSwitches(SwitchesMachine.TestCase):
    settings = FEW


@pytest.mark.slow
class TestSwitchesForLonger(SwitchesMachine.TestCase):
    settings = settings(FEW, max_examples=25)
