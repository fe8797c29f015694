"""Runs attacks one after the other and measures what each does to the server."""

from __future__ import annotations

import json
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.attacks.aims import LEFT_DESCRIPTORS, LEFT_THREADS, P99_ANYWHERE, Figures, Usage, missed
from tests.attacks.arena import Arena
from tests.attacks.machine import cpu_time, withheld
from tests.attacks.registry import Attack
from tests.attacks.servers import AttackedServers, Server

#: How often an attack is tried in which a valid /filter was late, and nothing else was wrong.
_TRIES = 3


@dataclass(frozen=True)
class Result:
    """The outcome of one attack. `problems`: what was wrong, in words; none if the server held."""

    attack: Attack
    did: str
    figures: Figures | None
    problems: tuple[str, ...]
    #: The server was late at every try while the machine withheld CPU time: this decides nothing.
    undecided: bool = False

    @property
    def broke(self) -> bool:
        """Whether the server did not hold."""
        return bool(self.problems) and not self.undecided

    @property
    def is_only_late(self) -> bool:
        """Whether nothing was wrong but the time that a valid /filter took: a busy machine can do that, too."""
        return self.figures is not None and all(" at p99 " in problem for problem in self.problems)


class Runner:
    """Attacks that need the same kind of server share one; a server that was broken is replaced."""

    def __init__(self, kind: str = "waggle", beside_others: bool = False) -> None:
        """`beside_others`: other work takes the machine's cores meanwhile, so an answer is late only after 2 s."""
        self._kind = kind
        self._beside_others = beside_others
        self._folder = tempfile.TemporaryDirectory(prefix="waggle-attacks-")
        self._shared: dict[tuple[str, str, str, str], AttackedServers] = {}
        self._number = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for world in self._shared.values():
            world.close()
        self._folder.cleanup()

    def run(self, attacks: Iterable[Attack], tell: Callable[[Result], None]) -> list[Result]:
        results = []
        for attack in sorted(attacks, key=_kind):
            results.append(self._run_until_held(attack, tell))
        return results

    def _run_until_held(self, attack: Attack, tell: Callable[[Result], None]) -> Result:
        """Tries again what was only late: a server that is held up is so again, a machine that was busy is not."""
        held_up = True
        for _ in range(_TRIES):
            result = self.run_one(attack)
            is_late = bool(result.problems) and result.is_only_late
            if is_late:
                held_up = held_up and self._was_held_up(result.figures)
                result = replace(result, undecided=held_up)
            tell(result)
            if not is_late or (held_up and self._beside_others):
                break
        return result

    def _was_held_up(self, figures: Figures | None) -> bool:
        if figures is None:
            return False
        return figures.was_held_up or (self._beside_others and figures.p99 <= P99_ANYWHERE)

    def run_one(self, attack: Attack) -> Result:
        key = _kind(attack)
        if key not in self._shared:
            # One server at a time: they would share the machine's two cores.
            while self._shared:
                self._shared.popitem()[1].close()
            self._shared[key] = self._start(attack)
        result = assail(attack, self._shared[key])
        if attack.alone or not result.is_only_late:
            self._shared.pop(key).close()
        return result

    def _start(self, attack: Attack) -> AttackedServers:
        self._number += 1
        folder = Path(self._folder.name) / str(self._number)
        return AttackedServers(
            attack.scheme, folder, kind=self._kind, module=attack.api_server, sections=attack.settings
        )


def _kind(attack: Attack) -> tuple[str, str, str, str]:
    """What its server has in common with those of other attacks; usual settings come first."""
    settings = json.dumps(attack.settings, sort_keys=True) if attack.settings else ""
    return attack.scheme, attack.api_server, settings, attack.name if attack.alone else ""


def assail(attack: Attack, world: AttackedServers) -> Result:
    """One attack on a server that is there, with the innocent caller beside it."""
    arena = Arena(world)
    before = world.server.usage()
    world.probe.begin()
    began, asked = time.monotonic(), cpu_time()
    try:
        did, problems = attack.run(arena), []
    except AssertionError as error:
        did, problems = "", [str(error) or "an assertion failed"]
    except Exception as error:
        did, problems = "", [f"{type(error).__name__}: {error}", traceback.format_exc()]
    seconds = time.monotonic() - began
    time.sleep(0.1)  # the attacker has left; this may cost the innocent caller, too
    measured = world.probe.end()
    not_given = withheld(asked, cpu_time())
    try:
        after = _settled(world.server, before, attack)
    except AssertionError as error:
        return Result(attack, did, None, (*problems, str(error)))
    figures = Figures(
        tuple(measured["latencies"]),
        tuple(measured["errors"]),
        before,
        max(measured["peak_mib"], after.mib),
        after,
        len(arena.logged()),
        seconds,
        not_given,
    )
    return Result(attack, did, figures, (*problems, *missed(figures, attack.left_mib)))


def _settled(server: Server, before: Usage, attack: Attack) -> Usage:
    """What the server holds once it has closed what was left, or when the time is up."""
    give_up = time.monotonic() + attack.settle_seconds
    while True:
        usage = server.usage()
        is_back = (
            usage.mib <= before.mib + attack.left_mib
            and usage.descriptors <= before.descriptors + LEFT_DESCRIPTORS
            and usage.threads <= before.threads + LEFT_THREADS
        )
        if is_back or time.monotonic() > give_up:
            return usage
        with suppress(InterruptedError):
            time.sleep(0.1)
