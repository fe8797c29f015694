"""What is written on pods: the original reads it, we read the original's, and nobody's nonsense does harm."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.hived.formats.allocation import Allocation, Place
from algorithm.hived.formats.bindinfo import BIND_INFO, ISOLATION, read, write
from algorithm.hived.formats.podspec import UserError

#: As the original wrote it on a pod of a gang of two, on Kubernetes 1.36.
ORIGINAL = """node: box-f
leafCellIsolation:
- 0
- 1
- 2
- 3
cellChain: t4-box
affinityGroupBindInfo:
- podPlacements:
  - physicalNode: box-a
    physicalLeafCellIndices:
    - 0
    - 1
    - 2
    - 3
    preassignedCellTypes:
    - t4-box
    - t4-box
    - t4-box
    - t4-box
  - physicalNode: box-f
    physicalLeafCellIndices:
    - 0
    - 1
    - 2
    - 3
    preassignedCellTypes:
    - t4-box
    - t4-box
    - t4-box
    - t4-box
"""

BOXES = Allocation(
    "box-f",
    (0, 1, 2, 3),
    "t4-box",
    ((4, (Place("box-a", (0, 1, 2, 3), ("t4-box",) * 4), Place("box-f", (0, 1, 2, 3), ("t4-box",) * 4))),),
)


def test_the_originals_bind_info_is_read():
    assert read(ORIGINAL) == BOXES


def test_ours_is_the_originals_letter_by_letter():
    assert dict(write(BOXES)) == {BIND_INFO: ORIGINAL, ISOLATION: "0,1,2,3"}


def test_old_names_of_fields_are_read():
    old = ORIGINAL.replace("leafCellIsolation", "gpuIsolation").replace("physicalLeafCell", "physicalGpu")

    assert read(old) == BOXES


def test_the_order_of_keys_and_the_style_do_not_matter():
    loaded = yaml.safe_load(ORIGINAL)

    assert read(yaml.safe_dump(loaded)) == BOXES
    assert read(yaml.safe_dump(loaded, default_flow_style=True)) == BOXES


def test_a_group_without_types_uses_nobodys_quota():
    """As very old versions wrote it."""
    loaded = yaml.safe_load(ORIGINAL)
    for place in loaded["affinityGroupBindInfo"][0]["podPlacements"]:
        del place["preassignedCellTypes"]

    assert read(yaml.safe_dump(loaded)).places[0][1][0].types == ("",) * 4


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
places = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.builds(
                Place,
                names,
                st.lists(st.integers(0, 2**31 - 1), min_size=n, max_size=n, unique=True).map(tuple),
                st.lists(st.one_of(st.just(""), names), min_size=n, max_size=n).map(tuple),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    )
)


@settings(max_examples=50)
@given(groups=st.lists(places, min_size=1, max_size=3, unique_by=lambda each: each[0]), chain=names)
def test_what_is_written_is_read_again_whatever_the_names(groups, chain):
    ordered = tuple(sorted(groups))
    own = ordered[0][1][0]
    allocation = Allocation(own.node, own.indices, chain, ordered)

    text = dict(write(allocation))[BIND_INFO]

    # What was just written is remembered; with a comment it is another text, and has to be parsed.
    assert read(text) == allocation
    assert read(text + "# by somebody else\n") == allocation


def test_only_so_much_is_remembered_and_the_rest_is_read_all_the_same():
    written = []
    for number in range(400):
        allocation = Allocation(f"n{number}", (0,), "chain", ((1, (Place(f"n{number}", (0,), ("t",)),)),))
        written.append((dict(write(allocation))[BIND_INFO], allocation))

    assert [read(text) for text, _ in written] == [allocation for _, allocation in written]


@pytest.mark.parametrize(
    ("find", "replace", "named"),
    [
        ("node: box-f\n", "", "node"),
        ("node: box-f", "node: 7", "no place on 7"),
        ("node: box-f", "node: box-x", "no place on box-x"),
        ("node: box-f", "node: [box-f]", "node"),
        ("cellChain: t4-box\n", "", "cellChain"),
        ("leafCellIsolation:\n- 0\n", "leafCellIsolation:\n- 9\n", "no place on box-f with devices 9,1,2,3"),
        ("leafCellIsolation:\n- 0\n", "leafCellIsolation:\n- zero\n", "leafCellIsolation"),
        ("leafCellIsolation:\n- 0\n", "leafCellIsolation:\n- -1\n", "leafCellIsolation"),
        ("leafCellIsolation:\n- 0\n", "leafCellIsolation:\n- 1\n", "leafCellIsolation: a device stands there twice"),
        ("leafCellIsolation:\n- 0\n", f"leafCellIsolation:\n- {'9' * 5000}\n", "leafCellIsolation"),
        ("- podPlacements:", "- podPlacement:", "podPlacements"),
        ("    preassignedCellTypes:\n    - t4-box\n", "    preassignedCellTypes:\n", "preassignedCellTypes"),
        ("    physicalLeafCellIndices:\n    - 0\n", "    physicalLeafCellIndices:\n", "preassignedCellTypes"),
        ("  - physicalNode: box-a", "  - physicalNode: ~", "physicalNode"),
    ],
)
def test_what_is_wrong_is_named(find, replace, named):
    assert find in ORIGINAL

    with pytest.raises(UserError, match=named) as caught:
        read(ORIGINAL.replace(find, replace, 1))

    assert str(caught.value).startswith(f"Pod annotation {BIND_INFO}: ")


@pytest.mark.parametrize(
    "text",
    ["", "words", "- a", "affinityGroupBindInfo:", "affinityGroupBindInfo:\n- 1", "[" * 100_000, "x" * 1_000_000, "{"],
)
def test_nonsense_is_the_pods_fault(text):
    with pytest.raises(UserError):
        read(text)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    for each in (text, ORIGINAL[: len(text) * 5] + text, "affinityGroupBindInfo:\n" + text):
        try:
            read(each)
        except UserError:
            continue
