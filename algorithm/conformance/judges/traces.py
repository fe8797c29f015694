"""Judges of what questions leave behind, and of answers that change although nothing has changed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from algorithm.conformance.calls import Ask, Call, Replace, SetTime
from algorithm.conformance.guard import Guarded
from algorithm.conformance.judge import Judge, PeriodicJudge, promise
from algorithm.conformance.observation import (
    Observation,
    Refused,
    answers,
    asked,
    difference,
    kinds,
    look_around,
    numbers,
    observe,
    standing,
    told,
)
from algorithm.interface import GangInfo, Phase, PodRefused, Preempt, Wait
from algorithm.model import Pod
from algorithm.reasons import Reason


class LeavesNoTrace(Judge):
    """Compares with twins that were asked nothing: they were told the same changes."""

    name = "schedule-leaves-no-trace"
    every = 5

    def before(self, call: Call) -> None:
        if isinstance(call, Ask) and self.life.look != "end":
            self._before = numbers(self.life.algorithm)

    def after(self, call: Call, answer: Any) -> None:
        if not isinstance(call, Ask) or self.life.look == "end":
            return
        pod = self.life.waiting[call.uid]
        changed = difference(self._before, numbers(self.life.algorithm))
        promise(not changed, f"schedule({pod.key}, {call.phase.value}) leaves a trace. {changed}")
        if self.is_due():
            self._compare(f"schedule was asked about {pod.key}")

    def end(self) -> None:
        self._compare("schedule was asked")

    def _compare(self, since: str) -> None:
        changed = changed_since_twin(self.life)
        promise(not changed, f"{since}, and that left a trace. It now answers {changed}")


def comparable(life: Life, algorithm: Guarded) -> Observation:
    """What two instances can be compared by.

    With a declared history, which of two equal places is taken may differ, and so may pages and numbers. Then answers
    count by their kinds: those to offers of all nodes of the world, when all of these are there and well.
    """
    if not life.history:
        return observe(life, algorithm)
    found = standing(algorithm, life.allocated)
    if not _are_all_well(life):
        return found
    return {**found, **kinds(answers(algorithm, life.waiting, tuple(sorted(life.nodes)), halves=False))}


def _are_all_well(life: Life) -> bool:
    well = {name for name, node in life.nodes.items() if node.takes_pods}
    return well == life.nodes.keys() | set(life.node_names)


def changed_since_twin(life: Life) -> str:
    """What differs from a twin that was told the same and asked nothing; "" if nothing, or if two twins differ, too."""
    now, twin = comparable(life, life.algorithm), comparable(life, life.algorithm.twin())
    changed = difference(twin, now)
    return changed if changed and not difference(twin, comparable(life, life.algorithm.twin())) else ""


def changed_by(life: Life, act: Callable[[], object]) -> str:
    """What an act changes in what the algorithm answers; "" if nothing, or if its answers move by themselves, which
    other checks say."""
    if life.history:
        observe(life)  # which of two equal places is taken then is as the questions of the next look find it
    before: Observation = observe(life)
    act()
    after = observe(life)
    changed = difference(before, after)
    return "" if changed and difference(after, observe(life)) else changed


class SameAnswer(Judge):
    name = "same-question-same-answer"
    every = 5

    def after(self, call: Call, answer: Any) -> None:
        if not isinstance(call, Ask):
            return
        pod = self.life.waiting[call.uid]
        first = Refused(answer.reason) if isinstance(answer, PodRefused) else answer
        if self.life.look == "end":
            return
        again = asked(self.life.algorithm, pod, call.nodes, call.phase)
        same = isinstance(answer, Exception) or again == first
        promise(same, f"schedule({pod.key}, {call.phase.value}) answers {told(again)}, after {told(first)}")
        if self.is_due():
            seen = [answers(self.life.algorithm.twin(), self.life.waiting, call.nodes) for _ in range(2)]
            differs = difference(*seen)
            promise(not differs, f"two instances were told the same, and answer differently. {differs}")


class NodeOrder(Judge):
    name = "node-order-decides-nothing"

    def after(self, call: Call, answer: Any) -> None:
        if not isinstance(call, Ask) or isinstance(answer, Exception):
            return
        pod = self.life.waiting[call.uid]
        orders = {tuple(sorted(call.nodes)), tuple(sorted(call.nodes, reverse=True)), call.nodes[1:] + call.nodes[:1]}
        seen = [(order, asked(self.life.algorithm, pod, order, call.phase)) for order in sorted(orders)]
        for (one, this), (other, that) in pairwise(seen):
            of = f"schedule({pod.key}, {call.phase.value})"
            promise(
                this == that, f"{of} answers {told(this)} for {', '.join(one)}, and {told(that)} for {', '.join(other)}"
            )


if TYPE_CHECKING:
    from algorithm.conformance.life import Life

#: What no reason should contain: the address of an object, a time.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b| object at ")
_TIME = re.compile(r"\b\d{1,2}:\d{2}:\d{2}\b|\b1[5-9]\d{8}(?:\.\d+)?\b")
#: A number that is no part of a name.
_NUMBER = re.compile(r"(?<![\w/.:-])\d+(?:\.\d+)?(?![\w/-]|:\w)")


class ReasonsDoNotMove(Judge):
    """Remembers the texts that each waiting pod got. Two texts that differ only in numbers have a number that moves."""

    name = "reasons-do-not-move"
    every = 3

    def __init__(self, life: Any) -> None:
        super().__init__(life)
        self._texts: dict[tuple[str, Phase, str, frozenset[Any]], str] = {}
        #: The last refusals, with what their `nodes` said when they were returned.
        self._returned: deque[tuple[Wait, dict[str, Reason]]] = deque(maxlen=4)

    def after(self, call: Call, answer: Any) -> None:
        for wait, before in self._returned:
            promise(dict(wait.nodes) == before, f"Wait.nodes has changed after it was returned: {told(wait)}")
        if isinstance(call, Replace):
            self._texts = {key: text for key, text in self._texts.items() if key[0] != call.pod.uid}
        if isinstance(call, Ask):
            self._judge(call.uid, call.phase, call.nodes, answer)
        if self.is_due() and self.life.nodes:
            nodes = tuple(sorted(self.life.nodes))
            for uid, pod in sorted(self.life.waiting.items())[:4]:
                self._judge(uid, Phase.FILTERING, nodes, asked(self.life.algorithm, pod, nodes, Phase.FILTERING))

    def _judge(self, uid: str, phase: Phase, nodes: tuple[str, ...], answer: Any) -> None:
        pod = self.life.waiting[uid]
        if isinstance(answer, Wait) and isinstance(answer.nodes, Mapping):
            self._returned.append((answer, dict(answer.nodes)))
        declared = self._declared_by_its_gang(pod)
        for about, why in _reasons(answer):
            found = _ADDRESS.search(why.text) or _TIME.search(why.text)
            promise(found is None, f"the reason of {pod.key} has an address or a time in it: {why.text!r}")
            key = (uid, phase, f"{about} {why.code.value}", declared)
            text = self._without_names(why.text)
            before = self._texts.setdefault(key, text)
            moved = before != text and _NUMBER.sub("#", before) == _NUMBER.sub("#", text)
            promise(not moved, f"a number in the reason of {pod.key} moves: {text!r}, after {before!r}")

    def _declared_by_its_gang(self, pod: Pod) -> frozenset[Any]:
        """The annotations of all members: a member that declares another minimum, say, may change the text."""
        gang = self._gang_of(pod)
        if gang is None:
            return frozenset()
        there = [self.life.seen[uid] for uid in sorted({*self.life.waiting, *self.life.allocated})]
        return frozenset(each.annotations for each in there if self._gang_of(each) == gang)

    def _gang_of(self, pod: Pod) -> str | None:
        try:
            gang = self.life.algorithm.gang(pod)
        except Exception:
            return None  # `gang-sound` says so
        return gang.name if isinstance(gang, GangInfo) else None

    def _without_names(self, text: str) -> str:
        names = {*self.life.nodes, *(pod.name for pod in self.life.seen.values()), *self.life.seen}
        names |= {pod.group for pod in self.life.seen.values()} | {
            pod.node_name for pod in self.life.allocated.values()
        }
        names |= {value for pod in self.life.seen.values() for _, value in pod.annotations if len(value) > 1}
        for name in sorted(names - {""}, key=lambda name: (-len(name), name)):
            if any(map(str.isdigit, name)):
                text = text.replace(name, "*")
        return re.sub(r"\*(?:, \*)+", "*", text)


def _reasons(answer: Any) -> list[tuple[str, Reason]]:
    match answer:
        case Wait(reason=Reason() as why, nodes=nodes):
            return [("", why), *((name, each) for name, each in nodes.items() if isinstance(each, Reason))]
        case Preempt(reason=Reason() as why) | Refused(reason=Reason() as why):
            return [("", why)]
        case PodRefused():
            return [("", answer.reason)]
        case _:
            return []


class SetTimeDecidesNothing(PeriodicJudge):
    name = "set-time-decides-nothing"
    every = 6

    def look(self) -> None:
        nodes = tuple(sorted(self.life.nodes))
        seen = [answers(self._told(step), self.life.waiting, nodes) for step in (None, 1.0, 86_400.0 * 400)]
        for other in seen[1:]:
            differs = difference(seen[0], other)
            promise(not differs, f"the time decides: with set_time, {differs}")

    def _told(self, step: float | None) -> Guarded:
        """A twin that was told no time, or one that grows by so many seconds at each change."""
        clock = [1_700_000_000.0]

        def edit(name: str, args: tuple[Any, ...]) -> list[tuple[str, tuple[Any, ...]]]:
            if name == "set_time":
                return []
            clock[0] += step or 0
            return [*([("set_time", (clock[0],))] if step is not None and name != "schedule" else []), (name, args)]

        return self.life.algorithm.twin(edit)


class QuestionsChangeNothing(PeriodicJudge):
    """The questions of people: pages, explanations, numbers, scores, copies."""

    name = "questions-change-nothing"
    every = 6
    not_after = (SetTime,)

    def look(self) -> None:
        changed = changed_by(self.life, lambda: look_around(self.life))
        promise(not changed, f"a page, an explanation, a number, a score or a copy left a trace. {changed}")
