"""A server that ends, however it ends, comes back with everything that it had decided."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import yaml

from extender.demo.cast import Process
from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.http.fixed_runtime import Client


def bound_view(w: LocalCluster) -> dict[str, str]:
    return {e.key.name: e.node for e in w.waggle.pod_infos() if e.node}


@pytest.mark.slow
def test_a_restart_in_the_midst_of_many_pods():
    with world(nodes=8, scheduler=True) as w:
        names = [f"p{i}" for i in range(30)]
        for name in names[:15]:
            w.pod(name)
        w.until(lambda: len(w.books.bindings) >= 3)
        w.stop_waggle()
        before = {each.pod: each.node for each in w.books.bindings}
        for name in names[15:]:
            w.pod(name)

        w.start_waggle()

        assert before.items() <= bound_view(w).items()
        w.until(lambda: w.all_bound(names))
        assert {name: w.node_of(name) for name in before} == before


def test_a_restarted_server_knows_who_is_where():
    with world(nodes=3) as w:
        names = [f"p{i}" for i in range(6)]
        for name in names:
            w.pod(name, cpu="2")
            w.place(name)
        w.pod("waits", cpu="2")
        assert not w.filter("waits")["NodeNames"]
        w.stop_waggle()

        w.start_waggle()

        assert bound_view(w) == {name: w.node_of(name) for name in names}
        assert not w.filter("waits")["NodeNames"]


def test_the_seats_of_a_gang_are_kept_over_a_restart():
    with world(nodes=3) as w:
        names = w.gang("g", 6, cpu="2")
        w.place("g-0")
        seats = {name: w.propose(name) for name in names[1:]}
        w.stop_waggle()
        w.start_waggle()
        w.pod("greedy", cpu="2")

        assert not w.filter("greedy")["NodeNames"]
        assert {name: w.place(name) for name in names[1:]} == seats


def test_a_proposal_that_was_not_bound_is_forgotten_over_a_restart():
    with world(nodes=1) as w:
        w.pod("p", cpu="4")
        node = w.propose("p")
        w.stop_waggle()
        w.start_waggle()

        assert "never proposed" in w.bind("p", node)
        w.place("p")


def test_a_binding_written_while_the_server_ends_is_known_to_the_next():
    with world(nodes=2) as w:
        w.pod("p")
        w.faults.inject("drop-after", method="POST", path="/binding$")
        w.faults.inject("status", status=500, times=None, method="GET", path="/pods/p$")
        node = w.propose("p")
        w.bind("p", node)
        w.stop_waggle()
        w.faults.clear()
        w.start_waggle()

        assert bound_view(w) == {"p": node}


def test_what_happened_while_nobody_served_is_known():
    with world(nodes=2) as w:
        w.pod("gone")
        w.pod("stays")
        w.place("gone")
        stays = w.place("stays")
        w.stop_waggle()
        w.cluster.delete("pods", "gone", grace_period_seconds=0)
        w.node("n2")
        w.pod("new")
        w.start_waggle()

        assert bound_view(w) == {"stays": stays}
        assert w.place("new")


class Served:
    """`waggle serve` as a process."""

    def __init__(self, w: LocalCluster, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.client = Client(f"http://127.0.0.1:{self.port}")
        self._folder, self._world = folder, w
        self._config = folder / "waggle.yaml"
        self._config.write_text(
            yaml.safe_dump({"server": {"port": self.port}, "cluster": {"server": w.cluster.url, "compare_seconds": 0}})
        )
        self.process: Process | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", str(self._config)]
        self.process = Process("waggle", command, self._folder, verbose=False)
        self._world.until(self._ready)

    def _ready(self) -> bool:
        assert self.process is not None
        self.process.check()
        try:
            return self.client.get("/readyz").status == 200
        except OSError:
            return False


@pytest.mark.slow  # two processes; the other restarts are of servers in this one
def test_a_killed_process_comes_back_with_everything(tmp_path: Path):
    with world(nodes=8, waggle=False) as w:
        served = Served(w, tmp_path)
        served.start()
        try:
            w.start_scheduler(served.client.url)
            gang = w.gang("g", 4)
            names = [f"p{i}" for i in range(20)]
            for name in names[:10]:
                w.pod(name)
            w.until(lambda: len(w.books.bindings) >= 4)
            served.process.kill()
            for name in names[10:]:
                w.pod(name)
            before = {each.pod: each.node for each in w.books.bindings}
            served.start()
            w.until(lambda: w.all_bound([*names, *gang]))
            w.settle()

            known = {
                pod["name"]: pod["node"] for pod in served.client.get("/v1/inspect/pods?state=Bound").json["items"]
            }
            assert before.items() <= known.items()
            assert known == {name: w.node_of(name) for name in [*names, *gang]}
            assert served.client.get("/v1/inspect/cache/diff").json == {"items": []}
            chosen = {(r.uid, r.node) for r in w.scheduler.attempts() if r.result == "chosen"}
            assert {(each.uid, each.node) for each in w.books.bindings} <= chosen
            w.bound_by_others |= {each.pod for each in w.books.bindings}
        finally:
            served.process.stop()
