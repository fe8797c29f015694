"""What a run says: one row for each pod that does not simply stay, with one reason, and the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable

from algorithm.interface import PodDescription
from algorithm.reasons import Code, Reason, reason
from extender.embedded.kubescheduler.core import Result
from extender.embedded.kubescheduler.events import EXTENDER
from extender.plan.records import Plan, Row, Sign, Total
from extender.plan.run.fixes import Fixes
from extender.plan.run.judging import unit_of
from extender.plan.run.milestones import dependencies_of
from extender.plan.run.state import PlanState
from extender.plan.run.store import Gone, PodStory
from extender.scheduling.reads import GANG_ANNOTATION


def result(run: PlanState) -> Generator[None, None, Plan]:
    """Return the plan of a run that has ended. Yields after each bounded piece of work."""
    fixes = Fixes(run)
    rows: list[Row] = []
    for number, story in enumerate(run.cluster.stories.values()):
        rows.append(_row(run, story, fixes))
        if rows[-1].fix or number % 1000 == 0:
            yield
    rows += [row for engine in run.engines for row in engine.rows()]
    shown = tuple(row for row in rows if row.sign is not Sign.STAYS)
    return Plan(
        release=run.world.release,
        source=_source(run),
        taken=run.world.taken,
        algorithm=run.configuration.algorithm_name,
        seed=run.options.seed,
        rows=shown,
        groups=_totals(rows, lambda row: row.group),
        tenants=_totals(rows, lambda row: row.tenant),
        total=_total("", rows),
        waves=1 + max((row.wave for row in shown), default=-1),
        critical_path=run.judgement.critical_path,
        edges=run.judgement.edges,
        unknown=tuple(run.unknown),
        warnings=(*run.warnings, *(said for engine in run.engines for said in engine.warnings())),
        stopped=run.stopped,
        attempts=run.scheduling.attempts,
    )


def _source(run: PlanState) -> str:
    """Return where the cluster comes from, and what the change adds to it."""
    added = len(run.changes.add_nodes)
    return (
        f"{run.world.source} and {added} added node{'s'[: added != 1]}"
        if run.world.source and added
        else run.world.source
    )


# -- one pod -------------------------------------------------------------------------------------------------------


def _row(run: PlanState, story: PodStory, fixes: Fixes) -> Row:
    latest, pod = story.latest, story.pod
    sign = _sign(story)
    described = _described(run, story)
    why, text = _why(run, story, sign)
    waits = waits_for(run, story) if sign is Sign.WAITS or (sign is Sign.EVICTED and story.exists) else None
    return Row(
        sign=sign,
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid="" if story.is_new else story.first,
        workload="" if latest.owner is None else unit_of(latest),
        group=latest.group.name if latest.group else described.group or pod.annotation(GANG_ANNOTATION) or pod.group,
        tenant=described.tenant or pod.namespace,
        priority=pod.priority if described.priority is None else described.priority,
        node=pod.node_name if sign in (Sign.RUNS, Sign.MOVES, Sign.STAYS) else "",
        before=story.before,
        code="" if why is None else why.code.value,
        text=text,
        fix="" if waits is None or run.stopped else fixes.of(story.first, latest, waits),
        root=run.judgement.roots.get(story.first, ()) if sign is Sign.WAITS else (),
        after=tuple(str(each.target) for each in dependencies_of(latest)),
        wave=run.judgement.waves.get(story.first, 0),
        origin=latest.origin,
    )


def _described(run: PlanState, story: PodStory) -> PodDescription:
    return run.configuration.algorithm.describe(run.scheduling.record(story.latest.pod))


def _sign(story: PodStory) -> Sign:
    node = story.pod.node_name
    if story.gone is Gone.LEAVING:
        return Sign.STAYS
    if story.times and (story.before or story.ran):
        return (Sign.MOVES if story.before else Sign.RUNS) if node else Sign.EVICTED
    if not story.exists:
        return Sign.EVICTED
    if story.before:
        return Sign.STAYS
    return Sign.RUNS if node else Sign.WAITS


def _why(run: PlanState, story: PodStory, sign: Sign) -> tuple[Reason | None, str]:
    """The reason with its text; that of an evicted pod also says why it is not made again elsewhere."""
    why = story.why if sign in (Sign.EVICTED, Sign.MOVES) else waits_for(run, story) if sign is Sign.WAITS else None
    text = "" if why is None else why.text
    if sign is Sign.EVICTED and story.exists:
        text = f"{text}; made again, it waits: {waits_for(run, story).text}"
    return why, text


def waits_for(run: PlanState, story: PodStory) -> Reason:
    """Return the one reason why the pod, as it is at the end, has no node."""
    pod = story.pod
    if story.first in run.judgement.reasons:
        return run.judgement.reasons[story.first]
    if pod.gated:
        return reason(Code.OTHER, detail="it has a scheduling gate that something else has to remove")
    attempt = run.scheduling.last.get(pod.uid)
    if attempt is None:
        return _not_tried(run, story)
    if attempt.diagnosis is not None and EXTENDER not in attempt.diagnosis.rejecters:
        refusal = run.scheduling.refusal(story.latest.pod)
        return refusal if refusal is not None else reason(Code.UNSCHEDULABLE, detail=attempt.diagnosis.text())
    known = run.scheduling.machine.state.pods.get(pod.uid)
    if known is not None and known.reason is not None:
        return known.reason
    if attempt.result is Result.UNSCHEDULABLE and attempt.diagnosis is not None:
        return reason(Code.UNSCHEDULABLE, detail=attempt.diagnosis.text())
    return reason(Code.OTHER, detail=attempt.message or "it was not placed")


def _not_tried(run: PlanState, story: PodStory) -> Reason:
    if run.stopped:
        return reason(Code.OTHER, detail="the plan ended before the pod was tried")
    if story.pod.scheduler_name not in run.configuration.scheduler.scheduler_names:
        return reason(Code.OTHER, detail=f"its scheduler {story.pod.scheduler_name} is not part of the plan")
    return reason(Code.NOT_ASKED)


# -- sums ----------------------------------------------------------------------------------------------------------


def _totals(rows: Iterable[Row], name_of: Callable[[Row], str]) -> tuple[Total, ...]:
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        if name := name_of(row):
            by_name.setdefault(name, []).append(row)
    return tuple(_total(name, by_name[name]) for name in sorted(by_name))


def _total(name: str, rows: Iterable[Row]) -> Total:
    counts = Counter(row.sign for row in rows)
    return Total(
        name=name,
        runs=counts[Sign.RUNS],
        moves=counts[Sign.MOVES],
        evicted=counts[Sign.EVICTED],
        waits=counts[Sign.WAITS],
        stays=counts[Sign.STAYS],
    )
