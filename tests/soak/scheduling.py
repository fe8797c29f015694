"""kube-scheduler in the simulation: its real rules, its informers, and its calls of Waggle, which may go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from algorithm.model import pairs
from extender.embedded.apiserver.table import NODES, PODS
from extender.embedded.kubescheduler import model
from extender.embedded.kubescheduler.core import BindPod, Core, Evict, Outcome, PatchStatus, Write
from extender.embedded.kubescheduler.extenders import ExtenderError
from extender.embedded.kubescheduler.queue import Place
from extender.scheduling.events import (
    BindAnswer,
    BindRequested,
    FilterAnswer,
    FilterRequested,
    PreemptAnswer,
    PreemptRequested,
)
from tests.soak.links import Informer, Line
from tests.soak.replica import Replica

if TYPE_CHECKING:
    from tests.soak.world import SoakWorld


@dataclass
class _Call:
    """A bind call that kube-scheduler waits for."""

    write: BindPod
    replica: Replica
    lost: bool


class Scheduling:
    """`boot` makes a new kube-scheduler: what the one before had under way is not waited for any more."""

    def __init__(self, world: SoakWorld) -> None:
        self.world = world
        #: What its filter was answered, ever: UID and node.
        self.proposed: set[tuple[str, str]] = set()
        #: Binds that are due, and bind calls that wait for their answer.
        self.binds: list[BindPod] = []
        self.calls: dict[int, _Call] = {}
        #: How the last attempt of each pod ended, by UID.
        self.last: dict[str, Outcome] = {}
        self._requests = 0
        self.boot()

    def boot(self) -> None:
        config = self.world.scheduler_config()
        line = Line(self._ask, config.extenders[0], self.world.draws, lambda uid, node: self.proposed.add((uid, node)))
        self.core = Core(config, [line], now=self.world.now)
        self.binds.clear()
        for call in self.calls.values():
            call.lost = True
        store = self.world.api.store
        self.nodes = Informer(
            store,
            NODES,
            seen=lambda raw: self.core.node_seen(model.decode_node(raw), self.world.now),
            gone=lambda raw: self.core.node_gone(model.decode_node(raw).name, self.world.now),
        )
        self.pods = Informer(
            store,
            PODS,
            seen=lambda raw: self.core.pod_seen(model.decode_pod(raw), self.world.now),
            gone=lambda raw: self.core.pod_gone(model.decode_pod(raw).uid, self.world.now),
        )

    def _ask(self, event: FilterRequested | PreemptRequested) -> FilterAnswer | PreemptAnswer:
        # The server reads of a caller's pod what its informers read of pods.
        kept = self.world.reads().annotations(dict(event.pod.annotations), decided=bool(event.pod.node_name))
        event = msgspec.structs.replace(event, pod=msgspec.structs.replace(event.pod, annotations=pairs(kept)))
        return next(x for x in self._front().handle(event) if isinstance(x, FilterAnswer | PreemptAnswer))

    def attempt(self) -> bool:
        """One scheduling cycle. False if nothing is to be tried."""
        self.core.tick(self.world.now)
        queued = self.core.next_pod()
        if queued is None:
            return False
        outcome = self.last[queued.pod.uid] = self.core.decide(queued.pod)
        for write in self.core.conclude(queued.pod, outcome, self.world.now):
            self._scheduler_writes(write)
        return True

    def _scheduler_writes(self, write: Write) -> None:
        if isinstance(write, BindPod):
            assert write.extender is not None
            self.binds.append(write)
        elif isinstance(write, Evict):
            for victim in write.victims:
                self.world.users.delete(victim.key.name, victim.uid)
            self.core.preemption_done(write, [v.uid for v in write.victims], self.world.now)
        elif isinstance(write, PatchStatus):
            self._patch_status(write)

    def _patch_status(self, write: PatchStatus) -> None:
        status: dict[str, Any] = {}
        if write.condition is not None:
            c = write.condition
            condition = {"type": "PodScheduled", "status": c.status, "reason": c.reason, "message": c.message}
            status["conditions"] = [condition]
        if write.nominated_node is not None:
            status["nominatedNodeName"] = write.nominated_node or None
        self.world.users.patch(write.pod.key.name, {"metadata": {"uid": write.pod.uid}, "status": status}, "status")

    def call_bind(self, write: BindPod) -> None:
        try:
            replica = self._front()
        except ExtenderError as error:
            self._bind_done(write, str(error))
            return
        self._requests += 1
        call = self.calls[self._requests] = _Call(write, replica, lost=False)
        if self.world.draws.call("bind call") == "answer lost":
            self._give_up(call, "context deadline exceeded")
        key = write.pod.key
        replica.handle(BindRequested(self._requests, key.namespace, key.name, write.pod.uid, write.node))

    def bind_answered(self, answer: BindAnswer) -> None:
        call = self.calls.pop(answer.request, None)
        if call is not None and not call.lost:
            self._bind_done(call.write, answer.error.text if answer.error else None)

    def _give_up(self, call: _Call, error: str) -> None:
        """kube-scheduler does not wait any longer."""
        if not call.lost:
            call.lost = True
            self._bind_done(call.write, error)

    def _bind_done(self, write: BindPod, error: str | None) -> None:
        for more in self.core.bind_done(write.pod, write.node, error, self.world.now):
            self._scheduler_writes(more)

    def leave(self, replica: Replica, error: str, *, dead: bool = False) -> None:
        """Nobody waits for answers of this replica any more; of one that is `dead` none can come."""
        for request, call in list(self.calls.items()):
            if call.replica is replica:
                if dead:
                    del self.calls[request]
                self._give_up(call, error)

    @property
    def idle(self) -> bool:
        """Nothing is to be tried any more, also not by itself after an error."""
        return self.core.idle and not self.core.queue.count(Place.ERROR_BACKOFF)

    # -- whom it reaches ------------------------------------------------------------------------------------------

    def _front(self) -> Replica:
        """Whom a Service sends kube-scheduler to: mostly who is ready. Raises ExtenderError if nobody answers."""
        ready = [replica for replica in self.world.replicas if replica.ready]
        chosen = self.world.rng.choice(ready if ready and self.world.rng.random() < 0.9 else self.world.replicas)
        if not chosen.runs:
            raise ExtenderError("context deadline exceeded")
        return chosen
