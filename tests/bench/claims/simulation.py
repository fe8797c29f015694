"""A simulated cluster of warm pods, and clients that claim them: the clock is virtual, the engine's CPU time is real.

What passes between a scheduler and the API server takes half a round trip each way. Watchers see a change `lag` later,
in order. The kubelet writes twice to each pod in its first second of idleness, which is no business of anybody's here:
it only makes the resourceVersion another one. A pod in use is released by its user and is idle again one write later.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from statistics import quantiles
from typing import Any, Protocol

import msgspec

from extender.claims.records import Phase
from extender.claims.writes import names

Watcher = Callable[[str, bytes], None]


class Clock:
    """Virtual seconds, and what happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._numbers), what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self.at(self.now + seconds, what)

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, what = heapq.heappop(self._queue)
            what()
        self.now = until


@dataclass(frozen=True)
class Setting:
    """One load. Times are seconds; `spread`: sigma of the logarithm of round trips and lags, 0: they are constant."""

    name: str
    pods: int
    seconds: float
    use: float
    #: Claims per second from clients that do not wait for each other; or so many clients, each of which claims, uses,
    #: releases, and claims again.
    rate: float = 0.0
    clients: int = 0
    round_trip: float = 0.015
    lag: float = 0.07
    spread: float = 0.3
    replicas: int = 1
    wait: float = 30.0
    seed: int = 1

    @property
    def busy(self) -> float:
        """The share of the pods that is in use or on its way."""
        held = self.use + 2 * self.round_trip
        return self.clients / self.pods if self.clients else self.rate * held / self.pods


@dataclass
class Result:
    """What the clients of one policy saw."""

    policy: str
    setting: Setting
    #: Seconds from the question to the answer, of those that got a pod.
    latencies: list[float] = field(default_factory=list)
    asked: int = 0
    failed: int = 0
    doubles: int = 0
    conflicts: int = 0
    writes: int = 0
    reads: int = 0
    #: CPU seconds of the scheduler, where it is real.
    cpu: float = 0.0

    def quantile(self, percent: int) -> float:
        """Milliseconds."""
        if len(self.latencies) < 2:
            return math.nan
        return quantiles(self.latencies, n=100, method="inclusive")[percent - 1] * 1e3

    @property
    def claimed(self) -> int:
        return len(self.latencies)


class Policy(Protocol):
    """What hands pods to clients. `answer(pod name, or None)` is called once for each question."""

    def ask(self, answer: Callable[[str | None], None]) -> None: ...
    def release(self, pod: str) -> None: ...
    def finish(self) -> None: ...


class Cluster:
    """The API server with its pods, as JSON objects."""

    def __init__(self, clock: Clock, setting: Setting) -> None:
        self.clock, self.setting = clock, setting
        self.random = random.Random(setting.seed)
        self.pods: dict[str, dict[str, Any]] = {}
        self._watchers: list[tuple[Watcher, list[float]]] = []
        self._version = 1000
        for number in range(setting.pods):
            self._add(f"warm-{number}", number)

    def _add(self, name: str, number: int) -> None:
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": str(self._version + number),
                "labels": {"pool": "warm", names.PHASE_LABEL: Phase.IDLE.value},
                "annotations": {"kubernetes.io/limit-ranger": "set"},
                "creationTimestamp": "2026-11-22T00:00:00Z",
            },
            "spec": {"nodeName": f"node-{number % 20}", "containers": [{"name": "main", "image": "app:1"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "podIPs": [{"ip": "10.0.0.1"}],
            },
        }

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append((watcher, [0.0]))

    def round_trip(self) -> float:
        return self._around(self.setting.round_trip)

    def _around(self, middle: float) -> float:
        spread = self.setting.spread
        return middle * math.exp(self.random.gauss(0.0, spread)) if spread else middle

    def put(self, name: str, pod: dict[str, Any]) -> bytes:
        """Store a pod, and tell the watchers. Returns it as bytes."""
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version + len(self.pods))
        was_idle = is_idle(self.pods[name])
        self.pods[name] = pod
        body = msgspec.json.encode(pod)
        for watcher, last in self._watchers:
            last[0] = max(last[0], self.clock.now + self._around(self.setting.lag))
            self.clock.at(last[0], lambda watcher=watcher: watcher(name, body))
        if is_idle(pod) and not was_idle:
            for _ in range(2):
                self.clock.after(self.random.random(), lambda: self._noise(name))
        return body

    def _noise(self, name: str) -> None:
        if is_idle(self.pods[name]):
            pod = dict(self.pods[name])
            pod["metadata"] = dict(pod["metadata"])
            self.put(name, pod)


def is_idle(pod: dict[str, Any]) -> bool:
    labels = pod["metadata"]["labels"]
    return labels.get(names.PHASE_LABEL) == Phase.IDLE.value and names.CLAIM_LABEL not in labels


def simulate(name: str, setting: Setting, make: Callable[[Clock, Cluster, Result], Policy]) -> Result:
    """Let clients claim pods from a policy, and return what they saw."""
    clock = Clock()
    cluster = Cluster(clock, setting)
    result = Result(name, setting)
    policy = make(clock, cluster, result)
    users: set[str] = set()
    rng = random.Random(setting.seed + 1)

    def client(repeats: bool) -> None:
        began = clock.now
        result.asked += 1

        def answer(pod: str | None) -> None:
            if pod is None:
                result.failed += 1
                if repeats:
                    clock.after(0.0, lambda: client(repeats))
                return
            result.latencies.append(clock.now - began)
            result.doubles += pod in users
            users.add(pod)
            clock.after(setting.use * (0.5 + rng.random()), lambda: release(pod))

        policy.ask(answer)

        def release(pod: str) -> None:
            users.discard(pod)
            policy.release(pod)
            if repeats and clock.now < setting.seconds:
                client(repeats)

    for number in range(setting.clients):
        clock.at(number * setting.use / setting.clients, lambda: client(repeats=True))
    when = 0.0
    while setting.rate and (when := when + rng.expovariate(setting.rate)) < setting.seconds:
        clock.at(when, lambda: client(repeats=False))
    clock.run(setting.seconds + setting.wait + 5.0)
    policy.finish()
    return result
