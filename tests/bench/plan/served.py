"""A plan of 2,000 pods in the server, and what it costs those who call /filter meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.bench.client import Connection, Process
from tests.bench.plan.worlds import FULL, QUICK, new_gangs
from tests.bench.report import p99
from tests.bench.world import FULL as FULL_SCALE
from tests.bench.world import QUICK as QUICK_SCALE
from tests.bench.world import Requests

#: Seconds between two calls of /filter: kube-scheduler has work of its own for each pod.
_THINK = 0.004
_ROUNDS = 3


@dataclass(frozen=True)
class Served:
    """Milliseconds of /filter, quiet and beside plans, of the plans, and of the longest hold of the engine's lock.

    MiB: the server, and the plan beside it.
    """

    quiet: list[float]
    beside: list[float]
    plans: list[float]
    server_mebibytes: float
    plan_mebibytes: float
    longest_hold: float

    @property
    def added(self) -> float:
        """By which the p99 is longer, ms."""
        return p99(self.beside) - p99(self.quiet)


def measure(*, quick: bool = False) -> Served:
    """Quiet and beside a plan take turns, so that whatever else the machine does hits both."""
    scale, size = (QUICK_SCALE, QUICK) if quick else (FULL_SCALE, FULL)
    objects = [msgspec.json.decode(each.json) for each in new_gangs(size, gpus=1).create]
    body = msgspec.json.encode({"objects": objects})
    with (
        Process("tests.bench.cluster", str(scale.nodes)) as api_server,
        Process("tests.bench.plan.server", api_server.url) as server,
        closing(Connection(server.url)) as caller,
        closing(Connection(server.url)) as planner,
    ):
        requests = Requests(scale, max(scale.names))
        rounds = [_round(caller, planner, requests, body) for _ in range(1 if quick else _ROUNDS)]
        usage = msgspec.json.decode(caller.call("GET", "/usage"))
        metrics = _plan_metrics(caller)
    return Served(
        [each for quiet, _, _ in rounds for each in quiet],
        [each for _, beside, _ in rounds for each in beside],
        [milliseconds for _, _, milliseconds in rounds],
        usage["resident_mib"],
        metrics["waggle_plan_memory_bytes"] / (1 << 20),
        metrics["waggle_plan_longest_hold_seconds"] * 1e3,
    )


def _round(
    caller: Connection, planner: Connection, requests: Requests, body: bytes
) -> tuple[list[float], list[float], float]:
    took: list[Any] = []

    def plan() -> None:
        began = time.perf_counter()
        try:
            planner.call("POST", "/v1/plan", body)
            took.append((time.perf_counter() - began) * 1e3)
        except Exception as error:
            took.append(error)

    thread = threading.Thread(target=plan)
    thread.start()
    beside = []
    while thread.is_alive():
        beside.append(_filter(caller, requests))
    if not isinstance(took[0], float):
        raise took[0]
    return [_filter(caller, requests) for _ in beside], beside, took[0]


def _filter(caller: Connection, requests: Requests) -> float:
    """Milliseconds of one call, about a pod that fits nowhere: it is asked again and again."""
    body = requests.body("refused-1")
    began = time.perf_counter()
    caller.call("POST", "/filter", body)
    took = time.perf_counter() - began
    time.sleep(_THINK)
    return took * 1e3


def _plan_metrics(caller: Connection) -> dict[str, float]:
    """What the server's metrics say of plans: those without labels, by name."""
    lines = caller.call("GET", "/metrics").decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith("waggle_plan") and "{" not in line)
    return {name: float(value) for name, _, value in found}
