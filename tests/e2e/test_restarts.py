"""Processes die in the middle: Waggle under kill -9, kube-scheduler under both signals. Nothing is lost or doubled."""

from __future__ import annotations

import time
from collections import Counter

from tests.e2e.gate import Call
from tests.e2e.world import RealCluster, eventually

NODES, PODS = 20, 200


def kill_waggle_at_bind(w: RealCluster, number: int) -> None:
    """From now on: the bind call of that number finds Waggle dead, and many others under way."""

    def play(call: Call) -> None:
        if len(w.gate.calls_of("bind")) == number and w.waggle is not None and w.waggle.alive:
            w.waggle.kill()

    w.gate.play(play)


def start_waggle_again(w: RealCluster) -> None:
    eventually(lambda: w.waggle is not None and not w.waggle.alive, "it was killed in the middle")
    w.gate.play(lambda call: None)
    w.start_waggle()


def test_waggle_is_killed_in_the_middle_of_200_pending_pods(w: RealCluster, record_property) -> None:
    w.nodes(NODES, gpus=10)
    names = [f"p{i:03}" for i in range(PODS)]
    kill_waggle_at_bind(w, PODS // 2)
    for name in names:
        w.pod(name, gpus=1)
    begun = time.monotonic()
    start_waggle_again(w)
    before = sum(map(bool, w.places(names)))
    w.all_placed(names)
    record_property("measured", f"{PODS - before} pods bound {time.monotonic() - begun:.1f} s after kill -9 of Waggle")
    assert set(Counter(w.places(names)).values()) == {10}


def test_a_gang_half_bound_when_waggle_dies_is_completed(w: RealCluster) -> None:
    w.nodes(6, gpus=8)
    kill_waggle_at_bind(w, 3)
    names = w.gang("g", 6, gpus=8)
    start_waggle_again(w)
    assert len(set(w.all_placed(names))) == 6


def test_what_was_bound_before_is_counted_after_a_restart(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("a", gpus=6)
    taken = w.place("a")
    assert w.waggle is not None
    w.waggle.kill()
    w.start_waggle()
    w.pod("b", gpus=6)
    assert w.place("b") != taken


def test_an_orderly_stop_finishes_what_is_being_bound(w: RealCluster) -> None:
    w.nodes(4)
    names = [f"p{i}" for i in range(40)]
    for name in names[:20]:
        w.pod(name)
    assert w.waggle is not None
    w.waggle.stop()
    w.start_waggle()
    for name in names[20:]:
        w.pod(name)
    w.all_placed(names)


def test_kube_scheduler_is_restarted(w: RealCluster) -> None:
    w.nodes(4)
    waiting = w.gang("g", 5, gpus=8)
    for name in waiting:
        w.refused(name)
    assert w.scheduler is not None
    w.scheduler.kill()
    names = [f"p{i}" for i in range(30)]
    for name in names:
        w.pod(name, gpus=1)
    w.start_scheduler()
    w.all_placed(names)
    for name in waiting:
        w.refused(name)


def test_kube_scheduler_dies_between_filter_and_bind(w: RealCluster) -> None:
    w.nodes(1)
    assert w.scheduler is not None
    scheduler = w.scheduler
    w.gate.play(lambda call: scheduler.kill() if call.verb == "bind" else None)
    w.pod("p", gpus=8)
    eventually(lambda: not scheduler.alive, "it died when it wanted to bind")
    w.gate.play(lambda call: None)
    w.start_scheduler()
    assert w.place("p") == "n0"


def test_both_die(w: RealCluster) -> None:
    w.nodes(4)
    names = w.gang("g", 4, gpus=8)
    w.all_placed(names)
    assert w.scheduler is not None
    assert w.waggle is not None
    w.scheduler.kill()
    w.waggle.kill()
    w.pod("late", gpus=1)
    w.start_waggle()
    w.start_scheduler()
    w.refused("late")
    w.delete("g-2", grace=0)
    w.place("late")
