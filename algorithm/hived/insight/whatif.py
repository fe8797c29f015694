"""What-if: really ends groups, lets the caller look, and restores everything.

Nothing is simulated. The hive does what it does when a group ends, with all consequences (cells merge, doomed cells are
released, victims get their devices back). The journal takes it back (`cells/journal.py`), and the lists of machines,
which it leaves as they were sorted last, are put back from a copy. So not even an order between equals differs
afterwards: a what-if has no effect on later decisions.

The cost is that of the changes, and of copying the lists; a fork of a large hive takes half a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState


@contextmanager
def ended(hive: HivedCluster, groups: Iterable[Group] = ()) -> Iterator[None]:
    """Within the block these groups have ended: their pods are gone, those that wait as well.

    Nothing that is asked within the block leaves a trace either. A group that the hive does not have is left out.
    """
    by_name = (hive.nodes, hive.pinned_nodes, hive.open_nodes)
    lists = [(each, each.remembered()) for named in by_name for each in named.values()]
    try:
        with hive.journal.trial():
            for group in groups:
                if hive.groups.get(group.name) is group:
                    _end(hive, group)
            yield
    finally:
        for listed, order in lists:
            listed.put_back(order)


def _end(hive: HivedCluster, group: Group) -> None:
    if group.state is GroupState.PREEMPTING:
        hive.cancel(group)
    else:
        hive.end(group)
