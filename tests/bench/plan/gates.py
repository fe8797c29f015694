"""Figures of start-up ordering: seconds from the event that meets a pod's dependencies until its gate is gone.

The event is a binding, which this program writes. One watch sees all: the moment at which it shows the bound pod is
compared with the moment at which it shows the other pod without its gate. Beside that: how long one round trip of a
patch to the same API server takes. Nothing else happens in the cluster meanwhile.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from extender.core.ordering_names import AFTER, GATE
from tests.e2e.build import build
from tests.e2e.cluster import ControlPlane
from tests.e2e.runs import run_folder
from tests.e2e.world import RealCluster

#: Seconds for one pod.
_PATIENCE = 20.0
_MERGE = {"content-type": "application/merge-patch+json"}


class GateFigures(msgspec.Struct, frozen=True):
    """Seconds. `gates`: of each removal; `round_trips`: of each patch; both sorted."""

    gates: tuple[float, ...]
    round_trips: tuple[float, ...]

    @property
    def p99(self) -> float:
        return percentile(self.gates, 0.99)

    @property
    def p50(self) -> float:
        return percentile(self.gates, 0.5)

    @property
    def round_trip(self) -> float:
        """The median."""
        return percentile(self.round_trips, 0.5)

    @property
    def aim(self) -> float:
        """Two round trips and 20 ms."""
        return 2 * self.round_trip + 0.02

    def text(self) -> str:
        """For people."""
        return (
            f"{len(self.gates)} gates: p50 {1000 * self.p50:.1f} ms, p99 {1000 * self.p99:.1f} ms after the event; "
            f"one round trip {1000 * self.round_trip:.1f} ms (p99 {1000 * percentile(self.round_trips, 0.99):.1f}), "
            f"so the aim is {1000 * self.aim:.1f} ms"
        )


def percentile(values: tuple[float, ...], part: float) -> float:
    """Of sorted values: the one below which this part of them lies."""
    return values[min(len(values) - 1, int(part * len(values)))]


class _Seen:
    """When a watch showed that pods were bound, and that they had no gate, seconds."""

    def __init__(self, http: httpx.Client, pods: str, version: str) -> None:
        self.bound: dict[str, float] = {}
        self.free: dict[str, float] = {}
        self._http, self._pods, self._version = http, pods, version
        self._news = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        query = {"watch": "true", "resourceVersion": self._version}
        with self._http.stream("GET", self._pods, params=query, timeout=None) as response:
            for line in response.iter_lines():
                now, event = time.perf_counter(), json.loads(line)
                if self._is_over:
                    return
                self._take(event["object"], now)

    def _take(self, pod: dict[str, Any], now: float) -> None:
        name, spec = pod["metadata"]["name"], pod["spec"]
        with self._news:
            if spec.get("nodeName"):
                self.bound.setdefault(name, now)
            if not spec.get("schedulingGates"):
                self.free.setdefault(name, now)
            self._news.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(condition, _PATIENCE), "the watch does not show it"

    def stop(self, touch: Callable[[], object]) -> None:
        """End the watch with its next event, which `touch` causes."""
        self._is_over = True
        touch()
        self._thread.join(_PATIENCE)


def on_control_plane(*, gates: int = 200) -> GateFigures:
    """Measure on a real control plane, which this function starts, with a Waggle that serves start-up ordering.

    Raises BuildError if the programs cannot be built.
    """
    programs = build()
    with run_folder() as folder, ControlPlane(programs, folder, audited=False) as plane:
        w = RealCluster(plane, programs, settings={"ordering": {"enabled": True}})
        try:
            w.start_waggle()
            w.nodes(1, pods="1000")
            return measure(plane.client, w.namespace, "n0", gates=gates)
        finally:
            w.clear()
            w.close()


def measure(client: Callable[[], httpx.Client], namespace: str, node: str, *, gates: int = 200) -> GateFigures:
    """Measure so many removals, one after the other, in a namespace that exists, on a node that exists."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with client() as http, client() as watching:
        version = http.get(pods).raise_for_status().json()["metadata"]["resourceVersion"]
        seen = _Seen(watching, pods, version)
        found, trips = [], []
        for number in range(gates):
            target, held = f"target-{number}", f"held-{number}"
            _create(http, pods, target)
            _create(http, pods, held, after=target)
            trips += [_round_trip(http, f"{pods}/{held}") for _ in range(2)]
            binding = {"metadata": {"name": target}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
            http.post(f"{pods}/{target}/binding", json=binding).raise_for_status()
            seen.wait(lambda held=held, target=target: held in seen.free and target in seen.bound)  # type: ignore[misc]
            found.append(seen.free[held] - seen.bound[target])
            for name in (held, target):
                http.request("DELETE", f"{pods}/{name}", json={"gracePeriodSeconds": 0})
        seen.stop(lambda: _create(http, pods, "last"))
    return GateFigures(tuple(sorted(found)), tuple(sorted(trips)))


def _create(http: httpx.Client, pods: str, name: str, *, after: str = "") -> None:
    metadata: dict[str, Any] = {"name": name}
    spec: dict[str, Any] = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "registry.test/a:1"}]}
    if after:
        metadata["annotations"] = {AFTER: f"[{{kind: Pod, name: {after}, state: Scheduled}}]"}
        spec["schedulingGates"] = [{"name": GATE}]
    http.post(pods, json={"metadata": metadata, "spec": spec}).raise_for_status()


def _round_trip(http: httpx.Client, path: str) -> float:
    """How long a patch takes that changes an annotation."""
    begun = time.perf_counter()
    body = json.dumps({"metadata": {"annotations": {"test/at": str(begun)}}})
    http.patch(path, content=body, headers=_MERGE).raise_for_status()
    return time.perf_counter() - begun
