"""Lives of pods as jobs: a pod that was made again is the same job, and pods of a gang are one job.

A pod continues another one if that was evicted or lost its node, and this one came soon after, in the same namespace,
with the same requests, and with the same name or the same labels. A gang is what the recorded algorithm calls one, or,
if it knows no gangs, what annotations of Waggle call one. Its name may be used again after all of its pods have gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from algorithm.fgd.needs import MILLI, MODEL, WHOLE
from algorithm.hived.formats.podspec import SPEC, UserError, parse_spec
from algorithm.interface import PodDescription, PodRefused, SchedulerAlgorithm
from algorithm.model import CPU as CORES
from algorithm.model import MEMORY as BYTES
from algorithm.model import Pod
from algorithm.packing.gangs import GANG, GANG_MIN, membership_or_none
from extender.core.said import type_name
from extender.lab.recorded.lives import How, PodLife, likeness
from extender.lab.workload import CPU, GPU, MEMORY
from extender.scheduling.reads import GANG_ANNOTATION

T = TypeVar("T")
#: Seconds after the end of a pod in which its controller makes it again.
AGAIN_WITHIN = 300.0
#: Characters of the name of a job, without a number.
_LONGEST_NAME = 220
#: How the life of a pod ended that has to run again.
BROKEN = (How.EVICTED, How.NODE_LOST, How.RESTARTED)
#: Seconds before and after the loss of a pod within which the others of its gang are deleted because of that.
_TOGETHER = (60.0, 600.0)


class Wish(NamedTuple):
    """What a pod asks for, in the words of no algorithm. `group` "": it runs alone."""

    tenant: str
    group: str
    priority: int
    requests: Mapping[str, int]
    #: Types of devices of which a node must have one; empty: any.
    models: tuple[str, ...] = ()


class Describer:
    """Describes pods as the recorded algorithm does."""

    def __init__(self, algorithm: SchedulerAlgorithm) -> None:
        self._algorithm = algorithm
        #: Whether it knows no gangs: other algorithms place the pods as their annotations say.
        self.knows_no_gangs = type(algorithm).gang is SchedulerAlgorithm.gang
        #: How often the algorithm failed, by what was called and what it raised.
        self.failed: Counter[str] = Counter()

    def wish(self, pod: Pod) -> Wish:
        """Return what the pod asks for. Devices are thousandths of GPUs, whatever their resource is called."""
        said = self._described(pod)
        amounts = dict(pod.requests)
        devices = said.devices
        milli = pod.annotation(MILLI)
        if milli is not None and milli.isdecimal() and 0 < int(milli) < WHOLE:
            gpus = int(milli)
        elif devices is not None:
            gpus = devices * WHOLE
        else:
            gpus = WHOLE * sum(amount for name, amount in amounts.items() if "/" in name)
        requests = {CPU: amounts.get(CORES, 0), MEMORY: amounts.get(BYTES, 0), GPU: gpus}
        priority = pod.priority if said.priority is None else said.priority
        tenant = said.tenant or pod.namespace
        return Wish(tenant, self._group(pod, said), priority, requests, _models(pod) if gpus else ())

    def _described(self, pod: Pod) -> PodDescription:
        try:
            return self._algorithm.describe(pod)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # it may call sys.exit(): the pod's own fields count
            self.failed[f"describe failed: {type_name(error)}"] += 1
            return PodDescription()

    def _group(self, pod: Pod, said: PodDescription) -> str:
        """The name of its gang, within all namespaces; "" if it runs alone, or its gang is only a name."""
        if self.knows_no_gangs:
            return _gang_by_annotations(pod)
        try:
            gang = self._algorithm.gang(pod)
        except PodRefused:  # its author declared it wrongly
            return ""
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.failed[f"gang failed: {type_name(error)}"] += 1
            return ""
        if gang is None or minimum_of(pod) == 1:
            return ""
        name = gang.name or said.group or pod.annotation(GANG_ANNOTATION) or pod.group
        return name if not name or name.startswith(f"{pod.namespace}/") else f"{pod.namespace}/{name}"


def _gang_by_annotations(pod: Pod) -> str:
    declared = membership_or_none(pod)
    return str(declared.gang) if declared is not None and declared.minimum > 1 else ""


def _models(pod: Pod) -> tuple[str, ...]:
    """The types of devices that it names, in the annotations of `fgd` and of HiveD."""
    if named := pod.annotation(MODEL):
        return tuple(filter(None, named.split("|")))
    try:
        spec = parse_spec(pod.annotation(SPEC) or "", namespace=pod.namespace, name=pod.name)
    except UserError:
        return ()
    return (spec.leaf_type,) if spec.leaf_type else ()


def minimum_of(pod: Pod) -> int | None:
    """Return how many pods its gang needs at once, as annotations of Waggle say it; None: they do not."""
    if pod.annotation(GANG) is None and not pod.group:
        return None
    minimum = pod.annotation(GANG_MIN) or "1"
    return int(minimum) if minimum.isascii() and minimum.isdigit() and len(minimum) < 10 else 1


@dataclass(slots=True)
class Chain:
    """One pod of a job, with all of its lives, the first one first."""

    lives: list[PodLife]

    @property
    def first(self) -> PodLife:
        return self.lives[0]

    @property
    def last(self) -> PodLife:
        return self.lives[-1]

    @property
    def stayed_gated(self) -> bool:
        """Whether it kept its scheduling gate: no scheduler could give it a place."""
        return all(life.is_gated and life.placed is None for life in self.lives)

    def continuation(self, life: PodLife, *, has_controllers: bool) -> float | None:
        """How unlikely it is that `life` is this pod, made again: less is likelier. None: it is not.

        A controller makes a pod again once that has gone, or is being deleted. `has_controllers`: it is known which
        pods have one. A pod that has none is made again under its name, if at all.
        """
        last = self.last
        if last.how not in BROKEN or last.end is None:
            return None
        if not last.leaves <= life.arrival <= last.end + AGAIN_WITHIN:
            return None
        if last.record.key == life.record.key:
            return -1.0
        if has_controllers and not (last.record.controlled and life.record.controlled):
            return None
        return abs(life.arrival - last.end) if likeness(last.record) == likeness(life.record) else None


@dataclass(slots=True)
class RecordedJob:
    """Pods that belong together, and what they ask for. `group` "": a pod alone."""

    name: str
    wish: Wish
    group: str = ""
    chains: list[Chain] = field(default_factory=list)

    def is_over(self, now: float) -> bool:
        """Whether none of its pods is there any more, and none is to be made again."""
        return all(
            chain.last.end is not None and now >= chain.last.end + (AGAIN_WITHIN if chain.last.how in BROKEN else 0.0)
            for chain in self.chains
        )


def jobs_of(lives: Iterable[PodLife], describer: Describer, *, has_controllers: bool) -> list[RecordedJob]:
    """Return the jobs in order of their first pod. Names are unique.

    `has_controllers`: the recording says of each pod whether a controller makes it again.
    """
    found: list[RecordedJob] = []
    alone: dict[object, list[RecordedJob]] = {}
    gangs: dict[str, RecordedJob] = {}
    names: dict[str, int] = {}
    wishes = [(life, describer.wish(life.record)) for life in sorted(lives, key=lambda life: life.arrival)]
    _restart(wishes)
    for life, wish in wishes:
        if wish.group:
            job = gangs.get(wish.group)
            if job is None or job.is_over(life.arrival):
                job = gangs[wish.group] = RecordedJob(_unique(wish.group, names), wish, wish.group)
                found.append(job)
        else:
            candidates = alone.setdefault(likeness(life.record), [])
            job = _likeliest([(each, each.chains[0]) for each in candidates], life, has_controllers)
            if job is None:
                job = RecordedJob(_unique(str(life.record.key), names), wish)
                found.append(job)
            else:
                candidates.remove(job)
            if life.how in BROKEN:
                candidates[:] = [each for each in candidates if not each.is_over(life.arrival)]
                candidates.append(job)
        _enter(job, life, has_controllers)
    return found


def _restart(wishes: Iterable[tuple[PodLife, Wish]]) -> None:
    """Find the pods that were deleted since their gang has lost a pod: their controller makes all of them again."""
    gangs: dict[str, list[PodLife]] = {}
    for life, wish in wishes:
        if wish.group:
            gangs.setdefault(wish.group, []).append(life)
    for members in gangs.values():
        losses = sorted(life.end for life in members if life.how in BROKEN and life.end is not None)
        for life in members:
            if life.how is How.DELETED and life.placed is not None and life.end is not None:
                at = bisect_left(losses, life.end - _TOGETHER[1])
                if at < len(losses) and losses[at] <= life.end + _TOGETHER[0]:
                    life.how = How.RESTARTED


def _enter(job: RecordedJob, life: PodLife, has_controllers: bool) -> None:
    chain = _likeliest([(each, each) for each in job.chains], life, has_controllers)
    if chain is None:
        job.chains.append(Chain([life]))
    else:
        chain.lives.append(life)


def _likeliest(candidates: Iterable[tuple[T, Chain]], life: PodLife, has_controllers: bool) -> T | None:
    """The candidate whose pod `life` continues most likely; None if it continues none."""
    rates = [(chain.continuation(life, has_controllers=has_controllers), each) for each, chain in candidates]
    rated = [(rate, each) for rate, each in rates if rate is not None]
    return min(rated, key=lambda item: item[0])[1] if rated else None


def _unique(name: str, names: dict[str, int]) -> str:
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
    number = names[short] = names.get(short, 0) + 1
    return short if number == 1 else f"{short}#{number}"
