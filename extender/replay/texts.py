"""Events and what they cause as texts of one line each, for people who step through a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from algorithm.model import Pod
from algorithm.reasons import Reason
from extender.core.outcomes import Outcome
from extender.scheduling.commands import (
    BindFinished,
    Evict,
    EvictFinished,
    PodRead,
    PreemptionRecorded,
    ReadPod,
    RecordEvent,
    RecordPreemption,
    RequeuePod,
    WriteBinding,
)
from extender.scheduling.events import (
    BindAnswer,
    BindRequested,
    DependenciesChanged,
    DependenciesForgotten,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    PrioritizeAnswer,
    PrioritizeRequested,
    Reconfigured,
    ReconfigureRequested,
)
from extender.scheduling.machine import SchedulerStateMachine

#: Characters of one text, and victims that are named.
LONGEST: Final = 400
_VICTIMS: Final = 5


def event_text(event: Event, machine: SchedulerStateMachine) -> str:
    """Return what happened. Call it before `machine` handles the event: reports name pods by the tokens of holds."""
    match event:
        case FilterRequested() | PrioritizeRequested():
            verb = "filter" if isinstance(event, FilterRequested) else "prioritize"
            return f"{verb} {event.pod.key}, {_count(len(event.nodes), 'node')} offered"
        case PreemptRequested():
            return f"preempt {event.pod.key}, {_count(len(event.candidates), 'candidate')}"
        case BindRequested():
            return f"bind {event.key} to {event.node}"
        case PodSeen():
            return f"pod {event.pod.key} seen: {_condition(event.pod)}"
        case PodGone():
            return f"pod {event.key} gone"
        case NodeSeen():
            ready = "ready" if event.node.ready else "not ready"
            return f"node {event.node.name} seen: {ready}{', cordoned' if event.node.unschedulable else ''}"
        case NodeGone():
            return f"node {event.name} gone"
        case BindFinished() | PodRead():
            what = "binding of" if isinstance(event, BindFinished) else "live read of"
            return f"report: {what} {_holder(event, machine)}: {_outcome(event.outcome)}"
        case EvictFinished() | PreemptionRecorded():
            what = "eviction of" if isinstance(event, EvictFinished) else "preemption noted on"
            return f"report: {what} {_by_uid(event.uid, machine)}: {_outcome(event.outcome)}"
        case DependenciesChanged():
            why = "waits for nothing" if event.reason is None else event.reason.text
            return f"start-up ordering: {_by_uid(event.uid, machine)}: {why}"
        case DependenciesForgotten():
            return f"start-up ordering: {_by_uid(event.uid, machine)}: bound or gone, so it has no more to say"
        case ReconfigureRequested():
            return f"other settings requested for {event.algorithm}"
    return type(event).__name__


def decision_text(instruction: Instruction) -> str:
    """Return a decision with its reason; "" if the instruction is none."""
    match instruction:
        case FilterAnswer(pass_through=True) | PreemptAnswer(pass_through=True):
            return ""
        case FilterAnswer(node=str(node)):
            return f"placed on {node}"
        case FilterAnswer():
            return f"refused: {_refusal(instruction)}"
        case PreemptAnswer():
            chosen = ", ".join(f"{len(each.victims)} on {each.node}" for each in instruction.candidates[:_VICTIMS])
            why = f": {_reason(instruction.reason)}" if instruction.reason is not None else ""
            return f"may evict {chosen}{why}" if chosen else f"evicts nobody{why}"
        case BindAnswer(error=error) if error is not None:
            return f"bind refused: {_reason(error)}"
        case Evict(dry_run=False):
            return f"evicts {instruction.namespace}/{instruction.name} for {instruction.preemptor}"
        case Reconfigured():
            return f"settings refused: {instruction.refused}" if instruction.refused else "other settings are in use"
    return ""


def effect_text(instruction: Instruction) -> str:
    """Return what is done that is no decision of its own; "" if it is one, or nothing for people."""
    match instruction:
        case FilterAnswer(pass_through=True) | PreemptAnswer(pass_through=True):
            return "not managed: passed through"
        case PrioritizeAnswer():
            best = sorted(instruction.scores.items(), key=lambda item: (-item[1], item[0]))[:_VICTIMS]
            return "scores: " + (", ".join(f"{name} {score}" for name, score in best) or "none")
        case BindAnswer(error=None):
            return "bind answered: done"
        case WriteBinding():
            return f"writes the binding of {instruction.namespace}/{instruction.name} to {instruction.node}"
        case ReadPod():
            return f"reads {instruction.namespace}/{instruction.name}"
        case RecordPreemption():
            return f"notes the preemption on {instruction.namespace}/{instruction.name}"
        case RequeuePod():
            return f"makes kube-scheduler try {instruction.namespace}/{instruction.name} again"
        case RecordEvent():
            return f"Event on {instruction.namespace}/{instruction.name}: {instruction.reason.code}"
        case Evict(dry_run=True):
            return f"asks whether {instruction.namespace}/{instruction.name} may be evicted"
    return ""


def cut(text: str) -> str:
    """Return a text of one line, not longer than LONGEST."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _reason(reason: Reason) -> str:
    try:
        return f"{reason.code}: {reason.text}"
    except KeyError:
        # Another release, or somebody's hand, wrote it, with other parameters than this program's sentence has.
        return f"{reason.code}: {', '.join(f'{name}={value}' for name, value in reason.params)}"


def _refusal(answer: FilterAnswer) -> str:
    if answer.reason is not None:
        return _reason(answer.reason)
    counted: dict[str, int] = {}
    for why in answer.nodes.values():
        text = _reason(why)
        counted[text] = counted.get(text, 0) + 1
    common = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    more = f", and {_count(len(common) - 1, 'other reason')}" if len(common) > 1 else ""
    return f"{common[0][0]} ({_count(common[0][1], 'node')}){more}" if common else "no node was offered"


def _condition(pod: Pod) -> str:
    parts = [pod.phase]
    parts += [f"on {pod.node_name}"] if pod.node_name else []
    parts += ["terminating"] if pod.terminating else []
    parts += ["gated"] if pod.gated else []
    return ", ".join(parts)


def _holder(event: BindFinished | PodRead, machine: SchedulerStateMachine) -> str:
    if isinstance(event, PodRead) and event.pod is not None:
        return str(event.pod.key)
    found = machine.state.pods.holding(event.token)
    return str(found.key) if found is not None else f"a pod that has no hold any more (token {event.token})"


def _by_uid(uid: str, machine: SchedulerStateMachine) -> str:
    found = machine.state.pods.get(uid)
    return str(found.key) if found is not None else f"a pod that has gone ({uid})"


def _outcome(outcome: Outcome) -> str:
    return f"{outcome.kind.value} {outcome.detail}".rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def decisions(instructions: Sequence[Instruction]) -> list[str]:
    """Return the texts of the decisions among these."""
    return [cut(text) for each in instructions if (text := decision_text(each))]
