"""A server of claims on real sockets, in which pairs of operation and fault are tried one after the other.

    ClaimArena(Waggle, API server with its ReplicaSet controller; a pool that detaches, a pool that recycles)
      try_one(pair):  arm the fault --> make Waggle call --> it strikes --> claims come and go --> all at rest --> check

After each pair: every request has one answer; the pods that are claimed at the API server are those of the claims that
were answered with 201 and not released, each in one claim and as many as were asked for; the pools are full again; the
engine's invariants hold, every Claim object has its pods or is gone, and accepted = claimed + failed + pending.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.faults import Fault as Rule
from extender.kube.informers.reflector import Reflector
from extender.server.claims.members import LABEL
from extender.server.claims.workloads import Workload
from tests.faults.arena import TIMING
from tests.faults.noting import WAGGLE, Noting, armed
from tests.faults.table import Pair
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_objects import CLAIMS, HEAD, POOLS, define
from tests.support.cluster.claim_world import ClaimWorld, claim_world

#: Idle pods of each pool, and claims that stand while pairs are tried.
POOL, CROWD = 4, 3
PATCH = {"method": "PATCH", "path": "/api/v1/namespaces/default/pods/", "agent": WAGGLE}
_TIMEOUT = 0.5


class ClaimArena:
    """One world. `chance` decides how often a fault strikes, and in which event of a watch."""

    def __init__(self, w: ClaimWorld, chance: random.Random) -> None:
        self.w = w
        self.chance = chance
        self.survived: Counter[tuple[str, str]] = Counter()
        assert isinstance(w.cluster.faults, Noting)
        self._faults = w.cluster.faults
        self._rule: Rule | None = None
        #: The claims that were answered with 201 and not released, each with its pods.
        self._claims: dict[str, set[str]] = {}
        self._callers = ThreadPoolExecutor(8)
        self._asked: list[Future[httpx.Response]] = []
        members = w.server.claims.members
        assert members is not None
        self._members = members
        self._ghosts = 0
        assert w.server.claims.objects is not None
        self.objects = w.server.claims.objects
        #: How many Claim objects were made, and those that are there.
        self._made = 0
        self._objects: list[str] = []
        self._provoke: dict[str, Callable[[], None]] = {
            "list pool pods": self._list,
            "watch pool pods": self._watch_anew,
            "take pod": self._claim_both,
            "look at pod": self._unanswered_take,
            "delete pod": lambda: self._release_new("warm"),
            "return pod": lambda: self._release_new("again"),
            "renew pod": self._renew,
            "advance pod": self._change_images,
            "create pod": self._cold,
            "scale workload": self._grow,
            "mark surplus": self._grow,
            "list workload": lambda: self._workload().relist(),
            "watch workload": self._watch_workload,
            "renew member": self._members.look,
            "list members": self._members.look,
            "make member": self._lose_lease,
            "forget member": self._ghost,
            "list pools": self.objects.pool_informer.relist,
            "watch pools": lambda: self._until_struck(self._change_pool),
            "list claims": self.objects.claim_informer.relist,
            "watch claims": lambda: self._until_struck(self._add_object),
            "pool status": self._change_pool,
            "claim status": self._add_object,
            "claim finalizer": self._add_object,
            "read claim": self._unanswered_status,
        }

    def close(self) -> None:
        self._callers.shutdown()

    # -- one pair -------------------------------------------------------------------------------------------------

    def try_one(self, pair: Pair) -> None:
        """Raises AssertionError, naming the pair, if anything does not hold."""
        try:
            self._prepare(pair)
            self._rule = armed(self._faults, pair, self.chance)
            for _ in range(3):
                self._provoke[pair.operation.name]()
                with suppress(AssertionError):
                    eventually(self._struck, seconds=10)
                    break
            assert self._struck(), "the fault has not struck"
            self._come_and_go()
            struck = self._struck()
            self._faults.clear()
            if pair.fault.name in ("event swallowed", "event late") and pair.operation.name in (
                "watch pools",
                "watch claims",
            ):
                self.objects.resync()  # which happens every ten minutes
            self._check_at_rest()
        except AssertionError as error:
            raise AssertionError(f"{pair}: {error}") from error
        self.survived[pair.operation.name, pair.fault.name] += struck

    def _prepare(self, pair: Pair) -> None:
        """What the operation needs to be there, without the fault."""
        if pair.operation.name in ("delete pod", "return pod", "renew pod"):
            pool = "again" if pair.operation.name == "return pod" else "warm"
            self._claim(pool)
            eventually(self._all_answered)
            self._note_answers()

        if pair.operation.name == "list claims":
            while len(self._objects) < CROWD:
                self._add_object()
            eventually(lambda: self._claimed_by_objects() is not None)

    def _struck(self) -> int:
        return self._faults.fired(self._rule)

    # -- what makes Waggle call -----------------------------------------------------------------------------------

    def _claim(self, pool: str) -> None:
        """Ask for a pod, in a thread: the answer is looked at when all are at rest."""
        asked = {"wait_seconds": 20, "lease_seconds": 600}
        self._asked.append(self._callers.submit(self._post, f"/v1/pools/default/{pool}/claims", asked))

    def _post(self, path: str, body: Any = None) -> httpx.Response:
        return self.w.server.http.post(path, json=body)

    def _claim_both(self) -> None:
        self._claim("warm")
        self._claim("again")

    def _come_and_go(self) -> None:
        self._claim(self.chance.choice(["warm", "again"]))
        while len(self._claims) > CROWD:  # several pairs of a pool in a row would leave it without pods
            self._release(self.chance.choice(sorted(self._claims)))

    def _release(self, claim: str) -> None:
        """Release a claim. Whatever the answer says: it is asked for until the claim is gone."""
        del self._claims[claim]
        self._asked.append(self._callers.submit(self._gone, claim))

    def _gone(self, claim: str) -> httpx.Response:
        answer = self.w.server.http.delete(f"/v1/claims/{claim}")
        assert answer.status_code in (200, 404, 410), answer.text
        return answer

    def _release_new(self, pool: str) -> None:
        """Release the youngest claim of a pool, or make one for the next try."""
        known = [claim for claim in self._claims if self._pool_of(claim) == pool]
        if known:
            self._release(known[-1])
        else:
            self._claim(pool)
            eventually(self._all_answered)
            self._note_answers()

    def _pool_of(self, claim: str) -> str:
        found = self.w.server.http.get(f"/v1/claims/{claim}")
        return str(found.json().get("pool", ""))

    def _renew(self) -> None:
        claim = self.chance.choice(sorted(self._claims))
        answer = self._post(f"/v1/claims/{claim}/renew", {"lease_seconds": self.chance.randint(700, 900)})
        assert answer.status_code in (200, 502, 503, 504), answer.text

    def _change_images(self) -> None:
        """A claim that changes an image is advanced when the container runs."""
        asked = {"wait_seconds": 20, "lease_seconds": 600, "images": {"main": f"other:{self.chance.randint(1, 9)}"}}
        self._asked.append(self._callers.submit(self._post, "/v1/pools/default/again/claims", asked))

    def _cold(self) -> None:
        """A gang of more pods than are idle has those created that are missing."""
        asked = {"wait_seconds": 20, "lease_seconds": 600, "count": POOL + 1, "on_empty": "cold"}
        answer = self._callers.submit(self._post, "/v1/pools/default/warm/claims", asked)
        self._asked.append(answer)
        eventually(lambda: answer.done() or self._struck())
        if answer.done() and answer.result().status_code == 201:
            claim = answer.result().json()
            self._asked.remove(answer)
            self._claims[claim["id"]] = set()
            self._release(claim["id"])

    def _grow(self) -> None:
        """A pool without pods is scaled for a claim; the pod that takes the claimed one's place goes again."""
        self._claim("grow")

    def _workload(self) -> Reflector[Workload]:
        informers = self.w.server.claims.workloads._informers
        return next(informer for ref, informer in informers.items() if ref.name == "warm")

    def _watch_workload(self) -> None:
        def struck() -> bool:
            self.w.cluster.end_watches(WAGGLE)
            for turn in range(4):
                labels = {"turn": f"{turn}-{self.chance.random()}"}
                self.w.cluster.patch("deployments", "warm", {"metadata": {"labels": labels}})
            with suppress(AssertionError):
                eventually(self._struck, seconds=0.5)
            return bool(self._struck())

        eventually(struck, seconds=10)

    def _lose_lease(self) -> None:
        """Somebody deletes the Lease of this server: it makes another one."""
        with suppress(ApiError):
            self.w.cluster.delete("leases", self._members.me)
        self._members.look()

    def _ghost(self) -> None:
        """A server that has been gone for long has left its Lease."""
        self._ghosts += 1
        name = f"waggle-ghost-{self._ghosts}"
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "default", "labels": {LABEL: "waggle"}},
        }
        self.w.cluster.create(lease)

        def known() -> bool:
            self._members.look()
            return name in self._members._known or bool(self._struck())

        eventually(known)
        if (seen := self._members._known.get(name)) is not None:
            seen.changed_at = float("-inf")
        self._members.look()

    def _unanswered_take(self) -> None:
        self._faults.inject("drop-before", **PATCH, times=1)
        self._claim("warm")

    def _list(self) -> None:
        for informer in self.w.server.claims.pods.informers:
            informer.relist()

    def _watch_anew(self) -> None:
        self._until_struck(lambda: self._claim("warm"))

    def _until_struck(self, change: Callable[[], None]) -> None:
        """End the watches, and have something change in the next ones, until the fault has struck."""

        def struck() -> bool:
            self.w.cluster.end_watches(WAGGLE)
            change()
            with suppress(AssertionError):
                eventually(self._struck, seconds=0.5)
            return bool(self._struck())

        eventually(struck, seconds=10)

    # -- Pool and Claim objects -----------------------------------------------------------------------------------

    def _change_pool(self) -> None:
        """A field of the Pool's specification changes, which its status follows."""
        self._made += 1
        changed = self.w.api.patch(f"{POOLS}/spare", {"spec": {"replicas": self._made}})
        assert changed.status_code == 200, changed.text

    def _add_object(self) -> None:
        """One Claim object more, and the oldest less if there are many."""
        self._made += 1
        name = f"claim-{self._made}"
        spec = {"poolRef": {"name": "warm"}, "waitSeconds": 60, "leaseSeconds": 600}
        made = self.w.api.post(CLAIMS, {**HEAD, "kind": "Claim", "metadata": {"name": name}, "spec": spec})
        assert made.status_code == 201, made.text
        self._objects.append(name)
        if len(self._objects) > CROWD:
            self.w.api.delete(f"{CLAIMS}/{self._objects.pop(0)}")

    def _unanswered_status(self) -> None:
        self._faults.inject("drop-before", method="PATCH", path=f"{CLAIMS}/.*/status", agent=WAGGLE, times=1)
        self._add_object()

    def _claimed_by_objects(self) -> dict[str, set[str]] | None:
        """The claims of the objects, as their status says; None if one has none, or should be gone."""
        found = {each["metadata"]["name"]: each for each in self.w.api.get(CLAIMS).json()["items"]}
        if sorted(found) != sorted(self._objects):
            return None
        statuses = [each.get("status", {}) for each in found.values()]
        if any(each.get("phase") != "Claimed" for each in statuses):
            return None
        return {each["claim"]: {pod["uid"] for pod in each["pods"]} for each in statuses}

    def _is_pool_served(self) -> bool:
        """Whether the status of the Pool is that of its present specification."""
        pool = self.w.api.get(f"{POOLS}/spare").json()
        status = pool.get("status", {})
        return bool(status.get("observedGeneration") == pool["metadata"]["generation"] and status["idle"] == 1)

    # -- what must hold -------------------------------------------------------------------------------------------

    def _all_answered(self) -> bool:
        return all(each.done() for each in self._asked)

    def _note_answers(self) -> None:
        for each in self._asked:
            answer = each.result()
            if answer.status_code == 201:
                claim = answer.json()
                assert claim["id"] not in self._claims, f"answered twice: {claim}"
                self._claims[claim["id"]] = {pod["uid"] for pod in claim["pods"]}
            else:
                assert answer.json().get("code") or answer.status_code in (200, 404, 410), answer.text
        self._asked.clear()

    def _check_at_rest(self) -> None:
        eventually(self._all_answered)
        self._note_answers()
        try:
            eventually(lambda: not self._differences() and self._pools_are_full(), seconds=10)
        except AssertionError:  # what no informer could notice is put right by the next list, as every five minutes
            self.w.server.claims.pods.relist()
            eventually(lambda: not self._differences() and self._pools_are_full(), seconds=45, why=self._why)
        self.w.at_rest()
        assert not self._faults.unknown, self._faults.unknown
        for name in ("warm", "again", "grow"):
            pool = self.w.pool(name)
            assert pool["accepted"] == pool["succeeded"] + sum(pool["failed"].values()) + pool["pending"], pool

    def _differences(self) -> str:
        """What the API server has and the answers did not say, or the other way round."""
        claimed = {claim: set(uids) for claim, uids in self.w.claimed_uids().items()}
        of_objects = self._claimed_by_objects()
        if of_objects is None:
            return f"objects: {self.w.api.get(CLAIMS).json()['items']}, expected {self._objects}"
        if not self._is_pool_served():
            return f"pool: {self.w.api.get(f'{POOLS}/spare').json()}"
        answered = self._claims | of_objects
        return "" if claimed == answered else f"claimed {claimed}, answered {answered}"

    def _pools_are_full(self) -> bool:
        used = sum(self._pool_of(claim) == "again" for claim in self._claims)
        idle = {name: self.w.pool(name)["idle"] for name in ("warm", "again", "grow")}
        return idle == {"warm": POOL, "again": POOL + CROWD - used, "grow": 0}

    def _why(self) -> str:
        return f"{self._differences()}; pools: {self.w.pool('warm')}, {self.w.pool('again')}"


@contextmanager
def claim_arena(seed: int) -> Iterator[ClaimArena]:
    """A pool `warm` that detaches, a pool `again` that recycles, and a pool `grow` that is scaled."""
    pools = [
        {"name": "warm", "selector": {"pool": "warm"}, "mode": "detach", "workload": {"name": "warm"}},
        {
            "name": "grow",
            "selector": {"pool": "grow"},
            "workload": {"name": "grow"},
            "autoscaler": {
                "max_replicas": 6,
                "buffer": "none",
                "idle_seconds": 0,
                "cooldown_seconds": 0,
                "quiet_seconds": 0,
            },
        },
        {"name": "again", "selector": {"pool": "again"}, "mode": "recycle"},
    ]
    with claim_world(
        pods=POOL,
        pools=pools,
        share_pools=True,
        custom_resources=True,
        apiserver={"bookmark_seconds": 0.3, "stop_delay": 0.05},
        sections={"cluster": {"request_timeout_seconds": _TIMEOUT}},
        prepare=_prepare,
        timing=TIMING,
    ) as w:
        place = ClaimArena(w, random.Random(seed))
        try:
            yield place
        finally:
            place.close()


def _prepare(w: ClaimWorld) -> None:
    w.cluster._runtime.app.faults = Noting()
    w.deploy("grow", 0, {"pool": "grow"}, mode="detach")
    w.deploy("again", POOL + CROWD, {"pool": "again"}, mode="recycle")
    w.deploy("spare", 1, {"pool": "spare"})
    define(w)
    for name in ("spare", "empty"):  # two, so that a list has a second page
        spec = {"selector": {"matchLabels": {"pool": name}}}
        made = w.api.post(POOLS, {**HEAD, "kind": "Pool", "metadata": {"name": name}, "spec": spec})
        assert made.status_code == 201, made.text
