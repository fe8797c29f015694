"""`waggle record stats`: what a recording has in it, and what takes the space."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from extender.logs.printable import printable
from extender.operate.look_text import table
from extender.recording.encoding import instructions_of
from extender.recording.lines import size_of
from extender.recording.log import Log, Recording
from extender.recording.records import Gap
from extender.recording.replaying import is_decision
from extender.replay.moments import Span, clock_text, duration_text
from extender.scheduling.commands import Evict
from extender.scheduling.events import (
    BindAnswer,
    FilterAnswer,
    Instruction,
    PreemptAnswer,
    PrioritizeAnswer,
    Reconfigured,
)

#: Pods and nodes that are counted one by one.
_MOST = 5_000_000
#: Characters of a release that are shown.
_RELEASE = 100


class RunStats(msgspec.Struct):
    """One run of a server. Bytes of `kinds` are those of lines before compression."""

    algorithm: str
    release: str
    format: int
    segments: int
    bytes: int
    checkpoints: list[dict[str, int]]
    begins: str = ""
    ends: str = ""
    seconds: float = 0.0
    first: int = 0
    last: int = 0
    pods: int = 0
    nodes: int = 0
    kinds: dict[str, dict[str, int]] = {}
    decisions: dict[str, int] = {}
    #: Answers that are no decisions.
    others: dict[str, int] = {}
    lost: int = 0
    remarks: list[str] = []


def stats_of(log: Log, run: int | None = None) -> list[RunStats]:
    """Return one for each run, or for that of this number. Raises RecordingError or OSError."""
    return [_of_run(recording) for recording in (log.recordings if run is None else [log.run(run)])]


def _of_run(recording: Recording) -> RunStats:
    header = recording.header
    own = {segment.path for segment in recording.segments}
    paths = [(start.number, Path(start.head.path)) for start in recording.starts if start.head is not None]
    made = [{"event": number, "bytes": 0 if path in own else size_of(path)} for number, path in paths]
    found = RunStats(
        header.algorithm,
        header.release,
        header.waggle,
        len(recording.segments),
        sum(size_of(each.path) for each in recording.segments),
        made,
    )
    _count(recording, found)
    found.remarks = list(recording.remarks)
    if header.waggle == 1:
        found.remarks.append("a log of format 1 has no answers: its decisions are not counted")
    if header.masked:
        found.remarks.append(f"masked: {', '.join(header.masked)}")
    return found


def _count(recording: Recording, found: RunStats) -> None:
    events: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    answers: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    pods: set[str] = set()
    nodes: set[str] = set()
    span: Span | None = None
    for item in recording.steps():
        if isinstance(item, Gap):
            found.lost += item.last - item.first + 1
            continue
        if span is None:
            span = Span(item.at, recording.header.epoch)
            found.begins, found.first = clock_text(item.at, span), item.number
        kind = type(item.event).__name__
        events[kind] += 1
        sizes[kind] += item.size
        found.last, found.seconds, found.ends = item.number, round(item.at - span.first, 3), clock_text(item.at, span)
        for instruction in instructions_of(item.said.text) if item.said is not None else ():
            if word := _word(instruction):
                answers[is_decision(instruction)][word] += 1
        _note(pods, getattr(getattr(item.event, "pod", None), "uid", ""))
        _note(nodes, getattr(getattr(item.event, "node", None), "name", ""))
    found.pods, found.nodes = len(pods), len(nodes)
    found.kinds = {kind: {"events": events[kind], "bytes": sizes[kind]} for kind, _ in sizes.most_common()}
    found.others, found.decisions = (dict(each.most_common()) for each in answers)


def _note(known: set[str], name: str) -> None:
    if name and len(known) < _MOST:
        known.add(name)


def _word(item: Instruction) -> str:
    """What was answered or decided, in the words of the tables; "" for all else."""
    match item:
        case FilterAnswer(pass_through=True):
            return "filter: not managed"
        case FilterAnswer(node=str()):
            return "filter: placed"
        case FilterAnswer():
            return f"filter: refused, {item.reason.code if item.reason else 'by node'}"
        case PreemptAnswer(pass_through=True):
            return "preempt: not managed"
        case PreemptAnswer():
            return "preempt: victims named" if item.candidates else "preempt: nobody"
        case PrioritizeAnswer():
            return "prioritize"
        case BindAnswer():
            return f"bind: refused, {item.error.code}" if item.error else "bind: done"
        case Evict(dry_run=False):
            return "evicted"
        case Reconfigured():
            return "settings: refused" if item.refused else "settings: in use"
    return ""


def as_text(run: RunStats) -> str:
    """Return a run as people read it."""
    decisions = sum(run.decisions.values())
    lines = [
        printable(f"{run.algorithm}, recorded in format {run.format}")
        + (printable(f" by release {run.release}", _RELEASE) if run.release else ""),
        f"{run.last - run.first + 1 if run.first else 0:,} events (#{run.first} to #{run.last}) in "
        f"{duration_text(run.seconds)}, from {run.begins} to {run.ends}",
        *([f"{decisions:,} decision{'' if decisions == 1 else 's'}"] if run.format > 1 else []),
        f"{run.pods:,} pods, {run.nodes:,} nodes seen",
        f"{run.bytes:,} bytes in {run.segments} segment{'' if run.segments == 1 else 's'}",
    ]
    for each in run.checkpoints:
        lines.append(f"{each['bytes']:,} bytes of a checkpoint after event #{each['event']}")
    if run.lost:
        lines.append(f"{run.lost:,} events are missing")
    whole = sum(each["bytes"] for each in run.kinds.values()) or 1
    kinds = [
        (kind, f"{each['events']:,}", f"{each['bytes']:,}", f"{100 * each['bytes'] / whole:.1f} %")
        for kind, each in run.kinds.items()
    ]
    lines += ["", table([("EVENT", "NUMBER", "BYTES", "SHARE"), *kinds])]
    for title, answers in (("DECISION", run.decisions), ("OTHER ANSWER", run.others)):
        if answers:
            rows = [(what, f"{count:,}") for what, count in answers.items()]
            lines += ["", table([(title, "NUMBER"), *rows])]
    return "\n".join([*lines, *map(printable, run.remarks)])


def as_json(runs: list[RunStats]) -> Any:
    return msgspec.to_builtins(runs)
