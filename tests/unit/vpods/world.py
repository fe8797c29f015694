"""A cluster for the engine of vpods: an API server that checks versions, a StatefulSet controller, a watch that lags.

The world holds the truth. It carries out the engine's commands when a test says so, and tells the engine what changed
when a test says so. After each event it holds the truth against what the engine promises.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec

from algorithm.placements import balanced, registry
from algorithm.placements.model import SetState, VPodState
from algorithm.placements.policy import Policy, checked
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.scale import ScaleWorkload, WorkloadScaled
from extender.vpods.engine import VPodEngine
from extender.vpods.events import (
    HostNodeSeen,
    HostPodGone,
    HostPodSeen,
    SetsConfigured,
    Synced,
    TermBegun,
    TermEnded,
    Ticked,
    VPodGone,
    VPodSeen,
    WorkloadGone,
    WorkloadSeen,
)
from extender.vpods.names import pod_name
from extender.vpods.notices import Notice
from extender.vpods.records import (
    VPOD_OBJECTS,
    HostNode,
    HostPod,
    ObjectKey,
    SetSettings,
    VPodKey,
    VPodRecord,
    VPodSource,
    Workload,
)
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements
from extender.vpods.writes.read import ReadVPod, VPodRead
from tests.unit.vpods.promises import check_write

SET = ObjectKey("ns", "fleet")
SS = ObjectKey("ns", "ss")
#: A resource of somebody else, and the names of its objects.
OTHERS = VPodSource(name="others", group="example.com", version="v1", resource="things", set=SET)
FOREIGN = frozenset("xyz")


def key(name: str, namespace: str = "ns", source: str = "") -> VPodKey:
    return VPodKey(namespace, name, source)


@dataclass
class Sent:
    """A command on its way. `outcome`: what came of it, once it has arrived."""

    command: Any
    outcome: Outcome | None = None
    record: VPodRecord | None = None


class World:
    def __init__(
        self,
        *,
        replicas: int = 3,
        nodes: int = 3,
        zones: int = 1,
        leads: bool = True,
        epoch: float = 0.0,
        **settings: Any,
    ) -> None:
        self.now = 100.0
        #: What was said and done, for messages.
        self.log: list[Any] = []
        self.version = 0
        self.settings = SetSettings(key=SET, workload="ss", **{"capacity": 10} | settings)
        self.nodes = {f"n{n}": HostNode(f"n{n}", serves=True, zone=f"z{n % zones}") for n in range(nodes)}
        self.workload = Workload(SS, "ss-uid", self.next_version(), replicas)
        self.workload_is_there = True
        self.pods: dict[int, HostPod] = {}
        self.vpods: dict[VPodKey, VPodRecord] = {}
        self.watch: deque[Any] = deque()
        self.sent: list[Sent] = []
        self.notices: list[Notice] = []
        #: Writes of placements that have arrived, and how many vreplicas each moved.
        self.moves = 0
        self.replicas: list[int] = []
        #: What pods may hold at most that hold too much, by name.
        self.over: dict[str, int] = {}
        self.epoch = epoch
        #: What the policy "mine" does wrong: nothing, "raises", or "lies".
        self.policy_fault = ""
        #: The writes that this engine has decided, by token.
        self.decided: dict[int, WritePlacements] = {}
        self.engine = self.new_engine()
        self.control()
        self.watch.clear()
        self.start(leads=leads)

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    # -- the engine

    def new_engine(self) -> VPodEngine:
        return VPodEngine(epoch=self.epoch, policies=self.make_policy)

    def make_policy(self, name: str, settings: Any) -> Policy:
        return checked(self.place_mine) if name == "mine" else registry.create(name, settings)

    def place_mine(self, vpod: VPodState, state: SetState) -> Any:
        """A policy that somebody else wrote."""
        if self.policy_fault == "raises":
            raise KeyError("mine")
        counts = balanced.place(vpod, state).counts
        return {ordinal: number + 1 for ordinal, number in counts.items()} if self.policy_fault == "lies" else counts

    def configure(self, **settings: Any) -> None:
        """Change settings of the set. What a smaller capacity makes too much may be so for a while."""
        held = max(self.settings.capacity, max(self.over.values(), default=0))
        self.settings = msgspec.structs.replace(self.settings, **settings)
        if self.settings.capacity < held:
            self.over = {pod_name("ss", ordinal): held for ordinal in range(100)}
        self.tell(SetsConfigured((self.settings,)))

    def start(self, *, leads: bool = True) -> None:
        """A server starts, with nothing but what the API server lists."""
        self.engine = self.new_engine()
        self.decided.clear()
        self.sent.clear()
        self.watch.clear()
        for node in self.nodes.values():
            self.tell(HostNodeSeen(node))
        for pod in self.pods.values():
            self.tell(HostPodSeen(pod))
        for vpod in self.vpods.values():
            self.tell(VPodSeen(vpod))
        self.tell(SetsConfigured((self.settings,)))
        if self.workload_is_there:
            self.tell(WorkloadSeen(self.workload))
        self.tell(Synced())
        if leads:
            self.tell(TermBegun(1))

    def tell(self, event: Any) -> None:
        self.log.append(event)
        for command in self.engine.handle(event, self.now):
            self.log.append(command)
            if isinstance(command, Notice):
                self.notices.append(command)
            else:
                self.sent.append(Sent(command))
            if isinstance(command, WritePlacements):
                self.check_decision(command)
        self.engine.validate()
        self.check_capacity()

    def check_decision(self, write: WritePlacements) -> None:
        """A new write keeps the promises. One that is sent again is the same as before, whatever has changed since:
        the first copy of it may have happened."""
        if first := self.decided.get(write.token):
            assert first == write, f"{write.key}: {first} is sent again as {write}"
            return
        self.decided[write.token] = write
        check_write(self.engine, write)

    def check_capacity(self) -> None:
        held: dict[str, int] = {}
        for vpod in self.vpods.values():
            for name, number in vpod.placements:
                held[name] = held.get(name, 0) + number
        over = {
            name: number
            for name, number in held.items()
            if number > max(self.settings.capacity, self.over.get(name, 0))
        }
        assert not over, f"more than {self.settings.capacity}: {over}; the last: {self.log[-20:]}"

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.engine.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.tell(Ticked())
        self.now = end

    # -- the API server

    def arrive(self, sent: Sent) -> None:
        command = sent.command
        self.log.append(("arrives", command))
        if isinstance(command, ReadVPod):
            sent.record = self.vpods.get(command.key)
            sent.outcome = Outcome(OutcomeKind.DONE if sent.record else OutcomeKind.GONE)
        elif isinstance(command, WritePlacements):
            sent.outcome = self.write(command)
        elif isinstance(command, ScaleWorkload):
            sent.outcome = Outcome(OutcomeKind.LOST)
            if self.workload_is_there and command.resource_version == self.workload.version:
                self.check_drained(command.replicas)
                self.replicas.append(command.replicas)
                self.scale(command.replicas)
                sent.outcome = Outcome(OutcomeKind.DONE)

    def write(self, command: WritePlacements) -> Outcome:
        found = self.vpods.get(command.key)
        if found is None or found.uid != command.uid:
            return Outcome(OutcomeKind.GONE)
        if found.version != command.version:
            return Outcome(OutcomeKind.LOST)
        before, after = dict(found.placements), dict(command.placements)
        self.moves += sum(max(0, number - after.get(name, 0)) for name, number in before.items())
        written = msgspec.structs.replace(found, placements=command.placements)
        if found.source.has_conditions:
            written = msgspec.structs.replace(
                written,
                reason=command.reason,
                condition=command.condition,
                since=command.since,
                observed=command.generation,
            )
        self.put(written)
        self.check_capacity()
        return Outcome(OutcomeKind.DONE, resource_version=self.vpods[command.key].version)

    def check_drained(self, replicas: int) -> None:
        for vpod in self.vpods.values():
            gone = [name for name, number in vpod.placements if number and int(name.rpartition("-")[2]) >= replicas]
            assert not gone or replicas >= self.workload.replicas, f"{vpod.key} is on {gone}, scaled to {replicas}"

    def answer(self, sent: Sent, outcome: Outcome | None = None) -> None:
        self.sent.remove(sent)
        outcome = outcome or sent.outcome
        assert outcome is not None
        command = sent.command
        if isinstance(command, ReadVPod):
            self.tell(
                VPodRead(command.key, command.uid, outcome, sent.record if outcome.kind is OutcomeKind.DONE else None)
            )
        elif isinstance(command, WritePlacements):
            self.tell(PlacementsWritten(command.token, command.key, outcome))
        else:
            self.tell(WorkloadScaled(command.token, outcome))

    def observe(self, number: int = 1) -> None:
        for _ in range(number):
            if self.watch:
                self.tell(self.watch.popleft())

    def settle(self) -> None:
        """All that is on its way arrives, is answered and seen, until nothing more happens now."""
        for _ in range(10_000):
            if self.sent:
                sent = self.sent[0]
                if sent.outcome is None:
                    self.arrive(sent)
                self.answer(sent)
            elif self.watch:
                self.observe()
            elif (due := self.engine.next_due()) is not None and due <= self.now:
                self.tell(Ticked())
            else:
                return
        raise AssertionError("it does not come to rest")

    # -- the cluster

    def put(self, record: VPodRecord) -> VPodRecord:
        self.vpods[record.key] = record = msgspec.structs.replace(record, version=self.next_version())
        self.watch.append(VPodSeen(record))
        return record

    def want(self, name: str, wanted: int, **fields: Any) -> VPodRecord:
        """Create a vpod, or change what it wants."""
        its = key(name, source=OTHERS.name if name in FOREIGN else "")
        found = self.vpods.get(its)
        if found is None:
            source = OTHERS if its.source else VPOD_OBJECTS
            found = VPodRecord(key=its, uid=f"{name}-{self.version}", version="", set=SET, wanted=wanted, source=source)
        return self.put(msgspec.structs.replace(found, wanted=wanted, **fields))

    def delete(self, name: str) -> None:
        record = self.vpods.pop(key(name, source=OTHERS.name if name in FOREIGN else ""))
        self.watch.append(VPodGone(record.key, record.uid))

    def placed(self, name: str) -> dict[str, int]:
        return dict(self.vpods[key(name)].placements)

    def scale(self, replicas: int) -> None:
        uid = self.workload.uid if self.workload_is_there else f"ss-{self.version}"
        self.workload_is_there = True
        in_order = self.workload.in_order
        self.workload = Workload(SS, uid, self.next_version(), replicas, in_order=in_order)
        self.watch.append(WorkloadSeen(self.workload))
        self.control()

    def delete_workload(self) -> None:
        """The StatefulSet is deleted, with its pods. `scale` makes it anew."""
        self.workload_is_there = False
        for ordinal in sorted(self.pods):
            self.lose(ordinal)
        self.watch.append(WorkloadGone(SS))

    def control(self) -> None:
        """The StatefulSet controller: pods of ordinals below the replicas are there, ready, and no others."""
        for ordinal in sorted(self.pods):
            if ordinal >= self.workload.replicas:
                self.lose(ordinal)
        for ordinal in range(self.workload.replicas if self.workload_is_there else 0):
            if ordinal not in self.pods:
                self.start_pod(ordinal)

    def start_pod(self, ordinal: int) -> None:
        node, name = f"n{ordinal % len(self.nodes)}", pod_name("ss", ordinal)
        self.show(ordinal, HostPod(key=key(name), uid=f"{name}-{self.version}", node=node))

    def show(self, ordinal: int, pod: HostPod) -> None:
        self.pods[ordinal] = pod = msgspec.structs.replace(pod, version=self.next_version())
        self.watch.append(HostPodSeen(pod))

    def change(self, ordinal: int, **fields: Any) -> None:
        self.show(ordinal, msgspec.structs.replace(self.pods[ordinal], **fields))

    def lose(self, ordinal: int) -> None:
        pod = self.pods.pop(ordinal)
        self.watch.append(HostPodGone(pod.key, pod.uid))

    def serve(self, name: str, *, serves: bool) -> None:
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], serves=serves)
        self.watch.append(HostNodeSeen(self.nodes[name]))

    def demote(self) -> None:
        self.tell(TermEnded())
