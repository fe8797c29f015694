"""An engine of vpods with a set, pods and vpods, beside a cluster that carries out at once what it is told.

    VPodSeen -> WritePlacements ... PlacementsWritten, VPodSeen (the watch tells the same)

What other rooms make (records that informers decode, outcomes of writes) is made outside of what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.engine import VPodEngine
from extender.vpods.events import (
    HostNodeSeen,
    HostPodSeen,
    SetsConfigured,
    Synced,
    TermBegun,
    Ticked,
    VPodSeen,
    WorkloadSeen,
)
from extender.vpods.names import pod_name
from extender.vpods.notices import Notice
from extender.vpods.records import HostNode, HostPod, ObjectKey, SetSettings, VPodKey, VPodRecord, Workload
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements

SET, STATEFUL_SET = ObjectKey("ns", "ss"), ObjectKey("ns", "ss")
NODES = 10
_NEVER = 1e9
#: Fields of a vpod's status that a write sets.
_STATUS = {*VPodRecord.__struct_fields__} & {*WritePlacements.__struct_fields__} - {"key", "uid", "version", "source"}


class Fleet:
    """One set. `decided` and `confirmed` are CPU seconds of the engine: until it says what to write, and after that."""

    def __init__(self, *, pods: int, capacity: int, policy: str, wanted: Iterable[int] = (), zones: int = 1) -> None:
        self.settings = SetSettings(
            key=SET,
            workload="ss",
            capacity=capacity,
            policy=policy,
            max_replicas=max(pods, 1) * 2,
            scale_down_seconds=_NEVER,
        )
        self.pods, self.zones = pods, zones
        self.vpods = [self._vpod(number, each) for number, each in enumerate(wanted)]
        self.decided = self.confirmed = 0.0
        #: Vreplicas that left a pod for another one.
        self.moves = 0
        #: Statuses that were written.
        self.writes = 0
        #: The last write of each vpod, by its name.
        self.commands: dict[str, WritePlacements] = {}
        self._version = 10_000_000
        self._now = 0.0
        self.engine = VPodEngine()

    def _vpod(self, number: int, wanted: int) -> VPodRecord:
        return VPodRecord(key=vpod_key(number), uid=f"uid-{number}", version="1", set=SET, wanted=wanted, generation=1)

    # -- a server

    def start(self, *, with_vpods: bool = True) -> None:
        """A server that has nothing but what the API server lists."""
        self.engine = VPodEngine()
        self._now += 10.0
        events: list[Any] = [SetsConfigured((self.settings,))]
        events += [HostNodeSeen(HostNode(f"n{n}", zone=f"z{n % self.zones}")) for n in range(NODES)]
        events.append(WorkloadSeen(self._workload()))
        events += [HostPodSeen(self._pod(ordinal)) for ordinal in range(self.pods)]
        if with_vpods:
            events += [VPodSeen(vpod) for vpod in self.vpods]
        self.run([*events, Synced(), TermBegun(1)])

    def run(self, events: Iterable[Any]) -> None:
        """Handle events, and carry out what the engine says, until it says nothing more."""
        began = time.process_time()
        out = [command for event in events for command in self.engine.handle(event, self._now)]
        self.decided += time.process_time() - began
        while True:
            answers = [answer for command in out for answer in self._carry_out(command)]
            due = self.engine.next_due()
            if not answers and (due is None or due > self._now):
                return
            began = time.process_time()
            out = [command for event in answers for command in self.engine.handle(event, self._now)]
            if not answers:
                out = self.engine.handle(Ticked(), self._now)
            self.confirmed += time.process_time() - began

    def _carry_out(self, command: Any) -> tuple[Any, ...]:
        if isinstance(command, Notice):
            return ()
        if not isinstance(command, WritePlacements):
            raise TypeError(f"nothing but placements is written in this bench, not {command}")
        self.writes += 1
        self.commands[command.key.name] = command
        number = int(command.key.name.removeprefix("vp-"))
        before, after = self.vpods[number], dict(command.placements)
        left = sum(max(0, held - after.get(name, 0)) for name, held in before.placements)
        self.moves += left - max(0, sum(held for _, held in before.placements) - sum(after.values()))
        version = self._next_version()
        status = {name: getattr(command, name) for name in _STATUS}
        vpod = msgspec.structs.replace(before, version=version, observed=command.generation, **status)
        self.vpods[number] = vpod
        written = PlacementsWritten(command.token, command.key, Outcome(OutcomeKind.DONE, resource_version=version))
        return written, VPodSeen(vpod)

    # -- what changes

    def schedule(self, number: int, wanted: int | None = None) -> None:
        """The watch shows a vpod in a new version, and the engine looks at it again."""
        changes = {} if wanted is None else {"wanted": wanted}
        vpod = msgspec.structs.replace(self.vpods[number], version=self._next_version(), **changes)
        self.vpods[number] = vpod
        self.run([VPodSeen(vpod)])

    def run_autoscaler(self) -> None:
        """The watch shows the StatefulSet in a new version, so that its replicas are looked at again."""
        self.run([WorkloadSeen(self._workload())])

    def add_pod(self) -> None:
        """Somebody scales the set up, and its controller starts a pod."""
        self.pods += 1
        self.run([WorkloadSeen(self._workload()), HostPodSeen(self._pod(self.pods - 1))])

    def wanted(self, name: str) -> int:
        return self.vpods[int(name.removeprefix("vp-"))].wanted

    def placements(self) -> dict[str, tuple[tuple[str, int], ...]]:
        return {str(vpod.key): vpod.placements for vpod in self.vpods}

    def _workload(self) -> Workload:
        return Workload(STATEFUL_SET, "ss-uid", self._next_version(), self.pods)

    def _pod(self, ordinal: int) -> HostPod:
        name = pod_name("ss", ordinal)
        key = ObjectKey("ns", name)
        return HostPod(key=key, uid=f"uid-{name}", version=self._next_version(), node=f"n{ordinal % NODES}")

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def vpod_key(number: int) -> VPodKey:
    return VPodKey("ns", f"vp-{number:04d}")
