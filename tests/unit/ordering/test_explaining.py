"""What people read about a pod that waits."""

from __future__ import annotations

from extender.ordering.records import PodKey
from tests.unit.ordering.world import NAMESPACE, World, pod, running, target, workload


def explain(world: World, name: str) -> list[str]:
    return world.engine.explain(PodKey(NAMESPACE, name))


def test_what_is_met_what_is_missing_and_who_waits_itself() -> None:
    world = World()
    world.put(workload("Group/g", 2, after="[job/x]"), workload("Job/a", complete=True))
    world.put(pod("g-0", group="g", gated=False), running(pod("g-1", group="g")))
    world.put(pod("b", "[job/a, group/g, {kind: Job, name: z, optional: true, grace: 5}]"))
    world.wait(10)
    assert explain(world, "b") == [
        "It waits for Group/ml/g to be Ready.",
        "Job/ml/a Ready: met.",
        "Group/ml/g Ready: not yet; of 2 pods 1 are bound, 1 ready, 0 succeeded."
        " Pod/ml/g-0 waits for Job/ml/x to be Ready.",
        "Job/ml/z Ready: it does not exist. It is optional and not waited for any more.",
    ]
    assert explain(world, "g-0") == [
        "It waits for Job/ml/x to be Ready.",
        "Job/ml/x Ready, as Group/ml/g declares: it does not exist.",
    ]
    assert explain(world, "g-1") == ["It is on node n: it waits for nothing."]
    assert explain(world, "unknown") == []
    world.wait(60)
    assert explain(world, "b")[0] == "It waits for Group/ml/g, and that for Job/ml/x, which does not exist."
    assert explain(world, "b")[-1] == "The root cause is Job/ml/x."
    found = {each.key.name: each.root for each in world.engine.blocked()}
    assert found == {"g-0": target("Job/x"), "b": target("Job/x")}


def test_a_pod_that_is_released() -> None:
    world = World()
    world.holds = True
    world.put(pod("b", "[job/a]"), pod("c"))
    world.put(workload("Job/a", complete=True))
    assert explain(world, "b") == ["What it waited for is met. Its scheduling gate is being removed."]
    world.carry_out(world.writes[0])
    assert explain(world, "b") == ["Nothing holds it back: what it declares was met, or it declares nothing."]
    assert explain(world, "c") == ["Nothing holds it back: neither it nor what it belongs to declares anything."]
