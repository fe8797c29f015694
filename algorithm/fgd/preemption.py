"""Which pods to evict for one pod: on one node, as few and as unimportant as possible.

On each of at most `MOST_LOOKS` nodes pods of lower priority go, the least important first, until there is room; then
those that need not go after all are kept, the most important first. Of these ways the one with the least important
victims wins, then the one with the fewest, then the first node by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from algorithm.fgd.devices import Devices
from algorithm.fgd.needs import Need
from algorithm.fgd.ranking import fits
from algorithm.fgd.state import State
from algorithm.interface import Victim
from algorithm.model import Pod

#: Nodes on which a preemption is worked out.
MOST_LOOKS = 100


def find_victims(state: State, pod: Pod, need: Need, offered: Iterable[str], spared: frozenset[str]) -> list[Victim]:
    """The pods to evict, sorted; an empty list if no eviction makes room. `spared` pods are not named."""
    by_node: dict[str, list[Pod]] = {}
    names = frozenset(offered)
    for each in state.allocated.values():
        if each.node_name in names and each.priority < pod.priority and each.uid not in spared:
            by_node.setdefault(each.node_name, []).append(each)
    ways, looks = [], 0
    for name in sorted(by_node):
        if looks == MOST_LOOKS:
            break
        victims = _on(state.nodes[name], need, by_node[name])
        if victims is not None:
            looks += 1
            ways.append((max(each.priority for each in victims), len(victims), name, victims))
    if not ways:
        return []
    _, _, name, victims = min(ways, key=lambda way: way[:3])
    return sorted(Victim(name, each.uid) for each in victims)


def _on(node: Devices, need: Need, lower: list[Pod]) -> list[Pod] | None:
    """The victims on one node; None if even all of them make no room."""
    models = need.models
    trial = node.copy()
    gone: list[Pod] = []
    for each in sorted(lower, key=lambda each: (each.priority, each.uid)):
        if fits(need, models, trial):
            break
        trial.remove(each.uid)
        gone.append(each)
    if not gone or not fits(need, models, trial):
        return None
    for each in sorted(gone, key=lambda each: (-each.priority, each.uid)):
        trial.add(each.uid, node.taken[each.uid])
        if fits(need, models, trial):
            gone.remove(each)
        else:
            trial.remove(each.uid)
    return gone
