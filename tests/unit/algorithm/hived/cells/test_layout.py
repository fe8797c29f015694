"""Cells from configurations: inferred addresses, levels, machines and device numbers."""

from algorithm.hived.cells.config import parse_config
from algorithm.hived.cells.layout import build
from tests.conformance.hived_recordings import document
from tests.support.hived.harness import RACKS

TYPES = """
physicalCluster:
  cellTypes:
    pair: {childCellType: gpu, childCellNumber: 2}
    host: {childCellType: pair, childCellNumber: 2, isNodeLevel: true}
    rack: {childCellType: host, childCellNumber: 2}
    box: {childCellType: gpu, childCellNumber: 2, isNodeLevel: true}
"""


def built(cells, tenants="{}"):
    return build(parse_config(f"{TYPES}  physicalCells: {cells}\nvirtualClusters: {tenants}\n"))


def addresses(layout, chain, level):
    return [cell.address for cell in layout.chains[chain].full[level]]


def test_what_is_left_out_is_numbered_as_the_original_does():
    """Above machines the numbers go on from the top cell's; at a machine they begin anew."""
    layout = built("[{cellType: rack}, {cellType: rack}]")

    assert addresses(layout, "rack", 3) == ["0/0", "0/1", "1/2", "1/3"]
    assert addresses(layout, "rack", 1)[:4] == ["0/0/0/0", "0/0/0/1", "0/0/1/2", "0/0/1/3"]
    assert addresses(layout, "rack", 1)[4:6] == ["0/1/0/0", "0/1/0/1"]


def test_given_addresses_are_kept_and_the_last_part_is_the_machines_name():
    layout = built("[{cellType: rack, cellAddress: r, cellChildren: [{cellAddress: m1}, {cellAddress: m2}]}]")

    assert addresses(layout, "rack", 3) == ["r/m1", "r/m2"]
    assert list(layout.machines) == ["m1", "m2"]


def test_devices_have_the_numbers_that_they_were_given():
    given = "[{cellType: box, cellAddress: m, cellChildren: [{cellAddress: 7}, {cellAddress: 3}]}]"
    layout = built(given)

    assert [leaf.indices for leaf in layout.machines["m"]] == [(7,), (3,)]
    assert layout.devices["box", "m", 3].address == "m/3"


def test_a_cell_knows_the_machines_that_it_spans_or_is_part_of():
    [rack] = built("[{cellType: rack, cellChildren: [{cellAddress: m1}, {cellAddress: m2}]}]").chains["rack"].full[4]

    assert rack.nodes == ("m1", "m2")
    assert rack.children[1].children[0].nodes == ("m2",)
    assert rack.children[1].children[0].indices == (0, 1)


def test_a_machine_may_have_devices_of_two_kinds():
    layout = built("[{cellType: box, cellAddress: m}, {cellType: rack, cellChildren: [{cellAddress: m}, {}]}]")

    assert {leaf.chain for leaf in layout.machines["m"]} == {"box", "rack"}


def test_levels_count_from_the_devices_up():
    chain = built("[{cellType: rack}]").chains["rack"]

    assert [(number, level.type, level.leafs) for number, level in chain.levels.items()] == [
        (1, "gpu", 1),
        (2, "pair", 2),
        (3, "host", 4),
        (4, "rack", 8),
    ]
    assert (chain.machine_level, chain.top, chain.leaf_type) == (3, 4, "gpu")


def test_of_several_node_levels_the_lowest_is_the_machine():
    layout = build(parse_config(next(each["yaml"] for each in document()["odd_configs"] if "x18" in each["id"])))

    [chain] = layout.chains.values()
    assert [number for number, level in chain.levels.items() if level.is_machine] == [chain.machine_level]


def test_virtual_cells_are_numbered_as_the_original_does():
    layout = built("[{cellType: rack}]", "{vc: {virtualCells: [{cellType: rack.host, cellNumber: 2}]}}")

    full = layout.tenants["vc"].full["rack"]
    assert [cell.address for cell in full[3]] == ["vc/0", "vc/1"]
    assert [cell.address for cell in full[1]][-2:] == ["vc/1/1/2", "vc/1/1/3"]


def test_pinned_cells_are_numbered_after_the_others():
    cells = "[{cellType: rack, cellChildren: [{cellAddress: m1, pinnedCellId: p}, {cellAddress: m2}]}]"
    quota = "{virtualCells: [{cellType: rack.host, cellNumber: 1}], pinnedCells: [{pinnedCellId: p}]}"
    layout = built(cells, f"{{vc: {quota}}}")

    assert layout.tenants["vc"].pinned["p"][3][0].address == "vc/1"
    assert layout.tenants["vc"].quota == {"rack": {3: 2}}
    assert layout.pinned["p"].address == "0/m1"


def test_an_id_that_nobody_refers_to_pins_nothing_bug_24():
    cells = "[{cellType: rack, cellChildren: [{cellAddress: m1, pinnedCellId: p}, {cellAddress: m2}]}]"
    layout = built(cells, "{vc: {virtualCells: [{cellType: rack.host, cellNumber: 2}]}}")

    assert layout.pinned == {}
    assert not any(cell.pinned for level in layout.chains["rack"].full.values() for cell in level)


def test_a_device_type_may_have_several_chains_in_the_order_of_the_configuration():
    assert built("[{cellType: rack}, {cellType: box}]").chains_of == {"gpu": ["rack", "box"]}


def test_a_tenant_may_have_no_quota_and_a_chain_no_tenant_bug_2():
    layout = built("[{cellType: rack}]", "{idle: {}}")

    assert layout.tenants["idle"].quota == {}
    assert layout.chains["rack"].full[4]


def test_two_layouts_of_one_configuration_share_no_cells():
    config = parse_config(RACKS)
    first, second = build(config), build(config)

    assert first.machines.keys() == second.machines.keys()
    assert not {id(leaf) for leafs in first.machines.values() for leaf in leafs} & {
        id(leaf) for leafs in second.machines.values() for leaf in leafs
    }
