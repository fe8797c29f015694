"""`waggle record show`: the events of a recording, one a line, with what was decided; as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from algorithm.interface import SuggestedNodes
from algorithm.model import PodKey
from extender.operate.record_range import Range
from extender.recording.encoding import instructions_of
from extender.recording.log import Recording
from extender.recording.records import Gap, Step
from extender.replay.moments import Span, clock_text
from extender.replay.texts import cut, decision_text, effect_text, event_text
from extender.scheduling.commands import Evict, ReadPod, RecordPreemption, WriteBinding
from extender.scheduling.events import Candidate, Event, Instruction, PodGone, PodSeen, PreemptAnswer

if TYPE_CHECKING:
    from extender.scheduling.machine import SchedulerStateMachine

#: Pods by UID and token that are remembered, to name them in reports.
_MOST = 200_000
_NO_ANSWER = "(no answer recorded)"


class _Named(NamedTuple):
    """As much of a pod's record as texts need."""

    key: PodKey


class _Pods:
    """The pods that reports refer to by UID or token, as far as the log has named them."""

    def __init__(self) -> None:
        self._by_uid: dict[str, PodKey] = {}
        self._by_token: dict[int, PodKey] = {}

    def hear(self, event: Event) -> None:
        pod = getattr(event, "pod", None)
        if pod is not None:
            _remember(self._by_uid, pod.uid, pod.key)

    def say(self, instructions: list[Instruction]) -> None:
        for item in instructions:
            if isinstance(item, WriteBinding | ReadPod):
                _remember(self._by_token, item.token, PodKey(item.namespace, item.name))
            elif isinstance(item, Evict | RecordPreemption):
                _remember(self._by_uid, item.uid, PodKey(item.namespace, item.name))

    def get(self, uid: str) -> _Named | None:
        key = self._by_uid.get(uid)
        return None if key is None else _Named(key)

    def holding(self, token: int) -> _Named | None:
        key = self._by_token.get(token)
        return None if key is None else _Named(key)


class _State(NamedTuple):
    pods: _Pods


class _Known(NamedTuple):
    """Stands for the engine where `event_text` asks it for names: a log can be shown without a replay."""

    state: _State


def _remember(known: dict[Any, PodKey], key: Any, value: PodKey) -> None:
    if len(known) >= _MOST:
        del known[next(iter(known))]
    known[key] = value


def show(
    recording: Recording, wanted: Range, span: Span, *, pod: PodKey | None, decisions: bool, as_json: bool
) -> Iterator[str]:
    """Yield the lines. `pod`: only events that concern it. `decisions`: only events with a decision."""
    pods = _Pods()
    engine = cast("SchedulerStateMachine", _Known(_State(pods)))
    for item in recording.steps():
        if isinstance(item, Gap):
            yield json.dumps({"gap": list(item)}) if as_json else f"-- events {item.first} to {item.last}: {item.why}"
            continue
        if wanted.is_after(item):
            return
        said = instructions_of(item.said.text) if item.said is not None else []
        pods.hear(item.event)
        if not wanted.is_before(item) and (pod is None or _concerns(item.event, said, pod, pods)):
            texts = [cut(text) for each in said if (text := decision_text(each))]
            if texts or not decisions:
                yield _as_json(item, span) if as_json else _as_text(item, said, texts, span, engine)
        pods.say(said)


def _as_text(step: Step, said: list[Instruction], decided: list[str], span: Span, engine: SchedulerStateMachine) -> str:
    effects = [cut(text) for each in said if (text := effect_text(each))]
    lines = [f"{clock_text(step.at, span)}  #{step.number}  {cut(event_text(step.event, engine))}"]
    if step.said is None:
        effects.append(_NO_ANSWER)
    elif step.said.failed:
        decided = [f"the engine failed: {cut(step.said.failed)}"]
    return "\n".join([*lines, *(f"    -> {text}" for text in decided), *(f"       {text}" for text in effects)])


def _as_json(step: Step, span: Span) -> str:
    """One line as `jq` reads it: names of nodes in full, times as people write them."""
    line: dict[str, Any] = {"number": step.number, "time": clock_text(step.at, span), "at": step.at}
    line |= {"event": type(step.event).__name__, "data": step.event}
    if step.said is not None:
        line["out"] = msgspec.Raw(step.said.text)
        line |= {"failed": step.said.failed} if step.said.failed else {}
        line |= {"digest": step.said.digest} if step.said.digest else {}
    return msgspec.json.encode(line, enc_hook=_plain).decode()


def _plain(value: object) -> object:
    if isinstance(value, SuggestedNodes):
        return list(value)
    raise NotImplementedError(type(value).__name__)


def _concerns(event: Event, said: list[Instruction], key: PodKey, pods: _Pods) -> bool:
    """Whether the event is about this pod, or something was done with it."""
    about = getattr(event, "pod", event)
    if (getattr(about, "namespace", None), getattr(about, "name", None)) == key:
        return True
    victims = [each for item in said if isinstance(item, PreemptAnswer) for each in item.candidates]
    if any(_names(each, key, pods) for each in victims):
        return True
    if isinstance(event, PodSeen | PodGone):
        return any((getattr(item, "namespace", ""), getattr(item, "name", "")) == key for item in said)
    for found in (pods.get(getattr(event, "uid", "")), pods.holding(getattr(event, "token", 0))):
        if found is not None and found.key == key:
            return True
    return any((getattr(item, "namespace", ""), getattr(item, "name", "")) == key for item in said)


def _names(candidate: Candidate, key: PodKey, pods: _Pods) -> bool:
    return any(found is not None and found.key == key for found in map(pods.get, candidate.victims))
