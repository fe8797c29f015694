"""Claims in a cluster where anything happens in any order: late, lost and doubled answers, other servers, lag.

The oracle is the cluster itself. Up to three servers serve the pool. A pod that is handed out is its claim's (checked
at every answer). Where servers share pools, a key gets one claim as long as that stands, whichever servers are asked.
Each request has one answer. No pod is idle for the engine while somebody waits who could have it (`validate`, after
every event). Once all has come to rest, no pods are claimed but those of granted claims, and nothing of a claim is left
on an idle pod.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from extender.claims.codes import ClaimCode
from extender.claims.events import MembersSeen, NodeSeen
from extender.claims.records import Mode, OnEmpty, Order, Phase
from extender.claims.writes import names
from extender.claims.writes.create import CreatePod
from extender.claims.writes.take import TakePod
from extender.core.outcomes import Outcome, OutcomeKind
from tests.support.engine.in_flight import FAILURES, InFlightRules
from tests.support.examples import few
from tests.unit.claims.test_creating import TEMPLATE
from tests.unit.claims.world import Sent, World

NODES = ["n1", "n2", "n3"]
TENANTS = ["", "a", "b"]


class ClaimsMachine(InFlightRules):
    failures = (*FAILURES, Outcome(OutcomeKind.LOST, "conflict"))

    def __init__(self):
        super().__init__()
        self.requests = 0
        self.asked = {}
        self.left = set()
        #: The requests with a key.
        self.keyed = []
        #: The server of each request.
        self.home = {}
        self.renewals = set()
        #: Claims of requests that a killed server had, and those that it may have been giving back.
        self.crashed = set()

    @initialize(
        mode=st.sampled_from(list(Mode)),
        order=st.sampled_from(list(Order)),
        window=st.sampled_from([1.0, 2.0, 64.0]),
        cap=st.sampled_from([0, 0, 3]),
        number=st.integers(0, 5),
        servers=st.sampled_from([1, 1, 2, 2, 3]),
        shares=st.sampled_from([True, True, False]),
    )
    def start(self, mode, order, window, cap, number, servers, shares):
        self.world = World(mode, orphan_seconds=60.0, shares=shares)
        for index in range(number):
            self.world.add(node=NODES[index % 3], labels={"gpu": str(index % 2)})
        pool = self.world.pool(
            order=order, max_pods_per_tenant=cap, max_pending=6, start_seconds=20.0, template=TEMPLATE
        )
        self.settings = (pool, window)
        self.worlds = [self.world, *(self.world.another() for _ in range(servers - 1))]
        for world in self.worlds:
            world.start(pool, window=window)

    @rule(number=st.integers(0, 2))
    def turn(self, number):
        """What follows happens at another server."""
        self.world = self.worlds[number % len(self.worlds)]

    @rule(data=st.data())
    def members(self, data):
        """Servers see each other, or some of each other."""
        names = [f"s{number}" for number in range(len(self.worlds))]
        me = names[self.worlds.index(self.world)]
        self.world.tell(MembersSeen(tuple(data.draw(st.sets(st.sampled_from(names)))), me))

    # -- callers

    @rule(
        tenant=st.sampled_from(TENANTS),
        count=st.sampled_from([1, 1, 1, 2, 3]),
        gpu=st.sampled_from([None, None, "0", "1"]),
        priority=st.sampled_from([0, 0, 1]),
        wait=st.sampled_from([0.0, 5.0, 60.0]),
        lease=st.sampled_from([0.0, 20.0]),
        key=st.sampled_from(["", "", "k"]),
        image=st.sampled_from(["", "", "base:1", "job:7", "job:8"]),
        put=st.sampled_from([(), (("app", "job"),)]),
        on_empty=st.sampled_from([OnEmpty.WAIT, OnEmpty.WAIT, OnEmpty.FAIL, OnEmpty.COLD]),
    )
    def ask(self, tenant, count, gpu, priority, wait, lease, key, image, put, on_empty):
        labels = {"gpu": gpu} if gpu else {}
        images = (("main", image),) if image and self.world.mode is Mode.RECYCLE else ()
        asked = {
            "tenant": tenant,
            "count": count,
            "labels": labels,
            "priority": priority,
            "wait_seconds": wait,
            "lease_seconds": lease,
            "key": key,
            "digest": f"{count}{labels}{priority}{images}{put}",
            "images": images,
            "put": put,
            "on_empty": on_empty if self.world.mode is Mode.DETACH else OnEmpty.WAIT,
        }
        if key:
            self.keyed.append(asked)
        self.ask_for(asked)

    @precondition(lambda self: self.keyed)
    @rule(data=st.data(), number=st.integers(0, 2))
    def repeat(self, data, number):
        """A request with a key is sent again, perhaps to another server."""
        self.turn(number)
        self.ask_for(data.draw(st.sampled_from(self.keyed[-3:])))

    def ask_for(self, asked):
        self.requests += 1
        request = f"r{self.requests}"
        self.asked[request] = asked["count"]
        self.home[request] = self.world
        self.world.ask(request, **asked)

    def waiting(self):
        """The requests that this server has not answered."""
        ours = {request for request, home in self.home.items() if home is self.world}
        return ours - set(self.world.answers) - self.left

    @precondition(lambda self: self.waiting() & set(self.asked))
    @rule(data=st.data())
    def leave(self, data):
        request = data.draw(st.sampled_from(sorted(self.waiting() & set(self.asked))))
        self.left.add(request)
        self.world.leave(request)

    @precondition(lambda self: self.world.engine.state.claims)
    @rule(data=st.data())
    def release(self, data):
        self.requests += 1
        claim = data.draw(st.sampled_from(sorted(self.world.engine.state.claims)))
        self.world.release(f"x{self.requests}", claim)

    @precondition(lambda self: self.world.engine.state.claims)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 5.0, 30.0]), shorten=st.booleans())
    def renew(self, data, seconds, shorten):
        self.requests += 1
        claim = data.draw(st.sampled_from(sorted(self.world.engine.state.claims)))
        self.renewals.add(f"n{self.requests}")
        self.home[f"n{self.requests}"] = self.world
        self.world.renew(f"n{self.requests}", claim, seconds, shorten=shorten)

    # -- the API server

    @property
    def late(self):
        return self.world.late

    def may_be_late(self, sent):
        return not sent.command.is_read

    @rule()
    def the_watch_breaks(self):
        self.world.relist()

    # -- the cluster

    @rule(node=st.sampled_from(NODES), gpu=st.sampled_from(["0", "1"]))
    def add(self, node, gpu):
        if len(self.world.pods) < 8:
            self.world.add(node=node, labels={"gpu": gpu}, seen=False)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), what=st.sampled_from(["delete", "noise", "terminate", "steal", "ready"]))
    def change(self, data, what):
        uid = data.draw(st.sampled_from(sorted(self.world.pods)))
        metadata = self.world.pods[uid]["metadata"]
        if what == "delete":
            self.world.delete(uid)
        elif what == "noise":
            self.world.change(uid, lambda pod: pod["status"].update(podIPs=[{"ip": "10.0.0.1"}]))
        elif what == "terminate":
            self.world.change(uid, lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-22T00:00:00Z"))
        elif what == "ready" and "conditions" in self.world.pods[uid]["status"]:
            conditions = self.world.pods[uid]["status"]["conditions"]
            flipped = "False" if conditions[0]["status"] == "True" else "True"
            self.world.change(uid, lambda pod: pod["status"]["conditions"][0].update(status=flipped))
        elif what == "steal" and names.CLAIM_LABEL not in metadata["labels"] and "deletionTimestamp" not in metadata:
            self.world.change(uid, lambda pod: theirs(pod, uid))

    @precondition(lambda self: any(self.world.claim_of(uid) for uid in self.world.pods))
    @rule(data=st.data(), text=st.sampled_from(["", "{broken"]))
    def break_mark(self, data, text):
        uid = data.draw(st.sampled_from(sorted(uid for uid in self.world.pods if self.world.claim_of(uid))))
        self.world.change(uid, lambda pod: pod["metadata"]["annotations"].update({names.CLAIM_ANNOTATION: text}))

    @rule(node=st.sampled_from(NODES), serves=st.booleans())
    def cordon(self, node, serves):
        for world in self.worlds:
            world.tell(NodeSeen(node, serves))

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0, 40.0]))
    def time_passes(self, seconds):
        for world in self.worlds:
            world.pass_time(seconds)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), ready=st.sampled_from([True, True, False]), restart=st.sampled_from(["", "", "", "main"]))
    def kubelet(self, data, ready, restart):
        uid = data.draw(st.sampled_from(sorted(self.world.pods)))
        if self.world.pods[uid]["status"]["phase"] == "Pending":
            self.world.become_ready(uid)
        self.world.kubelet(uid, ready=ready, restart=restart)

    @rule(data=st.data())
    def crash(self, data):
        """The server is killed, and another one starts. What was on its way arrives later, or never."""
        for sent in self.world.sent:
            if sent.outcome is None and not sent.command.is_read and data.draw(st.booleans()):
                self.world.late.append(Sent(sent.command))
        self.world.sent.clear()
        unanswered = self.waiting()
        self.left |= unanswered
        self.crashed |= {f"c-{request}" for request in unanswered} | set(self.world.claimed())
        self.crashed |= {each.command.command.mark.claim for each in self.world.late if is_claiming(each)}
        self.world.start(self.settings[0], window=self.settings[1])

    # -- the end

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        for each in self.worlds:
            for node in NODES:
                each.tell(NodeSeen(node, serves=True))
        for _ in range(20):
            self.come_to_rest()
            for uid in sorted(world.pods):
                if world.pods[uid]["status"]["phase"] == "Running":
                    world.kubelet(uid)
            self.come_to_rest()
            for each in self.worlds:
                each.pass_time(10.0)
        self.come_to_rest()
        for each in self.worlds:
            assert not each.engine.requests.pending
            assert not each.engine.missed, f"no event asked for it: {each.engine.missed}"
            unanswered = {request for request, home in self.home.items() if home is each}
            unanswered -= set(each.answers) | self.left
            assert not unanswered, f"no answer: {sorted(unanswered)}"
        self.check_claims(world)
        staying = [uid for uid, pod in world.pods.items() if "deletionTimestamp" not in pod["metadata"]]
        between = [uid for uid in staying if world.phase(uid) in (Phase.STARTING, Phase.STOPPING)]
        assert not between, f"between two phases: {between}"
        self.check_idle(world)

    def come_to_rest(self):
        while any(each.sent or each.watch or each.late for each in self.worlds):
            for each in self.worlds:
                while each.late:
                    each.arrive(each.late.pop(0))
                each.settle()

    def check_idle(self, world):
        """Nothing of a claim is left on idle pods, and they have the images with which they came."""
        for uid, pod in world.pods.items():
            if world.phase(uid) == Phase.IDLE and not world.claim_of(uid):
                assert "app" not in pod["metadata"]["labels"]
                assert pod["spec"]["containers"][0]["image"] == "base:1"

    def check_claims(self, world):
        granted = {}
        for answer in [answer for each in self.worlds for answer in each.answers.values()]:
            if answer.code is ClaimCode.CLAIMED and answer.request in self.asked:
                assert len(answer.pods) == self.asked[answer.request] or answer.claim != f"c-{answer.request}"
                granted.setdefault(answer.claim, {pod.uid for pod in answer.pods})
        for claim, uids in world.claimed().items():
            if not claim.startswith("theirs") and claim not in self.crashed:
                assert uids <= granted.get(claim, set()), f"{claim} has {uids}, was granted {granted.get(claim)}"


def is_claiming(sent):
    """Whether the command puts a claim's mark on a pod: if its server is killed, the claim stays until its lease."""
    return isinstance(sent.command.command, TakePod | CreatePod)


def theirs(pod, uid):
    pod["metadata"]["labels"][names.CLAIM_LABEL] = f"theirs-{uid}"
    mark = f'{{"claim":"theirs-{uid}","pool":"warm","expires":1030}}'
    pod["metadata"].setdefault("annotations", {})[names.CLAIM_ANNOTATION] = mark


QUICK = few(25, 40)

TestClaims = ClaimsMachine.TestCase
TestClaims.settings = QUICK


@pytest.mark.slow
def test_for_longer():
    run_state_machine_as_test(
        ClaimsMachine,
        settings=settings(
            max_examples=300,
            stateful_step_count=80,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
