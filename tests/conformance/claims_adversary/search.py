"""One run of a seed: a world, storms in it, and what did not hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.conformance.claims_adversary import judge
from tests.conformance.claims_adversary.calm import Calm
from tests.conformance.claims_adversary.storm import Storm
from tests.conformance.claims_adversary.world import Draw, world


@dataclass(frozen=True)
class Outcome:
    """`found` is what did not hold; `rounds` were done."""

    draw: Draw
    rounds: int
    found: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    #: Seconds, of calm runs: from a request to its answer with idle pods, and from a pod that is ready to its claim.
    took: list[float] = field(default_factory=list)
    woken: list[float] = field(default_factory=list)


def attempt(
    seed: int, rounds: int, steps: int, *, processes: bool = False, faults: bool = True, patience: float = 30
) -> Outcome:
    """One run. `patience`: seconds in which all must be at rest after a storm."""
    draw = Draw.of(seed, processes=processes)
    with world(draw) as w:
        storm = Storm(w, faults=faults)
        done = 0
        while done < rounds and not storm.found:
            storm.note(f"---- round {done}")
            storm.blow(Random(f"{seed}/{done}"), steps)
            storm.note("rest")
            storm.rest(patience)
            storm.note("at rest")
            if storm.found:
                storm.trace += [w.words(instance) for instance in w.instances]
            done += 1
        did = storm.did + Counter({f"answered {name}": n for name, n in judge.codes(w).items()})
    return Outcome(draw, done, storm.found, storm.trace, did)


def attempt_calm(seed: int, requests: int) -> Outcome:
    """One run of a calm world."""
    rng = Random(f"calm {seed}")
    draw = Draw.of(seed, processes=False, calm=True)
    with world(draw) as w:
        calm = Calm(w)
        for part in (
            calm.refusals,
            lambda: calm.quick(rng, 5),
            lambda: calm.pods_in_order(rng),
            lambda: calm.keys(rng),
            lambda: calm.line(rng, requests),
            calm.rest,
        ):
            if not calm.found:
                part()
    return Outcome(draw, 1, calm.found, calm.trace, calm.did, sorted(calm.took), sorted(calm.woken))
