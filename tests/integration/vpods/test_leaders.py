"""Two replicas: one leads, the other takes over where it stopped; a restart or another leader moves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver.api import eventually
from tests.support.cluster.processes import ELECTION, replicas
from tests.support.cluster.vpod_world import VPodWorld, vpod_world

QUICK_ELECTION = {**ELECTION, "lease_seconds": 2, "renew_deadline_seconds": 1.5, "retry_seconds": 0.2}


@contextmanager
def two_replicas(**more: Any) -> Iterator[VPodWorld]:
    with vpod_world(sections={"leader_election": QUICK_ELECTION}, **more) as w:
        w.leader()
        w.serve()
        yield w


def follower(w: VPodWorld) -> str:
    return next(each.vpods.readiness().detail for each in w.servers if not each.places)


def test_one_leads_and_the_other_is_ready_and_says_who_leads() -> None:
    with two_replicas() as w:
        assert [each.places for each in w.servers] == [True, False]
        assert follower(w).startswith("the lease is held by ")
        assert w.servers[1].http.get("/readyz").status_code == 200
        lease = w.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/waggle-vpods")
        assert lease.status_code == 200  # of its own name: the extender's replicas may be others
        w.add_vpod("a", 6)
        w.placed("a", 6)
        writes = [each.vpods.runtime.look(lambda engine, _: engine.state.next_token()) for each in w.servers]
        assert writes[0] > 1
        assert writes[1] == 1  # a follower decides nothing


def test_another_leader_moves_nothing_and_goes_on() -> None:
    with two_replicas(replicas=5, min_replicas=5) as w:
        for number in range(20):
            w.add_vpod(f"v{number}", 2)
        for number in range(20):
            w.placed(f"v{number}", 2)
        w.resting()
        before = {f"v{number}": w.placements(f"v{number}") for number in range(20)}
        w.end(w.leader())
        w.leader()
        w.resting()
        assert {name: w.placements(name) for name in before} == before
        w.want("v0", 4)
        w.placed("v0", 4)
        assert w.witness is not None
        assert w.witness.moves.total() == 0


@pytest.mark.parametrize("vpods", [40, *(pytest.param(vpods, marks=pytest.mark.slow) for vpods in (100, 1000))])
def test_a_restart_with_many_vpods_moves_nothing(vpods: int) -> None:
    with vpod_world(replicas=10, capacity=vpods // 4, min_replicas=10, is_witnessed=False) as w:
        for number in range(vpods):
            w.add_vpod(f"v{number}", 2)
        eventually(lambda: w.held().total() == 2 * vpods, seconds=60)
        w.resting()
        before = w.versions()
        w.end(w.server)
        w.serve()
        eventually(lambda: w.server.places)
        w.resting()
        assert w.versions() == before  # not a single write


@pytest.mark.slow  # two processes
def test_a_leader_that_is_killed_in_the_middle_of_a_drain(tmp_path: Path) -> None:
    """SIGKILL of a process; another one finishes the drain, and loses nothing."""
    with vpod_world(replicas=6, capacity=10, serve=False, scale_down_seconds=0.2, min_replicas=1, max_moves=1) as w:
        settings = w.settings().model_dump(mode="json", include={"vpods", "extender"})
        sections = {**settings, "leader_election": {**QUICK_ELECTION, "namespace": "default"}}
        with replicas(2, w.cluster.url, tmp_path, sections) as both:
            for number in range(12):
                w.add_vpod(f"v{number}", 5)
            eventually(lambda: w.held().total() == 60, seconds=60)
            w.cluster.faults.inject("delay", seconds=0.1, method="PATCH", path="/vpods/.*/status", times=None)
            for number in range(4, 12):
                w.want(f"v{number}", 1)
            eventually(lambda: w.held()["fleet-5"] < 10 and w.replicas() == 6)
            holder = w.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/waggle-vpods").json()
            leader = next(each for each in both if each.name in holder["spec"]["holderIdentity"])
            leader.kill()
            w.cluster.faults.clear()
            eventually(lambda: w.replicas() == 3, seconds=60)
            eventually(lambda: w.held().total() == 28 and set(w.held()) == {"fleet-0", "fleet-1", "fleet-2"})


@pytest.mark.slow
def test_a_leader_that_hangs_decides_nothing_when_it_goes_on(tmp_path: Path) -> None:
    """SIGSTOP for longer than its lease: the other one leads meanwhile, and both never decide at once."""
    with vpod_world(replicas=3, capacity=10, serve=False, min_replicas=3) as w:
        settings = w.settings().model_dump(mode="json", include={"vpods", "extender"})
        sections = {**settings, "leader_election": {**QUICK_ELECTION, "namespace": "default"}}
        lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/waggle-vpods"
        with replicas(2, w.cluster.url, tmp_path, sections) as both:
            w.add_vpod("a", 6)
            before = w.placed("a", 6)
            holder = w.api.get(lease).json()["spec"]["holderIdentity"]
            leader = next(each for each in both if each.name in holder)
            leader.pause()
            w.add_vpod("b", 6)
            w.placed("b", 6)
            assert w.api.get(lease).json()["spec"]["holderIdentity"] != holder
            leader.resume()
            for number in range(4):
                w.add_vpod(f"v{number}", 3)
                w.placed(f"v{number}", 3)
            assert w.placements("a") == before
            assert w.witness is not None
            assert w.witness.moves.total() == 0
