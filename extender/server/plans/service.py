"""Makes plans for callers, with a bound of what they cost, alone and together.

    caller --> turn (one at a time, a share of one core) --> child process <-- live reads, then a copy in pieces
                                                                |
                                                             answer

The copy is a few references for each node, taken in pieces under the loop's lock; records are encoded outside the lock,
a few at a time. Everything else happens in the child: reading the request, planning, and writing the answer.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any

import msgspec
import structlog

from extender import DISTRIBUTION
from extender.kube.client.api import ApiServer
from extender.scheduling.state.cache import Cache
from extender.server.cpu_share import CpuShare, PlannerBusy
from extender.server.loop import LoopBusy
from extender.server.plans import memory
from extender.server.plans.child import Child
from extender.server.plans.copying import Copy, NodeCopy, copy_nodes
from extender.server.plans.frames import Answer, Message, Needs, Nodes, Order, Pods, Sent
from extender.server.plans.live import LiveError, LiveReader
from extender.server.runtime import Runtime
from extender.server.views import Metric
from extender.settings import Settings, SettingsError, read_text

log = structlog.get_logger(__name__)

#: Records of a message. Encoding so many keeps other threads waiting for some 0.2 ms.
_RECORDS = 40
#: Seconds that a piece of the copy waits for the loop's lock.
_PATIENCE = 5.0
#: Sections of the configuration that a plan has nothing to do with.
_NOT_PLANNED = frozenset({"server", "cluster", "leader_election", "log", "plans"})
OUTCOMES = ("clean", "waits", "refused", "too_large", "timeout", "cancelled", "busy", "unavailable", "failed")


@dataclass
class _Counts:
    outcomes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    seconds: float = 0.0
    cpu: float = 0.0
    longest_hold: float = 0.0
    largest: int = 0


class PlanService:
    """Thread-safe. `algorithm` returns the settings of the algorithm that are in use."""

    def __init__(
        self, settings: Settings, runtime: Runtime, api: ApiServer, algorithm: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._api = api
        self._algorithm = algorithm
        self._counts = _Counts()
        self._cpu = 0.0
        self._share = CpuShare(cpu=lambda: self._cpu)
        self._lock = threading.Lock()
        self._running: set[Child] = set()
        self._stopped = False

    def stop(self) -> None:
        """End the plans that are being made. Idempotent."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for child in running:
            child.cancel()

    def plan(self, body: bytes, *, is_yaml: bool = False, format_: str = "", child: Child | None = None) -> Answer:
        """Return the answer to a request. Cancelling the `child`, from another thread, ends it."""
        child = child or Child()
        with self._lock:
            if self._stopped:
                return _unavailable("the server is shutting down")
            self._running.add(child)
        try:
            answer = self._made(Order(body=body, is_yaml=is_yaml, format=format_), child)
        finally:
            with self._lock:
                self._running.discard(child)
        if answer.trace:
            log.error("plan failed", trace=answer.trace)
        self._counts.outcomes[answer.outcome] += 1
        return answer

    def _made(self, order: Order, child: Child) -> Answer:
        state = self._runtime.informed()
        if not state.ready:
            return _unavailable(f"not ready: {state.detail}", "NotReady")
        wanted = self._settings.plans.memory_mib << 20
        found = memory.left()
        if found is not None and found < wanted:
            text = f"the container has {found >> 20} MiB of memory left, and a plan may need plans.memory_mib"
            return _unavailable(f"{text} ({wanted >> 20} MiB)", "NoMemory")
        try:
            with self._share.turn():
                return self._run(self._complete(order, wanted), child)
        except PlannerBusy as busy:
            return Answer(outcome="busy", status=503, error=str(busy), code="Busy")
        except LoopBusy:
            return _unavailable("the state of the cluster cannot be copied now; try again")
        except (LiveError, SettingsError, OSError) as error:
            return _unavailable(str(error))

    def _complete(self, order: Order, wanted: int) -> Order:
        plans = self._settings.plans
        file = plans.scheduler_config
        return msgspec.structs.replace(
            order,
            settings=self._settings_text(),
            scheduler="" if file is None else read_text(file, "plans.scheduler_config"),
            algorithm=self._settings.algorithm.name,
            release=_release(),
            taken=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            seconds=plans.seconds,
            memory=wanted,
            most_pods=plans.most_pods,
            most_nodes=plans.most_nodes,
        )

    def _run(self, order: Order, child: Child) -> Answer:
        began = time.monotonic()
        answer = None
        try:
            answer = child.run(order, self._feed)
            return answer
        finally:
            took = time.monotonic() - began
            cpu = (answer.cpu if answer is not None else 0.0) or took
            self._cpu += cpu
            self._counts.seconds += took
            self._counts.cpu += cpu
            self._counts.largest = max(self._counts.largest, answer.memory if answer is not None else 0)

    # -- what the child is sent -----------------------------------------------------------------------------------

    def _feed(self, needs: Needs, is_first: bool) -> Iterator[Message]:
        """First what is read live, then the copy: a pod that is bound in between is in both, and counts once."""
        reader = LiveReader(self._api)
        if is_first:
            yield from reader.objects()
            yield from reader.waiting()
        yield from reader.pods(needs)
        if is_first:
            yield from self._copied()
        yield Sent(tuple(reader.notes))

    def _copied(self) -> Iterator[Message]:
        copy = self._copy()
        nodes = [found.node for found in copy.values() if found.node is not None]
        pods = [pod for found in copy.values() for pod in found.pods]
        for start in range(0, len(nodes), _RECORDS):
            yield Nodes(tuple(nodes[start : start + _RECORDS]))
        for start in range(0, len(pods), _RECORDS):
            yield Pods(tuple(pods[start : start + _RECORDS]))

    def _copy(self) -> Copy:
        copy: Copy = {}
        for found in self._runtime.model.read_cache(self._pieces, _PATIENCE):
            copy = found or copy
        return copy

    def _pieces(self, cache: Cache) -> Iterator[Mapping[str, NodeCopy] | Any]:
        """Runs under the loop's lock."""
        began = time.perf_counter()
        for found in copy_nodes(cache):
            self._counts.longest_hold = max(self._counts.longest_hold, time.perf_counter() - began)
            yield found
            began = time.perf_counter()

    def _settings_text(self) -> str:
        """The configuration in use. JSON is YAML, too."""
        found = self._settings.model_dump(mode="json", exclude=set(_NOT_PLANNED))
        algorithm = {"name": self._settings.algorithm.name, "settings": dict(self._algorithm())}
        return msgspec.json.encode(found | {"algorithm": algorithm}, enc_hook=str).decode()

    # -- metrics --------------------------------------------------------------------------------------------------

    def metrics(self) -> list[Metric]:
        """Return the metrics for a scrape."""
        counts = self._counts
        outcomes = [({"outcome": name}, float(number)) for name, number in sorted(counts.outcomes.items())]

        def one(name: str, kind: str, text: str, value: float) -> Metric:
            return Metric(name, kind, text, [({}, value)])

        return [
            Metric("waggle_plans_total", "counter", "Plans that were asked for, by outcome.", outcomes),
            one("waggle_plan_seconds_total", "counter", "Seconds that plans took.", counts.seconds),
            one("waggle_plan_cpu_seconds_total", "counter", "CPU time of the processes of plans.", counts.cpu),
            one(
                "waggle_plan_longest_hold_seconds",
                "gauge",
                "The longest time for which a copy for a plan held the engine's lock.",
                counts.longest_hold,
            ),
            one("waggle_plan_memory_bytes", "gauge", "Memory of the largest process of a plan.", float(counts.largest)),
        ]


def _unavailable(text: str, code: str = "Unavailable") -> Answer:
    return Answer(outcome="unavailable", status=503, error=text, code=code)


def _release() -> str:
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""
