"""Rows for tables: what the algorithm says about pods, asked once for each record; its faults hide nothing."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.hived.formats.plainyaml import load
from algorithm.hived.formats.podspec import SPEC
from algorithm.interface import PodDescription, SuggestedNodes
from algorithm.model import Pod
from extender.scheduling.events import NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.hived.harness import racks
from tests.support.hived.scene import Scene, small


class Describing(PlainAlgorithm):
    """Says whose pods are, and counts how often it is asked."""

    asked = 0
    fault: object = None
    priority_fault: Exception | None = None

    def describe(self, pod: Pod) -> PodDescription:
        self.asked += 1
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault is not None:
            return self.fault  # type: ignore[return-value]
        return PodDescription(group="g", tenant="t", priority=7, devices=3)

    def current_priority(self, pod: Pod, description: PodDescription) -> int:
        if self.priority_fault is not None:
            raise self.priority_fault
        return super().current_priority(pod, description)


def runtime(algorithm: PlainAlgorithm, *pods: Pod) -> Runtime:
    found = Runtime(SchedulerStateMachine(algorithm), lambda command: None)
    found.handle(NodeSeen(node("a")), Synced(), *map(PodSeen, pods))
    return found


def test_a_pod_is_described_by_its_own_fields() -> None:
    gang = (("waggle.dev/gang", "g"),)
    alone = msgspec.structs.replace(pod("p"), requests=(("cpu", 9), ("x.io/gpu", 2)), created="2026-01-01T00:00:00Z")
    of_gang = msgspec.structs.replace(pod("q"), annotations=gang, group="h")
    of_group = msgspec.structs.replace(pod("r"), group="h")

    rows = {row.name: row for row in runtime(PlainAlgorithm(), alone, of_gang, of_group).model.rows()}

    assert rows["p"][2:] == ("Waiting", "", "NotAsked", "", "", 0, 2, "2026-01-01T00:00:00Z")
    assert (rows["q"].group, rows["r"].group) == ("g", "h")


def test_the_algorithm_is_asked_once_for_each_record() -> None:
    algorithm = Describing()
    found = runtime(algorithm, pod("p"), pod("q"))
    for _ in range(3):
        rows = found.model.rows()
    assert algorithm.asked == 2
    assert {(row.group, row.tenant, row.priority, row.devices) for row in rows} == {("g", "t", 7, 3)}

    found.handle(PodGone("ns", "q", pod("q").uid))
    assert found.filter(pod("p"), SuggestedNodes(["a"])).node == "a"
    assert [(row.state, row.node, row.code) for row in found.model.rows() if row.name == "p"] == [("Binding", "a", "")]


@pytest.mark.parametrize("fault", [ValueError("no"), "text", PodDescription(group=3)], ids=["raises", "type", "field"])  # type: ignore[arg-type]
def test_a_fault_of_the_algorithm_hides_no_pod(fault: object, capsys: pytest.CaptureFixture[str]) -> None:
    algorithm = Describing()
    algorithm.fault = fault
    found = runtime(algorithm, pod("p"), pod("q"))
    assert sorted(row.name for row in found.model.rows()) == ["p", "q"]


def test_a_pod_that_is_proposed_for_a_node_does_not_run_yet() -> None:
    gpus = msgspec.structs.replace(pod("p"), requests=(("x.io/gpu", 2),))
    found = runtime(PlainAlgorithm(), gpus)
    assert found.filter(gpus, SuggestedNodes(["a"])).node == "a"
    proposed = found.model.usage_sample()

    found.handle(PodSeen(msgspec.structs.replace(gpus, node_name="a")))
    bound = found.model.usage_sample()

    assert [(each.running, each.waiting, each.devices) for each in (proposed, bound)] == [(0, 0, 2), (1, 0, 2)]


def test_a_fault_about_the_priority_leaves_the_one_that_was_asked_for() -> None:
    algorithm = Describing()
    algorithm.priority_fault = ValueError("no")
    assert [(row.tenant, row.priority) for row in runtime(algorithm, pod("p")).model.rows()] == [("t", 7)]


def test_hived_says_whose_pods_are() -> None:
    scene = Scene(small())
    scene.place("ml/train", "vision", 5, devices=8, pods=2)
    scene.runtime.handle(PodSeen(Pod(namespace="ns", name="bad", uid="bad", annotations=((SPEC, "{"),))))
    scene.runtime.stop()

    rows = {row.name: row for row in scene.runtime.model.rows()}

    train = rows["train-0"]
    assert (train.group, train.tenant, train.priority, train.devices) == ("ml/train", "vision", 5, 8)
    assert (rows["bad"].group, rows["bad"].tenant) == ("", "")


def test_a_pod_that_lost_its_quota_shows_the_priority_that_counts_now() -> None:
    scene = Scene(load(racks(a="rack.host 1")) | {"promoteLazilyPreempted": True})
    try:
        scene.place("ml/early", "a", 1, devices=4, lazyPreemptionEnable=True)
        assert shown(scene, "early-0") == (1, 1)

        scene.place("ml/urgent", "a", 5, devices=4)
        assert (shown(scene, "early-0"), shown(scene, "urgent-0")) == ((-1, -1), (5, 5))

        scene.end("ml/urgent")
        assert shown(scene, "early-0") == (1, 1)
    finally:
        scene.runtime.stop()


def shown(scene: Scene, name: str) -> tuple[int, int]:
    """The pod's priority in tables, and in its view."""
    model = scene.runtime.model
    (row,) = [row for row in model.rows() if row.name == name]
    (view,) = [view for view in model.pods() if view.name == name]
    return row.priority, view.priority


def test_another_algorithm_describes_all_pods_anew() -> None:
    machine = SchedulerStateMachine(Describing())
    found = Runtime(machine, lambda command: None)
    found.handle(NodeSeen(node("a")), Synced(), PodSeen(pod("p")))
    assert [row.tenant for row in found.model.rows()] == ["t"]
    machine.driver.algorithm = PlainAlgorithm()
    assert [row.tenant for row in found.model.rows()] == [""]
