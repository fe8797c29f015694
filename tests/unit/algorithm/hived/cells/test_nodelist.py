"""The order in which machines are tried, held against a list that is really sorted each time."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from algorithm.hived.cells.config import parse_config
from algorithm.hived.cells.layout import build
from algorithm.hived.cells.nodelist import NodeList, schedulable_nodes
from algorithm.hived.cells.request import Offered
from algorithm.hived.formats.podspec import OPPORTUNISTIC

FLAT = """
physicalCluster:
  cellTypes:
    host: {childCellType: gpu, childCellNumber: 3, isNodeLevel: true}
  physicalCells:
  - {cellType: host, cellAddress: m0}
  - {cellType: host, cellAddress: m1}
  - {cellType: host, cellAddress: m2}
  - {cellType: host, cellAddress: m3}
  - {cellType: host, cellAddress: m4}
  - {cellType: host, cellAddress: m5}
virtualClusters:
  a:
    virtualCells:
    - {cellType: host.gpu, cellNumber: 2}
    - {cellType: host, cellNumber: 1}
"""

machines = st.integers(0, 5)


class Order(RuleBasedStateMachine):
    """The original sorts one list in place at every request, so what came before decides between equals."""

    @initialize(packs=st.booleans())
    def start(self, packs):
        self.packs = packs
        self.cells = build(parse_config(FLAT)).chains["host"].full[2]
        self.sorted = list(self.cells)
        self.nodes = NodeList(self.cells, packs_across_priorities=packs)

    @rule(number=machines, priority=st.sampled_from([-1, -1, 0, 3]))
    def device_is_taken(self, number, priority):
        free = [leaf for leaf in self.cells[number].children if leaf.used_total == 0]
        for leaf in free[:1]:
            leaf.take(priority)

    @rule(number=machines)
    def device_is_given_back(self, number):
        held = [leaf for leaf in self.cells[number].children if leaf.used_total]
        for leaf in held[:1]:
            leaf.give_back()

    @rule(number=machines, healthy=st.booleans())
    def machine_turns(self, number, healthy):
        self.cells[number].healthy = healthy
        self.nodes.touch(self.cells[number])

    @rule(names=st.sets(machines), ignored=st.booleans(), priority=st.sampled_from([-1, 0, 5]), least=st.integers(1, 3))
    def request_comes(self, names, ignored, priority, least):
        offered = Offered({f"m{number}" for number in names}, ignored=ignored)
        self.nodes.arrange(offered)
        self.sorted.sort(key=lambda cell: self.key(cell, offered))

        wanted = [
            (cell, cell.free_for(priority), cell.healthy, cell.nodes[0] in offered)
            for cell in self.sorted
            if cell.free_for(priority) >= least
        ]
        assert list(self.nodes.candidates(priority, least)) == wanted

    def key(self, cell, offered):
        same = cell.used_total if self.packs else cell.used.get(OPPORTUNISTIC, 0)
        return not cell.healthy, cell.nodes[0] not in offered, -same, cell.used_total - same

    @invariant()
    def nothing_is_lost(self):
        if hasattr(self, "nodes"):
            assert set(self.cells) == set(self.sorted)


TestOrder = Order.TestCase
TestOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True, database=None)


def test_what_a_tenant_was_promised_below_a_machine_is_a_place_of_its_own():
    """Two such cells never host one pod, even on one machine."""
    full = build(parse_config(FLAT)).tenants["a"].full["host"]

    assert [cell.address for cell in schedulable_nodes(full, 2)] == ["a/2", "a/0", "a/1"]


def bigger_than_the_list(nodes, pods, devices):
    nodes.arrange(Offered((), ignored=True))
    return nodes.is_too_small(pods, devices)


def test_what_could_not_even_run_alone_is_known_at_once():
    nodes = NodeList(build(parse_config(FLAT)).chains["host"].full[2], packs_across_priorities=True)

    assert not bigger_than_the_list(nodes, 6, 3)
    assert not bigger_than_the_list(nodes, 6, 2)
    assert bigger_than_the_list(nodes, 7, 2)
    assert bigger_than_the_list(nodes, 2**31 - 1, 1)
    assert bigger_than_the_list(nodes, 1, 4)


def test_but_a_bad_machine_gives_another_reason():
    cells = build(parse_config(FLAT)).chains["host"].full[2]
    nodes = NodeList(cells, packs_across_priorities=True)
    cells[0].healthy = False
    nodes.touch(cells[0])

    assert not bigger_than_the_list(nodes, 100, 1)
