"""The best rate of any placement, as a flow of least cost.

    source -- distinct (at most `spread`, each worth more than all below) --+
           \\                                                              +--> pod --> zone --> sink
            -- others ------------------------------------------------------+

    distinct -> pod    at most 1, so that what flows here is on distinct pods
    pod -> zone        at most its room; the n-th unit costs 2n - 1 (the sums are squares), and less while n <= has
    zone -> sink       the n-th unit costs 2n - 1, which outweighs all costs of pods

Costs grow with every unit, so that it is enough to look at the next unit and at the last one of each arc. Successive
shortest paths: each path is one unit more, and the flow so far is always the cheapest of its size (Ahuja, Magnanti and
Orlin, "Network Flows", chapters 9 and 14).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.placements.states import Question, Rate


@dataclass
class Arc:
    """`cost(n)` is the cost of the n-th unit, which is never less than that of the unit before."""

    tail: int
    head: int
    most: int
    cost: Callable[[int], int]
    flow: int = 0


class Network:
    """Node 0 is the source, node 1 the sink."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.arcs: list[Arc] = []

    def join(self, tail: int, head: int, most: int, cost: Callable[[int], int] = lambda _: 0) -> Arc:
        self.arcs.append(Arc(tail, head, most, cost))
        return self.arcs[-1]

    def send(self, units: int) -> None:
        """Raises AssertionError if not so many can flow."""
        for _ in range(units):
            self._send_one()

    def _send_one(self) -> None:
        reached = self._cheapest_paths()
        assert 1 in reached, "no more can flow"
        node = 1
        while node:
            _, arc, step = reached[node]
            assert arc is not None
            arc.flow += step
            node = arc.tail if step > 0 else arc.head

    def _cheapest_paths(self) -> dict[int, tuple[int, Arc | None, int]]:
        """By node that can be reached: the cost, the last arc, and whether it gets a unit more or one less.

        Bellman and Ford's, since costs are negative where a unit is taken back. There is no cycle of negative cost.
        """
        found: dict[int, tuple[int, Arc | None, int]] = {0: (0, None, 0)}
        changed = True
        rounds = 0
        while changed:
            changed = False
            rounds += 1
            assert rounds <= self.nodes + 1, "a cycle of negative cost"
            for arc in self.arcs:
                if arc.flow < arc.most and arc.tail in found:
                    cost = found[arc.tail][0] + arc.cost(arc.flow + 1)
                    if arc.head not in found or cost < found[arc.head][0]:
                        found[arc.head] = (cost, arc, 1)
                        changed = True
                if arc.flow and arc.head in found:
                    cost = found[arc.head][0] - arc.cost(arc.flow)
                    if arc.tail not in found or cost < found[arc.tail][0]:
                        found[arc.tail] = (cost, arc, -1)
                        changed = True
        return found


def best_rate(asked: Question) -> Rate:
    """The rate of the best placement there is, of as many vreplicas as fit."""
    pods = len(asked.room)
    zones = {zone: 4 + pods + place for place, zone in enumerate(dict.fromkeys(asked.zones))}
    network = Network(4 + pods + len(zones))
    distinct, others = 2, 3
    # Each factor is more than all that the rules after it can cost together.
    pod_cost = 1 + sum(asked.has)
    zone_cost = pod_cost * (2 + asked.wanted**2)
    distinct_worth = zone_cost * (2 + asked.wanted**2)

    network.join(0, distinct, min(asked.spread, pods), lambda _: -distinct_worth)
    network.join(0, others, asked.wanted)
    arcs = []
    for pod, (room, has, zone) in enumerate(zip(asked.room, asked.has, asked.zones, strict=True)):
        network.join(distinct, 4 + pod, 1)
        network.join(others, 4 + pod, room)
        arcs.append(network.join(4 + pod, zones[zone], room, _pod_cost(pod_cost, has)))
    for zone in zones.values():
        network.join(zone, 1, asked.wanted, lambda n: zone_cost * (2 * n - 1))
    network.send(asked.placeable)
    return asked.rate([arc.flow for arc in arcs])


def _pod_cost(factor: int, has: int) -> Callable[[int], int]:
    return lambda n: factor * (2 * n - 1) - (n <= has)
