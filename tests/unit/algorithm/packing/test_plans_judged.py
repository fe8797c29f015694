"""Plans of `packing` for gangs, as the conformance kit judges them."""

from __future__ import annotations

import msgspec

from algorithm.conformance.replayed import life_of
from algorithm.interface import Phase, Unoffered
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm, PackingSettings

GANG = (("waggle.dev/gang", "g"), ("waggle.dev/gang-min", "3"))


def pod(name: str, gpus: int, **more: object) -> Pod:
    bare = Pod(namespace="ns", name=name, uid=f"u-{name}", requests=(("example.com/gpu", gpus),))
    return msgspec.structs.replace(bare, **more)


def node(name: str) -> Node:
    return Node(name=name, uid=f"uid-{name}", allocatable=(("example.com/gpu", 4), ("pods", 4)))


def test_a_member_waits_for_the_evictions_of_its_gang_on_a_free_node_and_that_is_declared() -> None:
    life = life_of("packing", {}, check="only-offered-nodes")
    life.add_node(node("n0"))
    life.add_node(node("n1"))
    life.found_bound(pod("low", 4, node_name="n1"))
    members = [pod(f"g{each}", gpus, annotations=GANG, priority=9) for each, gpus in enumerate((1, 2, 3))]
    life.submit(*members)
    for first in members:
        life.ask(first.uid, ["n0", "n1"], Phase.EVICTING)
        life.start_preempting(first.uid)
        for each in members:
            life.ask(each.uid, ["n1"], Phase.PREEMPTING)
    life.end()


def test_each_member_evicts_pods_of_a_lower_priority_than_its_own() -> None:
    life = life_of("packing", {}, check="victims-run-with-lower-priority")
    life.add_node(node("n0"))
    life.found_bound(pod("low", 2, node_name="n0"))
    gang = (("waggle.dev/gang", "g"), ("waggle.dev/gang-min", "2"))
    life.submit(pod("plain", 2, annotations=gang), pod("important", 2, annotations=gang, priority=9))
    life.ask("u-plain", ["n0"], Phase.EVICTING)
    life.end()


def test_only_members_of_gangs_may_have_such_plans() -> None:
    packing = PackingAlgorithm(PackingSettings())
    assert packing.unoffered(pod("single", 1)) is Unoffered.NOTHING
    assert packing.unoffered(pod("member", 1, annotations=GANG)) is Unoffered.PLANS


def test_a_member_waits_while_the_others_of_its_gang_have_no_room_yet() -> None:
    life = life_of("packing", {}, check="preemptors-room-kept")
    life.add_node(
        Node(name="n0", uid="uid-n0", allocatable=(("cpu", 2000), ("example.com/gpu", 2), ("memory", 32), ("pods", 2))),
    )
    life.add_node(
        Node(name="n1", uid="uid-n1", allocatable=(("cpu", 2000), ("example.com/gpu", 2), ("memory", 64), ("pods", 8))),
    )
    life.add_node(
        Node(name="n2", uid="uid-n2", allocatable=(("cpu", 2000), ("example.com/gpu", 2), ("memory", 32), ("pods", 2))),
    )
    life.submit(
        Pod(
            namespace="ns",
            name="p006-0",
            uid="u-p006-0",
            labels=(("app", "a"),),
            annotations=(("waggle.dev/gang", "g6"), ("waggle.dev/gang-min", "3")),
            priority=1000000,
            requests=(("cpu", 2000), ("example.com/gpu", 0)),
        ),
        Pod(
            namespace="ns",
            name="p006-1",
            uid="u-p006-1",
            annotations=(("waggle.dev/gang", "g6"), ("waggle.dev/gang-min", "3")),
            priority=1000000,
            requests=(("cpu", 2000), ("example.com/gpu", 2), ("memory", 8)),
        ),
        Pod(
            namespace="ns",
            name="p006-2",
            uid="u-p006-2",
            annotations=(("waggle.dev/gang", "g6"), ("waggle.dev/gang-min", "3")),
            priority=1000000,
            requests=(("cpu", 500), ("example.com/gpu", 2)),
        ),
    )
    life.ask("u-p006-0", ["n2"], Phase.PREEMPTING)
    life.start_preempting("u-p006-0")
    life.end()
