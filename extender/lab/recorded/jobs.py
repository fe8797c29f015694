"""Lives of pods as jobs: a pod that was made again is the same job, and pods of a gang are one job.

A pod continues another one if that was evicted or lost its node, and this one came soon after, in the same namespace,
with the same requests, and with the same name or the same labels. A gang is what the recorded algorithm calls one; its
name may be used again after all of its pods have gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from algorithm.fgd.needs import MILLI, MODEL, WHOLE
from algorithm.hived.formats.podspec import SPEC, UserError, parse_spec
from algorithm.interface import PodDescription, SchedulerAlgorithm
from algorithm.model import CPU as CORES
from algorithm.model import MEMORY as BYTES
from algorithm.model import Pod
from algorithm.packing.gangs import GANG, GANG_MIN
from extender.lab.recorded.lives import How, PodLife
from extender.lab.workload import CPU, GPU, MEMORY
from extender.scheduling.reads import GANG_ANNOTATION

#: Seconds after the end of a pod in which its controller makes it again.
AGAIN_WITHIN = 300.0
#: Characters of the name of a job, without a number.
_LONGEST_NAME = 220
#: How the life of a pod ended that has to run again.
BROKEN = (How.EVICTED, How.NODE_LOST)
#: Labels that differ between the pods of one controller.
_ORDINALS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)


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
        except Exception:  # an algorithm that cannot describe a pod: its own fields count
            return PodDescription()

    def _group(self, pod: Pod, said: PodDescription) -> str:
        """The name of its gang, within all namespaces; "" if it runs alone, or its gang is only a name."""
        try:
            gang = self._algorithm.gang(pod)
        except Exception:  # its author declared it wrongly, or the algorithm fails
            return ""
        if gang is None or minimum_of(pod) == 1:
            return ""
        name = gang.name or said.group or pod.annotation(GANG_ANNOTATION) or pod.group
        return name if not name or name.startswith(f"{pod.namespace}/") else f"{pod.namespace}/{name}"


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

    def continues_with(self, life: PodLife) -> bool:
        """Whether `life` is this pod, made again."""
        last = self.last
        if last.how not in BROKEN or last.end is None or life.arrival - last.end > AGAIN_WITHIN:
            return False
        return _likeness(last.record) == _likeness(life.record) or last.record.key == life.record.key


@dataclass(slots=True)
class RecordedJob:
    """Pods that belong together, and what they ask for. `group` "": a pod alone."""

    name: str
    wish: Wish
    group: str = ""
    chains: list[Chain] = field(default_factory=list)

    def is_over(self, now: float) -> bool:
        """Whether none of its pods is there, and none is to be made again."""
        return all(
            chain.last.end is not None and (chain.last.how not in BROKEN or now - chain.last.end > AGAIN_WITHIN)
            for chain in self.chains
        )


def jobs_of(lives: Iterable[PodLife], describer: Describer) -> list[RecordedJob]:
    """Return the jobs in order of their first pod. Names are unique."""
    found: list[RecordedJob] = []
    alone: dict[object, list[RecordedJob]] = {}
    gangs: dict[str, RecordedJob] = {}
    names: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: life.arrival):
        wish = describer.wish(life.record)
        if wish.group:
            job = gangs.get(wish.group)
            if job is None or job.is_over(life.arrival):
                job = gangs[wish.group] = RecordedJob(_unique(wish.group, names), wish, wish.group)
                found.append(job)
        else:
            candidates = alone.setdefault(_likeness(life.record), [])
            job = next((each for each in candidates if each.chains[0].continues_with(life)), None)
            if job is None:
                job = RecordedJob(_unique(str(life.record.key), names), wish)
                found.append(job)
            else:
                candidates.remove(job)
            if life.how in BROKEN:
                candidates[:] = [each for each in candidates if not each.is_over(life.arrival)]
                candidates.append(job)
        _enter(job, life)
    return found


def _enter(job: RecordedJob, life: PodLife) -> None:
    chain = next((each for each in job.chains if each.continues_with(life)), None)
    if chain is None:
        job.chains.append(Chain([life]))
    else:
        chain.lives.append(life)


def _likeness(pod: Pod) -> object:
    """Equal for pods of one controller."""
    labels = tuple(pair for pair in pod.labels if pair[0] not in _ORDINALS)
    return pod.namespace, pod.requests, pod.priority, labels, pod.group, pod.annotation(GANG_ANNOTATION)


def _unique(name: str, names: dict[str, int]) -> str:
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
    number = names[short] = names.get(short, 0) + 1
    return short if number == 1 else f"{short}#{number}"
