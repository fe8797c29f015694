"""All pods as lean rows: for tables, and for the totals of the last hour.

Rows are made under the engine's lock, a hundred at a time. What the algorithm says about a pod is remembered for as
long as the pod's record, so that a reading asks it only about new records.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
import structlog

from algorithm.interface import PodDescription
from algorithm.model import Pod
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.state.pod_info import PodInfo, State
from extender.server.loop import EngineLoop
from extender.server.views import PENDING, reason_of

log = structlog.get_logger(__name__)

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


class Said(NamedTuple):
    """What the algorithm says about a pod, completed from the pod itself."""

    group: str
    tenant: str
    priority: int
    devices: int


class PodRows:
    """Thread-safe; one reading at a time. `messages` returns what kube-scheduler wrote on a pod without a node, by
    UID."""

    def __init__(
        self, machine: SchedulerStateMachine, loop: EngineLoop[Event, Instruction], messages: Callable[[str], str]
    ) -> None:
        self._machine = machine
        self._loop = loop
        self._messages = messages
        self._lock = threading.Lock()
        #: By UID: the record, and what is said about it.
        self._known: dict[str, tuple[Pod, Said]] = {}
        #: The kinds of faults that the log has.
        self._logged: set[type] = set()

    def read(self) -> list[PodRow]:
        """Return a row for each pod that takes room or waits, in no order."""
        with self._lock:
            known: dict[str, tuple[Pod, Said]] = {}
            rows = [row for piece in self._loop.in_turns(self._pieces(known)) for row in piece]
            self._known = known
            return rows

    def _pieces(self, known: dict[str, tuple[Pod, Said]]) -> Iterator[list[PodRow]]:
        entries = list(self._machine.state.pods)
        for start in range(0, len(entries), PIECE):
            yield [self._row(entry, known) for entry in entries[start : start + PIECE]]

    def _row(self, entry: PodInfo, known: dict[str, tuple[Pod, Said]]) -> PodRow:
        pod = entry.placed or entry.pod
        said = self.said(entry)
        known[entry.uid] = (pod, said)
        why = reason_of(entry, self._messages(entry.uid)) if entry.state in PENDING else None
        return PodRow(
            pod.namespace,
            pod.name,
            entry.state.value,
            entry.node,
            "" if why is None else why.code.value,
            said.group,
            said.tenant,
            said.priority,
            said.devices,
            pod.created,
        )

    def said(self, entry: PodInfo) -> Said:
        """Return what the algorithm says about a pod. To be called under the loop's lock."""
        pod = entry.placed or entry.pod
        found = self._known.get(entry.uid)
        return found[1] if found is not None and found[0] is pod else self._say(pod)

    def _say(self, pod: Pod) -> Said:
        told = self._describe(pod)
        return Said(
            told.group or pod.annotation(GANG_ANNOTATION) or pod.group,
            told.tenant,
            told.priority if told.priority is not None else pod.priority,
            told.devices if told.devices is not None else devices_of(pod),
        )

    def _describe(self, pod: Pod) -> PodDescription:
        """Ask the algorithm. Its fault must not hide the pod: each kind of fault is logged once."""
        try:
            return msgspec.convert(self._machine.driver.algorithm.describe(pod), PodDescription, from_attributes=True)
        except Exception as error:
            if type(error) not in self._logged:
                self._logged.add(type(error))
                log.exception("describe failed", pod=str(pod.key))
            return PodDescription()


def devices_of(pod: Pod) -> int:
    """Return what the pod requests of resources with a domain in their name."""
    return sum(amount for name, amount in pod.requests if "/" in name)
