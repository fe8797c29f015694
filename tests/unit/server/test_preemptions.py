"""Who preempted whom, from the first plan to the end, through the runtime."""

from __future__ import annotations

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm, PackingSettings
from extender.scheduling.events import Candidate, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy, PreemptionMode
from extender.server.runtime import Runtime
from tests.support.hived.scene import Scene, small


def test_a_preemption_is_followed_to_its_end() -> None:
    now = [100.0]
    policy = Policy(preemption=PreemptionMode.KUBE_SCHEDULER)
    machine = SchedulerStateMachine(PackingAlgorithm(PackingSettings()), policy)
    runtime = Runtime(machine, lambda command: None, clock=lambda: now[0])
    gpu = (("example.com/gpu", 1),)
    low = Pod(namespace="ns", name="low", uid="l", node_name="a", requests=gpu, priority=1)
    high = Pod(namespace="ns", name="high", uid="h", requests=gpu, priority=9)
    runtime.handle(
        NodeSeen(Node(name="a", uid="a", allocatable=(*gpu, ("pods", 110)))), PodSeen(low), Synced(), PodSeen(high)
    )

    assert runtime.filter(high, SuggestedNodes(["a"])).node is None
    runtime.preempt(high, (Candidate("a"),))
    now[0] = 107.0
    [(ago, record)] = runtime.model.preemptions()
    assert (ago, record.outcome.value, record.pod.name) == (7.0, "under way", "high")
    assert [(str(each.key), each.node, each.gone) for each in record.victims] == [("ns/low", "a", False)]

    assert (record.priority, record.victims[0].priority, record.gang) == (9, 1, "")

    runtime.handle(PodGone("ns", "low", "l"))
    assert runtime.filter(high, SuggestedNodes(["a"])).node == "a"

    [(_, record)] = runtime.model.preemptions()
    assert (record.outcome.value, record.victims[0].gone) == ("placed", True)
    machine.validate()


def test_priorities_and_gangs_are_those_of_the_algorithm() -> None:
    """To Kubernetes, HiveD's pods all have priority 0."""
    scene = Scene(small())
    scene.place("ml/borrow", "speech", -1, devices=8, pods=16)
    scene.place("ml/train", "vision", 5, devices=8, pods=2, preempt=True)
    scene.runtime.stop()

    records = [record for _, record in scene.runtime.model.preemptions()]

    assert {(record.gang, record.priority) for record in records} == {("ml/train", 5)}
    assert {victim.priority for record in records for victim in record.victims} == {-1}
