"""Random programs for the dependency engine, and what docs/fixpoint.md says becomes of them.

A program has bodies that arrive from each other, wait in phases, fail, raise, end without being ready, or block
wrongly; and data, of which some are gone when the engine first rests.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from extender.fixpoint import Blocked, Done, Engine, Executor, Inline, Need, Report, Status, Visit, Want
from extender.fixpoint.records import Outcome
from tests.support.fixpoint import Shuffled

Fate = tuple[str, str]


class Act(Enum):
    """What a body does when its needs are met; the value is how it then ends."""

    SUCCEED = ("ready", "")
    FAIL = ("failed", "Failed")
    RAISE = ("failed", "Raised")
    NEVER_READY = ("pending", "")
    NAMES_NOTHING = ("failed", "NoBlocker")
    BLOCKS_ON_MET = ("failed", "Stuck")


@dataclass
class Node:
    """`phases`: what it waits for, one after the other; what it reports after each. A plain body has one phase."""

    act: Act
    awaits: bool
    phases: list[tuple[tuple[Need[str], ...], tuple[str, ...]]]


@dataclass
class Program:
    nodes: dict[str, Node]
    seeds: list[str]
    data: list[str]
    gone: list[str]


def draw(seed: int) -> Program:
    """The program of this seed."""
    some = random.Random(seed)
    names = [f"n{number:02}" for number in range(some.randint(2, 14))]
    data = [f"d{number}" for number in range(some.randint(1, 4))]
    loops = some.choice((0.0, 0.1, 0.4))
    acts = [Act.SUCCEED] * some.choice((5, 20)) + list(Act)
    nodes = {}
    for place, name in enumerate(names):
        act = some.choice(acts)
        # A coroutine that returns `Blocked` starts over, which has other ends.
        awaits = some.random() < 0.4 and act is not Act.BLOCKS_ON_MET
        phases = [
            (_needs(some, names, place, data, loops), tuple(some.sample(names, some.choice((0, 0, 1, 2)))))
            for _ in range(some.choice((1, 2, 3)) if awaits else 1)
        ]
        nodes[name] = Node(act, awaits, phases)
    seeds = some.sample(names, some.randint(1, len(names)))
    return Program(nodes, seeds, data, [each for each in data if some.random() < 0.3])


def _needs(some: random.Random, names: list[str], place: int, data: list[str], loops: float) -> tuple[Need[str], ...]:
    found = {}
    for _ in range(some.choice((0, 0, 1, 1, 2, 3))):
        chance = some.random()
        if chance < loops:
            name = some.choice(names)
        elif chance < 0.6 and place:
            name = names[some.randrange(place)]
        else:
            name = some.choice([*data, *data, "ghost"])
        want = some.choice((Want.READY, Want.READY, Want.EXISTS))
        found[name] = Need(name, want, optional=some.random() < 0.35)
    return tuple(found.values())


# -- the engine ----------------------------------------------------------------------------------------------------


def run(program: Program, workers: int = 1, seed: int = 0, executor: Executor | None = None) -> Report[str]:
    """What the engine makes of it. More than one worker is simulated, unless an executor is given."""
    shuffled = Shuffled(workers, seed) if workers > 1 and executor is None else None
    gone = list(program.gone)

    def gap() -> None:
        if shuffled is not None:
            shuffled.interrupt()

    def report(visit: Visit[str], emits: Iterable[str]) -> None:
        for each in emits:
            gap()
            visit.arrive(each, "same")
        gap()

    async def waiting(visit: Visit[str], node: Node) -> Outcome[str]:
        for needs, emits in node.phases:
            await visit.need(*needs)
            report(visit, emits)
        return _act(node.act)

    def body(visit: Visit[str]) -> Outcome[str] | Awaitable[Outcome[str] | None] | None:
        node = program.nodes[visit.id]
        if node.awaits:
            return waiting(visit, node)
        ((needs, emits),) = node.phases
        blocked = visit.gate(needs)
        gap()
        if blocked is not None:
            return blocked
        report(visit, emits)
        return _act(node.act)

    def rest() -> bool:
        news = bool(gone)
        while gone:
            engine.gone(gone.pop())
        return news

    engine = Engine(body, executor=executor or shuffled or Inline(), at_rest=rest)
    for each in (*program.data, "always"):
        engine.arrive(each, "same", runnable=False)
    for each in program.seeds:
        engine.arrive(each, "same")
    return engine.run(())


def _act(act: Act) -> Outcome[str]:
    if act is Act.RAISE:
        raise ValueError("as it was told")
    if act is Act.NAMES_NOTHING:
        return Blocked(())
    if act is Act.BLOCKS_ON_MET:
        return Blocked((Need("always"),))
    if act is Act.FAIL:
        return Done.failed("as it was told")
    return Done(Status.PENDING) if act is Act.NEVER_READY else Done()


def fates(report: Report[str]) -> dict[str, Fate]:
    """How each node ended, and the code of its reason."""
    return {each.id: (each.end.value, each.reason.code.value if each.reason else "") for each in report.nodes}


# -- the oracle ----------------------------------------------------------------------------------------------------


@dataclass
class Oracle:
    """Looks at everything again after each step. One node after the other: the order must not matter."""

    program: Program
    exists: set[str] = field(default_factory=set)
    ends: dict[str, Fate] = field(default_factory=dict)
    phase: dict[str, int] = field(default_factory=dict)
    waived: set[tuple[str, str]] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def fates(self) -> dict[str, Fate]:
        self.exists = {*self.program.data, *self.program.seeds, "always"}
        self._run()
        self.exists -= set(self.program.gone)
        self._forget(self.program.gone)
        self._run()
        while self._decide():
            self._run()
        return self.ends

    def _open(self) -> Iterator[str]:
        return (name for name in sorted(self.exists & self.program.nodes.keys()) if name not in self.ends)

    def _needs(self, name: str) -> tuple[Need[str], ...]:
        return self.program.nodes[name].phases[self.phase.get(name, 0)][0]

    def _is_met(self, name: str, need: Need[str]) -> bool:
        if need.optional and (name, need.id) in self.waived:
            return True
        if need.id not in self.exists:
            return False
        data = need.id not in self.program.nodes
        return need.want is Want.EXISTS or data or self.ends.get(need.id) == Act.SUCCEED.value

    def _has_failed(self, need: Need[str]) -> bool:
        return need.want is Want.READY and need.id in self.exists and self.ends.get(need.id, ("",))[0] == "failed"

    def _unmet(self, name: str) -> list[Need[str]]:
        return [need for need in self._needs(name) if not self._is_met(name, need)]

    def _run(self) -> None:
        while sum(self._step(name) for name in list(self._open())):
            pass

    def _step(self, name: str) -> bool:
        unmet, node = self._unmet(name), self.program.nodes[name]
        if unmet:
            if all(map(self._has_failed, unmet)):
                self._end(name, ("failed", "DependencyFailed"))
                return True
            return False
        at = self.phase.get(name, 0)
        self.exists |= set(node.phases[at][1])
        if at + 1 < len(node.phases):
            self.phase[name] = at + 1
        elif self._relied_on(name, self.gone):
            self.phase.pop(name)
        else:
            self._end(name, node.act.value)
        return True

    def _end(self, name: str, fate: Fate) -> None:
        self.ends[name] = fate
        if fate[0] == "failed":
            self._forget([name])

    def _forget(self, lost: Iterable[str]) -> None:
        """Nodes that relied on what is lost, and have not failed, look again; so do those that relied on them. Nodes
        that still wait do so at their end."""
        now = set(lost)
        while now:
            self.gone |= now
            found = {name for name, end in self.ends.items() if end[0] != "failed" and self._relied_on(name, now)}
            for name in found:
                del self.ends[name]
                self.phase.pop(name, None)
            now = found

    def _relied_on(self, name: str, lost: set[str]) -> bool:
        for needs, _ in self.program.nodes[name].phases:
            for need in needs:
                if need.id in lost and (name, need.id) not in self.waived and not self._is_met(name, need):
                    return True
        return False

    def _decide(self) -> bool:
        """One step of verdicts: the first kind that finds a node."""
        nodes = {name: self._unmet(name) for name in self._open()}
        waive = [
            name for name, unmet in nodes.items() if all(self._is_absent(need) and need.optional for need in unmet)
        ]
        self.waived |= {(name, need.id) for name in waive for need in nodes[name]}
        if waive:
            return True
        for code, found in (
            ("DependencyFailed", [name for name in nodes if any(map(self._has_failed, nodes[name]))]),
            ("NotFound", [name for name in nodes if any(self._is_absent(n) and not n.optional for n in nodes[name])]),
            ("NotReady", [name for name in nodes if any(n.id in self.ends for n in nodes[name])]),
            ("Cycle", [name for name in nodes if name in _reach(name, nodes)]),
        ):
            for name in found:
                self._end(name, ("failed", code))
            if found:
                return True
        assert not nodes, f"the oracle does not know what becomes of {nodes}"
        return False

    def _is_absent(self, need: Need[str]) -> bool:
        return need.id not in self.exists


def _reach(name: str, nodes: dict[str, list[Need[str]]]) -> set[str]:
    reached: set[str] = set()
    left = [name]
    while left:
        for need in nodes.get(left.pop(), ()):
            if need.id not in reached:
                reached.add(need.id)
                left.append(need.id)
    return reached


def faults(seed: int, widths: Iterable[int] = (1, 2, 5, 99)) -> list[str]:
    """What is wrong with the engine's answers to the program of this seed."""
    program = draw(seed)
    expected = Oracle(program).fates()
    found, first = [], b""
    for workers in widths:
        report = run(program, workers, seed)
        got = fates(report)
        for name in sorted(got.keys() | expected.keys()):
            if got.get(name) != expected.get(name):
                found.append(f"seed {seed}, {workers} workers, {name}: {got.get(name)}, not {expected.get(name)}")
        first = first or report.outcome()
        if not found and report.outcome() != first:
            found.append(f"seed {seed}, {workers} workers: another outcome than with one worker")
    return found
