"""A whole cluster in one thread with one clock: API server, Waggle, kube-scheduler, kubelets, users, and everything
that goes wrong between them. One seed is one run, exactly.

    users ----> API server (extender.embedded.apiserver.Cluster, the real rules)
                  |  ^   ^
        informers |  |   | writes, reads: lost, refused, slow, done and not answered
      (lag, lose, |  |   |
        repeat)   v  |   |
    kube-scheduler  Waggle heart (Lifecycle + packing) <---- crash: everything in memory is gone
    (Core, real rules) --filter, preempt, bind--> heart

In every other run kube-scheduler does not count the GPUs (managedResources with ignoredByScheduler), so that Waggle
alone keeps them from being given away twice; in the others it does, and so preempts. `step` lets one random thing
happen, `check` looks at every invariant, `settle` lets it come to rest without faults and checks that nothing was lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from algorithm.model import decode_node, decode_pod
from algorithm.packing import PackingAlgorithm, PackingSettings
from extender.core.comparison import beliefs_of, compare_nodes, compare_pods
from extender.core.entry import State
from extender.core.events import (
    BindAnswer,
    BindFinished,
    BindRequested,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    Nudge,
    Outcome,
    OutcomeKind,
    PodGone,
    PodRead,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    ReadPod,
    RecordEvent,
    Synced,
    Ticked,
    WriteBinding,
)
from extender.core.lifecycle import Lifecycle
from extender.core.policy import Policy
from extender.embedded.apiserver import pods as pod_verbs
from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Stored
from extender.embedded.apiserver.table import NODES, PODS, PRIORITY_CLASSES
from extender.embedded.kubescheduler import model
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.core import BindPod, Core, Evict, PatchStatus, Write
from tests.soak.links import Faults, Informer, Line

GPU = "example.com/gpu"
GPUS = 4
POLICY = Policy(lease=20, verify=2, write_validity=5, write_timeout=15, arrival=12)
HIGHEST = 1000
EPOCH = 1_790_000_000.0


@dataclass
class _Timed:
    """Something that happens later."""

    at: float
    do: Any


@dataclass
class _Command:
    """An instruction that waits for its turn with the committer."""

    instruction: WriteBinding | ReadPod | Nudge
    given: float


@dataclass
class _Bind:
    """A bind call that kube-scheduler waits for."""

    write: BindPod
    lost: bool


class World:
    """One run. `rate` is how often each operation goes wrong, `only` limits that to one operation and fault."""

    def __init__(self, seed: int, *, rate: float = 0.1, nodes: int = 4, only: tuple[str, str] | None = None) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.faults = Faults(self.rng, rate, only)
        self.now = 0.0
        self.steps = 0
        self.crashes = 0
        self.api = Cluster(seed=seed, clock=lambda: EPOCH + self.now, history=100_000)
        for name, value in (("low", -10), ("high", HIGHEST)):
            self.api.create(Target(PRIORITY_CLASSES), {"metadata": {"name": name}, "value": value})
        self._names = 0
        self._requests = 0
        self._proposed: set[tuple[str, str]] = set()
        self._placed: dict[str, str] = {}
        self._calls: dict[int, _Bind] = {}
        self._commands: list[_Command] = []
        self._timed: list[_Timed] = []
        self._sched_binds: list[BindPod] = []
        self._log: list[str] = []
        for _ in range(nodes):
            self._add_node()
        self._boot_waggle()
        self._boot_scheduler()

    # -- the heart ------------------------------------------------------------------------------------------------

    def _boot_waggle(self) -> None:
        """A fresh process: what was in memory is gone, everything is read anew."""
        self.algorithm = PackingAlgorithm(PackingSettings())
        self.heart = Lifecycle(self.algorithm, POLICY)
        self._commands.clear()
        store = self.api.store
        self.waggle_nodes = Informer(
            store,
            NODES,
            seen=lambda raw: self.handle(NodeSeen(decode_node(raw))),
            gone=lambda raw: self.handle(NodeGone(decode_node(raw).name)),
            faults=self.faults,
        )
        self.waggle_pods = Informer(store, PODS, seen=self._pod_seen, gone=self._pod_gone, faults=self.faults)
        self.handle(Synced())

    def _pod_seen(self, raw: bytes) -> None:
        self.handle(PodSeen(decode_pod(raw)))

    def _pod_gone(self, raw: bytes) -> None:
        pod = decode_pod(raw)
        self.handle(PodGone(pod.namespace, pod.name, pod.uid))

    def handle(self, event: Event) -> list[Instruction]:
        out = self.heart.handle(event, self.now)
        for instruction in out:
            if isinstance(instruction, BindAnswer):
                self._bind_answered(instruction)
            elif isinstance(instruction, WriteBinding | ReadPod | Nudge):
                self._commands.append(_Command(instruction, self.now))
            elif isinstance(instruction, RecordEvent):
                pass
        return out

    def _ask(self, event: FilterRequested | PreemptRequested) -> FilterAnswer | PreemptAnswer:
        return next(x for x in self.handle(event) if isinstance(x, FilterAnswer | PreemptAnswer))

    # -- the committer --------------------------------------------------------------------------------------------

    def _carry_out(self, command: _Command, fault: str) -> None:
        """What the committer does, fault by fault. A write that waited too long is not sent."""
        instruction = command.instruction
        if fault == "slow":
            later = self.now + self.rng.choice((1.0, 20.0))
            self._timed.append(_Timed(later, lambda: self._carry_out(command, "")))
        elif isinstance(instruction, WriteBinding):
            self.handle(BindFinished(instruction.token, self._commit(command, instruction, fault)))
        elif isinstance(instruction, ReadPod):
            self._read(instruction, fault)
        elif not fault:
            self._patch(instruction.name, {"metadata": {"annotations": {"waggle.dev/nudge": str(self.steps)}}})

    def _commit(self, command: _Command, write: WriteBinding, fault: str) -> Outcome:
        if self.now > command.given + write.valid_for:
            return Outcome(OutcomeKind.THROTTLED, "waited too long")
        if fault == "applied late":
            self._timed.append(_Timed(self.now + self.rng.uniform(0, POLICY.arrival), lambda: self._write(write, "")))
            return Outcome(OutcomeKind.UNKNOWN)
        return self._write(write, fault)

    def _write(self, command: WriteBinding, fault: str) -> Outcome:
        if fault == "not applied, no answer":
            return Outcome(OutcomeKind.UNKNOWN)
        if fault == "throttled":
            return Outcome(OutcomeKind.THROTTLED, retry_after=1)
        if fault == "forbidden":
            return Outcome(OutcomeKind.REJECTED, "forbidden")
        if fault == "conflict":
            return Outcome(OutcomeKind.LOST, "conflict")
        binding = {
            "kind": "Binding",
            "metadata": {"name": command.name, "uid": command.uid, "annotations": dict(command.annotations)},
            "target": {"kind": "Node", "name": command.node},
        }
        assert (command.uid, command.node) in self._proposed, f"{command} was never proposed"
        try:
            pod_verbs.bind(self.api, _pod(command.name), binding)
        except ApiError as error:
            kind = {404: OutcomeKind.GONE, 409: OutcomeKind.LOST}[error.code]
            return Outcome(OutcomeKind.STALE if "UID" in str(error) else kind, str(error))
        return Outcome(OutcomeKind.UNKNOWN) if fault == "applied, no answer" else Outcome(OutcomeKind.DONE)

    def _read(self, command: ReadPod, fault: str) -> None:
        if fault:
            self.handle(PodRead(command.token, Outcome(OutcomeKind.UNKNOWN)))
            return
        stored = self.api.store.collection(PODS).get(("default", command.name))
        kind = OutcomeKind.GONE if stored is None else OutcomeKind.DONE
        self.handle(PodRead(command.token, Outcome(kind), decode_pod(stored.raw) if stored else None))

    # -- kube-scheduler -------------------------------------------------------------------------------------------

    def _boot_scheduler(self) -> None:
        config = SchedulerConfig.model_validate(
            {
                "percentageOfNodesToScore": 100,
                "extenders": [
                    {
                        "urlPrefix": "http://waggle",
                        "filterVerb": "filter",
                        "preemptVerb": "preempt",
                        "bindVerb": "bind",
                        "nodeCacheCapable": True,
                        "managedResources": [{"name": GPU, "ignoredByScheduler": self.seed % 2 == 1}],
                    }
                ],
            }
        ).model_copy(update={"seed": self.seed})
        line = Line(self._ask, config.extenders[0], self.faults, lambda uid, node: self._proposed.add((uid, node)))
        self.scheduler = Core(config, [line], now=self.now)
        self._sched_binds.clear()
        self._calls = {request: _Bind(call.write, lost=True) for request, call in self._calls.items()}
        store = self.api.store
        self.scheduler_nodes = Informer(
            store,
            NODES,
            seen=lambda raw: self.scheduler.node_seen(model.decode_node(raw), self.now),
            gone=lambda raw: self.scheduler.node_gone(model.decode_node(raw).name, self.now),
        )
        self.scheduler_pods = Informer(
            store,
            PODS,
            seen=lambda raw: self.scheduler.pod_seen(model.decode_pod(raw), self.now),
            gone=lambda raw: self.scheduler.pod_gone(model.decode_pod(raw).uid, self.now),
        )

    def _attempt(self) -> bool:
        """One scheduling cycle. False if nothing is to be tried."""
        self.scheduler.tick(self.now)
        queued = self.scheduler.next_pod()
        if queued is None:
            return False
        outcome = self.scheduler.decide(queued.pod)
        for write in self.scheduler.conclude(queued.pod, outcome, self.now):
            self._scheduler_writes(write)
        return True

    def _scheduler_writes(self, write: Write) -> None:
        if isinstance(write, BindPod):
            assert write.extender is not None
            self._sched_binds.append(write)
        elif isinstance(write, Evict):
            for victim in write.victims:
                self._delete(victim.key.name, victim.uid)
            self.scheduler.preemption_done(write, [v.uid for v in write.victims], self.now)
        elif isinstance(write, PatchStatus):
            self._patch_status(write)

    def _call_bind(self, write: BindPod) -> None:
        self._requests += 1
        lost = self.faults.draw("bind call") == "answer lost"
        self._calls[self._requests] = _Bind(write, lost)
        key = write.pod.key
        if lost:
            self._bind_done(write, "context deadline exceeded")
        self.handle(BindRequested(self._requests, key.namespace, key.name, write.pod.uid, write.node))

    def _bind_answered(self, answer: BindAnswer) -> None:
        call = self._calls.pop(answer.request)
        if not call.lost:
            self._bind_done(call.write, answer.error.text if answer.error else None)

    def _bind_done(self, write: BindPod, error: str | None) -> None:
        for more in self.scheduler.bind_done(write.pod, write.node, error, self.now):
            self._scheduler_writes(more)

    # -- the API server's other clients ---------------------------------------------------------------------------

    def _patch_status(self, write: PatchStatus) -> None:
        status: dict[str, Any] = {}
        if write.condition is not None:
            c = write.condition
            condition = {"type": "PodScheduled", "status": c.status, "reason": c.reason, "message": c.message}
            status["conditions"] = [condition]
        if write.nominated_node is not None:
            status["nominatedNodeName"] = write.nominated_node or None
        self._patch(write.pod.key.name, {"metadata": {"uid": write.pod.uid}, "status": status}, "status")

    def _patch(self, name: str, patch: dict[str, Any], subresource: str = "") -> None:
        try:
            self.api.patch(Target(PODS, "default", name, subresource), patch, MERGE)
        except ApiError as error:
            assert error.code in (404, 409), error

    def _delete(self, name: str, uid: str = "") -> None:
        options = DeleteOptions(preconditions={"uid": uid} if uid else None)
        try:
            self.api.delete(_pod(name), options)
        except ApiError as error:
            assert error.code in (404, 409), error

    def _kubelets(self) -> None:
        """Bound pods run, pods that are being deleted are gone."""
        for stored in list(self.api.store.collection(PODS)):
            if b'"deletionTimestamp"' in stored.raw:
                self.api.store.remove(PODS, stored)
            elif stored.fields["spec.nodeName"] and stored.fields["status.phase"] == "Pending":
                self._patch(stored.key[1], {"status": {"phase": "Running"}}, "status")

    def _add_node(self) -> None:
        self._names += 1
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(GPUS)}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.create(Target(NODES), {"metadata": {"name": f"n{self._names:03}"}, "status": status})

    def _remove_node(self) -> None:
        """An empty one that is kept for nobody: a gang whose seat vanishes is split, and rightly so."""
        used = {stored.fields["spec.nodeName"] for stored in self.api.store.collection(PODS)}
        used |= {entry.node for entry in self.heart.entries()}
        used |= {hold.node for hold in self.algorithm._state.holds.values()}
        spare = [stored for stored in self.api.store.collection(NODES) if stored.key[1] not in used]
        if len(spare) > 2:
            self.api.delete(Target(NODES, "", self.rng.choice(spare).key[1]))

    def _create_pods(self) -> None:
        """A single pod or a gang, of random size and priority."""
        self._names += 1
        gang = self.rng.random() < 0.3
        count = self.rng.randint(2, 4) if gang else 1
        gpus = str(self.rng.choice((1, 1, 2, 4)))
        priority = self.rng.choice(("", "low", "high", "high"))
        for index in range(count):
            requests = {"cpu": "100m", "memory": "64Mi", GPU: gpus}
            container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": {GPU: gpus}}}
            annotations = {"waggle.dev/gang": f"g{self._names}", "waggle.dev/gang-min": str(count)} if gang else {}
            spec = {"containers": [container]} | ({"priorityClassName": priority} if priority else {})
            metadata = {"name": f"p{self._names:05}-{index}", "namespace": "default", "annotations": annotations}
            self.api.create(Target(PODS, "default"), {"metadata": metadata, "spec": spec})

    def _end_pod(self) -> None:
        pods = list(self.api.store.collection(PODS))
        if not pods:
            return
        stored = self.rng.choice(pods)
        if stored.fields["status.phase"] == "Running" and self.rng.random() < 0.5:
            self._patch(stored.key[1], {"status": {"phase": "Succeeded"}}, "status")
        else:
            self._delete(stored.key[1])

    def _sweep(self) -> None:
        """Finished pods are collected."""
        for stored in list(self.api.store.collection(PODS)):
            if stored.fields["status.phase"] == "Succeeded":
                self.api.store.remove(PODS, stored)

    # -- what may happen ------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One random thing happens."""
        self.steps += 1
        doings = self._doings()
        weights = [weight for weight, _ in doings]
        self.rng.choices([do for _, do in doings], weights)[0]()

    def _doings(self) -> list[tuple[float, Any]]:
        few = len(self.api.store.collection(PODS)) < 24
        doings: list[tuple[float, Any]] = [
            (6, self._attempt),
            (3, self.waggle_pods.step),
            (1, self.waggle_nodes.step),
            (4, self.scheduler_pods.step),
            (1, self.scheduler_nodes.step),
            (2.5 if few else 0.2, self._create_pods),
            (0.8 if few else 2, self._end_pod),
            (1, self._kubelets),
            (0.2, self._sweep),
            (0.1, self._add_node),
            (0.1, self._remove_node),
            (2, lambda: self._wait(self.rng.choice((0.1, 1.0, 5.0, 25.0)))),
            (0.3, self.compare),
            (0.05, self._crash_waggle),
            (0.05, self._boot_scheduler),
        ]
        if self._sched_binds:
            doings.append((5, lambda: self._call_bind(self._take(self._sched_binds))))
        if self._commands:
            doings.append((6, self._carry_out_one))
        return doings

    def _take(self, things: list[Any]) -> Any:
        return things.pop(self.rng.randrange(len(things)))

    def _carry_out_one(self) -> None:
        command = self._take(self._commands)
        operation = {WriteBinding: "bind", ReadPod: "read", Nudge: "hint"}[type(command.instruction)]
        self._carry_out(command, self.faults.draw(operation))

    def _wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self._timed and (first := min(self._timed, key=lambda timed: timed.at)).at <= until:
            self._timed.remove(first)
            self.now = max(self.now, first.at)
            first.do()
        self.now = until
        self.handle(Ticked())

    def _crash_waggle(self) -> None:
        """Killed: what was on its way to the API server arrives or does not, and nobody hears of it."""
        self.crashes += 1
        for command in self._commands:
            write = command.instruction
            if isinstance(write, WriteBinding) and self.rng.random() < 0.5:
                self._commit(command, write, "")
        self._timed.clear()
        for call in self._calls.values():
            if not call.lost:
                self._bind_done(call.write, "connection reset")
        self._calls.clear()
        self._boot_waggle()

    def compare(self) -> int:
        """The comparer's job: beliefs held against a list, differences healed. Returns how many there were."""
        pods = [decode_pod(stored.raw) for stored in self.api.store.collection(PODS)]
        nodes = [decode_node(stored.raw) for stored in self.api.store.collection(NODES)]
        beliefs = beliefs_of(self.heart)
        ours = [p.uid for p in pods if not (p.node_name or p.terminating or p.gated)]
        found = [*compare_nodes(beliefs, nodes), *compare_pods(beliefs, pods, ours)]
        live = {pod.uid: pod for pod in pods}
        by_name = {node.name: node for node in nodes}
        for wrong in found:
            if wrong.resource == "nodes":
                node = by_name.get(wrong.name)
                self.handle(NodeSeen(node) if node else NodeGone(wrong.name))
            else:
                pod = live.get(wrong.uid)
                self.handle(PodSeen(pod) if pod else PodGone(wrong.namespace, wrong.name, wrong.uid))
        return len(found)

    # -- what must hold -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """After every step. Raises AssertionError."""
        self.heart.validate()
        self.algorithm.validate()
        assert not self.heart.teller.faults, self.heart.teller.last_fault
        used: Counter[str] = Counter()
        for stored in self.api.store.collection(PODS):
            node = stored.fields["spec.nodeName"]
            if not node:
                continue
            assert self._placed.setdefault(stored.uid, node) == node, f"{stored.key} was bound twice"
            assert (stored.uid, node) in self._proposed, f"{stored.key} is on {node}, which was never proposed"
            if stored.fields["status.phase"] != "Succeeded":
                used[node] += dict(decode_pod(stored.raw).requests)[GPU]
        over = {node: number for node, number in used.items() if number > GPUS}
        assert not over, f"over-committed: {over}"
        for hold in self.heart.transitions.ledger.active():
            assert hold.deadline <= self.now + POLICY.lease or hold.deadline == float("inf"), (
                f"{hold} outlives its lease"
            )

    def settle(self) -> None:
        """No more faults, no more users: everything comes to rest, and nothing was lost."""
        self.faults.rate = 0.0
        for _ in range(400):
            if self._rest():
                break
        else:
            raise AssertionError("it does not come to rest")
        self.check()
        assert self.compare() == 0, "the cache differs from the API server"
        self._check_pods()

    def _rest(self) -> bool:
        """Lets everything happen that is due. True if nothing was."""
        busy = self.compare() > 0
        for informer in (self.waggle_nodes, self.waggle_pods, self.scheduler_nodes, self.scheduler_pods):
            while informer.behind:
                busy = True
                informer.step()
        while self._sched_binds:
            busy = True
            self._call_bind(self._sched_binds.pop(0))
        while self._commands:
            busy = True
            self._carry_out(self._commands.pop(0), "")
        self._kubelets()
        for _ in range(200):
            if not self._attempt():
                break
            busy = True
        self._wait(11.0)
        waits = bool(self._timed or self._calls or self.heart.transitions.ledger.active())
        return not (busy or waits or not self.scheduler.idle)

    def _check_pods(self) -> None:
        """Every pod is bound where the heart says, or waits and its owner was told why; no gang is split."""
        entries = {entry.uid: entry for entry in self.heart.entries()}
        gangs: dict[str, list[bool]] = {}
        for stored in self.api.store.collection(PODS):
            pod = decode_pod(stored.raw)
            if pod.finished:
                continue
            entry = entries.pop(pod.uid)
            if pod.node_name:
                assert (entry.state, entry.node) == (State.BOUND, pod.node_name)
            else:
                assert entry.state is State.WAITING, f"{pod.key} is {entry.state}"
                assert _told_why(stored), f"{pod.key} waits, and nobody was told why"
            gang = pod.annotation("waggle.dev/gang")
            if gang and pod.priority == HIGHEST:
                gangs.setdefault(f"{gang} of {pod.annotation('waggle.dev/gang-min')}", []).append(bool(pod.node_name))
        assert not entries, f"the heart knows pods that do not exist: {sorted(entries)}"
        self._check_gangs(gangs)

    def _check_gangs(self, gangs: dict[str, list[bool]]) -> None:
        """All or none of a gang whose members all still exist, unless the API server itself refused to bind one.

        Only gangs of the highest priority: the seats that a lower one waits for may go to pods that outrank it.
        """
        refused = any(self.faults.counts[f"bind: {fault}"] for fault in ("forbidden", "conflict"))
        for gang, bound in gangs.items():
            if len(bound) == int(gang.split()[-1]) and not refused:
                assert all(bound) or not any(bound), f"gang {gang} is split: {bound}"


def _told_why(stored: Stored) -> bool:
    conditions = stored.fresh()["status"].get("conditions", [])
    return any(c["type"] == "PodScheduled" and c["status"] == "False" and c["message"] for c in conditions)


def _pod(name: str) -> Target:
    return Target(PODS, "default", name)


@dataclass
class Result:
    """What a run came to."""

    seed: int
    steps: int
    crashes: int
    faults: Counter[str] = field(default_factory=Counter)
    bound: int = 0


def run(seed: int, steps: int, *, rate: float = 0.1, only: tuple[str, str] | None = None) -> Result:
    """One run with its checks. Raises AssertionError; the same arguments give the same run again, exactly."""
    world = World(seed, rate=rate, only=only)
    for _ in range(steps):
        world.step()
        world.check()
    world.settle()
    return Result(seed, world.steps, world.crashes, world.faults.counts, len(world._placed))
