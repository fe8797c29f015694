"""HiveD's promises at random: a Hypothesis state machine that calls the algorithm as the extender may call it.

After every step everything the hive keeps is computed anew and naively (`tests/support/hived/audit.py`). Besides:

* every virtual cluster can get what it is owed on healthy hardware, whatever others do: each is asked for after every
  step, and now and then all is really taken, cell by cell (`tests/support/hived/claims.py`);
* a fork answers as its original;
* a crash at any step, and recovery in any order, is the same allocation, also if the last bindings were not written
  any more; a changed configuration breaks nothing, either (`hived_restarts.py`);
* when everything is deleted and healthy, everything is as it was at the start.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import yaml
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from algorithm.hived.cells.chains import preassigned
from algorithm.hived.state import lazy_preemption as lazily
from algorithm.interface import Bind, PodRefused, Preempt
from algorithm.model import Pod
from tests.conformance.hived_draws import (
    CONFIGS,
    SWITCHES,
    group_name,
    group_of,
    pod_sizes,
    yaml_of,
)
from tests.conformance.hived_restarts import Restarts, picks
from tests.support.hived.claims import assert_everybody_is_granted, claim_everything, kept, take_with_quota
from tests.support.hived.harness import (
    FILTERING,
    PREEMPTING,
    HivedHarness,
    explained,
    gang,
    in_any_order,
    snapshot,
)


class HivedMachine(Restarts, RuleBasedStateMachine):
    """`steps` counts the steps of all runs, `counted` what came of them."""

    steps = 0
    counted: ClassVar[Counter[str]] = Counter()
    #: What a run draws from.
    configs: ClassVar[Sequence[str]] = (*CONFIGS, "levels")

    @initialize(
        config=picks,
        switches=st.sets(st.sampled_from(sorted(SWITCHES))),
        calm=st.booleans(),
        luck=st.integers(0, 1 << 32),
    )
    def start(self, config, switches, calm, luck):
        """`calm`: no hardware ever turns bad, so all promises can be kept, whatever comes."""
        config = self.configs[config % len(self.configs)]
        self.config = yaml.safe_load(yaml_of(config)) | {switch: SWITCHES[switch] for switch in sorted(switches)}
        self.world = HivedHarness(yaml.safe_dump(self.config))
        self.first = in_any_order(snapshot(self.world.hive))
        self.random = random.Random(luck)
        self.groups, self.calm = 0, calm

    def check(self):
        HivedMachine.steps += 1
        assert not self.world.algorithm.unrecoverable_pods
        if not self.reconfigured:
            assert all(group.releases or not group.given_up for group in self.world.hive.groups.values())
        assert_everybody_is_granted(self.world)

    def one_of(self, pods: dict[str, Pod], pick: int) -> Pod | None:
        return pods[sorted(pods)[pick % len(pods)]] if pods else None

    # -- machines ---------------------------------------------------------------------------------------------

    @rule(pick=picks, healthy=st.sampled_from([True, True, True, False]))
    @precondition(lambda self: not self.calm)
    def machine_turns(self, pick, healthy):
        names = sorted(self.world.hive.layout.machines)
        self.world.turn(names[pick % len(names)], healthy=healthy)
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: not self.calm and len(self.world.nodes) > len(self.world.hive.layout.machines) * 4 // 5)
    def machine_disappears(self, pick):
        self.world.remove_node(sorted(self.world.nodes)[pick % len(self.world.nodes)])
        self.check()

    @rule(pick=picks, bad=st.sets(st.integers(0, 7), max_size=3))
    @precondition(lambda self: not self.calm and "badDevices" in self.config and self.world.nodes)
    def devices_turn(self, pick, bad):
        name = sorted(self.world.nodes)[pick % len(self.world.nodes)]
        there = {device.indices[0] for device in self.world.hive.layout.machines.get(name, ())}
        self.world.mark(name, ",".join(map(str, sorted(bad & there))))
        self.check()

    # -- pods -------------------------------------------------------------------------------------------------

    @rule(
        pick=picks,
        members=st.dictionaries(st.integers(0, 5), st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=2),
        priority=st.sampled_from([-1, 0, 0, 1, 2, 1000]),
        lazy=st.sampled_from([True, True, False]),
        ignores=st.booleans(),
        named=st.booleans(),
        pinned=st.booleans(),
        releases=st.booleans(),
        asked=st.sampled_from(["at once", "at once", "one by one", "later"]),
        number=st.sampled_from([1, 1, 4]),
    )
    @precondition(lambda self: len(self.world.waiting) < 12)
    def groups_arrive(self, pick, members, priority, lazy, ignores, named, pinned, releases, asked, number):
        """Alike, one after the other; of many a kind the last ones find the quota used up."""
        layout = self.world.hive.layout
        tenants, types = sorted(layout.tenants), sorted(layout.chains_of)
        tenant = tenants[pick % len(tenants)]
        pins = sorted(layout.tenants[tenant].pinned)
        more = {"lazyPreemptionEnable": lazy, "ignoreK8sSuggestedNodes": ignores, "gangReleaseEnable": releases}
        if named:
            more["leafCellType"] = types[pick // 7 % len(types)]
        if pinned and pins and priority >= 0:
            more["pinnedCellId"] = pins[pick % len(pins)]
        sizes = pod_sizes(self.world.hive)
        wishes = {sizes[index % len(sizes)]: pods for index, pods in members.items()}
        for _ in range(number):
            pods = self.submit(tenant=tenant, members=wishes, priority=priority, **more)
            self.filter(pods if asked == "at once" else pods[:1] if asked == "one by one" else ())
        self.check()

    @rule(pick=picks, number=st.sampled_from([1, 2, 4]), lazy=st.booleans())
    @precondition(lambda self: any(group.virtual is not None for group in self.world.hive.groups.values()))
    def more_important_groups_arrive(self, pick, number, lazy):
        """Like one that has quota, and a little more important."""
        groups = [group for group in self.world.hive.groups.values() if group.virtual is not None]
        like = groups[pick % len(groups)]
        more = {"pinnedCellId": like.pinned_id} if like.pinned_id else {}
        for _ in range(number):
            priority = min(like.priority + 1, 1000)
            self.filter(
                self.submit(tenant=like.tenant, members=like.pods, priority=priority, lazyPreemptionEnable=lazy, **more)
            )
        self.check()

    @rule(pick=picks, both=st.booleans(), ignores=st.booleans(), offers=st.sampled_from(["all", "some"]))
    @precondition(lambda self: self.owed_cells() and len(self.world.waiting) < 12)
    def gang_for_what_is_owed_arrives(self, pick, both, ignores, offers):
        """It fills one cell, or one of each level of which some are owed."""
        cells = self.owed_cells()
        first = cells[pick % len(cells)]
        alike = [each for each in cells if (each.tenant, each.chain) == (first.tenant, first.chain)]
        members: Counter[int] = Counter()
        for cell in {each.level: each for each in alike}.values() if both else [first]:
            chain = self.world.hive.layout.chains[cell.chain]
            devices = chain.levels[min(cell.level, chain.machine_level)].leafs
            members[devices] += cell.leafs // devices
        for each in self.submit(tenant=first.tenant, members=members, ignoreK8sSuggestedNodes=ignores):
            answer = self.asked(each, offers, FILTERING)
            if isinstance(answer, Bind):
                self.take(each, answer)
        self.check()

    def owed_cells(self):
        tenants = self.world.hive.layout.tenants.values()
        return [each for tenant in tenants for each in preassigned(tenant) if each.physical is None]

    def submit(self, **wish):
        self.groups += 1
        pods = gang(f"g{self.groups}", **wish)
        self.world.submit(*pods)
        return pods

    @rule(pick=picks, offers=st.sampled_from(["all", "some", "one"]), taken=st.integers(0, 7))
    @precondition(lambda self: self.world.waiting)
    def pod_is_filtered(self, pick, offers, taken):
        """One in eight answers is abandoned, as kube-scheduler does."""
        each = self.one_of(self.world.waiting, pick)
        answer = self.asked(each, offers, FILTERING)
        if isinstance(answer, Bind) and taken:
            self.take(each, answer)
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.waiting)
    def group_is_filtered(self, pick):
        self.filter(group_of(self.one_of(self.world.waiting, pick), self.world.waiting))
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.hive.lazily_preempted and self.world.waiting)
    def late_member_of_a_gang_without_quota_comes(self, pick):
        lost = {group.shown for group in self.world.hive.lazily_preempted}
        mates = {uid: each for uid, each in self.world.waiting.items() if group_name(each) in lost}
        if mates:
            self.filter([self.one_of(mates, pick)])
        self.check()

    def filter(self, pods):
        """As kube-scheduler does: who is told that room can be made asks whom to evict."""
        for each in pods:
            answer = self.asked(each, "all", FILTERING)
            if isinstance(answer, Bind):
                self.take(each, answer)
            elif isinstance(answer, Preempt):
                self.preempt(each, "all", self.random.choice(["", "wait", "evict"]))

    def take(self, each, answer):
        before = kept(self.world.hive)
        self.counted["lazily"] += any(name == lazily.LAZILY_PREEMPTED for name, _ in answer.annotations)
        (self.world.take if self.reconfigured else partial(take_with_quota, self.world))(each, answer)
        if self.world.hive.sparing:
            assert before <= kept(self.world.hive), "what all are owed could be had at once, until this pod came"

    @rule(pick=picks, offers=st.sampled_from(["all", "some"]), then=st.sampled_from(["", "wait", "wait", "evict"]))
    @precondition(lambda self: self.world.waiting)
    def pod_wants_to_preempt(self, pick, offers, then):
        each = self.one_of(self.world.waiting, pick)
        self.preempt(each, offers, then)
        self.check()

    def preempt(self, each, offers, then):
        answer = self.asked(each, offers, PREEMPTING)
        if isinstance(answer, Preempt):
            assert {victim.uid for victim in answer.victims} <= self.world.allocated.keys()
            if then:
                self.world.take_preemption(each, answer)
            if then == "evict":
                self.evict_for(each)
        elif not isinstance(answer, Bind) and each.uid in self.world.preempting:
            self.world.stop_preempting(each)

    def asked(self, each, offers, phase):
        """The same from a fork; None for a pod that is refused."""
        names = sorted(self.world.nodes)
        offered = {"all": names, "some": [name for name in names if self.random.random() < 0.8], "one": names[:1]}
        fork = self.world.algorithm.fork() if self.random.random() < 0.1 else None
        try:
            answer = self.world.ask(each, offered=offered[offers], phase=phase)
        except PodRefused:
            answer = None
        self.counted[type(answer).__name__ if answer else "Refused"] += 1
        if fork is not None:
            self.agrees(fork, each, offered[offers], phase, answer)
            self.explains(each)
        return answer

    def explains(self, each):
        before = snapshot(self.world.hive)
        assert explained(self.world, each)
        assert snapshot(self.world.hive) == before

    def agrees(self, fork, each, offered, phase, answer):
        assert snapshot(fork.hive) == snapshot(self.world.hive)
        original, self.world.algorithm = self.world.algorithm, fork
        try:
            assert self.world.ask(each, offered=offered, phase=phase) == answer
        except PodRefused:
            assert answer is None
        finally:
            self.world.algorithm = original

    @rule(pick=picks)
    @precondition(lambda self: self.world.allocated)
    def pod_ends(self, pick):
        self.world.delete(self.one_of(self.world.allocated, pick))
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.allocated)
    def group_ends(self, pick):
        self.world.delete(*group_of(self.one_of(self.world.allocated, pick), self.world.allocated))
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.allocated)
    def proposal_comes_to_nothing(self, pick):
        self.world.expire(self.one_of(self.world.allocated, pick))
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.waiting)
    def waiting_pod_is_deleted(self, pick):
        self.world.delete(self.one_of(self.world.waiting, pick))
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.preempting)
    def nobody_asks_any_more(self, pick):
        self.world.stop_preempting(self.one_of(self.world.preempting, pick))
        self.check()

    @rule(pick=picks)
    @precondition(lambda self: self.world.preempting)
    def victims_end(self, pick):
        self.evict_for(self.one_of(self.world.preempting, pick))
        self.check()

    def evict_for(self, each):
        """All victims end, and the preemptor is placed."""
        group = next((group for group in self.world.hive.groups.values() if each.uid in group.preempting), None)
        users = {} if group is None else {device.group: None for device, _ in group.leafs() if device.group is not None}
        for user in users:
            self.world.delete(*[self.world.allocated[member.uid] for member in list(user.members())])
        answer = self.asked(each, "all", FILTERING)
        if isinstance(answer, Bind):
            self.counted["preempted"] += 1
            self.take(each, answer)

    # -- what is owed -----------------------------------------------------------------------------------------

    @rule()
    @precondition(lambda self: self.world.hive.groups)
    def everybody_claims_what_is_owed(self):
        """In a copy of the world; in this one nobody does."""
        self.counted["claimed"] += claim_everything(self.world, self.random)
        self.check()

    # -- the end ----------------------------------------------------------------------------------------------

    def teardown(self):
        world = getattr(self, "world", None)
        if world is None:
            return
        world.delete(*self.random.sample(pods := [*world.waiting.values(), *world.allocated.values()], len(pods)))
        for name in world.hive.layout.machines:
            if not world.nodes.get(name):
                world.turn(name, healthy=True)
            if world.bad.get(name):
                world.mark(name, "")
        assert not world.hive.groups
        assert in_any_order(snapshot(world.hive)) == (self.first if not self.reconfigured else self.fresh())

    def fresh(self) -> dict[str, Any]:
        return in_any_order(snapshot(HivedHarness(yaml.safe_dump(self.config)).hive))
