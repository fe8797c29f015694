"""A seeded mixture of everything that may go wrong, for some seconds; at the end every pod runs or waits for a reason.

Pods and gangs come and go, faults of the whole table strike, the line to the API server is held up, Waggle is restarted
or cut off and ended. Which threads come first is chance, so a seed gives the same plan and not the same run. A failure
names its seed.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any

import pytest

from extender.embedded.apiserver.errors import ApiError
from tests.faults.arena import TIMING
from tests.faults.table import LATE, pairs
from tests.support.apiserver.proxy import Proxy
from tests.support.cluster.local_cluster import LocalCluster, world

NODES, CPUS = 5, 4
WAGGLE = "^waggle$"
PAIRS = [pair for pair in pairs() if pair.operation.by in ("informer", "committer", "hints")]


class Chaos:
    """Makes and deletes pods, breaks the API server, ends and starts Waggle; `chance` decides what comes next."""

    def __init__(self, w: LocalCluster, line: Proxy, seed: int) -> None:
        self.w, self.chance, self.line = w, random.Random(seed), line
        self._made = 0
        self._acts: list[tuple[Callable[[], object], int]] = [
            (self.pod, 8),
            (self.gang, 2),
            (self.delete, 4),
            (self.break_something, 12),
            (self.partition, 1),
            (self.crash, 1),
            (self.touch_node, 1),
            (self.add_node, 1),
            (self.restart, 1),
        ]

    def act(self) -> None:
        acts, weights = zip(*self._acts, strict=True)
        [chosen] = self.chance.choices(acts, weights)
        chosen()

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def pod(self) -> None:
        seconds = self.chance.choice([None, None, "0.5"])
        annotations = {"waggle.dev/run-seconds": seconds} if seconds else {}
        priority = self.chance.choice([0, 0, 0, 100])
        self.w.pod(self._name("p"), cpu=self.chance.choice(["1", "1", "2"]), priority=priority, annotations=annotations)

    def gang(self) -> None:
        size = self.chance.choice([2, 4, 4, 9])
        self.w.gang(self._name("g"), size, cpu="2", priority=self.chance.choice([0, 100]))

    def delete(self) -> None:
        pods = [pod["metadata"]["name"] for pod in self.w.cluster.objects("pods")]
        for name in self.chance.sample(pods, min(len(pods), 2)):
            try:
                self.w.cluster.delete("pods", name)
            except ApiError as error:
                if error.code != HTTPStatus.NOT_FOUND:  # it may have ended since it was listed
                    raise

    def break_something(self) -> None:
        """A fault of the table, for the next calls that it fits."""
        pair = self.chance.choice(PAIRS)
        given = dict(pair.fault.rule)
        if given.get("seconds") == LATE:
            self.w.faults.clear()  # or one call would be as late as two rules together
        path = f"^(?=.*{given.pop('path', '')}){pair.operation.path}$"
        if "after" in given:
            given["after"] = self.chance.randrange(1, 6)
        self.w.faults.inject(**given, method=pair.operation.method, path=path, agent=WAGGLE, times=2)
        if pair.operation.kind == "watch":
            self.w.cluster.end_watches(WAGGLE)
        elif pair.operation.kind == "list":
            self.w.cluster.compact()

    def partition(self) -> None:
        """Nothing arrives for a while, in either direction; then all of it does."""
        self.line.hold()
        time.sleep(self.chance.uniform(0.0, 0.8))
        self.line.resume()

    def touch_node(self) -> None:
        name = f"n{self.chance.randrange(NODES)}"
        self.w.cluster.patch("nodes", name, {"metadata": {"labels": {"touched": str(self._made)}}})

    def add_node(self) -> None:
        if self._made < 40:
            amounts = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
            self.w.cluster.create({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": self._name("extra")},
                "status": {"capacity": amounts, "allocatable": amounts},
            })  # fmt: skip

    def restart(self) -> None:
        self.w.stop_waggle()
        self.w.start_waggle(wait=False)

    def crash(self) -> None:
        """From the API server's side: what it had under way ends in its midst, and nothing more comes.

        It is not back before the last that it sent was carried out (see docs/reliability.md, what is not covered).
        """
        self.line.cut()
        self.w.stop_waggle()
        time.sleep(LATE)
        self.line.resume()
        self.w.start_waggle(wait=False)


def run(seed: int, seconds: float) -> None:
    print(f"seed {seed}")
    settings = {"cluster": {"request_timeout_seconds": 2, "compare_seconds": 0.5}, "holds": {"lease_seconds": 3}}
    with Proxy("http://127.0.0.1:1") as line:

        def interpose(w: LocalCluster) -> None:
            line.redirect(w.cluster.url)
            w._sections["cluster"]["server"] = line.url

        made = world(nodes=NODES, cpu=str(CPUS), scheduler=True, timing=TIMING, prepare=interpose, **settings)
        _run(line, seed, seconds, made)


def _run(line: Proxy, seed: int, seconds: float, made: AbstractContextManager[LocalCluster]) -> None:
    with made as w:
        w.may_count.add("waggle_cache_healed_total")  # an event that was swallowed is found by comparing
        chaos, end = Chaos(w, line, seed), time.monotonic() + seconds
        while time.monotonic() < end:
            chaos.act()
            time.sleep(chaos.chance.uniform(0.0, 0.06))
        w.faults.clear()
        w.waggle.wait_ready()
        w.until(lambda: _all_settled(w))
        w.until(lambda: not _split(w.cluster.objects("pods")), seconds=15)


def _all_settled(w: LocalCluster) -> bool:
    """Every pod runs, or has been told by kube-scheduler why not."""
    w.settle()
    conditions = {
        pod["metadata"]["name"]: w.condition(pod["metadata"]["name"])
        for pod in w.cluster.objects("pods")
        if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
    }
    return all(
        found and found.get("reason") == "Unschedulable" and found.get("message") for found in conditions.values()
    )


def _split(pods: list[Any]) -> list[str]:
    """Gangs of which some members run and others wait, though nothing of a higher priority took a seat of theirs.

    A gang may wait for the victims of its preemption, or to be asked about again: then it is whole a while later.
    A pod of a higher priority may take a seat that is held (docs/algorithm-packing.md): then it stays split.
    """
    gangs: dict[str, list[Any]] = {}
    for pod in pods:
        annotations = pod["metadata"].get("annotations", {})
        if "waggle.dev/gang" in annotations and not pod["metadata"].get("deletionTimestamp"):
            gangs.setdefault(annotations["waggle.dev/gang"], []).append(pod)
    return [
        f"gang {name} is split: {[pod['spec'].get('nodeName', '') for pod in members]}"
        for name, members in gangs.items()
        if len(members) == int(members[0]["metadata"]["annotations"]["waggle.dev/gang-min"])
        and any(pod["spec"].get("nodeName") for pod in members)
        and any(not pod["spec"].get("nodeName") and not _lost_its_seat(pod, members, pods) for pod in members)
    ]


def _lost_its_seat(member: Any, members: list[Any], pods: list[Any]) -> bool:
    """Whether the waiting member would fit into its seat, and does not because of pods of a higher priority there."""
    texts = [pod["metadata"]["annotations"].get("waggle.dev/gang-plan") for pod in members]
    plan = max((json.loads(text) for text in texts if text), key=lambda plan: plan["generation"], default={"seats": {}})
    seat, needs = plan["seats"].get(member["metadata"]["uid"], ""), _cpu(member)
    running = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    there = [pod for pod in running if seat and pod["spec"].get("nodeName") == seat]
    higher = sum(_cpu(pod) for pod in there if pod["spec"]["priority"] > member["spec"]["priority"])
    return needs > CPUS - sum(map(_cpu, there)) >= needs - higher


def _cpu(pod: Any) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_mixture_of_faults(seed: int):
    run(seed, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
def test_a_longer_mixture_of_faults(seed: int):
    run(seed, 20.0)
