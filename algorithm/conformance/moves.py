"""What may happen to a cluster in one go: short sequences of calls, from which the rules of `machine.py` are made."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from algorithm.conformance.calls import (
    Allocate,
    Ask,
    Call,
    Delete,
    Faulty,
    Linger,
    Protect,
    StartPreempting,
    Submit,
)
from algorithm.conformance.judges.answers import victims_of
from algorithm.conformance.life import Life
from algorithm.conformance.unreadable_records import ANY
from algorithm.conformance.world import World
from algorithm.interface import Phase, Preempt
from algorithm.model import Pod, pairs

UNKNOWN_NODE = "never-seen"
#: Plans that are asked for one after the other, while their victims cannot be evicted.
_MOST_PLANS = 4
#: How often pods are drawn until several come together.
_MOST_DRAWN = 3

#: The field that raises, and at which reading (`Faulty`); None: none does.
Fault = tuple[str, int] | None


def faults(fields: tuple[str, ...]) -> st.SearchStrategy[Fault]:
    """Half of the changes are made to raise, most of them at each of the first readings in turn."""
    some: list[Fault] = [*[(ANY, 0)] * 6, *((field, 1) for field in fields)]
    return st.sampled_from([None] * len(some) + some)


class Moves(RuleBasedStateMachine):
    """The base of the state machine: it has no rules."""

    def __init__(self, world: World, life: Life) -> None:
        super().__init__()
        self.world, self.life = world, life
        self.made = 0

    def do(self, *calls: Call) -> None:
        for call in calls:
            self.life.perform(call)

    def pick(self, records: Any, pick: int) -> Any:
        """One of them; which one does not depend on the order in which they came."""
        names = sorted(records)
        return names[pick % len(names)] if names else None

    def offer(self, pick: int) -> tuple[str, ...]:
        """Every node, or all but some; now and then one that was never there, or one that has just gone."""
        names = sorted(self.life.nodes)
        if pick % 4 == 0:
            names = [name for at, name in enumerate(names) if not pick >> 4 & 1 << at] or names
        if pick % 8 == 1:
            names.append(UNKNOWN_NODE)
        if pick % 8 in (2, 3):
            names += [name for name in self.world.node_names if name not in self.life.nodes][:1]
        return tuple(names[pick % len(names) :] + names[: pick % len(names)]) if names else ()

    def busy_nodes(self) -> set[str]:
        """The nodes on which pods run, or are to run."""
        return {pod.node_name for pod in self.life.allocated.values()} & self.life.nodes.keys()

    def faulty(self, change: Any, fault: Fault) -> Any:
        return change if fault is None else Faulty(change, *fault)

    def changed(self, known: Pod, like: Pod, pick: int) -> Pod:
        """The pod with the labels and the resources of another one, and now and then with its annotations.

        An author may change these at any time. What a binding has written stays.
        """
        decisions = self.life.reads.decisions
        new = msgspec.structs.replace(known, labels=like.labels, requests=like.requests, limits=like.limits)
        if pick % 2 or not self.world.authors_annotate:
            return new
        written = {name: text for name, text in known.annotations if name not in (self.life.reads.wishes or decisions)}
        wishes = {name: text for name, text in like.annotations if name not in decisions}
        return msgspec.structs.replace(new, annotations=pairs({**written, **wishes}))

    def new_pods(self, data: st.DataObject) -> tuple[Pod, ...]:
        self.made += 1
        return data.draw(self.world.pods(self.made))

    def new_gang(self, data: st.DataObject) -> tuple[Pod, ...]:
        """Pods that come together, if the world has such."""
        for _ in range(_MOST_DRAWN):
            if len(pods := self.new_pods(data)) > 1:
                break
        return pods

    def fill(self, data: st.DataObject, offer: tuple[str, ...], times: int) -> None:
        """Place new pods of low priority on these nodes, until some of them wait."""
        for _ in range(times):
            pods = tuple(msgspec.structs.replace(pod, priority=0) for pod in self.new_pods(data))
            self.do(Submit(pods))
            for pod in pods:
                self.do(Ask(pod.uid, offer, Phase.FILTERING), Allocate(pod.uid))
            if any(pod.uid in self.life.waiting for pod in pods):
                break

    def asked_as_usual(self, uid: str, offer: tuple[str, ...], pick: int) -> None:
        """As kube-scheduler does: a pod that is refused is asked about again, for whom to evict."""
        fault = (ANY, 0) if pick >> 4 & 7 == 1 else None
        self.do(Ask(uid, offer, Phase.FILTERING), self.faulty(Allocate(uid), fault))
        if uid in self.life.waiting and pick % 3:
            phase = Phase.EVICTING if pick % 2 else Phase.PREEMPTING
            self.preempts(uid, offer, phase, goes_on=bool(pick % 5 % 2))

    def preempts(self, uid: str, offer: tuple[str, ...], phase: Phase, *, goes_on: bool) -> None:
        self.do(Ask(uid, offer, phase))
        if isinstance(self.life.answers.get(uid), Preempt):
            self.do(StartPreempting(uid))
            if goes_on:
                self.victims_go(uid)

    def asked_for_others(self, uid: str, offer: tuple[str, ...], spare: type[Protect] | type[Linger]) -> None:
        """As the extender does when an eviction is refused or comes to nothing: it asks for another plan.

        Protected pods become more, until there is no plan. Others linger each time: a new set replaces the old one. Of
        a plan for a gang, the victims of the others come first: then there is still room for the pod itself.
        """
        ask = Ask(uid, offer, Phase.EVICTING)
        self.do(ask)
        spared: set[str] = set()
        for _ in range(_MOST_PLANS):
            answer = self.life.answers.get(uid)
            named = {victim.uid for victim in victims_of(answer)}
            if not named:
                return
            plans = answer.gang_members if isinstance(answer, Preempt) else ()
            named = {victim.uid for plan in plans for victim in plan.victims} - spared or named
            spared = named | (spared if spare is Protect else set())
            self.do(spare(tuple(sorted(spared))), ask)

    def victims_go(self, uid: str) -> None:
        self.do(*(Delete(victim.uid) for victim in self.life.preempting.get(uid, ())))
        if self.life.nodes:
            self.do(Ask(uid, tuple(sorted(self.life.nodes)), Phase.FILTERING), Allocate(uid))

    def some_allocated(self, pick: int) -> tuple[str, ...]:
        """None of them, or a few, at least one."""
        uids = sorted(self.life.allocated) if pick % 3 else []
        first = pick // 3 % len(uids) if uids else 0
        return tuple(uid for at, uid in enumerate(uids) if at == first or (pick >> at % 12 & 3) == 1)
