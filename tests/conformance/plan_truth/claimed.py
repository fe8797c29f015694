"""Random states with pools, warm pods and claims: which pods each claim gets, which claims wait, and for which reason.

Pods that a claim takes out of their ReplicaSet are replaced, and pools with an autoscaler add pods: their names are
drawn, so of such a pod the owner is compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import yaml

from extender.claims.codes import ClaimCode
from extender.claims.writes.names import PHASE_LABEL
from extender.plan.records import Options, Plan, Sign, World
from extender.plan.run import make_plan
from tests.conformance.plan_truth.outcomes import changes_of
from tests.conformance.plan_truth.served import ServedCluster, owner_or_name, served
from tests.conformance.plan_truth.states import Maker, Object, State, scheduler
from tests.support.apiserver.api import eventually

_API = "waggle.dev/v1alpha1"
_SETTINGS = {"algorithm": {"name": "packing"}, "claims": {"enabled": True, "custom_resources": True}}
#: With "kubernetes", a Claim object cannot have another tenant than its namespace.
_AUTHORIZATIONS = ("none", "none", "none", "kubernetes")
#: Seconds; the autoscaler looks once a second.
_QUIET, _QUIET_SCALED = 1.1, 2.5


#: Of all warm pods.
_PRIORITY = 100
#: Seconds until a pod runs: longer than it takes to ask for all claims.
_START = 0.8


class ClaimOutcome(NamedTuple):
    """The pods that a claim got, or the code for which it has none."""

    pods: tuple[str, ...] = ()
    code: str = ""


def claim_state(seed: int) -> State:
    """One or two pools, each with ReplicaSets of its own, and claims, old and new."""
    return _Maker(seed).claims()


class _Maker(Maker):
    def claims(self) -> State:
        some = self.random
        settings = {**_SETTINGS, "claims": {**_SETTINGS["claims"], "authorization": some.choice(_AUTHORIZATIONS)}}
        state = State(self.seed, yaml.safe_dump(settings), scheduler(ignored=False))
        state.nodes = [self.node(f"n{number}") for number in range(some.randint(2, 4))]
        for node in state.nodes:
            node["spec"] = {}
        pools = [f"pool-{number}" for number in range(some.randint(1, 2))]
        for pool in pools:
            self._pool(state, pool)
        claims = [self._claim(f"c{number}", pools) for number in range(some.randint(1, 6))]
        old = some.choice((0, 0, 1, 2))
        state.early = claims[:old]
        state.create = claims[old:]
        if some.random() < 0.2:
            state.create += self.new_pods(1)
        return state

    def _pool(self, state: State, name: str) -> None:
        some = self.random
        mode = some.choice(("detach", "detach", "recycle"))
        spec: Object = {"selector": {"matchLabels": {"pool": name}}, "mode": mode}
        spec["order"] = some.choice(("fifo", "oldest", "newest", "pack", "spread"))
        first = len(state.objects)
        sets = [self._warm(state, name, mode, size) for size in some.sample(("small", "big"), some.choice((1, 1, 2)))]
        if some.random() < 0.1:
            spec["defaults"] = {"waitSeconds": 0}
        if some.random() < 0.3:
            spec["limits"] = {"maxPodsPerTenant": some.randint(1, 4)}
        if some.random() < 0.3 and len(sets) == 1:
            spec["workload"] = {"kind": "ReplicaSet", "name": sets[0]}
            spec["autoscaler"] = {
                "maxReplicas": state.objects[first]["spec"]["replicas"] + some.randint(0, 4),
                "buffer": some.choice(("none", "one", "quarter", "half")),
            }
        state.objects.append({"apiVersion": _API, "kind": "Pool", "metadata": _named(name), "spec": spec})

    def _warm(self, state: State, pool: str, mode: str, size: str) -> str:
        """A ReplicaSet whose pods run as far as there is room: which of them are idle first is known by their names."""
        some = self.random
        name = f"w{len(state.places)}"
        labels = {"pool": pool, "size": size, "app": name, **({PHASE_LABEL: "idle"} if mode == "recycle" else {})}
        # Pods that replace claimed ones are tried in the order of the claims.
        pod = self.pod(1, priority=_PRIORITY)
        replicas = some.randint(1, 4)
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": pool, "app": name}},
            "template": {"metadata": {"labels": labels, "annotations": {}}, "spec": pod["spec"]},
        }
        state.objects.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": _named(name), "spec": spec})
        state.places[name] = []
        for _ in range(replicas):
            roomy = [node for node, free in self.free.items() if free]
            if roomy:
                node = some.choice(roomy)
                self.free[node] -= 1
                state.places[name].append((node, ""))
        return name

    def _claim(self, name: str, pools: list[str]) -> Object:
        some = self.random
        pool = "nowhere" if some.random() < 0.05 else some.choice(pools)
        spec: Object = {"poolRef": {"name": pool}, "count": some.choice((1, 1, 1, 2, 3)), "waitSeconds": 500}
        if some.random() < 0.1:
            del spec["waitSeconds"]
        elif some.random() < 0.15:
            spec["waitSeconds"] = some.choice((0, 0, 900))
        if some.random() < 0.1:
            spec["onEmpty"] = "fail"
        if some.random() < 0.3:
            spec["requires"] = {"size": some.choice(("small", "big"))}
        if some.random() < 0.4:
            spec["tenant"] = some.choice(("t0", "t1"))
        if some.random() < 0.3:
            spec["priority"] = some.choice((-5, 5, 10))
        return {"apiVersion": _API, "kind": "Claim", "metadata": _named(name), "spec": spec}


def _named(name: str) -> Object:
    return {"name": name, "namespace": "default"}


Found = tuple[dict[str, ClaimOutcome], dict[str, list[str]]]


def what_happens(state: State) -> tuple[World, Found]:
    """The world at the beginning, what has become of every claim at the end, and the nodes of pods by owner."""
    scales = any("autoscaler" in each["spec"] for each in state.objects)
    quiet = _QUIET_SCALED if scales else _QUIET
    with served(state, start_delay=_START) as cluster:
        cluster.serve()
        cluster.place()
        cluster.schedule()
        cluster.settle(quiet)
        for each in state.early:
            cluster.cluster.create(each)
        cluster.settle(quiet if state.early else 0.05)
        world = cluster.world()
        claims = [each for each in state.create if each["kind"] == "Claim"]
        for each in state.create:
            if each not in claims:
                cluster.cluster.create(each)
        cluster.settle(quiet if len(claims) < len(state.create) else 0.05)
        for each in claims:
            cluster.cluster.create(each)
            eventually(lambda name=each["metadata"]["name"]: _is_asked(cluster, name))
        cluster.settle(quiet)
        return world, _outcomes(cluster, world)


def _outcomes(cluster: ServedCluster, world: World) -> Found:
    """Claims that were decided at the beginning are left out: a plan has no rows for them."""
    known = _known(world)
    decided = {raw.name for raw in world.objects if raw.kind == "Claim" and _is_decided(msgspec.json.decode(raw.json))}
    found = {each["metadata"]["name"]: _live(each, known) for each in cluster.objects("claims")}
    claims = {name: outcome for name, outcome in found.items() if name not in decided}
    nodes: dict[str, list[str]] = {}
    for pod in cluster.objects("pods"):
        nodes.setdefault(owner_or_name(pod["metadata"]["name"], set()), []).append(pod["spec"].get("nodeName", ""))
    return claims, {name: sorted(each) for name, each in nodes.items()}


def _known(world: World) -> set[str]:
    """The pods that are compared by name. Those that have replaced others are alike, and idle at the same time."""
    pods = [pod.pod.pod for pod in world.pods]
    first = min((pod.created for pod in pods), default="")
    return {pod.name for pod in pods if pod.node_name and pod.created == first}


def _is_asked(cluster: ServedCluster, name: str) -> bool:
    """Whether Waggle has taken up a Claim, so that the next one comes after it."""
    [claim] = [each for each in cluster.objects("claims") if each["metadata"]["name"] == name]
    assert cluster.process is not None
    assert cluster.process.claims is not None
    uid = claim["metadata"]["uid"]
    pending = cluster.process.claims.runtime.look(lambda engine, _: list(engine.requests.pending))
    return bool(claim.get("status", {}).get("phase")) or any(f"c-{uid}-" in each for each in pending)


def _is_decided(claim: Object) -> bool:
    return claim.get("status", {}).get("phase") in ("Claimed", "Failed")


def _live(claim: Object, known: set[str]) -> ClaimOutcome:
    status: dict[str, Any] = claim.get("status", {})
    if status.get("phase") == "Claimed":
        return ClaimOutcome(tuple(sorted(owner_or_name(each["name"], known) for each in status["pods"])))
    if status.get("phase") == "Failed":
        return ClaimOutcome(code=status["reason"])
    return ClaimOutcome(code=status.get("reason") or ClaimCode.NO_IDLE_POD.value)


def planned(state: State, world: World) -> tuple[Plan, Found]:
    """The same as the plan says it."""
    plan = make_plan(world, changes_of(state), Options(seed=state.seed))
    # A plan calls a pod that is evicted and made again by its old name; in the cluster it gets another one.
    known = _known(world) - {row.name for row in plan.rows if row.kind == "Pod" and row.sign is Sign.MOVES}
    claims: dict[str, ClaimOutcome] = {}
    nodes: dict[str, str] = {pod.pod.pod.name: pod.pod.pod.node_name for pod in world.pods}
    for row in plan.rows:
        if row.kind == "Claim":
            pods = tuple(sorted(owner_or_name(name, known) for name in row.node.split(", ")))
            claims[row.name] = ClaimOutcome(pods) if row.sign is Sign.RUNS else ClaimOutcome(code=row.code)
        elif row.sign is Sign.EVICTED and "; made again" not in row.text:
            nodes.pop(row.name, None)
        else:
            nodes[row.name] = row.node
    found: dict[str, list[str]] = {}
    for name, node in nodes.items():
        found.setdefault(owner_or_name(name, set()), []).append(node)
    return plan, (claims, {name: sorted(each) for name, each in found.items()})
