"""Plays recordings of Knative's vpod scheduler to ours: a checker of such recordings calls `factory(case, engine)`.

A `World` is one fake cluster: pods, a scale, a watch, vpods with what is committed. It does what the host of the
original does and asks our policies for each decision. Where the original crashes or reads a wrong pod name as one of
ours, this one goes on: a recording's `better` says so. test_vpods_recordings.py lists these recordings with the
number of the defect.

Ours has no cache of scales: it watches the StatefulSet instead. The engine "scale-cache" of a checker is played by a
model of the original's, vpods_scale_cache.py, and says nothing about Waggle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from algorithm.placements import head, v0431
from algorithm.placements.model import Placement, SetState
from algorithm.placements.v0430 import autoscaler, plugins
from algorithm.placements.v0430.plugins import PluginUse
from algorithm.placements.v0430.scheduler import PluginScheduler, Policy
from algorithm.placements.v0430.snapshot import Cluster, Committed, Snapshot, collect
from tests.conformance.vpods_scale_cache import ScaleCacheWorld

Step = dict[str, Any]
Report = dict[str, Any]

#: What the annotation that closes a pod may say.
TRUE = {"1", "t", "T", "true", "TRUE", "True"}


def factory(case: Mapping[str, Any], engine: str) -> World | ScaleCacheWorld:
    worlds: dict[str, type[World] | type[ScaleCacheWorld]] = {
        "head": HeadWorld,
        "v0.43.1": OldWorld,
        "v0.43.0": PluginWorld,
        "scale-cache": ScaleCacheWorld,
    }
    if engine not in worlds:
        raise NotImplementedError(engine)
    return worlds[engine](case)


class World:
    """A cluster with one set."""

    #: Whether a pod must be there for a vreplica to be evicted from it.
    needs_pod = False

    def __init__(self, case: Mapping[str, Any]) -> None:
        config, cluster = case["config"], case["cluster"]
        self.name = config["statefulset"]
        self.least = config["minReplicas"]
        self.refresh = config["refreshPeriodSeconds"]
        self.evictor = config["evictor"]
        self.scale = cluster["scaleReplicas"]
        self.watched = cluster.get("watchReplicas", self.scale)
        self.has_pods = not cluster.get("noPodLister")
        self.pods = {pod["ordinal"]: pod for pod in cluster["pods"]}
        self.vpods = {each["key"]: dict(each) for each in case["vpods"]}
        self.state = SetState(capacity=config["capacity"], seeded=False)
        self.faults: set[str] = set()
        self.is_leader = True
        self.now = 0.0
        self.last_attempt = -self.refresh - 60.0

    def step(self, step: Step) -> Report:
        play: Callable[[Step], Report] | None = getattr(self, f"on_{step['op']}", None)
        if play is None:
            raise NotImplementedError(step["op"])
        self.collect()
        return play(step)

    # -- what is true now

    def collect(self) -> None:
        """Tell the state what informers would."""
        self.state.replicas = self.scale
        for ordinal in {*self.pods, *self.state.usable}:
            self.state.set_usable(ordinal, self.is_usable(ordinal))
        for key in [*self.state.vpods]:
            if key not in self.vpods:
                self.state.put(key, 0, {})
        for key, vpod in self.vpods.items():
            counts = dict(self.counts(vpod["placements"]))
            self.state.put(key, vpod["vreplicas"], counts, deleting=vpod.get("deleting", False))

    def is_usable(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal) if self.has_pods else None
        if pod is None or ordinal >= self.scale:
            return False
        return pod.get("node", "some") != "" and pod.get("unschedulable") not in TRUE

    def counts(self, placements: list[Any]) -> Iterator[tuple[int, int]]:
        found: dict[int, int] = {}
        for name, number in placements:
            prefix, _, text = name.rpartition("-")
            if prefix == self.name and text.isdecimal():
                found[int(text)] = found.get(int(text), 0) + number
        return iter(found.items())

    def names(self, counts: Mapping[int, int]) -> dict[str, int]:
        return {f"{self.name}-{ordinal}": number for ordinal, number in counts.items()}

    def reservations(self) -> dict[str, dict[str, int]]:
        return {key: self.names(counts) for key, counts in self.state.reserved()}

    # -- steps

    def place(self, key: str) -> Placement:
        raise NotImplementedError

    def on_schedule(self, step: Step) -> Report:
        key = step["vpod"]
        if "vreplicas" in step:
            self.vpods[key]["vreplicas"] = step["vreplicas"]
            self.collect()
        placement = self.place(key)
        self.reserve(key, placement)
        listed = [[f"{self.name}-{o}", number] for o, number in sorted(placement.counts.items())]
        if step["commit"] == "always" or (step["commit"] == "on_success" and not placement.left):
            self.vpods[key]["placements"] = listed
        report = {
            "autoscaleTriggered": placement.left > 0,
            "error": "insufficient" if placement.left else None,
            "placed": placement.placed,
            "placements": listed,
            "reserved": self.names(placement.counts) or None,
        }
        return report | ({"left": placement.left, "requeueAfterSeconds": 5} if placement.left else {})

    def reserve(self, key: str, placement: Placement) -> None:
        self.state.reserve(key, placement.counts or None)

    def wanted_replicas(self) -> int:
        raise NotImplementedError

    def evictions(self) -> list[tuple[str, int, int]] | None:
        raise NotImplementedError

    def on_autoscale(self, step: Step) -> Report:
        report: Report = {"replicas": self.scale, "updates": 0, "evictions": [], "error": None}
        if not self.is_leader:
            return report
        wanted = self.wanted_replicas()
        if not step["scaleDown"]:
            wanted = max(wanted, self.scale)
        if wanted != self.scale:
            report["updates"] = 1
            if "update_scale" in self.faults:
                return report | {"error": "update_scale"}
            self.scale = self.watched = wanted
            return report | {"replicas": wanted}
        return report | (self.on_compact(step) if step["scaleDown"] else {})

    def on_compact(self, step: Step) -> Report:
        evicted: list[list[Any]] = []
        if self.now - self.last_attempt < self.refresh:
            return {"evictions": evicted, "error": None}
        evictions = self.evictions()
        if evictions is None:
            return {"evictions": evicted, "error": None}
        self.last_attempt = self.now
        for key, ordinal, number in evictions:
            if self.needs_pod and ordinal not in self.pods:
                return {"evictions": evicted, "error": "pod_not_found"}
            evicted.append([key, f"{self.name}-{ordinal}", number, ordinal in self.pods])
            if "evict" in self.faults or self.evictor == "fail":
                return {"evictions": evicted, "error": "evict"}
            if self.evictor == "apply":
                vpod = self.vpods[key]
                name = f"{self.name}-{ordinal}"
                vpod["placements"] = [each for each in vpod["placements"] if each[0] != name]
        return {"evictions": evicted, "error": None}

    def on_promote(self, step: Step) -> Report:
        self.is_leader = True
        for key, vpod in self.state.vpods.items():
            self.state.reserve(key, vpod.committed if self.is_seeded(vpod.deleting) and key in self.vpods else None)
        return {"reserved": self.reservations(), "error": None}

    def is_seeded(self, deleting: bool) -> bool:
        return not deleting

    def on_demote(self, step: Step) -> Report:
        self.is_leader = False
        return {"autoscalerLeader": False, "reserved": self.reservations()}

    def on_reconcile_pods(self, step: Step) -> Report:
        self.pods = {o: self.pods.get(o, {"ordinal": o, "node": f"node-{o}"}) for o in range(self.scale)}
        self.watched = self.scale
        return {"replicas": self.scale}

    def on_resync(self, step: Step) -> Report:
        if self.is_leader:
            for key in [*self.state.vpods]:
                if key not in self.vpods:
                    self.state.remove(key)
        return {"reserved": self.reservations(), "error": None}

    def on_state(self, step: Step) -> Report:
        state = self.state
        free = self.free_list()
        pending = {
            vpod.key: max(0, vpod.wanted - sum(vpod.committed.values()))
            for vpod in state.vpods.values()
            if self.listed(vpod.key)
        }
        wanted = {vpod.key: vpod.wanted for vpod in state.vpods.values() if self.listed(vpod.key)}
        return {
            "capacity": state.capacity,
            "replicas": state.replicas,
            "schedulablePods": [*state.usable],
            "freeCap": free,
            "freeCapacity": sum(free[ordinal] for ordinal in state.usable),
            "pending": pending,
            "expected": wanted,
            "podSpread": {
                key: self.names({o: n for o, n in state.vpods[key].committed.items() if state.is_usable(o)})
                for key in wanted
            },
            "totalPending": sum(pending.values()),
            "totalExpected": state.total_wanted,
        }

    def listed(self, key: str) -> bool:
        return key in self.vpods

    def free_list(self) -> list[int]:
        state = self.state
        length = 1 + max((*state.committed, *state.usable[-1:]), default=-1)
        return [state.capacity - state.committed.get(ordinal, 0) for ordinal in range(length)]

    def on_free(self, step: Step) -> Report:
        free = self.free_list()
        ordinal = step["ordinal"]
        report = {"schedulable": self.state.is_usable(ordinal)}
        if not step.get("set"):
            return report | {"free": free[ordinal] if ordinal < len(free) else self.state.capacity}
        free += [self.state.capacity] * (ordinal + 1 - len(free))
        free[ordinal] = step["value"]
        return report | {"free": free[ordinal], "freeCap": free}

    def on_total(self, step: Step) -> Report:
        return {"total": sum(number for _, number in step.get("placements") or [])}

    def on_reserved(self, step: Step) -> Report:
        return {"reserved": self.reservations()}

    def on_vpods(self, step: Step) -> Report:
        fields = ("key", "vreplicas", "placements")
        return {"vpods": [{field: each[field] for field in fields} for each in self.vpods.values()]}

    # -- what others do

    def on_advance(self, step: Step) -> Report:
        self.now += step["seconds"]
        return {}

    def on_faults(self, step: Step) -> Report:
        self.faults = set(step.get("faults") or ())
        return {}

    def on_expire_scale_cache(self, step: Step) -> Report:
        return {}  # nothing is cached: the set is watched

    def on_set_scale(self, step: Step) -> Report:
        self.scale = step["replicas"]
        if step.get("set"):
            self.watched = self.scale
        return {}

    def on_set_pods(self, step: Step) -> Report:
        self.pods = {pod["ordinal"]: pod for pod in step["pods"]}
        return {}

    def on_upsert_pod(self, step: Step) -> Report:
        self.pods |= {pod["ordinal"]: pod for pod in step["pods"]}
        return {}

    def on_create(self, step: Step) -> Report:
        self.vpods[step["vpod"]] = {"key": step["vpod"], "vreplicas": step["vreplicas"], "placements": []}
        return {}

    def on_delete(self, step: Step) -> Report:
        self.vpods.pop(step["vpod"], None)
        return {}

    def on_commit(self, step: Step) -> Report:
        self.vpods[step["vpod"]]["placements"] = step["placements"]
        return {}

    def on_commit_reserved(self, step: Step) -> Report:
        vpod = self.state.vpods[step["vpod"]]
        names = self.names(dict(sorted((vpod.reserved or {}).items())))
        self.vpods[step["vpod"]]["placements"] = [[name, number] for name, number in names.items()]
        return {}

    def on_set_reserved(self, step: Step) -> Report:
        for key in self.state.vpods:
            self.state.reserve(key, None)
        for key, names in step["reserved"].items():
            if key not in self.state.vpods:
                self.state.put(key, 0, {})
            self.state.reserve(key, dict(self.counts([*names.items()])))
        return {}


class HeadWorld(World):
    def place(self, key: str) -> Placement:
        return head.place(self.state.vpods[key], self.state, least=self.least, watched=self.watched)

    def wanted_replicas(self) -> int:
        return head.replicas(self.state, least=self.least)

    def evictions(self) -> list[tuple[str, int, int]] | None:
        return head.stranded(self.state)


class OldWorld(World):
    needs_pod = True

    def place(self, key: str) -> Placement:
        return v0431.place(self.state.vpods[key], self.state, watched=self.watched)

    def wanted_replicas(self) -> int:
        return head.replicas(self.state, least=self.least)

    def evictions(self) -> list[tuple[str, int, int]] | None:
        return v0431.removable(self.state)

    def is_seeded(self, deleting: bool) -> bool:
        return True

    def on_resync(self, step: Step) -> Report:
        return {"reserved": self.reservations(), "error": "unsupported"}

    def on_state(self, step: Step) -> Report:
        return super().on_state(step) | {"lastOrdinal": v0431.last_ordinal(self.state)}


class PluginWorld(World):
    """Of v0.43.0. Reservations are the scheduler's own: they keep entries of 0."""

    needs_pod = True

    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        config = case["config"]
        self.cluster_nodes = case["cluster"]["nodes"]
        self.scheduler = PluginScheduler(
            self.cluster(),
            {},
            fills_up=config["policyType"] == "MAXFILLUP",
            adding=policy(config.get("sched")),
            removing=policy(config.get("desched")),
        )

    def cluster(self) -> Cluster:
        zones = {node["name"]: node.get("zone", "unknown") for node in self.cluster_nodes if not is_closed(node)}
        nodes = {ordinal: pod.get("node", f"node-{ordinal}") for ordinal, pod in self.pods.items()}
        usable = frozenset(ordinal for ordinal, node in nodes.items() if self.is_usable(ordinal) and node in zones)
        return Cluster(self.state.capacity, self.scale, usable, nodes, zones)

    def collect(self) -> None:
        self.scheduler.cluster = self.cluster()
        self.scheduler.watched = self.watched
        self.scheduler.vpods = {
            key: Committed(key, vpod["vreplicas"], dict(self.counts(vpod["placements"])))
            for key, vpod in self.vpods.items()
        }

    def reservations(self) -> dict[str, dict[str, int]]:
        return {key: self.names(counts) for key, counts in self.scheduler.reserved.items()}

    def on_schedule(self, step: Step) -> Report:
        report = super().on_schedule(step)
        return report | {"reserved": self.reservations().get(step["vpod"])}

    def reserve(self, key: str, placement: Placement) -> None:
        pass

    def place(self, key: str) -> Placement:
        return self.scheduler.place(key)

    def wanted_replicas(self) -> int:
        return autoscaler.replicas(self.scheduler, least=self.least)

    def evictions(self) -> list[tuple[str, int, int]] | None:
        return autoscaler.removable(self.scheduler)

    def on_set_reserved(self, step: Step) -> Report:
        self.scheduler.reserved = {key: dict(self.counts([*names.items()])) for key, names in step["reserved"].items()}
        return {}

    def snapshot(self, step: Step) -> Snapshot:
        if step.get("noReserved"):
            return collect(self.scheduler.cluster, self.scheduler.vpods.values(), {})
        return collect(self.scheduler.cluster, self.scheduler.vpods.values(), self.seen)

    def on_state(self, step: Step) -> Report:
        self.seen = {key: dict(counts) for key, counts in self.scheduler.reserved.items()}
        state = self.snapshot(step)
        report = {
            "capacity": state.cluster.capacity,
            "replicas": state.cluster.replicas,
            "schedulablePods": state.usable,
            "freeCap": state.free,
            "freeCapacity": state.free_capacity,
            "lastOrdinal": state.last_ordinal,
            "pending": state.pending,
            "expected": state.wanted,
            "totalPending": sum(state.pending.values()),
            "totalExpected": sum(state.wanted.values()),
            "podSpread": {key: self.names(spread) for key, spread in state.pods.items()},
            "nodeSpread": {key: state.by_node(key) for key in state.pods},
            "zoneSpread": {key: state.by_zone(key) for key in state.pods},
            "nodeToZone": dict(state.cluster.zones),
            "numNodes": len(state.cluster.zones),
            "numZones": len({*state.cluster.zones.values()}),
        }
        return report | (
            {}
            if step.get("noReserved")
            else {"reservedAfter": {key: self.names(counts) for key, counts in self.seen.items()}}
        )

    def on_filter(self, step: Step) -> Report:
        use = PluginUse(step["plugin"], step["args"])
        reason = plugins.reason_against(use, self.snapshot({"noReserved": True}), step["vpod"], step["ordinal"])
        return {"pass": not reason, "reason": reason}

    def on_score(self, step: Step) -> Report:
        use = PluginUse(step["plugin"], step["args"])
        try:
            found = plugins.score(use, self.snapshot({"noReserved": True}), step["vpod"], step["ordinal"])
        except plugins.RefusedError as refused:
            return {"ok": False, "reason": str(refused), "score": "0"}
        return {"ok": True, "reason": "", "score": str(found), "penalty": plugins.MOST - found}


def policy(found: Mapping[str, Any] | None) -> Policy | None:
    if found is None:
        return None
    uses = {
        kind: [PluginUse(each["name"], each["args"], each.get("weight", 0)) for each in found[kind]]
        for kind in ("predicates", "priorities")
    }
    return Policy(uses["predicates"], uses["priorities"])


def is_closed(node: Mapping[str, Any]) -> bool:
    taints = {tuple(taint) for taint in node.get("taints") or ()}
    key = "node.kubernetes.io/unreachable"
    return bool(node.get("cordoned")) or bool(taints & {(key, "NoExecute"), (key, "NoSchedule")})
