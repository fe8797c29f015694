"""What a pod says it wants: every field, every rule, and texts that tell the author what is wrong."""

import pytest
import yaml

from algorithm.hived.formats.podspec import LONGEST, SPEC, UserError, parse_spec

LEAST = {"virtualCluster": "vc1", "leafCellNumber": 2}


def parse(**fields):
    return parse_text(yaml.safe_dump({**LEAST, **fields}))


def parse_text(text):
    return parse_spec(text, namespace="ns", name="pod")


def refusal(**fields):
    return refusal_of(yaml.safe_dump({**LEAST, **fields}))


def refusal_of(text):
    with pytest.raises(UserError) as caught:
        parse_text(text)
    assert str(caught.value).startswith(f"Pod annotation {SPEC}: ")
    return caught.value.kind, str(caught.value).removeprefix(f"Pod annotation {SPEC}: ")


# -- what is read -----------------------------------------------------------------------------------------------------


def test_fields_that_are_left_out_have_the_originals_defaults():
    spec = parse()

    assert (spec.tenant, spec.leafs, spec.priority, spec.leaf_type, spec.pinned_id) == ("vc1", 2, 0, "", "")
    assert (spec.lazy, spec.ignores_offer) == (False, True)


def test_a_pod_without_a_group_is_a_group_of_its_own():
    spec = parse()

    assert (spec.group, spec.pods) == ("ns/pod", ((2, 1),))


def test_every_field_is_read():
    spec = parse(
        priority=7,
        pinnedCellId="pin",
        leafCellType="K80",
        lazyPreemptionEnable=True,
        ignoreK8sSuggestedNodes=False,
        affinityGroup={"name": "g", "members": [{"podNumber": 3, "leafCellNumber": 2}]},
    )

    assert (spec.priority, spec.pinned_id, spec.leaf_type, spec.lazy, spec.ignores_offer) == (
        7,
        "pin",
        "K80",
        True,
        False,
    )
    assert (spec.group, spec.pods) == ("g", ((2, 3),))


def test_members_of_the_same_size_are_one_and_smaller_ones_come_first():
    members = [{"podNumber": n, "leafCellNumber": leafs} for n, leafs in ((1, 4), (2, 2), (3, 4))]

    assert parse(affinityGroup={"name": "g", "members": members}).pods == ((2, 2), (4, 4))


def test_old_names_of_fields_are_read():
    text = "virtualCluster: vc1\ngpuType: K80\ngpuNumber: 2\naffinityGroup:\n  name: g\n  members:\n"
    spec = parse_text(text + "  - {podNumber: 1, gpuNumber: 2}\n")

    assert (spec.leaf_type, spec.leafs, spec.pods) == ("K80", 2, ((2, 1),))


def test_old_names_within_names_stay_bug_18():
    """The original replaced them anywhere in the text."""
    spec = parse(affinityGroup={"name": "my-gpuType", "members": [{"podNumber": 1, "leafCellNumber": 2}]})

    assert spec.group == "my-gpuType"


@pytest.mark.parametrize("name", ["123", "true", "1.0", "2026-01-01", "y"])
def test_names_may_look_like_something_else(name):
    assert parse_text(f"virtualCluster: {name}\nleafCellNumber: 1").tenant == name


@pytest.mark.parametrize("text", ["true", "True", "yes", "on", "y", "Y"])
def test_truth_is_written_in_many_ways(text):
    assert parse_text(f"virtualCluster: a\nleafCellNumber: 1\nlazyPreemptionEnable: {text}").lazy


@pytest.mark.parametrize("text", ["false", "No", "off", "n"])
def test_and_so_is_the_opposite(text):
    spec = parse_text(f"virtualCluster: a\nleafCellNumber: 1\nignoreK8sSuggestedNodes: {text}")

    assert not spec.ignores_offer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("8", 8), ("8.0", 8), ("+8", 8), ("1_0", 10), ("010", 8), ("0100", 64), ("0_10", 8), ("010.0", 10)],
        *[("08", 8), ("019", 19), ("0x2", 2), ("0X1f", 31), ("0b10", 2), ("0o10", 8)],
    ],
)
def test_whole_numbers_are_written_in_many_ways(text, number):
    assert parse_text(f"virtualCluster: a\nleafCellNumber: {text}").leafs == number


@pytest.mark.parametrize("text", ["0x", "0b2", "0o8", "0xg", "0_x1", "1e3", ".5", "1:30"])
def test_what_is_no_whole_number_is_refused(text):
    assert refusal_of(f"virtualCluster: a\nleafCellNumber: {text}")[0] == "spec-yaml"


@pytest.mark.parametrize(("text", "priority"), [("-1", -1), ("-01", -1), ("0100", 64), ("0x10", 16)])
def test_priorities_are_read_in_the_same_way(text, priority):
    assert parse_text(f"virtualCluster: a\nleafCellNumber: 1\npriority: {text}").priority == priority


def test_null_is_the_default():
    spec = parse_text("virtualCluster: a\nleafCellNumber: 1\npriority: null\naffinityGroup: ~\nleafCellType:\n")

    assert (spec.priority, spec.group, spec.leaf_type) == (0, "ns/pod", "")


def test_unknown_fields_mean_nothing():
    assert parse(gangReleaseEnable=True, somethingElse=[1]).tenant == "vc1"


def test_json_is_yaml():
    assert parse_text('{"virtualCluster": "vc1", "leafCellNumber": 2}').leafs == 2


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"virtualCluster": ""}, "VirtualCluster is empty"),
        ({"priority": -2}, "Priority is less than -1"),
        ({"priority": 1001}, "Priority is greater than 1000"),
        ({"leafCellNumber": 0}, "LeafCellNumber is non-positive"),
        ({"leafCellNumber": -1}, "LeafCellNumber is non-positive"),
    ],
)
def test_the_originals_rules_hold_in_the_originals_words(fields, text):
    assert refusal(**fields)[1] == text


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ({"name": "", "members": [{"podNumber": 1, "leafCellNumber": 2}]}, "AffinityGroup.Name is empty"),
        (
            {"name": "g", "members": [{"podNumber": 0, "leafCellNumber": 2}]},
            "AffinityGroup.Members has non-positive PodNumber",
        ),
        (
            {"name": "g", "members": [{"podNumber": 1, "leafCellNumber": 0}]},
            "AffinityGroup.Members has non-positive LeafCellNumber",
        ),
        (
            {"name": "g", "members": [{"podNumber": 1, "leafCellNumber": 4}]},
            "AffinityGroup.Members does not contains current Pod",
        ),
        ({"name": "g"}, "AffinityGroup.Members does not contains current Pod"),
    ],
)
def test_groups_have_rules_too(group, text):
    assert refusal(affinityGroup=group)[1] == text


def test_no_annotation_is_an_error():
    assert refusal_of("") == ("spec-missing", "Annotation does not exist or is empty")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"leafCellNumber": "two"}, "leafCellNumber"),
        ({"leafCellNumber": "2"}, "leafCellNumber"),
        ({"leafCellNumber": 1.5}, "leafCellNumber"),
        ({"leafCellNumber": "0x2"}, "leafCellNumber"),
        ({"leafCellNumber": 2**31}, "leafCellNumber"),
        ({"leafCellNumber": int("9" * 4000)}, "leafCellNumber"),
        ({"priority": [1]}, "priority"),
        ({"priority": True}, "priority"),
        ({"virtualCluster": ["a"]}, "virtualCluster"),
        ({"virtualCluster": {"a": 1}}, "virtualCluster"),
        ({"lazyPreemptionEnable": "maybe"}, "lazyPreemptionEnable"),
        ({"lazyPreemptionEnable": "true"}, "lazyPreemptionEnable"),
        ({"affinityGroup": "g"}, "affinityGroup"),
        ({"affinityGroup": {"name": "g", "members": "all"}}, "affinityGroup.members"),
        ({"affinityGroup": {"name": "g", "members": [1]}}, "affinityGroup.members"),
        ({"affinityGroup": {"name": "g", "members": [{"podNumber": "x"}]}}, "affinityGroup.members[0].podNumber"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(fields, field):
    kind, text = refusal(**fields)

    assert kind == "spec-yaml"
    assert text.startswith(f"{field}: ")


@pytest.mark.parametrize("text", ["just words", "- a\n- b\n", "7", "[", "a: b: c"])
def test_what_is_no_mapping_is_refused(text):
    assert refusal_of(text)[0] == "spec-yaml"


def test_a_number_of_5000_digits_is_refused_and_not_converted():
    assert refusal_of(f"virtualCluster: a\nleafCellNumber: {'9' * 5000}")[0] == "spec-yaml"


def test_ten_million_characters_are_not_read():
    assert refusal_of("virtualCluster: a\n# " + "x" * 10_000_000)[1] == f"longer than {LONGEST} characters"


@pytest.mark.parametrize("text", ["virtualCluster: " + "[" * 10_000, "a: &a [*a]\nvirtualCluster: *a"])
def test_hostile_nesting_is_refused(text):
    assert refusal_of(text)[0] == "spec-yaml"


def test_texts_quote_little_of_what_is_wrong():
    assert len(refusal(leafCellNumber="x" * 10_000)[1]) < 200


@pytest.mark.parametrize("part", ["[],", "1,", "{}\n- ", "''\r- ", "y\u2028- "])
def test_more_values_than_any_wish_has_are_not_read(part):
    assert refusal_of("virtualCluster: a\nx:\n- " + part * 2_000)[1] == "more than 512 lines and commas"


def test_a_group_has_no_more_sizes_than_machines_can_have():
    members = [{"podNumber": 1, "leafCellNumber": size} for size in range(1, 66)]
    kind, text = refusal(affinityGroup={"name": "g", "members": members})
    assert kind == "spec-member-sizes"
    assert text == "AffinityGroup.Members has more than 64 different LeafCellNumbers"


def test_a_groups_name_is_no_longer_than_any_name_in_kubernetes():
    members = [{"podNumber": 1, "leafCellNumber": 1}]
    kind, text = refusal(leafCellNumber=1, affinityGroup={"name": "g" * 254, "members": members})
    assert (kind, text) == ("spec-group-name-long", "AffinityGroup.Name is longer than 253 characters")
