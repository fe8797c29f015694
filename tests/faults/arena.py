"""Whole servers on real sockets, in which pairs of operation and fault are tried one after the other.

    Arena(waggle, API server, kube-scheduler stand-in)
      try_one(pair):  arm the fault --> make Waggle call --> it strikes --> pods come and go --> all at rest --> check

After each pair: no node was ever over-committed, no pod bound twice or where it was never proposed, no hold is left,
every pod is bound or waits with one reason, and the cache equals the API server. `LocalCluster.finish` checks the rest
at the end, among it that the recorded log replays to the same stories.

The faults and the operations they strike are the same in every run of a seed, and in the same order. How the threads
between them take turns is chance: for a run that is the same byte for byte, see `tests.soak`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from algorithm.model import Node, Pod
from extender.embedded.apiserver.faults import Fault as Rule
from extender.kube.client.access_review import Reviewer, Verdict
from extender.kube.client.backoff import BackoffSettings
from extender.kube.informers.reflector import Timing
from extender.scheduling.events import NodeSeen, PodSeen
from extender.server.leader_label import LABEL
from tests.faults.noting import WAGGLE, Noting, armed
from tests.faults.table import Pair
from tests.support.apiserver.api import eventually
from tests.support.cluster.local_cluster import LocalCluster, world

BINDING = {"method": "POST", "path": "/binding$", "agent": WAGGLE}
LEASE = {"method": "PUT", "path": "/leases/waggle$", "agent": WAGGLE}
#: The pod that Waggle runs in, as far as the API server knows.
REPLICA = "waggle-0"
#: Cores of the nodes that kube-scheduler places pods on, and of the one where the test itself asks.
CPUS, STAGE = 4, "stage"
#: What stays on the nodes while pairs are tried.
CROWD = 6
TIMING = Timing(
    list_page=0.5,
    shortest_watch=650,
    longest_watch=699,
    watch_silence=1.0,
    backoff=BackoffSettings(shortest=0.02, longest=0.1),
)
ELECTION = {"enabled": True, "lease_seconds": 2, "renew_deadline_seconds": 1.5, "retry_seconds": 0.2, "label_pod": True}
RELEASED = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "waggle", "namespace": "default"},
    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"},
}


class Arena:
    """One world. `chance` decides how often a fault strikes, and in which event of a watch."""

    def __init__(self, w: LocalCluster, chance: random.Random, *, elected: bool) -> None:
        self.w = w
        self.chance = chance
        self.survived: Counter[tuple[str, str]] = Counter()
        self._made = 0
        self._crowd: list[str] = []
        self._rule: Rule | None = None
        self._elected = elected
        self.w.waggle.service.comparer._grace = 0.05
        self._provoke: dict[str, Callable[[], None]] = {
            "list nodes": w.waggle.service._nodes.relist,
            "list pods": w.waggle.service._pods.relist,
            "watch nodes": self._watch_nodes,
            "watch pods": self._watch_anew,
            "bind": self._come_and_go,
            "read pod": self._unanswered_bind,
            "evict": self._eviction,
            "mark preemption": self._eviction,
            "nudge": self._refused_bind,
            "event": self._refused_bind,
            "count event": self._refused_bind,
            "read lease": lambda: self._strike("status", status=409, **LEASE),
            "make lease": self._lose_lease,
            "renew lease": lambda: None,
            "version of nodes": self._another_term,
            "version of pods": self._another_term,
            "find label": self._lose_label,
            "move label": self._lose_label,
            "ask who": self._ask_rights,
            "ask rights": self._ask_rights,
            "compare nodes": self._compare,
            "compare pods": self._compare,
            "heal node": lambda: self._lie(NodeSeen(Node(name=self._ghost().name, uid="nobody"))),
            "heal pod": lambda: self._lie(PodSeen(self._ghost())),
        }

    # -- one pair -------------------------------------------------------------------------------------------------

    def try_one(self, pair: Pair) -> None:
        """Raises AssertionError, naming the pair, if anything does not hold."""
        try:
            self._rule = armed(self.w.faults, pair, self.chance)
            self._bring_about(pair)
            self._come_and_go()
            struck = self._struck()
            self.w.faults.clear()
            self._come_to_rest()
            self._check_at_rest()
        except AssertionError as error:
            raise AssertionError(f"{pair}: {error}") from error
        self.survived[pair.operation.name, pair.fault.name] += struck

    def _bring_about(self, pair: Pair) -> None:
        """The operation is done with the fault. On a busy machine what provokes it may pass before it is looked for."""
        for _ in range(2):
            self._provoke[pair.operation.name]()
            try:
                self.w.until(self._struck, seconds=15)
            except AssertionError:
                continue
            return
        self._provoke[pair.operation.name]()
        self.w.until(self._struck)

    def _struck(self) -> int:
        """How often the fault at hand has struck."""
        return self.w.faults.fired(self._rule)

    def _strike(self, action: str, **rule: Any) -> Rule:
        return self.w.faults.inject(action, **rule)

    # -- what makes Waggle call -----------------------------------------------------------------------------------

    def _come_and_go(self) -> None:
        """Some pods are made, some deleted."""
        for _ in range(2):
            self._made += 1
            self.w.pod(f"p{self._made}", cpu=self.chance.choice(["1", "1", "2"]))
            self._crowd.append(f"p{self._made}")
        while len(self._crowd) > CROWD:
            gone = self._crowd.pop(self.chance.randrange(len(self._crowd) - 2))
            self.w.cluster.delete("pods", gone, grace_period_seconds=0)

    def _watch_anew(self) -> None:
        """A watch that is just being opened does not end with the others: then they end once more."""

        def struck() -> bool:
            self.w.cluster.end_watches(WAGGLE)
            with suppress(AssertionError):
                eventually(self._struck, seconds=0.3)
            return bool(self._struck())

        self.w.until(struck)

    def _watch_nodes(self) -> None:
        self._watch_anew()
        for turn in range(4):
            self.w.cluster.patch("nodes", "n0", {"metadata": {"labels": {"turn": f"{self._made}-{turn}"}}})

    def _unanswered_bind(self) -> None:
        self._strike("drop-before", **BINDING, times=2)
        self._come_and_go()

    def _refused_bind(self) -> None:
        """A place on the stage is taken, somebody else waits for it, and the bind is refused, twice: that is told."""
        first, second = self._on_stage(), self._on_stage()
        self._strike("status", **(BINDING | {"path": f"/pods/{first}/binding$"}), status=403, times=2)
        for _ in range(2):
            assert self.w.propose(first, [STAGE]) == STAGE
            assert not self.w.filter(second, [STAGE])["NodeNames"]
            assert self.w.bind(first, STAGE)
            self.w.until(lambda: self._struck() or self._is_told_of(first))
        self.w.until(self._struck)
        self._leave_stage(first, second)

    def _is_told_of(self, name: str) -> bool:
        return any(event["involvedObject"]["name"] == name for event in self.w.cluster.objects("events"))

    def _eviction(self) -> None:
        low, high = self._on_stage(), self._on_stage(priority=100)
        self._take_stage(low)
        self._take_stage(high)
        self._leave_stage(high)

    def _compare(self) -> None:
        def struck() -> bool:
            answer = self.w.waggle.client.get("/v1/inspect/cache/diff")
            assert answer.status in (200, 503), answer.text
            return bool(self._struck())

        self.w.until(struck)

    def _lie(self, event: Any) -> None:
        """The engine is told what is not true, as if an informer had lost an event."""
        self.w.waggle.runtime.handle(event)
        self._compare()

    def _ghost(self) -> Pod:
        self._made += 1
        name = f"ghost{self._made}"
        return Pod(namespace="default", name=name, uid=name, resource_version="1", node_name=STAGE, phase="Running")

    def _lose_lease(self) -> None:
        self.w.until(lambda: self.w.cluster.get("leases", "waggle"))
        self.w.cluster.delete("leases", "waggle")

    def _another_term(self) -> None:
        """Somebody releases our Lease: the term is over, and the next one begins with reading what is true by then."""
        self.w.until(lambda: self.w.cluster.get("leases", "waggle"))
        self.w.cluster.patch("leases", "waggle", {"spec": RELEASED["spec"]})

    def _lose_label(self) -> None:
        """Somebody takes the leader's label away; with the next term it is put there again."""
        self.w.cluster.patch("pods", REPLICA, {"metadata": {"labels": {LABEL: None}}})
        self._another_term()

    def _ask_rights(self) -> None:
        """An API server that cannot be asked allows nothing; one that is late, or says something first, is believed."""
        verdict = Reviewer(self.w.waggle.service.api).may_get("token", "/v1/inspect/pods").verdict
        assert self._rule is not None
        assert verdict is (Verdict.ALLOWED if self._rule.action in ("delay", "interim") else Verdict.UNKNOWN)

    # -- pods that the test itself asks for -----------------------------------------------------------------------

    def _on_stage(self, **more: Any) -> str:
        self._made += 1
        name = f"s{self._made}"
        self.w.pod(name, cpu=str(CPUS), schedulerName="by-hand", **more)
        return name

    def _take_stage(self, name: str) -> None:
        def tried() -> bool:
            passed = self.w.filter(name, [STAGE])["NodeNames"]
            return bool(passed and not self.w.bind(name, STAGE)) or bool(self.w.node_of(name))

        self.w.until(tried)

    def _leave_stage(self, *names: str) -> None:
        for name in names:
            self.w.cluster.delete("pods", name, grace_period_seconds=0)

    # -- what must hold -------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        if self._elected:
            self.w.waggle.wait_ready()
            self.w.until(lambda: LABEL in self.w.get(REPLICA)["metadata"].get("labels", {}))
        self.w.until(self._all_decided)
        self.w.until(lambda: not self.w.waggle.holds())
        self.w.until(self._nothing_differs)

    def _all_decided(self) -> bool:
        """Every pod runs, or has been told by kube-scheduler why not."""
        self.w.settle()
        return all(
            pod["spec"].get("nodeName") or self._told_why(pod)
            for pod in self.w.cluster.objects("pods")
            if not pod["metadata"].get("deletionTimestamp")
        )

    @staticmethod
    def _told_why(pod: dict[str, Any]) -> bool:
        conditions = pod["status"].get("conditions", [])
        return any(c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message") for c in conditions)

    def _nothing_differs(self) -> bool:
        """What no informer could notice is healed by looking once; then nothing is left to heal."""
        answer = self.w.waggle.client.get("/v1/inspect/cache/diff")
        return answer.status == 200 and answer.json == {"items": []} and not self.w.differences()

    def _check_at_rest(self) -> None:
        """A pod that is tried again at this very moment is between two states. What is wrong stays wrong."""
        try:
            self._check()
        except AssertionError:
            self._come_to_rest()
            self._check()

    def _check(self) -> None:
        assert not self.w.faults.unknown, self.w.faults.unknown
        self.w._check_books()
        self.w.waggle.validate()
        views = {view.uid: view for view in self.w.waggle.runtime.model.pods()}
        for pod in self.w.cluster.objects("pods"):
            view, node = views.pop(pod["metadata"]["uid"]), pod["spec"].get("nodeName", "")
            assert view.node == node, f"{view} is on {node or 'no node'}"
            assert (view.state == "Bound") == bool(node), view
            assert node or view.reason is not None, f"{view.name} waits, and nobody knows why"
        assert not views, f"pods that do not exist: {views}"


@contextmanager
def arena(seed: int, *, elected: bool) -> Iterator[Arena]:
    """`elected`: with leader election; its calls cannot be provoked without, and disturb the others."""

    def prepare(made: LocalCluster) -> None:
        made.faults = made.cluster._runtime.app.faults = Noting()
        made.node(STAGE, cpu=str(CPUS), labels={"kind": STAGE})
        made.cluster.patch("nodes", STAGE, {"spec": {"taints": [{"key": STAGE, "effect": "NoSchedule"}]}})
        if elected:
            made.cluster.create(RELEASED)
            made.pod(REPLICA, cpu="100m", nodeName="n0")
            made.bound_by_others.add(REPLICA)

    sections: dict[str, Any] = {
        "cluster": {"request_timeout_seconds": 0.5},
        "holds": {"lease_seconds": 1.5},
        "preemption": {"mode": "direct", "retry_seconds": 0.3},
    }
    if elected:
        sections["leader_election"] = ELECTION
    with (
        pytest.MonkeyPatch.context() as environment,
        world(
            nodes=3,
            cpu=str(CPUS),
            scheduler=True,
            timing=TIMING,
            prepare=lambda made: (environment.setenv("POD_NAME", REPLICA), prepare(made)),
            apiserver={"bookmark_seconds": 0.3},
            **sections,
        ) as w,
    ):
        w.may_count.add("waggle_cache_healed_total")
        yield Arena(w, random.Random(seed), elected=elected)
