"""All pods as lean rows: for tables, and for the totals of the last hour.

Rows are made under the engine's lock, a hundred at a time. The algorithm's description of a pod is remembered for as
long as the pod's record, so that a reading asks only about new records. Its priority is asked for in each reading,
because it changes while the pod runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from algorithm.interface import PodDescription, SchedulerAlgorithm
from algorithm.model import Pod
from extender.scheduling.driver import int64
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.state.pod_info import PodInfo, State
from extender.server.guard import AlgorithmGuard
from extender.server.loop import EngineLoop
from extender.server.views import PENDING, reason_of

#: Raises for a text or a number that no page can show.
_encode: Final = msgspec.json.Encoder().encode
#: How many rows are made during one pause of the loop.
PIECE: Final = 100
#: The states in which a pod has a place.
PLACED: Final = frozenset({State.BINDING.value, State.BOUND.value})


class PodRow(NamedTuple):
    """One pod. `group` is "" if it runs alone, `tenant` "" if its namespace says whose it is. `created` is the RFC 3339
    text of the API server."""

    namespace: str
    name: str
    state: str
    node: str
    code: str
    group: str
    tenant: str
    priority: int
    devices: int
    created: str


class RowFields(NamedTuple):
    """What the algorithm says about a pod, completed from the pod itself."""

    group: str
    tenant: str
    priority: int
    devices: int


class _Described(NamedTuple):
    """A record, the algorithm that described it, and the description; `group` and `devices` completed from the pod."""

    pod: Pod
    algorithm: SchedulerAlgorithm
    description: PodDescription
    group: str
    devices: int


class PodRows:
    """Thread-safe; one reading at a time. `messages` returns what kube-scheduler wrote on a pod without a node, by
    UID."""

    def __init__(
        self,
        machine: SchedulerStateMachine,
        loop: EngineLoop[Event, Instruction],
        messages: Callable[[str], str],
        guard: AlgorithmGuard,
    ) -> None:
        self._machine, self._guard = machine, guard
        self._loop = loop
        self._messages = messages
        self._lock = threading.Lock()
        #: By UID, as of the last reading.
        self._known: dict[str, _Described] = {}

    def read(self) -> list[PodRow]:
        """Return a row for each pod that takes room or waits, in no order."""
        with self._lock:
            known: dict[str, _Described] = {}
            rows = [row for piece in self._loop.in_turns(self._pieces(known)) for row in piece]
            self._known = known
            return rows

    def _pieces(self, known: dict[str, _Described]) -> Iterator[list[PodRow]]:
        pod_infos = list(self._machine.state.pods)
        for start in range(0, len(pod_infos), PIECE):
            began = self._guard.began()
            rows = [self._row(pod_info, known) for pod_info in pod_infos[start : start + PIECE]]
            self._guard.measured("describe", began)
            yield rows

    def _row(self, pod_info: PodInfo, known: dict[str, _Described]) -> PodRow:
        pod = pod_info.placed or pod_info.pod
        known[pod_info.uid] = described = self._described(pod_info.uid, pod)
        why = reason_of(pod_info, self._messages(pod_info.uid)) if pod_info.state in PENDING else None
        return PodRow(
            pod.namespace,
            pod.name,
            pod_info.state.value,
            pod_info.node,
            "" if why is None else why.code.value,
            described.group,
            described.description.tenant,
            self._priority(pod, described.description),
            described.devices,
            pod.created,
        )

    def fields_of(self, pod_info: PodInfo) -> RowFields:
        """Return what the algorithm says about a pod. To be called under the loop's lock."""
        pod = pod_info.placed or pod_info.pod
        found = self._described(pod_info.uid, pod)
        priority = self._priority(pod, found.description)
        return RowFields(found.group, found.description.tenant, priority, found.devices)

    def _described(self, uid: str, pod: Pod) -> _Described:
        algorithm = self._machine.driver.algorithm
        found = self._known.get(uid)
        if found is not None and found.pod is pod and found.algorithm is algorithm:
            return found
        description = self._describe(pod)
        group = description.group or pod.annotation(GANG_ANNOTATION) or pod.group
        devices = description.devices if description.devices is not None else devices_of(pod)
        return _Described(pod, algorithm, description, group, devices)

    def _describe(self, pod: Pod) -> PodDescription:
        """Ask the algorithm. Its fault must not hide the pod, nor the page of all pods."""
        try:
            found = msgspec.convert(self._machine.driver.algorithm.describe(pod), PodDescription, from_attributes=True)
            _encode(found)
        except BaseException as error:
            self._guard.raised("describe", error, pod)
            return PodDescription()
        return found

    def _priority(self, pod: Pod, description: PodDescription) -> int:
        if description.priority is None:
            return pod.priority
        try:
            return int64(self._machine.driver.algorithm.current_priority(pod, description))
        except BaseException as error:
            self._guard.raised("current_priority", error, pod)
            return description.priority


def devices_of(pod: Pod) -> int:
    """Return what the pod requests of resources with a domain in their name."""
    return sum(amount for name, amount in pod.requests if "/" in name)
