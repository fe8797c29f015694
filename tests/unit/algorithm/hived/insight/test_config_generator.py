"""`waggle hived init`: a configuration from nodes, that is accepted as it is, whatever the nodes look like."""

from __future__ import annotations

import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.hived import HivedSettings
from algorithm.hived.cells.chains import Layout
from algorithm.hived.formats.plainyaml import load
from algorithm.hived.insight.config_generator import Draft, DraftError, Wishes, draft
from algorithm.model import Node, pairs

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"


def machine(name: str, devices: int = 8, product: str = "A100", **labels: str) -> Node:
    names = {"rack": RACK, "zone": ZONE}
    known = {PRODUCT: product, **{names[key]: value for key, value in labels.items()}}
    amounts = (("cpu", 1000), (GPU, devices)) if devices else (("cpu", 1000),)
    return Node(name=name, labels=pairs({key: value for key, value in known.items() if value}), allocatable=amounts)


def layout(made: Draft) -> Layout:
    """Of the whole configuration, as a server would have it."""
    return HivedSettings.model_validate(load(made.text)["algorithm"]["settings"]).layout()


def tops(made: Draft) -> dict[str, int]:
    return {name: len(chain.full[chain.top]) for name, chain in layout(made).chains.items()}


def quotas(made: Draft) -> dict[str, dict[str, dict[int, int]]]:
    return {name: tenant.quota for name, tenant in layout(made).tenants.items()}


def test_equal_machines_are_one_chain_that_one_tenant_has() -> None:
    made = draft([machine(f"n{i}") for i in range(3)], Wishes())
    assert tops(made) == {"A100-host": 3}
    assert list(layout(made).machines) == ["n0", "n1", "n2"]
    assert quotas(made) == {"default": {"A100-host": {2: 3}}}
    assert made.remarks == []


def test_a_label_is_a_level_above_the_machines() -> None:
    made = draft([machine(f"n{i}", rack=f"r{i // 2}") for i in range(6)], Wishes(levels=(RACK,)))
    assert tops(made) == {"A100-rack": 3}
    first = layout(made).chains["A100-rack"].full[3][0]
    assert (first.address, first.nodes) == ("r0", ("n0", "n1"))


def test_labels_are_levels_from_the_outermost_on() -> None:
    nodes = [machine(f"n{i}", rack=f"r{i // 2}", zone=f"z{i // 4}") for i in range(8)]
    made = draft(nodes, Wishes(levels=(ZONE, RACK)))
    assert tops(made) == {"A100-zone": 2}
    assert [level.type for level in layout(made).chains["A100-zone"].levels.values()] == [
        "A100",
        "A100-host",
        "A100-rack",
        "A100-zone",
    ]


def test_what_has_another_number_of_machines_or_devices_is_a_chain_of_its_own() -> None:
    nodes = [machine(f"n{i}", rack="r0" if i < 4 else "r1") for i in range(7)] + [machine("n7", 7, rack="r1")]
    made = draft(nodes, Wishes(levels=(RACK,)))
    assert tops(made) == {"A100-rack-1x7": 1, "A100-rack-3x8": 1, "A100-rack-4x8": 1}
    assert made.remarks == [
        "Machines with A100 differ: most have 8 devices, but 7 on n7. Is a device missing?",
    ]


def test_the_same_rack_name_in_two_zones_is_two_racks() -> None:
    nodes = [machine(f"n{i}", rack="r0", zone=f"z{i // 2}") for i in range(4)]
    made = draft(nodes, Wishes(levels=(ZONE, RACK)))
    assert [cell.nodes for cell in layout(made).chains["A100-zone"].full[3]] == [("n0", "n1"), ("n2", "n3")]


def test_who_has_no_devices_is_left_out_and_named() -> None:
    made = draft([machine("gpu"), machine("cpu", 0)], Wishes())
    assert list(layout(made).machines) == ["gpu"]
    assert made.remarks == ["Left out, as they have no nvidia.com/gpu: cpu."]
    assert "# Left out, as they have no nvidia.com/gpu: cpu." in made.text


def test_who_lacks_a_label_is_on_its_own_and_named() -> None:
    made = draft([machine("a", rack="r"), machine("b", rack="r"), machine("c")], Wishes(levels=(RACK,)))
    assert tops(made) == {"A100-rack": 1, "A100-host": 1}
    assert "On their own, as they lack the label example.com/rack: c." in made.remarks


@pytest.mark.parametrize(
    ("level", "hint"),
    [
        ("example.com/rak", r"the 1 nodes .*example.com/rak; did you mean example.com/rack\?"),
        ("zzz", "zzz; they have example.com/rack, nvidia.com/gpu.product$"),
        ("only.on/others", "none of the 1 nodes with devices has the label only.on/others"),
    ],
)
def test_a_label_that_no_machine_has_is_an_error(level: str, hint: str) -> None:
    without = Node(name="cpu", labels=(("only.on/others", "x"),))
    with pytest.raises(DraftError, match=hint):
        draft([machine("a", rack="r"), without], Wishes(levels=(RACK, level)))


def test_who_is_cordoned_belongs_to_it_and_is_named() -> None:
    node = Node(name="n", allocatable=((GPU, 8),), unschedulable=True)
    made = draft([node], Wishes())
    assert list(layout(made).machines) == ["n"]
    assert made.remarks == ["Not Ready or cordoned now, but part of it: n."]


def test_the_kind_of_device_is_the_first_label_that_is_there_or_the_resource() -> None:
    typed = Node(name="a", allocatable=((GPU, 1),), labels=pairs({"node.kubernetes.io/instance-type": "p4d.24xlarge"}))
    made = draft([typed, Node(name="b", allocatable=((GPU, 2),))], Wishes())
    assert tops(made) == {"gpu-host": 1, "p4d-24xlarge-host": 1}


def test_devices_of_another_maker() -> None:
    node = Node(name="a", allocatable=(("amd.com/gpu", 4), (GPU, 0)))
    assert tops(draft([node], Wishes(resources=(GPU, "amd.com/gpu")))) == {"gpu-host": 1}
    with pytest.raises(
        DraftError, match=r"none of 1 nodes has nvidia.com/gpu .*; they have amd.com/gpu, nvidia.com/gpu: .*--resource"
    ):
        draft([node], Wishes())


@pytest.mark.parametrize("tenants", [("a", ""), ("a", "a")])
def test_tenants_need_names_of_their_own(tenants: tuple[str, ...]) -> None:
    with pytest.raises(DraftError, match="the names of tenants must differ, and not be empty: 'a', "):
        draft([machine("n0")], Wishes(tenants=tenants))


def test_tenants_get_equal_shares_of_the_largest_cells_that_can_be_shared() -> None:
    nodes = [machine(f"n{i}", rack=f"r{i // 3}") for i in range(9)]
    made = draft(nodes, Wishes(levels=(RACK,), tenants=("a", "b")))
    assert quotas(made) == {name: {"A100-rack": {3: 1, 2: 1}} for name in ("a", "b")}


def test_too_little_for_all_tenants_is_promised_to_nobody() -> None:
    made = draft([machine("n")], Wishes(tenants=("a", "b")))
    assert quotas(made) == {"a": {}, "b": {}}


def test_names_that_yaml_takes_for_something_else_are_quoted() -> None:
    nodes = [machine(name, rack="0x10") for name in ("010", "1e3", "on", "null", "2026-01-01")]
    made = draft(nodes, Wishes(levels=(RACK,), tenants=("yes",)))
    loaded = yaml.safe_load(made.text)["algorithm"]["settings"]
    assert sorted(HivedSettings.model_validate(loaded).layout().machines) == sorted(node.name for node in nodes)
    assert list(loaded["virtualClusters"]) == ["yes"]


def test_nodes_are_in_the_order_that_people_count() -> None:
    nodes = [machine(f"gpu-{i}") for i in (10, 9, 1)]
    assert list(layout(draft(nodes, Wishes())).machines) == ["gpu-1", "gpu-9", "gpu-10"]


def test_only_the_settings_are_the_originals_own_file() -> None:
    made = draft([machine("n")], Wishes(), whole=False)
    assert list(load(made.text)) == ["physicalCluster", "virtualClusters"]


VALUES = st.sampled_from(["", "r1", "r2", "a.b", "A100", "host", "7"])
NODES = st.lists(
    st.builds(
        lambda name, devices, product, rack, zone: machine(name, devices, product, rack=rack, zone=zone),
        st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,5}[a-z0-9])?", fullmatch=True),
        st.integers(0, 3),
        st.sampled_from(["", "A100", "A100-host", "A.100", "host", "x-rack"]),
        VALUES,
        VALUES,
    ),
    min_size=1,
    unique_by=lambda node: node.name,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    nodes=NODES,
    levels=st.sampled_from([(), (RACK,), (ZONE, RACK), (RACK, ZONE)]),
    tenants=st.sampled_from([("t",), ("a", "b", "c")]),
    seed=st.integers(0, 9),
)
def test_whatever_the_nodes_the_draft_has_all_their_devices_and_never_depends_on_their_order(
    nodes: list[Node], levels: tuple[str, ...], tenants: tuple[str, ...], seed: int
) -> None:
    wishes = Wishes(levels=levels, tenants=tenants)
    with_devices = {node.name: dict(node.allocatable)[GPU] for node in nodes if GPU in dict(node.allocatable)}
    labels = {name for node in nodes if node.name in with_devices for name, value in node.labels if value}
    if not with_devices or not labels.issuperset(levels):
        with pytest.raises(DraftError):
            draft(nodes, wishes)
        return
    made = draft(nodes, wishes)
    assert {name: len(devices) for name, devices in layout(made).machines.items()} == with_devices
    assert draft(random.Random(seed).sample(nodes, len(nodes)), wishes) == made
