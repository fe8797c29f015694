"""Storms: many things in a short time, and what is left when they are over."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import httpx

from tests.conformance.vpods_adversary import pages
from tests.conformance.vpods_adversary.history import Object
from tests.conformance.vpods_adversary.judge import Judge, judged, placements
from tests.conformance.vpods_adversary.world import NODES, World

#: What a step may be, and how often compared with others.
STEPS = {
    "create": 12,
    "want": 16,
    "want_one_more": 8,
    "limit": 4,
    "delete": 5,
    "delete_and_create": 2,
    "foreign_scale": 3,
    "delete_pod": 4,
    "unready": 4,
    "ready": 4,
    "close": 2,
    "cordon": 3,
    "nonsense": 4,
    "bad_object": 2,
    "pause": 6,
    "inject": 8,
    "hold": 2,
    "cut": 2,
    "kill": 2,
    "compact": 1,
}
FAULTS = {"inject", "hold", "cut", "kill", "compact"}
#: Vpods that there may be, and seconds without a write of Waggle's after which it rests.
VPODS, STILL = 12, 3.0


class Storm:
    """`blow` does a number of steps; `rest` waits for the end of it, and judges."""

    def __init__(self, world: World, *, faults: bool = True) -> None:
        self.world = world
        self.faults = faults
        self.found: list[str] = []
        self.trace: list[str] = []
        self.did: Counter[str] = Counter()
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        self.trace.append(f"{time.monotonic() - self._began:7.3f} {len(self.world.history):5} {text}")

    def blow(self, rng: Random, steps: int) -> None:
        kinds = [kind for kind in STEPS if self.faults or kind not in FAULTS]
        with ThreadPoolExecutor(max_workers=6) as pool:
            futures = []
            for kind in rng.choices(kinds, [STEPS[kind] for kind in kinds], k=steps):
                step = Random(rng.random())
                self.did[kind] += 1
                futures.append(pool.submit(getattr(self, kind), step))
                time.sleep(step.choice((0, 0, 0.05, 0.2, 0.5)))
            for future in futures:
                future.result()

    # -- vpods --------------------------------------------------------------------------------------------------------

    def _wanted(self, rng: Random) -> int:
        room = max(each.capacity * each.most for each in self.world.draw.sets)
        return rng.choice((0, 1, 2, rng.randint(0, 12), rng.randint(0, max(1, room // 3)), rng.randint(0, room)))

    def _spec(self, rng: Random) -> Object:
        spec: Object = {"set": rng.choice(self.world.draw.sets).name, "vreplicas": self._wanted(rng)}
        if rng.random() < 0.2:
            spec["spread"] = rng.randint(0, 4)
        if rng.random() < 0.15:
            spec["maxPerPod"] = rng.randint(0, 4)
        return spec

    def _some(self, rng: Random) -> str:
        names = [
            name.removeprefix("default/v") for name in self.world.history.now("vpods") if name.startswith("default/v")
        ]
        return f"v{rng.choice(sorted(names))}" if names else "v0"

    def create(self, rng: Random) -> None:
        name, spec = f"v{rng.randrange(VPODS)}", self._spec(rng)
        self.note(f"create {name} {spec}: {self.world.create(name, spec).status_code}")

    def want(self, rng: Random) -> None:
        name, wanted = self._some(rng), self._wanted(rng)
        if rng.random() < 0.5:
            done = self.world.change(name, {"spec": {"replicas": wanted}}, "scale")
        else:
            done = self.world.change(name, {"spec": {"vreplicas": wanted}})
        self.note(f"{name} wants {wanted}: {done.status_code}")

    def want_one_more(self, rng: Random) -> None:
        """As KEDA does."""
        name = self._some(rng)
        for _ in range(rng.randint(1, 4)):
            vpod = self.world.history.now("vpods").get(f"default/{name}")
            if vpod is None:
                return
            wanted = vpod["spec"].get("vreplicas", 1) + rng.choice((1, 1, -1))
            self.note(f"{name} wants {wanted}, one after the other")
            self.world.change(name, {"spec": {"vreplicas": max(0, wanted)}})
            time.sleep(rng.choice((0, 0.05)))

    def limit(self, rng: Random) -> None:
        name, what = self._some(rng), rng.choice(({"spread": rng.randint(0, 4)}, {"maxPerPod": rng.randint(0, 4)}))
        self.note(f"{name} wants {what}: {self.world.change(name, {'spec': what}).status_code}")

    def delete(self, rng: Random) -> None:
        name = self._some(rng)
        self.note(f"delete {name}: {self.world.delete(name).status_code}")

    def delete_and_create(self, rng: Random) -> None:
        """The same name, another UID."""
        name = self._some(rng)
        self.note(f"delete {name} and create it: {self.world.delete(name).status_code}")
        self.world.create(name, self._spec(rng))

    def bad_object(self, rng: Random) -> None:
        spec = rng.choice(
            (
                {"set": "fleet", "vreplicas": -1},
                {"set": "fleet", "vreplicas": "three"},
                {"set": "fleet", "vreplicas": 2**31},
                {"set": ""},
                {"set": "a/b/c", "vreplicas": 2},
                {"vreplicas": 2},
                {"set": "Fleet", "vreplicas": 2},
                {"set": "fleet", "vreplicas": 2.5},
            )
        )
        made = self.world.create(f"bad-{rng.randrange(10**6)}", spec)
        self.note(f"create a bad vpod, {spec}: {made.status_code}")
        if made.status_code == 201:
            self.did["bad objects that were accepted"] += 1

    def nonsense(self, rng: Random) -> None:
        """Somebody writes into a status that only Waggle writes."""
        name = self._some(rng)
        workload = rng.choice(self.world.draw.sets).name
        entries = (
            {"podName": f"{workload}-99999999999", "vreplicas": 3},
            {"podName": "other-0", "vreplicas": 2},
            {"podName": f"{workload}-01", "vreplicas": 1},
            {"podName": "", "vreplicas": 1},
            {"podName": f"{workload}-0", "vreplicas": rng.randint(0, 3)},
            {"podName": f"{workload}-0", "vreplicas": 1},
            {"podName": f"{workload}-{rng.randint(1, 9)}", "vreplicas": 2},
            {"podName": f"{workload}-1"},
        )
        listed = rng.sample(entries, rng.randint(0, 4))
        done = self.world.change(name, {"status": {"placements": listed}}, "status")
        self.note(f"nonsense in {name}: {listed}: {done.status_code}")

    # -- the cluster --------------------------------------------------------------------------------------------------

    def foreign_scale(self, rng: Random) -> None:
        each = rng.choice(self.world.draw.sets)
        replicas = rng.randint(0, each.most + 1)
        self.note(f"scale {each.name} to {replicas}: {self.world.scale(each.name, replicas).status_code}")

    def _pod(self, rng: Random) -> Object | None:
        pods = [pod for pod in self.world.history.now("pods").values() if "deletionTimestamp" not in pod["metadata"]]
        return rng.choice(sorted(pods, key=lambda pod: pod["metadata"]["name"])) if pods else None

    def delete_pod(self, rng: Random) -> None:
        if pod := self._pod(rng):
            name = pod["metadata"]["name"]
            self.note(f"delete pod {name}")
            self.world.api.delete(f"pods/{name}", gracePeriodSeconds=rng.choice((0, 1)))

    def unready(self, rng: Random) -> None:
        if pod := self._pod(rng):
            self.note(f"unready {pod['metadata']['name']}")
            self.world.set_ready(pod, ready=False)

    def ready(self, rng: Random) -> None:
        for pod in self.world.history.now("pods").values():
            if rng.random() < 0.7 and "deletionTimestamp" not in pod["metadata"]:
                self.world.set_ready(pod, ready=True)
        self.note("some pods are ready again")

    def close(self, rng: Random) -> None:
        if pod := self._pod(rng):
            is_closed = rng.random() < 0.6
            self.note(f"close {pod['metadata']['name']}: {is_closed}")
            self.world.close(pod["metadata"]["name"], is_closed=is_closed)

    def cordon(self, rng: Random) -> None:
        node = f"n{rng.randrange(NODES)}"
        self.note(f"cordon {node}")
        self.world.cordon(node, is_cordoned=True)
        time.sleep(rng.choice((0.05, 0.5, 1.5)))
        if rng.random() < 0.8:
            self.world.cordon(node, is_cordoned=False)
            self.note(f"uncordon {node}")

    def pause(self, rng: Random) -> None:
        time.sleep(rng.choice((0.1, 0.5, 1.5)))

    # -- faults -------------------------------------------------------------------------------------------------------

    def compact(self, _: Random) -> None:
        self.note("compact")
        self.world.api.post("/debug/compact", {})

    def inject(self, rng: Random) -> None:
        """Something that the API server does wrong, a few times."""
        method = rng.choice(("PATCH", "PATCH", "PATCH", "GET", "LIST", "WATCH"))
        path = rng.choice(("/vpods", "/vpods", "/statefulsets", "/pods"))
        rule: dict[str, Any] = {"method": method, "path": path, "agent": "waggle", "times": rng.choice((1, 1, 2, 4))}
        kind = rng.choice(("status", "status", "delay", "drop-before", "drop-after", "cut", "garbage"))
        if method == "WATCH":
            kind = rng.choice(("watch-close", "watch-drop", "watch-expire", "watch-duplicate", "status", "delay"))
            rule["after"] = rng.choice((0, 1, 2, 3)) if kind != "watch-duplicate" else rng.choice((1, 2, 3))
        if kind == "status":
            rule["status"] = rng.choice((409, 429, 500, 503, 504, 403) if method != "WATCH" else (410, 429, 500))
            if rule["status"] == 429:
                rule["headers"] = {"Retry-After": "1"}
        if kind == "delay":
            rule["seconds"] = rng.choice((0.05, 0.3, 1.3))
        self.note(f"inject {kind} {rule}")
        self.world.cluster.faults.inject(kind, **rule)

    def hold(self, rng: Random) -> None:
        """Nothing gets from the API server to one server, nor back, for a while."""
        proxy, seconds = rng.choice(self.world.proxies), rng.choice((0.1, 0.5, 2.5))
        self.note(f"hold a server for {seconds} s")
        proxy.hold()
        time.sleep(seconds)
        proxy.resume()

    def cut(self, rng: Random) -> None:
        proxy, seconds = rng.choice(self.world.proxies), rng.choice((0, 0.1, 0.5))
        self.note(f"cut a server off for {seconds} s")
        proxy.cut()
        time.sleep(seconds)
        proxy.resume()

    def kill(self, rng: Random) -> None:
        if self.did["kill"] > 3:
            return
        replica = rng.choice(self.world.replicas)
        is_killed = rng.random() < 0.7
        self.note(f"{'kill' if is_killed else 'stop'} {replica.name}")
        self.world.restart(replica, kill=is_killed)
        self.note(f"{replica.name} has started again")

    # -- the end of it ------------------------------------------------------------------------------------------------

    def rest(self, seconds: float) -> None:
        """Waits until all is as it should be at rest. What is not so after that time becomes part of `found`."""
        self.world.heal()
        until = time.monotonic() + seconds
        wrong = ["nothing was looked at"]
        while wrong and time.monotonic() < until:
            time.sleep(0.2)
            self.world.heal_pods()
            wrong = self._wrong()
        judge = judged(self.world)
        self.found += judge.found or wrong
        self.did["writes of placements"], self.did["vreplicas moved"] = judge.writes, judge.moves
        self.did["vreplicas at rest"] = sum(sum(judge.held(each).values()) for each in judge.sets.values())

    def _wrong(self) -> list[str]:
        """Rest is a while without a write of Waggle's, in which nothing is wrong."""
        judge = judged(self.world)
        wrong = list(judge.at_rest())
        if wrong:
            return wrong
        before = len(self.world.history)
        time.sleep(STILL)
        more = [
            write for write in self.world.history.since(before) if write.kind in ("vpods", "statefulsets", "vpodsets")
        ]
        if more:
            return [f"it does not rest: {[(write.kind, write.name, write.revision) for write in more[:5]]}"]
        return [text for replica in self.world.replicas for text in self._page_faults(replica.url, judge)]

    @staticmethod
    def _page_faults(url: str, judge: Judge) -> list[str]:
        try:
            return list(pages.check(url, judge))
        except httpx.TransportError as error:
            return [f"{url} does not answer: {error!r}"]

    def restart_all(self) -> None:
        """All servers die, and start again: nothing is written."""
        before = len(self.world.history)
        placed = {name: placements(vpod) for name, vpod in self.world.history.now("vpods").items()}
        for replica in self.world.replicas:
            replica.kill()
        for replica in self.world.replicas:
            self.world.start(replica)
        self.world.await_ready()
        time.sleep(STILL + 4)
        now = {name: placements(vpod) for name, vpod in self.world.history.now("vpods").items()}
        if now != placed:
            self.found.append(f"a restart moved vreplicas: {placed}, then {now}")
        for write in self.world.history.since(before):
            if write.kind in ("vpods", "statefulsets"):
                self.found.append(f"a restart wrote {write.kind} {write.name}: {write.body}")
