"""The original's configuration file, and what is said about wrong ones."""

import pytest

from algorithm.hived.cells.config import HivedConfigError, parse_config
from algorithm.hived.cells.layout import build
from tests.conformance.hived_recordings import document
from tests.support.hived.harness import RACKS, settings_of

ODD = {each["id"]: each["yaml"] for each in document()["odd_configs"]}

#: What is said about each of the odd configurations with which the original was tried; empty if it is accepted.
SAID = {
    "x01-unknown-physical-type": "physicalCluster.physicalCells[0].cellType: unknown cell type 'nope'",
    "x02-overcommit": "virtualClusters: promised 3 cells XA-BOX of XA-BOX (ONE 2, TWO 1), but there are 2 whole ones",
    "x03-vc-chain-unknown": "virtualClusters.a.virtualCells[0].cellType: 'rackz' is no type of a top cell",
    "x04-vc-type-unknown": "virtualClusters.a.virtualCells[0].cellType: 'rack.boxx' is no path of types",
    "x05-pin-unknown": "virtualClusters.a.pinnedCells[0].pinnedCellId: no physical cell has the pinnedCellId 'ghost'",
    "x06-top-below-node": "physicalCluster.physicalCells[0].cellType: half is below machine level",
    "x07-leaf-address-not-int": "physicalCluster.physicalCells[0]: device address 0/m1/zero must end with",
    "x08-chain-without-tenant": "",
    "x09-too-many-children": "physicalCluster.physicalCells[0].cellChildren: 3 cells, but a rack consists of 2",
    "x10-too-few-children": "physicalCluster.physicalCells[0].cellChildren: 1 cells, but a rack consists of 2",
    "x11-duplicate-node": "physicalCluster.physicalCells[0]: device 0 of machine m1 stands there twice: 0/m1/0",
    "x12-pin-in-two-tenants": "virtualClusters.b.pinnedCells: p is pinned for a already",
    "x13-pin-id-twice": "physicalCluster.physicalCells[0].cellChildren[1].pinnedCellId: p is the id of 0/m1 already",
    "x14-pin-unreferenced": "",
    "x15-too-much-quota": "virtualClusters: promised 3 cells box of rack (a 3), but there are 2",
    "x16-negative-quota": "virtualClusters.a.virtualCells[0].cellNumber: ",
    "x17-no-node-level": "physicalCluster.physicalCells[0].cellType: rack is below machine level",
    "x18-two-node-levels": "",
    "x19-node-addresses-omitted": "",
    "x20-no-tenants": "",
    "x21-vc-middle-unknown": "virtualClusters.a.virtualCells[0].cellType: 'rack.banana.box' is no path of types",
    "x22-vc-path-skips": "",
    "x23-vc-type-of-other-tree": "virtualClusters.a.virtualCells[0].cellType: 'rack.box2' is no path of types",
    "x24-vc-chain-not-top": "virtualClusters.a.virtualCells[0].cellType: 'box' is no type of a top cell",
    "x25-zero-children": "physicalCluster.cellTypes.rack.childCellNumber: ",
    "x26-vc-name-slash": "",
}


def said(text, *, lax=False):
    try:
        build(parse_config(text, lax=lax))
    except HivedConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", sorted(ODD))
def test_odd_configurations_are_refused_by_field_or_accepted_for_good(name):
    """BUG-2 and BUG-17: the original crashes without a useful text on some, and lets most pass that cannot work."""
    answer = said(ODD[name])

    assert answer.startswith(SAID[name])
    assert bool(answer) == bool(SAID[name])


def test_every_odd_configuration_is_expected():
    assert ODD.keys() == SAID.keys()


@pytest.mark.parametrize("name", sorted(document()["configs"]))
def test_every_configuration_that_was_recorded_is_accepted(name):
    assert said(document()["configs"][name]["yaml"]) == ""


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("find", "replace", "answer"),
    [
        ("physicalCluster:", "physicalClusters:", "unknown key physicalClusters; did you mean physicalCluster?"),
        ("cellTypes:", "skuTypes:", "physicalCluster: unknown key skuTypes; there are cellTypes, physicalCells"),
        ("childCellType: gpu", "childcelltype: gpu", "did you mean childCellType?"),
        ("cellNumber: 2", "number: 2", "virtualClusters.a.virtualCells[0]: unknown key number"),
        ("{cellAddress: m1}", "{address: m1}", "cellChildren[0]: unknown key address"),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(find, replace, answer):
    assert answer in said(RACKS.replace(find, replace, 1))


def test_pinned_cells_indented_wrongly_are_no_longer_ignored_bug_17():
    text = RACKS.replace("cellNumber: 2}", "cellNumber: 2, pinnedCells: [{pinnedCellId: p}]}")

    assert said(text) == "virtualClusters.a.virtualCells[0]: unknown key pinnedCells; there are cellNumber, cellType"


def test_the_old_laxness_can_be_had():
    text = RACKS.replace("virtualClusters:", "skuTypes: {}\nvirtualClusters:") + "  c: {somethingElse: 1}\n"

    assert "unknown key" in said(text)
    assert said(text, lax=True) == ""


def test_what_is_the_servers_in_the_originals_file_is_passed_over():
    head = "kubeApiServerAddress: http://x\nwebServerAddress: ':30096'\nwaitingPodSchedulingBlockMilliSec: 50\n"

    assert said(head + RACKS) == ""


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("find", "replace", "field"),
    [
        ("childCellNumber: 2", "childCellNumber: two", "physicalCluster.cellTypes.socket.childCellNumber"),
        ("childCellNumber: 2", "childCellNumber: [2]", "physicalCluster.cellTypes.socket.childCellNumber"),
        ("isNodeLevel: true", "isNodeLevel: 7", "physicalCluster.cellTypes.host.isNodeLevel"),
        ("childCellType: gpu", "childCellType: ''", "physicalCluster.cellTypes.socket.childCellType"),
        ("cellNumber: 2}", "cellNumber: -1}", "virtualClusters.a.virtualCells[0].cellNumber"),
        ("[{cellAddress: m1}, {cellAddress: m2}]", "m1", "physicalCluster.physicalCells[0].cellChildren"),
    ],
)
def test_a_wrong_value_is_named(find, replace, field):
    assert said(RACKS.replace(find, replace, 1)).startswith(f"{field}: ")


@pytest.mark.parametrize(("text", "number"), [("02", 2), ("0b10", 2), ("0x2", 2), ("0o2", 2), ("2.0", 2), ("010", 8)])
def test_numbers_are_what_the_original_reads(text, number):
    config = parse_config(RACKS.replace("cellNumber: 2}", f"cellNumber: {text}}}", 1))

    assert config.virtual_clusters["a"].virtual_cells[0].cell_number == number


@pytest.mark.parametrize("text", ["1.5", "1e1", "0b12", "0x", "1:30", "two"])
def test_what_is_no_whole_number_is_refused(text):
    where = "virtualClusters.a.virtualCells[0].cellNumber: "

    assert said(RACKS.replace("cellNumber: 2}", f"cellNumber: {text}}}", 1)).startswith(where)


@pytest.mark.parametrize("path", ["rack.socket", "rack.host.socket"])
def test_a_path_may_leave_out_types_in_between(path):
    layout = build(parse_config(RACKS.replace("cellType: rack.host,", f"cellType: {path},", 1)))

    assert [cell.type for cell in layout.tenants["a"].preassigned["rack"][2]] == ["socket", "socket"]


@pytest.mark.parametrize("path", ["rack.socket.host", "rack.rack", "rack.", "rack..host", "rack.host.host"])
def test_a_path_goes_down_from_type_to_type(path):
    assert "is no path of types" in said(RACKS.replace("cellType: rack.host,", f"cellType: {path},", 1))


def test_types_that_contain_themselves_are_refused():
    text = RACKS.replace("{childCellType: gpu, childCellNumber: 2}", "{childCellType: rack, childCellNumber: 2}")

    assert said(text) == "physicalCluster.cellTypes.socket.childCellType: rack contains itself"


def test_what_is_no_yaml_is_refused_with_the_line():
    assert said("physicalCluster: [") == "not YAML: did not find expected node content, line 2"


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_nothing_is_a_cluster_of_nothing(text):
    assert said(text) == ""


@pytest.mark.parametrize("text", ["words", "- a\n", "7"])
def test_what_is_no_mapping_is_refused(text):
    assert "expected a mapping" in said(text)


def test_null_leaves_the_default():
    assert said(RACKS + "  c:\n  d: {virtualCells: ~, pinnedCells: null}\n") == ""


def test_addresses_may_be_numbers_or_look_like_something_else():
    text = RACKS.replace("m1", "08").replace("m2", "true")
    layout = build(parse_config(text))

    assert list(layout.machines) == ["08", "true", "m3", "m4"]


def test_anchors_and_merges_are_ordinary_configuration():
    text = RACKS.replace("{cellType: rack.host, cellNumber: 2}", "&quota {cellType: rack.host, cellNumber: 2}")
    text = text.replace("{cellType: rack.host, cellNumber: 1}", "{<<: *quota, cellNumber: 1}")

    assert said(text) == ""


# -- settings ---------------------------------------------------------------------------------------------------------


def test_our_own_choices_stand_beside_the_originals():
    settings = settings_of(RACKS + "lax: true\nbindUnoffered: true\nkeepHealthyCellsWhole: true\nskuTypes: {}\n")

    assert (settings.lax, settings.bind_unoffered, settings.keep_healthy_cells_whole) == (True, True, True)


def test_settings_name_the_field_too():
    with pytest.raises(ValueError, match="virtualClusters: promised 9 cells host"):
        settings_of(RACKS.replace("cellNumber: 2", "cellNumber: 8"))


def test_a_virtual_cluster_needs_a_name():
    with pytest.raises(ValueError, match="a virtual cluster needs a name"):
        settings_of(RACKS + "  '': {}\n")
