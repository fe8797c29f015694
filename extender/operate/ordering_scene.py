"""The input of `waggle lint ordering`: the pods that manifests would make, and what each of them would wait for.

The live engine of start-up ordering says that: it sees the pods and objects of the manifests as if they had just been
created, and so much time passes that every grace is over. So the rules are those of the server, not a second copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from algorithm.decoding import DecodeError
from algorithm.reasons import Reason
from extender.operate.document import Section
from extender.ordering.after import MOST_GRACE
from extender.ordering.engine import OrderingEngine
from extender.ordering.events import OrderingEvent, PodSeen, Synced, TermBegun, Ticked, WorkloadSeen
from extender.ordering.records import (
    AFTER,
    DEPLOYMENT,
    GATE,
    JOB_SET,
    POD,
    REPLICATED_JOB,
    VOLCANO_TASK,
    PodKey,
    PodRecord,
    Target,
    WorkloadRecord,
)
from extender.ordering.state import Waiting
from extender.ordering.workloadreader import decode_workload
from extender.plan.reading.documents import Source, read_documents
from extender.plan.reading.expanding import expand
from extender.plan.records import PlanPod, RawObject, World

#: Seconds of the engine's clock until every grace is over, and all has been searched for cycles.
_LATER = (2.0 * MOST_GRACE, 3.0 * MOST_GRACE)


@dataclass(frozen=True)
class Dependant:
    """Pods of one object that wait for the same. `reason`: why they wait; None: they do not. `missing`: what they
    declare or inherit, and is not there."""

    target: Target
    origin: str
    pods: int
    is_gated: bool
    has_gate_only: bool
    reason: Reason | None
    root: Target | None
    missing: tuple[Target, ...] = ()

    def __str__(self) -> str:
        return f"{self.target} ({self.origin})" if self.origin else str(self.target)


@dataclass
class OrderingScene:
    """The input of the rules. `faults`: declarations that cannot be used; `unread`: other errors, and unknown kinds.
    `is_broken`: there are such errors, so part of the files was not read.
    """

    dependants: list[Dependant]
    faults: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    is_broken: bool = False
    objects: dict[str, list[Section]] | None = field(default_factory=dict)
    missing_rights: dict[str, list[str]] | None = None


def from_sources(sources: Iterable[Source], namespace: str) -> OrderingScene:
    """Return the scene of these texts. `namespace`: of objects that name none."""
    documents = read_documents(sources, namespace=namespace)
    found = expand(documents.objects, World())
    errors = (*documents.errors, *found.errors)
    faults = [each for each in errors if AFTER in each or "dependsOn" in each]
    unread = [each for each in errors if each not in faults]
    is_broken = bool(unread)
    unread += [f"{each}: of a kind that makes no pods that Waggle knows" for each in documents.unknown]
    return OrderingScene(_dependants(found.pods, documents.objects), faults, unread, is_broken)


def _dependants(pods: tuple[PlanPod, ...], objects: tuple[RawObject, ...]) -> list[Dependant]:
    engine = _run([*map(WorkloadSeen, _workloads(pods, objects)), *(PodSeen(_record(each)) for each in pods)])
    found: dict[tuple[object, ...], Dependant] = {}
    for each in pods:
        waiting = engine.state.waiting[_uid(each)]
        top = next((above for above in each.above if above.kind in (JOB_SET, DEPLOYMENT)), each.owner)
        target = top or Target(POD, each.pod.pod.namespace, each.pod.pod.name)
        known = found.get((target, waiting.reason))
        found[target, waiting.reason] = Dependant(
            target=target,
            origin=each.origin,
            pods=known.pods + 1 if known else 1,
            is_gated=each.pod.pod.gated,
            has_gate_only=each.pod.pod.gated and not waiting.after,
            reason=waiting.reason,
            root=waiting.root,
            missing=_missing(waiting),
        )
    return list(found.values())


def _missing(waiting: Waiting) -> tuple[Target, ...]:
    """Return all that is not there. The reason names only the first of them."""
    lost = [clause for clause in waiting.unmet if all(each.target in waiting.missing for each in clause)]
    return tuple(sorted({each.target for clause in lost for each in clause}))


def _run(events: Iterable[OrderingEvent]) -> OrderingEngine:
    """The engine after these events, and a long time."""
    engine = OrderingEngine()
    for event in (*events, Synced(), TermBegun(0)):
        engine.handle(event, 0.0)
    for now in (0.0, *_LATER):
        engine.handle(Ticked(), now)
        while (due := engine.next_due()) is not None and due <= now:
            engine.handle(Ticked(), now)
    return engine


def _uid(each: PlanPod) -> str:
    return f"{each.pod.pod.namespace}/{each.pod.pod.name}"


def _record(each: PlanPod) -> PodRecord:
    """The pod as the engine would see it. It is held by a gate that the server would remove if it has any reason to."""
    pod = each.pod.pod
    part = next((above for above in each.above if above.kind == VOLCANO_TASK), None)
    return PodRecord(
        key=PodKey(pod.namespace, pod.name),
        uid=_uid(each),
        gates=(GATE,) if pod.gated else (),
        after=each.after,
        declares=bool(each.after),
        has_annotations=True,
        owner=each.owner,
        group=each.group,
        part=part,
    )


def _workloads(pods: tuple[PlanPod, ...], objects: tuple[RawObject, ...]) -> Iterator[WorkloadRecord]:
    """The objects of the manifests, and those that their controllers would make, such as the Jobs of a JobSet."""
    known = set()
    for each in objects:
        try:
            record = decode_workload(each.json)
        except DecodeError:
            continue
        if record is not None:
            known.add(record.target)
            yield record
    made: dict[Target, tuple[PlanPod, int]] = {}
    for pod in pods:
        if pod.owner is not None and pod.owner not in known:
            made[pod.owner] = pod, made.get(pod.owner, (pod, 0))[1] + 1
    for target, (pod, number) in made.items():
        owner = next((above for above in pod.above if above.kind in (JOB_SET, DEPLOYMENT)), None)
        part = next((above for above in pod.above if above.kind == REPLICATED_JOB), None)
        yield WorkloadRecord(target=target, uid="", pods=number, owner=owner, part=part)
