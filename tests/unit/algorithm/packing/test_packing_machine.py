"""The whole contract at random, against an oracle that computes everything anew from the records."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes, Wait
from tests.support.examples import few
from tests.support.packing.harness import FILTERING, PREEMPTING, PackingHarness, member, node, pod, shown

MINIMUMS = {"g": 2, "h": 3}
picks = st.integers(0, 1 << 16)


def taken(record):
    """What a pod takes, naively."""
    return Counter({name: amount for name, amount in record.requests if amount} | {"pods": 1})


def fits(room, demand):
    return all(room.get(name, 0) >= amount for name, amount in demand.items())


class Oracle:
    """Rooms, seats and holds as they follow from the world's records."""

    def __init__(self, world):
        self.world = world

    def gang_of(self, record):
        return record.annotation("waggle.dev/gang")

    def allocated_of(self, gang):
        return [p for p in self.world.allocated.values() if gang is not None and self.gang_of(p) == gang]

    def seat(self, record):
        """The seat in the newest plan among the members that have a place."""
        plans = []
        for mate in self.allocated_of(self.gang_of(record)):
            text = mate.annotation("waggle.dev/gang-plan")
            if text is not None:
                plan = json.loads(text)
                plans.append((plan["generation"], mate.uid, plan["seats"]))
        return max(plans)[2].get(record.uid) if plans else None

    def holds(self):
        """(pod, node) for everything that is held."""
        preempting = self.world.algorithm.inspect()["preempting"]
        found = []
        for record in self.world.waiting.values():
            seat = self.seat(record)
            place = preempting.get(str(record.key), {}).get("node")
            if place and (seat is None or record.uid in self.world.overriding):
                seat = place
            if seat:
                found.append((record, seat))
        return found

    def room(self, name, *, asking=None, gone=()):
        """What is free for the asking pod: it may pass what is held for pods of lower priority, but not for mates."""
        room = Counter(dict(self.world.nodes[name].allocatable))
        for record in self.world.allocated.values():
            if record.node_name == name and record.uid not in gone:
                room.subtract(taken(record))
        for record, seat in self.holds():
            if seat == name and (asking is None or self.respects(asking, record)):
                room.subtract(taken(record))
        return room

    def respects(self, asking, holder):
        if holder.uid == asking.uid:
            return False
        gang_members = self.gang_of(asking) is not None and self.gang_of(asking) == self.gang_of(holder)
        return gang_members or holder.priority >= asking.priority


class TrackedWorld(PackingHarness):
    """Remembers which preemptions came after the gang had places."""

    def __init__(self, *nodes, strategy):
        super().__init__(*nodes, strategy=strategy)
        self.overriding = set()

    def start_preempting(self, record, answer):
        gang = record.annotation("waggle.dev/gang")
        placed = gang is not None and any(p.annotation("waggle.dev/gang") == gang for p in self.allocated.values())
        (self.overriding.add if placed else self.overriding.discard)(record.uid)
        return super().start_preempting(record, answer)


class PackingMachine(RuleBasedStateMachine):
    @initialize(strategy=st.sampled_from(["pack", "spread"]), crowd=st.booleans())
    def start(self, strategy, crowd):
        """With a crowd of nodes that take nothing, so many are offered that the index searches."""
        nodes = [node(f"n{i}", gpu=4, cpu=6) for i in range(3)]
        nodes += [node(f"crowd{i:02}", gpu=i % 3, pods=0) for i in range(17 * crowd)]
        self.world = TrackedWorld(*nodes, strategy=strategy)
        self.oracle = Oracle(self.world)
        self.made = 0
        for i in range(3):
            self.world.bound(pod(self.name(), gpu=i + 1, cpu=2, priority=i % 2), f"n{i}")

    # -- nodes ------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["n0", "n1", "n2", "n3"]), gpu=st.integers(0, 4), pods=st.integers(2, 6))
    def node_appears_or_changes(self, name, gpu, pods):
        record = node(name, gpu=gpu, cpu=6, pods=pods)
        (self.world.update_node if name in self.world.nodes else self.world.add_node)(record)

    @rule(pick=picks)
    def node_is_cordoned_or_not(self, pick):
        record = self.one_of(self.world.nodes, pick)
        if record is not None:
            self.world.update_node(msgspec.structs.replace(record, unschedulable=not record.unschedulable))

    @precondition(lambda self: len(self.world.nodes) > 2)
    @rule(pick=picks)
    def node_goes(self, pick):
        record = self.one_of(self.world.nodes, pick)
        if record is not None:
            self.world.delete_node(record.name)

    # -- pods come and go -------------------------------------------------------------------------------------

    @rule(gpu=st.integers(0, 3), cpu=st.integers(0, 3), priority=st.integers(0, 2))
    def single_pod_comes(self, gpu, cpu, priority):
        self.world.submit(pod(self.name(), gpu=gpu, cpu=cpu, priority=priority))

    @rule(
        gang=st.sampled_from(["g", "h"]), sizes=st.lists(st.integers(0, 2), min_size=1, max_size=4), high=st.booleans()
    )
    def members_come(self, gang, sizes, high):
        for gpu in sizes:
            self.world.submit(member(self.name(), gang, MINIMUMS[gang], gpu=gpu, priority=2 * int(high)))

    @rule(gpu=st.integers(0, 2), name=st.sampled_from(["n0", "n1", "n2", "n3"]), priority=st.integers(0, 1))
    def pod_is_found_bound(self, gpu, name, priority):
        self.world.bound(pod(self.name(), gpu=gpu, priority=priority), name)

    @rule(pick=picks)
    def waiting_pod_goes(self, pick):
        record = self.one_of(self.world.waiting, pick)
        if record is not None:
            self.world.delete(record.uid)

    @rule(pick=picks)
    def allocated_pod_goes(self, pick):
        record = self.one_of(self.world.allocated, pick)
        if record is not None:
            self.world.delete(record.uid)

    @rule(pick=picks)
    def proposal_expires(self, pick):
        record = self.one_of(self.world.allocated, pick)
        if record is not None:
            self.world.overriding.discard(record.uid)
            self.world.expire(record.uid)

    @rule(pick=picks, cpu=st.integers(0, 4))
    def pod_is_resized(self, pick, cpu):
        old = self.one_of(self.world.allocated, pick)
        if old is not None:
            new = msgspec.structs.replace(old, requests=tuple(sorted({**dict(old.requests), "cpu": cpu}.items())))
            self.world.algorithm.update_allocated_pod(old, new)
            self.world.allocated[old.uid] = new

    # -- decisions --------------------------------------------------------------------------------------------

    @rule(pick=picks, leave_out=picks, take=st.booleans())
    def filter(self, pick, leave_out, take):
        record = self.one_of(self.world.waiting, pick)
        if record is None or not self.world.nodes:
            return
        offered = self.offered(leave_out)
        answer = self.world.schedule(record, offered)
        self.check(record, answer, offered, FILTERING)
        if take and isinstance(answer, Bind):
            self.world.allocate(record, answer)

    @rule(pick=picks, leave_out=picks)
    def preempt(self, pick, leave_out):
        record = self.one_of(self.world.waiting, pick)
        if record is None or not self.world.nodes:
            return
        offered = self.offered(leave_out)
        answer = self.world.schedule(record, offered, PREEMPTING)
        self.check(record, answer, offered, PREEMPTING)
        if isinstance(answer, Preempt):
            self.world.start_preempting(record, answer)

    @precondition(lambda self: len(self.world.waiting) > 1)
    @rule(leave_out=picks)
    def all_are_asked_again(self, leave_out):
        """As after every cluster event: what the first ones are told may be remembered for the others."""
        offered = SuggestedNodes(self.offered(leave_out))
        for phase in Phase:
            for record in self.world.waiting.values():
                answer = self.world.algorithm.schedule(record, offered, phase)
                assert answer == self.world.algorithm.fork().schedule(record, offered, phase)

    @precondition(lambda self: self.world.preempting)
    @rule(pick=picks, how=st.sampled_from(["victims go", "gives up"]))
    def preemption_goes_on(self, pick, how):
        uid = sorted(self.world.preempting)[pick % len(self.world.preempting)]
        if how == "gives up":
            self.world.stop_preempting(uid)
            return
        for victim in self.world.preempting[uid]:
            if victim.uid in self.world.allocated:
                self.world.delete(victim.uid)

    @precondition(lambda self: not self.world.preempting)
    @rule(seed=picks)
    def restart(self, seed):
        fresh = self.world.restarted(seed)
        assert shown(fresh) == shown(self.world.algorithm)
        self.world.algorithm = fresh

    @rule()
    def fork(self):
        twin = self.world.algorithm.fork()
        assert shown(twin) == shown(self.world.algorithm)
        self.world.algorithm = twin

    # -- checks -----------------------------------------------------------------------------------------------

    def check(self, record, answer, offered, phase):
        gang = self.oracle.gang_of(record)
        whole = gang is not None and not self.oracle.allocated_of(gang)
        if isinstance(answer, Bind):
            assert answer.node in offered
            if not whole:
                assert fits(self.oracle.room(answer.node, asking=record), taken(record))
            else:
                self.check_plan(record, json.loads(dict(answer.annotations)["waggle.dev/gang-plan"])["seats"])
        elif not whole:
            assert not [n for n in offered if fits(self.oracle.room(n, asking=record), taken(record))]
        if isinstance(answer, Preempt):
            self.check_victims(record, answer, offered, phase)
        if isinstance(answer, Wait) and offered:
            assert answer.nodes.keys() <= set(offered)

    def check_plan(self, record, seats):
        """All seats at once, and enough of them; mates keep what is held for them."""
        assert seats.keys() <= self.world.waiting.keys()
        assert len(seats) >= MINIMUMS[self.oracle.gang_of(record)]
        for name in set(seats.values()):
            room = self.oracle.room(name, asking=record)
            for mate, held_at in self.oracle.holds():
                if held_at == name and mate.uid != record.uid and mate.uid in seats:
                    room.update(taken(mate) if self.oracle.respects(record, mate) else {})
            together = Counter()
            for uid, seat in seats.items():
                together.update(taken(self.world.waiting[uid]) if seat == name else {})
            assert fits(room, together)

    def check_victims(self, record, answer, offered, phase):
        assert len({victim.node for victim in answer.victims}) <= 1
        assert answer.victims or phase is PREEMPTING
        others = {
            victim.uid for uid, victims in self.world.preempting.items() if uid != record.uid for victim in victims
        }
        gone = {victim.uid for victim in answer.victims}
        for victim in answer.victims:
            assert victim.node in offered
            assert self.world.allocated[victim.uid].node_name == victim.node
            assert self.world.allocated[victim.uid].priority < record.priority
            assert fits(self.oracle.room(victim.node, asking=record, gone=gone | others), taken(record))
            fewer = (gone | others) - {victim.uid}
            assert not fits(self.oracle.room(victim.node, asking=record, gone=fewer), taken(record))

    @invariant()
    def nodes_add_up(self):
        if not hasattr(self, "world"):
            return
        self.world.algorithm.validate()
        nodes = shown(self.world.algorithm)["nodes"]
        for name in self.world.nodes:
            expected = self.oracle.room(name)
            free = nodes[name]["free"]
            has = nodes[name]["allocatable"]
            assert free == {key: expected.get(key, 0) for key in has}

    def teardown(self):
        if not hasattr(self, "world"):
            return
        for uid in sorted({*self.world.waiting, *self.world.allocated}):
            self.world.delete(uid)
        for name in sorted(self.world.nodes):
            self.world.delete_node(name)
        assert shown(self.world.algorithm) == shown(PackingHarness(strategy=self.world.settings.strategy).algorithm)

    # -- helpers ----------------------------------------------------------------------------------------------

    def name(self):
        self.made += 1
        return f"p{self.made:03}"

    def one_of(self, records, pick):
        return records[sorted(records)[pick % len(records)]] if records else None

    def offered(self, leave_out):
        """Every node, or all but some."""
        return [
            name
            for i, name in enumerate(sorted(self.world.nodes, reverse=True))
            if not leave_out >> 8 & leave_out & 1 << i
        ]


PackingMachine.TestCase.settings = few(50, 40)
TestPackingMachine = PackingMachine.TestCase
