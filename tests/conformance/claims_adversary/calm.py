"""Calm: one server, no faults, one thing after the other, so that a naive oracle knows what has to happen next.

A line of requests is made while no pod is idle. Then pods come one by one, and each goes to a request that may have it:
of the highest priority, the oldest of its tenant that it fits, below the tenant's cap; and the tenants that wait are
served in proportion to their weights. Keys, orders of pods and refusals are tried in between.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from tests.conformance.claims_adversary import judge
from tests.conformance.claims_adversary.callers import Ask, Object
from tests.conformance.claims_adversary.ledger import PHASE
from tests.conformance.claims_adversary.world import FLAVOURS, World
from tests.support.apiserver.api import eventually

POOL = "red"
#: Bodies that are refused, with the status, and the field that the answer names.
REFUSED: tuple[tuple[Object, int, str], ...] = (
    ({"count": 0}, 400, "count"),
    ({"count": 1001}, 400, "count"),
    ({"count": 65}, 400, "count"),
    ({"wait_seconds": -1}, 400, "wait_seconds"),
    ({"wait_seconds": 3601}, 400, "wait_seconds"),
    ({"lease_seconds": -1}, 400, "lease_seconds"),
    ({"lease_seconds": 1e9}, 400, "lease_seconds"),
    ({"priority": 1001}, 400, "priority"),
    ({"colour": "red"}, 400, "colour"),
    ({"on_empty": "maybe"}, 400, "on_empty"),
    ({"requires": {"a": 1}}, 400, "requires.a"),
    ({"key": "k" * 254}, 400, "key"),
    ({"images": {"none": "x:1"}}, 400, "images.none"),
)


@dataclass
class Line:
    """Requests that wait, in the order in which they came, and how often each tenant was served since it waits."""

    asks: list[Ask] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)

    def tenant(self, ask: Ask) -> str:
        return str(ask.body.get("tenant", ""))


class Calm:
    """One run in a world of one server. `found` is what did not hold."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[str] = []
        self.did: Counter[str] = Counter()
        self.trace: list[str] = []
        #: Seconds from the request to its answer, with idle pods.
        self.took: list[float] = []
        #: Seconds from the moment in which a pod could be claimed to its claim.
        self.woken: list[float] = []
        self._pods = 0

    # -- pods -------------------------------------------------------------------------------------------------------

    def empty(self) -> None:
        """No pod of the pool is left, claimed or not."""
        for flavour in FLAVOURS:
            self.world.scale(POOL, flavour, 0)
        for claim, spells in self.world.ledger.live().items():
            if spells[0].pool == POOL:
                self.world.callers.release(0, claim, by_delete=True)
        eventually(lambda: not self.world.ledger.live())
        for pod in list(self.world.ledger.pods.values()):
            if not pod.is_gone and not pod.is_terminating and pod.labels.get("pool") == POOL:
                self.world.api.delete(f"pods/{pod.name}", gracePeriodSeconds=0)
        eventually(lambda: self._page()["idle"] == self._page()["claimed"] == self._page()["terminating"] == 0)

    def _page(self) -> Object:
        return self.world.get(0, f"/v1/pools/default/{POOL}")

    def add(self, rng: Random, *, node: str = "n1") -> str:
        """A pod of no workload, which runs at once. Returns its name."""
        self._pods += 1
        name = f"single-{self._pods}"
        labels = {"pool": POOL, "flavour": rng.choice(list(FLAVOURS))}
        if self.world.draw.modes[POOL] == "recycle":
            labels[PHASE] = "idle"
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "warm:1"}]}
        made = self.world.api.post("pods", {"metadata": {"name": name, "labels": labels}, "spec": spec})
        assert made.status_code == 201, made.text
        return name

    # -- a line of requests -----------------------------------------------------------------------------------------

    def line(self, rng: Random, requests: int) -> None:
        """Requests wait, and pods come one by one."""
        self.empty()
        line = Line()
        for _ in range(requests):
            body: Object = {"wait_seconds": 300}
            if rng.random() < 0.8:
                body["tenant"] = rng.choice(("t1", "t2"))
            if rng.random() < 0.25:
                body["priority"] = rng.choice((-1, 1, 2))
            if rng.random() < 0.3:
                body["requires"] = {"flavour": rng.choice(list(FLAVOURS))}
            ask = self.world.callers.claim(0, POOL, body, prefer="respond-async")
            if ask.status != 202 or ask.answer["state"] != "waiting":
                self.found.append(f"it does not wait: {ask}")
            line.asks.append(ask)
        self.did["requests in line"] += requests
        while line.asks and not self.found:
            self._serve_one(rng, line)
            if rng.random() < 0.1 and line.asks:
                gone = line.asks.pop(rng.randrange(len(line.asks)))
                self.trace.append(f"cancel {gone}")
                self.world.callers.release(0, gone.claim, by_delete=rng.random() < 0.5)

    def _serve_one(self, rng: Random, line: Line) -> None:
        have = Counter(s.tenant for each in self.world.ledger.live().values() for s in each if s.pool == POOL)
        name = self.add(rng)
        self.did["pods"] += 1
        eventually(lambda: any(pod.name == name and pod.is_ready for pod in list(self.world.ledger.pods.values())))
        pod = next(pod for pod in list(self.world.ledger.pods.values()) if pod.name == name)
        ready, fits = time.monotonic(), self._fits(pod.labels, line, have)
        if not fits:
            eventually(lambda: self._page()["in_flight"] == 0)
            time.sleep(0.02)
            if pod.spells:
                self.found.append(f"nobody may have {name}: {pod.spells}, {[str(ask) for ask in line.asks]}")
            self.trace.append(f"{name} {dict(pod.labels)}: nobody")
            self._make_room(line)
            return
        eventually(lambda: bool(pod.spells), seconds=10, why=lambda: f"{name} is idle, and may go to {fits[0]}")
        spell = pod.spells[0]
        self.woken.append(spell.began - ready)
        ask = next(ask for ask in line.asks if ask.name == spell.ask)
        self.trace.append(f"{name} {dict(spell.labels)}: {ask}")
        if ask not in fits:
            self.found.append(f"{name} went to {ask}, and could go to {[str(each) for each in fits]}")
        line.asks.remove(ask)
        eventually(lambda: self.world.get(0, f"/v1/claims/{ask.claim}")["state"] == "claimed", seconds=10)
        self._check_fair(line, ask)

    def _fits(self, labels: Mapping[str, str], line: Line, have: Counter[str]) -> list[Ask]:
        """The requests that may have a pod with these labels: the oldest of each tenant, of the highest priority."""
        cap = self.world.draw.caps[POOL]
        able = [
            ask
            for ask in line.asks
            if ask.body.get("requires", {}).items() <= labels.items() and not (cap and have[line.tenant(ask)] >= cap)
        ]
        top = max((ask.body.get("priority", 0) for ask in able), default=0)
        first: dict[str, Ask] = {}
        for ask in able:
            if ask.body.get("priority", 0) == top:
                first.setdefault(line.tenant(ask), ask)
        return list(first.values())

    def _make_room(self, line: Line) -> None:
        """Nobody may have the pod: every tenant gives a pod back, and requests that nothing fits are cancelled."""
        live = [spells[0] for spells in self.world.ledger.live().values() if spells[0].pool == POOL]
        for spell in live:
            self.world.callers.release(0, spell.claim, by_delete=True)
        eventually(lambda: not any(spell.is_live for spell in live))
        eventually(lambda: all(s.ended is not None for s in live))
        # What became free goes on to those that wait; the oracle starts anew with who is left.
        eventually(lambda: self._is_settled(line), why=lambda: str([str(ask) for ask in line.asks]))
        line.asks = [ask for ask in line.asks if self.world.get(0, f"/v1/claims/{ask.claim}")["state"] == "waiting"]
        line.served.clear()

    def _is_settled(self, line: Line) -> bool:
        return not list(judge.at_rest(self.world, 0))

    def _check_fair(self, line: Line, ask: Ask) -> None:
        """Among those of priority 0 without a demand that always waited: in proportion to their weights."""
        if self.world.draw.caps[POOL] or ask.body.get("priority") or ask.body.get("requires"):
            return
        line.served[line.tenant(ask)] += 1
        waiting = Counter(
            line.tenant(each) for each in line.asks if not each.body.get("priority") and not each.body.get("requires")
        )
        weights = {"t1": float(self.world.draw.weights["t1"]), "t2": 1.0, "": 1.0}
        for one in waiting:
            for other in waiting:
                ahead = line.served[one] / weights[one] - line.served[other] / weights[other]
                if ahead > 2 / weights[one] + 2 / weights[other] + 2:
                    self.found.append(f"{one!r} was served {line.served}, weights {weights}")

    # -- keys -------------------------------------------------------------------------------------------------------

    def keys(self, rng: Random) -> None:
        """The same key is the same claim, also after a restart; with another body it is refused."""
        self.empty()
        for _ in range(3):
            self.add(rng)
        eventually(lambda: self._page()["idle"] == 3)
        body = {"key": f"key-{rng.random()}", "wait_seconds": 0, "count": rng.choice((1, 2)), "lease_seconds": 600}
        claim = self.world.callers.claim
        first = claim(0, POOL, body)
        again = claim(0, POOL, body, repeats=first.name)
        if rng.random() < 0.3:
            self.world.restart(self.world.instances[0], kill=True, pause=0)
        later = claim(0, POOL, body, repeats=first.name)
        other = claim(0, POOL, {**body, "priority": 3}, repeats=first.name)
        if first.status != 201 or {again.claim, later.claim} != {first.claim} or other.code != "KeyReused":
            self.found.append(f"keys: {first}; {again}; {later}; {other}")
        self.world.callers.release_key(0, first)
        eventually(lambda: not self.world.ledger.live())
        self.did["keys"] += 1

    # -- what is refused, and what is quick -------------------------------------------------------------------------

    def refusals(self) -> None:
        """Nothing changes, and the answer says which field is at fault."""
        before = judge.total(self.world.metrics(0), "waggle_claims_accepted_total")
        for body, status, named in REFUSED:
            if self.world.draw.modes[POOL] == "detach" and "images" in body:
                continue
            path = f"/v1/pools/default/{POOL}/claims"
            answer = self.world.callers.call("POST", 0, path, json=body)
            if answer is None or answer.status_code != status or answer.json()["field"] != named:
                self.found.append(f"{body}: {answer and answer.text}")
            self.did["refused"] += 1
        if judge.total(self.world.metrics(0), "waggle_claims_accepted_total") != before:
            self.found.append("a refused request was accepted")

    def quick(self, rng: Random, times: int) -> None:
        """Claims with idle pods, one after the other."""
        self.empty()
        for _ in range(3):
            self.add(rng)
        eventually(lambda: self._page()["idle"] == 3)
        for _ in range(times):
            ask = self.world.callers.claim(0, POOL, {"wait_seconds": 5})
            self.found += judge.check_answer(self.world, ask)
            if ask.status != 201:
                self.found.append(f"pods were idle: {ask}")
                return
            self.took.append(ask.answered - ask.sent)
            self.world.callers.release(0, ask.claim, by_delete=True)
            if self.world.draw.modes[POOL] == "detach":
                self.add(rng)
            eventually(lambda: self._page()["idle"] >= 2)
        self.did["quick"] += times

    def pods_in_order(self, rng: Random) -> None:
        """Which idle pod is given away first."""
        self.empty()
        nodes = ("n1", "n1", "n2", "n2", "n2")
        names = []
        for number, node in enumerate(nodes):
            names.append(self.add(rng, node=node))
            eventually(lambda: self._page()["idle"] == number + 1)  # noqa: B023 - it is called in this turn
        order = self.world.draw.orders[POOL]
        got = []
        for _ in names:
            ask = self.world.callers.claim(0, POOL, {"wait_seconds": 5})
            got.append(str(ask.answer["pods"][0]["name"]))
        where = dict(zip(names, nodes, strict=True))
        wanted = {"fifo": names, "oldest": names, "newest": names[::-1]}.get(order, got)
        # Creation times have whole seconds: among pods of one second any order is by age.
        if order == "fifo" and got != wanted:
            self.found.append(f"{order}: {got} of {names}")
        chosen = [where[name] for name in got]
        if order == "pack" and sorted(chosen[:2]) != [chosen[0]] * 2:
            self.found.append(f"pack: {chosen}")
        if order == "spread" and len(set(chosen[:2])) != 2:
            self.found.append(f"spread: {chosen}")
        self.did["orders"] += 1

    def rest(self) -> None:
        """Nothing of it is left."""
        self.empty()
        eventually(lambda: not list(judge.at_rest(self.world, 0)), why=lambda: str(list(judge.at_rest(self.world, 0))))
        self.found += judge.check_spells(self.world)
        self.found += self.world.ledger.faults
        if self.woken and min(self.woken) > 0.15:
            self.found.append(
                f"the quickest of {len(self.woken)} pods that somebody waited for took {min(self.woken)} s"
            )
        if self.took and min(self.took) > 0.15:
            self.found.append(f"the quickest of {len(self.took)} claims took {min(self.took)} s")
