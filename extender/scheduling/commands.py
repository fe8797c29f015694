"""The commands of the engine of pods for the API server, and the events that report them; the files are in `writes/`.

The I/O layers carry out every command exactly once, and report the result as the event that the command names, with the
same token. If a report never comes (a crash), the engine verifies the state; it never guesses.

This is where a new kind is registered: in one of the unions, and in `KINDS` or `pod_commands`. What is to be written
beside each binding is registered here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from algorithm.model import Pod
from extender.core.commands import CommandSet
from extender.core.kube_events import Events
from extender.scheduling.writes import binding, eviction, pod_read, preemption_mark, requeue
from extender.scheduling.writes.binding import BindFinished, WriteBinding
from extender.scheduling.writes.event import RecordEvent
from extender.scheduling.writes.eviction import Evict, EvictFinished
from extender.scheduling.writes.pod_read import PodRead, ReadPod
from extender.scheduling.writes.preemption_mark import PreemptionRecorded, RecordPreemption
from extender.scheduling.writes.requeue import RequeuePod

__all__ = [
    "BESIDE_BINDING",
    "KINDS",
    "BindFinished",
    "Command",
    "Evict",
    "EvictFinished",
    "PodRead",
    "PreemptionRecorded",
    "ReadPod",
    "RecordEvent",
    "RecordPreemption",
    "Report",
    "RequeuePod",
    "Write",
    "WriteBinding",
    "pod_commands",
]

#: The commands that change something: the engine stamps them with its term, and gives none outside a term.
Write = WriteBinding | Evict | RecordPreemption | RequeuePod | RecordEvent
Command = Write | ReadPod
#: The events that report commands.
Report = BindFinished | PodRead | EvictFinished | PreemptionRecorded

#: The kinds of `Write` that are reported.
KINDS = (binding.KIND, eviction.KIND, preemption_mark.KIND)

#: The writes beside each binding of this server: functions that return the commands for one pod, as the API server
#: has just shown it bound. Outside a term, their commands are dropped like all others.
BESIDE_BINDING: tuple[Callable[[Pod], Sequence[Write]], ...] = ()


def pod_commands(decode: Callable[[bytes], Pod]) -> CommandSet[Report]:
    """Return all kinds of command, for one committer. `decode` makes the record of a pod that is read live."""
    return CommandSet(
        (*KINDS, pod_read.kind(decode)),
        best_effort=(requeue.Requeues(), Events(RecordEvent)),
    )
