"""One run of a seed: a world, storms in it, and what did not hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.conformance.vpods_adversary.storm import Storm
from tests.conformance.vpods_adversary.world import Draw, world


@dataclass(frozen=True)
class Outcome:
    """`found` is what did not hold; so many storms were done."""

    draw: Draw
    storms: int
    found: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)


def attempt(seed: int, storms: int, steps: int, *, faults: bool = True, patience: float = 60) -> Outcome:
    """One run. `patience`: seconds in which all must be at rest after a storm."""
    draw = Draw.of(seed)
    done = 0
    with world(draw) as w:
        storm = Storm(w, faults=faults)
        while done < storms and not storm.found:
            storm.note(f"---- storm {done}")
            storm.blow(Random(f"{seed}/{done}"), steps)
            storm.note("rest")
            storm.rest(patience)
            storm.note("at rest")
            if not storm.found and faults:
                storm.restart_all()
            done += 1
        if storm.found:
            storm.trace += [w.history.line(write) for write in w.history.since(0)]
            storm.trace.append(w.words())
    return Outcome(draw, done, storm.found, storm.trace, storm.did)
