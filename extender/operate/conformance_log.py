"""Writes a failure of the conformance kit as a recording, which `waggle replay LOG --step` opens.

    kit: plain calls                                recording: events of the engine
    AddNode, UpdateNode, DeleteNode                 NodeSeen, NodeGone
    Submit, FoundBound, Update, Replace, Delete     PodSeen, PodGone
    Ask                                             FilterRequested, or PreemptRequested
    Expire                                          Ticked, once the lease of the place is over

The engine calls the algorithm, and decides more than the kit does: it accepts each Bind at once, and it calls
`schedule` only about pods without a place. So what an author sees is the life of the pods around the failure, the last
one of several lives; the exact calls are in the test that is printed. Calls without an event of their own (a restart,
a fork) are left out.

`algorithm.conformance.logs` finds `write_log` by an entry point, as the kit must not import the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from algorithm.conformance.calls import (
    AddNode,
    Ask,
    Call,
    Delete,
    DeleteNode,
    Expire,
    Faulty,
    FoundBound,
    Replace,
    Submit,
    Update,
    UpdateNode,
    last_life,
)
from algorithm.conformance.installed import installed_name
from algorithm.conformance.results import Report, Result
from algorithm.interface import Phase, SuggestedNodes
from algorithm.model import Pod
from extender.recording.encoding import LineWriter, fields_of_records
from extender.recording.files import open_private
from extender.recording.records import FORMAT, Header
from extender.scheduling.events import (
    Candidate,
    Event,
    FilterRequested,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptRequested,
    Synced,
    Ticked,
)
from extender.scheduling.policy import Policy

#: The time of the first event, seconds since 1970: the same in every log.
_EPOCH = 1_700_000_000.0
#: Seconds between two events, and after which the place of a pod that is not bound has expired.
_STEP = 1.0


def write_log(path: Path, report: Report, result: Result) -> None:
    """Write the calls of a failure to a new file that only its owner can read. Raises OSError."""
    header = Header(
        FORMAT,
        installed_name(report.plugin),
        dict(report.settings),
        _plain(Policy()),
        epoch=_EPOCH,
        fields=fields_of_records(),
        recording=f"conformance-{result.check}",
    )
    writer = LineWriter()
    with open_private(path) as file:
        file.write(writer.header(header))
        number = 0
        for number, (at, event) in enumerate(events_of(result.calls), start=1):
            file.write(writer.event(number, at, event, None))
        file.write(writer.end(number))


def events_of(calls: Sequence[Call]) -> Iterator[tuple[float, Event]]:
    """The events that make an engine call an algorithm like this, with their times."""
    pods: dict[str, Pod] = {}
    lease = Policy().lease + Policy().verify
    at = 0.0
    yield at, Synced()
    for call in last_life(calls):
        for event in _events(call, pods):
            at += lease if isinstance(event, Ticked) else _STEP
            yield at, event


def _events(call: Call, pods: dict[str, Pod]) -> Iterator[Event]:
    match call:
        case Faulty(change=change):
            yield from _events(change, pods)
        case AddNode(node=node) | UpdateNode(node=node):
            yield NodeSeen(node)
        case DeleteNode(name=name):
            yield NodeGone(name)
        case Submit(pods=new):
            for pod in new:
                pods[pod.uid] = pod
                yield PodSeen(pod)
        case FoundBound(pod=pod) | Update(pod=pod) | Replace(pod=pod):
            pods[pod.uid] = pod
            yield PodSeen(pod)
        case Delete(uid=uid) if uid in pods:
            gone = pods.pop(uid)
            yield PodGone(gone.namespace, gone.name, gone.uid)
        case Ask(uid=uid, nodes=nodes, phase=phase) if uid in pods:
            if phase is Phase.FILTERING:
                yield FilterRequested(pods[uid], SuggestedNodes(nodes))
            else:
                yield PreemptRequested(pods[uid], tuple(Candidate(name) for name in nodes))
        case Expire():
            yield Ticked()


def _plain(policy: Policy) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    return dict(msgspec.to_builtins(policy))
