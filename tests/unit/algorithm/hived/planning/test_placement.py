"""Which machines, and which devices on them: examples, and the original's search over all combinations as an oracle."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.hived.cells.cells import FREE
from algorithm.hived.cells.config import parse_config
from algorithm.hived.cells.layout import build
from algorithm.hived.cells.nodelist import NodeList
from algorithm.hived.cells.request import Offered, Request
from algorithm.hived.planning.placement import CAPACITY, Shortage, _closest, place

HOSTS = """
physicalCluster:
  cellTypes:
    pair: {childCellType: gpu, childCellNumber: 2}
    socket: {childCellType: pair, childCellNumber: 2}
    host: {childCellType: socket, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: host, cellAddress: m1}
  - {cellType: host, cellAddress: m2}
  - {cellType: host, cellAddress: m3}
virtualClusters: {}
"""
LEAFS_AT = {1: 1, 2: 2, 3: 4, 4: 8}


@pytest.fixture
def hosts():
    return build(parse_config(HOSTS)).chains["host"].full[4]


def leafs(cell):
    return [each for each in cell.walk() if each.level == 1]


def use(host, *indices, priority=0):
    for index in indices:
        leafs(host)[index].take(priority)


def placed(hosts, *, priority=0, packs=True, offered=None, **pods):
    """`p2=3`: three pods of two devices."""
    nodes = NodeList(hosts, packs_across_priorities=packs)
    wish = {int(name[1:]): number for name, number in pods.items()}
    names = Offered(offered or (), ignored=offered is None)
    found = place(nodes, LEAFS_AT, Request("t", priority, wish, "", names))
    if isinstance(found, Shortage):
        return found
    return [[leaf.address for leaf in pod] for size in found.values() for pod in size]


# -- machines ---------------------------------------------------------------------------------------------------------


def test_the_most_used_machine_comes_first(hosts):
    use(hosts[1], 0)

    assert placed(hosts, p1=1) == [["m2/0/0/1"]]


def test_a_gang_is_placed_as_a_whole_or_not_at_all(hosts):
    assert len(placed(hosts, p8=3)) == 3
    assert placed(hosts, p8=4) == CAPACITY


def test_nobody_has_to_go_if_there_is_room_without(hosts):
    use(hosts[0], *range(8), priority=0)

    assert placed(hosts, priority=5, p8=1) == [[leaf.address for leaf in leafs(hosts[1])]]


def test_lower_priorities_have_to_go_if_there_is_not(hosts):
    for host in hosts:
        use(host, *range(8), priority=1)

    assert placed(hosts, priority=1, p8=1) == CAPACITY
    assert placed(hosts, priority=2, p8=1) == [[leaf.address for leaf in leafs(hosts[0])]]


def test_opportunistic_pods_make_nobody_go(hosts):
    for host in hosts:
        use(host, *range(8), priority=-1)

    assert placed(hosts, priority=-1, p1=1) == CAPACITY


def test_opportunistic_pods_stay_together_and_away_from_others(hosts):
    use(hosts[0], 0, priority=0)
    use(hosts[2], 0, priority=-1)

    assert placed(hosts, priority=-1, packs=False, p1=1) == [["m3/0/0/1"]]
    assert placed(hosts, priority=-1, packs=False, p8=1) == [[leaf.address for leaf in leafs(hosts[1])]]


def test_a_bad_machine_is_the_last_resort_and_then_the_reason(hosts):
    hosts[0].healthy = False
    use(hosts[1], *range(8))

    assert placed(hosts, p8=1) == [[leaf.address for leaf in leafs(hosts[2])]]
    assert placed(hosts, p8=2) == Shortage("bad", "m1")
    assert placed(hosts, p8=2).text == "have to use at least one bad node m1"


def test_a_machine_that_is_not_offered_is_a_reason_too(hosts):
    assert placed(hosts, offered={"m2"}, p8=1) == [[leaf.address for leaf in leafs(hosts[1])]]
    assert placed(hosts, offered={"m2"}, p8=2).text == "have to use at least one non-suggested node m1"


def test_first_fit_never_goes_back(hosts):
    """Small pods first, on the most used machine: a fit may be missed, as in the original."""
    for host in hosts[:2]:
        use(host, *range(5))
    use(hosts[2], *range(8))

    assert placed(hosts, p1=2, p2=2) == CAPACITY


def test_two_billion_pods_are_no_work(hosts):
    use(hosts[0], 0)

    assert placed(hosts, p1=2**31 - 1) == CAPACITY
    assert placed(hosts, priority=-1, packs=False, p1=2**31 - 1, p2=2**31 - 1) == CAPACITY


# -- devices ----------------------------------------------------------------------------------------------------------


def test_devices_close_to_each_other_are_taken(hosts):
    use(hosts[0], 0, 5)

    assert placed(hosts, p2=1) == [["m1/0/1/2", "m1/0/1/3"]]
    assert placed(hosts, p3=1) == [["m1/0/0/1", "m1/0/1/2", "m1/0/1/3"]]


def test_free_devices_are_taken_before_those_of_others(hosts):
    for host in hosts:
        use(host, *range(8), priority=0)
    leafs(hosts[0])[7].give_back()

    assert placed(hosts, priority=1, p1=1) == [["m1/1/3/7"]]


def common_level(chosen):
    """The level of the lowest cell that contains them all."""
    cells = set(chosen)
    level = 1
    while len(cells) > 1:
        cells = {cell.parent for cell in cells}
        level += 1
    return level


def by_search(available, number):
    """The original: all combinations in lexicographic order, the first one with the lowest common ancestor."""
    best = min(common_level(chosen) for chosen in combinations(available, number))
    return next(list(chosen) for chosen in combinations(available, number) if common_level(chosen) == best)


@settings(max_examples=200, deadline=None)
@given(st.permutations(range(8)), st.integers(1, 8), st.integers(1, 8))
def test_devices_are_those_that_the_originals_search_finds(order, size, number):
    host = build(parse_config(HOSTS)).chains["host"].full[4][0]
    available = [leafs(host)[index] for index in order[:size]]
    if number > size:
        return
    wanted = by_search(available, number)
    rest = [leaf for leaf in available if leaf not in wanted]

    assert _closest(available, number, LEAFS_AT, 4) == wanted
    assert available == rest
    assert all(leaf.priority == FREE for leaf in wanted)
