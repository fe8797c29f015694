"""Why a vpod is where it is, why it waits, and what would help. Tried out on a copy, with the policy's own code.

found = Explaining(copy, vpod)
for _ in found.run(): ...     one step at a time; the caller may stop
found.result()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from algorithm.placements.model import Counts, Placement
from algorithm.placements.policy import PolicyFault
from extender.vpods.copies import SetCopy, VPodCopy
from extender.vpods.simulation import Simulation
from extender.vpods.views import PodStage, stage_of

#: The largest number of replicas, and the largest capacity, that are tried.
MOST_REPLICAS, MOST_CAPACITY = 10_000, 1_000_000
#: How many numbers are tried in whole simulations, at most.
_TRIES = 6


class PodShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a vpod has on one pod, and why not more or less."""

    ordinal: int
    zone: str
    stage: PodStage
    vreplicas: int
    #: What other vpods hold there.
    others: int
    why: str


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the policy, and what it came to for this vpod. The first rule goes before all others."""

    rule: str
    outcome: str
    #: False: it cannot be kept as things are.
    is_kept: bool = True


class Help(msgspec.Struct, frozen=True, kw_only=True):
    """A change with which all vreplicas of the vpod find room. `value`: the smallest one."""

    change: str
    value: int | None
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `helps` is empty for a vpod that does not wait."""

    vpod: str
    wanted: int
    placed: int
    pending: int
    reason: str
    message: str
    waits_seconds: float | None
    waits: Sequence[str]
    rules: Sequence[Rule]
    pods: Sequence[PodShare]
    helps: Sequence[Help]
    #: False: it was stopped before everything was tried.
    is_complete: bool


class Explaining:
    """One explanation. The vpod must be admitted to the set."""

    def __init__(self, copy: SetCopy, vpod: VPodCopy) -> None:
        self._copy, self._vpod = copy, vpod
        self._simulation = Simulation(copy)
        self._helps: dict[str, Help] = {}
        #: Where the policy would put it now; None: unknown.
        self._best: Placement | None = None
        self._is_complete = False

    def run(self) -> Iterator[None]:
        """Try out what would help, and yield after every step."""
        yield from self._simulation.run(horizon=0.0)
        self._best = self._place(self._vpod.name)
        if self._waiting():
            yield from self._try_replicas()
            yield from self._try_capacity()
            self._try_opening()
        self._is_complete = True

    def result(self) -> Explanation:
        """Return what is known so far."""
        copy, vpod = self._copy, self._vpod
        since = vpod.waits_since
        return Explanation(
            vpod=vpod.name,
            wanted=vpod.wanted,
            placed=vpod.scheduled,
            pending=vpod.pending,
            reason=vpod.reason.value,
            message=vpod.message,
            waits_seconds=None if since is None else round(max(0.0, copy.now - since), 3),
            waits=_why_waits(copy, vpod) if vpod.pending else (),
            rules=_rules(copy, vpod, self._best),
            pods=_shares(copy, vpod),
            helps=list(self._helps.values()),
            is_complete=self._is_complete,
        )

    def _place(self, name: str) -> Placement | None:
        """Ask the policy of the simulation; None if it fails, or the vpod is not in the set."""
        hosted = self._simulation.hosted
        vpod = hosted.state.vpods.get(name)
        try:
            return hosted.place(vpod) if vpod is not None else None
        except PolicyFault:
            return None

    # -- what would help ------------------------------------------------------------------------------------------

    def _waiting(self) -> list[str]:
        """The vpods that lack room, in their order, up to this one; empty if it has all."""
        hosted = self._simulation.hosted
        names = list(hosted.waiting)
        return names[: names.index(self._vpod.name) + 1] if self._vpod.name in hosted.waiting else []

    def _fits(self) -> Iterator[bool | None]:
        """Place those that wait, in their order, and take it back. Yields None after each, and at last whether this one
        has all its vreplicas."""
        hosted = self._simulation.hosted
        placed: list[tuple[str, Counts | None]] = []
        placement = None
        for name in self._waiting():
            vpod = hosted.state.vpods[name]
            placement = self._place(name)
            if placement is None:
                break
            placed.append((name, vpod.reserved))
            hosted.state.reserve(name, dict(placement.counts))
            yield None
        for name, before in reversed(placed):
            hosted.state.reserve(name, before)
        yield _has_all(placement)

    def _least(self, low: int, most: int, change: Callable[[int], None]) -> Iterator[int | None]:
        """Find the least number above `low` with which it fits. Yields None after each step, and at last the number, or
        -1 if `most` does not do. `change` sets the number; it is set to `low` at the end."""
        unfit, fit, step = low, most + 1, 1
        while unfit + 1 < fit:
            value = min(most, unfit + step) if fit > most else (unfit + fit) // 2
            change(value)
            does = False
            for found in self._fits():
                does = bool(found)
                yield None
            change(low)
            if does:
                fit = value
            else:
                unfit, step = value, step * 2
        yield fit if fit <= most else -1

    def _try_replicas(self) -> Iterator[None]:
        copy, replicas = self._copy, self._copy.replicas
        if copy.workload is not None:
            extra = _Extra(self._simulation, replicas)
            yield from self._try("replicas", self._least(replicas, max(replicas, MOST_REPLICAS), extra.set))

    def _try_capacity(self) -> Iterator[None]:
        state, capacity = self._simulation.hosted.state, self._copy.settings.capacity

        def change(value: int) -> None:
            state.capacity = value

        yield from self._try("capacity", self._least(capacity, max(capacity, MOST_CAPACITY), change))

    def _try(self, change: str, numbers: Iterator[int | None]) -> Iterator[None]:
        """Note the number that is found. Then try it in whole simulations, in which vpods compete for what is new and
        make way for each other: more until it is enough, then fewer while it is."""
        found = -1
        for number in numbers:
            found = found if number is None else number
            yield
        if found < 0:
            return
        self._note(change, found)
        unfit = self._copy.replicas if change == "replicas" else self._copy.settings.capacity
        enough, step = 0, 1
        for _ in range(_TRIES):
            simulation = self._with(change, found)
            for _ in simulation.run():
                yield
            if self._vpod.name in simulation.hosted.waiting:
                unfit, found, step = found, enough - 1 if enough else found + step, step * 2
            else:
                self._note(change, found)
                enough, found = found, found - 1
            if enough and enough - 1 <= unfit:
                return
        if not enough:
            del self._helps[change]

    def _note(self, change: str, value: int) -> None:
        self._helps[change] = Help(change=change, value=value, text=self._text(change, value))

    def _with(self, change: str, value: int) -> Simulation:
        simulation = Simulation(self._copy)
        if change == "replicas":
            simulation.configure(scales=False)
            simulation.scale(value)
        else:
            simulation.configure(capacity=value)
        return simulation

    def _text(self, change: str, value: int) -> str:
        copy, settings = self._copy, self._copy.settings
        if change == "capacity":
            return f"a capacity of {value} for each pod instead of {settings.capacity}"
        text = f"{value} replicas instead of {copy.replicas}"
        if settings.scales and value > settings.max_replicas:
            return f"{text}; max_replicas, {settings.max_replicas}, stops the autoscaler"
        return text if settings.scales else f"{text}; the autoscaler is off"

    def _try_opening(self) -> None:
        """Open the pods that are closed, if that alone does it."""
        copy, hosted = self._copy, self._simulation.hosted
        usable = frozenset(copy.usable)
        closed = [o for o in range(copy.replicas) if stage_of(copy, o, usable)[0] is PodStage.CLOSED]
        if not closed:
            return
        for ordinal in closed:
            hosted.state.set_usable(ordinal, True)
        fits = list(self._fits())[-1]
        for ordinal in closed:
            hosted.state.set_usable(ordinal, False)
        if fits:
            names = ", ".join(f"{copy.settings.workload}-{ordinal}" for ordinal in closed[:5])
            more = f" and {len(closed) - 5} more" if len(closed) > 5 else ""
            text = f"pods that are closed now: {names}{more}"
            self._helps["open"] = Help(change="open", value=None, text=text)


class _Extra:
    """Pods beyond the present ones, in the zones in which a simulation puts new pods."""

    def __init__(self, simulation: Simulation, replicas: int) -> None:
        self._simulation, self._first = simulation, replicas
        self._there = replicas

    def set(self, replicas: int) -> None:
        state = self._simulation.hosted.state
        sizes: Counter[str] = Counter(state.zone_sizes)
        for ordinal in range(self._there, replicas):
            zone = min(sizes, key=lambda each: (sizes[each], each), default="")
            sizes[zone] += 1
            state.set_zone(ordinal, zone)
            state.set_usable(ordinal, True)
        for ordinal in range(replicas, self._there):
            state.set_usable(ordinal, False)
            state.set_zone(ordinal, "")
        self._there = replicas


def _has_all(placement: Placement | None) -> bool:
    return placement is not None and not placement.left


# -- why it waits -------------------------------------------------------------------------------------------------


def _why_waits(copy: SetCopy, vpod: VPodCopy) -> list[str]:
    if not vpod.is_admitted or copy.workload is None:
        return [vpod.message] if vpod.message else []
    settings = copy.settings
    usable = frozenset(copy.usable)
    free = sum(max(0, settings.capacity - copy.held.get(o, 0)) for o in copy.usable if o not in copy.resting)
    found = [
        f"{vpod.pending} of {vpod.wanted} vreplicas have no pod: {len(usable)} of {copy.replicas} pods can be used, "
        f"and {free} more vreplicas fit on them"
    ]
    stages = Counter(stage_of(copy, ordinal, usable)[0] for ordinal in range(copy.replicas))
    unusable = [f"{number} {stage.value}" for stage, number in sorted(stages.items()) if stage is not PodStage.USABLE]
    if unusable:
        found.append(f"pods that get no vreplicas: {', '.join(unusable)}")
    if vpod.record.max_per_pod and free >= vpod.pending:
        found.append(f"max_per_pod: at most {vpod.record.max_per_pod} of its vreplicas may be on one pod")
    if copy.ordered is not None:
        found.append(f"{copy.ordered} replicas are ordered, and their pods are not ready yet")
    elif not settings.scales:
        found.append("the autoscaler of the set is off")
    elif copy.replicas >= settings.max_replicas:
        found.append(f"the set has as many replicas as it may have: max_replicas is {settings.max_replicas}")
    return found


# -- why it is where it is ----------------------------------------------------------------------------------------


def _rules(copy: SetCopy, vpod: VPodCopy, best: Placement | None) -> list[Rule]:
    """The rules of `balanced`, in their order; none for other policies, which have none. `best`: where it would be."""
    if copy.settings.policy != "balanced" or not vpod.is_admitted:
        return []
    counts = vpod.placed
    pods = sum(1 for number in counts.values() if number)
    here = [_shared(copy, vpod, zone) for zone in _zones(copy)]
    in_zones = {zone: sum(numbers) for zone, numbers in zip(_zones(copy), here, strict=True)}
    skew = max(in_zones.values(), default=0) - min(in_zones.values(), default=0)
    uneven = max((max(numbers) - min(numbers) for numbers in here if numbers), default=0)
    wanted = min(vpod.record.spread, vpod.wanted)
    is_best = best is not None and dict(best.counts) == dict(vpod.placed) and not best.postponed
    more = ", and room allows no less" if is_best else ""
    shown = ", ".join(f"{zone or '(no zone)'} {number}" for zone, number in list(in_zones.items())[:10])
    return [
        Rule(
            rule="as many of the wanted vreplicas as possible are placed, on usable pods, within their capacity",
            outcome=f"{sum(counts.values())} of {vpod.wanted} have a pod",
            is_kept=not vpod.pending,
        ),
        Rule(
            rule="they are on at least as many distinct pods as the vpod wants",
            outcome=f"on {pods} pods" + (f", at least {wanted} are wanted" if wanted else ""),
            is_kept=pods >= wanted,
        ),
        Rule(
            rule="the numbers in zones differ by at most 1, or as little as room allows",
            outcome=f"they differ by {skew}{more if skew > 1 else ''}: {shown}" if shown else "there is no zone",
            is_kept=skew <= 1 or is_best,
        ),
        Rule(
            rule="the numbers on pods of a zone differ by at most 1, or as little as room allows",
            outcome=f"they differ by {uneven}{more if uneven > 1 else ''}",
            is_kept=uneven <= 1 or is_best,
        ),
        Rule(
            rule="as few vreplicas as possible move",
            outcome="a move is under way" if vpod.placed != vpod.committed else "no vreplica is moving",
        ),
        Rule(
            rule="pods with fewer vreplicas of other vpods come first, then those with lower ordinals",
            outcome="decides between pods that are equal under the rules above",
        ),
    ]


def _zones(copy: SetCopy) -> list[str]:
    return sorted({copy.zones.get(ordinal, "") for ordinal in copy.usable}) if copy.settings.zones else [""]


def _shared(copy: SetCopy, vpod: VPodCopy, zone: str) -> list[int]:
    """What the vpod has on the usable pods of a zone."""
    is_here = (o for o in copy.usable if not copy.settings.zones or copy.zones.get(o, "") == zone)
    return [vpod.placed.get(ordinal, 0) for ordinal in is_here]


def _shares(copy: SetCopy, vpod: VPodCopy) -> list[PodShare]:
    """All pods that can be used, and those on which the vpod has something, by ordinal."""
    usable = frozenset(copy.usable)
    levels = {zone: min(_shared(copy, vpod, zone), default=0) for zone in _zones(copy)}
    found = []
    for ordinal in sorted({*range(copy.replicas), *vpod.committed, *vpod.placed}):
        zone = copy.zones.get(ordinal, "")
        stage, why = stage_of(copy, ordinal, usable)
        has = vpod.placed.get(ordinal, 0)
        others = copy.held.get(ordinal, 0) - max(has, vpod.committed.get(ordinal, 0))
        if stage is PodStage.USABLE:
            level = levels.get(zone if copy.settings.zones else "", 0)
            why = _why_share(copy, vpod, has=has, others=others, level=level)
        found.append(PodShare(ordinal=ordinal, zone=zone, stage=stage, vreplicas=has, others=others, why=why))
    return found


def _why_share(copy: SetCopy, vpod: VPodCopy, *, has: int, others: int, level: int) -> str:
    capacity, most = copy.settings.capacity, vpod.record.max_per_pod
    if has + others > capacity:
        return f"too full: {has + others} of {capacity}"
    if copy.settings.policy == "balanced" and has == level + 1:
        return "one of the pods with one more, because the number does not divide evenly"
    if has + others == capacity:
        return f"full: other vpods hold {others} of {capacity}"
    if most and has >= most:
        return f"max_per_pod: {most}"
    if copy.settings.policy != "balanced":
        return f"chosen by policy {copy.settings.policy}"
    if has > level:
        return "more than its share: other pods lack room, or a move to them is due"
    return "its share" if has else "no share is left for this pod"
