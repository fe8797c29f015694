"""The world of `hived`: the machines of its settings; gangs of its virtual clusters, with their specification.

Some gangs obey the offer, others ignore it, which is HiveD's default (`ignoreK8sSuggestedNodes`), and in some the last
pod disagrees with the others: each pod's own word counts for it, in both directions. With `bindUnoffered`,
their pods are also bound where they were not offered; without it, only plans of evictions leave the offer.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from algorithm.conformance.world import World, Worlds
from algorithm.conformance.worlds.plain import ODD_TEXTS, node_of, pod_of
from algorithm.hived.formats.bindinfo import BIND_INFO
from algorithm.hived.formats.podspec import SPEC
from algorithm.model import Node, Pod, pairs

#: Two racks of two hosts; tenant `a` owns a rack's worth of hosts, `b` a host and a half.
#: Groups get their quota back when there is room: without that, as in the original, only a restart gives it back.
SETTINGS: dict[str, Any] = {
    "promoteLazilyPreempted": True,
    "bindUnoffered": True,
    "physicalCluster": {
        "cellTypes": {
            "socket": {"childCellType": "gpu", "childCellNumber": 2},
            "host": {"childCellType": "socket", "childCellNumber": 2, "isNodeLevel": True},
            "rack": {"childCellType": "host", "childCellNumber": 2},
        },
        "physicalCells": [
            {"cellType": "rack", "cellChildren": [{"cellAddress": "m1"}, {"cellAddress": "m2"}]},
            {"cellType": "rack", "cellChildren": [{"cellAddress": "m3"}, {"cellAddress": "m4"}]},
        ],
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "rack.host", "cellNumber": 2}]},
        "b": {
            "virtualCells": [
                {"cellType": "rack.host", "cellNumber": 1},
                {"cellType": "rack.host.socket", "cellNumber": 1},
            ]
        },
    },
}
#: Pods of a group in the world, and groups that more pods may join.
_MOST_PODS = 3


def _world(settings: Any) -> World:
    layout = settings.layout()
    machines, tenants = tuple(sorted(layout.machines)), sorted(layout.tenants)
    sizes = sorted({1, *(len(devices) for devices in layout.machines.values()), 2})

    def nodes(name: str) -> SearchStrategy[Node]:
        return node_of(name, unschedulable=st.just(False))

    @st.composite
    def gang(draw: st.DrawFn, number: int) -> tuple[Pod, ...]:
        leafs, pods = draw(st.sampled_from(sizes)), draw(st.integers(1, _MOST_PODS))
        spec = {
            "virtualCluster": draw(st.sampled_from(tenants)),
            "priority": draw(st.sampled_from([0, 0, 1, 5, -1])),
            "leafCellNumber": leafs,
            "lazyPreemptionEnable": draw(st.booleans()),
            "affinityGroup": {"name": f"g{number}", "members": [{"podNumber": pods, "leafCellNumber": leafs}]},
        }
        ignores, one_differs = draw(st.booleans()), draw(st.sampled_from([False, False, False, True]))

        def member(each: int) -> SearchStrategy[Pod]:
            own = {**spec, "ignoreK8sSuggestedNodes": ignores != (one_differs and each == pods - 1)}
            annotations = st.just(pairs({SPEC: json.dumps(own)}))
            name = f"p{number:03}-{each}"
            return pod_of(name, namespace=st.just("ns"), annotations=annotations, requests=st.just(()))

        return tuple(draw(member(each)) for each in range(pods))

    def pods(number: int) -> SearchStrategy[tuple[Pod, ...]]:
        odd = st.fixed_dictionaries(
            {}, optional={SPEC: st.sampled_from(ODD_TEXTS), BIND_INFO: st.sampled_from(ODD_TEXTS)}
        )
        single = pod_of(f"p{number:03}", annotations=odd.map(pairs)).map(lambda pod: (pod,))
        return st.one_of(gang(number), gang(number), gang(number), single)

    return World(
        nodes=nodes,
        pods=pods,
        node_names=machines,
        crowd=machines,
        pages=("affinitygroups/", "clusterstatus", "clusterstatus/physicalcluster", "clusterstatus/virtualclusters/"),
        authors_annotate=False,  # a restart reads the specification again, and has no other
        history="of equal cells, the first in a list is taken; its order depends on what was asked and freed before",
    )


WORLDS = Worlds(make=_world, settings=SETTINGS)
