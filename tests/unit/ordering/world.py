"""Makes records for the engine of start-up ordering, and runs it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from extender.core.outcomes import Outcome, OutcomeKind
from extender.ordering.after import parse_after
from extender.ordering.engine import OrderingEngine
from extender.ordering.events import (
    Forget,
    HoldBack,
    LetGo,
    OrderingEvent,
    OrderingInstruction,
    PodGone,
    PodSeen,
    Synced,
    TellPod,
    TermBegun,
    Ticked,
    WorkloadGone,
    WorkloadSeen,
)
from extender.ordering.records import (
    GATE,
    GROUP,
    JOB,
    KINDS,
    RELEASED,
    PodKey,
    PodRecord,
    Target,
    WorkloadRecord,
)
from extender.ordering.state import Phase
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.ordering.writes.met import MarkMet, MetMarked
from extender.ordering.writes.read import PodRead, ReadPod

NAMESPACE = "ml"
DONE = Outcome(OutcomeKind.DONE)


def target(text: str) -> Target:
    """`target("Job/a")` is the Job a of the tests' namespace."""
    kind, _, name = text.partition("/")
    assert kind in KINDS or "/" in name, text
    return Target(kind, NAMESPACE, name)


def pod(
    name: str, after: str = "", *, gated: bool = True, group: str = "", owner: str = "", **fields: Any
) -> PodRecord:
    """A waiting pod; with `after`, it declares that."""
    made = PodRecord(
        key=PodKey(NAMESPACE, name),
        uid=f"uid-{name}",
        gates=(GATE,) if gated and after else (),
        after=parse_after(after, NAMESPACE) if after else (),
        declares=bool(after),
        has_annotations=bool(after),
        group=Target(GROUP, NAMESPACE, group) if group else None,
        owner=target(owner) if owner else None,
        owner_uid=f"uid-{owner}" if owner else "",
    )
    return msgspec.structs.replace(made, **fields)


def workload(name: str, pods: int = 1, after: str = "", **fields: Any) -> WorkloadRecord:
    """`workload("Job/a")` is the Job a."""
    made = WorkloadRecord(
        target=target(name), uid=f"uid-{name}", pods=pods, after=parse_after(after, NAMESPACE) if after else ()
    )
    return msgspec.structs.replace(made, **fields)


def running(record: PodRecord, **fields: Any) -> PodRecord:
    """The same pod, bound and ready."""
    changed = {"node": "n", "phase": "Running", "ready": True, "gates": (), **fields}
    return msgspec.structs.replace(record, **changed)


class World:
    """An engine, and an API server that carries out its writes at once, unless `holds` is set."""

    def __init__(self, *, is_leader: bool = True) -> None:
        self.engine = OrderingEngine()
        self.now = 0.0
        self.versions = itertools.count(1)
        self.pods: dict[str, PodRecord] = {}
        self.workloads: dict[Target, WorkloadRecord] = {}
        self.writes: list[RemoveGate | MarkMet | ReadPod] = []
        self.told: list[tuple[str, str]] = []
        #: What the engine of pods was told last, by UID.
        self.held: dict[str, str] = {}
        self.holds = False
        self.out: list[OrderingInstruction] = []
        self.send(Synced())
        if is_leader:
            self.send(TermBegun(0))

    def send(self, *events: OrderingEvent) -> None:
        """Handle events, and what becomes due at once."""
        for event in events:
            self._take(self.engine.handle(event, self.now))
        self.settle()

    def settle(self) -> None:
        """Handle all that is due now."""
        steps = 0
        while (due := self.engine.next_due()) is not None and due <= self.now:
            steps += 1
            assert steps < 100_000, "it is never idle"
            self._take(self.engine.handle(Ticked(), self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass, from one timer to the next."""
        until, steps = self.now + seconds, 0
        while (due := self.engine.next_due()) is not None and due <= until:
            steps += 1
            assert steps < 100_000, "it is never idle"
            self.now = max(self.now, due)
            self._take(self.engine.handle(Ticked(), self.now))
        self.now = until

    def put(self, *objects: PodRecord | WorkloadRecord) -> None:
        """Create or change objects, and show them."""
        for obj in objects:
            made = msgspec.structs.replace(obj, version=str(next(self.versions)))
            if isinstance(made, PodRecord):
                self.pods[made.key.name] = made
                self.send(PodSeen(made))
            else:
                self.workloads[made.target] = made
                self.send(WorkloadSeen(made))

    def drop(self, *names: str) -> None:
        """Delete objects: pods by their names, others as KIND/NAME."""
        for name in names:
            if "/" in name:
                gone = self.workloads.pop(target(name))
                self.send(WorkloadGone(gone.target, gone.uid))
            else:
                pod = self.pods.pop(name)
                self.send(PodGone(pod.key, pod.uid))

    def start(self, *names: str) -> None:
        """Bind pods, which are ready at once."""
        for name in names:
            assert not self.pods[name].gates, f"{name} is gated"
            self.put(running(self.pods[name]))

    def _take(self, instructions: Iterable[OrderingInstruction]) -> None:
        for each in instructions:
            self.out.append(each)
            match each:
                case RemoveGate() | MarkMet() | ReadPod():
                    self.writes.append(each)
                    if not self.holds:
                        self.carry_out(each)
                case TellPod():
                    self.told.append((each.key.name, each.reason.text))
                case HoldBack():
                    self.held[each.key.name] = each.reason.text
                case LetGo():
                    self.held[each.key.name] = ""
                case Forget():
                    self.held.pop(each.uid.removeprefix("uid-"), None)

    def carry_out(self, write: RemoveGate | MarkMet | ReadPod) -> None:
        """Do what is written, show it, and report it."""
        known = self.pods.get(write.key.name)
        gone = Outcome(OutcomeKind.GONE)
        is_there = known is not None and known.uid == write.uid
        version = str(next(self.versions))
        match write:
            case RemoveGate():
                if is_there and known is not None:
                    gates = tuple(each for each in known.gates if each != GATE)
                    known = msgspec.structs.replace(known, gates=gates, met=frozenset({RELEASED}), version=version)
                    self.pods[write.key.name] = known
                    self.send(GateRemoved(write.token, write.key, write.uid, DONE, known))
                else:
                    self.send(GateRemoved(write.token, write.key, write.uid, gone))
            case MarkMet():
                if is_there and known is not None:
                    known = msgspec.structs.replace(known, met=frozenset(write.met), version=version)
                    self.pods[write.key.name] = known
                    self.send(PodSeen(known))
                self.send(MetMarked(write.token, write.key, write.uid, DONE if is_there else gone))
            case ReadPod():
                outcome = DONE if known else gone
                self.send(PodRead(write.token, write.key, write.uid, outcome, known))

    # -- looking

    def released(self) -> set[str]:
        """The names of waiting pods that may be bound."""
        return {each.record.key.name for each in self.engine.state.waiting.values() if each.phase is not Phase.WAITING}

    def waits(self, name: str) -> str:
        """Why a pod waits; "" if it does not."""
        waiting = self.engine.state.waiting.get(f"uid-{name}")
        if waiting is None or waiting.phase is not Phase.WAITING:
            return ""
        return waiting.reason.text if waiting.reason else ""


__all__ = ["GROUP", "JOB", "World", "pod", "running", "target", "workload"]
