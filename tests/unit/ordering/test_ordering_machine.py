"""Start-up ordering in a cluster where anything happens in any order, held against an oracle that derives all anew.

After every event: the same pods wait, and are released. Once time has passed: a pod is told to be in trouble exactly if
it cannot go on as things are, and to be in a cycle exactly if it waits for itself. A server that starts anew, or begins
to lead, ends with the same.
"""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from algorithm.reasons import Code
from extender.core.outcomes import Outcome, OutcomeKind
from extender.ordering.events import PodSeen, TermBegun, TermEnded, WorkloadSeen
from extender.ordering.records import RELEASED
from extender.ordering.state import Phase
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.ordering.writes.met import MarkMet, MetMarked
from extender.ordering.writes.read import ReadPod
from tests.support.examples import few
from tests.unit.ordering.oracle import Oracle
from tests.unit.ordering.world import World, pod, running, target, workload

NAMES = st.sampled_from(["p", "q", "r", "s", "t"])
AFTERS = st.sampled_from(
    [
        "",
        "[]",
        "[group/g]",
        "[group/h]",
        "[job/x]",
        "[{kind: Job, name: x, state: Complete}, pod/p]",
        "[{kind: Job, name: y, optional: true, grace: 10}, group/g]",
        "[{group: g, state: Scheduled}]",
        "[pod/p]",
        "[pod/q, job/y]",
        "[{kind: pod, name: r, state: Complete, grace: 0}]",
    ]
)
GROUPS = st.sampled_from(["", "g", "h"])
OWNERS = st.sampled_from(["", "", "Job/x", "Job/y"])
WORKLOADS = st.sampled_from(["Job/x", "Job/y", "Group/g", "Group/h"])
FAILURES = st.sampled_from([OutcomeKind.UNKNOWN, OutcomeKind.REJECTED, OutcomeKind.THROTTLED, OutcomeKind.LOST])


CHANGES = st.sampled_from(["ready", "ready", "bound", "bound", "Succeeded", "Failed", "terminating"])


class OrderingMachine(RuleBasedStateMachine):
    @initialize(
        pods=st.lists(st.tuples(AFTERS, GROUPS, OWNERS), min_size=5, max_size=5),
        workloads=st.lists(st.tuples(WORKLOADS, st.integers(1, 2)), max_size=4, unique_by=lambda each: each[0]),
    )
    def begin(self, pods: list[tuple[str, str, str]], workloads: list[tuple[str, int]]) -> None:
        self.world = World()
        self.oracle = Oracle()
        self.serial = itertools.count()
        self.term = 1
        for name, number in workloads:
            self.change_workload(name, number, "", "", anew=False)
        for name, (after, group, owner) in zip("pqrst", pods, strict=True):
            self.create(name, after, group, owner, gated=True, minimum=1)

    def _compare(self) -> None:
        world = self.world
        self.oracle.step(world.pods.values(), world.workloads, world.now)
        waiting = world.engine.state.waiting
        found = {uid for uid, each in waiting.items() if each.phase is Phase.WAITING}
        assert found == self.oracle.waits()

    @rule(name=NAMES, after=AFTERS, group=GROUPS, owner=OWNERS, gated=st.booleans(), minimum=st.integers(1, 2))
    def create(self, name: str, after: str, group: str, owner: str, gated: bool, minimum: int) -> None:
        if name in self.world.pods:
            self.world.drop(name)
            self._compare()
        made = pod(name, after, gated=gated, group=group, owner=owner, uid=f"uid-{next(self.serial)}", minimum=minimum)
        known = self.world.workloads.get(target(owner)) if owner else None
        if known:
            made = msgspec.structs.replace(made, owner_uid=known.uid)
        self.world.put(made)
        self._compare()

    @rule(name=NAMES, after=AFTERS, bad=st.booleans())
    def declare(self, name: str, after: str, bad: bool) -> None:
        if record := self.world.pods.get(name):
            made = pod(name, after)
            wrong = "it is wrong" if bad else ""
            declared = {"after": () if bad else made.after, "declares": made.declares or bad, "bad_after": wrong}
            self.world.put(msgspec.structs.replace(record, **declared))
            self._compare()

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.world.pods:
            self.world.drop(name)
            self._compare()

    @rule(name=st.sampled_from(["p", "q", "r", "s", "t"]), gone=st.booleans())
    def ungate(self, name: str, gone: bool) -> None:
        """Somebody else removes or adds a gate."""
        if (record := self.world.pods.get(name)) and not record.node and gone:
            self.world.put(msgspec.structs.replace(record, gates=()))
            self._compare()

    @rule(name=NAMES, change=CHANGES)
    def go_on(self, name: str, change: str) -> None:
        record = self.world.pods.get(name)
        if record is None or record.gates or record.phase in ("Succeeded", "Failed"):
            return
        match change:
            case "ready":
                record = running(record, ready=not record.ready)
            case "bound":
                record = msgspec.structs.replace(record, node="n")
            case "terminating":
                record = msgspec.structs.replace(record, terminating=True)
            case phase:
                record = running(record, phase=phase, ready=False)
        self.world.put(record)
        self._compare()

    @rule(
        name=WORKLOADS,
        pods=st.integers(0, 2),
        end=st.sampled_from(["", "", "complete", "failed"]),
        after=AFTERS,
        anew=st.booleans(),
    )
    def change_workload(self, name: str, pods: int, end: str, after: str, anew: bool) -> None:
        is_group = name.startswith("Group")
        known = self.world.workloads.get(target(name))
        if known and anew:
            self.world.drop(name)
            self._compare()
            known = None
        uid = known.uid if known else f"uid-{next(self.serial)}"
        fate = {} if is_group else {"complete": end == "complete", "failed": "Why" if end == "failed" else ""}
        self.world.put(workload(name, max(pods, is_group), after, uid=uid, **fate))
        self._compare()

    @rule(name=WORKLOADS)
    def delete_workload(self, name: str) -> None:
        if target(name) in self.world.workloads:
            self.world.drop(name)
            self._compare()

    @rule(seconds=st.sampled_from([1.0, 5.0, 30.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)
        self._compare()

    # -- writes

    @rule()
    def hold_writes(self) -> None:
        self.world.holds = True

    @precondition(lambda self: self.world.holds and self.world.writes)
    @rule(index=st.integers(0, 10), fails=st.booleans(), happens=st.booleans(), kind=FAILURES)
    def end_write(self, index: int, fails: bool, happens: bool, kind: OutcomeKind) -> None:
        write = self.world.writes.pop(index % len(self.world.writes))
        if not fails or isinstance(write, ReadPod):
            self.world.carry_out(write)
        else:
            if happens and kind is OutcomeKind.UNKNOWN:
                self._happen(write)
            report = GateRemoved if isinstance(write, RemoveGate) else MetMarked
            self.world.send(report(write.token, write.key, write.uid, Outcome(kind)))
        self._compare()

    def _happen(self, write: RemoveGate | MarkMet) -> None:
        """It happens, and no watch has shown it yet."""
        known = self.world.pods.get(write.key.name)
        if known and known.uid == write.uid:
            met = frozenset({RELEASED}) if isinstance(write, RemoveGate) else frozenset(write.met)
            gates = () if isinstance(write, RemoveGate) else known.gates
            version = str(next(self.world.versions))
            self.world.pods[write.key.name] = msgspec.structs.replace(known, gates=gates, met=met, version=version)

    @rule()
    def end_writes(self) -> None:
        self.world.holds = False
        for write in self.world.writes:
            self.world.carry_out(write)
        self.world.writes = []
        self._compare()

    # -- servers

    @rule()
    def lead_again(self) -> None:
        self.term += 1
        self.world.send(TermEnded(), TermBegun(self.term))

    @rule(order=st.randoms(use_true_random=False))
    def restart(self, order) -> None:  # type: ignore[no-untyped-def]
        before = self.world
        self.world = World(is_leader=False)
        self.world.now, self.world.versions = before.now, before.versions
        self.world.engine.state.is_synced = False
        self.world.pods, self.world.workloads = before.pods, before.workloads
        events = [PodSeen(each) for each in before.pods.values()]
        events += [WorkloadSeen(each) for each in before.workloads.values()]
        order.shuffle(events)
        self.world.send(*events)
        from extender.ordering.events import Synced

        self.oracle.step(before.pods.values(), before.workloads, before.now)
        self.oracle.restart()
        self.world.send(Synced(), TermBegun(self.term))
        self._compare()

    # -- what holds always

    @invariant()
    def is_valid(self) -> None:
        self.world.engine.validate()
        for uid, each in self.world.engine.state.waiting.items():
            if each.phase is not Phase.WAITING:
                continue
            if each.after or each.record.declares or each.record.is_gated:
                assert each.held is not None, f"{uid} waits and the engine of pods does not know"

    @rule()
    def come_to_rest(self) -> None:
        self.end_writes()
        self.world.wait(700)
        self._compare()
        for write in self.world.writes:
            assert not isinstance(write, ReadPod), "a timer had to find out"
        self.world.writes = []
        stuck = self.oracle.stuck()
        cycle = self.oracle.in_cycle(stuck)
        for uid in self.oracle.waits():
            waiting = self.world.engine.state.waiting[uid]
            if waiting.reason is None:
                assert not waiting.unmet
                continue
            code, is_direct = waiting.reason.code, self.oracle.direct(self.oracle.pods[uid])
            assert (code is not Code.WAITS_FOR_DEPENDENCY) == (uid in stuck), (waiting.reason.text, stuck)
            if not is_direct:
                assert (code is Code.DEPENDENCY_CYCLE) == (uid in cycle), (waiting.reason.text, cycle)
        released = {uid for uid, each in self.world.engine.state.waiting.items() if each.phase is Phase.RELEASING}
        assert not released, f"their writes never ended: {released}"

    def teardown(self) -> None:
        self.come_to_rest()


TestOrdering = OrderingMachine.TestCase
TestOrdering.settings = few(15, 20)


@pytest.mark.slow
def test_for_longer() -> None:
    run_state_machine_as_test(
        OrderingMachine,
        settings=settings(
            max_examples=200,
            report_multiple_bugs=False,
            stateful_step_count=50,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
