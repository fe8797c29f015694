"""Storms: many things at once, and what is left when they are over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from tests.conformance.claims_adversary import judge, objects
from tests.conformance.claims_adversary.callers import Ask, Object
from tests.conformance.claims_adversary.world import FLAVOURS, POOLS, World

Action = Callable[[Random], None]
#: What a step may be, and how often compared with others.
STEPS = {
    "claim": 30,
    "claim_later": 5,
    "leave": 4,
    "repeat": 4,
    "release": 12,
    "release_key": 2,
    "renew": 4,
    "create_object": 3,
    "renew_object": 1,
    "delete_object": 2,
    "look": 4,
    "delete_pod": 3,
    "unready": 2,
    "ready": 2,
    "cordon": 1,
    "scale": 2,
    "inject": 6,
    "hold": 2,
    "cut": 1,
    "restart": 1,
    "compact": 1,
}
TENANTS = ("", "t1", "t2")


class Storm:
    """`blow` does a number of steps at once; `rest` waits for the end of it, and judges."""

    def __init__(self, world: World, *, faults: bool = True) -> None:
        self.world = world
        self.faults = faults
        self.found: list[str] = []
        self.trace: list[str] = []
        self.did: Counter[str] = Counter()
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        self.trace.append(f"{time.monotonic() - self._began:7.3f} {text}")

    def blow(self, rng: Random, steps: int) -> None:
        kinds = [kind for kind in STEPS if self.faults or kind not in ("inject", "hold", "cut", "restart", "compact")]
        drawn = rng.choices(kinds, [STEPS[kind] for kind in kinds], k=steps)
        with ThreadPoolExecutor(max_workers=24) as pool:
            futures = []
            for kind in drawn:
                step = Random(rng.random())
                futures.append(pool.submit(getattr(self, kind), step))
                self.did[kind] += 1
                time.sleep(step.choice((0, 0, 0, 0.002, 0.01, 0.04)))
            for future in futures:
                future.result()

    # -- what callers do ----------------------------------------------------------------------------------------------

    def _server(self, rng: Random) -> int:
        """Mostly one that is not being restarted."""
        now = time.monotonic()
        here = [each.number for each in self.world.instances if not each.was_down(now, now)]
        return rng.choice(here) if here and rng.random() < 0.9 else rng.randrange(len(self.world.instances))

    def _body(self, rng: Random, pool: str) -> Object:
        body: Object = {"wait_seconds": rng.choice((0, 0.2, 0.5, 1, 2))}
        if rng.random() < 0.3:
            body["count"] = rng.choice((1, 2, 2, 3, 5))
        if rng.random() < 0.6:
            body["tenant"] = rng.choice(TENANTS[1:])
        if rng.random() < 0.3:
            body["priority"] = rng.choice((-5, 1, 9))
        if rng.random() < 0.3:
            body["requires"] = {"flavour": rng.choice((*FLAVOURS, *FLAVOURS, "none"))}
        if rng.random() < 0.5:
            body["lease_seconds"] = rng.choice((0.3, 1, 2, 600))
        if rng.random() < 0.2:
            body["on_empty"] = "fail"
        elif pool not in self.world.draw.objects and rng.random() < 0.1:
            body["on_empty"] = "cold"
        if self.world.draw.modes[pool] == "recycle" and rng.random() < 0.2:
            body["images"] = {"main": rng.choice(("warm:1", "app:1", "app:2"))}
        if rng.random() < 0.4:
            body["key"] = f"k{rng.random()}"
        return body

    def _judged(self, ask: Ask) -> Ask:
        self.note(str(ask))
        self.found += judge.check_answer(self.world, ask)
        return ask

    def claim(self, rng: Random) -> None:
        pool = rng.choice(POOLS)
        ask = self._judged(self.world.callers.claim(self._server(rng), pool, self._body(rng, pool)))
        if ask.status == 201 and rng.random() < 0.6:
            time.sleep(rng.choice((0, 0.05, 0.2, 0.5)))
            self._release(rng, ask)

    def claim_later(self, rng: Random) -> None:
        """202, and then the claim is asked for until it has ended."""
        pool, server = rng.choice(POOLS), self._server(rng)
        body = self._body(rng, pool)
        ask = self._judged(self.world.callers.claim(server, pool, body, prefer="respond-async"))
        if ask.status != 202:
            return
        until = (
            time.monotonic()
            + body["wait_seconds"]
            + judge.GRACE
            + (11 if "images" in body or "on_empty" in body else 0)
        )
        while time.monotonic() < until:
            answer = self.world.callers.call("GET", server, f"/v1/claims/{ask.claim}", params={"wait": 0.5})
            if answer is None or answer.status_code != 200 or answer.json()["state"] not in ("waiting", "claiming"):
                self.note(f"{ask.name} later: {answer and answer.text}")
                if answer is not None and answer.status_code == 200 and answer.json()["state"] == "claimed":
                    later = Ask(ask.name, server, pool, ask.body, ask.sent, True, time.monotonic(), 201, answer.json())
                    self.found += judge.check_claimed(self.world, later)
                return
            if rng.random() < 0.2:
                self._release(rng, ask)
                return
        self.found.append(f"it still waits: {ask}: {answer and answer.text}")

    def leave(self, rng: Random) -> None:
        pool = rng.choice(POOLS)
        after = rng.choice((0, 0.005, 0.02, 0.1, 0.5))
        ask = self.world.callers.claim(self._server(rng), pool, self._body(rng, pool), leave_after=after)
        self.note(f"{ask} left after {after} s")
        self.found += judge.check_answer(self.world, ask)

    def _some(self, rng: Random, wanted: Callable[[Ask], bool]) -> Ask | None:
        asks = [ask for ask in list(self.world.callers.asks) if wanted(ask)][-12:]
        return rng.choice(asks) if asks else None

    def repeat(self, rng: Random) -> None:
        """The same key: with the same body, or another one."""
        old = self._some(rng, lambda ask: "key" in ask.body and (ask.answered > 0 or not ask.left))
        if old is None:
            return
        body = {name: value for name, value in old.body.items() if name not in ("labels", "annotations")}
        differs = rng.random() < 0.3
        if differs:
            body["priority"] = body.get("priority", 0) + 1
        callers = self.world.callers
        again = callers.claim(old.server, old.pool, body, repeats=old.name)
        self._judged(again)
        lived = not self.world.instances[old.server].was_down(old.sent, again.answered)
        mine = self.world.ledger.of(old.claim)
        stood = bool(mine) and all(spell.over is None or spell.over > again.answered for spell in mine)
        if old.status == 201 and stood and lived and callers.released_at(old) is None and again.status:
            if differs and again.code != "KeyReused":
                self.found.append(f"another body with the same key: {old}; {again}")
            if not differs and (again.status != 201 or again.claim != old.claim):
                self.found.append(f"the same key and body: {old}; {again}")

    def _release(self, rng: Random, ask: Ask) -> None:
        server = self._server(rng) if rng.random() < 0.3 else ask.server
        sent = time.monotonic()
        answer = self.world.callers.release(server, ask.claim, by_delete=rng.random() < 0.5)
        self.note(f"release {ask.name} {ask.claim} at {server}: {answer and answer.text[:200]}")
        if answer is None:
            return
        if answer.status_code not in (200, 404, 410, 503, 504):
            self.found.append(f"release of {ask}: {answer.status_code} {answer.text}")
        if answer.status_code in (404, 410) and answer.json().get("code") not in ("UnknownClaim", "ClaimEnded"):
            self.found.append(f"release of {ask}: no code in {answer.status_code} {answer.text}")
        mine = self.world.ledger.of(ask.claim)
        is_live = mine and all(spell.is_live and spell.began < sent - 2 for spell in mine)
        if is_live and answer.status_code != 200 and not self.world.instances[server].downs:
            self.found.append(f"release of {ask}, which lives: {answer.text}")

    def release(self, rng: Random) -> None:
        ask = self._some(rng, lambda ask: ask.status in (201, 202))
        if ask is not None:
            self._release(rng, ask)

    def release_key(self, rng: Random) -> None:
        ask = self._some(rng, lambda ask: "key" in ask.body)
        if ask is not None:
            answer = self.world.callers.release_key(ask.server, ask)
            self.note(f"release key of {ask.name}: {answer and answer.text[:200]}")

    def renew(self, rng: Random) -> None:
        ask = self._some(rng, lambda ask: ask.status == 201)
        if ask is None:
            return
        lease = rng.choice((0.5, 2, 900))
        sent, wall = time.monotonic(), time.time()
        answer = self.world.callers.call(
            "POST", ask.server, f"/v1/claims/{ask.claim}/renew", json={"lease_seconds": lease}
        )
        self.note(f"renew {ask.name} {ask.claim} for {lease}: {answer and answer.text[:300]}")
        if answer is None:
            return
        if answer.status_code == 200:
            self._check_renewed(ask, lease, sent, wall, answer.json())
        elif answer.status_code not in (404, 410, 503, 504):
            self.found.append(f"renewal of {ask}: {answer.status_code} {answer.text}")

    def _check_renewed(self, ask: Ask, lease: float, sent: float, wall: float, answer: Object) -> None:
        """A claim that was said to be renewed did not end before the renewal."""
        ended, by = self.world.callers.ended.get(ask.claim, (sent, -1))
        if ended < sent and by == ask.server:
            self.found.append(f"renewed after its release: {ask}, {answer}")
        for spell in self.world.ledger.of(ask.claim):
            if spell.over is None and answer["state"] == "claimed" and spell.expires < wall + min(lease, 1) - 0.1:
                self.found.append(f"renewed for {lease} s, and the pod says otherwise: {ask}, {spell}, {answer}")

    def create_object(self, rng: Random) -> None:
        self.note(f"create {objects.create(self.world, rng)}")

    def renew_object(self, rng: Random) -> None:
        if name := objects.some(self.world, rng):
            self.note(f"renew {name}")
            objects.renew(self.world, name, rng)

    def delete_object(self, rng: Random) -> None:
        if name := objects.some(self.world, rng):
            self.note(f"delete {name}")
            objects.delete(self.world, name)

    # -- what else happens --------------------------------------------------------------------------------------------

    def look(self, rng: Random) -> None:
        number = self._server(rng)
        instance = self.world.instances[number]
        began = time.monotonic()
        try:
            self.found += judge.check_look(self.world, number)
        except (OSError, ValueError) as error:
            if not instance.was_down(began, time.monotonic()):
                self.found.append(f"server {number} shows nothing: {error}")

    def delete_pod(self, rng: Random) -> None:
        pod = self.world.pod(rng, claimed=rng.random() < 0.5)
        if pod is None:
            return
        self.world.touched.add(pod.uid)
        if rng.random() < 0.3:
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": "default"},
            }
            done = self.world.api.post(f"pods/{pod.name}/eviction", body)
        else:
            done = self.world.api.delete(f"pods/{pod.name}", gracePeriodSeconds=rng.choice((0, 1)))
        self.note(f"delete pod {pod.name}: {done.status_code}")

    def unready(self, rng: Random) -> None:
        pod = self.world.pod(rng, claimed=rng.random() < 0.3)
        if pod is not None:
            self.note(f"unready {pod.name}")
            self.world.set_ready(pod, ready=False)

    def ready(self, rng: Random) -> None:
        for pod in list(self.world.ledger.pods.values()):
            if not pod.is_gone and not pod.is_ready and pod.now.get("status", {}).get("phase") == "Running":
                self.note(f"ready {pod.name}")
                self.world.set_ready(pod, ready=True)

    def cordon(self, rng: Random) -> None:
        node = rng.choice(list(FLAVOURS.values()))
        self.note(f"cordon {node}")
        self.world.cordon(node, is_cordoned=True)
        time.sleep(rng.choice((0.05, 0.3)))
        if rng.random() < 0.7:
            self.world.cordon(node, is_cordoned=False)

    def scale(self, rng: Random) -> None:
        pool, flavour, replicas = rng.choice(POOLS), rng.choice(list(FLAVOURS)), rng.choice((0, 1, 2, 4, 6))
        self.note(f"scale {pool}-{flavour} to {replicas}")
        self.world.scale(pool, flavour, replicas)

    def compact(self, rng: Random) -> None:
        self.note("compact")
        self.world.api.post("/debug/compact", {})

    def inject(self, rng: Random) -> None:
        """Something that the API server does wrong, a few times."""
        times = rng.choice((1, 1, 2, 4))
        method = rng.choice(("PATCH", "PATCH", "DELETE", "GET", "LIST", "WATCH"))
        rule: dict[str, Any] = {"method": method, "path": "/pods", "agent": "waggle", "times": times}
        kind = rng.choice(("status", "status", "delay", "drop-before", "drop-after", "cut", "garbage"))
        if method == "WATCH":
            kind = rng.choice(("watch-close", "watch-drop", "watch-expire", "watch-duplicate", "status", "delay"))
            rule["after"] = rng.choice((0, 1, 2, 3)) if kind != "watch-duplicate" else rng.choice((1, 2, 3))
        if kind == "status":
            rule["status"] = rng.choice((409, 429, 429, 500, 503, 504) if method != "WATCH" else (410, 429, 500))
            if rule["status"] == 429:
                rule["headers"] = {"Retry-After": "1"}
        if kind == "delay":
            rule["seconds"] = rng.choice((0.05, 0.3, 1.3))
        self.note(f"inject {kind} {rule}")
        self.world.cluster.faults.inject(kind, **rule)

    def hold(self, rng: Random) -> None:
        """Nothing gets from the API server to one server, nor back, for a while."""
        instance = self.world.instances[self._server(rng)]
        seconds = rng.choice((0.05, 0.2, 0.7))
        self.note(f"hold {instance.number} for {seconds} s")
        instance.proxy.hold()
        time.sleep(seconds)
        instance.proxy.resume()

    def cut(self, rng: Random) -> None:
        instance = self.world.instances[self._server(rng)]
        self.note(f"cut {instance.number}")
        instance.proxy.cut()
        time.sleep(rng.choice((0, 0.1, 0.5)))
        instance.proxy.resume()

    def restart(self, rng: Random) -> None:
        instance = self.world.instances[self._server(rng)]
        if len(instance.downs) >= 3:
            return
        self.note(f"restart {instance.number}")
        self.world.restart(instance, kill=rng.random() < 0.7, pause=rng.choice((0, 0.2)))
        self.note(f"restarted {instance.number}")

    # -- the end of it ------------------------------------------------------------------------------------------------

    def rest(self, seconds: float = 30) -> None:
        """Waits until all is as it should be at rest. What is not so after that time becomes part of `found`."""
        self.world.cluster.faults.clear()
        for node in FLAVOURS.values():
            self.world.cordon(node, is_cordoned=False)
        self.ready(Random(0))
        wrong: list[str] = ["nothing was looked at"]
        until = time.monotonic() + seconds
        while wrong and time.monotonic() < until:
            time.sleep(0.05)
            wrong = self._wrong()
        self.found += wrong
        self.found += judge.check_spells(self.world)
        self.found += self.world.ledger.faults
        self.world.ledger.faults.clear()

    def _wrong(self) -> list[str]:
        wrong = [*judge.check_claims(self.world), *objects.check(self.world)]
        for number in range(len(self.world.instances)):
            wrong += judge.at_rest(self.world, number)
        return wrong
