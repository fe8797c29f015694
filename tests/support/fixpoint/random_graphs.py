"""Random graphs with emissions, ghosts, optional needs and cycles; and their least fixpoint, computed another way.

The graphs have the form of `tests.conformance.fixpoint_adapter`.
"""

from __future__ import annotations

import random
from typing import Any


def random_graph(seed: int) -> dict[str, Any]:
    """Return a graph of up to 16 nodes, some of which only others report; the ids in `ghosts` never come."""
    draw = random.Random(seed)
    nodes = [f"k{number:02d}" for number in range(draw.randint(2, 16))]
    hidden = [node for node in nodes if draw.random() < 0.25]
    options = [*nodes, *(["ghost", "never"] if draw.random() < 0.5 else [])]
    needs = {node: _needs(draw, node, nodes, options) for node in nodes}
    emits: dict[str, list[str]] = {}
    for node in [*hidden, *(f"o{number}" for number in range(draw.randint(0, 3)))]:
        if draw.random() < 0.8:
            emits.setdefault(draw.choice(nodes), []).append(node)
        if draw.random() < 0.2:
            emits.setdefault(draw.choice(nodes), []).append(node)
    return {"id": f"r{seed}", "needs": needs, "emits": emits, "seeds": [each for each in nodes if each not in hidden]}


def _needs(draw: random.Random, node: str, nodes: list[str], options: list[str]) -> list[dict[str, Any]]:
    needs = []
    for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
        if draw.random() < 0.25:
            needs.append({"id": draw.choice([*options, "o0", "o1", "ghost"]), "optional": True})
        else:
            later = nodes[nodes.index(node) + 1 :]
            straight = later and draw.random() < 0.85
            needs.append({"id": draw.choice(later if straight else options), "optional": False})
    return needs


def least_fixpoint(graph: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return which nodes are ready and which are known in the end, by rounds over whole sets: no queue, no waiting.

    First all is made ready that can be. Then every optional need on an id that is still unknown is waived, for those
    nodes that wait for nothing else, all at once; and again, until nothing changes.
    """
    known: set[str] = set(graph["seeds"])
    ready: set[str] = set()
    waived: set[tuple[str, str]] = set()
    while True:
        grown = {node for node in known - ready if not _unmet(graph, node, ready, waived)}
        if grown:
            ready |= grown
            known |= {emitted for node in grown for emitted in graph["emits"].get(node, ())}
            continue
        more = {
            (node, need)
            for node in known - ready
            if all(optional and need not in known for need, optional in _unmet(graph, node, ready, waived))
            for need, _ in _unmet(graph, node, ready, waived)
        }
        if not more:
            return ready, known
        waived |= more


def _unmet(graph: dict[str, Any], node: str, ready: set[str], waived: set[tuple[str, str]]) -> set[tuple[str, bool]]:
    needs = graph["needs"].get(node, ())
    required = {need["id"] for need in needs if not need["optional"]}
    return {
        (need["id"], need["id"] not in required)
        for need in needs
        if need["id"] not in ready and ((node, need["id"]) not in waived or need["id"] in required)
    }
