"""Preemption with victims that take their time, and others who want the room that becomes free."""

from __future__ import annotations

from tests.support.cluster.local_cluster import LocalCluster, world

SLOW = {"stop_delay": 0.6}
GPU = "example.com/gpu"
BY_KUBE_SCHEDULER = {"mode": "kube-scheduler"}


def fill(w: LocalCluster, count: int, cpu: str = "2", **more: object) -> list[str]:
    names = [f"low{i}" for i in range(count)]
    for name in names:
        w.pod(name, cpu=cpu, terminationGracePeriodSeconds=30, **more)
    w.until(lambda: w.all_bound(names))
    w.settle()
    return names


def terminating(w: LocalCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in w.cluster.objects("pods") if pod["metadata"].get("deletionTimestamp")]


def preempt(w: LocalCluster, name: str, low: list[str]) -> None:
    """As kube-scheduler: every node's dry run proposes the first pod there, and the victims named are deleted."""
    by_node = {node: [each for each in low if w.node_of(each) == node] for node in ("n0", "n1")}
    meta = {node: {"Pods": [{"UID": w.uid(pods[0])}], "NumPDBViolations": 0} for node, pods in by_node.items() if pods}
    body = {"Pod": w.get(name), "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
    chosen = w.post("preempt", body)["NodeNameToMetaVictims"]
    uids = {victim["UID"] for victims in list(chosen.values())[:1] for victim in victims["Pods"]}
    for each in low:
        if w.uid(each) in uids:
            w.cluster.delete("pods", each)


def test_room_that_victims_leave_is_not_taken_by_somebody_else():
    with world(nodes=1, scheduler=True, apiserver=SLOW) as w:
        fill(w, 2)
        w.pod("high", cpu="4", priority=1000)
        w.until(lambda: [p for p in w.cluster.objects("pods") if p["metadata"].get("deletionTimestamp")])
        w.pod("thief", cpu="2")

        w.until(lambda: w.node_of("high") == "n0")
        w.settle()
        assert not w.node_of("thief")


def test_a_gang_waits_for_victims_that_take_their_time():
    with world(nodes=2, scheduler=True, apiserver=SLOW, holds={"lease_seconds": 2}) as w:
        fill(w, 4)

        names = w.gang("high", 4, cpu="2", priority=1000)
        w.until(lambda: len(terminating(w)) == 4 or w.all_bound(names))
        w.pod("thief", cpu="2", priority=10)

        w.until(lambda: w.all_bound(names))
        w.settle()
        assert not w.node_of("thief")


def test_what_a_gang_waits_for_is_not_taken_by_a_lesser_preemptor():
    """The test plays kube-scheduler: one member of the gang preempts, then somebody lesser, then the other members."""
    with world(nodes=2, holds={"lease_seconds": 5}, apiserver={"stop_delay": 30.0}, preemption=BY_KUBE_SCHEDULER) as w:
        low = [f"low{i}" for i in range(4)]
        for name in low:
            w.pod(name, cpu="2", terminationGracePeriodSeconds=30)
            w.place(name)
        names = w.gang("high", 4, cpu="2", priority=1000)
        w.pod("thief", cpu="2", priority=10)
        w.until(lambda: len(w.waggle.pod_infos()) == 9)
        for name in ("high-3", "thief", "high-0", "high-1", "high-2"):
            preempt(w, name, low)
        for name in terminating(w):
            w.cluster.delete("pods", name, grace_period_seconds=0)
        w.until(lambda: not terminating(w) and not w.differences())

        answers = [w.filter(name)["NodeNames"] for name in ("high-3", "thief")]

        assert answers[1] == [], w.told()
        for name in low:
            if w.cluster.get("pods", name):
                w.cluster.delete("pods", name, grace_period_seconds=0)
        for name in names:
            w.place(name)


def test_a_gang_goes_on_although_its_first_members_victims_are_gone_before_the_next_one_asks():
    """The test plays kube-scheduler, which asks about every member after every event."""
    with world(nodes=2, preemption=BY_KUBE_SCHEDULER) as w:
        low = [f"low{i}" for i in range(4)]
        for name in low:
            w.pod(name, cpu="2")
            w.place(name)
        names = w.gang("high", 4, cpu="2", priority=1000)
        w.until(lambda: len(w.waggle.pod_infos()) == 8)
        for name in names:
            preempt(w, name, [each for each in low if w.cluster.get("pods", each)])
            w.until(lambda: not terminating(w) and not w.differences())
            [w.filter(each) for each in names if not w.node_of(each)]

        for name in names:
            w.place(name)


def test_a_preemptor_that_is_deleted_leaves_the_room_to_others():
    with world(nodes=1, scheduler=True, apiserver=SLOW) as w:
        fill(w, 2)
        w.pod("high", cpu="4", priority=1000)
        w.until(lambda: [p for p in w.cluster.objects("pods") if p["metadata"].get("deletionTimestamp")])
        w.pod("next", cpu="4")
        w.cluster.delete("pods", "high", grace_period_seconds=0)

        w.until(lambda: w.node_of("next") == "n0")


def test_two_preemptors_take_different_victims():
    with world(nodes=2, scheduler=True, apiserver=SLOW) as w:
        fill(w, 2, cpu="4")
        for name in ("high0", "high1"):
            w.pod(name, cpu="4", priority=1000)

        w.until(lambda: w.all_bound(["high0", "high1"]))
        assert sorted(w.places(["high0", "high1"])) == ["n0", "n1"]


def test_a_more_important_pod_takes_over_from_a_preemptor():
    with world(nodes=1, scheduler=True, apiserver=SLOW, holds={"lease_seconds": 1.5}) as w:
        fill(w, 1, cpu="4")
        w.pod("high", cpu="4", priority=100)
        w.until(lambda: [p for p in w.cluster.objects("pods") if p["metadata"].get("deletionTimestamp")])
        w.pod("highest", cpu="4", priority=1000)

        w.until(lambda: w.node_of("highest") == "n0")


def test_a_single_pod_goes_rather_than_that_a_gang_is_broken():
    with world(nodes=2, scheduler=True) as w:
        gang = w.gang("team", 2, cpu="2")
        w.until(lambda: w.all_bound(gang))
        w.settle()
        w.pod("s0", cpu="2")
        w.pod("s1", cpu="2")
        w.until(lambda: w.all_bound(["s0", "s1"]))
        w.settle()

        w.pod("high", cpu="2", priority=1000)

        w.until(lambda: w.node_of("high"))
        assert w.all_bound(gang)


def test_a_pod_that_must_not_preempt_does_not():
    with world(nodes=1, scheduler=True) as w:
        fill(w, 1, cpu="4")
        w.cluster.create({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "polite"},
            "value": 1000,
            "preemptionPolicy": "Never",
        })  # fmt: skip
        w.pod("polite", cpu="4", priorityClassName="polite")
        w.until(lambda: w.condition("polite"))
        w.settle()

        assert w.places(["low0", "polite"]) == ["n0", ""]


def test_a_preemption_is_carried_on_after_a_restart():
    with world(nodes=2, scheduler=True, apiserver=SLOW) as w:
        fill(w, 4)
        names = w.gang("high", 4, cpu="2", priority=1000)
        w.until(lambda: [p for p in w.cluster.objects("pods") if p["metadata"].get("deletionTimestamp")])

        w.stop_waggle()
        w.start_waggle()

        w.until(lambda: w.all_bound(names))


def test_a_victim_that_its_disruption_budget_protects_is_waited_for():
    unseen = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}
    with world(nodes=1, scheduler=True, extender=unseen, preemption={"mode": "direct"}) as w:
        resources = {"requests": {GPU: "8"}, "limits": {GPU: "8"}}
        wants = {"containers": [{"name": "c", "image": "pause", "resources": resources}]}
        w.pod("low", **wants)
        w.until(lambda: w.node_of("low"))
        w.settle()
        protected = w.faults.inject("status", status=429, method="POST", path="/eviction$", times=None)
        w.pod("high", priority=1000, **wants)
        w.until(lambda: w.faults.fired(protected) and w.condition("high"))
        w.settle()

        assert w.node_of("low") == "n0"
        w.cluster.delete("pods", "low", grace_period_seconds=0)
        w.until(lambda: w.node_of("high") == "n0")
