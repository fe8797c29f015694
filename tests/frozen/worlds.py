"""The simulations that are frozen: the cluster of tests.soak, with everything that goes wrong in it, and more.

    packing   single pods and gangs; preemption by kube-scheduler, by Waggle and by both; settings change
    hived     four machines in two racks, two tenants: groups with quota and without, lazy preemption and promotion,
              machines and devices that go bad and recover; quotas change

In both: elections and terms, every fault of writes and of watches, crashes, pauses, partitions, another kube-scheduler,
pods that come back under their old name, filters that no bind follows, questions why a pod waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from algorithm.decoding import decode_pod
from algorithm.interface import SchedulerAlgorithm, SuggestedNodes
from algorithm.model import Pod
from algorithm.registry import create, reads
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Stored
from extender.embedded.apiserver.table import NODES, PODS, PRIORITY_CLASSES
from extender.scheduling.events import (
    AlgorithmPrepared,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    PrioritizeRequested,
    ReconfigureRequested,
)
from tests.frozen import recording, today
from tests.frozen.plain import plain
from tests.soak.checks import Checks
from tests.soak.replica import Replica
from tests.soak.runs import in_one_thread
from tests.soak.users import GPU, Users
from tests.soak.world import SoakWorld


@dataclass(frozen=True)
class Run:
    """One simulation: by which algorithm, and how many steps until it is left to settle.

    The seed chooses who evicts and whether there are elections (`tests.soak.world.policy_of`), `policy` the rest.
    """

    algorithm: str
    seed: int
    steps: int
    policy: Mapping[str, Any] = field(default_factory=dict)
    #: How often a call to the API server goes wrong.
    rate: float = 0.12

    @property
    def name(self) -> str:
        return f"{self.algorithm}-{self.seed}"

    def record(self) -> list[recording.Line]:
        """Lets it happen. The same run has the same lines."""
        with in_one_thread():
            world = {"packing": Recorded, "hived": HivedRecorded}[self.algorithm](self)
            for _ in range(self.steps):
                world.step()
            world.settle()
            for replica in world.replicas:
                world.lines.append(recording.end(replica.name, replica.machine))
        return world.lines


#: Of each kind some: with and without an election, by who evicts, and what operators may set otherwise; one with very
#: many faults, for the outcomes that are rare.
RUNS = [
    Run(algorithm, seed, 700, policy, 0.35 if seed == 25 else 0.12)
    for algorithm in ("packing", "hived")
    for seed, policy in (
        (25, {"reservation_timeout": 15.0}),
        (2, {"force_bind_after": 2, "reservation_timeout": 30.0}),
        (4, {"force_bind_unoffered": True}),
        (1, {"resource": GPU, "patience": 25.0}),
        (10, {"patience": 15.0, "reservation_timeout": 20.0}),
        (3, {"resource": GPU}),
        (9, {"force_bind_after": 3}),
        (6, {"patience": 20.0}),
        (21, {"force_bind_unoffered": True, "resource": GPU}),
        (15, {"reservation_timeout": 20.0}),
        (30, {"reservation_timeout": 30.0, "patience": 30.0}),
    )
]


_SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
#: What users write on pods; the rest is what was decided about them.
_WISHES = ("waggle.dev/gang", "waggle.dev/gang-min", _SPEC)


class RecordedUsers(Users):
    """Their pods take their time to go, and of seven one does not go at all, until all comes to rest."""

    def __init__(self, world: Recorded) -> None:
        super().__init__(world.api, world.rng)
        self._world = world

    def lets_go(self, stored: Stored) -> bool:
        if not self._world.draws.rate:
            return True
        return int(stored.key[1][1:6]) % 7 > 0 and self.rng.random() < 0.4


class Recorded(SoakWorld):
    """The cluster with `packing`. `lines` is all that its replicas heard and said."""

    algorithm = "packing"
    #: The settings that operators change between; the seed says which are those of the start.
    settings: tuple[dict[str, Any], ...] = ({}, {"strategy": "spread"}, {"preemption_candidates": 3})

    def __init__(self, run: Run) -> None:
        self.lines: list[recording.Line] = []
        self._by_name: dict[str, Replica] = {}
        self._changes = 0
        self._more = {"claims": reads(self.algorithm).claims, **run.policy}
        super().__init__(run.seed, rate=run.rate)

    def make(self) -> SchedulerAlgorithm:
        return create(self.algorithm, self._first_settings)

    @property
    def _first_settings(self) -> dict[str, Any]:
        return self.settings[self.seed % len(self.settings)]

    def _make_users(self) -> Users:
        return RecordedUsers(self)

    # -- what is recorded -----------------------------------------------------------------------------------------

    def _boot(self) -> Replica:
        self.policy = today.policy_of(plain(replace(self.policy, **self._more)))  # and every second a float
        replica = super()._boot()
        self._by_name[replica.name] = replica
        self.lines.append(recording.born(replica.name, self.algorithm, self._first_settings, self.policy))
        return replica

    def _crash(self, replica: Replica) -> None:
        self.lines.append(recording.end(replica.name, replica.machine))
        super()._crash(replica)

    def _log(self, name: str, event: Event, out: list[Instruction]) -> None:
        super()._log(name, event, out)
        self._add(self._by_name[name], event, out)

    def _add(self, replica: Replica, event: Any, out: list[Any]) -> None:
        self.lines.append(recording.step(replica.name, self.now, event, out, replica.machine))

    # -- what happens besides -------------------------------------------------------------------------------------

    def _doings(self) -> list[tuple[float, Callable[[], object]]]:
        return [*super()._doings(), (0.3, self._recreate_pod)]

    def _recreate_pod(self) -> None:
        """As a StatefulSet does it: the same name, another pod. What is under way for the old one must not hit it."""
        pods = list(self.api.store.collection(PODS))
        if not pods:
            return
        stored = self.rng.choice(pods)
        old = stored.fresh()
        self.api.store.remove(PODS, stored)
        written = {key: each for key, each in old["metadata"].get("annotations", {}).items() if key in _WISHES}
        metadata = {"name": old["metadata"]["name"], "annotations": written}
        wanted = {key: old["spec"][key] for key in ("containers", "priorityClassName") if key in old["spec"]}
        self.api.create(Target(PODS, "default"), {"metadata": metadata, "spec": wanted})

    def _doings_of(self, replica: Replica) -> list[tuple[float, Callable[[], object]]]:
        more = [(0.3, self._prioritize), (0.5, self._explain), (0.4, self._stray_filter), (0.1, self._reconfigure)]
        return super()._doings_of(replica) + [(weight, partial(do, replica)) for weight, do in more]

    def _pod_and_nodes(self) -> tuple[Pod, SuggestedNodes] | None:
        pods, nodes = (list(self.api.store.collection(kind)) for kind in (PODS, NODES))
        names = self.rng.sample([node.key[1] for node in nodes], min(3, len(nodes)))
        return (decode_pod(self.rng.choice(pods).raw), SuggestedNodes(names)) if pods else None

    def _prioritize(self, replica: Replica) -> None:
        if found := self._pod_and_nodes():
            replica._apply(PrioritizeRequested(*found))  # without the fence: when this was frozen, it had none

    def _explain(self, replica: Replica) -> None:
        """Somebody looks why a pod waits: what the algorithm tries for that must leave no trace."""
        if found := self._pod_and_nodes():
            asked = today.Explain(found[0])
            self._add(replica, asked, today.explain(replica.machine, asked))

    def _stray_filter(self, replica: Replica) -> None:
        """A caller that is no scheduler of ours, with some nodes only, now and then as if the pod were none of ours."""
        if found := self._pod_and_nodes():
            pod, nodes = found
            if self.policy.resource and self.rng.random() < 0.3:
                pod = msgspec.structs.replace(pod, requests=(), limits=())
            for answer in replica.handle(FilterRequested(pod, nodes)):
                if isinstance(answer, FilterAnswer) and answer.node:
                    self.scheduling.proposed.add((pod.uid, answer.node))

    def _reconfigure(self, replica: Replica) -> None:
        if not replica.machine.synced:
            return
        self.happened["reconfiguration"] += 1
        self._changes += 1
        settings = self.rng.choice(self.settings)
        replica.handle(ReconfigureRequested(self._changes, self.algorithm, settings))
        if self.rng.random() < 0.7:
            replica.handle(AlgorithmPrepared(self._changes))


# -- HiveD ------------------------------------------------------------------------------------------------------------


def _hived(a: dict[str, int], b: dict[str, int], **more: Any) -> dict[str, Any]:
    """Two racks of two machines with four devices each, and what of them two tenants own."""
    cells = {
        "socket": {"childCellType": "gpu", "childCellNumber": 2},
        "host": {"childCellType": "socket", "childCellNumber": 2, "isNodeLevel": True},
        "rack": {"childCellType": "host", "childCellNumber": 2},
    }
    racks = [
        {"cellType": "rack", "cellChildren": [{"cellAddress": one}, {"cellAddress": other}]}
        for one, other in (MACHINES[:2], MACHINES[2:])
    ]
    owned = {
        name: {"virtualCells": [{"cellType": path, "cellNumber": number} for path, number in cells_of.items()]}
        for name, cells_of in (("a", a), ("b", b))
    }
    return {"physicalCluster": {"cellTypes": cells, "physicalCells": racks}, "virtualClusters": owned, **more}


MACHINES = ("m1", "m2", "m3", "m4")
_BAD = "waggle.dev/bad-devices"
#: Priority of a group, and the class that its pods have in Kubernetes.
_PRIORITIES = {-1: "low", 0: "", 10: "middle", 100: "high"}


class HivedUsers(RecordedUsers):
    """They make groups of the two tenants, and bring machines down and up again."""

    def __init__(self, world: Recorded) -> None:
        super().__init__(world)
        world.api.create(Target(PRIORITY_CLASSES), {"metadata": {"name": "middle"}, "value": 10})

    def create_pods(self) -> None:
        self._names += 1
        group, count = f"g{self._names}", self.rng.choice((1, 1, 1, 2, 2, 3, 4))
        leafs = self.rng.choice((1, 1, 2, 2, 4))
        spec = {
            "virtualCluster": self.rng.choice(("a", "a", "b", "b", "b", "nobody") if self._names % 9 == 0 else "ab"),
            "priority": self.rng.choice(list(_PRIORITIES)),
            "leafCellNumber": leafs,
            "lazyPreemptionEnable": self.rng.random() < 0.6,
            "ignoreK8sSuggestedNodes": self.rng.random() < 0.5,
            "gangReleaseEnable": self.rng.random() < 0.5,
            "affinityGroup": {"name": group, "members": [{"podNumber": count, "leafCellNumber": leafs}]},
        }
        for index in range(count):
            self._create_pod(f"p{self._names:05}-{index}", spec)

    def _create_pod(self, name: str, spec: dict[str, Any]) -> None:
        limits = {GPU: str(spec["leafCellNumber"])}
        requests = {"cpu": "100m", "memory": "64Mi", **limits}
        container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}
        annotations = {_SPEC: json.dumps(spec)}
        metadata = {"name": name, "namespace": "default", "annotations": annotations}
        wanted = {"containers": [container], "priorityClassName": _PRIORITIES[spec["priority"]]}
        self.api.create(Target(PODS, "default"), {"metadata": metadata, "spec": wanted})

    def add_node(self) -> None:
        """The machines are what the configuration names; afterwards one of them comes back, with what it has."""
        there = {stored.key[1] for stored in self.api.store.collection(NODES)}
        missing = [name for name in MACHINES if name not in there]
        if not missing:
            self._change(self.rng.choice(MACHINES), ready=True, bad="")
            return
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "4"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.create(Target(NODES), {"metadata": {"name": missing[0]}, "status": status})

    def remove_node(self, kept: set[str]) -> None:
        """A machine or some of its devices fail."""
        bad = self.rng.choice(("", "", "0", "1,3"))
        self._change(self.rng.choice(MACHINES), ready=bool(bad), bad=bad)

    def _change(self, name: str, *, ready: bool, bad: str) -> None:
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        self.api.patch(Target(NODES, "", name), {"metadata": {"annotations": {_BAD: bad or None}}}, MERGE)
        self.api.patch(Target(NODES, "", name, "status"), {"status": {"conditions": conditions}}, MERGE)


class HivedRecorded(Recorded):
    """The cluster with `hived`."""

    algorithm = "hived"
    settings = (
        _hived({"rack.host": 2}, {"rack.host": 1, "rack.host.socket": 1}, promoteLazilyPreempted=True, badDevices={}),
        _hived({"rack.host": 1, "rack.host.socket": 1}, {"rack.host": 1, "rack.host.socket": 2}, combineCells=True),
        _hived({"rack": 1}, {"rack.host.socket": 3}, badDevices={}, keepHealthyCellsWhole=True, obeyGangRelease=True),
    )

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._checks = _HivedChecks(self)

    def _make_users(self) -> Users:
        return HivedUsers(self)

    def _doings(self) -> list[tuple[float, Callable[[], object]]]:
        return [*super()._doings(), (0.4, self.users.add_node)]

    def _remove_node(self) -> None:
        self.users.remove_node(set())


class _HivedChecks(Checks):
    """What holds with any algorithm; tests/unit/algorithm/hived has the audits of HiveD's own state."""

    def _replica(self, replica: Replica) -> None:
        replica.machine.validate()
        assert not replica.machine.driver.faults, replica.machine.driver.last_fault

    def _gangs(self) -> None:
        """A group may be split by the machines that fail."""
