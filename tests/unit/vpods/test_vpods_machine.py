"""VPods in a cluster where anything happens in any order: late, lost and doubled answers, pods that go, other leaders.

The oracle is the cluster itself. At every write that is decided: it keeps what promises.py says. At every write that
arrives: no pod holds more than it can, and no replica is taken away that hosts something. Once all has come to rest:
every vpod has what it wants, or no pod has room for it; numbers are as even as can be; nothing more is said; and a
server that starts anew changes nothing.
"""

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from extender.vpods.events import TermBegun, VPodGone
from extender.vpods.writes.placements import WritePlacements
from tests.support.engine.in_flight import TIMED_OUT, InFlightRules
from tests.support.examples import few
from tests.unit.vpods.world import SET, World, key

#: The last one is an object of somebody else's resource.
NAMES = st.sampled_from(["a", "b", "c", "x"])
POLICIES = st.sampled_from(["balanced", "balanced", "balanced", "mine", "head", "v0.43.0"])
OVERLAPS = st.sampled_from([0.0, 0.0, 10.0])


class VPodsMachine(InFlightRules):
    @initialize(
        replicas=st.integers(0, 4),
        capacity=st.integers(1, 6),
        zones=st.sampled_from([1, 1, 2]),
        max_moves=st.sampled_from([1, 2, 16]),
        scales=st.booleans(),
        max_replicas=st.integers(1, 6),
        scale_down_step=st.sampled_from([0, 1]),
        unready_seconds=st.sampled_from([20.0, 20.0, 0.0]),
        policy=POLICIES,
        overlap_seconds=OVERLAPS,
        more=st.fixed_dictionaries(
            {},
            optional={
                "partial_seconds": st.just(30.0),
                "scale_up_seconds": st.just(15.0),
                "scale_up_step": st.just(1),
            },
        ),
    )
    def begin(self, replicas, zones, more, **settings):
        self.world = World(
            replicas=replicas,
            zones=zones,
            scale_down_seconds=30.0,
            **settings,
            **more,
        )
        self.rolling = []
        self.late = []
        self.term = 1

    # -- people

    @rule(
        name=NAMES, wanted=st.integers(0, 12), spread=st.sampled_from([0, 0, 2]), max_per_pod=st.sampled_from([0, 0, 2])
    )
    def want(self, name, wanted, spread, max_per_pod):
        self.world.want(name, wanted, spread=spread, max_per_pod=max_per_pod)

    @rule(
        changes=st.fixed_dictionaries(
            {},
            optional={
                "max_moves": st.sampled_from([1, 16]),
                "capacity": st.integers(1, 6),
                "policy": POLICIES,
                "overlap_seconds": OVERLAPS,
                "scales": st.booleans(),
                "zones": st.booleans(),
            },
        )
    )
    def reconfigure(self, changes):
        self.world.configure(**changes)

    @rule(replicas=st.integers(0, 6))
    def somebody_else_scales(self, replicas):
        self.world.scale(replicas)

    @precondition(lambda self: self.world.workload_is_there)
    @rule()
    def the_statefulset_goes(self):
        self.world.delete_workload()

    @precondition(lambda self: key("x", source="others") in self.world.vpods)
    @rule()
    def an_object_leaves_its_source_and_comes_back(self):
        """Its labels change, and change back. While it is away its placements are none of ours."""
        record = self.world.vpods[key("x", source="others")]
        self.world.watch.append(VPodGone(record.key, record.uid, exists=True))
        self.world.put(msgspec.structs.replace(record, placements=()))

    @rule(fault=st.sampled_from(["", "raises", "lies"]))
    def policy_fails(self, fault):
        self.world.policy_fault = fault

    @precondition(lambda self: self.world.vpods)
    @rule(data=st.data())
    def delete(self, data):
        self.world.delete(data.draw(st.sampled_from(sorted(each.name for each in self.world.vpods))))

    # -- the API server

    def may_be_late(self, sent):
        return isinstance(sent.command, WritePlacements)

    # -- the cluster

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), what=st.sampled_from(["unready", "ready", "close", "open", "lose", "terminate"]))
    def pod(self, data, what):
        ordinal = data.draw(st.sampled_from(sorted(self.world.pods)))
        if what == "lose":
            self.world.lose(ordinal)
        elif what in ("ready", "unready"):
            self.world.change(ordinal, ready=what == "ready")
        elif what in ("close", "open"):
            self.world.change(ordinal, closed=what == "close")
        else:
            self.world.change(ordinal, terminating=True)

    @rule()
    def roll_out(self):
        """A new revision of the StatefulSet: its pods are replaced one by one, the last one first."""
        self.rolling = sorted(self.world.pods)

    @precondition(lambda self: self.rolling)
    @rule()
    def roll_on(self):
        world, ordinal = self.world, self.rolling[-1]
        pod = world.pods.get(ordinal)
        if pod is None:
            world.control()
            self.rolling.pop()
        elif pod.terminating:
            world.lose(ordinal)
        else:
            world.change(ordinal, terminating=True, ready=False)

    @rule()
    def controller(self):
        self.world.control()

    @rule(node=st.sampled_from(["n0", "n1", "n2"]), serves=st.booleans())
    def cordon(self, node, serves):
        self.world.serve(node, serves=serves)

    @rule(seconds=st.sampled_from([0.5, 5.0, 25.0, 60.0]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    # -- servers

    @rule()
    def the_server_is_killed(self):
        """What it has sent has arrived, or never will: the next leader's term begins after that."""
        self.late.clear()
        self.world.start()

    @rule(begins=st.booleans())
    def the_leader_changes(self, begins):
        for sent in list(self.world.sent):
            self.world.answer(sent, TIMED_OUT) if sent.outcome is None else self.world.answer(sent)
        self.late.clear()
        self.world.demote()
        self.world.sent.clear()
        if begins:
            self.term += 1
            while self.world.watch:
                self.world.observe()
            self.world.tell(TermBegun(self.term))

    # -- the end

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        for sent in self.late:
            world.arrive(sent)
        for node in world.nodes:
            world.serve(node, serves=True)
        for ordinal in sorted(world.pods):
            world.change(ordinal, ready=True, closed=False, terminating=False)
        world.control()
        world.policy_fault = ""
        if not world.workload_is_there:
            world.scale(world.workload.replicas)
        if world.engine.term is None:
            while world.watch:
                world.observe()
            world.tell(TermBegun(self.term + 1))
        for _ in range(40):
            world.settle()
            world.pass_time(100.0)
        world.settle()
        said = len(world.notices)
        for _ in range(10):
            world.pass_time(1000.0)
            world.settle()
        assert len(world.notices) == said, world.notices[said:]
        self.check_at_rest()
        world.moves, version = 0, world.version
        world.start()
        world.settle()
        assert world.moves == 0, "a server that starts moves something"
        tries = world.settings.partial_seconds is not None and key("x", source="others") in world.vpods
        assert world.version == version or tries, "a server that starts changes something"

    def check_at_rest(self):
        world = self.world
        hosted = world.engine.sets[SET]
        state = hosted.state
        assert not [each for each in world.engine.vpods.values() if each.hold]
        assert state.usable == list(range(world.workload.replicas))
        assert all(number <= state.capacity for number in state.held.values())
        for name, record in world.vpods.items():
            vpod = state.vpods[str(name)]
            placed = sum(number for _, number in record.placements)
            room = [o for o in state.usable if vpod.committed.get(o, 0) < state.most_for(vpod, o)]
            gives_back = world.settings.partial_seconds is not None and not placed
            is_partial = self.world.settings.policy != "v0.43.0"  # which places all or nothing
            assert placed == record.wanted or not room or gives_back or not is_partial, f"{name}: {placed} placed"
            if not gives_back:
                assert hosted.place(vpod).counts == vpod.committed, f"{name} is not even"
        if world.settings.scales:
            wanted = sum(record.wanted for record in world.vpods.values())
            spread = max((pods_of(each) for each in world.vpods.values()), default=0)
            needed = min(world.settings.max_replicas, max(-(-wanted // world.settings.capacity), spread))
            # Vreplicas that fit nowhere else keep their pods, also beyond the bound.
            most = world.settings.max_replicas * world.settings.capacity
            is_bound = wanted > most or any(each.max_per_pod for each in world.vpods.values())
            assert world.workload.replicas == needed or is_bound or not self.is_even

    @property
    def is_even(self):
        return self.world.settings.policy in ("balanced", "mine")


def pods_of(record):
    """On how many pods a vpod has to be."""
    limit = -(-record.wanted // record.max_per_pod) if record.max_per_pod else 0
    return max(min(record.spread, record.wanted), limit)


TestVPods = VPodsMachine.TestCase
TestVPods.settings = few(25, 40)


@pytest.mark.slow
def test_for_longer():
    run_state_machine_as_test(
        VPodsMachine,
        settings=settings(
            max_examples=300,
            report_multiple_bugs=False,
            stateful_step_count=80,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
