"""Workloads with a Waggle behind kube-scheduler: what the scheduler asks depends on what Waggle answers, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.golden.calls.play import (
    RESTED,
    Await,
    Create,
    Delete,
    Object,
    Phase,
    Workload,
    create,
    extender,
    node,
    nodes,
    pod,
)

_PODS = "namespaces/default/pods"
_GPU = "example.com/gpu"


def _waggle(*phases: Phase, anywhere: tuple[str, ...] = (), **settings: Mapping[str, Any]) -> Workload:
    config = {**RESTED, "percentageOfNodesToScore": 100}
    return Workload(extenders=(extender(weight=1),), config=config, phases=phases, waggle=settings, anywhere=anywhere)


def _member(name: str, gang: str, size: int, **more: Any) -> Object:
    annotations = {"waggle.dev/gang": gang, "waggle.dev/gang-min": str(size)}
    return pod(name, annotations=annotations, **more)


def _bound(*manifests: Object) -> Phase:
    """These pods, one after the other, until each is bound."""
    does = ((Create((each,)), Await(each["metadata"]["name"], "bound")) for each in manifests)
    return Phase(tuple(action for pair in does for action in pair))


WORKLOADS = {
    "waggle-packs-single-pods": _waggle(
        nodes("a", "b", cpu="4"),
        _bound(pod("p0", cpu="3"), pod("p1", cpu="1"), pod("p2", cpu="4")),
    ),
    "waggle-refuses-and-places-later": _waggle(
        nodes("a", resources={_GPU: "1"}),
        _bound(pod("first", limits={_GPU: "1"})),
        create(pod("second", limits={_GPU: "1"})),
        Phase((Delete(f"{_PODS}/first"), Await("second", "bound"))),
    ),
    "waggle-places-a-gang-as-a-whole": _waggle(
        nodes("a", "b", cpu="4"),
        create(_member("m0", "g", 3, cpu="2")),
        create(_member("m1", "g", 3, cpu="2")),
        Phase(
            (
                Create((_member("m2", "g", 3, cpu="2"),)),
                *(Await(f"m{i}", "bound") for i in range(3)),
            )
        ),
        anywhere=("m0", "m1", "m2"),
    ),
    "waggle-keeps-a-gang-out-that-does-not-fit": _waggle(
        nodes("a", cpu="4"),
        *(create(_member(f"m{i}", "g", 3, cpu="2")) for i in range(3)),
        create(pod("alone", cpu="1")),
        Phase((Create((node("b", cpu="4"),)), *(Await(f"m{i}", "bound") for i in range(3)))),
        anywhere=("m0", "m1", "m2"),
    ),
    "waggle-preempts": _waggle(
        nodes("a", "b", cpu="2"),
        create(
            pod("low-a", cpu="2", priority="low", nodeName="a"), pod("mid-b", cpu="2", priority="mid", nodeName="b")
        ),
        Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound"))),
    ),
    "waggle-loses-a-node": _waggle(
        nodes("a", "b", cpu="2"),
        _bound(pod("p0", cpu="2"), pod("p1", cpu="2")),
        create(pod("waits", cpu="2")),
        Phase((Delete("nodes/a"),)),
        Phase((Create((node("c", cpu="2"),)), Await("waits", "bound"))),
        anywhere=("p0", "p1"),
    ),
}
