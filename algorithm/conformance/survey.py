"""Tests an algorithm in this process: runs lives that all judges watch, and shrinks what fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from algorithm.conformance.calls import Ask, Call
from algorithm.conformance.catalogue import BY_NAME
from algorithm.conformance.guard import Guard
from algorithm.conformance.harness import ContractBroken
from algorithm.conformance.judges import JUDGES
from algorithm.conformance.life import Life, Look
from algorithm.conformance.machine import live
from algorithm.conformance.reference import plugin_of, read_settings, settings_of, worlds_of
from algorithm.conformance.replayed import carry_out
from algorithm.conformance.results import Request, Result, Status
from algorithm.conformance.shrink import shortened
from algorithm.conformance.suspects import suspects
from algorithm.conformance.world import World, Worlds
from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import Plugin, reads_of

#: The share of the time that is for lives; the rest is for the other checks, and for making programs shorter.
_FOR_LIVES = 0.6
#: On a busy machine it may take so many times as long as the CPU time that it has.
_PATIENCE = 3.0
#: Tries for a program that is made shorter, and seconds for each.
_MOST_TRIES = 400
_SECONDS_TO_SHORTEN = 6.0
#: A look is a question, too, and hides what other questions leave behind.
_LOOKS: tuple[Look, ...] = ("always", "end")
#: Failures after which an algorithm is not tried any more: each life would cost the time limit, or the process.
ENDS = frozenset({"calls-return", "process-survives", "memory-limited"})
#: Programs that are kept, for processes with other hash seeds.
_KEPT_PROGRAMS = 12


@dataclass
class Trial:
    """A plug-in that is tried, with everything that a life needs."""

    request: Request
    plugin: Plugin[Any]
    settings: Any
    world: World
    guard: Guard
    #: The settings as they were given, not checked.
    given: Mapping[str, Any]
    on_call: Callable[[Call | None], None] | None = None
    programs: list[list[Call]] = field(default_factory=list)

    def keep(self, calls: Sequence[Call]) -> None:
        """Keep the programs with the most questions, for processes with other hash seeds."""
        self.programs.append(list(calls))
        self.programs.sort(key=_questions, reverse=True)
        del self.programs[_KEPT_PROGRAMS:]

    def create(self) -> SchedulerAlgorithm:
        return self.plugin.create(self.settings)

    def life(self, names: Iterable[str], *, report: Callable[[str, ContractBroken], None] | None, look: Look) -> Life:
        """A new life that judges of these names watch."""
        return Life(
            self.create,
            judges=[JUDGES[name] for name in sorted(names, key=list(JUDGES).index)],
            report=report,
            reads=reads_of(self.plugin),
            guard=self.guard,
            history=self.world.history,
            node_names=self.world.node_names,
            pages=self.world.pages,
            suspects=suspects(self.plugin),
            look=look,
            on_call=self.on_call,
        )


def _questions(calls: Sequence[Call]) -> int:
    return sum(isinstance(call, Ask) for call in calls)


def trial_of(request: Request, guard: Guard, on_call: Callable[[Call | None], None] | None = None) -> Trial:
    """Import the plug-in, check its settings, and make its world. Raises UnusableError."""
    plugin = plugin_of(request.plugin)
    worlds = worlds_of(plugin, request.world)
    given = given_settings(plugin, worlds, request)
    settings = settings_of(plugin, given, request.settings_name)
    return Trial(request, plugin, settings, worlds.make(settings), guard, given, on_call)


def given_settings(plugin: Plugin[Any], worlds: Worlds, request: Request) -> Mapping[str, Any]:
    """The settings of the request, or those of the world. Raises UnusableError."""
    if request.settings_text is not None:
        return read_settings(plugin, request.settings_text, request.settings_name)
    return worlds.settings if request.settings is None else request.settings


def abilities_of(plugin: Plugin[Any], algorithm: SchedulerAlgorithm) -> tuple[str, ...]:
    """The optional methods that the algorithm has of its own, and whether the plug-in has a `parse`."""
    base = vars(SchedulerAlgorithm)
    optional = [name for name, method in base.items() if not name.startswith("_") and callable(method)]
    abstract = SchedulerAlgorithm.__abstractmethods__
    own = [name for name in optional if name not in abstract and getattr(type(algorithm), name) is not base[name]]
    return tuple(sorted([*own, *(["parse"] if plugin.parse is not None else [])]))


def survey(trial: Trial, names: Sequence[str]) -> list[Result]:
    """Judge these checks by lives of clusters. What fails is made shorter."""
    found: dict[str, tuple[ContractBroken, list[Call]]] = {}
    begun, cpu = time.monotonic(), time.process_time()
    lives = finished = 0
    current: list[Life] = []
    end = trial.request.seconds * _FOR_LIVES

    def report(name: str, broken: ContractBroken) -> None:
        found.setdefault(name, (broken, list(current[-1].calls)))

    def begin() -> Life | None:
        nonlocal lives
        is_late = time.process_time() - cpu > end or time.monotonic() - begun > _PATIENCE * end
        if is_late or len(found) == len(names) or found.keys() & {*ENDS, *trial.request.until}:
            return None
        lives += 1
        if trial.on_call is not None:
            trial.on_call(None)
        trial.guard.deadline = begun + _PATIENCE * end + trial.guard.limit
        current[:] = [trial.life([name for name in names if name not in found], report=report, look="sometimes")]
        return current[-1]

    def finish(life: Life) -> None:
        nonlocal finished
        finished += time.monotonic() <= trial.guard.deadline
        trial.keep(life.calls)

    live(trial.world, begin, finish, lives=trial.request.lives, steps=trial.request.steps, at=trial.request.seed)
    took, trial.guard.deadline = time.monotonic() - begun, math.inf
    ends = "".join(sorted(found.keys() & ENDS)[:1])
    status: Status = "not-run" if ends else "passed"
    text = f"no more lives were lived: see {ends}" if ends else ""
    if not finished and not found:
        status, text = "not-run", f"no life of a cluster came to its end within {took:.0f} seconds: calls are too slow"
    left = [name for name in names if name not in found]
    results = [Result(check=name, status=status, text=text, lives=lives, seconds=took) for name in left]
    limit = max(1.0, min(_SECONDS_TO_SHORTEN, trial.request.seconds * (1 - _FOR_LIVES) / max(1, len(found))))
    return results + [_failure(trial, name, *found[name], lives=lives, limit=limit) for name in found]


def _failure(trial: Trial, name: str, broken: ContractBroken, calls: list[Call], *, lives: int, limit: float) -> Result:
    """The failure with the shortest program that is found within `limit` seconds."""
    begun, begun_cpu, tries = time.monotonic(), time.process_time(), 0
    hangs = name in ENDS
    trial.guard.deadline = begun + _PATIENCE * limit + trial.guard.limit
    look: Look = "always"
    before, trial.guard.limit = trial.guard.limit, min(trial.guard.limit, 1.0) if hangs else trial.guard.limit

    def is_enough() -> bool:
        is_late = time.process_time() - begun_cpu > limit or time.monotonic() - begun > _PATIENCE * limit
        return tries >= _MOST_TRIES or is_late

    def fails(candidate: Sequence[Call]) -> bool:
        nonlocal tries
        tries += 1
        return judged(trial, name, candidate, look)[0] is not None

    try:
        for look in _LOOKS:
            if fails(calls):
                calls = shortened(calls, fails, is_enough)
                last, calls = judged(trial, name, calls, look)
                broken = last or broken
                break
    finally:
        trial.guard.limit, trial.guard.deadline = before, math.inf
    text = f"{broken}".replace("\n", " ")
    return Result(
        check=name,
        status="failed",
        text=text,
        calls=tuple(calls),
        look=look,
        lives=lives,
        seconds=time.monotonic() - begun,
    )


def judged(
    trial: Trial, name: str, calls: Sequence[Call], look: Look = "always"
) -> tuple[ContractBroken | None, list[Call]]:
    """What the judge of this check says of the program, and the calls that were carried out until then."""
    if trial.on_call is not None:
        trial.on_call(None)
    life: Life | None = None
    try:
        life = trial.life([name], report=None, look=look)
        carry_out(life, calls)
    except ContractBroken as broken:
        return broken, list(life.calls) if life is not None else []
    return None, list(life.calls)


def is_applicable(name: str, abilities: Iterable[str]) -> bool:
    """Whether the algorithm has the ability that the check is about."""
    ability = BY_NAME[name].ability
    return not ability or ability in abilities
