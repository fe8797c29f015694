"""A whole Waggle in threads of this process: everything behind the face and the face, on a socket of 127.0.0.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extender.kube.informers.reflector import Timing
from extender.recording.log import open_log
from extender.recording.replaying import Replay
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Limits
from extender.scheduling.state.pod_info import PodInfo
from extender.server.recording import RecordTo
from extender.server.service import Service
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.api import eventually
from tests.support.cluster.witness import Witness
from tests.support.http.fixed_runtime import Client

#: Anomalies and the like that no test may leave behind unless it says so.
_SHOULD_BE_ZERO = {
    "waggle_algorithm_faults_total",
    "waggle_anomalies_total",
    "waggle_cache_healed_total",
    "waggle_informer_undecodable_total",
    "waggle_hints_dropped_total",
}


class Waggle:
    """One run of the server; `stop` ends it, another one may take its port afterwards."""

    def __init__(
        self,
        settings: Settings,
        witness: Witness,
        record: Path,
        *,
        config: Path | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._record = record
        self.service = Service(settings, config=config, record=RecordTo(record), timing=timing, limits=limits)
        self.runtime = self.service.runtime
        self.service.start()
        try:
            app = create_app(self.runtime, settings, self.service.comparer)
            self._server = serve_in_thread(witness.of(app), settings)
        except BaseException:
            self.service.stop()
            raise
        self.url = self._server.url
        self.client = Client(self.url)

    @property
    def machine(self) -> SchedulerStateMachine:
        return self.runtime._machine

    def wait_ready(self) -> None:
        eventually(lambda: self.runtime.readiness().ready)

    def stop(self) -> None:
        self._server.stop()
        self.service.stop()

    # -- looking inside -------------------------------------------------------------------------------------------

    def pod_infos(self) -> list[PodInfo]:
        with self.runtime.loop.paused():
            return self.machine.pod_infos()

    def holds(self) -> dict[str, str]:
        """The owners of all active holds, with the holds' states."""
        with self.runtime.loop.paused():
            return {hold.owner: hold.state.value for hold in self.machine.state.ledger.active()}

    def counted(self, name: str) -> dict[str, int]:
        """One of the engine's counters, by label."""
        with self.runtime.loop.paused():
            return {value: number for (kind, value), number in self.machine.counts.items() if kind == name}

    def stories(self) -> str:
        """What happened to every pod, for assertions that fail."""
        with self.runtime.loop.paused():
            return "\n".join(
                f"{pod_info.key} ({pod_info.state})\n  " + "\n  ".join(self.machine.history(pod_info.uid))
                for pod_info in self.machine.pod_infos()
            )

    def has_seen(self, nodes: Mapping[str, str], pods: Mapping[str, str]) -> bool:
        """Whether all of these, versions by UID, or newer ones have been told to the state machine."""
        with self.runtime.loop.paused():
            return all(
                {record.uid: int(record.resource_version) for record in reflector._store.records()}.get(uid, 0)
                >= int(version)
                for reflector, shown in ((self.service._nodes, nodes), (self.service._pods, pods))
                for uid, version in shown.items()
            )

    # -- invariants -----------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raises AssertionError if anything that the server derives from what it did does not hold."""
        alive = self.runtime.liveness()
        assert alive.ready, alive.detail
        with self.runtime.loop.paused():
            self.machine.validate()
        stats = self.service._committer.stats
        assert stats.crashes == 0, stats

    def unexpected(self) -> dict[str, float]:
        """Counters above 0 that tell of bugs: metric with its labels."""
        return {
            f"{metric.name}{sorted(labels.items())}": value
            for metric in self.runtime.model.stats()
            if metric.name in _SHOULD_BE_ZERO
            for labels, value in metric.samples
            if value and labels.get("kind") not in ("slow", "unsteady_reason")  # no decision was wrong
        }

    def check_replay(self) -> None:
        """What was recorded, when it happens again, happens the same way to every pod. Only after `stop`."""
        replay = Replay(open_log(self._record).recordings[-1])
        for played in replay:
            assert played.divergence is None, (played.step, played.divergence)
        assert replay.number == self.machine.sequence, "events are missing in the log"
        assert _stories(replay.engine) == _stories(self.machine), "a replay of the log tells different stories"


def _stories(engine: SchedulerStateMachine) -> dict[str, Any]:
    return {str(pod_info.key): [str(pod_info.state), *engine.history(pod_info.uid)] for pod_info in engine.pod_infos()}
