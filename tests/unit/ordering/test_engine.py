"""What pods wait for, and when they are released."""

from __future__ import annotations

import msgspec

from extender.ordering.events import PodSeen, TellPod, TermBegun
from extender.ordering.records import Part, Target
from extender.ordering.writes.gate import RemoveGate
from extender.ordering.writes.met import MarkMet
from tests.unit.ordering.world import NAMESPACE, World, pod, running, target, workload


def test_a_pod_waits_until_a_job_has_completed() -> None:
    world = World()
    world.put(workload("Job/a"), pod("b", "[{kind: Job, name: a, state: Complete}]"))
    assert world.waits("b") == "waits for Job/ml/a to be Complete"
    assert world.told == [("b", "waits for Job/ml/a to be Complete")]
    world.put(running(pod("a-0", owner="Job/a")))
    assert world.waits("b")
    world.put(workload("Job/a", complete=True))
    assert world.pods["b"].gates == ()
    assert world.held == {"b": ""}


def test_the_event_that_meets_the_last_dependency_removes_the_gate() -> None:
    world = World()
    world.holds = True
    world.put(workload("Job/a", 2), pod("b", "[job/a]"), pod("a-0", owner="Job/a"), pod("a-1", owner="Job/a"))
    world.start("a-0")
    record = msgspec.structs.replace(running(world.pods["a-1"]), version="100")
    found = world.engine.handle(PodSeen(record), world.now)
    assert [type(each) for each in found if isinstance(each, RemoveGate)] == [RemoveGate]


def test_a_gang_is_ready_when_as_many_pods_are_as_it_needs() -> None:
    world = World()
    world.put(workload("Group/g", 2), pod("b", "[group/g]"))
    world.put(*(pod(f"g-{number}", group="g") for number in range(3)))
    world.start("g-0")
    assert world.waits("b") == "waits for Group/ml/g to be Ready"
    world.start("g-1")
    assert not world.waits("b")


def test_a_gang_without_an_object_needs_what_its_pods_say() -> None:
    world = World()
    world.put(pod("b", "[group/g]"), pod("g-0", group="g", minimum=2))
    world.start("g-0")
    assert world.waits("b")
    world.put(running(pod("g-1", group="g", minimum=2)))
    assert not world.waits("b")


def test_a_pod_inherits_from_its_job_its_job_set_and_its_gang() -> None:
    world = World()
    world.put(workload("JobSet/s", after="[job/x]"))
    job = workload("Job/s-w-0", after="[job/y]", owner=target("JobSet/s"), owner_uid="uid-JobSet/s")
    world.put(job, workload("Group/g", after="[job/z]"))
    world.put(pod("p", "[job/w]", owner="Job/s-w-0", group="g"))
    for name in "xyz":
        world.put(workload(f"Job/{name}", complete=True))
        assert world.waits("p")
    world.put(workload("Job/w", complete=True))
    assert not world.waits("p")


def test_a_gated_pod_waits_until_its_owner_is_known() -> None:
    world = World()
    world.put(pod("p", "[]", owner="Job/a"))
    assert world.waits("p") == "waits for Job/ml/a to be known"
    world.put(workload("Job/a", after="[job/x]"))
    assert world.waits("p") == "waits for Job/ml/x to be Ready"
    world.put(workload("Job/x", complete=True))
    assert not world.waits("p")


def test_an_owner_that_never_comes_is_waited_for_no_longer_than_grace() -> None:
    world = World()
    world.put(pod("p", "[]", owner="Job/a"))
    world.wait(61)
    assert not world.waits("p")


def test_parts_of_a_job_set_as_depends_on_says() -> None:
    world = World()
    driver, worker = (Target("ReplicatedJob", NAMESPACE, f"s/{name}") for name in ("driver", "worker"))
    from extender.ordering.records import Dependency, State

    parts = (Part(driver, 1, 1), Part(worker, 2, 2, (Dependency(driver, State.READY),)))
    world.put(workload("JobSet/s", 3, parts=parts))
    above = {"owner": target("JobSet/s"), "owner_uid": "uid-JobSet/s"}
    world.put(workload("Job/s-driver-0", part=driver, **above), workload("Job/s-worker-0", part=worker, **above))
    world.put(pod("w", owner="Job/s-worker-0", gated=False), pod("d", owner="Job/s-driver-0"))
    assert world.held == {"w": "waits for ReplicatedJob/ml/s/driver to be Ready", "d": ""}
    world.put(workload("Job/s-driver-0", part=driver, failed="BackoffLimitExceeded", **above))
    assert world.waits("w"), "a failed Job is not ready"
    world.put(workload("Job/s-driver-0", part=driver, failed="BackoffLimitExceeded", ready=1, **above))
    assert world.waits("w"), "whatever its pods have done before, or still do"
    world.put(running(world.pods["d"]))
    assert world.waits("w")
    world.put(workload("Job/s-driver-0", part=driver, complete=True, **above))
    assert not world.waits("w")


def test_a_part_exists_as_soon_as_its_job_set_does() -> None:
    """Its Job has no pods for longer than the grace: that is no part that is missing."""
    from extender.ordering.records import Dependency, State

    world = World()
    driver, worker = (Target("ReplicatedJob", NAMESPACE, f"s/{name}") for name in ("driver", "worker"))
    parts = (Part(driver, 1, 1), Part(worker, 1, 1, (Dependency(driver, State.READY),)))
    world.put(workload("JobSet/s", 2, parts=parts))
    above = {"owner": target("JobSet/s"), "owner_uid": "uid-JobSet/s"}
    world.put(workload("Job/s-driver-0", part=driver, **above), workload("Job/s-worker-0", part=worker, **above))
    world.put(pod("w", owner="Job/s-worker-0"))
    world.wait(1000)
    assert world.waits("w") == "waits for ReplicatedJob/ml/s/driver to be Ready"


def test_pods_that_job_status_counts_as_ready_are_bound_as_well() -> None:
    world = World()
    part = Target("ReplicatedJob", NAMESPACE, "s/a")
    world.put(workload("JobSet/s", 1, parts=(Part(part, 1, 1),)))
    world.put(pod("p", "[{kind: JobSet, name: s, state: Scheduled}]"))
    above = {"owner": target("JobSet/s"), "owner_uid": "uid-JobSet/s"}
    world.put(workload("Job/s-a-0", part=part, ready=1, **above))
    assert not world.waits("p")


def test_a_gang_that_declares_wrongly_holds_its_pods_also_without_a_gate() -> None:
    world = World()
    world.put(workload("Group/g", bad_after="waggle.dev/after: expected a list"))
    world.put(pod("p", group="g"))
    assert world.held["p"] == "dependencies are declared wrongly: Group/ml/g: waggle.dev/after: expected a list"


def test_alternatives() -> None:
    world = World()
    from extender.ordering.records import Dependency

    record = pod("p", "[]")
    after = tuple(Dependency(target(f"Job/{name}"), either="x") for name in "ab")
    world.put(msgspec.structs.replace(record, after=after))
    assert world.waits("p") == "waits for Job/ml/a to be Ready or Job/ml/b to be Ready"
    world.wait(61)
    assert "does not exist" in world.waits("p")
    world.put(workload("Job/b"))
    assert world.waits("p") == "waits for Job/ml/a to be Ready or Job/ml/b to be Ready"
    world.put(workload("Job/b", complete=True))
    assert not world.waits("p")


def test_a_missing_target_is_told_after_grace_and_may_still_come() -> None:
    world = World()
    world.put(pod("b", "[{kind: Job, name: a, grace: 10}]"))
    world.wait(9.9)
    assert world.waits("b") == "waits for Job/ml/a to be Ready"
    world.wait(0.1)
    assert world.waits("b") == "waits for Job/ml/a, which does not exist"
    assert [each.is_warning for each in world.out if isinstance(each, TellPod)] == [False, True]
    world.put(workload("Job/a"))
    assert world.waits("b") == "waits for Job/ml/a to be Ready"
    world.put(workload("Job/a", complete=True))
    assert not world.waits("b")


def test_an_optional_target_that_is_missing_is_waived_after_grace() -> None:
    world = World()
    world.put(pod("b", "[{kind: Job, name: a, optional: true, grace: 10}]"))
    world.wait(9.9)
    assert world.waits("b")
    world.wait(0.1)
    assert not world.waits("b")


def test_an_optional_target_that_comes_after_it_was_waived_counts_while_the_pod_waits_for_others() -> None:
    world = World()
    world.put(pod("b", "[{kind: Job, name: a, optional: true, grace: 10}, pod/c]"))
    world.wait(11)
    assert world.waits("b") == "waits for Pod/ml/c to be Ready"
    world.put(workload("Job/a"))
    assert world.waits("b") == "waits for Job/ml/a to be Ready, Pod/ml/c to be Ready"
    world.put(workload("Job/a", failed="Why"))
    assert "Job/ml/a failed: Why" in world.waits("b")


def test_an_optional_target_that_exists_is_waited_for() -> None:
    world = World()
    world.put(workload("Job/a"), pod("b", "[{kind: Job, name: a, optional: true}]"))
    world.wait(1000)
    assert world.waits("b") == "waits for Job/ml/a to be Ready"


def test_a_failed_job_is_told_with_its_reason_all_the_way_down() -> None:
    world = World()
    world.put(pod("a", "[job/x]", group="a"), pod("b", "[group/a]", group="b"), pod("c", "[group/b]"))
    world.put(workload("Job/x", failed="BackoffLimitExceeded"))
    why = "which cannot be reached any more: Job/ml/x failed: BackoffLimitExceeded"
    assert world.waits("a") == f"waits for Job/ml/x, {why}"
    world.wait(2)
    assert world.waits("b") == f"waits for Group/ml/a, {why}"
    assert world.waits("c") == f"waits for Group/ml/b, {why}"
    assert world.engine.state.waiting["uid-c"].root == target("Job/x")
    world.drop("Job/x")
    world.put(workload("Job/x", uid="second", complete=True))
    world.wait(2)
    assert not world.waits("a")
    assert world.waits("b") == "waits for Group/ml/a to be Ready"
    assert world.waits("c") == "waits for Group/ml/b to be Ready"


def test_a_missing_root_is_told_all_the_way_down() -> None:
    world = World()
    world.put(pod("a", "[job/x]", group="a"), pod("b", "[group/a]"))
    world.wait(70)
    assert world.waits("b") == "waits for Group/ml/a, and that for Job/ml/x, which does not exist"


def test_a_cycle_is_told_with_its_path_and_those_behind_it_with_their_root() -> None:
    world = World()
    world.put(pod("a", "[group/b]", group="a"), pod("b", "[group/a]", group="b"), pod("z", "[group/a]", group="z"))
    world.put(pod("y", "[pod/z]"))
    world.wait(5)
    path = "Group/ml/a -> Group/ml/b -> Group/ml/a"
    assert world.waits("a") == world.waits("b") == f"dependencies form a cycle: {path}"
    assert world.waits("z") == f"waits for Group/ml/a, which cannot be reached any more: there is a cycle, {path}"
    assert world.waits("y") == f"waits for Pod/ml/z, which cannot be reached any more: there is a cycle, {path}"
    world.put(pod("b", "[]", group="b"))
    world.start("b")
    world.wait(5)
    assert not world.waits("a")
    assert world.waits("z") == "waits for Group/ml/a to be Ready"


def test_a_pod_that_waits_for_its_own_job_is_a_cycle() -> None:
    world = World()
    world.put(workload("Job/a"), pod("p", "[job/a]", owner="Job/a"))
    world.wait(5)
    assert world.waits("p") == "dependencies form a cycle: Job/ml/a -> Job/ml/a"


def test_a_gang_that_needs_fewer_pods_is_no_cycle() -> None:
    world = World()
    world.put(workload("Group/g", 1), pod("first", group="g"), pod("second", "[group/g]", group="g"))
    world.wait(5)
    assert world.waits("second") == "waits for Group/ml/g to be Ready"
    world.start("first")
    assert not world.waits("second")


def test_a_wrong_declaration_holds_the_pod_and_says_so() -> None:
    world = World()
    world.put(msgspec.structs.replace(pod("p", "[]"), bad_after="waggle.dev/after[0]: expected a name"))
    assert world.waits("p") == "dependencies are declared wrongly: Pod/ml/p: waggle.dev/after[0]: expected a name"
    world.put(pod("p", "[]"))
    assert not world.waits("p")


def test_release_is_once() -> None:
    world = World()
    world.put(workload("Job/a", complete=True), pod("b", "[job/a]"))
    assert not world.waits("b")
    world.drop("Job/a")
    world.wait(1000)
    assert not world.waits("b")
    after = World()
    after.put(world.pods["b"])
    after.wait(1000)
    assert after.released() == {"b"}, "a restart does not hold it again"


def test_what_was_met_stays_met_also_after_a_restart() -> None:
    world = World()
    world.put(workload("Job/a", complete=True), pod("p", "[{kind: Job, name: a, state: Complete}, job/b]"))
    assert [type(each) for each in world.writes] == [MarkMet]
    world.drop("Job/a")
    assert world.waits("p") == "waits for Job/ml/b to be Ready"
    after = World()
    after.put(world.pods["p"])
    after.wait(100)
    assert after.waits("p") == "waits for Job/ml/b, which does not exist"
    after.put(workload("Job/b", complete=True))
    assert not after.waits("p")


def test_a_follower_writes_and_tells_nothing_until_it_leads() -> None:
    world = World(is_leader=False)
    world.put(workload("Job/a"), pod("b", "[job/a]"), pod("c", "[job/x]"))
    world.put(workload("Job/a", complete=True))
    assert not world.writes
    assert not world.told
    assert world.held == {"b": "", "c": "waits for Job/ml/x to be Ready"}
    world.send(TermBegun(3))
    assert [(type(each), each.term) for each in world.writes if isinstance(each, RemoveGate)] == [(RemoveGate, 3)]
    assert world.told == [("c", "waits for Job/ml/x to be Ready")]


def test_a_pod_without_a_gate_is_marked_when_it_is_let_go() -> None:
    world = World()
    world.put(workload("Job/a", complete=True), pod("b", "[job/a]", gated=False))
    assert world.held == {"b": ""}
    assert world.pods["b"].met == {"*"}
    world.start("b")
    assert world.held == {}


def test_a_pod_that_declares_nothing_is_left_alone() -> None:
    """But for a word to the engine of pods, if it belongs to something: until then that refuses it without a gate."""
    world = World()
    world.put(pod("p"), pod("q", owner="Job/a"), pod("r", group="g"), pod("s", controlled=True))
    assert world.held == {"r": "", "s": ""}, "the Job of q is not known yet: it may declare something"
    world.wait(1000)
    assert world.held == {"q": "", "r": "", "s": ""}
    assert not world.writes
    assert not world.told


def test_pods_of_a_deleted_job_do_not_count_for_the_next_one_of_its_name() -> None:
    world = World()
    world.put(workload("Job/a"), running(pod("a-0", owner="Job/a")))
    world.drop("Job/a")
    world.put(workload("Job/a", uid="second"), pod("b", "[job/a]"))
    assert world.waits("b")
    world.put(running(pod("a-1", owner="Job/a", owner_uid="second")))
    assert not world.waits("b")


def test_failed_pods_of_a_gang_fail_it_unless_a_controller_replaces_them() -> None:
    world = World()
    world.put(workload("Job/j", 2), pod("b", "[group/g]"))
    world.put(*(running(pod(f"g-{n}", group="g", owner="Job/j", minimum=2), phase="Failed") for n in range(2)))
    assert world.waits("b") == "waits for Group/ml/g to be Ready"
    world.put(workload("Job/j", 2, failed="DeadlineExceeded"))
    assert world.waits("b").endswith("which cannot be reached any more: Job/ml/j failed: DeadlineExceeded")
    bare = World()
    bare.put(pod("b", "[group/g]"), running(pod("g-0", group="g"), phase="Failed"))
    assert bare.waits("b").endswith("Group/ml/g failed: too many of its pods failed")


def test_a_pod_without_a_gate_waits_as_soon_as_something_is_declared_for_it() -> None:
    """Also for a server that starts only then: it cannot know that nothing was declared before."""
    world, late = World(), World()
    group = workload("Group/g", 1, "[job/a]", uid="uid-g")
    world.put(msgspec.structs.replace(group, after=()), pod("p", group="g"))
    assert world.held == {"p": ""}
    world.put(group)
    late.put(group, world.pods["p"])
    assert world.waits("p") == late.waits("p") == "waits for Job/ml/a to be Ready"
    world.put(msgspec.structs.replace(group, after=()))
    assert world.held == {"p": ""}
    assert not world.writes, "nothing was ever met"


def test_a_pod_that_waits_for_others_is_marked_with_what_is_ready() -> None:
    world = World()
    world.put(pod("a"), pod("p", "[pod/a, job/b]"))
    world.put(running(world.pods["a"]))
    assert [write.met for write in world.writes if isinstance(write, MarkMet)] == [("Pod/ml/a=Ready",)]
    world.drop("a")
    after = World()
    after.put(world.pods["p"])
    assert after.waits("p") == "waits for Job/ml/b to be Ready"
