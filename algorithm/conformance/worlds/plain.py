"""A world of plain pods, gangs and priorities, for algorithms that give none. Declared annotations get odd values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from algorithm.conformance.world import World, Worlds
from algorithm.model import Node, Pairs, Pod, Taint, pairs

GPU = "example.com/gpu"
_SPACES = ("ns", "other")
#: Such an amount is not named at all.
NONE = -1
#: What a pod's author may write where an algorithm expects something.
ODD_TEXTS = ("", "0", "1", "2", "-1", "1e9", "true", "a", "{}", "[1", "\u00e9\n", "9" * 40, "x" * 300)
_odd = st.sampled_from([*ODD_TEXTS, "a", "a"])  # as a label says


def amounts(**strategies: SearchStrategy[int]) -> SearchStrategy[tuple[tuple[str, int], ...]]:
    """Resources by name, as records have them. NONE is left out; 0 may be said, as in `example.com/gpu: "0"`."""
    names = {"gpu": GPU}
    drawn = st.fixed_dictionaries({names.get(name, name): each for name, each in strategies.items()})
    return drawn.map(lambda found: tuple(sorted((name, amount) for name, amount in found.items() if amount != NONE)))


def node_of(name: str, **more: Any) -> SearchStrategy[Node]:
    """A node with cores, memory and GPUs that is mostly ready."""
    return st.builds(
        Node,
        **{
            "name": st.just(name),
            "uid": st.just(f"uid-{name}"),
            "allocatable": amounts(
                cpu=st.sampled_from([4000, 6000, 2000, NONE]),
                memory=st.sampled_from([64, 32]),
                pods=st.sampled_from([8, 4, 2]),
                gpu=st.sampled_from([4, 2, NONE, 0]),
            ),
            "labels": st.sampled_from([(), (("zone", "a"),), (("zone", "b"),)]),
            "taints": st.sampled_from([(), (), (Taint("spot", "NoSchedule"),)]),
            "ready": st.sampled_from([True, True, True, False]),
            "unschedulable": st.sampled_from([False, False, False, True]),
        }
        | more,
    )


def pod_of(name: str, **more: Any) -> SearchStrategy[Pod]:
    """A pod that asks for cores, memory and GPUs, with one of four priorities."""
    return st.builds(
        Pod,
        **{
            "namespace": st.sampled_from(["ns", *_SPACES]),
            "name": st.just(name),
            "uid": st.just(f"u-{name}"),
            "requests": amounts(
                cpu=st.sampled_from([1000, 2000, NONE, 500, 300, 100]),
                memory=st.sampled_from([NONE, 8]),
                gpu=st.sampled_from([1, NONE, 2, 3, 0]),
            ),
            "priority": st.sampled_from([0, 0, 1, 2, 1000]),
            "may_preempt": st.sampled_from([True, True, True, False]),
            "labels": st.sampled_from([(), (("app", "a"),)]),
        }
        | more,
    )


def odd_annotations(names: Collection[str]) -> SearchStrategy[Pairs]:
    """Some of these annotations, with values that may be wrong."""
    if not names:
        return st.just(())
    return st.dictionaries(st.sampled_from(sorted(names)), _odd, max_size=min(3, len(names))).map(pairs)


def world(plugin: Any) -> World:
    """The plain world for a plug-in: its declared annotations have odd values."""
    of_pods = [*(plugin.annotations or ()), *plugin.decisions]
    of_nodes = plugin.node_annotations or ()

    def nodes(name: str) -> SearchStrategy[Node]:
        return node_of(name, annotations=odd_annotations(of_nodes))

    def pods(number: int) -> SearchStrategy[tuple[Pod, ...]]:
        name = f"p{number:03}"
        single = pod_of(name, annotations=odd_annotations(of_pods)).map(lambda pod: (pod,))
        gang = st.tuples(
            *(pod_of(f"{name}-{each}", namespace=st.just("ns"), group=st.just(f"g{number}")) for each in range(2))
        )
        namesakes = st.tuples(
            *(
                pod_of(
                    name,
                    namespace=st.just(each),
                    uid=st.just(f"u-{name}-{each}"),
                    annotations=odd_annotations(of_pods),
                )
                for each in _SPACES
            )
        )
        return st.one_of(single, single, gang, namesakes)

    return World(nodes=nodes, pods=pods)


def worlds(plugin: Any) -> Worlds:
    """The plain worlds of a plug-in that gives none."""
    return Worlds(make=lambda _settings: world(plugin))
