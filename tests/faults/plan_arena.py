"""A server that makes plans on real sockets, in which pairs of operation and fault are tried one after the other.

    PlanArena(Waggle, API server)
      try_one(pair):  arm the fault --> POST /v1/plan --> it strikes --> the answer is a plan or says what is not known
                      --> POST /v1/plan --> the plan is right

A plan is made during the fault, or refused with a sentence (HTTP 503). A plan that lacks what could not be read is the
right one, or has a warning. The plan after the fault has no such warning, and is the one from before the fault.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from extender.embedded.apiserver import serve_in_thread
from extender.embedded.apiserver.faults import Fault as Rule
from tests.faults.noting import Noting, armed
from tests.faults.table import Pair
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.cluster.plans import PlanServer, serving

#: What the table's one operation covers, and of which one is drawn for each pair.
_OTHERS = (
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/deployments",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling[.]k8s[.]io/v1/priorityclasses",
    "/apis/batch/v1/jobs",
)
_TIMEOUT = 0.5
#: A plan that needs the pods of a node in full.
_DRAIN = {"drain": ["n0"]}


class PlanArena:
    """One world. `chance` decides how often a fault strikes, and of which kind."""

    def __init__(self, server: PlanServer, faults: Noting, chance: random.Random) -> None:
        self.server = server
        self.chance = chance
        self.survived: Counter[tuple[str, str]] = Counter()
        self._faults = faults
        self._right = server.plan(**_DRAIN)
        assert {row["name"] for row in self._right["rows"]} >= {"old", "giant"}, self._right

    def try_one(self, pair: Pair) -> None:
        """Raises AssertionError, naming the pair, if anything does not hold."""
        try:
            rule = armed(self._faults, self._narrowed(pair), self.chance)
            self._ask(rule)
            struck = self._faults.fired(rule)
            self._faults.clear()
            found = self.server.plan(**_DRAIN)
            assert _told(found) == _told(self._right), found
            assert not self._faults.unknown, self._faults.unknown
        except AssertionError as error:
            raise AssertionError(f"{pair}: {error}") from error
        self.survived[pair.operation.name, pair.fault.name] += struck

    def _narrowed(self, pair: Pair) -> Pair:
        if pair.operation.name != "plan other objects":
            return pair
        path = rf"{self.chance.choice(_OTHERS)}\?.*limit=100"
        return Pair(replace(pair.operation, path=path), pair.fault)

    def _ask(self, rule: Rule) -> None:
        answer = self.server.ask(_DRAIN)
        assert self._faults.fired(rule), f"the fault has not struck; {answer.text}"
        if answer.status_code == 200:
            found = answer.json()["plan"]
            right = _told(found) == _told(self._right)
            assert right or set(found["warnings"]) - set(self._right["warnings"]), f"wrong, and no warning: {found}"
        else:
            assert answer.status_code == 503, answer.text
            assert answer.json()["error"], answer.text


def _told(plan: dict[str, Any]) -> tuple[Any, Any]:
    rows = sorted((row["name"], row["sign"]) for row in plan["rows"])
    return rows, plan["warnings"]


@contextmanager
def plan_arena(seed: int) -> Iterator[PlanArena]:
    """Three nodes, one of them full of a pod, a pod that fits nowhere, and objects of several kinds on two pages."""
    with serve_in_thread() as cluster:
        faults = cluster._runtime.app.faults = Noting()
        for number in range(3):
            cluster.create(node(f"n{number}"))
        cluster.create(pod("old", requests={"cpu": "8"}, nodeName="n0"))
        cluster.create(pod("older", requests={"cpu": "1"}, nodeName="n0"))
        for name in ("giant", "giant-2"):
            cluster.create(pod(name, requests={"cpu": "64"}))
        for number in range(2):
            _add_others(cluster, f"other-{number}")
        with serving(cluster.url, cluster={"server": cluster.url, "request_timeout_seconds": _TIMEOUT}) as server:
            yield PlanArena(server, faults, random.Random(seed))


def _add_others(cluster: Any, name: str) -> None:
    labels = {"app": name}
    metadata = {"name": name, "namespace": "default"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    for kind in ("Deployment", "ReplicaSet"):
        cluster.create({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    budget = {"minAvailable": 0, "selector": {"matchLabels": labels}}
    cluster.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget})
    cluster.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
    )
    once = {"template": {"spec": {**template["spec"], "restartPolicy": "Never"}}, "parallelism": 0}
    cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": once})
