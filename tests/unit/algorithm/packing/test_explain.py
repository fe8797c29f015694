"""What packing says about a pod that waits: true to the numbers, and its remedy works."""

from __future__ import annotations

import pytest

from algorithm.model import Pod
from algorithm.packing.explain_text import quantity
from tests.support.packing.harness import GPU, PackingHarness, member, node, pod


def submitted(world: PackingHarness, waiting: Pod) -> Pod:
    world.submit(waiting)
    return waiting


def machines(number: int, **more: object) -> list:
    return [node(f"n{index}", cpu=64000, gpu=8, **more) for index in range(number)]


def said(world: PackingHarness, waiting: Pod) -> list[str]:
    before = world.observe()
    found = [sentence for sentence in world.algorithm.explain(waiting) if sentence]
    assert world.observe() == before
    world.check()
    return found


def gang(world: PackingHarness, pods: int, *, minimum: int = 0, name: str = "g", **more: object) -> Pod:
    found = [submitted(world, member(f"{name}-{index}", name, minimum or pods, **more)) for index in range(pods)]
    return found[0]


def fill(world: PackingHarness, where: str, gpu: int, name: str = "", **more: object) -> Pod:
    return world.bound(pod(name or f"on-{where}-{gpu}", gpu=gpu, **more), where)


def test_a_gang_that_needs_more_nodes_than_there_are_can_never_run():
    world = PackingHarness(*machines(3))
    assert said(world, gang(world, 5, gpu=8)) == [
        "Gang ns/g can never run: it needs 5 nodes with 8 example.com/gpu each, and the cluster has 3.",
        "It would fit with 2 more nodes with room for 8 example.com/gpu each, or with waggle.dev/gang-min of at most "
        "3.",
    ]


def test_a_gang_that_has_several_pods_on_a_node():
    world = PackingHarness(*machines(2))
    assert said(world, gang(world, 5, gpu=4, cpu=1000))[0] == (
        "Gang ns/g can never run: it needs room for 5 pods with 4 example.com/gpu each, and the cluster has room for "
        "4, even when it is empty."
    )


def test_that_it_can_never_run_does_not_depend_on_what_runs():
    world = PackingHarness(*machines(3))
    waiting = gang(world, 4, gpu=8)
    before = said(world, waiting)
    fill(world, "n0", 8)
    assert said(world, waiting) == before


def test_a_pod_that_no_node_is_large_enough_for():
    world = PackingHarness(*machines(2), node("small"))
    assert said(world, submitted(world, pod("p", gpu=16, cpu=1000))) == [
        "It can never run: a pod needs 16 example.com/gpu on one node, and the largest node has 8 example.com/gpu."
    ]


def test_a_resource_that_no_node_has():
    world = PackingHarness(node("a"))
    assert "and the largest node has none" in said(world, submitted(world, pod("p", gpu=1)))[0]


def test_resources_that_no_node_has_at_once():
    world = PackingHarness(node("a", cpu=1000, gpu=8), node("b", cpu=8000, gpu=1))
    assert said(world, submitted(world, pod("p", gpu=4, cpu=4000))) == [
        "It can never run: no node has 4 example.com/gpu, 4 cpu at once, even when it is empty."
    ]


def test_a_pod_finds_too_little_free_and_one_pod_is_in_the_way():
    world = PackingHarness(*machines(2))
    fill(world, "n0", 6)
    fill(world, "n1", 5)
    fill(world, "n1", 2)
    assert said(world, submitted(world, pod("p", gpu=4))) == [
        "It needs 4 example.com/gpu on one node: 3 of 16 example.com/gpu are free, at most 2 on one node (n0).",
        "It would fit if this pod ended: ns/on-n0-6 on n0.",
    ]


def test_pods_that_it_could_evict_are_named_first():
    world = PackingHarness(*machines(2))
    fill(world, "n0", 8, priority=5)
    for name in ("a", "b"):
        fill(world, "n1", 4, name, priority=1)
    sentences = said(world, submitted(world, pod("p", gpu=8, priority=3)))
    assert sentences[0] == "It needs 8 example.com/gpu on one node: none of 16 example.com/gpu is free."
    assert sentences[1:] == ["It would fit without these 2 pods of lower priority: ns/a on n1, ns/b on n1."]


def test_a_pod_that_may_not_preempt_is_told_the_fewest_pods():
    world = PackingHarness(*machines(2))
    fill(world, "n0", 8, priority=5)
    for name in ("a", "b"):
        fill(world, "n1", 4, name, priority=1)
    waiting = submitted(world, pod("p", gpu=8, priority=3, may_preempt=False))
    assert said(world, waiting)[-1] == "It would fit if this pod ended: ns/on-n0-8 on n0."


def test_a_gang_finds_too_few_places():
    world = PackingHarness(*machines(4))
    for name in ("n0", "n1", "n2"):
        fill(world, name, 4)
    assert said(world, gang(world, 3, gpu=8)) == [
        "Gang ns/g needs room for 3 pods with 8 example.com/gpu each, and there is room for 1: 20 of 32 "
        "example.com/gpu are free, at most 8 on one node (n3).",
        "It would fit if these 2 pods ended: ns/on-n0-4 on n0, ns/on-n1-4 on n1.",
    ]


def test_nodes_with_several_places_are_counted_as_such():
    world = PackingHarness(*machines(2))
    fill(world, "n0", 2, "a")
    fill(world, "n0", 2, "b")
    fill(world, "n1", 8, "c")
    assert said(world, gang(world, 4, gpu=2))[-1] == "It would fit if this pod ended: ns/c on n1."
    assert said(world, gang(world, 3, gpu=2, name="h"))[-1] == "It would fit if this pod ended: ns/b on n0."


def test_whose_end_is_proposed_really_helps():
    world = PackingHarness(*machines(4))
    for index in range(4):
        for part in range(4):
            fill(world, f"n{index}", 2, f"p{index}{part}")
    waiting = gang(world, 3, gpu=6, cpu=1000)
    assert said(world, waiting)[-1].startswith("It would fit if these 9 pods ended: ")
    for index in range(3):
        for part in range(3):
            world.delete(f"u-p{index}{part}")
    assert said(world, waiting)[0].startswith("There is room for all 3 pods of gang ns/g now, on ")


def test_a_gang_without_all_its_pods():
    world = PackingHarness(*machines(1))
    assert said(world, gang(world, 3, minimum=8, gpu=1)) == [
        "Gang ns/g has 3 of the 8 pods that it needs: 5 more have to be created."
    ]


def test_a_gang_that_is_declared_wrongly():
    world = PackingHarness(*machines(1))
    assert said(world, submitted(world, member("p", "g", "many"))) == [
        "gang ns/g is declared wrongly: annotation waggle.dev/gang-min must be a positive integer, not 'many'."
    ]


def test_room_that_kube_scheduler_does_not_offer():
    world = PackingHarness(*machines(2))
    assert said(world, submitted(world, pod("p", gpu=8))) == ["There is room for it now, on n0."]


def test_nodes_that_are_cordoned_or_not_ready():
    world = PackingHarness(*machines(1), node("down", gpu=8, ready=False), node("off", gpu=8, unschedulable=True))
    assert said(world, gang(world, 3, gpu=8)) == [
        "Gang ns/g cannot run while nodes are cordoned or not ready: it needs 3 nodes with 8 example.com/gpu, and "
        "those that can be used have room for 1. Away: down, off."
    ]


def test_a_cluster_without_nodes():
    world = PackingHarness()
    assert said(world, submitted(world, pod("p", gpu=1))) == ["No node is known."]


def test_room_that_is_held_for_a_gang():
    world = PackingHarness(*machines(2))
    first = gang(world, 2, gpu=8)
    world.place(first, ["n0", "n1"])
    sentences = said(world, submitted(world, pod("p", gpu=8)))
    assert sentences[1] == "Room on 1 node is held for gang ns/g."


def sizes(world: PackingHarness, *gpus: int) -> Pod:
    waiting = [submitted(world, member(f"g-{index}", "g", len(gpus), gpu=gpu)) for index, gpu in enumerate(gpus)]
    return waiting[0]


def test_pods_of_different_sizes_that_need_more_than_there_is():
    world = PackingHarness(*machines(2))
    assert said(world, sizes(world, 4, 8, 6)) == [
        "Gang ns/g can never run: its pods need 18 example.com/gpu together, and the cluster has 16."
    ]


def test_pods_of_different_sizes_that_need_more_than_is_free():
    world = PackingHarness(*machines(2))
    fill(world, "n0", 4)
    assert said(world, sizes(world, 4, 6, 4)) == [
        "Gang ns/g needs 14 example.com/gpu for its pods together, and 12 are free.",
        "It would fit if this pod ended: ns/on-n0-4 on n0.",
    ]


def test_pods_of_different_sizes_that_do_not_combine():
    world = PackingHarness(*machines(2))
    assert said(world, sizes(world, 6, 5, 4)) == [
        "Gang ns/g finds no places for its pods of different sizes (6 example.com/gpu, 5 example.com/gpu, "
        "4 example.com/gpu), though enough is free in sum."
    ]


def test_cpu_alone():
    world = PackingHarness(node("a", cpu=8000), node("b", cpu=8000))
    world.bound(pod("x", cpu=6500), "a")
    world.bound(pod("y", cpu=7000), "b")
    assert said(world, submitted(world, pod("p", cpu=2000))) == [
        "It needs 2 cpu on one node: 2.5 of 16 cpu are free, at most 1.5 on one node (a).",
        "It would fit if this pod ended: ns/x on a.",
    ]


def test_nothing_is_proposed_if_the_whole_cluster_would_have_to_end():
    world = PackingHarness(*(node(f"n{index}", cpu=64000, gpu=8, pods=300) for index in range(3)))
    for index in range(3):
        for part in range(100):
            world.bound(pod(f"p{index}-{part}", cpu=600, gpu=0), f"n{index}")
    sentences = said(world, gang(world, 3, cpu=64000, gpu=8))
    assert len(sentences) == 1
    assert GPU in sentences[0]


def test_a_device_is_named_even_if_one_node_has_it_and_lacks_something_else():
    world = PackingHarness(*machines(3))
    for name in ("n0", "n1"):
        fill(world, name, 8)
    world.bound(pod("cpu", cpu=60000, gpu=1), "n2")
    assert said(world, submitted(world, pod("p", gpu=4, cpu=8000)))[0] == (
        "It needs 4 example.com/gpu on one node: 7 of 24 example.com/gpu are free, at most 7 on one node (n2, which "
        "lacks 4 cpu)."
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 250500, "250.5"),
        ("cpu", 4000, "4"),
        ("memory", 448 << 30, "448Gi"),
        ("memory", 1536 << 20, "1536Mi"),
        ("memory", 5_000_000_000, "4.7Gi"),
        ("memory", 5_000_000, "4.8Mi"),
        ("ephemeral-storage", 0, "0.0Mi"),
        (GPU, 1024, "1024"),
    ],
)
def test_numbers_for_people(name: str, value: int, text: str):
    assert quantity(name, value) == text
