"""Claims in a cluster where anything happens in any order: late, lost and doubled answers, other servers, lag.

The oracle is the cluster itself. A pod that is handed out is its claim's (checked at every answer). Each request has
one answer. No pod is idle for the engine while somebody waits who could have it (`validate`, after every event). Once
all has come to rest, no pods are claimed but those of granted claims.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from extender.claims.codes import ClaimCode
from extender.claims.events import NodeSeen
from extender.claims.records import Mode, Order
from extender.claims.writes import names
from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.claims.world import Sent, World

FAILURES = [
    Outcome(OutcomeKind.THROTTLED, "too many requests", retry_after=1.0),
    Outcome(OutcomeKind.UNKNOWN, "time-out"),
    Outcome(OutcomeKind.LOST, "conflict"),
    Outcome(OutcomeKind.REJECTED, "forbidden"),
]
NODES = ["n1", "n2", "n3"]
TENANTS = ["", "a", "b"]


class ClaimsMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.requests = 0
        self.asked = {}
        self.left = set()
        self.keys = {}

    @initialize(
        mode=st.sampled_from(list(Mode)),
        order=st.sampled_from(list(Order)),
        window=st.sampled_from([1.0, 2.0, 64.0]),
        cap=st.sampled_from([0, 0, 3]),
        number=st.integers(0, 5),
    )
    def start(self, mode, order, window, cap, number):
        self.world = World(mode)
        for index in range(number):
            self.world.add(node=NODES[index % 3], labels={"gpu": str(index % 2)})
        self.settings = (self.world.pool(order=order, most_pods_of_tenant=cap, most_waiting=6), window)
        self.world.start(self.settings[0], window=window)

    # -- callers

    @rule(
        tenant=st.sampled_from(TENANTS),
        count=st.sampled_from([1, 1, 1, 2, 3]),
        gpu=st.sampled_from([None, None, "0", "1"]),
        priority=st.sampled_from([0, 0, 1]),
        wait=st.sampled_from([0.0, 5.0, 60.0]),
        lease=st.sampled_from([0.0, 20.0]),
        key=st.sampled_from(["", "", "k"]),
    )
    def ask(self, tenant, count, gpu, priority, wait, lease, key):
        self.requests += 1
        request = f"r{self.requests}"
        labels = {"gpu": gpu} if gpu else {}
        digest = f"{count}{labels}{priority}"
        self.asked[request] = count
        self.world.ask(
            request,
            tenant=tenant,
            count=count,
            labels=labels,
            priority=priority,
            wait_seconds=wait,
            lease_seconds=lease,
            key=key,
            digest=digest,
        )

    @precondition(lambda self: set(self.asked) - set(self.world.answers) - self.left)
    @rule(data=st.data())
    def leave(self, data):
        request = data.draw(st.sampled_from(sorted(set(self.asked) - set(self.world.answers) - self.left)))
        self.left.add(request)
        self.world.leave(request)

    @precondition(lambda self: self.world.engine.state.claims)
    @rule(data=st.data())
    def release(self, data):
        self.requests += 1
        claim = data.draw(st.sampled_from(sorted(self.world.engine.state.claims)))
        self.world.release(f"x{self.requests}", claim)

    # -- the API server

    @precondition(lambda self: self.world.sent)
    @rule(data=st.data(), ending=st.sampled_from(["right", "right", "arrives", "answer lost", "never arrives", "late"]))
    def carry_out(self, data, ending):
        sent = self.world.sent[data.draw(st.integers(0, len(self.world.sent) - 1))]
        if ending in ("right", "arrives", "answer lost") and sent.outcome is None:
            self.world.arrive(sent)
        if ending == "right":
            self.world.answer(sent)
        elif ending == "answer lost":
            self.world.answer(sent, FAILURES[1])
        elif ending != "arrives" and sent.outcome is None:
            failure = FAILURES[1] if ending == "late" else data.draw(st.sampled_from(FAILURES))
            self.world.answer(sent, failure)
            if ending == "late" and not sent.command.is_read:
                self.world.late.append(Sent(sent.command))

    @precondition(lambda self: self.world.late)
    @rule()
    def late_write_arrives(self):
        self.world.arrive(self.world.late.pop(0))

    @rule(number=st.integers(1, 4))
    def observe(self, number):
        self.world.observe(number)

    @precondition(lambda self: self.world.watch)
    @rule()
    def an_event_is_doubled(self):
        self.world.tell(self.world.watch[0])

    # -- the cluster

    @rule(node=st.sampled_from(NODES), gpu=st.sampled_from(["0", "1"]))
    def add(self, node, gpu):
        if len(self.world.pods) < 8:
            self.world.add(node=node, labels={"gpu": gpu}, seen=False)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), what=st.sampled_from(["delete", "noise", "terminate", "steal", "ready", "unclaim"]))
    def change(self, data, what):
        uid = data.draw(st.sampled_from(sorted(self.world.pods)))
        metadata = self.world.pods[uid]["metadata"]
        if what == "delete":
            self.world.delete(uid)
        elif what == "noise":
            self.world.change(uid, lambda pod: pod["status"].update(podIPs=[{"ip": "10.0.0.1"}]))
        elif what == "terminate":
            self.world.change(uid, lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-22T00:00:00Z"))
        elif what == "ready":
            conditions = self.world.pods[uid]["status"]["conditions"]
            flipped = "False" if conditions[0]["status"] == "True" else "True"
            self.world.change(uid, lambda pod: pod["status"]["conditions"][0].update(status=flipped))
        elif what == "steal" and names.CLAIM_LABEL not in metadata["labels"] and "deletionTimestamp" not in metadata:
            self.world.change(uid, lambda pod: theirs(pod, uid))

    @rule(node=st.sampled_from(NODES), serves=st.booleans())
    def cordon(self, node, serves):
        self.world.tell(NodeSeen(node, serves))

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0, 40.0]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    # -- the end

    def teardown(self):
        world = getattr(self, "world", None)
        if world is None:
            return
        for node in NODES:
            world.tell(NodeSeen(node, serves=True))
        for _ in range(20):
            while world.late:
                world.arrive(world.late.pop(0))
            world.settle()
            world.pass_time(10.0)
        world.settle()
        unanswered = set(self.asked) - set(world.answers) - self.left
        assert not unanswered, f"no answer: {sorted(unanswered)}"
        assert not world.engine.requests.pending
        self.check_claims(world)

    def check_claims(self, world):
        granted = {}
        for answer in world.answers.values():
            if answer.code is ClaimCode.CLAIMED and answer.request in self.asked:
                assert len(answer.pods) == self.asked[answer.request] or answer.claim != f"c-{answer.request}"
                granted.setdefault(answer.claim, {pod.uid for pod in answer.pods})
        for claim, uids in world.claimed().items():
            if not claim.startswith("theirs"):
                assert uids <= granted.get(claim, set()), f"{claim} has {uids}, was granted {granted.get(claim)}"


def theirs(pod, uid):
    pod["metadata"]["labels"][names.CLAIM_LABEL] = f"theirs-{uid}"
    mark = f'{{"claim":"theirs-{uid}","pool":"warm","expires":1030}}'
    pod["metadata"].setdefault("annotations", {})[names.CLAIM_ANNOTATION] = mark


QUICK = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)

TestClaims = ClaimsMachine.TestCase
TestClaims.settings = QUICK


@pytest.mark.slow
def test_for_longer():
    run_state_machine_as_test(
        ClaimsMachine,
        settings=settings(
            max_examples=1500, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
