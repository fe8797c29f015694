"""A whole cluster in one thread with one clock: API server, Waggle, kube-scheduler, kubelets, users, and everything
that goes wrong between them. One seed is one run, exactly: the same events, byte for byte.

    users ----> API server (extender.embedded.apiserver.Cluster, the real rules)
                  |  ^   ^
    SimApi: every |  |   | operation with every fault of tests.faults.table
                  v  |   |
              replicas: one, or two with leader election (`replica.py`: Waggle's own code, without its threads)
                  ^            killed, paused, cut off from the API server, at any moment
                  | filter, preempt, bind: refused, or answered after kube-scheduler hung up
              kube-scheduler (Core, real rules), of which another one may take over

What differs from run to run, by the seed: whether kube-scheduler counts the GPUs too (and so preempts) or Waggle alone
keeps them from being given away twice; one replica or two; who evicts. `step` lets one random thing happen, `check`
looks at every invariant, `settle` lets it come to rest without faults and checks that nothing was lost.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from algorithm.interface import SchedulerAlgorithm
from algorithm.reads import EVERYTHING, Reads
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.pods import bind
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.table import NODES, PODS
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.scheduling.commands import WriteBinding
from extender.scheduling.events import BindAnswer, Event, Instruction, Ticked
from extender.scheduling.policy import Policy, PreemptionMode
from tests.faults.table import OPERATIONS
from tests.soak.checks import Checks
from tests.soak.replica import TIMING, Replica, Work, packing, utc
from tests.soak.scheduling import Scheduling
from tests.soak.users import GPU, Users
from tests.soak.wire import Draws, Name, SimApi

EPOCH = 1_790_000_000.0
#: Operations that only happen with leader election.
ELECTED = {op.name for op in OPERATIONS if op.by in ("elector", "leadership", "labeler")}
#: Operations that only happen where the server evicts by itself.
EVICTING = ("evict", "mark preemption")
#: What happens much more often when one operation alone is tried: it would be rare.
OFTEN = {
    "list nodes": "relist nodes",
    "list pods": "relist pods",
    "compare nodes": "compare",
    "compare pods": "compare",
    "heal node": "change nodes",
    "heal pod": "compare",
    "make lease": "lose lease",
    "find label": "point here",
    "move label": "point here",
    "ask who": "ask rights",
    "ask rights": "ask rights",
    "version of nodes": "lose term",
    "version of pods": "lose term",
}


def policy_of(seed: int, only: Name | None) -> Policy:
    """Which of the possible worlds this seed is; a pair that needs a certain one gets it."""
    operation = only[0] if only else ""
    return Policy(
        lease=20,
        verify=2,
        write_validity=5,
        write_timeout=15,
        arrival=12,
        elected=operation in ELECTED or (not operation and seed % 3 == 0),
        preemption=_mode(seed, operation),
        patience=60,
        eviction_backoff=10,
    )


def _mode(seed: int, operation: str) -> PreemptionMode:
    if operation:
        return PreemptionMode.DIRECT if operation in EVICTING else PreemptionMode.KUBE_SCHEDULER
    return {0: PreemptionMode.DIRECT, 1: PreemptionMode.AUTO}.get(seed % 5, PreemptionMode.KUBE_SCHEDULER)


class SoakWorld:
    """One run. `rate` is how often each operation goes wrong, `only` limits that to one operation and fault."""

    def __init__(self, seed: int, *, rate: float = 0.1, nodes: int = 4, only: Name | None = None) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.draws = Draws(self.rng, rate, only)
        self.policy = self._make_policy(only)
        self._often = OFTEN.get(only[0], "") if only else ""
        self.now = 0.0
        self.steps = 0
        self.happened: Counter[str] = Counter()
        self.digest = hashlib.sha256()
        self.api = Cluster(seed=seed, clock=lambda: EPOCH + self.now, history=100_000)
        self.users = self._make_users()
        nodes = 2 if only and only[0] in EVICTING else nodes
        self._born = 0
        #: What happens later at the API server, by time.
        self._timed: list[tuple[float, Callable[[], object]]] = []
        for _ in range(nodes):
            self.users.add_node()
        self.replicas = [self._boot() for _ in range(2 if self.policy.elected else 1)]
        self._checks = Checks(self)
        self.scheduling = Scheduling(self)

    #: How a replica makes the algorithm that it starts with.
    make: staticmethod[[], SchedulerAlgorithm] = staticmethod(packing)

    def reads(self) -> Reads:
        """The annotations that the informers keep."""
        return EVERYTHING

    def _make_policy(self, only: Name | None) -> Policy:
        return policy_of(self.seed, only)

    def scheduler_config(self) -> SchedulerConfig:
        """kube-scheduler's."""
        direct = self.policy.preemption is PreemptionMode.DIRECT
        extender = {
            "urlPrefix": "http://waggle",
            "filterVerb": "filter",
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "managedResources": [{"name": GPU, "ignoredByScheduler": direct or self.seed % 2 == 1}],
        }
        if not direct:
            extender["preemptVerb"] = "preempt"
        config = SchedulerConfig.model_validate({"percentageOfNodesToScore": 100, "extenders": [extender]})
        return config.model_copy(update={"seed": self.seed})

    def _make_users(self) -> Users:
        return Users(self.api, self.rng)

    # -- Waggle ---------------------------------------------------------------------------------------------------

    def _boot(self) -> Replica:
        """A fresh process: nothing is known yet."""
        self._born += 1
        return Replica(
            f"waggle-{self._born}",
            self.policy,
            rng=self.rng,
            clock=lambda: self.now,
            wall_clock=lambda: utc(EPOCH + self.now),
            api=self._line,
            answered=self._bind_answered,
            heard=self._log,
            make=self.make,
            reads=self.reads(),
        )

    def _bind_answered(self, _replica: Replica, answer: BindAnswer) -> None:
        self.scheduling.bind_answered(answer)

    def _line(self, replica: Replica, by: str) -> SimApi:
        """What this part of the replica reaches the API server by."""
        return SimApi(
            self.api,
            self.draws,
            by,
            sleep=self._pass_time,
            later=lambda seconds, do: self._timed.append((self.now + seconds, do)),
            lateness=lambda: self.rng.uniform(0.5, self._latest(replica)),
            cut=lambda: self.now < replica.cut_until,
        )

    def _latest(self, replica: Replica) -> float:
        """How late a write may arrive. What a term's end leaves for that is the time between deadline and lease."""
        if not self.policy.elected:
            return self.policy.arrival
        left = replica.fence(replica.machine.term) if replica.machine.term else 0.0
        return min(self.policy.arrival, left + TIMING.lease - TIMING.renew_deadline)

    def _log(self, name: str, event: Event, out: list[Instruction]) -> None:
        """What the digest of a run is made of. Bytes, not objects: sets have no order."""
        self.digest.update(f"{self.now:.3f} {name} {event!r} {out!r}\n".encode())

    def _crash(self, replica: Replica) -> None:
        """Killed: what was on its way to the API server arrives or does not, and nobody hears of it."""
        self.happened["crash"] += 1
        for work in replica.work:
            write = work.instruction
            may_leave = isinstance(write, WriteBinding) and work.report is None and self._is_valid(replica, work)
            if may_leave and self.rng.random() < 0.5:
                self._arrive(write)
        self._timed.clear()
        self.scheduling.leave(replica, "connection reset", dead=True)
        self.replicas[self.replicas.index(replica)] = self._boot()

    def _is_valid(self, replica: Replica, work: Work) -> bool:
        """Whether the committer would send it now."""
        write = work.instruction
        assert isinstance(write, WriteBinding)
        return self.now <= work.given + write.valid_for and replica.fence(write.term) > 0

    def _arrive(self, write: WriteBinding) -> None:
        metadata = {"name": write.name, "uid": write.uid, "annotations": dict(write.annotations)}
        binding = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": write.node}}
        try:
            bind(self.api, Target(PODS, write.namespace, write.name), binding)
        except ApiError as error:
            assert error.code in (404, 409), error

    def _pause(self, replica: Replica) -> None:
        """Stopped, as by SIGSTOP: its callers give up, and it notices nothing."""
        self.happened["pause"] += 1
        replica.paused_until = self.now + self.rng.choice((3.0, 8.0, 30.0))
        self.scheduling.leave(replica, "context deadline exceeded")

    def _cut_off(self, replica: Replica) -> None:
        self.happened["partition"] += 1
        replica.cut_until = self.now + self.rng.choice((3.0, 8.0, 30.0))

    # -- time -----------------------------------------------------------------------------------------------------

    def _pass_time(self, seconds: float) -> None:
        """The clock goes on; what was late arrives at the API server."""
        until = self.now + seconds
        while self._timed and (first := min(self._timed, key=lambda timed: timed[0]))[0] <= until:
            self._timed.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = max(self.now, until)

    def wait(self, seconds: float) -> None:
        """Time in which only leases are renewed; then whatever is due is looked at."""
        until = self.now + seconds
        while self.policy.elected and self.now + 1.0 < until:
            self._pass_time(1.0)
            for replica in self.replicas:
                if replica.runs:
                    replica.step_election()
        self._pass_time(max(0.0, until - self.now))
        for replica in self.replicas:
            if replica.runs:
                replica.handle(Ticked())

    # -- what may happen ------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One random thing happens."""
        self.steps += 1
        doings = self._doings()
        self.rng.choices([do for _, do in doings], [weight for weight, _ in doings])[0]()
        self._replace_broken()

    def _replace_broken(self) -> None:
        """Who asks for a restart gets it."""
        for replica in [each for each in self.replicas if each.broken]:
            self._crash(replica)

    def _doings(self) -> list[tuple[float, Callable[[], object]]]:
        few = len(self.api.store.collection(PODS)) < 24
        nodes = 2.0 if self._often == "change nodes" else 0.1
        doings: list[tuple[float, Callable[[], object]]] = [
            (6, self.scheduling.attempt),
            (4, self.scheduling.pods.step),
            (1, self.scheduling.nodes.step),
            (2.5 if few else 0.2, self.users.create_pods),
            (0.8 if few else 2, self.users.end_pod),
            (1, self.users.kubelets),
            (0.2, self.users.sweep),
            (nodes, self.users.add_node),
            (0.3, self.users.touch_node),
            (nodes, self._remove_node),
            (2, lambda: self.wait(self.rng.choice((0.1, 1.0, 5.0, 25.0)))),
            (0.05, self.scheduling.boot),
        ]
        if self.scheduling.binds:
            doings.append((5, lambda: self.scheduling.call_bind(self._take(self.scheduling.binds))))
        for replica in self.replicas:
            doings += self._doings_of(replica) if replica.runs else []
        return doings

    def _doings_of(self, replica: Replica) -> list[tuple[float, Callable[[], object]]]:
        often = self._often
        doings: list[tuple[float, Callable[[], object]]] = [
            (3, lambda: replica.step_informer(replica.pods)),
            (1, lambda: replica.step_informer(replica.nodes)),
            (4 if often in ("compare", "change nodes") else 0.3, replica.compare),
            (1 if often == "ask rights" else 0.1, replica.ask_rights),
            (1 if often == "relist pods" else 0.05, replica.pods.relist),
            (1 if often == "relist nodes" else 0.05, replica.nodes.relist),
            (0.05, lambda: self._crash(replica)),
            (0.4 if often == "lose term" else 0.05, lambda: self._pause(replica)),
            (0.05, lambda: self._cut_off(replica)),
        ]
        if self.policy.elected:
            doings += [
                (6 if often else 3, replica.step_election),
                (0.5 if often == "lose lease" else 0.03, self.users.lose_lease),
                (1 if often == "point here" else 0.2, replica.point_here),
            ]
        if replica.work:
            doings.append((6, lambda: replica.carry_out(self._take(replica.work))))
        return doings

    def _take(self, things: list[Any]) -> Any:
        return things.pop(self.rng.randrange(len(things)))

    def _remove_node(self) -> None:
        kept: set[str] = set()
        for replica in self.replicas:
            kept |= {pod_info.node for pod_info in replica.machine.pod_infos()}
            kept |= {hold.node for hold in replica.algorithm._state.holds.values()}
        self.users.remove_node(kept)

    def check(self) -> None:
        """After every step. Raises AssertionError."""
        self._checks.always()

    # -- the end --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults, no more users: everything comes to rest, and nothing was lost."""
        self.draws.rate = 0.0
        for replica in self.replicas:
            replica.paused_until = replica.cut_until = float("-inf")
        for _ in range(400):
            if self._rest():
                break
        else:
            raise AssertionError("it does not come to rest")
        self._checks.always()
        self._checks.at_rest()

    def _rest(self) -> bool:
        """Lets everything happen that is due. True if nothing was."""
        busy = False
        for informer in (self.scheduling.nodes, self.scheduling.pods):
            while informer.behind:
                busy = True
                informer.step()
        while self.scheduling.binds:
            busy = True
            self.scheduling.call_bind(self.scheduling.binds.pop(0))
        for replica in self.replicas:
            busy |= self._rest_of(replica)
        self.users.kubelets()
        for _ in range(200):
            if not self.scheduling.attempt():
                break
            busy = True
        for replica in self.replicas:
            self._write_all(replica)
        self.wait(11.0)
        self._replace_broken()
        ready = any(replica.ready for replica in self.replicas)
        return ready and not (busy or self._timed or self.scheduling.calls or not self.scheduling.idle)

    def _rest_of(self, replica: Replica) -> bool:
        busy = bool(replica.work or replica.machine.state.ledger.active())
        for informer in (replica.nodes, replica.pods):
            for _ in range(50):
                if self._is_up_to_date(informer):
                    break
                busy = True
                replica.step_informer(informer)
        self._write_all(replica)
        return replica.compare() > 0 or not replica.machine.synced or busy

    @staticmethod
    def _write_all(replica: Replica) -> None:
        work, replica.work = replica.work, []
        for each in work:
            replica.carry_out(each)

    def _is_up_to_date(self, informer: Any) -> bool:
        history = self.api.store.collection(NODES if informer.path.endswith("nodes") else PODS).history
        newest = history[-1].revision if history else 0
        told = bool(informer._progress.version) and int(informer.version) >= newest
        return informer.synced.is_set() and told and not informer._is_wanted()
