"""A simulated cluster around an engine of its own: what the engine would do, without doing it.

    SetCopy --> Simulation --- events ---> VPodEngine (another one, with this set only)
                    ^                          |
                    +---- WritePlacements, ScaleWorkload: they succeed at once, and are seen at once
                    +---- time: jumps to whatever the engine waits for

The server's own engine decides, so a plan is what will happen if nothing else changes. It assumes that

* every write succeeds, and writes that are under way have succeeded;
* a pod that the StatefulSet gets is ready as soon as everything that happens without it has happened: vreplicas are
  placed in milliseconds, pods start in seconds. All new pods are ready at once if the StatefulSet's
  podManagementPolicy is Parallel, and else one after the other;
* a new pod is on a node that serves: in the zone that has the fewest pods of the set, and there on the node that has
  the fewest;
* a pod that is lost does not come back.

The caller bounds its cost: `run` yields after every event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.scale import ScaleWorkload, WorkloadScaled
from extender.vpods.copies import SetCopy, VPodCopy
from extender.vpods.engine import VPodEngine
from extender.vpods.events import (
    HostNodeSeen,
    HostPodGone,
    HostPodSeen,
    SetsConfigured,
    Synced,
    TermBegun,
    Ticked,
    VPodCommand,
    VPodEvent,
    VPodGone,
    VPodSeen,
    WorkloadSeen,
)
from extender.vpods.names import pod_name, read_placements, write_placements
from extender.vpods.notices import Notice
from extender.vpods.records import HostPod, ObjectKey, VPodKey, VPodRecord
from extender.vpods.sets import HostedSet
from extender.vpods.simulated_nodes import NodeChoice
from extender.vpods.state import SELDOM
from extender.vpods.steps import Scaled, Steps, Why
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements
from extender.vpods.writes.read import VPodRead

#: Events after which a simulation ends although the engine is not at rest; and seconds of its own time.
MOST_EVENTS = 100_000
HORIZON = 86_400.0


class Simulation:
    """One run. `steps` has what happened."""

    def __init__(self, copy: SetCopy) -> None:
        self.key = copy.key
        self.start = self.now = copy.now
        self.steps = Steps(self._why)
        self.events = 0
        self.is_at_rest = False
        self.engine = VPodEngine()
        self._workload = copy.workload
        self._nodes = dict(copy.nodes)
        self._pods = dict(copy.pods)
        #: Pods that do not come back.
        self._lost: set[int] = set()
        self._vpods: dict[VPodKey, VPodRecord] = {}
        self._version = 0
        #: Changes; commands that are on their way; what watches will show.
        self._changes: deque[VPodEvent] = deque()
        self._sent: deque[VPodCommand] = deque()
        self._watch: deque[VPodEvent] = deque()
        #: Pods that start.
        self._new_pods: deque[VPodEvent] = deque()
        #: When it did something last, and the longest time for which it may wait then.
        self._acted = self.now
        self._settings = copy.settings
        self._begin(copy)

    # -- what is known before anything happens

    def _begin(self, copy: SetCopy) -> None:
        self._tell(TermBegun(1))
        self._tell(SetsConfigured((copy.settings,)))
        hosted = self.hosted
        hosted.restore_rests(copy.proven, copy.rests_until)
        for node in self._nodes.values():
            self._tell(HostNodeSeen(node))
        for ordinal, pod in self._pods.items():
            self._pods[ordinal] = pod = msgspec.structs.replace(pod, version=self._next_version())
            self._tell(HostPodSeen(pod))
        if copy.workload is not None:
            self._workload = msgspec.structs.replace(copy.workload, version=self._next_version())
            self._tell(WorkloadSeen(self._workload))
        for vpod in sorted(copy.vpods, key=_seniority):
            self._tell(VPodSeen(self._enter(_settled(vpod, copy.settings.workload))))
            if vpod.waits_since is not None and vpod.is_admitted:
                hosted.waiting[vpod.name] = vpod.waits_since
        hosted.draining, hosted.low_since = copy.draining, copy.low_since
        hosted.drain_failures, hosted.drains, hosted.grows_after = copy.drain_failures, copy.drains, copy.grows_after
        # The first decisions leave this order as it is, and take those out that are even by now.
        hosted.cramped.update(dict.fromkeys(copy.cramped))
        self._changes.append(Synced())

    def _enter(self, record: VPodRecord) -> VPodRecord:
        record = msgspec.structs.replace(record, version=self._next_version())
        self._vpods[record.key] = record
        return record

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    @property
    def hosted(self) -> HostedSet:
        """The set as the engine of this simulation has it."""
        return self.engine.sets[self.key]

    @property
    def seconds(self) -> float:
        """For how long it has run, in seconds of its own time."""
        return self.now - self.start

    @property
    def _longest(self) -> float:
        settings = self._settings
        times = (settings.unready_seconds, settings.scale_down_seconds, settings.scale_up_seconds)
        return 2 * max(*times, settings.partial_seconds or 0.0, settings.overlap_seconds, SELDOM)

    # -- changes that somebody makes

    def configure(self, **changes: Any) -> None:
        """Change settings of the set. The engine is told the whole configuration anew, as a reload does."""
        self._settings = msgspec.structs.replace(self._settings, **changes)
        self._changes.append(SetsConfigured((self._settings,)))

    def want(self, key: VPodKey, **changes: Any) -> None:
        """Change what a vpod wants, or create it."""
        known = self._vpods.get(key)
        if known is None:
            known = VPodRecord(key=key, uid=f"planned-{key}", version="", set=self.key, wanted=0)
        self._changes.append(VPodSeen(self._enter(msgspec.structs.replace(known, **changes))))

    def delete(self, key: VPodKey) -> None:
        """A vpod goes, with its vreplicas."""
        record = self._vpods.pop(key)
        self._changes.append(VPodGone(key, record.uid))

    def scale(self, replicas: int) -> None:
        """Somebody else sets the replicas of the StatefulSet."""
        if self._workload is not None:
            self._changes.extend(self._scaled(replicas))

    def lose_pod(self, ordinal: int) -> None:
        """A pod fails, and does not come back."""
        self._lost.add(ordinal)
        if ordinal in self._pods:
            self._change_pod(ordinal, ready=False)

    def close_pod(self, ordinal: int) -> None:
        """A pod gets the annotation that it takes no vreplicas."""
        self._change_pod(ordinal, closed=True)

    def lose_node(self, name: str) -> None:
        """A node fails, with its pods."""
        self.cordon_node(name)
        for ordinal in [ordinal for ordinal, pod in self._pods.items() if pod.node == name]:
            self.lose_pod(ordinal)

    def cordon_node(self, name: str) -> None:
        self._nodes[name] = node = msgspec.structs.replace(self._nodes[name], serves=False)
        self._changes.append(HostNodeSeen(node))

    def _change_pod(self, ordinal: int, **changes: Any) -> None:
        changed = msgspec.structs.replace(self._pods[ordinal], version=self._next_version(), **changes)
        self._pods[ordinal] = changed
        self._changes.append(HostPodSeen(changed))

    # -- running

    def run(self, *, horizon: float = HORIZON) -> Iterator[None]:
        """Go on until nothing more happens, and yield after every event. `horizon` 0: without any time passing.

        An engine that waits for something tries again now and then, for ever. Once it has had the time for everything
        that it may wait for, and has done nothing, it is at rest.
        """
        self.is_at_rest = False
        end = self.start + horizon
        while self.events < MOST_EVENTS:
            if (event := self._next_event()) is not None:
                self._tell(event)
                yield
                continue
            due = self.engine.next_due()
            if due is None or due > min(end, self._acted + self._longest):
                self.is_at_rest = due is None or due <= end
                return
            self.now = max(self.now, due)
            self._tell(Ticked())
            yield

    def _next_event(self) -> Any:
        """The next event at this moment; None if there is none. Changes come first, as all of them come at once."""
        if self._changes:
            return self._changes.popleft()
        if self._sent:
            return self._carry_out(self._sent.popleft())
        if self._watch:
            return self._watch.popleft()
        return self._next_pod()

    def _next_pod(self) -> VPodEvent | None:
        """The next pod that becomes ready; those that start at the same time follow before anything else."""
        if not self._new_pods:
            return None
        if self._workload is not None and not self._workload.in_order:
            self._changes.extend(self._new_pods)
            self._new_pods.clear()
            return self._changes.popleft()
        return self._new_pods.popleft()

    def _tell(self, event: Any) -> None:
        self.events += 1
        instructions = self.engine.handle(event, self.now)
        commands = [each for each in instructions if not isinstance(each, Notice)]
        self._sent.extend(commands)
        if commands:
            self._acted = self.now

    def _carry_out(self, command: VPodCommand) -> VPodEvent:
        """What the API server does with a command. The report of it comes at once, and what watches show after that."""
        if isinstance(command, WritePlacements):
            return PlacementsWritten(command.token, command.key, self._write(command))
        if isinstance(command, ScaleWorkload):
            return WorkloadScaled(command.token, self._order(command))
        record = self._vpods.get(command.key)
        kind = OutcomeKind.DONE if record else OutcomeKind.GONE
        return VPodRead(command.key, command.uid, Outcome(kind), record)

    def _write(self, command: WritePlacements) -> Outcome:
        record = self._vpods.get(command.key)
        if record is None:
            return Outcome(OutcomeKind.GONE)
        if record.version != command.version:
            return Outcome(OutcomeKind.LOST)  # a change came before it
        workload = self.hosted.settings.workload
        before, _ = read_placements(record.placements, workload)
        after, _ = read_placements(command.placements, workload)
        if before != after:
            self.steps.note(self.seconds, record, before, after)
        status: dict[str, Any] = {"placements": command.placements}
        if record.source.has_conditions:
            status |= {"reason": command.reason, "condition": command.condition, "since": command.since}
            status["observed"] = command.generation
        record = self._enter(msgspec.structs.replace(record, **status))
        self._watch.append(VPodSeen(record))
        return Outcome(OutcomeKind.DONE, resource_version=record.version)

    def _order(self, command: ScaleWorkload) -> Outcome:
        if self._workload is None:
            return Outcome(OutcomeKind.GONE)
        if self._workload.version != command.resource_version:
            return Outcome(OutcomeKind.LOST)
        self._watch.extend(self._scaled(command.replicas))
        return Outcome(OutcomeKind.DONE)

    def _why(self, source: int | None, target: int | None) -> Why:
        """Return why vreplicas leave a pod, or come to one."""
        if source is None:
            return Why.GROWTH
        hosted = self.hosted
        if hosted.state.is_usable(source):
            if hosted.state.room(source) < 0:
                return Why.TOO_FULL
            return Why.SHRINKAGE if target is None else Why.EVENNESS
        pod = self._pods.get(source)
        if source >= hosted.replicas or pod is None or source in self._lost:
            return Why.LOST_POD
        node = self._nodes.get(pod.node)
        if pod.closed or (node is not None and not node.hosts(pod.tolerates)):
            return Why.CLOSED_POD
        if hosted.draining is not None and source >= hosted.draining:
            return Why.DRAIN
        return Why.LOST_POD

    # -- the StatefulSet controller

    def _scaled(self, replicas: int) -> Iterator[VPodEvent]:
        """Change the replicas, and yield what watches show of it and of what the StatefulSet controller does then."""
        assert self._workload is not None
        if replicas == self._workload.replicas:
            return
        self.steps.scale(Scaled(self.seconds, self._workload.replicas, replicas))
        self._workload = msgspec.structs.replace(self._workload, version=self._next_version(), replicas=replicas)
        yield WorkloadSeen(self._workload)
        for ordinal in sorted(ordinal for ordinal in self._pods if ordinal >= replicas):
            pod = self._pods.pop(ordinal)
            yield HostPodGone(pod.key, pod.uid)
        # All pods of a StatefulSet have the same template.
        tolerates = next((pod.tolerates for pod in self._pods.values()), ())
        choice = NodeChoice(self._nodes, self._pods.values(), tolerates)
        for ordinal in range(replicas):
            if ordinal not in self._pods and ordinal not in self._lost:
                name = pod_name(self._workload.key.name, ordinal)
                self._pods[ordinal] = pod = HostPod(
                    key=ObjectKey(self._workload.key.namespace, name),
                    uid=f"planned-{name}",
                    version=self._next_version(),
                    node=choice.next(),
                    tolerates=tolerates,
                )
                self._new_pods.append(HostPodSeen(pod))


def _seniority(vpod: VPodCopy) -> tuple[bool, float]:
    """Those that lack room first, in their order: they are first in line for what becomes free."""
    return vpod.waits_since is None, vpod.waits_since or 0.0


def _settled(vpod: VPodCopy, workload: str) -> VPodRecord:
    """The record as it will be once the writes that are under way have succeeded."""
    if not vpod.is_admitted or not vpod.is_writing or vpod.placed == vpod.committed:
        return vpod.record
    return msgspec.structs.replace(
        vpod.record, placements=write_placements(vpod.placed, workload), reason=vpod.reason.value
    )
