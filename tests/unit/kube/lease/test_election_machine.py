"""Elections with everything going wrong at once: by true time there are never two leaders.

The oracle is a naive API server with optimistic concurrency and one true time that no replica knows. Each replica has a
clock of its own, with its own offset and its own speed; a call may be applied late, twice over or never, and answered
late or never; a replica that no rule lets run is a paused process.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.kube.lease.election import Election, LeaseTiming, Look, Record, Seen, Wait, Write

#: The least distance between deadline and lease that settings allow, and about the clocks that it just bears.
TIMING = LeaseTiming(lease=10, renew_deadline=8, retry=1.5)
SPEEDS = st.sampled_from([0.9, 0.95, 1.0, 1.05, 1.12])


@dataclass
class Server:
    """What the API server does with one object."""

    lease: Seen = field(default_factory=Seen)
    written: int = 0

    def write(self, record: Record | None, uid: str = "") -> Seen:
        self.written += 1
        self.lease = Seen(record, f"{self.written}", uid or self.lease.uid or f"u{self.written}") if record else Seen()
        return self.lease


@dataclass(eq=False)
class Call:
    """One request: on its way, applied (`result`: True is refused), answered or given up (`waited_for` False)."""

    replica: Replica
    action: Look | Write
    started: float
    record: Record | None
    result: Seen | bool | None = None
    waited_for: bool = True


@dataclass(eq=False)
class Replica:
    election: Election
    speed: float
    offset: float
    call: Call | None = None
    terms: list[int] = field(default_factory=list)
    #: Terms that somebody may have been told are over.
    over: set[int] = field(default_factory=set)

    def now(self, true: float) -> float:
        return self.offset + true * self.speed

    def leads(self, true: float) -> bool:
        """As the fence would say it at this moment, whether or not a thread has noticed."""
        return bool(self.election.term) and self.now(true) < self.election.deadline


class Elections(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.true = 1000.0
        self.server = Server()
        self.replicas: list[Replica] = []
        self.network: list[Call] = []
        self.deleted = False
        self.terms: list[int] = []
        self.names = 0

    @initialize(speeds=st.lists(SPEEDS, min_size=2, max_size=3), seed=st.integers(0, 99))
    def begin(self, speeds: list[float], seed: int) -> None:
        self.rng = random.Random(seed)
        self.replicas = [self.made(speed) for speed in speeds]

    def made(self, speed: float) -> Replica:
        self.names += 1
        return Replica(Election(f"r{self.names}", TIMING, self.rng), speed, self.rng.uniform(0, 1e6))

    # -- a replica runs, or does not --

    @rule(which=st.integers(0, 2))
    def run(self, which: int) -> None:
        self.run_one(self.replicas[which % len(self.replicas)])

    def run_one(self, replica: Replica) -> None:
        if replica.call is not None:
            return
        now = replica.now(self.true)
        action = replica.election.step(now)
        if isinstance(action, Wait):
            assert action.until > now
            return
        self.send(replica, action)

    def send(self, replica: Replica, action: Look | Write) -> None:
        now = replica.now(self.true)
        record = None
        if isinstance(action, Write):
            holder = "" if action.release or action.creates else replica.election.identity
            record = Record(holder, action.term, 10.0, "" if action.creates else f"{holder} {now}", action.release)
        replica.call = Call(replica, action, now, record)
        self.network.append(replica.call)

    @rule(which=st.integers(0, 2))
    def give_up(self, which: int) -> None:
        replica = self.replicas[which % len(self.replicas)]
        if replica.call is not None:
            replica.call.waited_for, replica.call = False, None
            replica.election.failed(replica.now(self.true))

    @rule(which=st.integers(0, 2), speed=SPEEDS)
    def crash(self, which: int, speed: float) -> None:
        replica = self.replicas[which % len(self.replicas)]
        if replica.call is not None:
            replica.call.waited_for = False
        self.replicas[which % len(self.replicas)] = self.made(speed)

    @rule(which=st.integers(0, 2))
    def stop_in_order(self, which: int) -> None:
        """It releases; whether anybody is there to hear the answer does not matter."""
        replica = self.replicas[which % len(self.replicas)]
        if replica.call is None:
            action = replica.election.resign()
            if isinstance(action, Write):
                self.send(replica, action)
        self.crash(which, replica.speed)

    # -- the network --

    @precondition(lambda self: self.network)
    @rule(index=st.integers(0, 20), answered=st.booleans())
    def apply(self, index: int, answered: bool) -> None:
        call = self.network[index % len(self.network)]
        self.apply_one(call)
        if answered:
            self.answer_one(call)

    def apply_one(self, call: Call) -> None:
        if call.result is not None:
            return
        lease = self.server.lease
        if isinstance(call.action, Look):
            call.result = lease
        elif (call.action.base.version, call.action.base.uid) != (lease.version, lease.uid):
            call.result = True
        else:
            call.result = self.server.write(call.record)

    @precondition(lambda self: self.network)
    @rule(index=st.integers(0, 20))
    def answer(self, index: int) -> None:
        call = self.network[index % len(self.network)]
        if call.result is not None:
            self.answer_one(call)

    def answer_one(self, call: Call) -> None:
        self.network.remove(call)
        if not call.waited_for:
            return
        replica, now = call.replica, call.replica.now(self.true)
        replica.call = None
        before = replica.election.term
        if call.result is True:
            replica.election.refused(now)
        elif isinstance(call.action, Look):
            replica.election.saw(call.result, now)
        else:
            replica.election.wrote(call.action, call.result, started=call.started, now=now)
        if replica.election.term not in (0, before):
            self.began(replica)

    def began(self, replica: Replica) -> None:
        term = replica.election.term
        assert all(term > earlier for earlier in replica.terms), "a term began twice"
        assert self.deleted or all(term > earlier for earlier in self.terms), "terms go back"
        replica.terms.append(term)
        self.terms.append(term)

    @precondition(lambda self: self.network)
    @rule(index=st.integers(0, 20))
    def lose(self, index: int) -> None:
        call = self.network.pop(index % len(self.network))
        if call.waited_for:
            call.waited_for, call.replica.call = False, None
            call.replica.election.failed(call.replica.now(self.true), retry_after=3)

    @rule(index=st.integers(0, 2), rounds=st.integers(1, 8), seconds=st.sampled_from([0.1, 0.7, 1.3]))
    def live_undisturbed(self, index: int, rounds: int, seconds: float) -> None:
        """One replica has a quick connection for a while, so that there are leaders at all."""
        replica = self.replicas[index % len(self.replicas)]
        for _ in range(rounds):
            self.run_one(replica)
            if replica.call is not None:
                self.apply_one(replica.call)
                self.answer_one(replica.call)
            self.pass_time(seconds)
            self.never_two_leaders()

    @rule(which=st.integers(0, 2), before=st.floats(0, 9), after=st.floats(0, 9))
    def live_slowly(self, which: int, before: float, after: float) -> None:
        """One call that is long under way, to the API server and back."""
        replica = self.replicas[which % len(self.replicas)]
        self.run_one(replica)
        self.pass_time(before)
        self.never_two_leaders()
        if replica.call is not None:
            self.apply_one(replica.call)
            self.pass_time(after)
            self.never_two_leaders()
            self.answer_one(replica.call)

    # -- time and people --

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.5, 4.0, 7.9, 9.0, 12.0]))
    def pass_time(self, seconds: float) -> None:
        self.true += seconds

    @precondition(lambda self: self.server.lease.record)
    @rule(how=st.sampled_from(["delete", "spoil", "touch", "rename"]))
    def meddle(self, how: str) -> None:
        record = self.server.lease.record
        if how == "delete":
            self.deleted = True
            self.server.write(None)
        elif how == "touch":
            self.server.write(record)
        elif how == "spoil":
            self.server.write(replace(record, holder="", duration=0.0, released=False))
        else:
            self.server.write(replace(record, holder="somebody", released=False))

    @invariant()
    def never_two_leaders(self) -> None:
        leaders = [r.election.identity for r in self.replicas if r.leads(self.true)]
        assert len(leaders) <= 1, f"two leaders at once: {leaders}"
        for replica in self.replicas:
            if replica.leads(self.true):
                assert replica.election.term not in replica.over, "a term that was over goes on"
            elif replica.election.term:
                replica.over.add(replica.election.term)

    def teardown(self) -> None:
        """Whatever happened: when the network is whole again, there is a leader soon, and it stays."""
        if not self.replicas:
            return
        for call in self.network:
            call.waited_for = False
        for replica in self.replicas:
            if replica.call is not None:
                replica.call = None
                replica.election.failed(replica.now(self.true))
        self.network.clear()
        leaders: set[str] = set()
        for tick in range(400):
            for replica in self.replicas:
                self.run_one(replica)
                if replica.call is not None:
                    self.apply_one(replica.call)
                    self.answer_one(replica.call)
            self.never_two_leaders()
            if tick > 200:
                leaders |= {r.election.identity for r in self.replicas if r.leads(self.true)} or {"nobody"}
            self.true += 0.1
        assert len(leaders) == 1, leaders
        assert leaders != {"nobody"}


TestElections = Elections.TestCase
TestElections.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
