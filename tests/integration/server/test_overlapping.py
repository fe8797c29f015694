"""Two clients that filter and bind the same pods at the same time: as after a time-out, or two kube-schedulers."""

from __future__ import annotations

import random
import threading

from tests.support.apiserver.api import eventually
from tests.support.cluster.local_cluster import LocalCluster, world


def in_threads(*work) -> None:
    """Runs all at once; the first failure is raised."""
    failures: list[BaseException] = []

    def run(each) -> None:
        try:
            each()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failures:
        raise failures[0]


def client(w: LocalCluster, names: list[str], seed: int):
    """Filters and binds each pod once, in an order of its own."""
    bodies = {name: w.get(name) for name in names}
    nodes = [node["metadata"]["name"] for node in w.cluster.objects("nodes")]

    def work() -> None:
        chance = random.Random(seed)
        for name in chance.sample(names, len(names)):
            answer = w.post("filter", {"Pod": bodies[name], "NodeNames": chance.sample(nodes, len(nodes))})
            for node in answer["NodeNames"] or []:
                w.bind(name, node, PodUID=bodies[name]["metadata"]["uid"])

    return work


def test_fifty_pods_are_bound_once_each():
    with world(nodes=6, cpu="8") as w:
        names = [f"p{i}" for i in range(50)]
        for name in names:
            w.pod(name)

        in_threads(client(w, names, 1), client(w, names, 2))

        w.until(lambda: not w.waggle.holds())
        assert sum(map(bool, w.places(names))) == 48
        assert len({e.node for e in w.waggle.pod_infos() if e.node}) == 6


def test_gangs_are_placed_whole_all_the_same():
    with world(nodes=4) as w:
        gangs = [w.gang(f"g{i}", 4, cpu="2") for i in range(3)]
        names = [name for gang in gangs for name in gang]
        # These clients ask once. A member of a gang that Waggle has not seen all of has to be asked about again.
        w.until(lambda: len(w.waggle.pod_infos()) == len(names))

        in_threads(client(w, names, 1), client(w, names, 2))

        placed = [sum(map(bool, w.places(gang))) for gang in gangs]
        assert sorted(placed) == [0, 4, 4]


def test_the_same_bind_many_times_is_one_write():
    with world(nodes=2) as w:
        w.pod("p")
        w.faults.inject("delay", seconds=0.2, method="POST", path="/binding$")
        node, errors = w.propose("p"), []

        in_threads(*[lambda: errors.append(w.bind("p", node)) for _ in range(8)])

        assert errors == [""] * 8
        eventually(lambda: w.waggle.counted("binds") == {"done": 1})


def test_pods_deleted_and_made_again_while_they_are_placed():
    with world(nodes=2) as w:
        stop = threading.Event()

        def churn() -> None:
            for _ in range(15):
                if w.cluster.get("pods", "p") is not None:
                    w.cluster.delete("pods", "p", grace_period_seconds=0)
                w.pod("p")
            stop.set()

        def serve() -> None:
            while not stop.is_set():
                pod = w.cluster.get("pods", "p")
                if pod is None:
                    continue
                for node in w.post("filter", {"Pod": pod, "NodeNames": ["n0", "n1"]})["NodeNames"] or []:
                    w.bind("p", node, PodUID=pod["metadata"]["uid"])

        in_threads(churn, serve, serve)

        w.until(lambda: w.place("p"))
