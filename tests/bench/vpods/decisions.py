"""What a decision costs the engine, on the workload of the original: CPU microseconds per call."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.vpods.names import pod_name
from tests.bench.vpods.fleet import Fleet
from tests.bench.vpods.workload import RUNS, Draws, Size, digest, recorded

STEPS = ("initial", "no_change", "churn", "autoscaler")


@dataclass
class Decisions:
    """One size and policy. By step, round by round: until the placements are sent, and until they are confirmed too."""

    size: Size
    policy: str
    sent: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in STEPS})
    whole: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in STEPS})
    digest: str = ""

    @property
    def as_recorded(self) -> bool | None:
        """Whether the placements are the original's; None for a policy that is not the original's."""
        return self.digest == recorded()[self.size].digest if self.policy == "head" else None

    def best(self, step: str) -> float:
        """Microseconds per call of the best round: what else the machine does only ever adds."""
        return min(self.whole[step]) * 1e6

    def best_sent(self, step: str) -> float:
        return min(self.sent[step]) * 1e6


def measure(size: Size, policy: str, *, rounds: int, calls: int | None = None) -> Decisions:
    """Each round is a fleet of its own. Raises AssertionError if rounds differ, or placements are wrong."""
    found = Decisions(size, policy)
    for _ in range(rounds):
        placed = _round(found, calls or size.calls)
        assert found.digest in ("", placed), f"{size}, {policy}: another round, other placements"
        found.digest = placed
    return found


def _round(found: Decisions, calls: int) -> str:
    size, draws = found.size, Draws(found.size)
    wanted = [draws.next(size.most) for _ in range(size.vpods)]
    fleet = Fleet(pods=size.pods, capacity=size.capacity, policy=found.policy, wanted=wanted)
    fleet.start(with_vpods=False)
    steps: dict[str, Callable[[], object]] = {
        "initial": lambda: [fleet.schedule(number) for number in range(size.vpods)],
        "no_change": lambda: [fleet.schedule(draws.next(size.vpods) - 1) for _ in range(calls)],
        "churn": lambda: [fleet.schedule(draws.next(size.vpods) - 1, draws.next(size.most)) for _ in range(calls)],
        "autoscaler": lambda: [fleet.run_autoscaler() for _ in range(RUNS)],
    }
    for step, number in zip(STEPS, (size.vpods, calls, calls, RUNS), strict=True):
        gc.collect()
        fleet.decided = fleet.confirmed = 0.0
        steps[step]()
        found.sent[step].append(fleet.decided / number)
        found.whole[step].append((fleet.decided + fleet.confirmed) / number)
    _check(fleet, found.policy)
    return digest(fleet.placements())


def _check(fleet: Fleet, policy: str) -> None:
    """All that is wanted is placed, on no pod more than it can hold; by `balanced`, as even as that allows."""
    held: Counter[str] = Counter()
    for vpod in fleet.vpods:
        counts = dict(vpod.placements)
        held.update(counts)
        assert sum(counts.values()) == vpod.wanted, f"{vpod.key}: {sum(counts.values())} of {vpod.wanted}"
    assert max(held.values(), default=0) <= fleet.settings.capacity, "a pod holds more than it can"
    if policy == "balanced":
        full = {name for name, number in held.items() if number == fleet.settings.capacity}
        for vpod in fleet.vpods:
            counts = {pod_name("ss", ordinal): 0 for ordinal in range(fleet.pods)} | dict(vpod.placements)
            most = max(counts.values())
            low = [name for name, number in counts.items() if number < most - 1 and name not in full]
            assert not low, f"{vpod.key} has {most} on one pod, and fewer than {most - 1} on {low}, which have room"
