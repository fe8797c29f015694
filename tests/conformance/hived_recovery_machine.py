"""Random runs in which quota is lost and restarts are many: small clusters, several tenants, gangs that come late.

`hived_machine.py` has all rules and large clusters; there it takes thousands of steps until a gang has lost its quota,
has a member bound afterwards, and somebody else uses what it had when the server is restarted. Here that is the rule.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import ClassVar

import yaml
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from algorithm.hived.cells.chains import preassigned
from algorithm.interface import Bind, PodRefused, Preempt
from tests.conformance.hived_draws import SMALL, SWITCHES, pod_sizes
from tests.conformance.hived_restarts import Restarts, picks
from tests.support.hived.claims import assert_everybody_is_granted, take_with_quota
from tests.support.hived.harness import HivedHarness, gang


class RecoveryMachine(Restarts, RuleBasedStateMachine):
    """`steps` counts the steps of all runs, `counted` what came of them."""

    steps = 0
    counted: ClassVar[Counter[str]] = Counter()

    @initialize(
        config=st.sampled_from(sorted(SMALL)),
        switches=st.sets(st.sampled_from(["promoteLazilyPreempted", "obeyGangRelease", "combineCells"]), max_size=1),
        luck=st.integers(0, 1 << 32),
    )
    def start(self, config, switches, luck):
        self.config = yaml.safe_load(SMALL[config]) | {switch: SWITCHES[switch] for switch in sorted(switches)}
        self.world = HivedHarness(yaml.safe_dump(self.config))
        self.random = random.Random(luck)
        self.groups = 0

    def check(self):
        RecoveryMachine.steps += 1
        assert not self.world.algorithm.unrecoverable_pods
        assert_everybody_is_granted(self.world)

    @rule(
        pick=picks,
        pods=st.sampled_from([1, 1, 2]),
        priority=st.sampled_from([0, 0, 0, 1, 5, -1]),
        lazy=st.sampled_from([True, True, True, False]),
        whole=st.booleans(),
    )
    @precondition(lambda self: len(self.world.waiting) < 6)
    def gang_arrives(self, pick, pods, priority, lazy, whole):
        """`whole`: all of its pods are placed at once; else the first one, and the others come later."""
        tenants, sizes = sorted(self.world.hive.layout.tenants), pod_sizes(self.world.hive)
        wish = {"tenant": tenants[pick % len(tenants)], "pods": pods, "leafs": sizes[pick // 7 % len(sizes)]}
        self.arrives(whole=whole, priority=priority, lazyPreemptionEnable=lazy, **wish)

    @rule(pick=picks, lazy=st.booleans())
    @precondition(lambda self: any(group.virtual is not None for group in self.world.hive.groups.values()))
    def more_important_gang_arrives(self, pick, lazy):
        groups = [group for group in self.world.hive.groups.values() if group.virtual is not None]
        self.outranks(groups[pick % len(groups)], lazy=lazy)

    def idle(self):
        """Tenant and size of each promised cell that nobody uses."""
        tenants = self.world.hive.layout.tenants.values()
        return [(each.name, cell.leafs) for each in tenants for cell in preassigned(each) if cell.physical is None]

    @rule(pick=picks, lazy=st.booleans(), priority=st.sampled_from([0, 0, 1, 5]))
    @precondition(lambda self: self.idle())
    def somebody_uses_what_is_idle(self, pick, lazy, priority):
        """Just what was promised: whoever had it before cannot have it back."""
        tenant, leafs = self.idle()[pick % len(self.idle())]
        self.arrives(whole=True, tenant=tenant, leafs=leafs, priority=priority, lazyPreemptionEnable=lazy)

    @rule(pick=picks, ends=st.booleans())
    @precondition(lambda self: self.idle())
    def gang_loses_quota_before_its_last_pod_comes(self, pick, ends):
        """As far as the cluster has room for it. `ends`: who took the quota is gone soon."""
        tenant, leafs = self.idle()[pick % len(self.idle())]
        wish = {"tenant": tenant, "leafs": leafs // 2}
        gang_ = self.arrives(whole=False, pods=2, priority=0, lazyPreemptionEnable=True, **wish)
        group = self.world.hive.groups.get(f"g{self.groups}")
        takers = [] if group is None else self.outranks(group, lazy=bool(pick % 2))
        if gang_[1].uid in self.world.waiting:
            self.filtered(gang_[1])
        if ends:
            self.world.delete(*[self.world.allocated[each.uid] for each in takers if each.uid in self.world.allocated])
        self.check()

    def outranks(self, like, *, lazy):
        """A gang of the same tenant that is a little more important."""
        priority = min(like.priority + 1, 1000)
        devices = sum(number * pods for number, pods in like.pods.items())
        wish = {"tenant": like.tenant, "leafs": max(size for size in pod_sizes(self.world.hive) if size <= devices)}
        return self.arrives(whole=True, priority=priority, lazyPreemptionEnable=lazy, **wish)

    def arrives(self, *, whole, **wish):
        self.groups += 1
        pods = gang(f"g{self.groups}", **wish)
        self.world.submit(*pods)
        for each in pods if whole else pods[:1]:
            self.filtered(each)
        self.check()
        return pods

    @rule(pick=picks)
    @precondition(lambda self: self.world.waiting)
    def late_member_comes(self, pick):
        uids = sorted(self.world.waiting)
        self.filtered(self.world.waiting[uids[pick % len(uids)]])
        self.check()

    def filtered(self, each):
        try:
            answer = self.world.ask(each)
        except PodRefused:
            answer = None
        if isinstance(answer, Bind):
            group = self.world.hive.groups.get(each.name.rpartition("-")[0])
            self.counted["late members of gangs without quota"] += group in self.world.hive.lazily_preempted
            (self.world.take if self.reconfigured else partial(take_with_quota, self.world))(each, answer)
        elif isinstance(answer, Preempt) and self.random.random() < 0.5:
            self.world.delete(*[self.world.allocated[victim.uid] for victim in answer.victims])

    @rule(pick=picks, share=st.sampled_from([0.0, 0.0, 0.5]))
    @precondition(lambda self: self.world.allocated)
    def pods_end(self, pick, share):
        """One of them, or many at once."""
        uids = sorted(self.world.allocated)
        gone = {uids[pick % len(uids)], *(uid for uid in uids if self.random.random() < share)}
        self.world.delete(*[self.world.allocated[uid] for uid in sorted(gone)])
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.allocated)
    def proposal_comes_to_nothing(self, pick):
        uids = sorted(self.world.allocated)
        self.world.expire(self.world.allocated[uids[pick % len(uids)]])
        self.check()
