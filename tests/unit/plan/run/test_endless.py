"""Pods that evict each other without end: the plan ends, and says so."""

from __future__ import annotations

from extender.ordering.records import Target
from extender.plan.records import PlanPod
from tests.support.plan.worlds import a_node, plan_of, running, waiting

GANG = {"annotations": {"waggle.dev/gang": "h", "waggle.dev/gang-min": "2"}}


def owned(job: str) -> dict[str, Target]:
    return {"owner": Target("Job", "default", job)}


def test_a_pod_that_is_evicted_and_made_again_for_ever_ends_the_plan() -> None:
    """A gang whose members have different priorities evicts p4, which comes before p5 whenever it is made again."""
    pods: tuple[PlanPod, ...] = (
        running("p0", "n0", cpu="1", priority=2, more=owned("j2")),
        running("p1", "n0", cpu="1", priority=1),
        waiting("p2", cpu="2", priority=3, more=owned("j2"), metadata=GANG),
        waiting("p3", cpu="1", priority=0, more=owned("j3")),
        running("p4", "n0", cpu="1", priority=2, more=owned("j1")),
        waiting("p5", cpu="1", priority=1, more=owned("j3"), metadata=GANG),
    )
    plan = plan_of((a_node("n0"),), pods, add_nodes=(a_node("extra0"),))
    assert plan.stopped == "pod default/p4 is evicted and made again without end"
    assert not plan.is_clean
