"""What must hold in the simulation: after every step, and when it has come to rest."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from algorithm.decoding import decode_pod
from algorithm.model import Pod
from extender.embedded.apiserver.store import Stored
from extender.embedded.apiserver.table import NODES, PODS
from extender.scheduling.state.pod_info import State
from tests.soak.replica import Replica
from tests.soak.users import GPU, GPUS, HIGHEST

if TYPE_CHECKING:
    from tests.soak.world import SoakWorld

#: Faults of the bind by which the API server refuses it: such a gang is rightly split.
_REFUSALS = ("403 Forbidden", "409 Conflict")


class Checks:
    """Looks at the API server and at every replica. Raises AssertionError."""

    def __init__(self, world: SoakWorld) -> None:
        self.world = world
        #: Where each pod was bound, by UID, ever.
        self.placed: dict[str, str] = {}

    # -- after every step -----------------------------------------------------------------------------------------

    def always(self) -> None:
        leaders = [replica for replica in self.world.replicas if replica.ready]
        assert len(leaders) <= 1, f"{[replica.name for replica in leaders]} decide at the same time"
        for replica in self.world.replicas:
            self._replica(replica)
        self._cluster()

    def _replica(self, replica: Replica) -> None:
        replica.machine.validate()
        replica.algorithm.validate()
        assert not replica.machine.driver.faults, replica.machine.driver.last_fault
        for hold in replica.machine.state.ledger.active():
            latest = self.world.now + replica.policy.lease
            assert hold.deadline <= latest or hold.deadline == float("inf"), f"{hold} outlives its lease"

    def _cluster(self) -> None:
        used: Counter[str] = Counter()
        proposed = self.world.scheduling.proposed
        for stored in self.world.api.store.collection(PODS):
            node = stored.fields["spec.nodeName"]
            if not node:
                continue
            assert self.placed.setdefault(stored.uid, node) == node, f"{stored.key} was bound twice"
            assert (stored.uid, node) in proposed, f"{stored.key} is on {node}, which was never proposed"
            if stored.fields["status.phase"] != "Succeeded":
                used[node] += dict(decode_pod(stored.raw).requests)[GPU]
        over = {node: number for node, number in used.items() if number > GPUS}
        assert not over, f"over-committed: {over}"

    # -- at rest --------------------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        for replica in self.world.replicas:
            assert replica.compare() == 0, f"the cache of {replica.name} differs from the API server"
            assert not replica.machine.state.ledger.active(), "a hold is left"
            self._pods(replica)
        self._gangs()

    def _pods(self, replica: Replica) -> None:
        """Every pod is bound where the engine says, or waits and its owner was told why."""
        pod_infos = {pod_info.uid: pod_info for pod_info in replica.machine.pod_infos()}
        for stored in self.world.api.store.collection(PODS):
            pod = decode_pod(stored.raw)
            if pod.finished:
                continue
            pod_info = pod_infos.pop(pod.uid)
            if pod.node_name:
                assert (pod_info.state, pod_info.node) == (State.BOUND, pod.node_name)
            else:
                assert pod_info.state is State.WAITING, f"{pod.key} is {pod_info.state}"
                assert _told_why(stored), f"{pod.key} waits, and nobody was told why"
        assert not pod_infos, f"the engine knows pods that do not exist: {sorted(pod_infos)}"

    def _gangs(self) -> None:
        """All or none of a gang whose members all still exist, unless the API server itself refused to bind one, or a
        node vanished from under a seat.

        Only gangs of the highest priority: the seats that a lower one waits for may go to pods that outrank it.
        """
        if any(self.world.draws.counts["bind", fault] for fault in _REFUSALS):
            return
        nodes = {stored.key[1] for stored in self.world.api.store.collection(NODES)}
        unseated = {uid for uid, node in self.world.scheduling.proposed if node not in nodes}
        split: set[str] = set()
        gangs: dict[str, list[bool]] = {}
        for stored in self.world.api.store.collection(PODS):
            pod = decode_pod(stored.raw)
            gang = pod.annotation("waggle.dev/gang")
            if pod.uid in unseated or _seats(pod) - nodes:
                split.add(gang)
            if gang and pod.priority == HIGHEST and not pod.finished:
                gangs.setdefault(f"{gang} of {pod.annotation('waggle.dev/gang-min')}", []).append(bool(pod.node_name))
        for gang, bound in gangs.items():
            if len(bound) == int(gang.split()[-1]) and gang.split()[0] not in split:
                assert all(bound) or not any(bound), f"gang {gang} is split: {bound}"


def _seats(pod: Pod) -> set[str]:
    """The nodes that its gang was planned on."""
    plan = pod.annotation("waggle.dev/gang-plan")
    return set(json.loads(plan)["seats"].values()) if plan else set()


def _told_why(stored: Stored) -> bool:
    conditions = stored.fresh()["status"].get("conditions", [])
    return any(c["type"] == "PodScheduled" and c["status"] == "False" and c["message"] for c in conditions)
