"""Real processes, killed and stopped at any moment, through faults of the whole table: nothing is bound twice.

Two replicas of `waggle serve` behind one address, a kube-scheduler stand-in that calls it, and the embedded API server.
A replica is killed (SIGKILL), stopped for longer or shorter than its lease (SIGSTOP), and faults strike both. The seed
gives what is done and in which order; how far the processes are by then is chance.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.faults.table import LATE, pairs
from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.cluster.processes import ELECTION, Balancer, Replica, replicas

WAGGLE = "^waggle$"


class Chaos:
    """`chance` decides what comes next."""

    def __init__(self, w: LocalCluster, both: list[Replica], seed: int) -> None:
        self.w, self.both, self.chance = w, both, random.Random(seed)
        self.made = 0
        self.done: list[str] = []
        #: When whoever is stopped or dead comes back.
        self._back: dict[str, float] = {}

    def act(self) -> None:
        for replica in self.both:
            if self._back.get(replica.name, float("inf")) <= time.monotonic():
                del self._back[replica.name]
                (replica.resume if replica.paused else replica.start)()
        self.chance.choices([self.pods, self.delete, self.fault, self.harm], [8, 4, 6, 1])[0]()

    def pods(self) -> None:
        self.made += 1
        if self.chance.random() < 0.2:
            self.w.gang(f"g{self.made}", self.chance.choice([2, 4]), cpu="1")
        else:
            self.w.pod(f"p{self.made}", cpu=self.chance.choice(["1", "2"]))

    def delete(self) -> None:
        pods = [pod["metadata"]["name"] for pod in self.w.cluster.objects("pods")]
        if len(pods) > 12:
            self.w.cluster.delete("pods", self.chance.choice(pods), grace_period_seconds=0)

    def fault(self) -> None:
        pair = self.chance.choice(pairs())
        given = dict(pair.fault.rule)
        if given.get("seconds") == LATE:
            self.w.faults.clear()  # or one call would be as late as two rules together
        path = f"^(?=.*{given.pop('path', '')}){pair.operation.path}$"
        self.w.faults.inject(**given, method=pair.operation.method, path=path, agent=WAGGLE, times=2)
        if pair.operation.kind == "watch":
            self.w.cluster.end_watches(WAGGLE)
        self.done.append(str(pair))

    def harm(self) -> None:
        """The leader, mostly: for a moment, for about its deadline, or for longer than its lease."""
        unharmed = [replica for replica in self.both if replica.name not in self._back]
        leaders = [replica for replica in unharmed if replica.ready]
        victim = self.chance.choice(leaders or unharmed or [None])
        if victim is None:
            return
        how = self.chance.choice(["kill", "pause", "pause"])
        (victim.kill if how == "kill" else victim.pause)()
        # A process that was killed is not back before what it had sent last has arrived, or never will.
        self._back[victim.name] = time.monotonic() + self.chance.choice([1.5, 2.5, 6.0])
        self.done.append(f"{how} {victim.name}")

    def heal(self) -> None:
        self.w.faults.clear()
        for replica in self.both:
            if replica.name in self._back:
                (replica.resume if replica.paused else replica.start)()


def _served(w: LocalCluster, both: list[Replica]) -> Replica:
    """The leader, when it is quiet: every pod placed or told why not, and nothing differs."""

    def leader() -> Replica | None:
        w.settle()
        ready = [replica for replica in both if replica.ready]
        return ready[0] if len(ready) == 1 and all(map(_is_decided, w.cluster.objects("pods"))) else None

    found: Replica = w.until(leader, seconds=60)
    return found


def _is_decided(pod: dict) -> bool:
    conditions = pod["status"].get("conditions", [])
    return bool(pod["spec"].get("nodeName")) or any(
        c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message") for c in conditions
    )


def run(seed: int, seconds: float, folder: Path) -> None:
    sections = {
        "leader_election": ELECTION,
        "cluster": {"request_timeout_seconds": 1, "compare_seconds": 1},
        "holds": {"lease_seconds": 3, "verify_seconds": 0.5},
    }
    with (
        world(nodes=5, waggle=False) as w,
        replicas(2, w.cluster.url, folder, sections) as both,
        Balancer(both) as service,
    ):
        w.until(lambda: any(replica.ready for replica in both))
        w.start_scheduler(service.url, httpTimeout="3s")
        chaos, end = Chaos(w, both, seed), time.monotonic() + seconds
        while time.monotonic() < end:
            chaos.act()
            time.sleep(chaos.chance.uniform(0.0, 0.2))
        chaos.heal()
        try:
            _check(w, both)
            _check_bindings(w)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(chaos.done)) from error


def _check(w: LocalCluster, both: list[Replica]) -> None:
    leader = _served(w, both)
    for replica in (leader, *both):  # the one that waits knows as much, or learns it by being asked
        w.until(lambda replica=replica: _nothing_differs(replica) and _known(replica) == _true(w))


def _check_bindings(w: LocalCluster) -> None:
    """When nobody binds any more. What was proposed is known from kube-scheduler: it chose what its filter passed."""
    scheduler = w.scheduler
    w.stop_scheduler()
    assert not w.books.faults, w.books.faults
    bound = w.books.bindings
    assert len({each.uid for each in bound}) == len(bound), f"bound twice: {bound}"
    chosen = {(record.uid, record.node) for record in scheduler.attempts() if record.result == "chosen"}
    assert {(each.uid, each.node) for each in bound} <= chosen, "bound where it was never proposed"
    w.bound_by_others |= {each.pod for each in bound}


def _nothing_differs(replica: Replica) -> bool:
    try:
        return replica.client.get("/v1/inspect/cache/diff").json == {"items": []}
    except OSError:
        return False


def _known(replica: Replica) -> dict[str, str]:
    try:
        return {pod["name"]: pod["node"] for pod in replica.client.get("/v1/inspect/pods?state=Bound").json["items"]}
    except OSError:
        return {}


def _true(w: LocalCluster) -> dict[str, str]:
    pods = w.cluster.objects("pods")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_two_replicas_that_are_killed_and_stopped(seed: int, tmp_path: Path) -> None:
    run(seed, 25.0, tmp_path)
