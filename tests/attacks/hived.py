"""HiveD: attacks by an author of pods, on a server that runs `algorithm: hived` without the admission policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.attacks.arena import Arena, eventually
from tests.attacks.pods import ask, created, reasons
from tests.attacks.registry import attack
from tests.attacks.requests import NODE_NAMES, SPEC, filter_body, pod

_PODS = "/api/v1/namespaces/default/pods"
_HEADERS = {"Content-Type": "application/json"}
BIND_INFO = "hivedscheduler.microsoft.com/pod-bind-info"

#: Every node is a cell of 8 devices. The innocent caller has 3 of them, the attacker 40.
_SETTINGS: dict[str, Any] = {
    "algorithm": {
        "name": "hived",
        "settings": {
            "physicalCluster": {
                "cellTypes": {"host": {"childCellType": "gpu", "childCellNumber": 8, "isNodeLevel": True}},
                "physicalCells": [{"cellType": "host", "cellAddress": name} for name in NODE_NAMES],
            },
            "virtualClusters": {
                "innocent": {"virtualCells": [{"cellType": "host", "cellNumber": 3}]},
                "attacker": {"virtualCells": [{"cellType": "host", "cellNumber": 40}]},
            },
        },
    },
}


def wishing(
    name: str, members: Mapping[int, int] | None = None, *, leafs: int = 1, group: str = "", **more: Any
) -> dict[str, Any]:
    """A pod of a gang; `members`: devices to number of pods."""
    wish = {"virtualCluster": "attacker", "priority": 0, "leafCellNumber": leafs, **more}
    if members:
        wish["affinityGroup"] = {
            "name": group or name,
            "members": [{"podNumber": number, "leafCellNumber": devices} for devices, number in members.items()],
        }
    return pod(name, uid=f"uid-{name}", annotations={SPEC: json.dumps(wish, separators=(",", ":"))})


#: What a pod's author may write, and what is said of it ("": it may have any answer, for example that it waits).
_WISHES = (
    (wishing("sizes", dict.fromkeys(range(1, 450), 1)), "longer than 16384 characters"),
    (wishing("commas", dict.fromkeys(range(1, 301), 1)), "lines and commas"),
    (wishing("kinds", dict.fromkeys(range(1, 66), 1)), "more than 64 different LeafCellNumbers"),
    (wishing("most", dict.fromkeys(range(1, 65), 1)), ""),
    (wishing("wide", {10**9: 1}, leafs=10**9), ""),
    (wishing("deep", {1: 10**9}), ""),
    (wishing("both", {8: 10**9, 4: 10**9}, leafs=4), ""),
    (wishing("digits", leafs=10**3000), ""),
    (wishing("named", {1: 1}, group="n" * 300), "Name is longer than 253 characters"),
    (wishing("long", {1: 1}, note="x" * 20_000), "longer than 16384 characters"),
    (wishing("nested", {1: 1}, note=json.loads("[" * 200 + "]" * 200)), ""),
)


@attack(
    "HiveD: gangs of 449 sizes, of a thousand million pods or devices, and other wishes",
    limit="16,384 characters, 512 lines and commas, 64 sizes of a wish",
    settings=_SETTINGS,
)
def wishes(arena: Arena) -> str:
    slowest = ("", 0.0)
    for each, said in _WISHES:
        name = each["metadata"]["name"][:10]
        for turn in range(6):
            body = filter_body({**each, "metadata": {**each["metadata"], "uid": f"uid-{name}-{turn}"}})
            took, answer = ask(arena, body)
            slowest = max(slowest, (name, took), key=lambda pair: pair[1])
            assert not answer["NodeNames"] or not said, f"{name}: {answer}"
            assert not said or any(said in why for why in reasons(answer)), f"{name}: {sorted(reasons(answer))[:2]}"
    assert slowest[1] < 0.5, f"the filter of {slowest[0]} took {slowest[1]:.2f} s"
    return f"refused or told to wait, within {1e3 * slowest[1]:.0f} ms ({slowest[0]})"


def _plan(own: str, device: int, others: str, places: int) -> str:
    """What is written on a pod that runs on one device, with so many places that do not exist."""
    rest = "".join(
        f"  - physicalNode: {others}-{number}\n    physicalLeafCellIndices:\n    - 0\n" for number in range(places)
    )
    return (
        f"node: {own}\nleafCellIsolation:\n- {device}\ncellChain: host\naffinityGroupBindInfo:\n- podPlacements:\n"
        f"  - physicalNode: {own}\n    physicalLeafCellIndices:\n    - {device}\n{rest}"
    )


def _forged(number: int, node: str, device: int) -> bytes:
    made = wishing(f"forged-{number}", priority=-1)
    made["metadata"] |= {"namespace": "default"}
    made["metadata"]["annotations"][BIND_INFO] = _plan(node, device, f"x{number}", 4100)
    made["spec"]["nodeName"] = node
    return json.dumps(made).encode()


@attack(
    "HiveD: 80 pods that run, each with a forged plan of 250 KB",
    limit="512 KiB and 8 KiB a node for the plans of a namespace",
    settings=_SETTINGS,
)
def forged_plans(arena: Arena) -> str:
    node, number = NODE_NAMES[-1], 80
    fat = [_forged(index, NODE_NAMES[10 + index // 8], index % 8) for index in range(number)]
    assert len(fat[0]) > 240_000
    before = arena.server.usage().mib
    try:
        for content in fat:
            arena.api.post(_PODS, content=content, headers=_HEADERS).raise_for_status()
        assert eventually(lambda: arena.metric("waggle_decisions_shortened") > number - 5, every=0.2), (
            "none is shortened"
        )
        grown = arena.server.usage().mib - before
        taken = json.dumps(wishing("late", leafs=8, priority=-1, ignoreK8sSuggestedNodes=False))
        with created(arena, json.loads(taken)) as (late,):
            _, answer = ask(arena, filter_body(late, (NODE_NAMES[10],)))
            assert not answer["NodeNames"], "the devices of a pod that runs were given away a second time"
            _, answer = ask(arena, filter_body(late, (node,)))
            assert answer["NodeNames"] == [node], answer
    finally:
        for index in range(number):
            arena.api.delete(f"{_PODS}/forged-{index}", params={"gracePeriodSeconds": "0"})
    assert b"decisions on pods are shortened" in arena.logged()
    assert grown < 40, f"20 MiB of plans took {grown:.0f} MiB"
    return f"shortened to their own devices, which stay theirs; {grown:.0f} MiB more for 20 MiB of them"
