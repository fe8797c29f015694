"""Rules about restarts, for the random runs of HiveD: whatever is recovered follows from the pods that are bound.

After each restart the same pods are told again in other orders, some of them after a question or after start-up: the
state is the same, to the order of the lists that decide between equals. It is the state of before, too: every group has
its devices and its pods, and its quota if it had it. Only a group that had lost its quota may have it back, if no pod
names it.

With a changed configuration there may be less quota than is used, and nothing on pods says who lost it then. The next
guaranteed pod of a chain names all that are without their quota. From then on every group of the chain keeps its quota.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, ClassVar

import yaml
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.conformance.hived_draws import changed, devices_of_groups, group_name, without_quota
from tests.support.hived.harness import HivedHarness, allocations, settings_of, state

picks = st.integers(0, 1 << 16)
#: In how many other orders the pods are told again.
ORDERS = 3


class Restarts:
    """Rules of a machine that has a world, a source of luck and a configuration, and can `check`."""

    world: HivedHarness
    random: random.Random
    config: dict[str, Any]
    counted: ClassVar[Counter[str]]
    #: Whether more was promised at a restart than there was room for beside pods that ran.
    reconfigured = False
    #: Pods that were bound when the configuration was changed.
    bound_before: frozenset[str] = frozenset()

    def check(self) -> None:
        raise NotImplementedError

    def restarts(self) -> None:
        """The state after a restart, and that it does not depend on any order."""
        self.world.restart(self.random)
        self.counted["crashed"] += 1
        known = state(self.world.algorithm)
        for _ in range(ORDERS):
            order = self.random.sample(sorted(self.world.allocated), len(self.world.allocated))
            other = self.world.restarted(order, asked={self.random.randrange(len(order) + 1)})
            assert state(other.algorithm) == known, order

    @rule(then=st.sampled_from(["all are told", "some are told late", "some are not bound"]))
    @precondition(lambda self: self.world.allocated)
    def crash(self, then):
        match then:
            case "all are told":
                before = allocations(self.world.hive)
                self.restarts()
                self.is_as(before)
            case "some are told late":
                self.told_late()
            case _:
                self.before_all_are_bound()
        self.check()

    def told_late(self) -> None:
        """Some pods are found bound when start-up is over already.

        By then a gang that gives back pod by pod has taken what its waiting pods need, if that seemed to be free.
        """
        before, pods = allocations(self.world.hive), self.world.allocated
        share = 0.0 if "obeyGangRelease" in self.config and self.world.waiting else 0.3
        late = [uid for uid in self.random.sample(sorted(pods), len(pods)) if self.random.random() < share]
        self.world.restart(self.random, late=late)
        self.counted["late"] += len(late)
        self.is_as(before)

    def before_all_are_bound(self) -> None:
        """What was proposed and not written is lost; its pods wait again. A group that has a pod left keeps it all."""
        before, had = devices_of_groups(self.world.hive), allocations(self.world.hive)
        for uid in [uid for uid in self.world.allocated if self.random.random() < 0.3]:
            self.world.waiting[uid] = self.world.allocated.pop(uid)
        self.restarts()
        after = devices_of_groups(self.world.hive)
        if not self.reconfigured:
            assert {name.rpartition("/")[2] for name in after} == set(map(group_name, self.world.allocated.values()))
            for name, devices in after.items():
                assert devices == before[name] or self.world.group(name).releases, name
        self.quotas_are_kept(had)

    @rule(change=st.integers(0, 1 << 16), pick=picks, in_process=st.booleans())
    @precondition(lambda self: len(self.world.allocated) > 3)
    def configuration_changes(self, change, pick, in_process):
        """After a restart, or while everything goes on."""
        other = changed(self.config, change, pick)
        try:
            settings_of(yaml.safe_dump(other))
        except ValueError:
            return
        self.config, self.reconfigured = other, True
        self.bound_before = frozenset(self.world.allocated)
        self.counted["reconfigured"] += 1
        if in_process:
            self.world.take_over(yaml.safe_dump(other))
        else:
            self.world.settings = settings_of(yaml.safe_dump(other))
            self.restarts()
        self.check()

    # -- what has to be the same ----------------------------------------------------------------------------------

    def is_as(self, before: dict[str, tuple[Any, ...]]) -> None:
        """A group that was preempted lazily may have its quota back: if who did it is gone, or if there is room."""
        self.quotas_are_kept(before)
        if self.reconfigured:
            return
        after = allocations(self.world.hive)
        assert after.keys() == before.keys()
        lost = {uid for each in self.world.allocated.values() for uid in without_quota(each)}
        for name, (has_quota, *rest, devices) in after.items():
            had_quota, *known, had_devices = before[name]
            assert rest == known, name
            # Who gives back pod by pod has what is awaited, and that may be more or less now.
            assert devices == had_devices or self.world.group(name).releases, name
            members = {member.uid for member in self.world.group(name).members()}
            may_have_it_back = "promoteLazilyPreempted" in self.config or not members & lost
            assert has_quota == had_quota or (has_quota and may_have_it_back), (name, had_quota)

    def quotas_are_kept(self, before: dict[str, tuple[Any, ...]]) -> None:
        """Nobody loses quota by a restart, least of all to a group that had lost its own."""
        for name, (has_quota, *_) in allocations(self.world.hive).items():
            if name in before and before[name][0] and self.is_settled(name):
                self.counted["kept"] += 1
                assert has_quota, (name, before[name])

    def is_settled(self, name: str) -> bool:
        """Whether what stands on pods says all about quota in the group's chain."""
        if not self.reconfigured:
            return True
        if "promoteLazilyPreempted" in self.config:
            return False
        chain = self.world.group(name).chain
        groups = {each.uid: group for group in self.world.hive.groups.values() for each in group.members()}
        placed = [
            uid
            for uid in self.world.allocated
            if (group := groups.get(uid)) is not None and group.chain == chain and group.virtual is not None
        ]
        return bool(placed) and placed[-1] not in self.bound_before
