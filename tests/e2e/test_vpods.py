"""VPods on the real control plane: sets grow and shrink with what vpods want, and vpods are placed evenly.

All that happened is judged by what the API server wrote: no pod ever held more than its capacity, none was scaled away
with a vreplica on it, and no vpod lost one that it wanted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.hands import eventually
from tests.e2e.vpods import VPodCluster, placements, vpod_cluster

MOST_PODS, CAPACITY, VPODS = 50, 10, 12


@pytest.fixture(scope="module")
def shared(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VPodCluster]:
    with vpod_cluster(plane, programs, tmp_path_factory.mktemp("vpods"), servers=("a",)) as w:
        yield w


@pytest.fixture
def w(shared: VPodCluster) -> Iterator[VPodCluster]:
    try:
        yield shared
        shared.check()
    finally:
        shared.clear()


def test_a_set_grows_from_0_to_50_pods_and_back_while_what_vpods_want_changes_all_the_time(
    w: VPodCluster, record_property: pytest.RecordProperty
) -> None:
    chance = random.Random(16)
    names = [f"v{number}" for number in range(VPODS)]
    w.fleet(replicas=0, capacity=CAPACITY, maxReplicas=MOST_PODS)
    for name in names:
        w.vpod(name, 0)
    full = MOST_PODS * CAPACITY // VPODS
    begun = time.monotonic()
    for share in (*range(1, 11), 10):  # tenths of what is wanted in the end
        for name in names:
            w.want(name, chance.randint(full * (share - 1) // 10, full * share // 10) if share < 10 else full)
    grown = w.rest()
    assert w.replicas() == MOST_PODS
    assert {sum(each.values()) for each in grown.values()} == {full}
    assert not w.uneven()
    took = time.monotonic() - begun
    for share in range(9, -1, -1):
        for name in names:
            w.want(name, chance.randint(0, full * share // 10))
    eventually(lambda: w.replicas() == 0, lambda: f"{w.replicas()} replicas, {w.held()}", seconds=60)
    w.laws()
    assert w.history.peak(w.namespace, "fleet") == MOST_PODS
    back = time.monotonic() - begun - took
    record_property(
        "measured",
        f"vpods: from 0 to {MOST_PODS} pods in {took:.1f} s, and to 0 again after {back:.1f} s; {w.moves()} "
        f"of {w.history.gained(w.namespace, 'fleet')} vreplicas were moved ones",
    )


def test_steps_of_one_end_even_where_the_original_piles_up(w: VPodCluster) -> None:
    """As KEDA does it. Knative's rule, side by side, ends with 8, 1 and 1."""
    for name, policy in (("fleet", "balanced"), ("knative", "head")):
        w.fleet(name, replicas=3, capacity=10, policy=policy, minReplicas=3)
        w.vpod(f"of-{name}", 0, set_name=name)
    for wanted in range(1, 11):
        for name in ("of-fleet", "of-knative"):
            w.want(name, wanted)
        for name in ("of-fleet", "of-knative"):
            w.placed(name)
    assert w.placed("of-fleet") == {"fleet-0": 4, "fleet-1": 3, "fleet-2": 3}
    assert w.placed("of-knative") == {"knative-0": 8, "knative-1": 1, "knative-2": 1}
    assert w.moves() == 0
    for wanted in range(9, 0, -1):
        w.want("of-fleet", wanted)
        assert max(w.placed("of-fleet").values()) == -(-wanted // 3)
    w.laws()


def test_kubectl_scales_a_vpod_waits_for_it_and_shows_columns(w: VPodCluster) -> None:
    w.fleet(replicas=2, capacity=10, minReplicas=2)
    w.vpod("x", 2)
    w.kubectl("wait --for=condition=Scheduled --timeout=20s vpod/x")
    w.kubectl("scale vpod x --replicas=7")
    w.kubectl("wait --for=jsonpath={.status.scheduled}=7 --timeout=20s vpod/x")
    assert w.placed("x") == {"fleet-0": 4, "fleet-1": 3}
    w.kubectl("scale vpod x --replicas=30")  # with --current-replicas as autoscalers see it
    w.kubectl("wait --for=condition=Scheduled --timeout=20s vpod/x")
    w.placed("x")
    header, row = w.kubectl("get vpod").splitlines()
    assert header.split() == ["NAME", "SET", "WANTED", "SCHEDULED", "REASON", "AGE"]
    assert row.split()[:5] == ["x", "fleet", "30", "30", "Placed"]
    w.kubectl("wait --for=jsonpath={.status.placed}=30 --timeout=20s vpodset/fleet")
    header, row = w.kubectl("get vpodset").splitlines()
    assert header.split() == ["NAME", "STATEFULSET", "REPLICAS", "USABLE", "PLACED", "PENDING", "FREE", "READY", "AGE"]
    assert row.split()[:3] == ["fleet", "fleet", "3"]
    assert row.split()[4:8] == ["30", "0", "0", "True"]
    both = w.kubectl("get vpod,vpodset -o name").split()
    assert both == ["vpod.waggle.dev/x", "vpodset.waggle.dev/fleet"]
    w.laws()


def test_a_vpod_is_spread_over_the_pods_that_it_wants(w: VPodCluster) -> None:
    """The set grows for distinct pods, too, and a bound for each pod holds."""
    w.fleet(replicas=1, capacity=10)
    w.vpod("x", 4, spread=3)
    eventually(lambda: len(w.placed("x")) == 3, lambda: str(w.placed("x")))  # on fewer until the third pod is there
    w.vpod("y", 6, maxPerPod=2)
    assert set(w.placed("y").values()) == {2}
    w.laws()


def test_replicas_that_somebody_else_sets_are_noticed_and_corrected(w: VPodCluster) -> None:
    """More than are needed are drained and taken away; where fewer were left than are needed, they come again."""
    w.fleet(replicas=3, capacity=10)
    for number in range(10):
        w.vpod(f"v{number}", 3)
    before = w.rest()
    noticed = sum(w.counted("waggle_vpods_foreign_scales_total").values())
    w.kubectl("scale statefulset fleet --replicas=6")
    eventually(lambda: w.replicas() == 3, lambda: f"{w.replicas()} replicas")
    assert w.rest() == before
    w.laws()
    w.kubectl("scale statefulset fleet --replicas=1")
    eventually(lambda: w.replicas() == 3, lambda: f"{w.replicas()} replicas")
    w.rest()
    assert w.held() == {"fleet-0": 10, "fleet-1": 10, "fleet-2": 10}
    w.laws("stranded", "lost")
    assert sum(w.counted("waggle_vpods_foreign_scales_total").values()) == noticed + 2
    eventually(lambda: w.events("fleet", "ForeignScale"), lambda: str(w.list("Event")))


def test_what_is_deleted_makes_room_at_once(w: VPodCluster) -> None:
    w.fleet(replicas=2, capacity=4, maxReplicas=2)
    w.vpod("first", 8)
    w.placed("first")
    w.vpod("late", 3)
    eventually(lambda: w.reason("late") == "NotEnoughRoom", lambda: str(w.vpods()["late"]))
    w.kubectl("delete vpod first --timeout=20s")
    assert sum(w.placed("late").values()) == 3
    eventually(lambda: w.replicas() == 1, "one pod is enough")
    assert placements(w.vpods()["late"]) == {"fleet-0": 3}
    w.laws()


def test_what_a_plan_prints_is_what_happens(w: VPodCluster) -> None:
    """`waggle vpods plan` before, and every version that the API server wrote after."""
    w.fleet(replicas=4, capacity=20, minReplicas=4)
    for number in range(8):
        w.vpod(f"v{number}", 8)
    w.rest()
    w.kubectl("annotate pod fleet-1 eventing.knative.dev/unschedulable=false")  # which says nothing
    planned = w.waggle_vpods("plan", "--close-pod", "fleet-1", "--output", "json")
    since = w.history.now(w.namespace)
    w.rest()
    assert w.moves(since=since) == 0  # a plan changes nothing
    w.kubectl("annotate --overwrite pod fleet-1 eventing.knative.dev/unschedulable=true")
    eventually(lambda: "fleet-1" not in w.held(), lambda: str(w.held()))
    w.rest()
    assert w.moves(since=since) == sum(planned["moves"].values()) > 0, planned
    shown = w.waggle_vpods("show", "--output", "json")
    assert {pod["name"]: pod["held"] for pod in shown["pods"] if pod["held"]} == w.held()
    w.laws()
