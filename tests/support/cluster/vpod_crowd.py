"""The page of a large set: an engine with as many pods and vpods as wanted, behind a server without an API server.

with crowded(pods=200, vpods=1000) as url: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from extender.server.views import Metric, Readiness
from extender.settings import Settings
from extender.vpods.copies import SetCopy, VPodCopy
from extender.vpods.engine import VPodEngine
from extender.vpods.records import (
    HostNode,
    HostPod,
    ObjectKey,
    Reason,
    SetSettings,
    VPodKey,
    VPodRecord,
    Workload,
)
from extender.vpods.simulation import Simulation
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread

T = TypeVar("T")
SET = ObjectKey("shop", "carts")


class CrowdedService:
    """What the HTTP layer wants of a service: here the engine of a simulation, `later` seconds after it was stopped."""

    def __init__(self, simulation: Simulation, *, later: float = 0.0) -> None:
        self._simulation, self._later = simulation, later

    @property
    def runtime(self) -> CrowdedService:
        return self

    def look(self, read: Callable[[VPodEngine, float], T], patience: float = -1) -> T:
        return read(self._simulation.engine, self._simulation.now + self._later)

    def readiness(self) -> Readiness:
        return Readiness(True, "")

    informed = liveness = readiness

    def metrics(self) -> list[Metric]:
        return []


def empty_set(*, pods: int, vpods: int, zones: int = 3, capacity: int = 0, **settings: Any) -> SetCopy:
    """A set whose vpods want 1 to 40 vreplicas each, and have none yet. `capacity` 0: just enough for all but a few."""
    wanted = [1 + (7 * number) % 40 for number in range(vpods)]
    nodes = {f"n{number}": HostNode(f"n{number}", True, f"zone-{'abcdef'[number % zones]}") for number in range(pods)}
    return SetCopy(
        key=SET,
        now=0.0,
        settings=SetSettings(
            key=SET,
            workload="carts",
            capacity=capacity or sum(wanted) // pods,
            **{"scales": False, "max_replicas": 10_000} | settings,
        ),
        workload=Workload(SET, "w", "1", pods),
        pods={o: HostPod(key=ObjectKey("shop", f"carts-{o}"), uid=f"p{o}", node=f"n{o}") for o in range(pods)},
        nodes=nodes,
        usable=(),
        resting=frozenset(),
        out=frozenset(),
        proven=frozenset(),
        rests_until={},
        zones={},
        held={},
        vpods=tuple(
            VPodCopy(
                record=VPodRecord(
                    key=VPodKey("shop", f"cart-{number:04}"),
                    uid=f"v{number}",
                    version="1",
                    set=SET,
                    wanted=each,
                ),
                name=f"shop/cart-{number:04}",
                reason=Reason.PLACED,
            )
            for number, each in enumerate(wanted)
        ),
    )


def settled(copy: SetCopy) -> Simulation:
    """The set once the engine has come to rest."""
    simulation = Simulation(copy)
    for _ in simulation.run():
        pass
    return simulation


@contextmanager
def crowded(service: CrowdedService) -> Iterator[str]:
    """Serve the page; yield its address."""
    settings = Settings.model_validate(
        {"server": {"port": 0}, "extender": {"enabled": False}, "vpods": {"enabled": True}}
    )
    handle = serve_in_thread(create_app(None, settings, vpods=service), settings)  # type: ignore[arg-type]
    try:
        yield handle.url
    finally:
        handle.stop()
